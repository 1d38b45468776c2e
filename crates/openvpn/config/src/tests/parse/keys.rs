//! Keys behind a password, at the management socket and on smart cards.

use super::*;

#[test]
fn keys_behind_a_password() {
    let load = |path: &Path| match path.to_str() {
        Some("/etc/a.p12") => Ok(vec![0x30, 0xff, 0x00]),
        _ => load(path),
    };
    let read = |text: &str| parse("test.conf", format!("client\nremote a\n{text}").as_bytes(), &load);
    let tls = read("cd /etc\npkcs12 a.p12\naskpass pass\n").unwrap().config.tls;
    assert_eq!(tls.pkcs12.unwrap().text(), "MP8A");
    assert_eq!(tls.key_password, KeyPassword::File("/etc/pass".into()));
    assert!(tls.ca.is_none() && tls.identity.is_none());
    let tls = read("<pkcs12>\nMP\n8A\n</pkcs12>\nca ca.crt\naskpass\n").unwrap().config.tls;
    assert_eq!(tls.pkcs12.unwrap().text(), "MP8A");
    assert!(tls.ca.is_some() && tls.key_password == KeyPassword::Prompt);
    let encrypted = KEY.replace("PRIVATE", "ENCRYPTED PRIVATE");
    let tls = read(&format!("ca ca.crt\ncert cert.crt\n<key>\n{encrypted}</key>\n")).unwrap().config.tls;
    assert_eq!(tls.identity.unwrap().key.text(), encrypted);
    let failure = read("cd /etc\npkcs12 a.p12\ncert cert.crt\n").unwrap_err().to_string();
    assert!(failure.contains("test.conf:5: `cert` beside `pkcs12`"), "{failure}");
    assert!(read("<pkcs12>\n</pkcs12>\n").unwrap_err().to_string().contains("it is empty"));
}

#[test]
fn a_key_that_is_held_at_the_management_socket() {
    const SOCKET: &str =
        "client\nremote a\n<ca>\n-----BEGIN CERTIFICATE-----\n</ca>\nmanagement 127.0.0.1 7505\n";
    const CERT_BLOCK: &str = "<cert>\n-----BEGIN CERTIFICATE-----\n</cert>\n";
    let read = |text: &str| parse("test.conf", format!("{SOCKET}{text}").as_bytes(), &load);
    let identity = |text: &str| match read(text).expect("a good file").config.tls.external {
        Some(ExternalIdentity::Management(identity)) => identity,
        other => panic!("{text}: {other:?}"),
    };
    let given = identity(&format!("management-external-key\n{CERT_BLOCK}"));
    assert!(matches!(given.certificate, ManagementCertificate::Given(_)));
    assert_eq!(given.forms, SignatureForms { pkcs1: true, ..SignatureForms::default() }, "as OpenVPN");
    let asked = identity(
        "management-external-cert \"macosx-keychain:subject:o=x\"\nmanagement-external-key nopadding pss digest\n",
    );
    let hint = "macosx-keychain:subject:o=x".to_owned();
    assert_eq!(asked.certificate, ManagementCertificate::Asked { hint, extra: None });
    assert_eq!(asked.forms, SignatureForms { nopadding: true, pkcs1: false, pss: true, digest: true });
    for (text, words) in [
        ("management-external-key pkcs7\n", "write any of `nopadding`"),
        ("management-external-key\n", "`cert` is missing"),
        ("management-external-cert x\n", "write `management-external-key`"),
        ("management-external-key\n<key>\n-----BEGIN PRIVATE KEY-----\n</key>\n", "`key` beside"),
        (
            "management-external-key\nmanagement-external-cert x\n<cert>\n-----BEGIN CERTIFICATE-----\n</cert>\n",
            "`cert` beside `management-external-cert`",
        ),
    ] {
        let failure = read(text).expect_err(text).to_string();
        assert!(failure.contains(words), "{text}: {failure}");
    }
    let without = format!("client\nremote a\nca ca.crt\n{CERT_BLOCK}management-external-key\n");
    let failure = parse("test.conf", without.as_bytes(), &load).expect_err("no socket").to_string();
    assert!(failure.contains("`management`, which is missing"), "{failure}");
}

#[test]
fn a_key_on_a_smart_card() {
    const START: &str = "client\nremote a\n<ca>\n-----BEGIN CERTIFICATE-----\n</ca>\n";
    let read = |text: &str| parse("test.conf", format!("{START}{text}").as_bytes(), &load);
    let identity = |text: &str| match read(text).expect("a good file").config.tls.external {
        Some(ExternalIdentity::Pkcs11(identity)) => identity,
        other => panic!("{text}: {other:?}"),
    };
    let least = identity("pkcs11-id 'pkcs11:id=%01'\n");
    assert_eq!((least.id.as_deref(), least.pin_cache), (Some("pkcs11:id=%01"), None));
    assert_eq!(least.providers[0].path, Path::new(Pkcs11Provider::DEFAULT));
    let full = identity(
        "pkcs11-providers /a.so /b.so\npkcs11-id x\npkcs11-pin-cache 300\npkcs11-private-mode 1\n\
         pkcs11-protected-authentication 0 1\npkcs11-cert-private 1\n",
    );
    let provider = |path: &str, protected, private_certificates| Pkcs11Provider {
        path: path.into(),
        protected,
        private_certificates,
    };
    assert_eq!(full.providers, [provider("/a.so", false, true), provider("/b.so", true, false)]);
    assert_eq!(full.pin_cache, Some(std::time::Duration::from_secs(300)));
    assert_eq!(identity("pkcs11-id x\npkcs11-pin-cache -1\n").pin_cache, None);
    assert_eq!(identity("pkcs11-id-management\nmanagement 127.0.0.1 1\n").id, None);
    for (text, words) in [
        ("pkcs11-providers /a.so\n", "`openvpn --show-pkcs11-ids PROVIDER` shows"),
        ("pkcs11-id x\n<cert>\n-----BEGIN CERTIFICATE-----\n</cert>\n", "`cert` beside `pkcs11-id`"),
        ("pkcs11-id x\npkcs11-protected-authentication yes\n", "write `0` or `1`"),
        (
            "pkcs11-id x\nmanagement 127.0.0.1 1\nmanagement-external-key\n",
            "`management-external-key` beside",
        ),
        ("pkcs11-id-management\n", "`management`, which is missing"),
        ("pkcs11-id x\npkcs11-id-management\nmanagement 127.0.0.1 1\n", "`pkcs11-id-management` beside"),
    ] {
        let failure = read(text).expect_err(text).to_string();
        assert!(failure.contains(words), "{text}: {failure}");
    }
}

//! `plugin`: the modules whose work adit does itself.

use std::path::{Path, PathBuf};

use adit_pki::CertificateDemand;

use crate::*;

const MATERIAL: &str = "<ca>\n-----BEGIN CERTIFICATE-----\n</ca>\n<cert>\n-----BEGIN CERTIFICATE-----\n</cert>\n\
                        <key>\n-----BEGIN PRIVATE KEY-----\n</key>\n";

fn read(lines: &str) -> Parsed {
    let none = |_: &Path| Err("no such file".to_owned());
    let text = format!("server 10.8.0.0 255.255.255.0\n{lines}\n{MATERIAL}");
    parse("f", text.as_bytes(), &none).unwrap_or_else(|failure| panic!("{failure}"))
}

fn access(lines: &str) -> Access {
    let Role::Server(server) = read(lines).config.role else { panic!("a server") };
    server.access
}

fn pam(service: &str, answers: &[(&str, &str)]) -> PasswordBackEnd {
    let answers = answers.iter().map(|(question, answer)| ((*question).to_owned(), (*answer).to_owned()));
    PasswordBackEnd::Pam { service: service.to_owned(), answers: answers.collect() }
}

/// As OpenVPN's README.auth-pam, installers and distributions write them.
#[test]
fn lines_of_auth_pam() {
    let pairs = [("login", "USERNAME"), ("password", "PASSWORD")];
    for (line, expected) in [
        ("/usr/lib/openvpn/openvpn-auth-pam.so login", pam("login", &[])),
        ("/usr/lib/x86_64-linux-gnu/openvpn/plugins/openvpn-plugin-auth-pam.so openvpn", pam("openvpn", &[])),
        ("openvpn-plugin-auth-pam.so \"login login USERNAME password PASSWORD\"", pam("login", &pairs)),
        ("openvpn-plugin-auth-pam.so login login USERNAME password PASSWORD", pam("login", &pairs)),
        (
            "openvpn-plugin-auth-pam.so \"sshd 'one time' 'x OTP' pin PASSWORD\"",
            pam("sshd", &[("one time", "x OTP"), ("pin", "PASSWORD")]),
        ),
    ] {
        assert_eq!(access(&format!("plugin {line}")).back_ends, [expected], "{line}");
    }
}

#[test]
fn lines_of_auth_ldap() {
    let file = |lines: &str| match access(lines).back_ends.remove(0) {
        PasswordBackEnd::Ldap { file } => file,
        other => panic!("{other:?}"),
    };
    let module = "plugin /usr/lib/openvpn/openvpn-auth-ldap.so";
    assert_eq!(
        file(&format!("{module} /etc/openvpn/auth/ldap.conf")),
        PathBuf::from("/etc/openvpn/auth/ldap.conf")
    );
    assert_eq!(
        file(&format!("cd /etc/openvpn\n{module} ldap.conf")),
        PathBuf::from("/etc/openvpn/ldap.conf")
    );
    // Many pages on the web have it so; the module passes over the second word.
    let parsed = read(&format!("{module} \"/etc/openvpn/auth/ldap.conf login\""));
    assert!(parsed.warnings.iter().any(|warning| warning.to_string().contains("remove `login`")));
}

/// They need no `script-security`, as in OpenVPN.
#[test]
fn several_back_ends_beside_a_script() {
    let lines = "plugin openvpn-plugin-auth-pam.so openvpn\nplugin openvpn-auth-ldap.so /l.conf\n\
                 verify-client-cert none\nusername-as-common-name";
    let access = access(lines);
    assert_eq!(access.back_ends, [pam("openvpn", &[]), PasswordBackEnd::Ldap { file: "/l.conf".into() }]);
    assert!(access.verify.is_none() && access.username_as_name);
    assert_eq!(access.certificates, CertificateDemand::None);
}

/// A file that could do without an option cannot do without a judge.
#[test]
fn a_plugin_is_not_optional() {
    for lines in ["setenv opt plugin radiusplugin.so", "ignore-unknown-option plugin\nplugin radiusplugin.so"]
    {
        let none = |_: &Path| Err("no such file".to_owned());
        let text = format!("server 10.8.0.0 255.255.255.0\n{lines}\n{MATERIAL}");
        let failure = parse("f", text.as_bytes(), &none).expect_err(lines);
        assert!(failure.to_string().contains("`plugin` cannot be used"), "{failure}");
    }
}

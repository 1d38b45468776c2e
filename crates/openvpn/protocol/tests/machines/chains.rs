//! Certificate paths of more than one step, and what in `ca` a path may end at.
use adit_core::Transport;
use adit_openvpn::credentials::{self, Credentials};
use adit_openvpn::params::ServerParams;
use adit_openvpn::request::Event;
use adit_openvpn::testing::judged::asked;
use adit_openvpn::testing::{
    Authority, Pair, client_params, environment, requirements, serial, server_params,
};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{PeerRequirements, TlsConfig};
use adit_pki::{Purpose, Revocations};
use rcgen::ExtendedKeyUsagePurpose::{self, ClientAuth, ServerAuth};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, DnValue, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// A CA certificate, with the key to sign others.
struct Ca {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

fn params(name: &str, is_ca: IsCa) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = is_ca;
    params.serial_number = Some(SerialNumber::from(serial(name)));
    params
}

fn any_ca(name: &str) -> CertificateParams {
    params(name, IsCa::Ca(BasicConstraints::Unconstrained))
}

impl Ca {
    fn root(params: CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Ca { params, key, pem }
    }

    fn sign(&self, params: CertificateParams) -> Ca {
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).unwrap().pem();
        Ca { params, key, pem }
    }

    fn client(&self, usages: &[ExtendedKeyUsagePurpose]) -> Ca {
        let mut params = params("client", IsCa::NoCa);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        self.sign(params)
    }

    fn revoke(&self, name: &str) -> Vec<u8> {
        self.list_of(&self.params, name, [2025, 2027])
    }

    /// A list by this key and the authority that these parameters name, valid from one year to another.
    fn list_of(&self, issuer: &CertificateParams, name: &str, years: [i32; 2]) -> Vec<u8> {
        let [this_update, next_update] = years.map(|year| date_time_ymd(year, 1, 1));
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial(name)),
            revocation_time: date_time_ymd(2025, 6, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update,
            next_update,
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&Issuer::from_params(issuer, &self.key)).unwrap().pem().unwrap().into_bytes()
    }
}

/// Demands that no peer is on these lists, which follow each other in one file.
fn judged_by(lists: &[Vec<u8>]) -> PeerRequirements {
    let revocations = Some(Revocations::from_lists(&lists.concat()).unwrap());
    PeerRequirements { revocations, ..requirements() }
}

/// A server with that `ca` meets a client that shows these certificates, its own first.
fn meet(ca: &[&Ca], shown: &[&Ca], wanted: PeerRequirements) -> Pair {
    meet_with(ca, shown, wanted, |_| {})
}

/// The result of a handshake, with a change to the server.
fn meet_with(
    ca: &[&Ca],
    shown: &[&Ca],
    wanted: PeerRequirements,
    change: impl FnOnce(&mut ServerParams),
) -> Pair {
    let others = Authority::new();
    let identity = others.issue("server", ServerAuth);
    let text = |certificates: &[&Ca]| certificates.iter().map(|it| it.pem.as_str()).collect::<String>();
    let mut params = server_params(&identity, WrapConfig::Plain);
    let judging = Credentials { ca: text(ca).into_bytes(), ..identity.clone() };
    params.control.tls =
        TlsConfig::Server(credentials::server_tls(&judging, wanted, &environment()).unwrap());
    params.control.authorities = judging.authorities();
    change(&mut params);
    let client = Credentials {
        ca: identity.ca,
        certificate: text(shown).into_bytes(),
        private_key: shown[0].key.serialize_pem().into_bytes().into(),
    };
    Pair::new(client_params(&client, WrapConfig::Plain, Transport::Udp), params)
}

#[track_caller]
fn comes_in(pair: &Pair) {
    assert!(pair.is_up(), "{:?}", pair.server_events);
}

#[track_caller]
fn is_refused(pair: &Pair, words: &[&str]) {
    let has = |text: &str| words.iter().all(|word| text.contains(word));
    let reported = |event: &Event| matches!(event, Event::Report(report) if has(&report.text));
    assert!(!pair.is_up() && pair.server_events.iter().any(reported), "{words:?}: {:?}", pair.server_events);
}

#[test]
fn extended_key_usage_is_demanded_of_the_leaf_alone() {
    let root = Ca::root(any_ca("root"));
    let middle = root.sign(any_ca("middle"));
    let client = middle.client(&[ClientAuth]);
    comes_in(&meet(&[&root], &[&client, &middle], requirements()));
    let without = middle.client(&[]);
    comes_in(&meet(&[&root], &[&without, &middle], PeerRequirements::default()));
    is_refused(&meet(&[&root], &[&without, &middle], requirements()), &["extended key usage of a client"]);
}

/// A certificate that a peer shows beside those of its path is not taken for that of its issuer.
#[test]
fn scripts_are_told_who_issued_a_certificate() {
    let root = Ca::root(any_ca("root"));
    let [middle, other] = ["middle", "other"].map(|name| root.sign(any_ca(name)));
    let client = middle.client(&[ClientAuth]);
    let pair = meet_with(&[&root], &[&client, &other, &middle], requirements(), |server| {
        server.access.tls_verify = Some(vec!["/verify".to_owned()]);
    });
    let scripts = asked(&pair, "tls-verify");
    let subjects: Vec<&str> =
        scripts.iter().filter_map(|script| script.argv.last().map(String::as_str)).collect();
    assert_eq!(subjects, ["CN=root", "CN=middle", "CN=client"]);
}

/// Both programs refuse it, whatever is demanded.
#[test]
fn a_ca_with_another_extended_key_usage_alone_is_refused() {
    for at_the_root in [false, true] {
        let mut with_usage = any_ca("narrow");
        with_usage.extended_key_usages = vec![ServerAuth];
        let mut names = [with_usage, any_ca("wide")];
        names.rotate_right(usize::from(!at_the_root));
        let [first, second] = names;
        let root = Ca::root(first);
        let middle = root.sign(second);
        let client = middle.client(&[ClientAuth]);
        let words = ["CN=narrow", "extendedKeyUsage lacks clientAuth"];
        is_refused(&meet(&[&root], &[&client, &middle], PeerRequirements::default()), &words);
    }
}

#[test]
fn extended_key_usage_is_demanded_beside_a_fingerprint_alone() {
    let client = |usages| Ca::root(any_ca("root")).client(usages);
    for (usages, good) in [(&[ClientAuth][..], true), (&[], false), (&[ServerAuth], false)] {
        let client = client(usages);
        let wanted = PeerRequirements { fingerprints: vec![sha256(&client)], ..requirements() };
        assert_eq!(meet(&[], &[&client], wanted).is_up(), good, "{usages:?}");
    }
}

/// The fingerprint of a certificate.
fn sha256(certificate: &Ca) -> Vec<u8> {
    use rustls::pki_types::pem::PemObject as _;
    use sha2::{Digest as _, Sha256};

    let der = rustls::pki_types::CertificateDer::from_pem_slice(certificate.pem.as_bytes()).unwrap();
    Sha256::digest(&der).to_vec()
}

/// OpenVPN lets the client in, until the list is read again.
#[test]
fn a_list_is_consulted_beside_a_fingerprint_alone() {
    let root = Ca::root(any_ca("root"));
    let client = root.client(&[ClientAuth]);
    for (revoked, good) in [("another", true), ("client", false)] {
        let lists = judged_by(&[root.revoke(revoked)]);
        let wanted = PeerRequirements { fingerprints: vec![sha256(&client)], ..lists };
        assert_eq!(meet(&[], &[&client], wanted).is_up(), good, "{revoked}");
    }
}

#[test]
fn a_path_must_end_at_a_self_signed_certificate() {
    let root = Ca::root(any_ca("root"));
    let middle = root.sign(any_ca("middle"));
    let client = middle.client(&[ClientAuth]);
    is_refused(&meet(&[&middle], &[&client], requirements()), &["CN=middle", "CN=root", "add it"]);
    // The root that the peer shows is not trusted for that.
    is_refused(&meet(&[&middle], &[&client, &root], requirements()), &["CN=root"]);
    // With the root, that in `ca` completes the path.
    comes_in(&meet(&[&middle, &root], &[&client], requirements()));
}

#[test]
fn roots_are_judged() {
    type Change = fn(&mut CertificateParams);
    let cases: [(Change, &str); 5] = [
        (|root| root.not_after = date_time_ymd(2020, 1, 1), "expired at"),
        (|root| root.not_before = date_time_ymd(2030, 1, 1), "not valid before"),
        (|root| root.is_ca = IsCa::ExplicitNoCa, "basicConstraints CA:TRUE"),
        (|root| root.key_usages = vec![KeyUsagePurpose::CrlSign], "keyCertSign"),
        (|root| root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)), "pathlen"),
    ];
    for (change, words) in cases {
        let mut params = any_ca("root");
        change(&mut params);
        let root = Ca::root(params);
        let middle = root.sign(any_ca("middle"));
        let client = middle.client(&[ClientAuth]);
        is_refused(&meet(&[&root], &[&client, &middle], requirements()), &["CN=root", words]);
        // A root with the same name and key, renewed.
        let renewed = Ca {
            pem: any_ca("root").self_signed(&root.key).unwrap().pem(),
            params: any_ca("root"),
            key: KeyPair::generate().unwrap(),
        };
        comes_in(&meet(&[&root, &renewed], &[&client, &middle], requirements()));
    }
}

#[test]
fn intermediates_are_judged_and_named() {
    type Change = fn(&mut CertificateParams);
    let cases: [(Change, &str); 3] = [
        (|middle| middle.not_after = date_time_ymd(2020, 1, 1), "expired at"),
        (|middle| middle.is_ca = IsCa::NoCa, "basicConstraints CA:TRUE"),
        (|middle| middle.key_usages = vec![KeyUsagePurpose::CrlSign], "keyCertSign"),
    ];
    for (change, words) in cases {
        let root = Ca::root(any_ca("root"));
        let mut params = any_ca("middle");
        change(&mut params);
        let middle = root.sign(params);
        let client = middle.client(&[ClientAuth]);
        for (ca, shown) in [(vec![&root], vec![&client, &middle]), (vec![&root, &middle], vec![&client])] {
            is_refused(&meet(&ca, &shown, requirements()), &["CN=middle", words]);
        }
    }
}

#[test]
fn an_intermediate_in_ca_can_be_revoked() {
    let root = Ca::root(any_ca("root"));
    let middle = root.sign(any_ca("middle"));
    let client = middle.client(&[ClientAuth]);
    let revoking = |name| judged_by(&[root.revoke(name)]);
    for (ca, shown) in [(vec![&root], vec![&client, &middle]), (vec![&root, &middle], vec![&client])] {
        comes_in(&meet(&ca, &shown, revoking("another")));
        is_refused(&meet(&ca, &shown, revoking("middle")), &["CN=middle", "revoked"]);
    }
    let serials = Revocations::from_serials(serial("middle").to_string().as_bytes());
    let wanted = PeerRequirements { revocations: Some(serials), ..requirements() };
    is_refused(&meet(&[&root, &middle], &[&client], wanted), &["CN=middle", "revoked"]);
}

/// RFC 5280 §7.1: the authority's name is the same, though its bytes differ.
#[test]
fn a_list_holds_whose_issuer_is_encoded_in_another_way() {
    let root = Ca::root(any_ca("Example Root"));
    let client = root.client(&[ClientAuth]);
    for other in ["Example Root", "EXAMPLE  root "] {
        let mut issuer = any_ca("");
        issuer.distinguished_name = rcgen::DistinguishedName::new();
        issuer
            .distinguished_name
            .push(DnType::CommonName, DnValue::PrintableString(other.try_into().unwrap()));
        let list = |name| judged_by(&[root.list_of(&issuer, name, [2025, 2027])]);
        comes_in(&meet(&[&root], &[&client], list("another")));
        is_refused(&meet(&[&root], &[&client], list("client")), &["was revoked"]);
        // By its fingerprint alone, too.
        let by_fingerprint = |name| PeerRequirements { fingerprints: vec![sha256(&client)], ..list(name) };
        comes_in(&meet(&[], &[&client], by_fingerprint("another")));
        is_refused(&meet(&[], &[&client], by_fingerprint("client")), &["was revoked"]);
    }
}

#[test]
fn of_several_lists_the_newest_holds() {
    let root = Ca::root(any_ca("root"));
    let client = root.client(&[ClientAuth]);
    let list = |name, years| root.list_of(&root.params, name, years);
    let old = list("client", [2024, 2025]);
    let new = list("another", [2025, 2027]);
    for lists in [[old.clone(), new.clone()], [new, old.clone()]] {
        comes_in(&meet(&[&root], &[&client], judged_by(&lists)));
    }
    is_refused(&meet(&[&root], &[&client], judged_by(&[old])), &["was revoked"]);
    is_refused(&meet(&[&root], &[&client], judged_by(&[list("another", [2024, 2025])])), &["expired"]);
    is_refused(
        &meet(&[&root], &[&client], judged_by(&[list("another", [2028, 2029])])),
        &["not valid before"],
    );
    // An authority that has a new key: each key's list is for the certificates that it signed.
    let new_key = Ca::root(any_ca("root"));
    let lists = [root.revoke("another"), new_key.revoke("client")];
    comes_in(&meet(&[&root, &new_key], &[&client], judged_by(&lists)));
    let [a, b] = lists;
    comes_in(&meet(&[&root, &new_key], &[&client], judged_by(&[b.clone(), a])));
    is_refused(&meet(&[&root, &new_key], &[&client], judged_by(&[b])), &["CN=root", "not signed by that CA"]);
}

#[test]
fn a_list_of_a_ca_that_must_not_sign_lists_lets_nobody_in() {
    let mut params = any_ca("root");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = Ca::root(params);
    let client = root.client(&[ClientAuth]);
    let signer = Ca {
        params: any_ca("root"),
        key: KeyPair::from_pem(&root.key.serialize_pem()).unwrap(),
        pem: String::new(),
    };
    let wanted = judged_by(&[signer.revoke("another")]);
    is_refused(&meet(&[&root], &[&client], wanted), &["CN=root", "cRLSign"]);
    comes_in(&meet(&[&root], &[&client], requirements()));
}

#[test]
fn what_is_wrong_with_a_path_is_said_in_words() {
    let root = Ca::root(any_ca("root"));
    let namesake = Ca::root(any_ca("root"));
    let client = namesake.client(&[ClientAuth]);
    is_refused(&meet(&[&root], &[&client], requirements()), &["another CA has the same name"]);
    let ca = root.sign(any_ca("client"));
    is_refused(&meet(&[&root], &[&ca], PeerRequirements::default()), &["that of a CA"]);
    let mut narrow = any_ca("narrow");
    let permitted = vec![rcgen::GeneralSubtree::DnsName("example.org".to_owned())];
    narrow.name_constraints =
        Some(rcgen::NameConstraints { permitted_subtrees: permitted, excluded_subtrees: Vec::new() });
    let narrow = root.sign(narrow);
    let mut client = params("client", IsCa::NoCa);
    client.subject_alt_names = vec![rcgen::SanType::DnsName("vpn.example.com".try_into().unwrap())];
    let client = narrow.sign(client);
    let pair = meet(&[&root], &[&client, &narrow], PeerRequirements::default());
    is_refused(&pair, &["nameConstraints"]);
}

#[test]
fn a_key_usage_that_cannot_shake_hands_is_refused() {
    let root = Ca::root(any_ca("root"));
    let mut params = params("client", IsCa::NoCa);
    params.key_usages = vec![KeyUsagePurpose::DataEncipherment];
    params.extended_key_usages = vec![ClientAuth];
    let client = root.sign(params);
    is_refused(&meet(&[&root], &[&client], PeerRequirements::default()), &["digitalSignature"]);
}

/// As in OpenVPN, a peer's own certificate may stand in `ca`; it need not be a CA then.
#[test]
fn a_peers_own_certificate_may_stand_in_ca() {
    let alone = |is_ca| {
        let mut params = params("client", is_ca);
        params.extended_key_usages = vec![ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ca::root(params)
    };
    let client = alone(IsCa::ExplicitNoCa);
    comes_in(&meet(&[&client], &[&client], requirements()));
    let serials = Revocations::from_serials(serial("client").to_string().as_bytes());
    let wanted = PeerRequirements { revocations: Some(serials), ..requirements() };
    is_refused(&meet(&[&client], &[&client], wanted), &["was revoked"]);
    // It does not make others good.
    is_refused(
        &meet(&[&client], &[&client.client(&[ClientAuth])], requirements()),
        &["CN=client", "is no CA"],
    );
}

/// OpenSSL refuses them as well (`EXFLAG_INVALID`). Taken for absent, they would allow everything.
#[test]
fn an_extension_that_cannot_be_read_is_no_absent_one() {
    use rcgen::CustomExtension;

    let broken = CustomExtension::from_oid_content(&[2, 5, 29, 15], vec![0x30, 0]);
    for place in 0..3 {
        let mut params = [any_ca("root"), any_ca("middle"), params("client", IsCa::NoCa)];
        params[2].extended_key_usages = vec![ClientAuth];
        params[place].custom_extensions.push(broken.clone());
        let [root, middle, client] = params;
        let root = Ca::root(root);
        let middle = root.sign(middle);
        let client = middle.sign(client);
        let words = [
            ["CN=root", "cannot be read"],
            ["CN=middle", "cannot be read"],
            ["certificate", "cannot be read"],
        ];
        is_refused(&meet(&[&root], &[&client, &middle], PeerRequirements::default()), &words[place]);
    }
}

#[test]
fn what_no_path_can_use_is_reported_at_the_start() {
    let root = Ca::root(any_ca("root"));
    let middle = root.sign(any_ca("middle"));
    let mut old = any_ca("old");
    old.not_after = date_time_ymd(2020, 1, 1);
    let old = Ca::root(old);
    let warnings = |ca: &[&Ca]| {
        let ca = ca.iter().map(|it| it.pem.as_str()).collect::<String>().into_bytes();
        let own = Credentials { ca, certificate: Vec::new(), private_key: Vec::new().into() };
        let now = environment().time.current_time().unwrap();
        credentials::warnings(&own, Purpose::Client, now, None)
    };
    assert_eq!(warnings(&[&root, &middle]), [""; 0]);
    let [one] = &warnings(&[&root, &old])[..] else { panic!("one warning expected") };
    assert!(one.contains("CN=old") && one.contains("expired"), "{one}");
    let [one] = &warnings(&[&middle])[..] else { panic!("one warning expected") };
    assert!(one.contains("CN=middle") && one.contains("CN=root"), "{one}");
}

#[test]
fn a_list_of_another_authority_is_reported() {
    let [root, other] = ["root", "other"].map(|name| Ca::root(any_ca(name)));
    let warnings = |list: Vec<u8>| {
        credentials::warnings_of_lists(root.pem.as_bytes(), &Revocations::from_lists(&list).unwrap())
    };
    assert_eq!(warnings(root.revoke("client")), [""; 0]);
    let [one] = &warnings([root.revoke("client"), other.revoke("client")].concat())[..] else {
        panic!("one warning expected")
    };
    assert!(one.contains("list of CN=other") && one.contains("ca holds CN=root"), "{one}");
}

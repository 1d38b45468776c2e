//! EAP beside strongSwan: names and passwords, and certificates in TLS.

use super::authority::{Authority, P256};
use super::bed::{
    Certified, End, Program, ROLES, Settings, WAIT, at_once, is_newer_ready, is_ready, joined, roles, row_of,
};

/// strongSwan's plugins: the usual ones of these tests, and those of EAP.
const DAEMON: &str = "load = random nonce openssl kdf pem pkcs1 pkcs8 x509 pubkey constraints revocation eap-identity eap-mschapv2 kernel-libipsec \
                      kernel-netlink socket-default vici";

/// Two ends whose initiator has that name and `secret`. The responder has a certificate, and knows carol.
fn ends(programs: [Program; 2], certificates: &[Certified; 2], user: (&str, &str)) -> [End; 2] {
    let certificates = Some(certificates.clone());
    let ends = joined(programs, &Settings { certificates, daemon: DAEMON, ..Settings::default() });
    let (name, secret) = user;
    let initiator = format!("local {{\n auth = eap-mschapv2\n eap_id = {name}");
    let changes = [
        (
            "remote {\n auth = pubkey",
            "remote {\n auth = eap-mschapv2\n eap_id = %any",
            "carol",
            "pa\u{df}wort 1",
        ),
        ("local {\n auth = pubkey\n certs = own.pem", initiator.as_str(), name, secret),
    ];
    for (end, (before, after, name, secret)) in ends.iter().zip(changes) {
        let text = std::fs::read_to_string(end.path(&end.file_name())).unwrap();
        let secrets = format!("secrets {{\n eap-1 {{\n id = {name}\n secret = {secret}\n }}\n");
        let text = text.replace(before, after).replace("secrets {\n", &secrets);
        end.put(&end.file_name(), &text);
    }
    ends
}

fn certificates() -> [Certified; 2] {
    let authority = Authority::new(P256);
    ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority))
}

#[test]
fn a_name_and_a_password_authenticate_the_initiator() {
    if !is_ready("ipsec EAP-MSCHAPv2") {
        return;
    }
    let certificates = certificates();
    at_once(ROLES, |programs| {
        row_of("EAP-MSCHAPv2", programs, |_| {
            let mut ends = ends(programs, &certificates, ("carol", "pa\u{df}wort 1"));
            ends.iter_mut().for_each(End::start_with_vici);
            ends[1].reaches(&ends[0]);
            ends[0].reaches(&ends[1]);
            let sas = ends[0].sas();
            assert!(sas.contains("remote-eap-id=carol"), "{sas}");
        });
    });
}

#[test]
fn a_wrong_password_and_an_unknown_name_are_refused() {
    if !is_ready("ipsec EAP-MSCHAPv2 refused") {
        return;
    }
    let certificates = certificates();
    let rows = [
        ("wrong password", ROLES[0], ("carol", "guess")),
        ("wrong password", ROLES[1], ("carol", "guess")),
        ("unknown name", ROLES[0], ("dave", "pa\u{df}wort 1")),
        ("unknown name", ROLES[1], ("dave", "pa\u{df}wort 1")),
    ];
    at_once(rows, |(name, programs, user)| {
        row_of(&format!("EAP-MSCHAPv2, {name}"), programs, |_| {
            let mut ends = ends(programs, &certificates, user);
            ends.iter_mut().for_each(End::start);
            let (adit, line) = if programs[0] == Program::Adit {
                (0, "did not prove its name by EAP")
            } else {
                (1, "it refuses the ")
            };
            ends[adit].process().wait_for_line(0, line, WAIT).unwrap();
            assert!(!ends[1].is_answered(&ends[0]));
        });
    });
}

/// strongSwan's plugins for EAP-TLS.
const DAEMON_OF_TLS: &str = "load = random nonce openssl kdf pem pkcs1 pkcs8 x509 pubkey constraints revocation eap-identity eap-tls kernel-libipsec \
                             kernel-netlink socket-default vici";
/// These plugins with TLS 1.3, which the older strongSwan has in a form before RFC 9190.
const DAEMON_OF_TLS_13: &str = "load = random nonce openssl kdf pem pkcs1 pkcs8 x509 pubkey constraints revocation eap-identity eap-tls kernel-libipsec \
                                kernel-netlink socket-default vici\n tls {\n version_max = 1.3\n }";

/// The responder's proof in IKE.
#[derive(Clone, Copy, PartialEq)]
enum Proof {
    Certificate,
    EapAlone,
}

/// Two ends with certificates, whose initiator has `auth = eap-tls`.
fn tls_ends(programs: [Program; 2], certificates: &[Certified; 2], proof: Proof) -> [End; 2] {
    let certificates = Some(certificates.clone());
    let has_tls_13 = programs.contains(&Program::NewerStrongSwan);
    let daemon = if has_tls_13 { DAEMON_OF_TLS_13 } else { DAEMON_OF_TLS };
    let ends = joined(programs, &Settings { certificates, daemon, ..Settings::default() });
    for (end, section) in ends.iter().zip(["remote", "local"]) {
        let text = std::fs::read_to_string(end.path(&end.file_name())).unwrap();
        let (before, after) = match proof {
            Proof::Certificate => {
                (format!("{section} {{\n auth = pubkey"), format!("{section} {{\n auth = eap-tls"))
            }
            Proof::EapAlone => ("auth = pubkey".to_owned(), "auth = eap-tls".to_owned()),
        };
        end.put(&end.file_name(), &text.replace(&before, &after));
    }
    ends
}

fn tls_row(name: &str, programs: [Program; 2], proof: Proof) {
    let certificates = certificates();
    row_of(name, programs, |_| {
        let mut ends = tls_ends(programs, &certificates, proof);
        ends.iter_mut().for_each(End::start);
        ends[1].reaches(&ends[0]);
        ends[0].reaches(&ends[1]);
        let newer = ends.iter().position(|end| end.program == Program::NewerStrongSwan);
        if let Some(newer) = newer {
            ends[newer].process().wait_for_line(0, "negotiated TLS 1.3", WAIT).unwrap();
        }
    });
}

#[test]
fn a_certificate_by_eap_tls_authenticates_the_initiator_and_both_ends() {
    if !is_ready("ipsec EAP-TLS") {
        return;
    }
    let proofs = [Proof::Certificate, Proof::EapAlone];
    let rows = proofs.into_iter().flat_map(|proof| ROLES.map(|roles| (roles, proof)));
    at_once(rows, |(programs, proof)| {
        let name = if proof == Proof::EapAlone { "EAP-TLS alone" } else { "EAP-TLS" };
        tls_row(name, programs, proof);
    });
}

#[test]
fn eap_tls_with_tls_1_3_beside_the_newer_strongswan() {
    if !is_newer_ready("ipsec EAP-TLS with TLS 1.3 beside unstable's strongSwan") {
        return;
    }
    at_once(roles(Program::NewerStrongSwan), |programs| {
        tls_row("EAP-TLS with TLS 1.3", programs, Proof::EapAlone);
    });
}

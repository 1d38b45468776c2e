//! The files that the commands on a server's directory leave behind: certificates, keys, the index, the list of revoked
//! certificates. `setup_faults.rs` has the files that a fault at any write leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adit_ike_adapter::Ipsec;
use adit_openvpn_adapter::OpenVpn;
use adit_pki::inspect;
use adit_pki::issue::{Authority, Serial};
use adit_setup::{
    AUTHORITY, ClientName, Directory, Endpoint, Index, Proto, Protocols, Reach, SetupError, SystemUser,
    Wanted, random,
};
use adit_testbed::Scratch;
use adit_wireguard_adapter::WireGuard;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use time::OffsetDateTime;

const PROTOCOLS: Protocols = Protocols { certificate: &OpenVpn, key: &WireGuard, native: &Ipsec };
/// The list of revoked certificates, and the index.
const REVOKED: &str = "crl.pem";
const INDEX: &str = "pki/index.json";
/// The common name of the server's certificate.
const SERVER_NAME: &str = "adit-server";

/// The text that a configuration has inline for a directive.
fn block<'a>(configuration: &'a str, directive: &str) -> Option<&'a str> {
    let (_, rest) = configuration.split_once(&format!("<{directive}>\n"))?;
    Some(rest.split_once(&format!("</{directive}>"))?.0)
}

/// The authority of a directory.
fn authority(dir: &Path) -> Authority {
    let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    Authority::load(&text(AUTHORITY), &text("pki/ca.key")).unwrap()
}

fn serial() -> Serial {
    Serial::from_random(*random::<16>().unwrap())
}

/// A server's directory with a client `alice`; copies of her profile and of server.conf are `kept.ovpn` and `kept.conf`.
fn made() -> (Scratch, PathBuf) {
    let scratch = Scratch::create("setup").unwrap();
    let dir = scratch.path().join("vpn");
    let endpoint = Endpoint { host: "vpn.example".into(), port: 1194 };
    let user = SystemUser { name: "nobody".to_owned(), group: "nogroup".to_owned() };
    let (proto, reach) = (Proto::Udp, Reach::default());
    let wanted = Wanted { endpoint: &endpoint, proto, user: &user, reach: &reach, keys: None, native: None };
    Directory::create(&dir, PROTOCOLS, &wanted).unwrap();
    open(&dir).add_client(&alice()).unwrap();
    fs::copy(profile(&dir), dir.join("kept.ovpn")).unwrap();
    fs::copy(dir.join("server.conf"), dir.join("kept.conf")).unwrap();
    (scratch, dir)
}

fn open(dir: &Path) -> Directory {
    Directory::open(dir, PROTOCOLS).unwrap()
}

fn alice() -> ClientName {
    "alice".parse().unwrap()
}

fn profile(dir: &Path) -> PathBuf {
    dir.join("clients/alice.ovpn")
}

fn is_shut_out(dir: &Path) -> bool {
    let judged = judge(dir, &fs::read_to_string(dir.join("kept.ovpn")).unwrap(), true);
    judged.is_err_and(|why| why.contains("Revoked"))
}

/// Both certificates are good; the new one is another, has another key, and is in the index.
fn check_renewed(dir: &Path, new: &Path, old: &Path) {
    let client = new == profile(dir);
    let [new, old] = [new, old].map(|path| fs::read_to_string(path).unwrap());
    for directive in ["cert", "key"] {
        assert_ne!(block(&new, directive), block(&old, directive));
    }
    let index = Index::parse(&fs::read_to_string(dir.join(INDEX)).unwrap(), PROTOCOLS.key).unwrap();
    for text in [&new, &old] {
        assert_eq!(judge(dir, text, client), Ok(()));
        assert!(index.has_serial(&inspect::serial(block(text, "cert").unwrap()).unwrap()));
    }
}

/// The certificate in pki/ca.crt is in both configurations and is another than before; a peer that has either of them
/// trusts the certificates of both ends.
fn check_authority(dir: &Path) {
    let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let authority = text(AUTHORITY);
    let pairs = [("server.conf", "kept.conf", false), ("clients/alice.ovpn", "kept.ovpn", true)];
    for (new, old, client) in pairs.map(|(new, old, client)| (text(new), text(old), client)) {
        assert_eq!(block(&new, "ca").unwrap(), authority);
        assert_ne!(block(&old, "ca").unwrap(), authority);
        assert_eq!(block(&new, "cert"), block(&old, "cert"));
        for text in [new, old] {
            assert_eq!(judge(dir, &text, client), Ok(()));
        }
    }
}

/// The judgement of rustls on the certificate in a configuration: its key, its issuer, and whether it is
/// revoked.
fn judge(dir: &Path, configuration: &str, client: bool) -> Result<(), String> {
    let pem = |directive| block(configuration, directive).unwrap().as_bytes();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = CertificateDer::from_pem_slice(pem("cert")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem("key")).unwrap();
    rustls::sign::CertifiedKey::from_der(vec![certificate.clone()], key, &provider)
        .map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem("ca")).unwrap()).unwrap();
    let list = CertificateRevocationListDer::from_pem_file(dir.join(REVOKED)).unwrap();
    let now = UnixTime::now();
    let judged = if client {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        let verifier = verifier.with_crls([list]).build().unwrap();
        verifier.verify_client_cert(&certificate, &[], now).map(|_| ())
    } else {
        use rustls::client::danger::ServerCertVerifier as _;
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        let verifier = verifier.with_crls([list]).build().unwrap();
        verifier.verify_server_cert(&certificate, &[], &SERVER_NAME.try_into().unwrap(), &[], now).map(|_| ())
    };
    judged.map_err(|error| format!("{error:?}"))
}

#[test]
fn a_renewed_end_has_another_certificate_and_key() {
    let (_scratch, dir) = made();
    open(&dir).renew(&[]).unwrap();
    check_renewed(&dir, &dir.join("server.conf"), &dir.join("kept.conf"));
    open(&dir).renew(&[alice()]).unwrap();
    check_renewed(&dir, &profile(&dir), &dir.join("kept.ovpn"));
}

/// The list's next update moves on, and `revoke` shuts out the old certificate together with the new one.
#[test]
fn renewed_clients_are_revoked_with_all_their_certificates() {
    let (_scratch, dir) = made();
    let list = fs::read(dir.join(REVOKED)).unwrap();
    let server = fs::read_to_string(dir.join("server.conf")).unwrap();
    open(&dir).renew(&[alice()]).unwrap();
    assert_ne!(fs::read(dir.join(REVOKED)).unwrap(), list, "a new list");
    assert_eq!(fs::read_to_string(dir.join("server.conf")).unwrap(), server, "only the client was named");
    let renewed = fs::read_to_string(profile(&dir)).unwrap();
    open(&dir).revoke(&alice()).unwrap();
    assert!(is_shut_out(&dir) && !profile(&dir).exists());
    assert!(judge(&dir, &renewed, true).is_err_and(|why| why.contains("Revoked")));
    assert!(matches!(open(&dir).renew(&[alice()]), Err(SetupError::NoSuchClient(_))));
}

/// A revocation that was interrupted is completed by the next command of any kind, which says so.
#[test]
fn the_next_command_completes_a_revocation() {
    let (_scratch, dir) = made();
    let before = fs::read(dir.join(REVOKED)).unwrap();
    open(&dir).revoke(&alice()).unwrap();
    fs::write(dir.join(REVOKED), before).unwrap();
    assert!(!is_shut_out(&dir));
    let mut directory = open(&dir);
    assert!(is_shut_out(&dir));
    let notes = directory.notes();
    assert!(notes.len() == 1 && notes[0].contains("listed alice; it does now"), "{notes:?}");
    assert!(!directory.revoke(&alice()).unwrap(), "it was revoked already");
}

/// When the list in force expires.
fn next_update(dir: &Path) -> OffsetDateTime {
    use x509_parser::prelude::{CertificateRevocationList, FromDer as _};
    let der = CertificateRevocationListDer::from_pem_file(dir.join(REVOKED)).unwrap();
    let (_, list) = CertificateRevocationList::from_der(&der).unwrap();
    list.next_update().unwrap().to_datetime()
}

/// Each of them puts off the day on which the list expires, from which on all clients would be refused.
#[test]
fn revoke_and_renew_put_off_the_end_of_the_list() {
    let commands: [fn(&mut Directory); 4] = [
        |directory| assert!(directory.revoke(&alice()).unwrap()),
        |directory| drop(directory.renew(&[]).unwrap()),
        |directory| drop(directory.renew(&[alice()]).unwrap()),
        |directory| drop(directory.renew_authority().unwrap()),
    ];
    for (number, command) in commands.into_iter().enumerate() {
        let (_scratch, dir) = made();
        let now = OffsetDateTime::now_utc();
        let old = authority(&dir).revocation_list(9, Vec::new(), now - time::Duration::days(3600)).unwrap();
        fs::write(dir.join(REVOKED), old).unwrap();
        assert!(next_update(&dir) < now + time::Duration::days(60));
        command(&mut open(&dir));
        assert!(next_update(&dir) > now + time::Duration::days(3600), "command {number}");
    }
}

#[test]
fn a_renewed_authority_is_in_both_configurations() {
    let (_scratch, dir) = made();
    open(&dir).renew_authority().unwrap();
    check_authority(&dir);
}

/// An authority about to expire, with others beside it in `ca`: its certificate alone is replaced, and ends later.
#[test]
fn a_renewed_authority_lasts_longer_and_leaves_others_alone() {
    let (_scratch, dir) = made();
    let now = OffsetDateTime::now_utc();
    let mut authority = authority(&dir);
    let young = authority.certificate().to_owned();
    authority.renew(&serial(), now - time::Duration::days(3600)).unwrap();
    let other = Authority::create("adit CA 00000000", &serial(), now).unwrap().certificate().to_owned();
    let server = fs::read_to_string(dir.join("server.conf")).unwrap();
    let both = format!("{}{other}", authority.certificate());
    fs::write(dir.join("server.conf"), server.replace(&young, &both)).unwrap();
    fs::write(dir.join(AUTHORITY), authority.certificate()).unwrap();
    // A profile from another authority is none of ours.
    fs::write(dir.join("clients/other.ovpn"), format!("<ca>\n{other}</ca>\n")).unwrap();

    let renewed = open(&dir).renew_authority().unwrap();
    assert!(renewed.old_end.unwrap() < now + time::Duration::days(60));
    assert!(renewed.end.unwrap() > now + time::Duration::days(3600));
    let names: Vec<_> =
        renewed.files.iter().map(|path| path.strip_prefix(&dir).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, [AUTHORITY, "server.conf", "clients/alice.ovpn"]);
    let fresh = fs::read_to_string(dir.join(AUTHORITY)).unwrap();
    let server = fs::read_to_string(dir.join("server.conf")).unwrap();
    assert_eq!(block(&server, "ca").unwrap().trim_end(), format!("{fresh}{other}").trim_end());
    assert_eq!(judge(&dir, &server, false), Ok(()));
    // Certificates that are issued from now on come with the new authority.
    open(&dir).add_client(&"bob".parse().unwrap()).unwrap();
    let bob = fs::read_to_string(dir.join("clients/bob.ovpn")).unwrap();
    assert_eq!((block(&bob, "ca").unwrap(), judge(&dir, &bob, true)), (fresh.as_str(), Ok(())));
}

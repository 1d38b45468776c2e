//! `https://`: Debian's stunnel speaks TLS in front of adit's server.

use std::path::{Path, PathBuf};

use adit_testbed::{Process, can_run, program, wait_until};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::super::bed::{End, PROGRAMS, Program, joined};
use super::super::files::up;
use super::{LONG, TCP, allowed, file, reaches, start_server, status};

/// Where stunnel listens.
const TLS: u16 = 8444;
const SERVER: &str = "10.9.0.1:8444";
const STUNNEL: &str = "stunnel4";

/// The files of an authority's certificate, and of a server's that it issued with its key.
struct Files {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

/// A new authority, and a certificate of it for that name or address.
fn issue(end: &End, authority: &str, name: &str) -> Files {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, authority);
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::from_params(&params, &key);
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&own_key, &issuer).unwrap();
    let write = |what: &str, text: &str| end.scratch.write(&format!("{authority}-{what}"), text).unwrap();
    Files {
        authority: write("ca.pem", &params.self_signed(&key).unwrap().pem()),
        certificate: write("server.pem", &own.pem()),
        key: write("server.key", &own_key.serialize_pem()),
    }
}

fn start_stunnel(server: &End, files: &Files) -> Process {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let service =
        format!("accept = {SERVER}\nconnect = 127.0.0.1:{TCP}\ncert = {certificate}\nkey = {key}\n");
    let text = format!("foreground = yes\npid =\n[wireguard]\n{service}");
    let mut command = program(STUNNEL).unwrap();
    command.arg(server.scratch.write("stunnel.conf", &text).unwrap());
    let process = server.namespace.spawn("stunnel", command).unwrap();
    let listens = || server.namespace.is_bound(true, TLS).unwrap_or(false);
    wait_until("stunnel to listen", LONG, listens)
        .unwrap_or_else(|error| panic!("{error}\n{}", process.log()));
    process
}

fn start_client([server, client]: &[End; 2], authority: &Path) -> Process {
    let tls = format!("#adit: tcp = https://{SERVER}/vpn\n#adit: tcp-ca = {}", authority.display());
    let of_peer = format!("{}\n{tls}\nPersistentKeepalive = 1", allowed(server));
    up(client, &[&file(client, server, "", &of_peer)])
}

#[test]
fn a_client_reaches_a_server_behind_tls_again_and_again() {
    let needs = [PROGRAMS[0], STUNNEL];
    if !can_run("a_client_reaches_a_server_behind_tls_again_and_again", &needs) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [server, client] = &ends;
    let files = issue(server, "authority", "10.9.0.1");
    let mut at_server = start_server(&ends, "");
    let mut stunnel = start_stunnel(server, &files);
    let mut at_client = start_client(&ends, &files.authority);
    reaches(client, server, [&at_server, &at_client]);
    server.reaches(client);
    assert_eq!(client.endpoint(server), SERVER);
    let status = status(client);
    assert_eq!(status["peers"][0]["transport"], "tcp", "{status:#}");
    // The connection ends with stunnel, and the client comes again.
    let before = at_client.mark();
    let _ = stunnel.terminate(LONG).unwrap();
    at_client.wait_for_line(before, "the connection broke", LONG).unwrap();
    let mut stunnel = start_stunnel(server, &files);
    reaches(client, server, [&at_server, &at_client]);
    for process in [&mut at_client, &mut at_server] {
        assert!(process.terminate(LONG).unwrap().success(), "{}", process.log());
    }
    let _ = stunnel.terminate(LONG).unwrap();
}

#[test]
fn a_server_without_a_right_certificate_is_not_spoken_to() {
    let needs = [PROGRAMS[0], STUNNEL];
    if !can_run("a_server_without_a_right_certificate_is_not_spoken_to", &needs) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [server, client] = &ends;
    let (right, other) = (issue(server, "right", "10.9.0.1"), issue(server, "other", "10.9.0.2"));
    let _at_server = start_server(&ends, "");
    let mut stunnel = start_stunnel(server, &other);
    for (authority, reason) in [
        (&right.authority, "its certificate is of no authority in "),
        (&other.authority, "its certificate is not for that name"),
    ] {
        let mut at_client = start_client(&ends, authority);
        at_client.wait_for_line(0, reason, LONG).unwrap();
        assert!(!client.is_answered(server.inner()), "{}", at_client.log());
        assert!(at_client.terminate(LONG).unwrap().success(), "{}", at_client.log());
    }
    let _ = stunnel.terminate(LONG).unwrap();
}

#[test]
fn authorities_that_cannot_be_read_are_told_before_anything_is_set_up() {
    if !can_run("authorities_that_cannot_be_read_are_told_before_anything_is_set_up", &PROGRAMS) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let mut at_client = start_client(&ends, Path::new("/nonexistent/ca.pem"));
    at_client.wait_for_line(0, ": tcp-ca: /nonexistent/ca.pem: ", LONG).unwrap();
    assert!(!at_client.wait(LONG).unwrap().success(), "{}", at_client.log());
}

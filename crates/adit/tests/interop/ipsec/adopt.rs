//! `adit adopt strongswan`: three installations of strongSwan that have peers are run by adit, and by strongSwan again. A stand-in for
//! systemd runs the unit, and `swanctl --load-all` after each start, as strongSwan's unit does.

use std::os::unix::fs::symlink;

use adit_testbed::{Scratch, connect, program};

use super::authority::{Authority, P256};
use super::bed::{CHARON, End, Program, Settings, WAIT, at_once, is_ready, joined, linked, row_of};
use crate::command_line::adopt::{NAMESPACES, stand_in};

/// strongSwan's own file. It has the settings of other tests, and the socket where `swanctl` looks.
const DAEMON: &str = "charon {\n load = random nonce openssl kdf pem pkcs1 pkcs8 x509 pubkey constraints revocation eap-identity eap-mschapv2 \
                      kernel-libipsec kernel-netlink socket-default vici\n install_virtual_ip = no\n plugins {\n kernel-libipsec {\n \
                      allow_peer_ts = yes\n }\n }\n filelog {\n stderr {\n default = 1\n flush_line = yes\n }\n }\n}\n";

/// An installation with its peers.
struct Installation {
    name: &'static str,
    gateway: End,
    peers: Vec<End>,
    /// The inner addresses of the peers.
    targets: &'static str,
    /// The inner address of the gateway.
    source: &'static str,
}

/// Two sites with a shared key. The installation initiates.
fn site() -> Installation {
    let ends = joined([Program::StrongSwan; 2], &Settings::default());
    let [peer, gateway] = ends;
    with_file_of(&gateway);
    let (targets, source) = ("10.77.1.1", "10.77.2.1");
    Installation { name: "PSK site", gateway, peers: vec![peer], targets, source }
}

/// Two sites with certificates. The peer initiates, and tries again where strongSwan has its socket before its connections.
fn certified() -> Installation {
    let authority = Authority::new(P256);
    let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
    let child = [String::new(), "close_action = start".to_owned()];
    let settings = Settings { certificates: Some(both.clone()), child, ..Settings::default() };
    let [gateway, peer] = joined([Program::StrongSwan, Program::Adit], &settings);
    with_file_of(&gateway);
    put_certificates(&gateway, &both[0].authority, Some((&both[0].certificate, &both[0].key)));
    let (targets, source) = ("10.77.2.1", "10.77.1.1");
    Installation { name: "certificates", gateway, peers: vec![peer], targets, source }
}

/// A gateway with a pool and passwords, and two clients.
fn road_warriors() -> Installation {
    let authority = Authority::new(P256);
    let server = authority.issue("end1.example", &authority);
    let suites = "version = 2\n proposals = aes256gcm16-prfsha384-x25519\n unique = replace";
    let [gateway, first] = linked([Program::StrongSwan, Program::Adit]);
    let second = End::create(3, Program::Adit);
    connect(&gateway.namespace, &["10.9.3.1/24"], &second.namespace, &["10.9.3.2/24"], "wire3").unwrap();
    gateway.put(
        "swanctl/swanctl.conf",
        &format!(
            "connections {{\n rw {{\n {suites}\n pools = v4\n local {{\n auth = pubkey\n certs = own.pem\n id = end1.example\n }}\n remote {{\n \
             auth = eap-mschapv2\n eap_id = %any\n }}\n children {{\n c {{\n esp_proposals = aes256gcm16\n local_ts = 10.77.1.0/24\n \
             remote_ts = dynamic\n }}\n }}\n }}\n}}\npools {{\n v4 {{\n addrs = 10.99.0.0/24\n }}\n}}\nsecrets {{\n eap-1 {{\n id = carol\n \
             secret = one\n }}\n eap-2 {{\n id = dave\n secret = two\n }}\n}}\n"
        ),
    );
    put_certificates(&gateway, &server.authority, Some((&server.certificate, &server.key)));
    for (peer, (near, name, secret)) in
        [&first, &second].into_iter().zip([("10.9.0.1", "carol", "one"), ("10.9.3.1", "dave", "two")])
    {
        let text = format!(
            "connections {{\n rw {{\n {suites}\n remote_addrs = {near}\n vips = 0.0.0.0\n local {{\n auth = eap-mschapv2\n id = {name}\n eap_id = \
             {name}\n }}\n remote {{\n auth = pubkey\n id = end1.example\n }}\n children {{\n c {{\n esp_proposals = aes256gcm16\n remote_ts = \
             10.77.1.0/24\n start_action = start\n close_action = start\n dpd_action = restart\n }}\n }}\n }}\n}}\nsecrets {{\n eap-1 {{\n id = \
             {name}\n secret = {secret}\n }}\n}}\n"
        );
        peer.write_text(&text, "", "");
        peer.put("x509ca/ca.pem", &server.authority);
    }
    let (targets, source) = ("10.99.0.1 10.99.0.2", "10.77.1.1");
    Installation { name: "road warriors", gateway, peers: vec![first, second], targets, source }
}

/// strongSwan's files lie in a folder of their own.
fn with_file_of(gateway: &End) {
    let text = std::fs::read_to_string(gateway.path(&gateway.file_name())).unwrap();
    gateway.put("swanctl/swanctl.conf", &text);
}

fn put_certificates(gateway: &End, authority: &str, own: Option<(&str, &str)>) {
    gateway.put("swanctl/x509ca/ca.pem", authority);
    if let Some((certificate, key)) = own {
        gateway.put("swanctl/x509/own.pem", certificate);
        gateway.put("swanctl/private/own.pem", key);
    }
}

fn run(stand_in: &Scratch, mut installation: Installation) {
    let Installation { name, gateway, peers, targets, source } = &mut installation;
    row_of(&format!("adopt, {name}"), [Program::Adit, Program::StrongSwan], |_| {
        gateway.put("swanctl/strongswan.conf", DAEMON);
        let mut shell = program("unshare").unwrap();
        shell.args(NAMESPACES).args(["sh", "-c", include_str!("adopt/steps")]);
        shell.arg(env!("CARGO_BIN_EXE_adit")).arg(stand_in.path()).env("DIRECTORY", gateway.path("swanctl"));
        shell.env("NEEDED", peers.len().to_string()).env("TARGETS", targets).env("SOURCE", source);
        shell.env("DEVICES", if peers.len() == 1 { "wire" } else { "wire wire3" });
        peers.iter_mut().for_each(End::start);
        let mut steps = gateway.namespace.spawn("adit adopt", shell).unwrap();
        let status = steps.wait(WAIT * 4).unwrap();
        let logs: Vec<String> = peers.iter().map(End::log).collect();
        assert!(status.success(), "{name}: {}\n====\n{}", steps.log(), logs.join("\n====\n"));
        for peer in peers.iter_mut().filter(|peer| peer.program == Program::StrongSwan) {
            let times = peer.process().count_lines(0, "] established between");
            assert_eq!(times, 3, "strongSwan, adit and strongSwan: one reconnect each\n{}", peer.log());
        }
    });
}

#[test]
fn installations_of_strongswan_with_peers_are_adopted_and_given_back() {
    if !is_ready("adopt strongSwan") {
        return;
    }
    let stand_in = stand_in();
    symlink(CHARON, stand_in.path().join("charon-systemd")).unwrap();
    at_once([site(), certified(), road_warriors()], |installation| run(&stand_in, installation));
}

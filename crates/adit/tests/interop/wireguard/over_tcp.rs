//! WireGuard over TCP: adit's ends with each other where UDP is blocked, and each with the other end of ProxyGuard, which
//! stands here as its source describes it (`over_tcp/proxyguard.rs`).

mod https;
mod proxyguard;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Capture, Namespace, PacketHeader, Process, can_run, program, wait_until, wait_until_reachable,
};
use serde_json::Value;

use super::bed::{End, PORT, PROGRAMS, Program, WAIT, joined};
use super::files::up;

/// Where servers listen.
const TCP: u16 = 8443;
const SERVER: &str = "10.9.0.1:8443";
/// The wait for a new connection is 1 s, then 2, 4, ...
const LONG: Duration = Duration::from_secs(90);

/// The file of an end, whose only peer is the other.
fn file(end: &End, other: &End, of_interface: &str, of_peer: &str) -> PathBuf {
    let key = std::fs::read_to_string(&end.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = {}/24, {}/64\n{of_interface}\n[Peer]\nPublicKey = {}\n{of_peer}\n",
        key.trim(),
        end.inner(),
        end.inner_v6(),
        other.public_key,
    );
    end.scratch.write(&format!("{}.conf", end.device), &text).unwrap()
}

fn allowed(other: &End) -> String {
    format!("AllowedIPs = {}/32, {}/128", other.inner(), other.inner_v6())
}

/// A server over TCP. Its client does not know the UDP port.
fn start_server([server, client]: &[End; 2], more: &str) -> Process {
    let listens = format!("ListenPort = {PORT}\n#adit: listen-tcp = {TCP}\n{more}");
    let adit = up(server, &[&file(server, client, &listens, &allowed(client))]);
    wait_until("the server", LONG, || server.namespace.is_bound(true, TCP).unwrap_or(false)).unwrap();
    adit
}

fn start_client([server, client]: &[End; 2], allowed: &str) -> Process {
    let tcp = format!("{allowed}\n#adit: tcp = http://{SERVER}/vpn");
    up(client, &[&file(client, server, "", &tcp)])
}

fn nft(namespace: &Namespace, words: &str) {
    let mut command = program("nft").unwrap();
    command.args(words.split(' '));
    namespace.run(command).unwrap();
}

fn block_udp(namespace: &Namespace) {
    nft(namespace, "add table inet block");
    nft(namespace, "add chain inet block out { type filter hook output priority 0 ; }");
    nft(namespace, "add rule inet block out oifname wire meta l4proto udp drop");
}

fn status(end: &End) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.args(["status", "--json", &end.device]);
    let mut all: Value = serde_json::from_str(&end.namespace.run(command).unwrap()).unwrap();
    all[0].take()
}

fn reaches(from: &End, to: &End, logs: [&Process; 2]) {
    for target in [to.inner(), to.inner_v6()] {
        if let Err(error) = wait_until_reachable(&from.namespace, target, LONG) {
            panic!("{error}\n{}\n{}", logs[0].log(), logs[1].log());
        }
    }
}

#[test]
fn where_udp_is_blocked_both_ends_meet_over_tcp_again_and_again() {
    if !can_run("where_udp_is_blocked_both_ends_meet_over_tcp_again_and_again", &[PROGRAMS[0], "nft"]) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [server, client] = &ends;
    ends.iter().for_each(|end| block_udp(&end.namespace));
    let mut at_server = start_server(&ends, "");
    let mut at_client = start_client(&ends, &format!("{}\nPersistentKeepalive = 1", allowed(server)));
    reaches(client, server, [&at_server, &at_client]);
    server.reaches(client);
    client.reaches(server);
    assert_eq!(client.endpoint(server), SERVER);
    for end in &ends {
        let status = status(end);
        assert_eq!(status["peers"][0]["transport"], "tcp", "{status:#}");
    }
    // The connection is reset, and the client comes again.
    nft(&client.namespace, "add rule inet block out tcp dport 8443 reject with tcp reset");
    at_client.wait_for_line(0, "the connection broke", LONG).unwrap();
    nft(&client.namespace, "flush chain inet block out");
    block_udp(&client.namespace);
    reaches(client, server, [&at_server, &at_client]);
    // So it does when the server begins anew.
    assert!(at_server.terminate(LONG).unwrap().success(), "{}", at_server.log());
    at_server = start_server(&ends, "");
    reaches(client, server, [&at_server, &at_client]);
    for mut process in [at_client, at_server] {
        assert!(process.terminate(LONG).unwrap().success(), "{}", process.log());
    }
}

/// The tunnel's own connection goes beside it, by the mark; all else goes into it.
#[test]
fn a_full_tunnel_over_tcp_leaks_nothing() {
    if !can_run("a_full_tunnel_over_tcp_leaks_nothing", &[PROGRAMS[0], "nft"]) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [server, client] = &ends;
    client.namespace.ip(&["route", "add", "default", "via", "10.9.0.1"]).unwrap();
    client.namespace.ip(&["-6", "route", "add", "default", "via", "fd00:9::1"]).unwrap();
    let mut at_server = start_server(&ends, "");
    let mut at_client = start_client(&ends, "AllowedIPs = 0.0.0.0/0, ::/0\nPersistentKeepalive = 1");
    // Until then the server, as the gateway, answers beside the tunnel.
    at_client.wait_for_line(0, "= connected", LONG).unwrap();
    let capture = Capture::start(&server.namespace, &["wire"], is_expected).unwrap();
    reaches(client, server, [&at_server, &at_client]);
    // No host has these addresses: packets for them are carried, and not answered.
    assert!(!client.is_answered("192.0.2.99".parse().unwrap()));
    assert!(!client.is_answered("2001:db8::99".parse().unwrap()));
    let leaked = capture.take();
    assert!(leaked.is_empty(), "{leaked:?}");
    for process in [&mut at_client, &mut at_server] {
        assert!(process.terminate(LONG).unwrap().success(), "{}", process.log());
    }
    assert!(!client.is_answered("192.0.2.99".parse().unwrap()));
    assert!(!capture.take().is_empty(), "the capture sees what goes beside a tunnel");
}

/// The tunnel's connection, and the packets that devices send by themselves: neighbours, groups.
fn is_expected(packet: &PacketHeader) -> bool {
    let is_link_local = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.is_unspecified() || address.is_multicast()
        }
        std::net::IpAddr::V4(_) => false,
    };
    match (packet.protocol, packet.port) {
        (6, TCP) => packet.destination.to_string() == "10.9.0.1",
        (58 | 0, _) => is_link_local(packet.source) || is_link_local(packet.destination),
        _ => false,
    }
}

/// ProxyGuard's client beside a WireGuard interface of UDP, towards adit's server.
fn clients_of_proxyguard(of_client: Program) {
    let ends = joined([Program::Adit, of_client]);
    let [server, client] = &ends;
    let at_server = start_server(&ends, "");
    let proxy = proxyguard::Client::start(&client.namespace, SERVER.parse().unwrap());
    client.start().unwrap();
    client.set_key();
    client.add_peer(server, None);
    client.wg(&format!("set DEV peer {} endpoint {}", server.public_key, proxy.address())).unwrap();
    client.bring_up();
    reaches(client, server, [&at_server, &at_server]);
    server.reaches(client);
    let status = status(server);
    assert_eq!(status["peers"][0]["transport"], "tcp", "{status:#}");
    drop(at_server);
}

#[test]
fn adits_server_takes_proxyguards_clients() {
    if !can_run("adits_server_takes_proxyguards_clients", &[PROGRAMS[0], "wireguard-go"]) {
        return;
    }
    for of_client in [Program::Adit, Program::WireGuardGoOfDebian] {
        clients_of_proxyguard(of_client);
    }
}

#[test]
fn adits_client_reaches_proxyguards_server() {
    if !can_run("adits_client_reaches_proxyguards_server", &[PROGRAMS[0], "wireguard-go"]) {
        return;
    }
    let ends = joined([Program::WireGuardGoOfDebian, Program::Adit]);
    let [server, client] = &ends;
    server.start().unwrap();
    server.set_key();
    server.add_peer(client, None);
    server.bring_up();
    let to = SocketAddr::from(([127, 0, 0, 1], PORT));
    let proxy = proxyguard::Server::start(&server.namespace, SERVER.parse().unwrap(), to);
    let at_client = start_client(&ends, &allowed(server));
    reaches(client, server, [&at_client, &at_client]);
    client.reaches(server);
    // Its server closes a connection that brings nothing for 60 s.
    proxy.close_all();
    reaches(client, server, [&at_client, &at_client]);
    assert!(proxy.accepted() >= 2);
}

#[test]
fn what_is_no_proxyguard_is_answered_and_bounded() {
    if !can_run("what_is_no_proxyguard_is_answered_and_bounded", &PROGRAMS) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [server, client] = &ends;
    let mut at_server = start_server(&ends, "");
    let connect = || TcpStream::connect(SERVER).unwrap();
    let ask = |request: &[u8]| {
        let mut stream = connect();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let answers = client.namespace.enter(|| {
        [
            ask(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            ask(b"\x16\x03\x01\x02\x00\x01"),
            ask(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
        ]
    });
    for (answer, expected) in answers.unwrap().iter().zip(["426 ", "400 ", "400 "]) {
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer:?}");
    }
    let _idle: Vec<TcpStream> = client.namespace.enter(|| (0..100).map(|_| connect()).collect()).unwrap();
    wait_until("a table that is full", LONG, || {
        let status = status(server);
        let tables = status["tables"].as_array().unwrap();
        tables.iter().any(|table| {
            table["name"] == "TCP connections without a peer"
                && table["entries"].as_u64().unwrap() <= 64
                && table["evicted"] == 36
        })
    })
    .unwrap();
    // They keep no peer out.
    let at_client = start_client(&ends, &allowed(server));
    reaches(client, server, [&at_server, &at_client]);
    assert!(at_server.terminate(LONG).unwrap().success(), "{}", at_server.log());
}

#[test]
fn several_workers_carry_peers_over_tcp() {
    if !can_run("several_workers_carry_peers_over_tcp", &PROGRAMS) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [server, client] = &ends;
    // The first peer has the number 0, and the second is served by the second worker.
    let first = "\n[Peer]\nPublicKey = AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let listens = format!("ListenPort = {PORT}\n#adit: listen-tcp = {TCP}{first}");
    let of_server = file(server, client, &listens, &allowed(client));
    let at_server = up(server, &[Path::new("--workers"), Path::new("2"), &of_server]);
    wait_until("the server", LONG, || server.namespace.is_bound(true, TCP).unwrap_or(false)).unwrap();
    let at_client = start_client(&ends, &allowed(server));
    reaches(client, server, [&at_server, &at_client]);
    server.reaches(client);
}

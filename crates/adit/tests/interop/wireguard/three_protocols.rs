//! 20 peers of OpenVPN, of WireGuard and of IPsec in one tunnel of one process.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Process, can_run, wait_until, wait_until_reachable};

use super::bed::{PROGRAMS, device};
use super::many_clients::{Connected, client, missing, openvpn_connected, start_openvpn, start_wireguard};
use super::provisioned::{ENDPOINT, Server};

/// Peers of each protocol.
const EACH: usize = 20;
const WAIT: Duration = Duration::from_secs(120);
/// The beginning of each file of swanctl here, with the key of all.
const SECRET: &str = "secrets {\n ike-all {\n secret = \"a key of this test alone\"\n }\n}\n";

/// A connection between the server and the peer of that name, at either end.
struct Connection<'a> {
    name: &'a str,
    local: &'a str,
    remote: &'a str,
    /// Lines of the connection.
    lines: String,
    /// Lines of its child.
    child: String,
}

impl Connection<'_> {
    fn text(&self) -> String {
        let Connection { name, local, remote, lines, child } = self;
        format!(
            "{name} {{\n version = 2\n {lines}\n local {{\n auth = psk\n id = {local}\n }}\n \
             remote {{\n auth = psk\n id = {remote}\n }}\n children {{\n net {{\n {child}\n }}\n }}\n}}\n"
        )
    }
}

/// The network of the tunnel, and the address in it of the IPsec peer of that number: among those of OpenVPN's pool.
fn network(server: &Server) -> String {
    let IpAddr::V4(own) = server.inner()[0] else { panic!("an IPv4 address") };
    format!("{}/24", Ipv4Addr::from_bits(own.to_bits() & 0xffff_ff00))
}

fn address(server: &Server, number: usize) -> IpAddr {
    let IpAddr::V4(own) = server.inner()[0] else { panic!("an IPv4 address") };
    IpAddr::from(Ipv4Addr::from_bits((own.to_bits() & 0xffff_ff00) + 3 + u32::try_from(number).unwrap()))
}

/// Writes the server's file beside those of the other protocols.
fn write_server(server: &Server, names: &[String]) -> PathBuf {
    let connection = |(number, name): (usize, &String)| {
        let remote = format!("remote_ts = {}/32", address(server, number));
        let child = format!("local_ts = {}\n {remote}", network(server));
        let lines = String::new();
        Connection { name: &format!("c{number}"), local: "server.example", remote: name, lines, child }.text()
    };
    let all: String = names.iter().enumerate().map(connection).collect();
    let text = format!("#adit: device = {}\nconnections {{\n{all}}}\n{SECRET}", server.device);
    let path = server.dir().join("ipsec.conf");
    std::fs::write(&path, text).unwrap();
    path
}

/// Starts the IPsec peer of that number, behind the wire `wire`.
fn start_ipsec(server: &Server, wire: usize, number: usize, name: &str) -> Connected {
    let (client, inner) = (client(server, wire), address(server, number));
    client.namespace.ip(&["address", "add", &format!("{inner}/32"), "dev", "lo"]).unwrap();
    let connection = Connection {
        name: "server",
        local: name,
        remote: "server.example",
        lines: format!("remote_addrs = {ENDPOINT}"),
        child: format!(
            "local_ts = {inner}/32\n remote_ts = {}\n start_action = start\n close_action = start",
            network(server)
        ),
    };
    let text = format!("connections {{\n{}}}\n{SECRET}", connection.text());
    let file = server.scratch.write(&format!("{name}-ipsec.conf"), &text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(file);
    let process = client.namespace.spawn(name, command).unwrap();
    Connected { client, inner, name: name.to_owned(), process: Some(process) }
}

/// Starts the tunnel with its three files. Those that join come first.
fn up(server: &Server) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.env("STATE_DIRECTORY", server.scratch.path()).arg("up");
    let files = ["ipsec".to_owned(), server.device.clone(), "server".to_owned()];
    command.args(files.map(|name| server.dir().join(format!("{name}.conf"))));
    let mut process = server.namespace.spawn("all", command).unwrap();
    process.wait_for_line(0, "ipsec: tunnel up", WAIT).unwrap();
    process.wait_for_line(0, &format!("{}: interface up", server.device), WAIT).unwrap();
    process.wait_for_line(0, "server: listening on", WAIT).unwrap();
    process
}

#[test]
fn twenty_peers_of_each_of_three_protocols_reach_each_other_and_a_revoked_name_leaves_all() {
    let test = "twenty_peers_of_each_of_three_protocols_reach_each_other_and_a_revoked_name_leaves_all";
    if !can_run(test, &[PROGRAMS[0], "wg-quick", "bash", "openvpn", "wireguard-go"]) {
        return;
    }
    let server = Server::create_with(" --wireguard-port 1194");
    let names: Vec<String> = (0..EACH).map(|_| device('t')).collect();
    for name in &names {
        server.adit(&format!("add-client DIR {name} --openvpn --wireguard"));
    }
    write_server(&server, &names);
    let mut tunnel = up(&server);
    server.namespace.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();

    let numbered = |from: usize| names.iter().zip(from..);
    let by_openvpn: Vec<_> = numbered(1).map(|(name, wire)| start_openvpn(&server, wire, name)).collect();
    let mut all: Vec<Connected> =
        numbered(0).map(|(name, number)| start_ipsec(&server, 1 + 2 * EACH + number, number, name)).collect();
    all.extend(numbered(1 + EACH).map(|(name, wire)| start_wireguard(&server, wire, name)));
    all.extend(by_openvpn.into_iter().zip(&names).map(|(it, name)| openvpn_connected(&server, it, name)));
    let own = server.inner()[0];
    for it in &all {
        let reached = wait_until_reachable(&it.client.namespace, own, WAIT);
        let log = it.process.as_ref().map(Process::log).unwrap_or_default();
        assert!(reached.is_ok(), "{} at {}\n{log}\n{}", it.name, it.inner, tunnel.log_tail());
    }
    let missing = missing(&all);
    assert!(
        missing.is_empty(),
        "{} pairs: {:?}\n{}",
        missing.len(),
        &missing[..missing.len().min(5)],
        tunnel.log()
    );

    let (out, rest): (Vec<&Connected>, Vec<&Connected>) = all.iter().partition(|it| it.name == names[7]);
    assert_eq!((out.len(), rest.len()), (3, 3 * EACH - 3));
    server.adit_keeping_state(&format!("revoke DIR {}", names[7]));
    let [by_ipsec, by_wireguard, by_openvpn] = [out[0], out[1], out[2]];
    assert!(!by_wireguard.is_answered(own), "its session ended");
    assert!(!by_ipsec.is_answered(own), "its IKE SA ended");
    wait_until("the OpenVPN client to be out", WAIT, || !by_openvpn.is_answered(own)).unwrap();
    for it in &rest {
        assert!(it.reaches(own), "{} at {} is out, too\n{}", it.name, it.inner, tunnel.log());
    }

    // It stays out of the tunnel that starts anew.
    assert_eq!(tunnel.terminate(WAIT).unwrap().code(), Some(0), "{}", tunnel.log());
    let mut tunnel = up(&server);
    let by_ipsec_again =
        rest.iter().find(|it| it.name == names[8] && it.inner == address(&server, 8)).unwrap();
    let back = wait_until_reachable(&by_ipsec_again.client.namespace, own, WAIT);
    assert!(back.is_ok(), "{}", tunnel.log());
    tunnel
        .wait_for_line(0, &format!("{} did not prove its identity: the peer is blocked", names[7]), WAIT)
        .unwrap();
    assert!(!by_ipsec.is_answered(own));
    drop(all);
    assert_eq!(tunnel.terminate(WAIT).unwrap().code(), Some(0), "{}", tunnel.log());
}

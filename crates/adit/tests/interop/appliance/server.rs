//! An appliance as a server of the protocols, all at once.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use adit_testbed::{Machine, Namespace, Process, RunningMachine, can_run, wait_until, wait_until_reachable};

use super::bed::{Bed, LIMIT, WITHOUT_SELF_TESTS, machine, open_tcp_ports};

/// A file of the image.
const WRITTEN: &str = "/etc/adit/status";

/// Waits until the namespace reaches an address through the tunnel of one of its clients.
fn wait_for_server(bed: &Bed, address: &str, client: &Process, console: &str) {
    let reached = wait_until_reachable(&bed.namespace, address.parse().unwrap(), LIMIT);
    assert!(reached.is_ok(), "{reached:?}\n{}\n{console}", client.log());
}

/// The image's files are read-only for root as well. A parser that is taken over finds no file to write, not below `/run` either, which
/// root can write, no program to run, and no socket to make: each thread that takes packets has tried it.
#[test]
fn an_appliance_serves_clients_of_three_protocols_and_listens_to_nothing_else() {
    let name = "an_appliance_serves_clients_of_three_protocols_and_listens_to_nothing_else";
    let Some(bed) = Bed::for_test(name) else { return };
    // The files of the server are those that the tests of clients run in the namespace, and the other way round.
    let [wireguard, wireguard_client] = bed.write_wireguard_to("10.9.0.2");
    let [openvpn, openvpn_client] = bed.write_openvpn("10.9.0.2");
    // The process of the tunnels opens that file before it is confined.
    let text = std::fs::read_to_string(&openvpn).unwrap();
    std::fs::write(&openvpn, format!("status {WRITTEN} 1\n{text}")).unwrap();
    let [site, other_site] = bed.write_ipsec(["10.79.1.0/24", "10.79.2.0/24"], ["10.9.0.2", "10.9.0.1"]);
    let settings = "[eth0]\naddress = 10.9.0.2/24, 10.79.1.1/24\n";
    let settings = bed.scratch.write("appliance.conf", settings).unwrap();
    let image = bed.build(&[&wireguard, &openvpn, &site], &["--network", settings.to_str().unwrap()]);
    let parameters = format!("ADIT_TEST_CONFINEMENT=1 TMPDIR=/run {WITHOUT_SELF_TESTS}");
    let mut machine = bed.start(&Machine { parameters, ..machine(&image) }, &["10.9.0.1/24", "10.79.2.1/24"]);
    let clients = [&wireguard_client, &openvpn_client, &other_site].map(|file| bed.up(file));
    for (address, client) in ["10.77.0.1", "10.78.0.1", "10.79.1.1"].into_iter().zip(&clients) {
        wait_for_server(&bed, address, client, &machine.process.log());
    }
    machine.wait_for(&format!("{WRITTEN}: it cannot be written: Read-only file system"), LIMIT).unwrap();
    listens_to_nothing(&bed);
    finds_nothing_when_taken_over(&machine);
}

fn listens_to_nothing(bed: &Bed) {
    // All ports would take two minutes.
    let ports = (1..=1024).chain([1194, 4500, 5353, 51820]);
    let open = open_tcp_ports(&bed.namespace, "10.9.0.2", ports);
    assert!(open.is_empty(), "something listens on TCP ports {open:?}");
    for port in [53, 67, 68, 123, 514, 5353] {
        let refused = bed.namespace.enter(|| is_udp_refused("10.9.0.2", port, 10)).unwrap().unwrap();
        assert!(refused, "something listens on UDP port {port}");
    }
}

/// A program that listens would be seen.
#[test]
fn checks_of_ports_see_what_listens() {
    if !can_run("checks_of_ports_see_what_listens", &[]) {
        return;
    }
    let (namespace, address) = (Namespace::create("ports").unwrap(), "10.9.0.2");
    namespace.ip(&["address", "add", &format!("{address}/32"), "dev", "lo"]).unwrap();
    let sockets = || (TcpListener::bind((address, 700)).unwrap(), UdpSocket::bind((address, 123)).unwrap());
    let _sockets = namespace.enter(sockets).unwrap();
    assert_eq!(open_tcp_ports(&namespace, address, 699..=701), [700]);
    let is_refused = |port| namespace.enter(|| is_udp_refused(address, port, 1)).unwrap().unwrap();
    assert_eq!([123, 124].map(is_refused), [false, true]);
}

/// Whether an address answers that no program listens on the port. Linux sends six such answers at once, and then one a second
/// (`icmp_ratelimit`), so that it may take so many tries of a second each.
fn is_udp_refused(address: &str, port: u16, tries: u32) -> std::io::Result<bool> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect((address, port))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let asks = || socket.send(&[0]).and_then(|_| socket.recv(&mut [0; 1]));
    Ok((0..tries).any(|_| asks().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)))
}

fn finds_nothing_when_taken_over(machine: &RunningMachine) {
    if !cfg!(debug_assertions) {
        return;
    }
    let words = ["confinement of the data thread: ", "confinement of the control thread: "];
    let of_three_tunnels = || words.iter().all(|words| machine.process.count_lines(0, words) == 3);
    wait_until("what was tried by each thread", LIMIT, of_three_tunnels).unwrap();
    let log = machine.process.log();
    let refused = "PermissionDenied";
    let all = format!(
        "open a file: {refused}; make a file: {refused}; run a program: {refused}; make a socket: {refused}"
    );
    for outcome in log.lines().filter(|line| line.contains("confinement of the ")) {
        assert!(outcome.contains(&all), "{outcome}");
    }
}

//! Endpoints by name, resolved again while handshakes go unanswered.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adit_testbed::{Namespace, Ping, Process, can_run, program, wait_until, wait_until_reachable};

use super::bed::{End, PORT, PROGRAMS, Program, WAIT, joined};

/// A new handshake begins 15 s after the last answer; its third initiation goes out 10 s later, and the one after that is
/// sent to the new address.
const LONG: Duration = Duration::from_secs(60);

/// Where the name server is.
const NAME_SERVER: &str = "192.0.2.53";

/// A server, and a client whose file has a name for it. The address of the name is in a file of hosts, or a name server
/// gives it.
struct Bed {
    ends: [End; 2],
    hosts: PathBuf,
}

/// Answers each question for an IPv4 address with this one.
struct NameServer {
    address: Arc<Mutex<Ipv4Addr>>,
    ended: Arc<AtomicBool>,
}

impl NameServer {
    fn start(namespace: &Namespace, at: &str, address: Ipv4Addr) -> Self {
        let socket = namespace.enter(|| UdpSocket::bind((at, 53))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let server = NameServer { address: Arc::new(Mutex::new(address)), ended: Arc::default() };
        let (address, ended) = (Arc::clone(&server.address), Arc::clone(&server.ended));
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                let answer = answer(&buffer[..length], *address.lock().unwrap());
                let _ = socket.send_to(&answer, from);
            }
        });
        server
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// RFC 1035 §4.1: the question is repeated, and behind it stands the address if that is asked for (type A).
fn answer(query: &[u8], address: Ipv4Addr) -> Vec<u8> {
    let labels = query[12..].iter().position(|byte| *byte == 0).unwrap();
    let question = &query[12..12 + labels + 5];
    let is_a = question[labels + 1..labels + 3] == [0, 1];
    let mut answer = [&query[..2], &[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0], question].concat();
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}

impl Bed {
    fn build(hosts: &str) -> Self {
        let ends = joined([Program::Adit; 2]);
        let [server, client] = &ends;
        server.start().unwrap();
        server.set_key();
        server.add_peer(client, None);
        server.bring_up();
        let hosts = client.scratch.write("hosts", hosts).unwrap();
        Bed { ends, hosts }
    }

    /// Starts the client, whose resolver knows that file alone.
    fn start(&self) -> Process {
        self.start_with("hosts: files\n", &format!("AllowedIPs = {}/32", self.ends[0].inner()))
    }

    /// Starts the client with another way to resolve names, and other networks behind the server.
    fn start_with(&self, switch: &str, allowed: &str) -> Process {
        self.start_at("vpn.test", switch, allowed)
    }

    /// Starts the client with another endpoint.
    fn start_at(&self, host: &str, switch: &str, allowed: &str) -> Process {
        let [server, client] = &self.ends;
        let key = std::fs::read_to_string(&client.key_file).unwrap();
        let text = format!(
            "[Interface]\nPrivateKey = {}\nAddress = {}/24\n[Peer]\nPublicKey = {}\n{allowed}\n\
             Endpoint = {host}:{PORT}\nPersistentKeepalive = 1\n",
            key.trim(),
            client.inner(),
            server.public_key,
        );
        let file = client.scratch.write(&format!("{}.conf", client.device), &text).unwrap();
        let switch = client.scratch.write("nsswitch.conf", switch).unwrap();
        let names = client.scratch.write("resolv.conf", &format!("nameserver {NAME_SERVER}\n")).unwrap();
        let script = "mount --bind \"$1\" /etc/hosts && mount --bind \"$2\" /etc/nsswitch.conf && \
                      mount --bind \"$3\" /etc/resolv.conf && exec \"$0\" up \"$4\"";
        let mut command = program("unshare").unwrap();
        command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_adit")]);
        command.args([&self.hosts, &switch, &names, &file]).env("STATE_DIRECTORY", &client.state);
        client.namespace.spawn("adit up", command).unwrap()
    }

    /// Waits until the server has heard the client after the last packet that it sent itself. Else it would begin a handshake
    /// 15 s later, and the client would learn from that where it is, not from the name.
    fn server_is_answered(&self) {
        let server = &self.ends[0];
        let received =
            || server.wg("show DEV transfer").unwrap().split_whitespace().nth(1).map(str::to_owned);
        // Counted once a second: the first change may be of packets that came before.
        for _ in 0..2 {
            let before = received();
            wait_until("a keepalive of the client", WAIT, || received() != before).unwrap();
        }
    }

    /// Moves the server to where the name says that it is: the client follows.
    fn follows(&self, adit: &mut Process) {
        self.server_is_answered();
        let [server, client] = &self.ends;
        let wire = wire(server);
        server.namespace.ip(&["address", "delete", &format!("{}/24", server.outer()), "dev", &wire]).unwrap();
        server.namespace.ip(&["address", "add", "10.9.0.50/24", "dev", &wire]).unwrap();
        // Sent packets are not answered.
        let ping = Ping { timeout: Duration::from_millis(100), ..Ping::new(3, Duration::from_millis(1)) };
        assert_eq!(ping.run(&client.namespace, server.inner()).unwrap().received, 0);
        let moved = "no answer from 10.9.0.1:51820: vpn.test is tried at 10.9.0.50:51820";
        adit.wait_for_line(0, moved, LONG).unwrap();
        self.is_reached(adit);
    }

    /// Through the tunnel: without it the gateway would answer.
    fn is_reached(&self, adit: &mut Process) {
        let [server, client] = &self.ends;
        adit.wait_for_line(0, "= connected", LONG).unwrap();
        if let Err(error) = wait_until_reachable(&client.namespace, server.inner(), LONG) {
            panic!("{error}\n{}", adit.log());
        }
    }
}

/// The device that joins an end with the other.
fn wire(end: &End) -> String {
    let is_wire = |device: &String| device.starts_with("wire");
    end.namespace.devices().unwrap().into_iter().find(is_wire).unwrap()
}

#[test]
fn a_server_that_has_moved_is_found_by_its_name() {
    if !can_run("a_server_that_has_moved_is_found_by_its_name", &[PROGRAMS[0], "unshare"]) {
        return;
    }
    let bed = Bed::build("10.9.0.1 vpn.test\n");
    let mut adit = bed.start();
    bed.is_reached(&mut adit);
    std::fs::write(&bed.hosts, "10.9.0.50 vpn.test\n").unwrap();
    bed.follows(&mut adit);
    let client = &bed.ends[1];
    assert_eq!(client.wg("show DEV endpoints").unwrap().split_whitespace().nth(1), Some("10.9.0.50:51820"));
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
}

#[test]
fn a_server_whose_ipv6_address_is_dead_is_reached_by_ipv4() {
    if !can_run("a_server_whose_ipv6_address_is_dead_is_reached_by_ipv4", &[PROGRAMS[0], "unshare"]) {
        return;
    }
    let bed = Bed::build("2001:db8:9::77 vpn.test\n10.9.0.1 vpn.test\n");
    let client = &bed.ends[1];
    // Of its kind, so that the resolver prefers the dead address (RFC 6724 §6).
    client.namespace.ip(&["address", "add", "2001:db8:9::2/64", "dev", &wire(client), "nodad"]).unwrap();
    let mut adit = bed.start();
    let turned = "no answer from [2001:db8:9::77]:51820: vpn.test is tried at 10.9.0.1:51820";
    adit.wait_for_line(0, turned, LONG).unwrap();
    bed.is_reached(&mut adit);
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
}

/// ICMP says so at once, and nothing waits for an answer.
#[test]
fn a_server_whose_ipv6_address_refuses_is_reached_by_ipv4_at_once() {
    let test = "a_server_whose_ipv6_address_refuses_is_reached_by_ipv4_at_once";
    if !can_run(test, &[PROGRAMS[0], "unshare", "nft"]) {
        return;
    }
    let bed = Bed::build("2001:db8:9::77 vpn.test\n10.9.0.1 vpn.test\n");
    let [server, client] = &bed.ends;
    client.namespace.ip(&["address", "add", "2001:db8:9::2/64", "dev", &wire(client), "nodad"]).unwrap();
    server.namespace.ip(&["address", "add", "2001:db8:9::77/64", "dev", &wire(server), "nodad"]).unwrap();
    let rules = server.scratch.write(
        "rules",
        "table ip6 closed { chain in { type filter hook input priority 0; udp dport 51820 reject; }; }",
    );
    let mut nft = program("nft").unwrap();
    nft.arg("-f").arg(rules.unwrap());
    server.namespace.run(nft).unwrap();
    let mut adit = bed.start();
    bed.is_reached(&mut adit);
    assert!(client.wg("show DEV endpoints").unwrap().contains("10.9.0.1:51820"));
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
    assert!(!adit.log().contains("no answer from"), "{}", adit.log());
}

/// ICMP says so while the tunnel runs: the next address is tried with the next initiation, and not after three of them.
#[test]
fn an_address_that_refuses_later_is_left_at_once() {
    if !can_run("an_address_that_refuses_later_is_left_at_once", &[PROGRAMS[0], "unshare", "nft"]) {
        return;
    }
    let bed = Bed::build("10.9.0.1 vpn.test\n10.9.0.50 vpn.test\n");
    let [server, client] = &bed.ends;
    server.namespace.ip(&["address", "add", "10.9.0.50/24", "dev", &wire(server)]).unwrap();
    let mut adit = bed.start();
    bed.is_reached(&mut adit);
    assert!(client.wg("show DEV endpoints").unwrap().contains("10.9.0.1:51820"));
    let mut nft = program("nft").unwrap();
    nft.arg(
        "table ip closed { chain in { type filter hook input priority 0; ip daddr 10.9.0.1 udp dport 51820 reject; }; }",
    );
    server.namespace.run(nft).unwrap();
    // A new handshake.
    adit.restart();
    let turned = "datagrams are refused by 10.9.0.1:51820: vpn.test is tried at 10.9.0.50:51820";
    adit.wait_for_line(0, turned, WAIT).unwrap();
    wait_until_reachable(&client.namespace, server.inner(), WAIT).unwrap();
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
    assert!(!adit.log().contains("no answer from"), "{}", adit.log());
}

/// The system's resolver asks through the dead tunnel; queries with the tunnel's mark go beside it.
#[test]
fn a_full_tunnel_asks_for_the_name_beside_itself() {
    if !can_run("a_full_tunnel_asks_for_the_name_beside_itself", &[PROGRAMS[0], "unshare", "nft"]) {
        return;
    }
    let bed = Bed::build("");
    let [server, client] = &bed.ends;
    // The name server is behind a gateway, so that only the default route leads to it.
    server.namespace.ip(&["address", "add", &format!("{NAME_SERVER}/32"), "dev", "lo"]).unwrap();
    server.namespace.ip(&["address", "add", "10.9.0.254/32", "dev", &wire(server)]).unwrap();
    client.namespace.ip(&["route", "add", "default", "via", "10.9.0.254"]).unwrap();
    let names = NameServer::start(&server.namespace, NAME_SERVER, Ipv4Addr::new(10, 9, 0, 1));
    let mut adit = bed.start_with("hosts: dns\n", "AllowedIPs = 0.0.0.0/0");
    bed.is_reached(&mut adit);
    *names.address.lock().unwrap() = Ipv4Addr::new(10, 9, 0, 50);
    bed.follows(&mut adit);
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
}

/// The confined process finds the interface as well, when it reads the file again.
#[test]
fn an_endpoint_of_one_link_is_reached_by_its_interface() {
    if !can_run("an_endpoint_of_one_link_is_reached_by_its_interface", &[PROGRAMS[0], "unshare"]) {
        return;
    }
    let bed = Bed::build("");
    let [server, client] = &bed.ends;
    server.namespace.ip(&["address", "add", "fe80::9/64", "dev", &wire(server), "nodad"]).unwrap();
    let host = format!("[fe80::9%{}]", wire(client));
    let allowed = format!("AllowedIPs = {}/32", server.inner());
    let mut adit = bed.start_at(&host, "hosts: files\n", &allowed);
    bed.is_reached(&mut adit);
    let shown = || client.wg("show DEV endpoints").unwrap();
    let expected = format!("{}\t{host}:{PORT}\n", server.public_key);
    assert_eq!(shown(), expected);
    client.wg(&format!("set DEV peer {} endpoint 192.0.2.1:7", server.public_key)).unwrap();
    let mark = adit.mark();
    adit.hang_up();
    adit.wait_for_line(mark, " holds", WAIT).unwrap();
    assert_eq!(shown(), expected);
    assert!(adit.terminate(WAIT).unwrap().success(), "{}", adit.log());
}

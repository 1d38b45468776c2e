//! SIGHUP: a file is read again, and settings that can change at once do without a packet lost.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Namespace, Ping, Process, Purpose, Validity, can_run, static_key, wait_until, wait_until_reachable,
};

use super::tunnels::{Hub, WAIT, blocks, inner, tunnels_of};
use crate::bed::PROGRAMS;

fn up(namespace: &Namespace, label: &str, file: &Path) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(file);
    namespace.spawn(label, command).unwrap()
}

/// Has the process read its file again, and waits for these lines of its log.
fn hang_up(process: &mut Process, lines: &[&str]) {
    let mark = process.mark();
    process.hang_up();
    for line in lines {
        process.wait_for_line(mark, line, WAIT).unwrap();
    }
}

/// Commands one tunnel at its management socket.
fn command(socket: &Path, line: &str) {
    let mut management = UnixStream::connect(socket).unwrap();
    management.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// A file that only root can read is read again by a server that is `nobody`; its clients lose nothing.
#[test]
fn a_file_that_is_read_again_changes_what_it_can_and_drops_no_client() {
    if !can_run("SIGHUP", &PROGRAMS) {
        return;
    }
    let hub = Hub::build(2);
    let lines = |more: &str| format!("user nobody\ngroup nogroup\nduplicate-cn\n{more}");
    let file = hub.server(1, &lines(""));
    let private = || fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    private();
    let mut process = hub.up(&[], std::slice::from_ref(&file));
    process.wait_for_line(0, "listening on", WAIT).unwrap();
    let mut first = hub.connect(1);

    let report = std::thread::scope(|scope| {
        let ping = Ping::new(2000, Duration::from_millis(2));
        let (hub, client) = (&hub, &hub.clients[0]);
        let busy = scope.spawn(move || ping.run(client, inner(1)).unwrap());
        // A mistake changes nothing, and has its line.
        hub.server(1, &lines("max-clients many\n"));
        let mark = process.mark();
        process.hang_up();
        process.wait_for_line(mark, "s1.conf:12: ", WAIT).unwrap();
        process.wait_for_line(mark, "s1.conf changes nothing", WAIT).unwrap();
        // The options that new clients are pushed change; the port does not.
        hub.server(1, &lines("push \"route 10.77.0.0 255.255.0.0\"\nport 1300\nverb 6\n"));
        private();
        let mark = process.mark();
        process.hang_up();
        process.wait_for_line(mark, "s1.conf was read again, and what changed holds", WAIT).unwrap();
        process.wait_for_line(mark, "`port` changed: it holds when adit is started again", WAIT).unwrap();
        busy.join().unwrap()
    });
    assert!(report.is_clean(), "{report:?}\n{}", process.log());
    assert_eq!(tunnels_of(process.id())[0]["peers"].as_array().unwrap().len(), 1);
    let routes = |client: &Namespace| client.ip(&["route", "show"]).unwrap();
    assert!(!routes(&hub.clients[0]).contains("10.77.0.0/16"), "it was told before");
    let mark = first.mark();
    first.restart();
    first.wait_for_line(mark, "tunnel up: ", WAIT).unwrap();
    assert!(routes(&hub.clients[0]).contains("10.77.0.0/16"), "{}", first.log());

    // Once more: settings that wait are named again.
    let mark = process.mark();
    hang_up(&mut process, &["`port` changed: it holds when adit is started again"]);
    assert_eq!(process.count_lines(mark, "what changed holds"), 0, "{}", process.log());
    assert_eq!(process.terminate(WAIT).unwrap().code(), Some(0), "{}", process.log());
    let _ = first.kill();
}

/// Both ends of a point-to-point tunnel, of which the first waits in the hub.
struct Pair {
    hub: Hub,
    socket: PathBuf,
    near: PathBuf,
    far: PathBuf,
}

impl Pair {
    /// The files, with these lines that both ends have, and with these of each.
    fn write(&self, both: &str, near: &str, far: &str) {
        let socket = self.socket.display();
        let text = format!("dev tun1\nport 1201\nverb 3\nmanagement {socket} unix\n{near}{both}");
        fs::write(&self.near, text).unwrap();
        let text = format!("dev tun\nnobind\nremote 10.9.1.1 1201\nverb 3\nconnect-retry 1 1\n{far}{both}");
        fs::write(&self.far, text).unwrap();
    }

    fn new() -> Self {
        let hub = Hub::build(1);
        let path = |name| hub.scratch.path().join(name);
        Pair { socket: path("near.sock"), near: path("near.conf"), far: path("far.conf"), hub }
    }

    fn start(&self) -> [Process; 2] {
        let mut near = up(&self.hub.namespace, "near", &self.near);
        near.wait_for_line(0, "listening on", WAIT).unwrap();
        let far = up(&self.hub.clients[0], "far", &self.far);
        wait_until_reachable(&self.hub.clients[0], inner(1), WAIT).unwrap();
        [near, far]
    }
}

/// Runs `act` while the first client sends, which must lose nothing.
fn without_loss(client: &Namespace, process: &mut Process, act: impl FnOnce(&mut Process)) {
    let report = std::thread::scope(|scope| {
        let ping = Ping::new(1000, Duration::from_millis(2));
        let busy = scope.spawn(move || ping.run(client, inner(1)).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        act(process);
        busy.join().unwrap()
    });
    assert!(report.is_clean(), "{report:?}\n{}", process.log());
}

#[test]
fn point_to_point_reads_its_file_again() {
    if !can_run("SIGHUP of a point-to-point tunnel", &PROGRAMS) {
        return;
    }
    let pair = Pair::new();
    let identity = pair.hub.authority.issue("far", Purpose::Client, Validity::Now).unwrap();
    let near = format!("tls-server\ndh none\n{}", blocks(&pair.hub.authority, &pair.hub.identity));
    let far = format!(
        "tls-client\nremote-cert-tls server\nifconfig 10.80.1.2 10.80.1.1\n{}",
        blocks(&pair.hub.authority, &identity)
    );
    let own = "ifconfig 10.80.1.1 10.80.1.2\n";
    pair.write("ping 1\nping-restart 10\n", &format!("{own}{near}"), &far);
    let [mut process, mut client] = pair.start();
    without_loss(&pair.hub.clients[0], &mut process, |process| {
        pair.write("ping often\n", &format!("{own}{near}"), &far);
        hang_up(process, &["near.conf:", "near.conf changes nothing"]);
        let lines = "ifconfig 10.80.1.5 10.80.1.2\nport 1300\ntun-mtu 1400\n";
        pair.write("ping 1\nping-restart 20\nverb 4\n", &format!("{lines}{near}"), &far);
        hang_up(
            process,
            &[
                "near.conf was read again, and what changed holds",
                "near.conf:6: `port` changed: it holds when adit is started again: sockets",
                "near.conf:5: `ifconfig` changed: it holds from the tunnel's next restart on",
                "`tun-mtu` changed: it holds from the tunnel's next restart on",
            ],
        );
    });

    // The device takes its address and MTU by the helper, as the process may no more.
    let mark = process.mark();
    command(&pair.socket, "signal SIGUSR1");
    process.wait_for_line(mark, "tunnel up: tun1 with 10.80.1.5/32, MTU 1400", WAIT).unwrap();
    let device = pair.hub.namespace.ip(&["address", "show", "tun1"]).unwrap();
    assert!(device.contains("10.80.1.5") && device.contains("mtu 1400"), "{device}");
    assert!(!device.contains("10.80.1.1 "), "{device}");
    // SIGHUP at the socket reads the file too.
    let mark = process.mark();
    command(&pair.socket, "signal SIGHUP");
    process.wait_for_line(mark, "near.conf was read again", WAIT).unwrap();
    process.wait_for_line(mark, "near.conf:6: `port` changed: it holds when adit is started", WAIT).unwrap();
    assert_eq!(process.count_lines(mark, "`ifconfig` changed"), 0, "it holds: {}", process.log());
    assert!(process.terminate(WAIT).unwrap().success(), "{}", process.log());
    let _ = client.kill();
}

#[test]
fn a_static_key_changes_with_the_next_restart() {
    if !can_run("SIGHUP of a tunnel with a static key", &PROGRAMS) {
        return;
    }
    let pair = Pair::new();
    let keys = [static_key().unwrap(), static_key().unwrap()];
    let write = |key: &str, ping: u8| {
        let both = format!(
            "setenv opt allow-deprecated-insecure-static-crypto\ncipher AES-256-CBC\nauth SHA256\nping {ping}\n\
             <secret>\n{key}</secret>\n"
        );
        let end = |own: u8, other: u8, direction: u8| {
            format!("ifconfig 10.80.1.{own} 10.80.1.{other}\nkey-direction {direction}\n")
        };
        pair.write(&both, &end(1, 2, 0), &end(2, 1, 1));
    };
    write(&keys[0], 1);
    let [mut near, mut far] = pair.start();
    without_loss(&pair.hub.clients[0], &mut near, |near| {
        write(&keys[0], 2);
        hang_up(near, &["near.conf was read again, and what changed holds"]);
        write(&keys[1], 2);
        hang_up(near, &["`secret` changed: it holds from the tunnel's next restart on"]);
    });
    // The end that connects does so anew at once, and waits for the other.
    hang_up(&mut far, &["what changed holds with the next connection", "tunnel up: "]);
    command(&pair.socket, "signal SIGUSR1");
    wait_until_reachable(&pair.hub.clients[0], inner(1), WAIT).unwrap();
    assert!(near.terminate(WAIT).unwrap().success(), "{}", near.log());
    let _ = far.kill();
}

#[test]
fn a_client_goes_to_the_server_that_its_file_names_now() {
    if !can_run("SIGHUP of a client", &PROGRAMS) {
        return;
    }
    let hub = Hub::build(1);
    let mut servers = hub.up(&[], &[hub.server(1, ""), hub.server(2, "")]);
    servers.wait_for_line(0, "s2: listening on", WAIT).unwrap();
    let mut client = hub.connect(1);
    let file = hub.scratch.path().join("c1.conf");
    let text = fs::read_to_string(&file).unwrap();
    without_loss(&hub.clients[0], &mut client, |client| {
        hang_up(client, &["there is nothing new in it"]);
        fs::write(&file, text.replace("verb 3", "verb 6")).unwrap();
        hang_up(client, &["c1.conf was read again, and what changed holds"]);
        fs::write(&file, text.replace("1201", "port")).unwrap();
        hang_up(client, &["c1.conf:4: ", "c1.conf changes nothing"]);
    });
    // The second of these answers.
    let remotes = "remote 10.9.1.1 1203\nremote 10.9.1.1 1202\nserver-poll-timeout 2\nconnect-retry 1 1\n";
    fs::write(&file, text.replace("remote 10.9.1.1 1201\n", remotes)).unwrap();
    hang_up(&mut client, &["what changed holds with the next connection, which begins now"]);
    wait_until_reachable(&hub.clients[0], inner(2), WAIT).unwrap();
    wait_until("the first server to lose it", WAIT, || {
        let tunnels = tunnels_of(servers.id());
        tunnels.iter().any(|tunnel| tunnel["name"] == "s1" && tunnel["peers"].as_array().unwrap().is_empty())
    })
    .unwrap();
    assert!(client.terminate(WAIT).unwrap().success(), "{}", client.log());
    let _ = servers.kill();
}

/// The serial number of a certificate in decimal, as `crl-verify DIR dir` has it.
fn serial(hub: &Hub, certificate: &str) -> String {
    let file = hub.scratch.write("serial.pem", certificate).unwrap();
    let output =
        Command::new("openssl").args(["x509", "-noout", "-serial", "-in"]).arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // The least digit first.
    let mut decimal = vec![0];
    for digit in text.trim().trim_start_matches("serial=").chars() {
        let mut carry = digit.to_digit(16).unwrap();
        for place in &mut decimal {
            let value = *place * 16 + carry;
            (*place, carry) = (value % 10, value / 10);
        }
        while carry > 0 {
            decimal.push(carry % 10);
            carry /= 10;
        }
    }
    decimal.iter().rev().map(ToString::to_string).collect()
}

#[test]
fn revocation_lists_that_a_file_names_anew_hold_at_once() {
    if !can_run("SIGHUP and crl-verify", &PROGRAMS) {
        return;
    }
    let hub = Hub::build(1);
    let user = "user nobody\ngroup nogroup\n";
    hub.server(1, user);
    let mut server = hub.up(&[], &[hub.scratch.path().join("s1.conf")]);
    server.wait_for_line(0, "listening on", WAIT).unwrap();
    let mut client = hub.connect(1);
    let text = fs::read_to_string(hub.scratch.path().join("c1.conf")).unwrap();
    let certificate = text.split("<cert>\n").nth(1).unwrap().split("</cert>").next().unwrap();
    let serial = serial(&hub, certificate);
    // As at the start, the helper reads them as that user.
    fs::set_permissions(hub.scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let lists = ["one", "two"].map(|name| hub.scratch.path().join(name));
    lists.iter().for_each(|list| fs::create_dir(list).unwrap());
    let names = |list: &Path| hub.server(1, &format!("{user}crl-verify {} dir\n", list.display()));

    without_loss(&hub.clients[0], &mut server, |server| {
        names(&hub.scratch.path().join("none"));
        hang_up(server, &["s1.conf:11: crl-verify: ", "s1.conf changes nothing"]);
        names(&lists[0]);
        hang_up(server, &["s1.conf was read again, and what changed holds"]);
        names(&lists[1]);
        hang_up(server, &["s1.conf was read again, and what changed holds"]);
        // The directory that was watched before is watched no more.
        fs::write(lists[0].join(&serial), "").unwrap();
        let mark = server.mark();
        fs::write(lists[1].join("99"), "").unwrap();
        server.wait_for_line(mark, "crl-verify: read anew", WAIT).unwrap();
    });
    // The client is on the first list.
    names(&lists[0]);
    hang_up(&mut server, &["client1: its certificate was revoked (crl-verify)"]);
    let peers = || tunnels_of(server.id())[0]["peers"].as_array().unwrap().len();
    wait_until("the client to go", WAIT, || peers() == 0).unwrap();
    assert!(server.terminate(WAIT).unwrap().success(), "{}", server.log());
    let _ = client.kill();
}

/// How many clients send while their server reads its file again.
const MANY: usize = 20;

/// Clients of the first server, all in one process and one namespace. Gives their inner addresses. A packet leaves by the
/// device of its source address.
fn connect_many(hub: &Hub, server: &Process) -> (Process, Vec<IpAddr>) {
    let text = |number: usize| {
        let identity = hub.authority.issue(&format!("many{number}"), Purpose::Client, Validity::Now).unwrap();
        format!(
            "client\ndev many{number}\ndev-type tun\nnobind\nremote 10.9.1.1 1201\nremote-cert-tls server\n{}",
            blocks(&hub.authority, &identity)
        )
    };
    let file = |number| hub.scratch.write(&format!("many{number}.conf"), &text(number)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").args((0..MANY).map(file));
    let clients = hub.clients[0].spawn("many clients", command).unwrap();
    wait_until("all clients to be up", 2 * WAIT, || clients.count_lines(0, "tunnel up: ") == MANY)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", clients.log_tail(), server.log_tail()));
    let address = |number: usize| {
        let (device, table) = (format!("many{number}"), (100 + number).to_string());
        let listing = hub.clients[0].ip(&["-oneline", "-4", "address", "show", "dev", &device]).unwrap();
        let address = listing.split_whitespace().nth(3).unwrap().split('/').next().unwrap().to_owned();
        hub.clients[0].ip(&["route", "add", "10.80.1.0/24", "dev", &device, "table", &table]).unwrap();
        hub.clients[0].ip(&["rule", "add", "from", &address, "table", &table]).unwrap();
        address.parse().unwrap()
    };
    let addresses = (0..MANY).map(address).collect();
    (clients, addresses)
}

#[test]
fn many_clients_lose_no_packet_while_their_server_reads_its_file_again() {
    if !can_run("SIGHUP under many clients", &PROGRAMS) {
        return;
    }
    let hub = Hub::build(2);
    let here = hub.scratch.path();
    let revoked = here.join("revoked");
    fs::create_dir(&revoked).unwrap();
    let script = |name: &str| {
        let text = format!("#!/bin/sh\necho \"$common_name\" >>{}\n", here.join(name).display());
        let path = hub.scratch.write(&format!("{name}.sh"), &text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        format!("client-connect {}\n", path.display())
    };
    let [before, after] = [script("before"), script("after")];
    let lines = |more: &str| {
        format!("script-security 2\ntmp-dir {}\ncrl-verify {} dir\n{more}", here.display(), revoked.display())
    };
    hub.server(1, &lines(&before));
    let mut server = hub.up(&[], &[here.join("s1.conf")]);
    server.wait_for_line(0, "listening on", WAIT).unwrap();
    let (mut clients, addresses) = connect_many(&hub, &server);

    let reports = std::thread::scope(|scope| {
        // 200 a second in all: where other tests keep the processors, packets that wait meanwhile fit into every queue.
        let ping = Ping::new(80, Duration::from_millis(100));
        let run = |address: IpAddr| {
            let hub = &hub.namespace;
            scope.spawn(move || ping.run(hub, address).unwrap())
        };
        let busy: Vec<_> = addresses.iter().copied().map(run).collect();
        std::thread::sleep(Duration::from_millis(500));
        // A file with these changes and a mistake in the last line changes nothing.
        let push = "push \"route 10.77.0.0 255.255.0.0\"\nmax-clients 21\nverb 4\nmute 50\n";
        hub.server(1, &lines(&format!("{after}{push}connect-freq often 10\n")));
        hang_up(&mut server, &["s1.conf:17: ", "s1.conf changes nothing"]);
        hub.server(1, &lines(&format!("{after}{push}")));
        hang_up(&mut server, &["s1.conf was read again, and what changed holds"]);
        let mark = server.mark();
        fs::write(revoked.join("99"), "").unwrap();
        server.wait_for_line(mark, "crl-verify: read anew", WAIT).unwrap();
        hang_up(&mut server, &["there is nothing new in it"]);
        busy.into_iter().map(|ping| ping.join().unwrap()).collect::<Vec<_>>()
    });
    for (address, report) in addresses.iter().zip(&reports) {
        assert!(report.is_clean(), "{address}: {report:?}\n{}", server.log_tail());
    }
    assert_eq!(clients.count_lines(0, "tunnel up: "), MANY, "none connected twice: {}", clients.log_tail());
    assert_eq!(tunnels_of(server.id())[0]["peers"].as_array().unwrap().len(), MANY);

    // A client that comes now has the new push and script.
    let text = fs::read_to_string(hub.client(2)).unwrap().replace("10.9.2.1 1202", "10.9.2.1 1201");
    let file = hub.scratch.write("late.conf", &text).unwrap();
    let mut late = up(&hub.clients[1], "late", &file);
    wait_until_reachable(&hub.clients[1], inner(1), WAIT).unwrap();
    assert!(hub.clients[1].ip(&["route", "show"]).unwrap().contains("10.77.0.0/16"), "{}", late.log());
    let ran = |name: &str| fs::read_to_string(here.join(name)).unwrap_or_default().lines().count();
    assert_eq!((ran("before"), ran("after")), (MANY, 1), "{}", server.log_tail());
    assert!(server.terminate(WAIT).unwrap().success(), "{}", server.log_tail());
    let _ = (clients.kill(), late.kill());
}

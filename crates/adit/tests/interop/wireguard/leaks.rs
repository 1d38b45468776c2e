//! Nothing leaves beside a full tunnel of a WireGuard file while the kill switch is on: docs/use/LEAKS.md has the table.
//!
//! ```text
//! client ──wire 192.168.1.0/24── router ──isp 203.0.113.0/24── server .10, name server .53
//!                                 │ capture
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{
    Capture, Namespace, PacketHeader, Process, TrafficSource, can_run, connect, wait_until,
    wait_until_reachable,
};
use rustix::process::{Pid, Signal, kill_process};

use super::bed::{End, PORT, Program};
use super::confined::helpers_of;
use super::files::up;
use crate::routing::leaks::bed::{
    Leaks, NAME_SERVER, NameServer, TARGETS, WAIT, is_of_the_link, leaked, set,
};

const SERVER: &str = "203.0.113.10";
/// Its name, which the name server knows.
const NAME: &str = "one.example";
const FULL: &str = "0.0.0.0/0, ::/0";

struct Bed {
    server: End,
    client: End,
    _router: Namespace,
    capture: Capture,
    _traffic: TrafficSource,
    _names: NameServer,
    file: PathBuf,
    process: Option<Process>,
    /// The packets that left in each step, as text.
    rows: String,
    leaks: u64,
}

impl Bed {
    /// Makes the bed with a file that has these lines, allowed IPs and that endpoint.
    fn new(lines: &str, allowed: &str, endpoint: &str) -> Self {
        let (server, client) = (End::create(1, Program::Adit), End::create(2, Program::Adit));
        let router = Namespace::create("router").unwrap();
        let wire = [["192.168.1.1/24", "fd00:1::1/64"], ["192.168.1.2/24", "fd00:1::2/64"]];
        connect(&router, &wire[0], &client.namespace, &wire[1], "wire").unwrap();
        let isp = [["203.0.113.1/24", "2001:db8:1::1/64"], ["203.0.113.10/24", "2001:db8:1::10/64"]];
        connect(&router, &isp[0], &server.namespace, &isp[1], "isp").unwrap();
        let name_server = format!("{NAME_SERVER}/24");
        server.namespace.ip(&["address", "add", &name_server, "dev", "isp"]).unwrap();
        server.namespace.ip(&["route", "add", "192.168.0.0/16", "via", "203.0.113.1"]).unwrap();
        client.namespace.ip(&["route", "add", "default", "via", "192.168.1.1"]).unwrap();
        client.namespace.ip(&["-6", "route", "add", "default", "via", "fd00:1::1"]).unwrap();
        set(&router, &["ipv4/ip_forward", "ipv6/conf/all/forwarding"]);
        set(&client.namespace, &["ipv4/conf/wire/rp_filter"]);
        client.scratch.write("resolv.conf", &format!("nameserver {NAME_SERVER}\n")).unwrap();
        let key = fs::read_to_string(&client.key_file).unwrap();
        let text = format!(
            "[Interface]\nPrivateKey = {}\nAddress = {}/24, {}/64\n{lines}\n[Peer]\nPublicKey = {}\n\
             AllowedIPs = {allowed}\nEndpoint = {endpoint}:{PORT}\nPersistentKeepalive = 1\n",
            key.trim(),
            client.inner(),
            client.inner_v6(),
            server.public_key
        );
        let file = client.scratch.write(&format!("{}.conf", client.device), &text).unwrap();
        server.start().unwrap();
        server.set_key();
        server.add_peer(&client, None);
        server.bring_up();
        let names = NameServer::start(&server.namespace);
        let capture = Capture::start(&router, &["wire"], is_expected).unwrap();
        let targets = TARGETS.map(|target| target.parse().unwrap());
        let traffic = TrafficSource::start(&client.namespace, &targets).unwrap();
        let bed = Bed {
            server,
            client,
            _router: router,
            capture,
            _traffic: traffic,
            _names: names,
            file,
            process: None,
            rows: String::new(),
            leaks: 0,
        };
        bed.wait_for_leaks();
        bed
    }

    fn start(&mut self) {
        self.process = Some(up(&self.client, &[Path::new("--kill-switch"), &self.file]));
        self.process().wait_for_line(0, "kill switch on", WAIT).unwrap();
        self.forget();
    }

    fn start_without_kill_switch(&mut self) {
        self.process = Some(up(&self.client, &[&self.file]));
        self.process().wait_for_line(0, "interface up", WAIT).unwrap();
        self.wait_until_up();
        self.forget();
    }

    fn forget(&self) {
        // The packets that left before are dropped.
        let _ = self.capture.take();
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    fn wait_until_up(&mut self) {
        let answered = wait_until_reachable(&self.client.namespace, self.server.inner(), WAIT);
        if let Err(error) = answered {
            panic!("{error}\n{}", self.process().log());
        }
    }

    /// Adds the packets that left since the last step.
    fn add(&mut self, step: &str) {
        let Leaks { v4, v6, example } = leaked(&self.capture);
        let _ =
            writeln!(self.rows, "  {step:<40} IPv4 {v4:>5}  IPv6 {v6:>5}  {}", example.unwrap_or_default());
        self.leaks += v4 + v6;
    }

    fn check(&self) {
        #[allow(clippy::print_stderr, reason = "the table is for who runs the test")]
        {
            eprintln!("packets that left beside the tunnel:\n{}", self.rows);
        }
        assert_eq!(self.leaks, 0, "{}", self.rows);
    }

    /// Waits until the capture has packets that leave, of both families.
    fn wait_for_leaks(&self) {
        wait_until("packets on the wire", WAIT, || {
            let leaks = leaked(&self.capture);
            leaks.v4 > 0 && leaks.v6 > 0
        })
        .unwrap();
    }

    fn turn_off(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.args(["kill-switch", "off"]).arg(&self.file);
        let said = self.client.namespace.run(command).unwrap();
        assert!(said.contains("is off"), "{said}");
    }
}

/// The tunnel's own datagrams, the questions for the server's name, and the packets that a link needs.
fn is_expected(packet: &PacketHeader) -> bool {
    let to_server = Ok(packet.destination) == SERVER.parse();
    match (packet.protocol, packet.port) {
        (17, PORT) => to_server,
        (17, 53) => packet.destination == NAME_SERVER,
        // Errors, of these datagrams.
        (1, _) => to_server || packet.destination == NAME_SERVER,
        (58 | 0, _) => is_of_the_link(packet),
        _ => false,
    }
}

fn kill(process: u32) {
    kill_process(Pid::from_raw(i32::try_from(process).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// From before the start until it is turned off, also while adit is killed.
#[test]
fn nothing_leaves_beside_a_full_tunnel_with_the_kill_switch() {
    if !can_run("nothing_leaves_beside_a_full_tunnel_with_the_kill_switch", &["wg", "nft"]) {
        return;
    }
    let mut bed = Bed::new("", FULL, NAME);
    bed.start();
    bed.wait_until_up();
    bed.add("it starts");
    let mark = bed.process().mark();
    bed.process().hang_up();
    bed.process().wait_for_line(mark, " holds", WAIT).unwrap();
    bed.add("SIGHUP: the name is resolved anew");
    // The helper gives the system its routes back.
    bed.process().kill().unwrap();
    wait_until("its helper to end", WAIT, || bed.client.processes().is_empty()).unwrap();
    bed.add("it is killed (SIGKILL)");
    bed.start();
    bed.wait_until_up();
    bed.add("it starts again");
    for helper in helpers_of(bed.process().id()) {
        kill(helper);
    }
    bed.process().kill().unwrap();
    wait_until("all of it to end", WAIT, || bed.client.processes().is_empty()).unwrap();
    bed.add("it is killed with its helper");
    bed.start();
    bed.wait_until_up();
    bed.add("it starts again, and finds what was left");
    assert!(bed.process().terminate(WAIT).unwrap().success(), "{}", bed.process().log());
    bed.add("SIGTERM");
    bed.check();
    bed.turn_off();
    bed.wait_for_leaks();
}

/// By the tunnel's routing alone. The operator of the local network has set routes and addresses by DHCP.
#[test]
fn nothing_leaves_beside_a_full_tunnel_by_routes_of_the_network() {
    if !can_run("nothing_leaves_beside_a_full_tunnel_by_routes_of_the_network", &["wg", "nft"]) {
        return;
    }
    for lines in ["", "FwMark = 0x99"] {
        let mut bed = Bed::new(lines, FULL, SERVER);
        bed.start_without_kill_switch();
        bed.add("it is up");
        let ip = |bed: &Bed, line: &str| {
            bed.client.namespace.ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
        };
        ip(&bed, "route add 45.0.0.5/32 via 192.168.1.1");
        ip(&bed, "-6 route add 2600::/48 via fd00:1::1");
        bed.add("routes to a /32 and a /48 (TunnelVision)");
        ip(&bed, "address add 198.51.100.2/24 dev wire");
        ip(&bed, "address add 2001:db8:5::2/64 dev wire nodad");
        bed.add("a false local network (TunnelCrack)");
        let rules = bed.client.namespace.ip(&["rule", "show"]).unwrap();
        assert!(rules.contains(if lines.is_empty() { "0x61646974" } else { "fwmark 0x99 " }), "{rules}");
        bed.client.namespace.ip(&["rule", "del", "priority", "31996"]).unwrap();
        bed.add("a rule is deleted");
        bed.wait_until_up();
        bed.check();
        assert!(bed.process().terminate(WAIT).unwrap().success(), "{}", bed.process().log());
        bed.wait_for_leaks();
    }
}

/// The kill switch knows the datagrams of a tunnel with a mark of its own, and of one that takes some networks alone.
#[test]
fn the_kill_switch_knows_each_files_datagrams() {
    if !can_run("the_kill_switch_knows_each_files_datagrams", &["wg", "nft"]) {
        return;
    }
    for (lines, allowed, mark) in
        [("FwMark = 0x99", FULL, "0x99"), ("SaveConfig = true", "10.77.0.0/24", "0x61646974")]
    {
        let mut bed = Bed::new(lines, allowed, SERVER);
        bed.start();
        bed.wait_until_up();
        assert_eq!(bed.client.wg("show DEV fwmark").unwrap().trim(), mark);
        bed.add(lines);
        bed.process().hang_up();
        bed.process().wait_for_line(0, " holds", WAIT).unwrap();
        assert_eq!(bed.client.wg("show DEV fwmark").unwrap().trim(), mark, "the mark stays");
        assert!(bed.process().terminate(WAIT).unwrap().success(), "{}", bed.process().log());
        bed.add("SIGTERM");
        bed.check();
        bed.turn_off();
        bed.wait_for_leaks();
    }
}

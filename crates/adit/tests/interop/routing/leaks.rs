//! Nothing leaves beside the tunnel of a client that sends all traffic into it.
//!
//! A router captures all that the client sends, while programs on the client send to addresses of both families without a
//! pause. Each step is done with OpenVPN's client as well, for comparison; the table that is printed is in docs/use/LEAKS.md.

pub(crate) mod bed;

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{can_run, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use self::bed::{Bed, HOST_TARGET, Leaks, SERVER_TARGET, WAIT};
use crate::bed::PROGRAMS;
use crate::options::{Program, Transport};

const FULL: [&str; 2] = ["redirect-gateway def1 ipv6", "dhcp-option DNS 10.8.0.1"];
const MARK: &str = "0x61646974";

/// The results of the steps.
struct Rows {
    program: Program,
    rows: Vec<(String, Leaks)>,
    text: String,
}

impl Rows {
    fn new(program: Program) -> Self {
        Rows { program, rows: Vec::new(), text: format!("{program:?}\n") }
    }

    /// Adds the packets that left since the last step. From adit none may.
    fn add(&mut self, bed: &Bed, step: &str, more: &str) {
        let leaks = bed.leaked();
        let _ = writeln!(self.text, "  {step:<44} IPv4 {:>5}  IPv6 {:>5}  {more}", leaks.v4, leaks.v6);
        self.rows.push((step.to_owned(), leaks));
    }

    /// Prints the table; for adit, nothing may have left.
    fn check(self) {
        #[allow(clippy::print_stderr, reason = "the comparison is for who runs the test")]
        {
            eprintln!("packets that left beside the tunnel: {}", self.text);
        }
        let leaked = self.rows.iter().filter(|(_, leaks)| leaks.v4 + leaks.v6 > 0);
        if self.program == Program::Adit {
            assert_eq!(leaked.collect::<Vec<_>>(), Vec::<&(String, Leaks)>::new(), "{}", self.text);
        }
    }
}

fn signal(bed: &mut Bed, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(bed.process().id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// M7: with routes that a DHCP server gave, before the start and later; with routes and rules deleted; reconnecting; in
/// another network.
#[test]
fn a_full_tunnel_leaks_nothing() {
    for program in [Program::OpenVpn, Program::Adit] {
        if !can_run("leaks", &PROGRAMS) {
            return;
        }
        let mut bed = Bed::new(program, &FULL);
        let mut rows = Rows::new(program);
        dhcp_route(&bed, &["route", "add", "0.0.0.0/1", "via", "192.168.1.1", "proto", "dhcp"]);
        bed.start(&[]);
        bed.wait_until_up(0).unwrap();
        let _ = bed.leaked();
        rows.add(&bed, "0.0.0.0/1 by DHCP option 121, before the start", "");

        dhcp_route(&bed, &["route", "add", "198.18.0.5/32", "via", "192.168.1.1", "proto", "dhcp"]);
        dhcp_route(&bed, &["-6", "route", "add", "2001:db8:5::/48", "via", "fd00:1::1", "proto", "dhcp"]);
        bed.aim(&[HOST_TARGET]);
        rows.add(&bed, "a /32 and a /48 by DHCP (TunnelVision)", "");
        bed.client.ip(&["-6", "route", "delete", "2001:db8:5::/48"]).unwrap();
        bed.client.ip(&["route", "delete", "198.18.0.5/32"]).unwrap();

        bed.aim(&[SERVER_TARGET]);
        rows.add(&bed, "other programs to the server (TunnelCrack)", "");
        bed.aim(&[]);
        let _ = bed.leaked();

        delete_routes(&bed);
        rows.add(&bed, "its routes are deleted", back(&bed));
        let _ = bed.leaked();

        let mark = bed.process().mark();
        signal(&mut bed, Signal::USR1);
        let up = bed.wait_until_up(mark);
        rows.add(&bed, "it reconnects", if up.is_ok() { "" } else { "does not come back" });
        if program == Program::Adit {
            up.unwrap();
        }

        change_network(&bed);
        let carries =
            bed.wait_until_carries(if program == Program::Adit { WAIT } else { Duration::from_secs(3) });
        rows.add(&bed, "another network", if carries.is_ok() { "" } else { "no answer within 3 s" });
        if program == Program::Adit {
            carries.unwrap();
        }

        rows.check();
    }
}

/// Suspected number 1: the server is lost, and the second is known by its name, which only the name server outside
/// resolves; the pushed one is in the dead tunnel.
#[test]
fn the_second_server_is_found_by_name_while_pushed_dns_is_dead() {
    if !can_run("leaks", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::new(Program::Adit, &FULL);
    let mut rows = Rows::new(Program::Adit);
    bed.start(&[]);
    bed.wait_until_up(0).unwrap();
    let _ = bed.leaked();
    let (lost, mark) = (Instant::now(), bed.process().mark());
    bed.lose_first_server();
    bed.process().wait_for_line(mark, "(ping-restart)", WAIT).unwrap();
    let noticed = lost.elapsed();
    bed.wait_until_up(mark).unwrap();
    let back = lost.elapsed().saturating_sub(noticed);
    rows.add(&bed, "the server is lost; the second by its name", &format!("back after {back:.1?}"));
    assert!(bed.process().count_lines(mark, "connecting to two.example") > 0);
    // An attempt at the first takes 2 s. By the system's resolver alone it took 46 s.
    assert!(back < Duration::from_secs(30), "{back:?}");
    bed.process().terminate(WAIT).unwrap();
    rows.check();
}

/// As a DHCP client does it; one that is there stays.
fn dhcp_route(bed: &Bed, arguments: &[&str]) {
    bed.client.ip(arguments).unwrap();
}

/// Deletes all that leads into the tunnel, a piece at a time; a rule is put back before the next one goes.
fn delete_routes(bed: &Bed) {
    for family in ["-4", "-6"] {
        let listing = bed.client.ip(&[family, "route", "show", "table", "all"]).unwrap();
        let inward = |line: &&str| {
            line.contains("dev tun") && !line.contains("table local") && !line.contains("proto kernel")
        };
        for line in listing.lines().filter(inward) {
            let words: Vec<&str> = line.split_whitespace().take_while(|word| *word != "pref").collect();
            let words: Vec<&str> =
                words.into_iter().filter(|word| !["linkdown", "onlink"].contains(word)).collect();
            // It may be back already.
            let _ = bed.client.ip(&[&[family, "route", "delete"], words.as_slice()].concat());
        }
        let rules = |bed: &Bed| bed.client.ip(&[family, "rule", "show"]).unwrap();
        let before = rules(bed);
        for line in before.lines().filter(|line| line.contains(MARK)) {
            let priority = line.split(':').next().unwrap();
            bed.client.ip(&[family, "rule", "delete", "priority", priority]).unwrap();
            wait_until("the rule", WAIT, || rules(bed) == before).unwrap();
        }
    }
}

/// Whether all goes into the tunnel again.
fn back(bed: &Bed) -> &'static str {
    let inside =
        |address: &str| bed.client.ip(&["route", "get", address]).is_ok_and(|way| way.contains("dev tun"));
    let timeout = if bed.program == Program::Adit { WAIT } else { Duration::from_secs(2) };
    match wait_until("the routes", timeout, || inside("45.0.0.5") && inside("2600::5")) {
        Ok(()) => "they are put back",
        Err(error) if bed.program == Program::Adit => panic!("{error}"),
        Err(_) => "they stay away",
    }
}

/// The cable is pulled, and the wireless network has another router.
fn change_network(bed: &Bed) {
    bed.client.ip(&["link", "set", "wire", "down"]).unwrap();
    bed.client.ip(&["route", "replace", "default", "via", "192.168.2.1", "dev", "wifi"]).unwrap();
    bed.client.ip(&["-6", "route", "replace", "default", "via", "fd00:2::1", "dev", "wifi"]).unwrap();
    let _ = bed.client.ip(&["route", "add", "0.0.0.0/1", "via", "192.168.2.1", "proto", "dhcp"]);
}

/// M11.
#[test]
fn with_block_ipv6_no_ipv6_leaves() {
    for (pushed, own) in [("redirect-gateway def1", true), ("route 198.51.100.0 255.255.255.0", false)] {
        for program in [Program::OpenVpn, Program::Adit] {
            if !can_run("leaks", &PROGRAMS) {
                return;
            }
            let mut bed = Bed::new(program, &[pushed, "block-ipv6"]);
            let mut rows = Rows::new(program);
            bed.start(&[]);
            bed.wait_until_up(0).unwrap();
            if !own {
                // Without redirection IPv4 leaves as before.
                bed.traffic.aim(&["198.51.100.7:9", "[2600::5]:9"].map(|target| target.parse().unwrap()));
            }
            let _ = bed.leaked();
            let connect = || {
                let socket = std::net::UdpSocket::bind("[::]:0").unwrap();
                socket.connect("[2600::5]:9").map_err(|error| error.kind())
            };
            let heard = bed.client.enter(connect).unwrap();
            rows.add(&bed, &format!("block-ipv6 with {pushed}"), &format!("connecting: {heard:?}"));
            if program == Program::Adit {
                assert_eq!(heard, Err(std::io::ErrorKind::NetworkUnreachable));
            }
            rows.check();
        }
    }
}

/// The tunnel's own datagrams are excepted over each transport.
#[test]
fn a_full_tunnel_over_tcp_and_ipv6_leaks_nothing() {
    for (transport, pushed) in [
        (Transport::Tcp4, &FULL[..]),
        (Transport::Udp6, &["redirect-gateway def1", "block-ipv6"]),
        (Transport::Tcp6, &FULL),
    ] {
        if !can_run("leaks", &PROGRAMS) {
            return;
        }
        let mut bed = Bed::over(transport, Program::Adit, pushed);
        let mut rows = Rows::new(Program::Adit);
        bed.start(&[]);
        bed.wait_until_up(0).unwrap();
        let _ = bed.leaked();
        bed.aim(&[SERVER_TARGET]);
        rows.add(&bed, &format!("{transport:?}"), "");
        let mark = bed.process().mark();
        signal(&mut bed, Signal::USR1);
        bed.wait_until_up(mark).unwrap();
        rows.add(&bed, "it reconnects", "");
        rows.check();
    }
}

/// From before the first connection until it is turned off, also while adit is killed.
#[test]
fn the_kill_switch_holds_until_it_is_turned_off() {
    for program in [Program::OpenVpn, Program::Adit] {
        if !can_run("kill switch", &[&PROGRAMS[..], &["nft"]].concat()) {
            return;
        }
        let mut bed = Bed::new(program, &FULL);
        let mut rows = Rows::new(program);
        let arguments: &[&str] = if program == Program::Adit { &["--kill-switch"] } else { &[] };
        bed.start(arguments);
        if program == Program::Adit {
            bed.process().wait_for_line(0, "kill switch on", WAIT).unwrap();
            let _ = bed.capture.take();
        }
        bed.wait_until_up(0).unwrap();
        rows.add(&bed, "it starts", "");
        let mark = bed.process().mark();
        signal(&mut bed, Signal::USR1);
        let up = bed.wait_until_up(mark);
        rows.add(&bed, "it reconnects", if up.is_ok() { "" } else { "does not come back" });
        if program == Program::Adit {
            up.unwrap();
        }
        bed.process().kill().unwrap();
        rows.add(&bed, "it is killed (SIGKILL)", "");
        if program == Program::Adit {
            bed.start(arguments);
            bed.wait_until_up(0).unwrap();
            rows.add(&bed, "it starts again", "");
            bed.process().terminate(WAIT).unwrap();
            rows.add(&bed, "SIGTERM", "");
            turn_off(&bed);
            wait_until("packets on the wire", WAIT, || {
                let leaks = bed.leaked();
                leaks.v4 > 0 && leaks.v6 > 0
            })
            .expect("after the end of the kill switch");
        }
        rows.check();
    }
}

fn turn_off(bed: &Bed) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.args(["kill-switch", "off"]).arg(bed.config());
    let said = bed.client.run(command).unwrap();
    assert!(said.contains("is off"), "{said}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.args(["kill-switch", "list"]);
    assert_eq!(bed.client.run(command).unwrap().trim(), "no kill switch is on");
}

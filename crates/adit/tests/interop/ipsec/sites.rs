//! Sites that routes lead to: connections with a device of their own, programs of `updown`, and routing daemons.

mod bgp;

use std::time::Duration;

use adit_testbed::{Ping, wait_until, wait_until_reachable};

use super::bed::{End, Program, Settings, WAIT, is_ready, linked, pair, row_of};

/// The connections of the ends, each with a device of its own and all traffic, whose addresses are 169.254.NUMBER.END/30.
const CONNECTIONS: [u8; 2] = [1, 2];

/// The file of an end. `links` are the addresses of the other end, by connection; `further` are lines of each connection.
fn text(end: &End, links: [&str; 2], further: &str) -> String {
    let (own, other) = (end.number(), 3 - end.number());
    let start = if own == 2 { "start" } else { "none" };
    let told = end.path("updown");
    let mut text = String::new();
    let mut connections = String::new();
    for (number, link) in CONNECTIONS.into_iter().zip(links) {
        text += &format!("#adit: c{number}.addresses = 169.254.{number}.{own}/30\n");
        connections += &format!(
            "c{number} {{\n remote_addrs = {link}\n if_id_in = {number}\n if_id_out = {number}\n {further}\n \
             local {{\n auth = psk\n id = end{own}.c{number}\n }}\n remote {{\n auth = psk\n id = end{other}.c{number}\n }}\n \
             children {{\n net{number} {{\n local_ts = 0.0.0.0/0, ::/0\n remote_ts = 0.0.0.0/0, ::/0\n start_action = {start}\n \
             updown = \"echo $PLUTO_VERB $PLUTO_CONNECTION $PLUTO_INTERFACE $PLUTO_PEER_CLIENT >> {}\"\n }}\n }}\n }}\n",
            told.display()
        );
    }
    format!(
        "{text}connections {{\n{connections}}}\nsecrets {{\n ike-1 {{\n secret = \"a long secret\"\n }}\n}}\n"
    )
}

fn has_carrier(end: &End, device: &str) -> bool {
    let shown = end.namespace.ip(&["link", "show", device]).unwrap();
    assert!(shown.contains(device), "{shown}");
    !shown.contains("NO-CARRIER")
}

fn wait_for_carrier(end: &End, device: &str, wanted: bool) {
    if let Err(error) = wait_until("the carrier", WAIT, || has_carrier(end, device) == wanted) {
        panic!("{device}, {wanted}: {error}\n{}", end.log());
    }
}

/// The calls of the program of `updown`, one a line.
fn told(end: &End) -> Vec<String> {
    let text = std::fs::read_to_string(end.path("updown")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn wait_for_told(end: &End, expected: &str, count: usize) {
    let has = || told(end).iter().filter(|line| *line == expected).count() == count;
    if let Err(error) = wait_until("the program of updown", WAIT, has) {
        panic!("{expected}, {count}: {error}\n{:?}\n{}", told(end), end.log());
    }
}

fn reaches(end: &End, target: &str) {
    let target = target.parse().unwrap();
    if let Err(error) = wait_until_reachable(&end.namespace, target, WAIT) {
        panic!("{target}: {error}\n{}", end.log());
    }
    let report = Ping::new(5, Duration::from_millis(20)).run(&end.namespace, target).unwrap();
    assert!(report.is_clean(), "{target}: {report:?}");
}

#[test]
fn two_connections_for_all_traffic_have_a_device_each_whose_link_follows_the_child_sa() {
    if !is_ready("ipsec devices of connections") {
        return;
    }
    let mut ends = linked([Program::Adit, Program::Adit]);
    let links = [["10.9.0.2"; 2], ["10.9.0.1"; 2]];
    for (end, links) in ends.iter_mut().zip(links) {
        end.write_text(&text(end, links, ""), "", "");
        end.start_with_vici();
    }
    let checked = ends[1].check().unwrap();
    let expected = "the child net1 has the device ipsec1 with 169.254.1.2/30; routes through it are yours";
    assert!(checked.contains(expected), "{checked}");
    for number in CONNECTIONS {
        reaches(&ends[1], &format!("169.254.{number}.1"));
        ends.iter().for_each(|end| wait_for_carrier(end, &format!("ipsec{number}"), true));
    }
    // The system's routes are its own.
    let routes = ends[1].namespace.ip(&["route", "show", "table", "all"]).unwrap();
    assert!(!routes.contains("default"), "{routes}");
    for family in ["0.0.0.0/0", "::/0"] {
        let six = if family == "::/0" { "-v6" } else { "" };
        ends.iter().for_each(|end| wait_for_told(end, &format!("up-client{six} net1 ipsec1 {family}"), 1));
    }
    // This end does not bring it up again by itself.
    ends[1].control(&["--terminate", "--ike", "c1"]).unwrap();
    ends.iter().for_each(|end| wait_for_carrier(end, "ipsec1", false));
    ends.iter().for_each(|end| wait_for_told(end, "down-client net1 ipsec1 0.0.0.0/0", 1));
    assert!(ends.iter().all(|end| has_carrier(end, "ipsec2")));
    reaches(&ends[1], "169.254.2.1");
    ends[1].control(&["--initiate", "--child", "net1"]).unwrap();
    wait_for_carrier(&ends[0], "ipsec1", true);
    reaches(&ends[1], "169.254.1.1");
    // At the end of the tunnel the programs run, too, and the devices go.
    ends[1].process().terminate(WAIT).unwrap();
    wait_for_told(&ends[1], "down-client-v6 net2 ipsec2 ::/0", 1);
    assert!(!ends[1].namespace.devices().unwrap().iter().any(|device| device.starts_with("ipsec")));
}

/// strongSwan ends the IKE SA: the link goes down and comes back, and packets take the route of before.
#[test]
fn a_device_beside_strongswan_comes_back_after_the_peer_has_ended_the_child() {
    if !is_ready("ipsec close_action of a device") {
        return;
    }
    let programs = [Program::StrongSwan, Program::Adit];
    row_of("if_id_in, close_action = start and updown of adit", programs, |_| {
        let own = |line: &str| [String::new(), line.to_owned()];
        let settings = Settings {
            connection: own("if_id_in = 7\n if_id_out = 7"),
            child: own("close_action = start\n updown = \"exit 3\""),
            ..Settings::default()
        };
        let mut ends = pair(programs, &settings);
        let logged = "c: the program of `updown` for up-client: exit 3: it ended with exit code 3";
        ends[1].process().wait_for_line(0, logged, WAIT).unwrap();
        let routes = [("10.77.1.0/24", ends[1].inner()), ("fd00:77:1::/64", ends[1].inner_v6())];
        for (network, source) in routes {
            let source = source.to_string();
            ends[1].namespace.ip(&["route", "add", network, "dev", "ipsec7", "src", &source]).unwrap();
        }
        ends[1].reaches(&ends[0]);
        let before = ends[0].ike_sas();
        let mark = ends[1].process().mark();
        ends[0].control(&["--terminate", "--ike", "t"]).unwrap();
        wait_for_carrier(&ends[1], "ipsec7", false);
        ends[1].process().wait_for_line(mark, "connected", WAIT).unwrap();
        wait_for_carrier(&ends[1], "ipsec7", true);
        ends[1].reaches(&ends[0]);
        ends[0].settles(&before);
    });
}

/// The peer's name resolves to another address later, as after a change of its line.
#[test]
fn the_name_of_a_peer_is_looked_up_until_it_has_an_address() {
    if !is_ready("ipsec names") {
        return;
    }
    let mut ends = linked([Program::Adit, Program::Adit]);
    let hosts = ends[1].path("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    for (end, peer) in ends.iter_mut().zip(["10.9.0.2", "peer.example"]) {
        end.write_text(&text(end, [peer; 2], ""), "", "");
    }
    ends[0].start();
    ends[1].start_with_hosts(&hosts);
    ends[1].process().wait_for_line(0, "peer.example: ", WAIT).unwrap();
    std::fs::write(&hosts, "127.0.0.1 localhost\n10.9.0.1 peer.example\n").unwrap();
    reaches(&ends[1], "169.254.1.1");
    reaches(&ends[1], "169.254.2.1");
}

//! BGP by Debian's bird2 over two devices, whose links are on wires of their own.

use std::time::{Duration, Instant};

use adit_testbed::{Process, can_run, connect, program, wait_until};

use super::super::bed::{End, Program, WAIT, is_ready, linked};
use super::{reaches, text, wait_for_carrier};

/// Networks that the ends announce to each other, by the number of the end.
fn network(end: usize) -> String {
    format!("10.66.{end}.0/24")
}

/// bird's file (bird.conf(5)): one session over each device, and the device with the lower number first.
fn bird(end: &End) -> String {
    let (own, other) = (end.number(), 3 - end.number());
    let session = |number: usize| {
        format!(
            "protocol bgp over{number} {{\n local 169.254.{number}.{own} as {};\n neighbor 169.254.{number}.{other} as {};\n \
             interface \"ipsec{number}\";\n direct;\n check link yes;\n connect retry time 1;\n connect delay time 1;\n error wait time 1, 2;\n \
             ipv4 {{\n import filter {{ bgp_local_pref = {}; accept; }};\n export all;\n }};\n}}\n",
            65000 + own,
            65000 + other,
            200 - number,
        )
    };
    format!(
        "router id 10.66.{own}.1;\nprotocol device {{ scan time 1; }}\nprotocol static {{\n ipv4;\n route {} blackhole;\n}}\n\
         protocol kernel {{\n scan time 1;\n ipv4 {{ export where source = RTS_BGP; }};\n}}\n{}{}",
        network(own),
        session(1),
        session(2)
    )
}

fn start_bird(end: &End) -> Process {
    end.put("bird.conf", &bird(end));
    let mut command = program("bird").unwrap();
    command.arg("-f").arg("-c").arg(end.path("bird.conf")).arg("-s").arg(end.path("bird.ctl"));
    end.namespace.spawn("bird", command).unwrap()
}

/// The device of the route to the other end's network.
fn way(end: &End) -> Option<String> {
    let shown = end.namespace.ip(&["route", "show", &network(3 - end.number())]).unwrap();
    shown.split("dev ").nth(1).and_then(|rest| rest.split_whitespace().next()).map(str::to_owned)
}

fn wait_for_way(end: &End, device: &str) {
    if let Err(error) = wait_until("the route of BGP", WAIT, || way(end).as_deref() == Some(device)) {
        panic!("{device}: {error}, {:?}\n{}", way(end), end.log());
    }
}

/// Two ends with two wires and a connection on each, and BGP over both.
fn sites(further: &str) -> ([End; 2], [Process; 2]) {
    let mut ends = linked([Program::Adit, Program::Adit]);
    connect(&ends[0].namespace, &["10.8.0.1/24"], &ends[1].namespace, &["10.8.0.2/24"], "wire2").unwrap();
    let links = [["10.9.0.2", "10.8.0.2"], ["10.9.0.1", "10.8.0.1"]];
    for (end, links) in ends.iter_mut().zip(links) {
        end.write_text(&text(end, links, further), "", "");
        end.start_with_vici();
    }
    for number in [1, 2] {
        reaches(&ends[1], &format!("169.254.{number}.1"));
    }
    let birds = [start_bird(&ends[0]), start_bird(&ends[1])];
    ends.iter().for_each(|end| wait_for_way(end, "ipsec1"));
    (ends, birds)
}

fn is_bird_ready(test: &str) -> bool {
    is_ready(test) && can_run(test, &["bird"])
}

#[test]
fn bgp_takes_the_other_device_when_a_child_sa_has_ended_and_comes_back() {
    if !is_bird_ready("ipsec BGP") {
        return;
    }
    let (ends, _birds) = sites("");
    let begin = Instant::now();
    ends[1].control(&["--terminate", "--ike", "c1"]).unwrap();
    ends.iter().for_each(|end| wait_for_way(end, "ipsec2"));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    ends[1].control(&["--initiate", "--child", "net1"]).unwrap();
    ends.iter().for_each(|end| wait_for_way(end, "ipsec1"));
}

mod long {
    use super::*;

    /// The time from the first message that is lost to the end of the IKE SA: a second of silence, and 82 s of retransmissions
    /// (`Times` of the machine).
    const GIVEN_UP: Duration = Duration::from_secs(83);

    #[test]
    #[ignore = "long: a minute and a half"]
    fn bgp_takes_the_other_device_within_five_seconds_after_a_dead_peer_is_detected() {
        if !is_bird_ready("ipsec BGP and dead peers") {
            return;
        }
        let (ends, _birds) = sites("dpd_delay = 1s\n mobike = no");
        let begin = Instant::now();
        // On the first wire nothing passes any more.
        for end in &ends {
            end.nft("add table inet cut\nadd chain inet cut in { type filter hook input priority 0; }\nadd rule inet cut in iifname wire drop\n");
        }
        let limit = GIVEN_UP + Duration::from_secs(5);
        for end in &ends {
            wait_until("the other device", 2 * limit, || way(end).as_deref() == Some("ipsec2")).unwrap();
        }
        assert!(begin.elapsed() < limit, "{:?}", begin.elapsed());
        wait_for_carrier(&ends[1], "ipsec1", false);
    }
}

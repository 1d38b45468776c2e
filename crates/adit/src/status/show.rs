//! A status report for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use adit_core::escaped;

use super::report::{Direction, Peer, Report, Switch, Unconnected, Worker};

/// Peers that are shown of those that are not connected.
const MOST_UNCONNECTED: usize = 20;

/// A tunnel by the reports of its endpoints, without a line end at its end.
pub(super) fn tunnel(endpoints: &[&Report]) -> String {
    let mut out = String::new();
    let Some(first) = endpoints.first() else { return out };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", title(endpoints, first));
    let _ = writeln!(out, "  offloads   {}", switches(&first.offloads));
    let limited: usize = endpoints.iter().map(|report| report.gso_limited_destinations).sum();
    if limited > 0 {
        let _ = writeln!(out, "  udp-gso    limited for {limited} of the destinations, whose path is narrow");
    }
    if !first.sandbox.is_empty() {
        let _ = writeln!(out, "  sandbox    {}", switches(&first.sandbox));
    }
    for expiring in endpoints.iter().flat_map(|report| &report.expiring) {
        let _ = writeln!(out, "  warning    {}", escaped(&expiring.to_string()));
    }
    line(&mut out, "sent", &first.sent);
    line(&mut out, "received", &first.received);
    if first.workers.len() > 1 {
        for (number, each) in first.workers.iter().enumerate() {
            worker(&mut out, number, each);
        }
    }
    dropped(&mut out, "dropped sending", &first.sent.drops);
    dropped(&mut out, "dropped receiving", &first.received.drops);
    for report in endpoints {
        if endpoints.len() > 1 {
            let _ = writeln!(out, "  endpoint   {}", escaped(&report.name));
        }
        dropped(&mut out, "lost", &report.losses);
        who(&mut out, report);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// The first line. The counts are those of all endpoints.
fn title(endpoints: &[&Report], first: &Report) -> String {
    let [role, device] = [&first.role, &first.device].map(|text| escaped(text));
    let names: Vec<_> = endpoints.iter().map(|report| escaped(&report.name)).collect();
    let names = names.join(", ");
    let all: Vec<_> = first.endpoints.iter().map(|name| escaped(name)).collect();
    match (endpoints.len(), all.len()) {
        (1, 0..2) => format!("{names} ({role}, pid {}) on {device}", first.pid),
        (1, _) => format!("{names} ({role}, pid {}) on {device}, one of {}", first.pid, all.join(", ")),
        _ => format!("{names} ({role}, pid {}), endpoints of one tunnel on {device}", first.pid),
    }
}

/// An endpoint's tables and peers.
fn who(out: &mut String, report: &Report) {
    for table in &report.tables {
        let _ = writeln!(out, "  limit      {}", escaped(&table.to_string()));
    }
    if report.peers.is_empty() {
        out.push_str("  no peer is connected");
    }
    for (index, each) in report.peers.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        peer(out, each);
    }
    for each in report.unconnected.iter().take(MOST_UNCONNECTED) {
        out.push('\n');
        unconnected(out, each);
    }
    if let Some(more @ 1..) = report.unconnected.len().checked_sub(MOST_UNCONNECTED) {
        let _ = write!(out, "\n  and {more} more that are not connected; --json shows all");
    }
}

/// A peer that is not connected, in one line.
fn unconnected(out: &mut String, peer: &Unconnected) {
    let state = match (peer.blocked, peer.unanswered) {
        (true, _) => "blocked".to_owned(),
        (false, 0) => "no handshake yet".to_owned(),
        (false, 1) => "1 initiation without an answer".to_owned(),
        (false, count) => format!("{count} initiations without an answer"),
    };
    let remote = peer.remote.map_or_else(|| "no endpoint".to_owned(), |remote| format!("at {remote}"));
    let _ = write!(out, "  {} {remote}: {state}", escaped(&peer.name));
}

fn switches(states: &BTreeMap<String, Switch>) -> String {
    let word = |(name, state): (&String, &Switch)| match state {
        Switch::On => format!("{} on", escaped(name)),
        Switch::SwitchedOff => format!("{} switched off", escaped(name)),
        Switch::Failed { why } => format!("{} off ({})", escaped(name), escaped(why)),
    };
    states.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn line(out: &mut String, label: &str, direction: &Direction) {
    let _ = writeln!(out, "  {label:<10} {} packets, {}", direction.packets, bytes(direction.bytes));
}

fn worker(out: &mut String, number: usize, worker: &Worker) {
    let Worker { peers, packets_sent, packets_received, handed_over } = worker;
    let _ = writeln!(
        out,
        "  worker {number}   {peers} peers; {packets_sent} packets sent, {packets_received} received, \
         {handed_over} handed to other workers"
    );
}

fn dropped(out: &mut String, label: &str, reasons: &BTreeMap<String, u64>) {
    for (reason, count) in reasons {
        let _ = writeln!(out, "  {label}: {count} ({})", escaped(reason));
    }
}

fn peer(out: &mut String, peer: &Peer) {
    let addresses: Vec<String> = peer.addresses.iter().map(ToString::to_string).collect();
    let [name, transport] = [&peer.name, &peer.transport].map(|text| escaped(text));
    let _ = writeln!(out, "  {name} at {transport} {}", peer.remote);
    let _ = writeln!(out, "    addresses  {}", addresses.join(", "));
    if !peer.networks.is_empty() {
        let _ = writeln!(out, "    networks   {}", escaped(&peer.networks.join(", ")));
    }
    let _ = writeln!(out, "    keys       {}, {}", escaped(&peer.cipher), escaped(&peer.tls));
    let _ = writeln!(
        out,
        "    handshake  {} ago, {} renewed, connected for {}",
        duration(peer.last_handshake_seconds_ago),
        peer.rekeys,
        duration(peer.connected_seconds)
    );
    let _ = writeln!(out, "    sent       {} packets, {}", peer.packets_sent, bytes(peer.bytes_sent));
    let _ = write!(out, "    received   {} packets, {}", peer.packets_received, bytes(peer.bytes_received));
}

/// Bytes with three digits and a unit.
#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report::Table;
    use super::*;
    use crate::status::report::Expiring;

    #[test]
    fn bytes_have_three_digits() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(12_345_678), "12.3 MB");
        assert_eq!(bytes(999_700), "1.00 MB");
    }

    /// A report with something in every place, and what a terminal would obey in every text.
    pub(in crate::status) fn wild_report() -> Report {
        let wild = |text: &str| format!("{text}\n  alice\u{1b}[2J\u{202e}");
        let drops = || BTreeMap::from([(wild("reason"), 1)]);
        let counts = || Direction { packets: 0, bytes: 0, drops: drops() };
        let each = Peer {
            id: 0,
            name: wild("bob"),
            transport: wild("udp"),
            remote: ([192, 0, 2, 1], 1194).into(),
            addresses: vec![[10, 8, 0, 2].into()],
            networks: vec![wild("10.9.0.0/24")],
            cipher: wild("AES-256-GCM"),
            tls: wild("TLS 1.3\r"),
            connected_seconds: 0,
            rekeys: 0,
            last_handshake_seconds_ago: 0,
            packets_sent: 0,
            bytes_sent: 0,
            packets_received: 0,
            bytes_received: 0,
        };
        let expiring =
            Expiring { what: wild("the CA"), at: wild("2026"), days_left: 1, renew: wild("adit renew") };
        Report {
            name: wild("office"),
            pid: 1,
            role: wild("server"),
            device: wild("tun0"),
            endpoints: vec![wild("office"), wild("tcp")],
            offloads: BTreeMap::from([(wild("tun-tso"), Switch::Failed { why: wild("why") })]),
            gso_limited_destinations: 1,
            sent: counts(),
            received: counts(),
            workers: Vec::new(),
            losses: drops(),
            expiring: vec![expiring],
            tables: vec![Table {
                name: "handshakes".to_owned(),
                entries: 3,
                share: 128,
                limit: 1024,
                evicted: 9,
                refused: 0,
            }],
            sandbox: BTreeMap::new(),
            peers: vec![each],
            unconnected: vec![Unconnected {
                name: wild("carol"),
                remote: None,
                networks: vec![wild("10.9.1.0/24")],
                unanswered: 2,
                blocked: false,
            }],
        }
    }

    #[test]
    fn a_name_makes_no_line_and_commands_no_terminal() {
        let text = tunnel(&[&wild_report()]);
        assert!(text.contains("  bob\\n  alice\\u{1b}[2J\\u{202e} at udp"), "{text}");
        let table = "  limit      handshakes: 3 of 1024 (128 of one source), 9 evicted, 0 refused\n";
        assert!(text.contains(table), "{text}");
        let carol = "\n  carol\\n  alice\\u{1b}[2J\\u{202e} no endpoint: 2 initiations without an answer";
        assert!(text.ends_with(carol), "{text}");
        assert!(text.split('\n').all(|line| !line.contains(adit_core::is_unprintable)), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("  alice")), "{text}");
    }

    #[test]
    fn endpoints_of_one_tunnel_are_shown_together() {
        let report = |name: &str| Report {
            name: name.to_owned(),
            role: "server".to_owned(),
            device: "tun0".to_owned(),
            endpoints: vec!["udp".to_owned(), "tcp".to_owned()],
            ..wild_report()
        };
        let [udp, tcp] = ["udp", "tcp"].map(report);
        let text = tunnel(&[&udp, &tcp]);
        assert!(text.starts_with("udp, tcp (server, pid 1), endpoints of one tunnel on tun0\n"), "{text}");
        let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(
            (lines("  sent "), lines("  endpoint   udp"), lines("  endpoint   tcp")),
            (1, 1, 1),
            "{text}"
        );
        assert_eq!(lines("  bob"), 2, "{text}");
        let alone = tunnel(&[&udp]);
        assert!(alone.starts_with("udp (server, pid 1) on tun0, one of udp, tcp\n"), "{alone}");
    }

    #[test]
    fn offloads_say_why_they_are_off() {
        let why = "the kernel refuses it".to_owned();
        let states = [
            ("tun-tso".to_owned(), Switch::On),
            ("tun-uso".to_owned(), Switch::Failed { why }),
            ("udp-gro".to_owned(), Switch::SwitchedOff),
        ];
        let text = switches(&states.into_iter().collect());
        assert_eq!(text, "tun-tso on, tun-uso off (the kernel refuses it), udp-gro switched off");
    }

    #[test]
    fn durations_have_two_units() {
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(3_599), "59 min 59 s");
        assert_eq!(duration(7_260), "2 h 1 min");
    }
}

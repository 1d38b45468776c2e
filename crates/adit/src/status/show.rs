//! A status report for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use adit_core::escaped;

use super::report::{Direction, Peer, Report, Switch, Worker};

/// The whole report, without a line end at its end.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let [name, role, device] = [&report.name, &report.role, &report.device].map(|text| escaped(text));
    let _ = writeln!(out, "{name} ({role}, pid {}) on {device}", report.pid);
    let _ = writeln!(out, "  offloads   {}", switches(&report.offloads));
    if report.gso_limited_destinations > 0 {
        let count = report.gso_limited_destinations;
        let _ = writeln!(out, "  udp-gso    limited for {count} of the destinations, whose path is narrow");
    }
    if !report.sandbox.is_empty() {
        let _ = writeln!(out, "  sandbox    {}", switches(&report.sandbox));
    }
    for expiring in &report.expiring {
        let _ = writeln!(out, "  warning    {}", escaped(&expiring.to_string()));
    }
    line(&mut out, "sent", &report.sent);
    line(&mut out, "received", &report.received);
    if report.workers.len() > 1 {
        for (number, each) in report.workers.iter().enumerate() {
            worker(&mut out, number, each);
        }
    }
    dropped(&mut out, "dropped sending", &report.sent.drops);
    dropped(&mut out, "dropped receiving", &report.received.drops);
    dropped(&mut out, "lost", &report.losses);
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
        peer(&mut out, each);
    }
    out
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
        }
    }

    #[test]
    fn a_name_makes_no_line_and_commands_no_terminal() {
        let text = text(&wild_report());
        assert!(text.contains("  bob\\n  alice\\u{1b}[2J\\u{202e} at udp"), "{text}");
        let table = "  limit      handshakes: 3 of 1024 (128 of one source), 9 evicted, 0 refused\n";
        assert!(text.contains(table), "{text}");
        assert!(text.split('\n').all(|line| !line.contains(adit_core::is_unprintable)), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("  alice")), "{text}");
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

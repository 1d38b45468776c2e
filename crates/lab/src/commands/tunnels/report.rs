//! The figures, as tables and for a file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::lifetime::{Counted, Lifetime};
use super::testbed::{Arrangement, Start};
use crate::commands::output::{cell, table};

/// One sample for each round.
#[derive(Default, Serialize)]
struct Samples {
    listening_ms: Vec<f64>,
    first_packet_median_ms: Vec<f64>,
    first_packet_last_ms: Vec<f64>,
    server_pss_kib_a_tunnel: Vec<f64>,
    server_rss_kib_a_tunnel: Vec<f64>,
    client_pss_kib_a_tunnel: Vec<f64>,
}

/// All figures.
#[derive(Serialize)]
pub(super) struct Report {
    machine: Vec<String>,
    tunnels: u16,
    arrangements: BTreeMap<String, Samples>,
    pub(super) lifetime: Option<Lifetime>,
    failures: Vec<String>,
}

impl Report {
    pub(super) fn new(machine: Vec<String>, tunnels: u16) -> Report {
        Report { machine, tunnels, arrangements: BTreeMap::new(), lifetime: None, failures: Vec::new() }
    }

    pub(super) fn note(&mut self, arrangement: Arrangement, start: &Start) {
        let count = f64::from(self.tunnels);
        let samples = self.arrangements.entry(arrangement.name(self.tunnels)).or_default();
        let mut times: Vec<f64> = start.first_packets.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        samples.listening_ms.push(start.listening.as_secs_f64() * 1e3);
        samples.first_packet_median_ms.extend(times.get(times.len() / 2));
        samples.first_packet_last_ms.extend(times.last());
        samples.server_pss_kib_a_tunnel.push(start.servers.proportional_kib / count);
        samples.server_rss_kib_a_tunnel.push(start.servers.resident_kib / count);
        samples.client_pss_kib_a_tunnel.push(start.clients.proportional_kib / count);
    }

    pub(super) fn fail(&mut self, arrangement: Arrangement, round: u32, why: &str) {
        self.failures.push(format!("{}, round {}: {why}", arrangement.name(self.tunnels), round + 1));
    }

    /// Whether all was measured, and no packet was lost.
    pub(super) fn is_good(&self) -> bool {
        self.failures.is_empty() && self.lifetime.as_ref().is_some_and(Lifetime::is_good)
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = self.machine.join("; ") + "\n\n";
        let rows = Arrangement::ALL.into_iter().filter_map(|arrangement| {
            let name = arrangement.name(self.tunnels);
            let samples = self.arrangements.get(&name)?;
            let cells = [
                &samples.listening_ms,
                &samples.first_packet_median_ms,
                &samples.first_packet_last_ms,
                &samples.server_pss_kib_a_tunnel,
                &samples.server_rss_kib_a_tunnel,
                &samples.client_pss_kib_a_tunnel,
            ];
            let cells = cells.map(|values| cell(values, 0));
            Some([name].into_iter().chain(cells).collect())
        });
        let first = format!("{} tunnels", self.tunnels);
        let columns = [
            first.as_str(),
            "all listen after, ms",
            "first packet of half of them after, ms",
            "first packet of the last after, ms",
            "servers' memory a tunnel, PSS, KiB",
            "the same, RSS, KiB",
            "clients' memory a tunnel, PSS, KiB",
        ];
        text += &table(&columns, &rows.collect::<Vec<Vec<String>>>());
        if let Some(lifetime) = &self.lifetime {
            text += &told(lifetime);
        }
        for failure in &self.failures {
            let _ = write!(text, "\n**NOT MEASURED: {}**\n", failure.trim());
        }
        text
    }
}

/// The life of the tunnels of one process.
fn told(lifetime: &Lifetime) -> String {
    let sum = |value: fn(&Counted) -> u64| lifetime.tunnels.iter().map(value).sum::<u64>();
    let count = lifetime.tunnels.len();
    let lossy = lifetime.tunnels.iter().filter(|tunnel| tunnel.lost > 0).count();
    let gap = lifetime.tunnels.iter().map(|tunnel| tunnel.longest_gap).max().unwrap_or(0);
    let rows = [
        ("files that arrived whole", format!("{} of {count}", lifetime.transfers)),
        ("numbered packets sent", sum(|tunnel| tunnel.sent).to_string()),
        ("tunnels ended one after another", lifetime.ended.to_string()),
        ("one tunnel's file changed, SIGHUP", lifetime.reload.clone()),
        ("lost by all tunnels, each until its own end", sum(|tunnel| tunnel.lost).to_string()),
        ("tunnels that lost a packet", lossy.to_string()),
        ("the most in a row", gap.to_string()),
        ("answered twice", sum(|tunnel| tunnel.repeated).to_string()),
        (
            "control: one tunnel's way back cut for 300 ms",
            format!("{} of {} lost", lifetime.control.lost, lifetime.control.sent),
        ),
        ("verdict", if lifetime.is_good() { "pass".to_owned() } else { "**FAIL**".to_owned() }),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    format!("\n{}", table(&["one process", ""], &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn figures_are_for_each_tunnel() {
        let mut report = Report::new(vec!["here".to_owned()], 2);
        let usage = |kib: f64| adit_testbed::Usage {
            resident_kib: 2.0 * kib,
            proportional_kib: kib,
            ..adit_testbed::Usage::default()
        };
        let start = Start {
            listening: Duration::from_millis(30),
            first_packets: [9, 5].map(Duration::from_millis).into(),
            servers: usage(4000.0),
            clients: usage(3000.0),
        };
        report.note(Arrangement::AditTogether, &start);
        let text = report.markdown();
        assert!(text.contains("| adit, one process | 30 | 9 | 9 | 2000 | 4000 | 1500 |"), "{text}");
        assert!(!report.is_good(), "nothing is known of losses");
        report.fail(Arrangement::OpenVpnApart, 0, "no reply");
        assert!(report.markdown().contains("**NOT MEASURED: OpenVPN, 2 processes, round 1: no reply**"));
    }

    #[test]
    fn a_loss_is_shown() {
        let tunnels = vec![Counted { sent: 10, lost: 2, repeated: 0, longest_gap: 2 }; 1];
        let text = told(&Lifetime { transfers: 1, tunnels, ..Lifetime::default() });
        assert!(text.contains("| lost by all tunnels, each until its own end | 2 |"), "{text}");
        assert!(text.contains("| tunnels that lost a packet | 1 |") && text.contains("**FAIL**"), "{text}");
    }
}

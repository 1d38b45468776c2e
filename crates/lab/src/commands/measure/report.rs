//! The figures, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::subject::Subject;
use crate::commands::output::spread;

/// A metric, its heading, and the decimals to show.
type Column = (&'static str, &'static str, usize);

/// Each with a title.
const TABLES: [(&str, &[Column]); 7] = [
    (
        "One TCP flow",
        &[
            ("up_mbit", "to server, Mbit/s", 0),
            ("down_mbit", "to client, Mbit/s", 0),
            ("up_cpu_s_per_gb", "to server, CPU s/GB", 2),
            ("down_cpu_s_per_gb", "to client, CPU s/GB", 2),
        ],
    ),
    (
        "UDP, 64 bytes: packets received a second",
        &[
            ("udp64_offered", "offered, saturating", 0),
            ("udp64_pps", "received", 0),
            ("udp64_double_offered", "offered, twice that", 0),
            ("udp64_double_pps", "received then", 0),
            ("udp64_kept", "kept", 2),
        ],
    ),
    (
        "UDP, 1300 bytes: packets received a second",
        &[
            ("udp1300_offered", "offered, saturating", 0),
            ("udp1300_pps", "received", 0),
            ("udp1300_double_offered", "offered, twice that", 0),
            ("udp1300_double_pps", "received then", 0),
            ("udp1300_kept", "kept", 2),
        ],
    ),
    (
        "Round trip, 1000 echoes a second, in microseconds",
        &[
            ("idle_p50_us", "idle p50", 0),
            ("idle_p99_us", "idle p99", 0),
            ("idle_lost", "idle, lost", 0),
            ("loaded_p50_us", "under a TCP flow p50", 0),
            ("loaded_p99_us", "under a TCP flow p99", 0),
            ("loaded_lost", "under a TCP flow, lost", 0),
        ],
    ),
    ("From the start of the client's process to the first reply", &[("start_ms", "ms", 1)]),
    (
        "A server with many clients: handshakes and memory",
        &[
            ("ecdsa_handshakes", "P-256, handshakes a second and core", 0),
            ("ecdsa_handshakes_wall", "P-256, a second", 0),
            ("hybrid_handshakes", "P-256 and X25519MLKEM768 where known, a second and core", 0),
            ("rsa_handshakes", "RSA-2048, handshakes a second and core", 0),
            ("rsa_handshakes_wall", "RSA-2048, a second", 0),
            ("client_rss_kib", "resident KiB a client", 1),
            ("client_pss_kib", "proportional KiB a client", 1),
        ],
    ),
    (
        "One TCP flow, with many clients connected",
        &[
            ("alone_up_mbit", "alone, to server, Mbit/s", 0),
            ("among_clients_up_mbit", "among many", 0),
            ("among_clients_up_kept", "kept", 2),
            ("alone_down_mbit", "alone, to client, Mbit/s", 0),
            ("among_clients_down_mbit", "among many", 0),
            ("among_clients_down_kept", "kept", 2),
        ],
    ),
];

/// Metrics whose ratios to the bases are shown.
const COMPARED: [&str; 12] = [
    "up_mbit",
    "down_mbit",
    "up_cpu_s_per_gb",
    "down_cpu_s_per_gb",
    "udp64_pps",
    "udp1300_pps",
    "idle_p50_us",
    "loaded_p99_us",
    "ecdsa_handshakes",
    "hybrid_handshakes",
    "rsa_handshakes",
    "client_rss_kib",
];

const BASES: [Subject; 7] = [
    Subject::OpenvpnUdp,
    Subject::OpenvpnTcp,
    Subject::WireguardGo,
    Subject::Boringtun,
    Subject::Gotatun,
    Subject::Nulltun,
    Subject::AditToOpenvpn,
];

struct Sample {
    subject: Subject,
    round: u32,
    metric: &'static str,
    value: f64,
}

/// All figures of a run.
pub(super) struct Results {
    subjects: Vec<Subject>,
    machine: Vec<String>,
    samples: Vec<Sample>,
    failures: Vec<(Subject, u32, String)>,
}

impl Results {
    pub(super) fn new(subjects: &[Subject], machine: Vec<String>) -> Results {
        Results { subjects: subjects.to_vec(), machine, samples: Vec::new(), failures: Vec::new() }
    }

    pub(super) fn note(&mut self, subject: Subject, round: u32, metric: &'static str, value: f64) {
        self.samples.push(Sample { subject, round, metric, value });
    }

    pub(super) fn failed(&mut self, subject: Subject, round: u32, why: &str) {
        self.failures.push((subject, round, why.to_owned()));
    }

    /// Whether every subject was measured in every round.
    pub(super) fn complete(&self) -> bool {
        self.failures.is_empty()
    }

    /// Every single figure.
    pub(super) fn json(&self) -> Value {
        let samples = self.samples.iter().map(|sample| {
            json!({
                "subject": sample.subject.to_string(),
                "round": sample.round,
                "metric": sample.metric,
                "value": sample.value,
            })
        });
        let failures = self.failures.iter().map(
            |(subject, round, why)| json!({ "subject": subject.to_string(), "round": round, "why": why }),
        );
        json!({
            "machine": self.machine,
            "samples": samples.collect::<Vec<_>>(),
            "failures": failures.collect::<Vec<_>>(),
        })
    }

    /// Medians with least and most, and the ratios of medians.
    pub(super) fn markdown(&self) -> String {
        let mut text = self.machine.join("; ") + "\n";
        for (title, columns) in TABLES {
            let measured =
                columns.iter().any(|(metric, ..)| self.samples.iter().any(|s| s.metric == *metric));
            if measured {
                self.table(&mut text, title, columns);
            }
        }
        self.ratios(&mut text);
        for (subject, round, why) in &self.failures {
            let _ = write!(text, "\n**NOT MEASURED: {subject} in round {}: {}**\n", round + 1, why.trim());
        }
        text
    }

    fn table(&self, text: &mut String, title: &str, columns: &[Column]) {
        let _ = write!(text, "\n### {title}\n\n| |");
        columns.iter().for_each(|(_, name, _)| *text += &format!(" {name} |"));
        *text += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
        for subject in &self.subjects {
            let _ = write!(text, "| {subject} |");
            for (metric, _, decimals) in columns {
                let cell = match spread(&self.values(*subject, metric)) {
                    Some([least, median, most]) => {
                        format!("{median:.decimals$} ({least:.decimals$}–{most:.decimals$})")
                    }
                    None => "–".to_owned(),
                };
                let _ = write!(text, " {cell} |");
            }
            *text += "\n";
        }
    }

    fn ratios(&self, text: &mut String) {
        let medians: BTreeMap<(Subject, &str), f64> = (self.subjects.iter())
            .flat_map(|subject| COMPARED.map(|metric| (*subject, metric)))
            .filter_map(|key| Some((key, spread(&self.values(key.0, key.1))?[1])))
            .collect();
        let bases = BASES.into_iter().filter(|base| self.subjects.contains(base));
        for base in bases {
            let rows = self.subjects.iter().filter(|subject| **subject != base);
            let compared: Vec<&str> =
                COMPARED.into_iter().filter(|metric| medians.contains_key(&(base, *metric))).collect();
            if compared.is_empty() {
                continue;
            }
            let cell = |subject: Subject, metric| {
                let (value, unit) = (medians.get(&(subject, metric))?, medians.get(&(base, metric))?);
                Some(format!("{:.2}", value / unit))
            };
            let _ = write!(text, "\n### Times {base} (ratio of medians)\n\n| |");
            compared.iter().for_each(|metric| *text += &format!(" {metric} |"));
            *text += &format!("\n|---|{}\n", "---|".repeat(compared.len()));
            for subject in rows {
                let cells = compared.iter().map(|metric| cell(*subject, metric).unwrap_or("–".to_owned()));
                let cells: Vec<String> = cells.collect();
                let _ = writeln!(text, "| {subject} | {} |", cells.join(" | "));
            }
        }
    }

    fn values(&self, subject: Subject, metric: &str) -> Vec<f64> {
        let ours = |sample: &&Sample| sample.subject == subject && sample.metric == metric;
        self.samples.iter().filter(ours).map(|sample| sample.value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        let mut results = Results::new(&[Subject::OpenvpnUdp, Subject::AditUdp], vec!["here".to_owned()]);
        for (round, value) in [(0, 300.0), (1, 100.0), (2, 200.0)] {
            results.note(Subject::OpenvpnUdp, round, "up_mbit", value);
        }
        results.note(Subject::AditUdp, 0, "up_mbit", 2000.0);
        results.note(Subject::AditUdp, 1, "up_mbit", 3000.0);
        let text = results.markdown();
        assert!(text.contains("| openvpn-udp | 200 (100–300) |"), "{text}");
        assert!(text.contains("| adit-udp | 2500 (2000–3000) |"), "{text}");
        assert!(text.contains("| adit-udp | 12.50 |"), "{text}");
        assert!(results.complete());
        results.failed(Subject::AditUdp, 2, "it fell over");
        assert!(!results.complete() && results.markdown().contains("it fell over"));
        assert_eq!(results.json()["samples"].as_array().map(Vec::len), Some(5));
        assert_eq!(spread(&[]), None);
    }
}

//! The figures, paired round by round.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Args, Load, Sample};
use crate::commands::output::{cell, spread, table};

/// The share of its goodput that the flow must keep while the load is in its own tunnel, compared with the load in
/// another process.
const KEPT: f64 = 0.97;
/// The share of the load that must arrive: else it was another load.
const DELIVERED: f64 = 0.9;

/// All figures.
#[derive(Serialize)]
pub(super) struct Report {
    machine: Vec<String>,
    clients: u16,
    packets_a_second: u32,
    bytes: usize,
    two_tunnels: bool,
    samples: Vec<Sample>,
    failures: Vec<String>,
}

impl Report {
    pub(super) fn new(machine: Vec<String>, args: &Args) -> Report {
        Report {
            machine,
            clients: args.clients,
            packets_a_second: args.rate,
            bytes: args.size,
            two_tunnels: args.two_tunnels,
            samples: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    pub(super) fn fail(&mut self, round: u32, why: &str) {
        self.failures.push(format!("round {}: {why}", round + 1));
    }

    fn of(&self, load: Load, down: bool) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.load == load && sample.down == down)
    }

    fn values(&self, load: Load, down: bool, value: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        self.of(load, down).filter_map(value).collect()
    }

    /// Goodput with the load in the own tunnel, over that with another one, of each round.
    fn ratios(&self, down: bool, base: Load) -> Vec<f64> {
        let pair = |own: &Sample| {
            let base = self.of(base, down).find(|sample| sample.round == own.round)?;
            Some(own.megabits / base.megabits)
        };
        self.of(Load::Own, down).filter_map(pair).collect()
    }

    /// The least share of the load that arrived in any sample.
    fn delivered(&self) -> f64 {
        self.samples.iter().filter_map(|sample| sample.delivered).fold(f64::INFINITY, f64::min)
    }

    fn keeps(&self, down: bool) -> bool {
        spread(&self.ratios(down, Load::Other)).is_some_and(|[_, median, _]| median >= KEPT)
    }

    /// Whether all was measured, the load arrived, and the flow kept its goodput.
    pub(super) fn is_good(&self) -> bool {
        self.failures.is_empty() && self.delivered() >= DELIVERED && self.keeps(false) && self.keeps(true)
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = self.machine.join("; ") + "\n\n";
        let what =
            if self.two_tunnels { "two tunnels of one process" } else { "one tunnel with two endpoints" };
        let (clients, packets) = (u32::from(self.clients), self.packets_a_second);
        let megabits = f64::from(clients * packets) * self.bytes as f64 * 8.0 / 1e6;
        let _ = write!(
            text,
            "{what}; one flow of a client over UDP, Mbit/s; load: {clients} clients over TCP, {packets} packets of {} bytes \
             a second each ({megabits:.1} Mbit/s in all)\n\n",
            self.bytes
        );
        let rows = [(false, "to the server"), (true, "to the client")].map(|(down, name)| {
            let megabits = |load| cell(&self.values(load, down, |sample| Some(sample.megabits)), 0);
            let processors =
                |load| cell(&self.values(load, down, |sample| Some(sample.server_processors)), 2);
            let verdict = if self.keeps(down) { "pass" } else { "**FAIL**" };
            vec![
                name.to_owned(),
                megabits(Load::None),
                megabits(Load::Other),
                megabits(Load::Own),
                cell(&self.ratios(down, Load::Other), 3),
                verdict.to_owned(),
                cell(&self.ratios(down, Load::None), 3),
                format!("{} / {}", processors(Load::Other), processors(Load::Own)),
            ]
        });
        let judged = format!("own/other, ≥ {KEPT}");
        let columns = [
            "direction",
            "clients over TCP silent",
            "load in another process",
            "load in the same tunnel",
            judged.as_str(),
            "verdict",
            "own/silent",
            "the measured server's processors: other / own",
        ];
        text += &table(&columns, &rows);
        let _ = write!(text, "\nOf the load at least {:.1} % arrived.\n", self.delivered().min(1.0) * 100.0);
        for failure in &self.failures {
            let _ = write!(text, "\n**NOT MEASURED: {}**\n", failure.trim());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(own: f64, delivered: f64) -> Report {
        let (clients, packets_a_second, bytes, two_tunnels) = (50, 20, 1000, false);
        let (samples, failures) = (Vec::new(), Vec::new());
        let machine = vec!["here".to_owned()];
        let mut report = Report { machine, clients, packets_a_second, bytes, two_tunnels, samples, failures };
        for round in 0..3 {
            for (load, megabits) in [(Load::None, 1100.0), (Load::Own, own), (Load::Other, 1000.0)] {
                for down in [false, true] {
                    let delivered = (load != Load::None).then_some(delivered);
                    // The machine becomes slower.
                    let megabits = megabits / f64::from(round + 1);
                    report.note(Sample { round, load, down, megabits, delivered, server_processors: 0.5 });
                }
            }
        }
        report
    }

    #[test]
    fn the_same_load_elsewhere_is_the_measure() {
        let good = report(980.0, 1.0);
        assert!(good.is_good());
        let text = good.markdown();
        assert!(text.contains("8.0 Mbit/s in all"), "{text}");
        assert!(text.contains("| 0.980 (0.980–0.980) | pass | 0.891 (0.891–0.891) |"), "{text}");
        assert!(!report(960.0, 1.0).is_good() && report(960.0, 1.0).markdown().contains("**FAIL**"));
    }

    #[test]
    fn a_load_that_does_not_arrive_is_no_load() {
        assert!(!report(1000.0, 0.5).is_good());
    }

    #[test]
    fn nothing_measured_is_not_good() {
        let mut empty = report(1000.0, 1.0);
        empty.samples.clear();
        assert!(!empty.is_good());
        let mut failed = report(1000.0, 1.0);
        failed.fail(0, "no reply");
        assert!(!failed.is_good() && failed.markdown().contains("**NOT MEASURED: round 1: no reply**"));
    }
}

//! The result, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::Sample;
use adit_host::bench::Row;

/// Everything that was measured, and where.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    /// Whether the compiler optimised; without it the figures say nothing.
    optimised: bool,
    processor: String,
    kernel: String,
    rounds: u16,
    milliseconds: u128,
    rows: Vec<Figures>,
}

/// Several measurements of one thing.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

/// The figures of a row. Ratios are those within each round.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    load: &'static str,
    label: &'static str,
    transport: &'static str,
    cipher: String,
    bytes: usize,
    /// Packets in a batch.
    batch: usize,
    raw_seal_ns: Spread,
    seal_ns: Spread,
    seal_ratio: Spread,
    /// At the median.
    seal_gbit: f64,
    raw_open_ns: Spread,
    open_ns: Spread,
    open_ratio: Spread,
    /// At the median.
    open_gbit: f64,
}

impl Spread {
    fn of(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Spread {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let (low, high) = (at(values.len().saturating_sub(1) / 2), at(values.len() / 2));
        Spread { least: at(0), median: (low + high) / 2.0, most: at(values.len().saturating_sub(1)) }
    }
}

impl Figures {
    /// The figures of a row, from those of each round.
    pub(crate) fn new(row: &Row, samples: &[Sample]) -> Figures {
        let seal_ns = Spread::of(samples, |sample| sample.seal);
        let open_ns = Spread::of(samples, |sample| sample.open);
        // Bits a nanosecond are gigabits a second.
        let gbit = |spread: Spread| row.bytes as f64 * 8.0 / spread.median;
        Figures {
            load: row.load,
            label: row.label,
            transport: match row.transport {
                adit_core::Transport::Udp => "udp",
                adit_core::Transport::Tcp => "tcp",
                adit_core::Transport::Ip(_) => "ip",
            },
            cipher: row.cipher_name(),
            bytes: row.bytes,
            batch: row.batch(),
            raw_seal_ns: Spread::of(samples, |sample| sample.raw_seal),
            seal_ns,
            seal_ratio: Spread::of(samples, |sample| sample.seal / sample.raw_seal),
            seal_gbit: gbit(seal_ns),
            raw_open_ns: Spread::of(samples, |sample| sample.raw_open),
            open_ns,
            open_ratio: Spread::of(samples, |sample| sample.open / sample.raw_open),
            open_gbit: gbit(open_ns),
        }
    }
}

impl Report {
    /// Adds what is known of the machine.
    pub(crate) fn new(rounds: u16, budget: Duration, rows: Vec<Figures>) -> Report {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            optimised: !cfg!(debug_assertions),
            processor: processor(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            rounds,
            milliseconds: budget.as_millis(),
            rows,
        }
    }

    /// The report as text.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "adit {}, {}, Linux {}; {} rounds of {} ms a row.\n\
             Nanoseconds a packet: median (least to most). One core; replay window 64; no input or output.\n\
             raw: the bare AEAD of the same library, in place, tag apart, 8 authenticated bytes;\n\
             with CBC the bare cipher and then the bare HMAC over as many bytes.\n",
            self.version, self.processor, self.kernel, self.rounds, self.milliseconds
        );
        if !self.optimised {
            text.push_str(
                "THIS BUILD IS NOT OPTIMISED: the figures say nothing (use `cargo build --release`).\n",
            );
        }
        let mut load = "";
        for row in &self.rows {
            if row.label != load {
                load = row.label;
                let _ = write!(
                    text,
                    "\n{load}\n{:<18} {:>5} {:>8} {:>20} {:>6} {:>7} {:>8} {:>20} {:>6} {:>7}\n",
                    "cipher",
                    "bytes",
                    "raw seal",
                    "seal",
                    "x raw",
                    "Gbit/s",
                    "raw open",
                    "open",
                    "x raw",
                    "Gbit/s"
                );
            }
            let _ = writeln!(
                text,
                "{:<18} {:>5} {:>8.0} {:>20} {:>6.2} {:>7.1} {:>8.0} {:>20} {:>6.2} {:>7.1}",
                row.cipher,
                row.bytes,
                row.raw_seal_ns.median,
                show(row.seal_ns),
                row.seal_ratio.median,
                row.seal_gbit,
                row.raw_open_ns.median,
                show(row.open_ns),
                row.open_ratio.median,
                row.open_gbit,
            );
        }
        text.truncate(text.trim_end().len());
        text
    }
}

fn show(spread: Spread) -> String {
    format!("{:.0} ({:.0} to {:.0})", spread.median, spread.least, spread.most)
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// The processor's name, if the kernel tells it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

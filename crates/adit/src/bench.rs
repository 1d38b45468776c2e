//! `adit bench`: what sealing and opening cost without the network.
//!
//! A client and a server of the data plane in one process; the bytes that the client sealed are copied to
//! the server by hand. Beside each row stands the bare AEAD of the same library on messages of the same
//! length. In each round every row has its turn, and within a turn the four kinds of work take turns batch
//! by batch, so that a machine that becomes slower does so for all of them.

mod packets;
mod raw;
mod report;
mod tunnel;

use std::process::ExitCode;
use std::time::Duration;

use adit_dataplane::aead::AeadError;

use self::raw::Raw;
use self::report::{Figures, Report};
use self::tunnel::Tunnel;
use crate::adapters;
use adit_host::bench::{Input, Row};
use adit_host::exit;

/// Measure sealing and opening in memory, beside the bare ciphers
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Time that each row has in each round
    #[arg(long, value_name = "MS", default_value_t = 40, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    milliseconds: u16,
    /// Only rows whose name contains this, such as packets/AES-256-GCM/1400 or flow
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The library refused.
    #[error("{row}: {source}")]
    Aead {
        /// The row.
        row: Box<Row>,
        /// Why.
        source: AeadError,
    },
    /// A row measured something else than it says: a fault in adit.
    #[error("{row}: {what}: this is a fault in adit")]
    Wrong {
        /// The row.
        row: Box<Row>,
        /// The fault that was found.
        what: String,
    },
}

/// Nanoseconds a packet, of one row in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The bare AEAD, sealing.
    pub(crate) raw_seal: f64,
    /// The data plane, sealing.
    pub(crate) seal: f64,
    /// The bare AEAD, opening.
    pub(crate) raw_open: f64,
    /// The data plane, opening.
    pub(crate) open: f64,
}

/// A row that is ready to be measured.
struct Stand {
    row: Row,
    raw: Raw,
    tunnel: Tunnel,
    samples: Vec<Sample>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let budget = Duration::from_millis(args.milliseconds.into());
    let wanted = args.only.as_deref().unwrap_or_default();
    let all = rows();
    let wanted_rows: Vec<Row> = all.iter().copied().filter(|row| row.name().contains(wanted)).collect();
    if wanted_rows.is_empty() {
        let names: Vec<String> = all.iter().map(Row::name).collect();
        return exit::usage(format_args!(
            "--only {wanted}: no row has that in its name: {}",
            names.join(", ")
        ));
    }
    let report = match measure(&wanted_rows, args.rounds, budget) {
        Ok(report) => report,
        Err(error) => return exit::failure(error),
    };
    if !args.json {
        exit::say(report.table());
        return ExitCode::SUCCESS;
    }
    match serde_json::to_string_pretty(&report) {
        Ok(text) => exit::say(text),
        Err(error) => return exit::failure(error),
    }
    ExitCode::SUCCESS
}

/// The rows of all protocols: those of the protocol of files without a mark first, messages last.
fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = adapters::ALL.iter().rev().flat_map(|adapter| adapter.bench()).collect();
    rows.sort_by_key(|row| row.input == Input::Messages);
    rows
}

/// Measures the rows, `rounds` times for at least `budget` each.
fn measure(rows: &[Row], rounds: u16, budget: Duration) -> Result<Report, BenchError> {
    let mut stands = Vec::new();
    for row in rows.iter().copied() {
        let mut stand = Stand {
            row,
            raw: Raw::new(&row).map_err(|source| BenchError::Aead { row: Box::new(row), source })?,
            tunnel: Tunnel::new(row),
            samples: Vec::new(),
        };
        // Brings buffers and code into memory, and shows early what does not work.
        stand.round(Duration::ZERO)?;
        stand.samples.clear();
        stands.push(stand);
    }
    for _ in 0..rounds {
        for stand in &mut stands {
            stand.round(budget)?;
        }
    }
    let rows = stands.iter().map(|stand| Figures::new(&stand.row, &stand.samples)).collect();
    Ok(Report::new(rounds, budget, rows))
}

impl Stand {
    /// Batches until the time is up, at least one; leaves one sample.
    fn round(&mut self, budget: Duration) -> Result<(), BenchError> {
        let row = self.row;
        let refused = |source| BenchError::Aead { row: Box::new(row), source };
        let wrong = |what| BenchError::Wrong { row: Box::new(row), what };
        let mut durations = [Duration::ZERO; 4];
        let mut packets = 0;
        while packets == 0 || durations.iter().sum::<Duration>() < budget {
            durations[0] += self.raw.seal().map_err(refused)?;
            durations[1] += self.tunnel.seal();
            durations[2] += self.raw.open().map_err(refused)?;
            self.tunnel.carry().map_err(wrong)?;
            durations[3] += self.tunnel.open().map_err(wrong)?;
            packets += row.batch();
        }
        let [raw_seal, seal, raw_open, open] = durations.map(|time| time.as_nanos() as f64 / packets as f64);
        self.samples.push(Sample { raw_seal, seal, raw_open, open });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_every_row() {
        let report = measure(&rows(), 2, Duration::ZERO).unwrap();
        let text = serde_json::to_string(&report).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["rounds"], 2);
        let rows = json["rows"].as_array().unwrap();
        let find = |load: &str, cipher: &str, bytes: u64| {
            rows.iter().filter(|r| r["load"] == load && r["cipher"] == cipher && r["bytes"] == bytes).count()
        };
        for cipher in ["AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"] {
            for bytes in [64, 256, 1024, 1400, 8192] {
                assert_eq!(find("packets", cipher, bytes), 1, "{cipher} {bytes}");
            }
            assert_eq!(find("flow", cipher, 1400), 1, "{cipher}");
            assert_eq!(find("epochs", cipher, 1400), 1, "{cipher}");
        }
        assert_eq!(find("miragevpn", "AES-128-GCM", 1024), 1);
        for cipher in ["AES-192-GCM", "AES-128-CBC+SHA256", "AES-192-CBC+SHA256", "AES-256-CBC+SHA256"] {
            assert_eq!(find("packets", cipher, 1400), 1, "{cipher}");
        }
        assert_eq!(rows.len(), 28);
        for row in rows {
            for work in ["raw_seal_ns", "seal_ns", "raw_open_ns", "open_ns", "seal_ratio", "open_ratio"] {
                let [least, median, most] =
                    ["least", "median", "most"].map(|of| row[work][of].as_f64().unwrap());
                assert!(least > 0.0 && least <= median && median <= most, "{work} of {row}");
            }
            assert!(row["seal_gbit"].as_f64().unwrap() > 0.0);
        }
    }

    #[test]
    fn the_table_has_a_line_for_every_row() {
        let report = measure(&rows(), 1, Duration::ZERO).unwrap();
        let table = report.table();
        assert_eq!(table.lines().filter(|line| line.contains("AES-256-GCM")).count(), 7, "{table}");
        assert!(table.contains("MirageVPN"));
    }
}

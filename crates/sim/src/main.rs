//! Runs seeds and prints their failures.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;

use adit_sim::{Failure, Summary, ike, openvpn, wireguard};

const USAGE: &str = "usage: adit-sim [--openvpn | --wireguard | --ike] --seeds FROM..TO (TO is not run), or --seed N for one with its trace";

type Outcome = Result<Summary, Box<Failure>>;

/// The scenarios of one protocol.
#[derive(Clone, Copy)]
struct Scenarios {
    name: &'static str,
    run: fn(u64) -> Outcome,
    explain: fn(u64) -> Outcome,
}

const OPENVPN: Scenarios = Scenarios { name: "OpenVPN", run: openvpn::run, explain: openvpn::explain };
const WIREGUARD: Scenarios =
    Scenarios { name: "WireGuard", run: wireguard::run, explain: wireguard::explain };
const IKE: Scenarios = Scenarios { name: "IKE", run: ike::run, explain: ike::explain };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (scenarios, rest): (&[Scenarios], _) = match arguments.as_slice() {
        ["--openvpn", rest @ ..] => (&[OPENVPN], rest),
        ["--wireguard", rest @ ..] => (&[WIREGUARD], rest),
        ["--ike", rest @ ..] => (&[IKE], rest),
        rest => (&[OPENVPN, WIREGUARD, IKE], rest),
    };
    match judge(scenarios, rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // There is nowhere left to report a failure of this write.
            let _ = writeln!(io::stderr(), "adit-sim: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the seeds that the arguments name; false if something failed.
fn judge(scenarios: &[Scenarios], arguments: &[&str]) -> io::Result<bool> {
    let mut good = true;
    for each in scenarios {
        good &= match arguments {
            ["--seeds", range] => match parse_range(range) {
                Some(range) => run_all(*each, range)?,
                None => return Err(io::Error::other(format!("\"{range}\" is no range of seeds; {USAGE}"))),
            },
            ["--seed", seed] => match seed.parse() {
                Ok(seed) => show(*each, seed)?,
                Err(_) => return Err(io::Error::other(format!("\"{seed}\" is no seed; {USAGE}"))),
            },
            _ => return Err(io::Error::other(USAGE)),
        };
    }
    Ok(good)
}

fn parse_range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    let range = from.parse().ok()?..to.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

/// Runs a range of seeds; false if one failed.
fn run_all(scenarios: Scenarios, seeds: Range<u64>) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let (mut failed, mut total) = (0u64, Summary::default());
    for seed in seeds.clone() {
        match (scenarios.run)(seed) {
            Ok(summary) => {
                total.time += summary.time;
                total.sent += summary.sent;
                total.delivered += summary.delivered;
                total.handshakes += summary.handshakes;
                total.keys += summary.keys;
                total.rejected += summary.rejected;
                total.failures += summary.failures;
                total.faulty += summary.faulty;
                total.up += summary.up;
                total.recovery = total.recovery.max(summary.recovery);
            }
            Err(failure) => {
                failed += 1;
                writeln!(out, "{}: {failure}", scenarios.name)?;
                out.flush()?;
            }
        }
    }
    writeln!(
        out,
        "{}: {} seeds, {failed} failed: {} h of virtual time, {} packets sent, {} delivered, {} connections, {} keys, {} control datagrams refused, {} clients gave up; up {} % of the time on a faulty net; slowest recovery {:.1} s",
        scenarios.name,
        seeds.end - seeds.start,
        total.time.as_secs() / 3600,
        total.sent,
        total.delivered,
        total.handshakes,
        total.keys,
        total.rejected,
        total.failures,
        100 * total.up / total.faulty.max(1),
        total.recovery.as_secs_f64()
    )?;
    Ok(failed == 0)
}

/// Runs one seed and prints its end.
fn show(scenarios: Scenarios, seed: u64) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match (scenarios.explain)(seed) {
        Ok(summary) => {
            writeln!(out, "{summary:#?}")?;
            Ok(true)
        }
        Err(failure) => {
            writeln!(out, "{}", failure.scenario)?;
            for line in &failure.tail {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "{failure}")?;
            Ok(false)
        }
    }
}

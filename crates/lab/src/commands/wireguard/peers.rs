//! A server with many configured peers: their memory, the time of `wg`, and the delay that a flow notices.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use adit_testbed::{PingReport, TcpLoad, TestbedError, Usage, program, round_trips, tcp_flow};

use super::control::peer;
use super::figures::{Figure, Figures, Limit};
use super::testbed::{Peer, Testbed, configured};
use super::{Measuring, describe};
use crate::commands::output;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::subjects::wireguard::Program;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 4] = ["ip", "iperf3", "openssl", "wg"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    measuring: Measuring,
    /// How many peers are configured
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=65_000))]
    peers: u32,
    /// How long each load runs
    #[arg(long, default_value_t = 3)]
    seconds: u16,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// How often `wg show` and a change of one peer are timed.
const SHOWS: usize = 5;
const SETS: u32 = 200;
/// While a flow is measured, one peer is set so often.
const SET_EVERY: Duration = Duration::from_millis(10);
/// The pause after which memory that was only needed meanwhile is given back.
const SETTLE: Duration = Duration::from_secs(2);

const FIGURES: &[Figure] = &[
    ("rss_kib", "memory of a peer, RSS, KiB", 2, Limit::AtMost(4.0)),
    ("pss_kib", "the same, PSS, KiB", 2, Limit::None),
    ("set_all_ms", "all set in one request, ms", 0, Limit::None),
    ("show_ms", "`wg show`, ms", 0, Limit::AtMost(1000.0)),
    ("set_ms", "one peer set, ms", 2, Limit::AtMost(5.0)),
    ("set_worst_ms", "the slowest of 200, ms", 2, Limit::None),
    ("alone_p50_us", "round trip without the peers, median, µs", 0, Limit::None),
    ("among_p50_us", "with them", 0, Limit::None),
    ("configured_p50_us", "while one is set 100 times a second", 0, Limit::None),
    ("alone_p99_us", "round trip without the peers, 99 %, µs", 0, Limit::None),
    ("among_p99_us", "with them", 0, Limit::None),
    ("configured_p99_us", "while one is set 100 times a second", 0, Limit::None),
    ("lost", "echoes lost in all of these", 0, Limit::AtMost(0.0)),
    ("alone_mbit", "TCP to the server without the peers, Mbit/s", 0, Limit::None),
    ("among_mbit", "with them", 0, Limit::None),
    ("configured_mbit", "while one is set 100 times a second", 0, Limit::None),
    ("among_kept", "of the goodput kept with the peers", 2, Limit::AtLeast(0.9)),
    ("configured_kept", "kept while one is set 100 times a second", 2, Limit::AtLeast(0.9)),
];

/// Measures, and writes the table. False if adit does not keep to a limit, or something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    let programs = args.measuring.programs(tools)?;
    let mut figures = Figures::new(describe(&programs, tools), &args.measuring.subjects, FIGURES);
    for round in 0..args.measuring.rounds {
        for program in args.measuring.order(round, &programs) {
            let name = program.name();
            tell(format_args!("round {} of {}: {name}", round + 1, args.measuring.rounds));
            let mut note = |figure, value| figures.note(name, round, figure, value);
            if let Err(error) = measure(args, tools, program, &mut note) {
                tell(&error);
                figures.fail(name, round, &error.to_string());
            }
        }
    }
    output::finish(&figures.markdown(), args.json.as_deref(), &figures)?;
    Ok(figures.is_good())
}

/// A figure's name and value are to be noted.
type Note<'a> = dyn FnMut(&'static str, f64) + 'a;

fn measure(args: &Args, tools: &Tools, program: Program, note: &mut Note<'_>) -> Result<(), TestbedError> {
    let testbed = Testbed::build(tools, program)?;
    let client = testbed.join(0, "client")?;
    let _running = testbed.connect(&client, program)?;
    let time = Duration::from_secs(args.seconds.into());
    let alone = Flow::measure(&testbed, &client, time)?;
    let before = usage(&testbed);
    let all: String = (0..args.peers).map(|number| peer(&key(number), &configured(number))).collect();
    note("set_all_ms", millis(testbed.set(&all)?));
    std::thread::sleep(SETTLE);
    let after = usage(&testbed);
    let peers = f64::from(args.peers);
    note("rss_kib", (after.resident_kib - before.resident_kib) / peers);
    note("pss_kib", (after.proportional_kib - before.proportional_kib) / peers);
    note("show_ms", median(&shows(&testbed)?));
    let next = AtomicU32::new(args.peers);
    let sets: Result<Vec<f64>, TestbedError> =
        (0..SETS).map(|_| set_one(&testbed, &next).map(millis)).collect();
    let sets = sets?;
    note("set_ms", median(&sets));
    note("set_worst_ms", sets.iter().copied().fold(0.0, f64::max));
    let among = Flow::measure(&testbed, &client, time)?;
    let while_set = while_setting(&testbed, &next, || Flow::measure(&testbed, &client, time))?;
    note_flows(note, [&alone, &among, &while_set]);
    Ok(())
}

fn usage(testbed: &Testbed<'_>) -> Usage {
    Usage::of(&[testbed.process.id()])
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(values: &[f64]) -> f64 {
    output::spread(values).map_or(f64::NAN, |[_, median, _]| median)
}

/// The public key of a peer that is only configured, in hexadecimal digits: no point of low order.
fn key(number: u32) -> String {
    format!("{:0>56}{number:08x}", "1")
}

/// Milliseconds of `wg show` for the server's device, from its start to its end.
fn shows(testbed: &Testbed<'_>) -> Result<Vec<f64>, TestbedError> {
    let show = |_| {
        let mut command: Command = program("wg")?;
        command.args(["show", &testbed.device]);
        let start = Instant::now();
        testbed.server.run(command)?;
        Ok(millis(start.elapsed()))
    };
    (0..SHOWS).map(show).collect()
}

/// Adds a peer, or takes away the one before it: the number of peers stays.
fn set_one(testbed: &Testbed<'_>, next: &AtomicU32) -> Result<Duration, TestbedError> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    match number % 2 {
        0 => testbed.set(&peer(&key(number), &configured(number))),
        _ => testbed.set(&format!("public_key={}\nremove=true\n", key(number - 1))),
    }
}

/// Sets one peer again and again while `work` is done.
fn while_setting<T>(
    testbed: &Testbed<'_>,
    next: &AtomicU32,
    work: impl FnOnce() -> Result<T, TestbedError>,
) -> Result<T, TestbedError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let setting = scope.spawn(|| -> Result<(), TestbedError> {
            while !stop.load(Ordering::Relaxed) {
                set_one(testbed, next)?;
                std::thread::sleep(SET_EVERY);
            }
            Ok(())
        });
        let outcome = work();
        stop.store(true, Ordering::Relaxed);
        setting.join().map_err(|_| TestbedError::Worker("setting peers"))??;
        outcome
    })
}

/// The measurements at a peer that is connected.
struct Flow {
    echoes: PingReport,
    megabits: f64,
}

impl Flow {
    fn measure(testbed: &Testbed<'_>, client: &Peer, time: Duration) -> Result<Flow, TestbedError> {
        let ends = testbed.ends(client);
        let echoes = round_trips(&ends, u32::try_from(time.as_millis()).unwrap_or(u32::MAX))?;
        let load = TcpLoad { time, back: false, write: None, compressible: false };
        Ok(Flow { echoes, megabits: tcp_flow(&ends, load)?.megabits })
    }

    fn micros(&self, share: f64) -> f64 {
        self.echoes.percentile(share).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    }
}

fn note_flows(note: &mut Note<'_>, flows: [&Flow; 3]) {
    let [alone, among, while_set] = flows;
    for (flow, [p50, p99, megabits]) in [
        (alone, ["alone_p50_us", "alone_p99_us", "alone_mbit"]),
        (among, ["among_p50_us", "among_p99_us", "among_mbit"]),
        (while_set, ["configured_p50_us", "configured_p99_us", "configured_mbit"]),
    ] {
        note(p50, flow.micros(0.5));
        note(p99, flow.micros(0.99));
        note(megabits, flow.megabits);
    }
    note("lost", flows.iter().map(|flow| f64::from(flow.echoes.lost())).sum());
    note("among_kept", among.megabits / alone.megabits);
    note("configured_kept", while_set.megabits / alone.megabits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_are_whole() {
        assert_eq!(key(10), format!("{}1{:08x}", "0".repeat(55), 10));
        assert_eq!(key(65_000).len(), 64);
    }
}

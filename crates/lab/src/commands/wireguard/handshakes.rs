//! The cost of handshakes to a server: many initiators connect at a rate at which it sends no cookies.

use std::path::PathBuf;
use std::time::Duration;

use adit_testbed::{TestbedError, Usage, wait_until};

use super::control::peer;
use super::figures::{Figure, Figures, Limit};
use super::testbed::{PORT, Testbed, address, configured};
use super::{Measuring, describe, initiators};
use crate::commands::{load, output};
use crate::error::LabError;
use crate::subjects::Tools;
use crate::subjects::wireguard::Program;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 2] = ["ip", "openssl"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    measuring: Measuring,
    /// Handshakes a second. From 1000 on adit asks for cookies
    #[arg(long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How many initiators take turns
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=65_000))]
    initiators: u32,
    /// How long they are counted
    #[arg(long, default_value_t = 10)]
    seconds: u16,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// How long all may take to have had their first handshake, beyond the time that the rate allows.
const GRACE: Duration = Duration::from_secs(30);

const FIGURES: &[Figure] = &[
    ("per_core", "handshakes a second and core", 0, Limit::None),
    ("cpu_us", "processor time of a handshake, µs", 1, Limit::None),
    ("begun_per_s", "initiations a second", 0, Limit::None),
    ("answered", "answered, a share of them", 3, Limit::AtLeast(0.99)),
    ("session_kib", "memory of a session, RSS, KiB", 2, Limit::None),
];

/// Measures, and writes the table. False if adit does not answer all, or something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    load::check(&tools.load_wireguard())?;
    let programs = args.measuring.programs(tools)?;
    let keys = initiators(&tools.load_wireguard(), args.initiators)?;
    let mut figures = Figures::new(describe(&programs, tools), &args.measuring.subjects, FIGURES);
    for round in 0..args.measuring.rounds {
        for program in args.measuring.order(round, &programs) {
            let name = program.name();
            tell(format_args!("round {} of {}: {name}", round + 1, args.measuring.rounds));
            match measure(args, tools, program, &keys) {
                Ok(measured) => {
                    measured.into_iter().for_each(|(figure, value)| figures.note(name, round, figure, value));
                }
                Err(error) => {
                    tell(&error);
                    figures.fail(name, round, &error.to_string());
                }
            }
        }
    }
    output::finish(&figures.markdown(), args.json.as_deref(), &figures)?;
    Ok(figures.is_good())
}

fn measure(
    args: &Args,
    tools: &Tools,
    program: Program,
    keys: &[String],
) -> Result<[(&'static str, f64); 5], TestbedError> {
    let testbed = Testbed::build(tools, program)?;
    let initiators = testbed.join(0, "initiators")?;
    let peers: String = (0..).zip(keys).map(|(number, key)| peer(key, &configured(number))).collect();
    testbed.set(&peers)?;
    let usage = || Usage::of(&[testbed.process.id()]);
    let before = usage();
    let arguments = [
        format!("{}:{PORT}", address(0, 1)),
        format!("--key={}", testbed.key()),
        format!("--keys={}", args.initiators),
        format!("--rate={}", args.rate),
    ];
    let load =
        load::Load::attackers(&initiators.namespace, &tools.load_wireguard(), "handshakes", &arguments)?;
    // The first handshake of a peer may compute values that later ones find.
    let first = Duration::from_secs_f64(f64::from(args.initiators) / f64::from(args.rate));
    let all = || load.counters()[0] >= u64::from(args.initiators);
    wait_until("the first handshake of each initiator", first + GRACE, all)?;
    let (first, start) = (usage(), load.counters());
    let started = std::time::Instant::now();
    std::thread::sleep(Duration::from_secs(args.seconds.into()));
    let (last, end, seconds) = (usage(), load.counters(), started.elapsed().as_secs_f64());
    load.stop()?;
    let [begun, done] = [0, 1].map(|index: usize| end[index].saturating_sub(start[index]) as f64);
    let work = last.processor_seconds - first.processor_seconds;
    Ok([
        ("per_core", done / work),
        ("cpu_us", work / done * 1e6),
        ("begun_per_s", begun / seconds),
        ("answered", done / begun),
        ("session_kib", (last.resident_kib - before.resident_kib) / f64::from(args.initiators)),
    ])
}

//! What one client behind a narrow path costs the other clients of a server, for one build of adit or two in turns.
//!
//! Eight clients, each in a namespace of its own, are behind one router. The router's link to the last of them has an MTU
//! of 1300 for a while, of which the server hears by ICMP (RFC 1191). Goodput from the server to the other seven and to
//! that one, and the bytes that the server gives the kernel with one send, are measured before, during and after that.

mod testbed;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::testbed::{Sample, Testbed};
use crate::error::LabError;
use crate::subjects::Tools;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 3] = ["ip", "iperf3", "openssl"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// adit's release build; a second one is measured in turns with the first [default: beside this program]
    #[arg(long)]
    adit: Vec<PathBuf>,
    /// How often all is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each load
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Mbit/s at most to the client behind the narrow path while the others have flows, too
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// Seconds from the moment that the path is wide again to the last load
    #[arg(long, default_value_t = 15)]
    wait: u64,
}

/// The path's state during a load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Narrow,
    Wide,
}

impl Phase {
    const ALL: [Phase; 3] = [Phase::Before, Phase::Narrow, Phase::Wide];

    fn name(self) -> &'static str {
        match self {
            Phase::Before => "before",
            Phase::Narrow => "MTU 1300",
            Phase::Wide => "wide again",
        }
    }
}

/// The samples of one build: each round has one for each phase.
struct Build {
    program: PathBuf,
    rounds: Vec<[Sample; 3]>,
}

/// Measures all builds and writes the table.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<(), LabError> {
    let mut programs = args.adit.clone();
    if programs.is_empty() {
        programs.push(tools.adit.clone());
    }
    let mut builds: Vec<Build> =
        programs.into_iter().map(|program| Build { program, rounds: Vec::new() }).collect();
    for number in 0..args.rounds {
        // So that what changes during a run favours neither build.
        if number > 0 {
            builds.reverse();
        }
        for build in &mut builds {
            build.rounds.push(round(&build.program, args)?);
        }
    }
    if args.rounds.is_multiple_of(2) {
        builds.reverse();
    }
    print(&builds);
    Ok(())
}

/// One round: the three phases one after the other.
fn round(program: &Path, args: &Args) -> Result<[Sample; 3], LabError> {
    let (testbed, time) = (Testbed::build(program)?, Duration::from_secs(args.seconds));
    let before = testbed.sample(time, args.rate)?;
    testbed.narrow()?;
    let narrow = testbed.sample(time, args.rate)?;
    testbed.widen()?;
    std::thread::sleep(Duration::from_secs(args.wait));
    Ok([before, narrow, testbed.sample(time, args.rate)?])
}

fn print(builds: &[Build]) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(
        out,
        "| build | path | the other seven, Mbit/s | kept | bytes a send | the one, Mbit/s | bytes a send | \
         destinations without UDP_SEGMENT | the seven beside the one, Mbit/s | kept | the one beside them |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    for build in builds {
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            let column = |value: fn(&Sample) -> f64| {
                median(build.rounds.iter().filter_map(|round| round.get(index)).map(value))
            };
            let kept = |value: fn(&Sample) -> f64| {
                median(
                    build.rounds.iter().filter_map(|round| Some(value(round.get(index)?) / value(&round[0]))),
                )
            };
            let limited = build.rounds.iter().filter_map(|round| round.get(index)?.limited).max();
            let _ = writeln!(
                out,
                "| {} | {} | {:.0} | {:.2} | {:.0} | {:.0} | {:.0} | {} | {:.0} | {:.2} | {:.0} |",
                build.program.display(),
                phase.name(),
                column(|sample| sample.seven),
                kept(|sample| sample.seven),
                column(|sample| sample.bytes_a_send_seven),
                column(|sample| sample.one),
                column(|sample| sample.bytes_a_send_one),
                limited.map_or("not told".to_owned(), |count| count.to_string()),
                column(|sample| sample.seven_beside),
                kept(|sample| sample.seven_beside),
                column(|sample| sample.one_beside),
            );
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

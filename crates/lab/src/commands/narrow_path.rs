//! The cost of one client behind a narrow path to the other clients of a server, for one build of adit or two in turns.
//!
//! Eight clients, each in a namespace of its own, are behind one router. The router's link to the last of them has an
//! MTU of 1300 for a while, which the server learns by ICMP (RFC 1191). Goodput from the server to the first seven and
//! to the eighth, and the bytes that the server gives the kernel with one send, are measured before, during and after
//! that.
//!
//! The seven's flows run all the time while the path becomes narrow and wide again several times: what two sets of flows carry
//! that begin one after the other differs by a third even if nothing else changes.
//!
//! Judged are the goodput that the other seven keep, and that UDP_SEGMENT stays in use for them and comes back for the one.

mod loads;
mod report;
mod testbed;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::TestbedError;

use self::loads::{Flows, Seven};
use self::report::{Report, Round};
use self::testbed::{TIMEOUT, Testbed};
use super::output;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 3] = ["ip", "iperf3", "openssl"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// adit's release build; of two, which are measured in turns, the last one is judged [default: beside this program]
    #[arg(long)]
    adit: Vec<PathBuf>,
    /// How often all is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How often the path becomes narrow in a round while the others have flows
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Seconds of each load
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Mbit/s at most to the client behind the narrow path while the others have flows, too
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// The narrow path's MTU; 1500 shows what the figures scatter by without any
    #[arg(long, default_value_t = 1300, value_parser = clap::value_parser!(u16).range(576..=1500))]
    mtu: u16,
    /// Seconds from the moment that the path is wide again to the next load
    #[arg(long, default_value_t = 11)]
    wait: u64,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures all builds and writes the tables. False if the last build breaks a limit, or something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    let mut programs = args.adit.clone();
    if programs.is_empty() {
        output::check_adit(tools)?;
        programs.push(tools.adit.clone());
    }
    let mut report = Report::new(machine(&programs), &programs);
    for number in 0..args.rounds {
        tell(format_args!("round {} of {}", number + 1, args.rounds));
        let mut turns: Vec<(usize, &PathBuf)> = programs.iter().enumerate().collect();
        // So that a change during a run favours neither build.
        if !number.is_multiple_of(2) {
            turns.reverse();
        }
        for (build, program) in turns {
            match round(program, args) {
                Ok(round) => report.note(build, number, round),
                Err(error) => {
                    tell(&error);
                    report.fail(build, number, &error.to_string());
                }
            }
        }
    }
    output::finish(&report.markdown(), args.json.as_deref(), &report)?;
    Ok(report.is_good())
}

fn machine(programs: &[PathBuf]) -> Vec<String> {
    let names = report::subjects(programs);
    let builds = names.iter().zip(programs).map(|(name, program)| (name.as_str(), Command::new(program)));
    output::describe(builds.collect())
}

/// One round: the eighth's flow with the path wide, narrow and wide again; then the seven's flows, while the same happens
/// several times.
fn round(program: &Path, args: &Args) -> Result<Round, TestbedError> {
    let (testbed, time) = (Testbed::build(program)?, Duration::from_secs(args.seconds));
    let before = loads::alone(&testbed, time)?;
    testbed.narrow(args.mtu)?;
    let narrow = loads::alone(&testbed, time)?;
    widen(&testbed, args)?;
    let one = [before, narrow, loads::alone(&testbed, time)?];
    let mut flows = Flows::start(&testbed, longest(args))?;
    let (mut narrow, mut wide) = (Vec::new(), vec![flows.sample(time, args.rate)?]);
    for _ in 0..args.times {
        testbed.narrow(args.mtu)?;
        narrow.push(flows.sample(time, args.rate)?);
        widen(&testbed, args)?;
        wide.push(flows.sample(time, args.rate)?);
    }
    Ok(Round { one, wide, narrow })
}

/// The path becomes wide again, and the server has the time to find that out.
fn widen(testbed: &Testbed, args: &Args) -> Result<(), TestbedError> {
    testbed.widen()?;
    std::thread::sleep(Duration::from_secs(args.wait));
    Ok(())
}

/// The seven's flows have ended by themselves then, should this program be killed.
fn longest(args: &Args) -> Duration {
    let each = Duration::from_secs(args.wait) + 2 * Seven::longest(Duration::from_secs(args.seconds));
    TIMEOUT + each * (args.times + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("narrow-path"));
        command.clone().debug_assert();
        let arguments = ["narrow-path", "--adit", "OLD", "--adit", "NEW", "--json", "file"];
        let args = Args::from_arg_matches(&command.clone().get_matches_from(arguments)).unwrap();
        assert_eq!((args.adit.len(), args.rounds, args.rate), (2, 5, 50));
        assert_eq!(longest(&args), Duration::from_secs(30 + 6 * (11 + 30)));
        assert!(command.try_get_matches_from(["narrow-path", "--rounds", "0"]).is_err());
    }
}

//! Many tunnels in one process: the cost of their start and their memory beside a process for each, and whether one of
//! them notices that another is reloaded or ends.

mod lifetime;
mod report;
mod testbed;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{StreamLoad, program};

use self::report::Report;
use self::testbed::{Arrangement, Testbed};
use super::identities::Identities;
use super::output;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 3] = ["ip", "openvpn", "openssl"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many tunnels
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(2..=250))]
    count: u16,
    /// How often the start and the memory are measured
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Numbered packets a second through each tunnel while others are reloaded and end
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// Seconds between the start of the packets, the reload, the first end, and the last one
    #[arg(long, default_value_t = 2.0)]
    pause: f64,
    /// KiB of a file that goes through each tunnel
    #[arg(long, default_value_t = 2048)]
    kib: u32,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Bytes of payload of a numbered packet.
const SIZE: usize = 200;

/// Measures, and writes the tables. False if a packet was lost, or something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    output::check_adit(tools)?;
    let programs = vec![("adit", Command::new(&tools.adit)), ("OpenVPN", program("openvpn")?)];
    let mut report = Report::new(output::describe(programs), args.count);
    for round in 0..args.rounds.max(1) {
        let mut order = Arrangement::ALL;
        // Each in another place of the order from round to round.
        order.rotate_left(round as usize % Arrangement::ALL.len());
        for arrangement in order {
            tell(format_args!("round {} of {}: {}", round + 1, args.rounds, arrangement.name(args.count)));
            if let Err(error) = measure(args, tools, arrangement, round == 0, &mut report) {
                tell(&error);
                report.fail(arrangement, round, &error.to_string());
            }
        }
    }
    output::finish(&report.markdown(), args.json.as_deref(), &report)?;
    Ok(report.is_good())
}

/// One start; in the first round, the life of the tunnels of one process, too.
fn measure(
    args: &Args,
    tools: &Tools,
    arrangement: Arrangement,
    is_first: bool,
    report: &mut Report,
) -> Result<(), LabError> {
    let identities = Identities::create("tunnels")?;
    let (mut testbed, start) = Testbed::build(arrangement, tools, &identities, args.count)?;
    report.note(arrangement, &start);
    if is_first && arrangement == Arrangement::AditTogether {
        let usage = lifetime::Usage {
            transfer_bytes: args.kib as usize * 1024,
            load: StreamLoad { rate: args.rate, size: SIZE },
            pause: Duration::try_from_secs_f64(args.pause).unwrap_or_default(),
        };
        report.lifetime = Some(lifetime::observe(&mut testbed, &identities, usage)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("tunnels"));
        command.clone().debug_assert();
        let args = Args::from_arg_matches(&command.clone().get_matches_from(["tunnels"])).unwrap();
        assert_eq!((args.count, args.rounds), (50, 3));
        assert!(command.try_get_matches_from(["tunnels", "--count", "251"]).is_err());
    }
}

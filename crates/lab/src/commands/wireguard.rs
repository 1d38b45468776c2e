//! A WireGuard server, adit's and others': with many configured peers, with many handshakes, and under attack.

pub(crate) mod attackers;
mod control;
pub(super) mod figures;
pub(crate) mod handshakes;
pub(crate) mod peers;
mod testbed;

use std::path::Path;
use std::process::Command;

use adit_testbed::TestbedError;

use super::attackers::keys::said;
use super::output;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::subjects::wireguard::{self, Program};

/// The programs whose limits are judged; others stand beside them.
const JUDGED: &str = "adit-wireguard";

/// What all of these commands are told.
#[derive(clap::Args)]
struct Measuring {
    /// Which programs
    #[arg(long, value_delimiter = ',', default_values = [JUDGED, "wireguard-go"])]
    subjects: Vec<String>,
    /// How often each is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

impl Measuring {
    /// The programs, got as `adit-lab setup` gets them where they are not there.
    fn programs(&self, tools: &Tools) -> Result<Vec<Program>, LabError> {
        let get = |name: &String| wireguard::get(name, tools).map_err(LabError::Usage);
        self.subjects.iter().map(get).collect()
    }

    /// The order of the programs in a round: each is in another place than in the round before.
    fn order(&self, round: u32, programs: &[Program]) -> Vec<Program> {
        let mut order = programs.to_vec();
        order.rotate_left(round as usize % programs.len().max(1));
        order
    }
}

/// The machine, the command and the programs, one line each.
fn describe(programs: &[Program], tools: &Tools) -> Vec<String> {
    let mut lines = output::describe(vec![("adit", Command::new(&tools.adit))]);
    lines.extend(programs.iter().map(|program| {
        let version = program.version(tools).unwrap_or_else(|| "of unknown version".to_owned());
        format!("{} {version}", program.name())
    }));
    lines
}

/// The public keys of the first initiators of `adit-load-wireguard`, in hexadecimal digits.
fn initiators(load: &Path, count: u32) -> Result<Vec<String>, TestbedError> {
    let mut command = Command::new(load);
    command.args(["keys", "--count", &count.to_string()]);
    Ok(said("adit-load-wireguard keys", command)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Measuring::augment_args(clap::Command::new("wireguard"));
        command.clone().debug_assert();
        let args = Measuring::from_arg_matches(&command.get_matches_from(["wireguard"])).unwrap();
        assert_eq!((args.subjects.join(","), args.rounds), ("adit-wireguard,wireguard-go".to_owned(), 3));
    }
}

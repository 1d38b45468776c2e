//! The failure of a tunnel, in words.

use std::process::ExitCode;

use adit_core::Severity;

use super::exit;
use super::log::Logger;

/// Why a tunnel does not come up, or ended unasked.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong: one problem a line.
    Configuration(String),
    /// Something in the world stood in the way.
    World(String),
}

impl Failure {
    /// The exit code of a process whose tunnel fails so.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Configuration(_) => ExitCode::from(exit::USAGE),
            Failure::World(_) => ExitCode::FAILURE,
        }
    }

    /// Why, in one or more lines.
    pub fn why(&self) -> &str {
        match self {
            Failure::Configuration(why) | Failure::World(why) => why,
        }
    }

    /// Says why on the standard error, and gives the exit code.
    pub fn exit(self) -> ExitCode {
        match self {
            Failure::Configuration(why) => exit::usage(why),
            Failure::World(why) => exit::failure(why),
        }
    }
}

/// Says why the tunnel of that name ended, where that is not what the person who started the program sees.
pub fn tell_end(outcome: &Result<(), Failure>, log: &mut Logger, (name, has_others): (&str, bool)) {
    let Err(Failure::World(why) | Failure::Configuration(why)) = outcome else { return };
    if log.is_elsewhere() || has_others {
        log.log(Severity::Error, why);
    }
    if log.is_elsewhere() && has_others {
        exit::tell(format_args!("{name}: {why}"));
    }
}

/// The failure that the system gives no randomness.
pub fn no_randomness(error: impl std::fmt::Display) -> Failure {
    Failure::World(format!("no randomness from the system: {error}"))
}

//! A program whose tunnels adit can run: the part of an adoption that only its protocol knows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::systemd::Systemd;
use crate::failure::Failure;

/// A program in whose place adit can run the tunnels of a unit.
pub trait Adoption: Sync {
    /// The name of the program for people.
    fn title(&self) -> &'static str;

    /// The unit that a name on the command line means: `Some` if the protocol knows such names. Without systemd, `systemd` is `None`.
    ///
    /// # Errors
    /// The name means no unit, or several.
    fn unit(&self, name: &str, systemd: Option<&Systemd>) -> Option<Result<String, String>>;

    /// Whether a program is this one, by its path.
    fn is_called(&self, program: &Path) -> bool;

    /// The arguments of the program within the arguments with which adit runs in its place. `None`: adit runs in the place of another
    /// program.
    fn arguments<'w>(&self, words: &'w [String]) -> Option<&'w [String]>;

    /// The sentence, with what separates it from the text before, about a program of the protocol that is not this one: how its tunnels
    /// come to be run by one that can be adopted.
    fn way_out(&self, _program: &Path) -> Option<&'static str> {
        None
    }

    /// Reads the program's configuration as adit will.
    ///
    /// # Errors
    /// adit cannot run it.
    fn prepare(&self, start: &Start<'_>) -> Result<Prepared, Failure>;

    /// The number of peers that are connected to the program's process. As many must come back to adit, and one at least.
    ///
    /// # Errors
    /// It is not known.
    fn peers(&self, _process: u32) -> Result<usize, String> {
        Ok(1)
    }
}

/// The facts of a unit by which the configuration of its program is read.
#[derive(Debug)]
pub struct Start<'a> {
    /// The unit.
    pub unit: &'a str,
    /// The program's arguments, with variables (`$NAME`) as the unit has them.
    pub words: &'a [String],
    /// `$` in them is a plain character.
    pub is_literal: bool,
    /// The main process, if the unit runs.
    pub main: Option<u32>,
    /// The working directory.
    pub directory: PathBuf,
}

/// A configuration that was read, and that adit can run in the place of the program.
#[derive(Debug)]
pub struct Prepared {
    /// The points in which adit does otherwise, and those that are doubtful: a line each.
    pub remarks: Vec<String>,
    /// The role of this end, in a word or two.
    pub role: &'static str,
    /// The command of adit that runs it.
    pub command: &'static str,
    /// The arguments of that command.
    pub arguments: Vec<String>,
    /// How long a peer may be away before this end misses it, by the configuration.
    pub timeout: Option<Duration>,
}

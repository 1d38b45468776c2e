//! The commands of the program, its own and those of protocols, and the programs whose names it answers to.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// The group of a command in the help of the program. The groups stand there in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Commands that make a server and its clients.
    Servers,
    /// Commands for single peers of a tunnel that runs.
    Peers,
    /// Commands that check files.
    Files,
    /// Commands that take a tunnel over from another program.
    Adoption,
    /// Commands that run tunnels.
    Tunnels,
    /// Command lines of other programs.
    Programs,
    /// Commands for tunnels that run, and for the machine.
    Operation,
    /// Commands that only the program itself calls. The help does not show them.
    Internal,
}

/// A command of the program.
pub trait Subcommand: Sync {
    /// The name of the command.
    fn name(&self) -> &'static str;

    /// The group of the command in the help.
    fn group(&self) -> Group;

    /// The name, the help and the arguments of the command.
    fn definition(&self) -> clap::Command;

    /// Runs the command with arguments that [`Subcommand::definition`] has parsed, and gives the exit code of the process.
    fn run(&self, arguments: &clap::ArgMatches) -> ExitCode;
}

/// A command whose arguments are a type `A` that derives [`clap::Args`].
pub struct CommandOf<A> {
    name: &'static str,
    group: Group,
    run: fn(A) -> ExitCode,
}

impl<A: clap::Args> CommandOf<A> {
    /// The command of that name, which calls `run`.
    pub const fn new(name: &'static str, group: Group, run: fn(A) -> ExitCode) -> Self {
        CommandOf { name, group, run }
    }
}

impl<A: clap::Args> Subcommand for CommandOf<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn group(&self) -> Group {
        self.group
    }

    fn definition(&self) -> clap::Command {
        A::augment_args(clap::Command::new(self.name)).hide(self.group == Group::Internal)
    }

    fn run(&self, arguments: &clap::ArgMatches) -> ExitCode {
        match A::from_arg_matches(arguments) {
            Ok(arguments) => (self.run)(arguments),
            // Arguments that the definition has parsed are never refused here.
            Err(error) => error.exit(),
        }
    }
}

/// Another program whose command line this program has where it is called by that program's name.
pub struct Personality {
    /// Whether a process with that program path is the other program.
    pub is_called: fn(&OsStr) -> bool,
    /// Runs a command line, whose first word is the path of the program, and gives the exit code of the process.
    pub main: fn(Vec<OsString>) -> ExitCode,
}

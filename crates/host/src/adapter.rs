//! The interface between the host and a protocol: [`Adapter`] is a protocol, [`Configuration`] is one of its files, and [`Tunnel`]
//! is a file that is run.

use std::path::Path;

pub use adit_core::configuration::{Disposition, Failure as Unreadable, Problem};

use super::adoption::Adoption;
use super::bench::Row;
use super::blocking::{BlockError, BlockOrder};
use super::commands::{Personality, Subcommand};
use super::endpoints::{Shared, Unbound};
use super::facts::Facts;
use super::failure::Failure;
use super::log::{LogPlace, Logger};
use super::manual::{Page, Program};
use super::options::Options;
use super::remarks::Remarks;
use super::startup::Member;
use super::writable;

/// A protocol, as the host knows it.
pub trait Adapter: Sync {
    /// The name of the protocol in the command line of the helper.
    fn name(&self) -> &'static str;

    /// The name of the protocol for people.
    fn title(&self) -> &'static str {
        self.name()
    }

    /// Whether a file with this text is one of the protocol's.
    fn recognizes(&self, text: &[u8]) -> bool;

    /// Reads and checks the configuration in `file`, whose text is given, with the files that it names.
    ///
    /// # Errors
    /// When the configuration is wrong: one problem a line.
    fn read(&self, file: &Path, text: &[u8]) -> Result<Box<dyn Configuration>, Unreadable>;

    /// The functions with which the helper reads and writes the protocol's files.
    fn helper_files(&self) -> adit_guard::Dialect;

    /// Makes the options of a command line the configuration of this process, in place of any file. Only the helper of a tunnel that
    /// was started so calls this.
    fn use_command_line(&self, _options: String) {}

    /// The commands that the protocol adds to the command line of the program.
    fn commands(&self) -> &'static [&'static dyn Subcommand] {
        &[]
    }

    /// The programs whose command lines the program has where it is called by their names.
    fn personalities(&self) -> &'static [Personality] {
        &[]
    }

    /// The programs that the manual has pages of, besides the program itself.
    fn programs(&self) -> Vec<Program> {
        Vec::new()
    }

    /// The pages of the manual about command lines that clap does not parse.
    fn pages(&self) -> Vec<Page> {
        Vec::new()
    }

    /// The use that is made of every directive there is, as a page of Markdown; `None`: the protocol has no such page.
    fn directives(&self) -> Option<String> {
        None
    }

    /// Keeps a peer out of a tunnel of the protocol, or lets it in again. Gives the sentence for the person who asked. `None`: the
    /// protocol has no such order, or the tunnel is none of its own.
    fn set_blocked(&self, _order: &BlockOrder<'_>) -> Option<Result<String, BlockError>> {
        None
    }

    /// The program in whose place adit can run the tunnels of a unit; `None`: the protocol has none.
    fn adoption(&self) -> Option<&'static dyn Adoption> {
        None
    }

    /// The rows of `adit bench`.
    fn bench(&self) -> Vec<Row> {
        Vec::new()
    }
}

/// The adapters of a program, in the order in which they are asked whether a file is theirs. The last adapter is given the files that
/// no other recognizes.
pub type Adapters = [&'static dyn Adapter];

/// A configuration that was read and found good.
pub trait Configuration: Send + 'static {
    /// The file.
    fn file(&self) -> &Path;

    /// The use that is made of each line.
    fn report(&self) -> &[Disposition];

    /// Points that do not stop the tunnel but that its owner should know.
    fn warnings(&self) -> &[Problem];

    /// The facts that the host compares with the facts of other files.
    fn facts(&self) -> Facts;

    /// Prepares the tunnel, as its start does, and drops it.
    ///
    /// # Errors
    /// Why the start would fail before the first datagram.
    fn check(&self, remarks: &mut Remarks) -> Result<(), Failure>;

    /// Further lines of `adit check`.
    fn advice(&self) -> Vec<String> {
        Vec::new()
    }

    /// The firewall mark by which a kill switch knows the tunnel's datagrams, if they have one. `number` is the place of the file among
    /// those of the process.
    ///
    /// # Errors
    /// The sentence names the tunnels that a kill switch can be for, and why this one is not among them.
    fn kill_switch_mark(&self, number: usize) -> Result<Option<u32>, &'static str>;

    /// The tunnel, which is not started yet.
    fn tunnel<'a>(self: Box<Self>, setting: Setting<'a>) -> Box<dyn Tunnel + 'a>;
}

impl dyn Configuration {
    /// The place of the first of these directives that the file has: file and line; the file alone, if it has none of them.
    pub fn place(&self, directives: &[&str]) -> String {
        super::place::place_in(self.report(), self.file(), directives)
    }

    /// Whether the log file, if there is one, can be written.
    ///
    /// # Errors
    /// Why not.
    pub fn check_log_place(&self) -> Result<(), Failure> {
        let log = self.facts().log;
        let Some(LogPlace::File { path, .. }) = &log.value.place else { return Ok(()) };
        writable::check(path).map_err(|error| {
            let place = self.place(log.directives);
            Failure::World(format!("{place}: the log file {} cannot be written: {error}", path.display()))
        })
    }
}

/// The things that the process gives to one of its tunnels.
pub struct Setting<'a> {
    /// The options of the process.
    pub options: &'a Options,
    /// The name of the tunnel in the log and in `adit status`.
    pub name: String,
    /// The place of the file among those of the process.
    pub number: usize,
    /// The process runs other tunnels, too.
    pub has_others: bool,
    /// The tunnel's log.
    pub log: Logger,
    /// The things that the tunnel's endpoints share, if it has several.
    pub shared: Option<Shared>,
    /// The endpoint's part in [`Shared::binding`], if other endpoints wait for its sockets. It is dropped when these are bound.
    pub unbound: Option<Unbound>,
}

/// A tunnel that can be run, on a thread of its own.
pub trait Tunnel: Send {
    /// Runs the tunnel until it ends.
    ///
    /// # Errors
    /// Why it did not come up, or ended unasked. The log has it too, where the person who started the program does not
    /// see the standard error.
    fn run(self: Box<Self>, member: Member<'_>) -> Result<(), Failure>;
}

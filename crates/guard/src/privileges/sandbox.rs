//! No files (Landlock) and few system calls (seccomp) for a tunnel that runs; few or fewer calls for the processes that help it.

mod calls;
mod filters;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use adit_sys::{Step, in_every_thread};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
};

/// The newest Landlock whose rights are known here.
const LANDLOCK: ABI = ABI::V7;

/// Whether a layer is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The layer is in force.
    On,
    /// By `--no-sandbox`.
    SwitchedOff,
    /// The layer cannot be had here, for this reason.
    Unavailable(String),
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::On => f.write_str("on"),
            Layer::SwitchedOff => f.write_str("switched off"),
            Layer::Unavailable(why) => write!(f, "off ({why})"),
        }
    }
}

/// Which layers are in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// No file can be opened, made or removed.
    pub landlock: Layer,
    /// No program can be run, no socket made, and no system call made that the tunnel does not need.
    pub seccomp: Layer,
}

impl Sandbox {
    pub(super) fn switched_off() -> Self {
        Sandbox { landlock: Layer::SwitchedOff, seccomp: Layer::SwitchedOff }
    }
}

/// Puts all threads into the sandbox. Needs `no_new_privs`.
pub(super) fn enter() -> io::Result<Sandbox> {
    // The time zone's file is read at the first question for a local time, and the generator of random numbers looks
    // for the kernel's ways at the first number.
    adit_io::local_time(adit_io::unix_now());
    let landlock = match ruleset()? {
        Some(ruleset) => {
            in_every_thread(Step::Files(ruleset.as_fd()))?;
            Layer::On
        }
        None => Layer::Unavailable("the kernel has no Landlock".to_owned()),
    };
    let seccomp = match filters::of_tunnel() {
        Ok(()) => Layer::On,
        Err(error) => Layer::Unavailable(error.to_string()),
    };
    Ok(Sandbox { landlock, seccomp })
}

/// The filter of a helper that opens files and sockets and starts no program: a list of allowed calls. Needs
/// `no_new_privs`. An error says why it could not be had.
pub(crate) fn allow_files_and_sockets() -> io::Result<()> {
    filters::of_helper()
}

/// The filter of a helper that starts programs, which inherit it: calls that no such program has a use for are refused.
/// Programs may have more rights than the process. Needs `CAP_SYS_ADMIN` or `no_new_privs`. An error says why it could
/// not be had.
pub(crate) fn deny_what_no_program_needs() -> io::Result<()> {
    filters::with_programs()
}

/// The restriction of a process that loads a library of others, such as the module of a smart card, and keeps root's
/// rights for it: neither it nor a program that it starts can gain rights (`no_new_privs`), look into other processes,
/// mount, enter namespaces or change the kernel. The other needs of such a library are not known.
///
/// # Errors
/// When the kernel refuses, for example as it has no seccomp.
pub fn restrict_libraries() -> io::Result<()> {
    filters::with_libraries()
}

/// A ruleset that grants nothing. `None` if the kernel has none.
fn ruleset() -> io::Result<Option<OwnedFd>> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    Ok(ruleset.into())
}

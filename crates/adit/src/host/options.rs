//! The options of a process that runs tunnels.

use std::path::PathBuf;

use adit_io::OffloadSwitches;

use super::log::Manner;

/// The options of a process that runs tunnels, as its command line has them.
pub(crate) struct Options {
    /// The configurations.
    pub(crate) files: Vec<PathBuf>,
    /// All tunnels end when the first ends.
    pub(crate) exit_with_first: bool,
    /// The file to which name servers are written, in place of systemd-resolved and /etc/resolv.conf.
    pub(crate) resolv_conf: Option<PathBuf>,
    /// What the kill switch keeps in; `None`: there is none.
    pub(crate) kill_switch: Option<KillSwitchScope>,
    /// The offloads that may be used.
    pub(crate) offloads: OffloadSwitches,
    /// The number of threads that move packets.
    pub(crate) workers: usize,
    /// The running tunnels are not confined.
    pub(crate) no_sandbox: bool,
    /// The look of the log.
    pub(crate) manner: Manner,
    /// Another process waits until the tunnel is set up: this process goes on in the background.
    pub(crate) in_background: bool,
}

impl Options {
    /// The options for one tunnel, as OpenVPN runs it.
    pub(crate) fn one(file: PathBuf, manner: Manner, in_background: bool) -> Self {
        Options {
            files: vec![file],
            exit_with_first: false,
            resolv_conf: None,
            kill_switch: None,
            offloads: OffloadSwitches::default(),
            workers: 1,
            no_sandbox: false,
            manner,
            in_background,
        }
    }
}

/// What the kill switch keeps in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillSwitchScope {
    /// All.
    All,
    /// All but what stays in local networks.
    Lan,
}

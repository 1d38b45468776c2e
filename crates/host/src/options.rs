//! The options of a process that runs tunnels.

use std::path::PathBuf;

use adit_io::OffloadSwitches;

use super::log::Manner;

/// The options of a process that runs tunnels, as its command line has them.
pub struct Options {
    /// The configurations.
    pub files: Vec<PathBuf>,
    /// All tunnels end when the first ends.
    pub exit_with_first: bool,
    /// The file to which name servers are written, in place of systemd-resolved and /etc/resolv.conf.
    pub resolv_conf: Option<PathBuf>,
    /// The traffic that the kill switch keeps in; `None`: there is none.
    pub kill_switch: Option<KillSwitchScope>,
    /// The offloads that may be used.
    pub offloads: OffloadSwitches,
    /// The number of threads that move packets.
    pub workers: usize,
    /// The running tunnels are not confined.
    pub no_sandbox: bool,
    /// The look of the log.
    pub manner: Manner,
    /// The first line of the log, where the manner has one.
    pub first_line: Option<&'static str>,
    /// Another process waits until the tunnel is set up: this process goes on in the background.
    pub in_background: bool,
}

impl Options {
    /// The options for one tunnel.
    pub fn one(file: PathBuf, manner: Manner, in_background: bool) -> Self {
        Options {
            files: vec![file],
            exit_with_first: false,
            resolv_conf: None,
            kill_switch: None,
            offloads: OffloadSwitches::default(),
            workers: 1,
            no_sandbox: false,
            manner,
            first_line: None,
            in_background,
        }
    }
}

/// The traffic that the kill switch keeps in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KillSwitchScope {
    /// All.
    All,
    /// All but the traffic in local networks.
    Lan,
}

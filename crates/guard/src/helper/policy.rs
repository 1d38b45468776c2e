//! The policy that a helper gets at its start and holds to afterwards.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use adit_io::{HelperNeeds, PortShare, Remote, UdpOptions};
use adit_system::{Forwarding, Network};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use crate::privileges::Account;

/// The work that a helper does for its tunnel; it refuses all else. The helper gets it before the tunnel receives the
/// first datagram.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Policy {
    /// Addresses, routes and name servers of the TUN device: `None` if the tunnel needs none set any more.
    pub network: Option<Network>,
    /// The remotes that it may reach, in the driver's order.
    pub remotes: Vec<Remote>,
    /// The tunnel may name another host and port in place of a remote.
    pub replaces_remotes: bool,
    /// The tunnel may name a proxy by which a remote is reached.
    pub replaces_proxies: bool,
    /// How it makes UDP sockets.
    pub udp: Option<UdpOptions>,
    /// Names whose addresses may be asked for.
    pub names: Vec<String>,
    /// The helper binds UDP sockets to any port of all addresses, and marks them.
    pub binds_udp: bool,
    /// A firewall holds back unmarked datagrams, also questions for names.
    pub kill_switch: bool,
    /// The other server at a shared port: it forwards connections there.
    pub port_share: Option<PortShare>,
    /// Sockets are bound to ports below 1024.
    pub low_ports: bool,
    /// The configuration file of the tunnel, which may be read again with the files that it names then.
    pub configuration: Option<PathBuf>,
    /// The helper reads the configuration for another helper, whose user may not read it, and does nothing
    /// else.
    pub reads_for_another: bool,
    /// The tunnel may replace its configuration file.
    pub writes_configuration: bool,
    /// A file that the tunnel replaces as its state changes.
    pub state_file: Option<PathBuf>,
    /// The directory of clients' files.
    pub client_directory: Option<PathBuf>,
    /// The revocation lists.
    pub revocations: Option<Revocations>,
    /// The file of the address pool's leases, if it is written.
    pub pool_file: Option<PathBuf>,
    /// The file with our username and password.
    pub user_password: Option<PathBuf>,
    /// The scripts that may be run.
    pub scripts: Option<Scripts>,
    /// The helper starts programs of the system's: `iptables-restore`, for [`adit_core::RouteTable::ByMark`].
    pub starts_programs: bool,
    /// The forwarding of the clients' packets beyond this machine: the helper sets it up at once, and takes it back when the tunnel
    /// is gone. Such a helper runs the programs of the firewalls.
    pub forwarding: Option<Forwarding>,
    /// Files that go when the tunnel does: its sockets, the one with its process's number. Those that another program has
    /// replaced meanwhile stay.
    pub removed_at_end: Vec<PathBuf>,
    /// The account that it becomes. `None`: it keeps its account.
    pub account: Option<Account>,
    /// Its memory stays out of swap (`mlock`).
    pub lock_memory: bool,
    /// No sandbox.
    pub without_sandbox: bool,
}

/// The revocation lists of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Revocations {
    /// The file or directory.
    pub path: PathBuf,
    /// The names in a directory are the numbers of revoked certificates (`dir`).
    pub is_directory: bool,
}

/// Most arguments that may follow those of a script's configuration: the most that any script gets (docs/use/SCRIPTS.md). Their
/// values (a device, an address, a certificate's subject) change while the tunnel is up, so that the policy cannot hold them. A
/// program that runs its arguments, such as a shell without `-c`, would run these.
pub const MOST_FOLLOWING: usize = 6;

/// The scripts of a configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Scripts {
    /// Programs with the arguments that the configuration gives them.
    pub commands: Vec<Vec<String>>,
    /// Programs with their arguments that a configuration which is read again does not change.
    pub lasting: Vec<Vec<String>>,
    /// Arguments that may follow these, which the tunnel names, beside the paths of files that are made for the script. At most
    /// [`MOST_FOLLOWING`] follow, with these paths.
    pub most_following: usize,
    /// Names of environment variables that the configuration sets itself.
    pub variables: Vec<String>,
    /// The beginnings of names of environment variables that scripts get, beside those that begin with a small letter.
    pub prefixes: Vec<String>,
    /// The directory in which their files are made.
    pub directory: PathBuf,
    /// The account that scripts run as after [`crate::ScriptLauncher::give_up_rights`]. `None`: they run as
    /// the helper.
    pub account: Option<Account>,
}

impl From<HelperNeeds> for Policy {
    /// A policy that allows the work of a driver, and nothing else.
    fn from(needs: HelperNeeds) -> Self {
        Policy {
            network: needs.network,
            remotes: needs.remotes,
            udp: Some(needs.udp),
            binds_udp: needs.binds_udp,
            kill_switch: needs.kill_switch,
            port_share: needs.port_share,
            low_ports: needs.low_ports,
            ..Policy::default()
        }
    }
}

impl Policy {
    /// The capabilities that the helper keeps: those that setting up a network and making sockets needs, and with
    /// scripts and without a user of its own the superuser's, as scripts are run so.
    pub(super) fn capabilities(&self) -> CapabilitySet {
        if self.scripts.is_some() && self.stays_root() {
            return CapabilitySet::all();
        }
        let mut kept = CapabilitySet::empty();
        if self.network.is_some() || !self.remotes.is_empty() || self.binds_udp {
            kept |= CapabilitySet::NET_ADMIN;
        }
        if self.forwarding.is_some() {
            // iptables-legacy talks to the kernel by a raw socket.
            kept |= CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        }
        if self.low_ports || self.binds_udp {
            kept |= CapabilitySet::NET_BIND_SERVICE;
        }
        if self.reads_for_another || self.reads_files_of_others() {
            kept |= CapabilitySet::DAC_READ_SEARCH;
        }
        if self.writes_for_others() {
            kept |= CapabilitySet::DAC_OVERRIDE;
        }
        kept
    }

    /// Whether another process has to read the configuration again, as this one becomes a user who need not be allowed to.
    pub(super) fn needs_reader(&self) -> bool {
        self.configuration.is_some() && !self.reads_for_another && !self.stays_root()
    }

    /// Whether it starts programs, which inherit its restrictions.
    pub(super) fn runs_programs(&self) -> bool {
        self.scripts.is_some() || self.starts_programs || self.forwarding.is_some()
    }

    fn stays_root(&self) -> bool {
        !self.account.as_ref().is_some_and(Account::is_plain)
    }

    /// Whether there is a file to be read again that is not root's, by a helper that stays root: without a right of
    /// its own root reads no more than any user.
    fn reads_files_of_others(&self) -> bool {
        let revocations = self.revocations.as_ref().map(|revocations| revocations.path.as_path());
        let (password, directory) = (self.user_password.as_deref(), self.client_directory.as_deref());
        let files = [revocations, password, directory, self.configuration.as_deref()];
        self.stays_root()
            && rustix::process::geteuid().is_root()
            && files.into_iter().flatten().any(is_of_other)
    }

    /// Whether the configuration is to be replaced in a directory that is not root's.
    fn writes_for_others(&self) -> bool {
        let file = self.configuration.as_deref().filter(|_| self.writes_configuration);
        let file = file.and_then(|path| std::fs::canonicalize(path).ok());
        let is_of_other = file.as_deref().and_then(Path::parent).is_some_and(is_of_other);
        self.stays_root() && rustix::process::geteuid().is_root() && is_of_other
    }
}

fn is_of_other(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.uid() != 0)
}

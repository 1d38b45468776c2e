//! The settings of the system: the device, the sockets, the process.

use std::path::PathBuf;
use std::time::Duration;

use adit_core::DeviceName;

/// The TUN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name; `None` lets the system number it (`dev tun`).
    pub name: Option<String>,
    /// There is none: packets from the other end are dropped (`dev null`). It has no name then.
    pub is_null: bool,
    /// MTU in bytes (default 1500); a server may push another.
    pub mtu: u16,
    /// The MTU that is announced to the other end, if it differs (the second value of `tun-mtu`).
    pub told_mtu: Option<u16>,
    /// Tell the other end of a point-to-point tunnel nothing of our addresses, which it would compare with its own
    /// (`ifconfig-nowarn`).
    pub ifconfig_nowarn: bool,
    /// Length of its transmit queue in packets, if given.
    pub txqueuelen: Option<u32>,
    /// The routing table of all routes into it, if it is not the main one (`route-table`).
    pub route_table: Option<u32>,
}

/// Options of the outer sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Send buffer in bytes, if given.
    pub sndbuf: Option<u32>,
    /// Receive buffer in bytes, if given.
    pub rcvbuf: Option<u32>,
    /// Let the peer change its address (`float`; servers always do).
    pub float: bool,
    /// A server answers from the address that was written to (`multihome`).
    pub multihome: bool,
    /// The firewall mark of what they send, not 0 (`mark`).
    pub mark: Option<u32>,
    /// The network device that they send and receive by (`bind-dev`).
    pub device: Option<DeviceName>,
    /// Datagrams have the DSCP of the packets inside (`passtos`).
    pub passtos: bool,
    /// Whether datagrams may be cut into fragments, if given (`mtu-disc`).
    pub mtu_disc: Option<MtuDiscovery>,
    /// Largest control datagram with its outer headers, 154 to 2048 bytes (`max-packet-size`; default 1250).
    pub control_size: Option<u16>,
    /// Send TCP records at once (`tcp-nodelay`, `socket-flags TCP_NODELAY`).
    pub tcp_nodelay: bool,
}

/// `mtu-disc`: how the system heeds the MTU of the path of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuDiscovery {
    /// Datagrams never have DF (`no`).
    No,
    /// Datagrams that fit the MTU that the system knows of the path have DF; it cuts the others (`maybe`).
    Maybe,
    /// Datagrams always have DF (`yes`).
    Yes,
}

impl MtuDiscovery {
    /// All, with their names in files.
    pub(crate) const ALL: [(MtuDiscovery, &'static str); 3] =
        [(MtuDiscovery::No, "no"), (MtuDiscovery::Maybe, "maybe"), (MtuDiscovery::Yes, "yes")];
}

/// The process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Become this user once all is set up.
    pub user: Option<String>,
    /// Become this group.
    pub group: Option<String>,
    /// How much to log, 0 to 11 (`verb`, default 1).
    pub verb: u8,
    /// Log at most so many alike messages in a row.
    pub mute: Option<u32>,
    /// Put the time before each line of the log (not with `suppress-timestamps`).
    pub stamps: bool,
    /// Where to log; `None` for the standard error.
    pub log: Option<Log>,
    /// Where to write the state now and then.
    pub status: Option<StatusFile>,
    /// Where to write the process id.
    pub pid_file: Option<PathBuf>,
    /// The scheduler's niceness, -20 (urgent) to 19 (`nice`, default 0).
    pub nice: i32,
    /// Keep all memory out of swap (`mlock`).
    pub lock_memory: bool,
    /// Where files for scripts are made (`tmp-dir`).
    pub tmp_dir: Option<PathBuf>,
    /// Where other programs may command this one.
    pub management: Option<Management>,
    /// Messages for the program at the management socket (`echo`).
    pub echo: Vec<String>,
}

impl Default for Process {
    fn default() -> Self {
        Process {
            user: None,
            group: None,
            verb: 1,
            mute: None,
            stamps: true,
            log: None,
            status: None,
            pid_file: None,
            nice: 0,
            lock_memory: false,
            tmp_dir: None,
            management: None,
            echo: Vec::new(),
        }
    }
}

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// Keep what is in it (`log-append`).
        append: bool,
    },
    /// The system log, under that name.
    Syslog(Option<String>),
}

/// `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFile {
    /// Which file.
    pub path: PathBuf,
    /// How often.
    pub every: Duration,
    /// Its form: 1, 2 or 3 (`status-version`, default 1).
    pub version: u8,
}

/// The management socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Management {
    /// Where it listens.
    pub address: ManagementAddress,
    /// The file whose first line is the password that is asked for first.
    pub password: Option<PathBuf>,
    /// How many lines of the log it remembers (`management-log-cache`).
    pub log_cache: u32,
    /// The tunnel waits for `hold release` at the management socket (`management-hold`).
    pub hold: bool,
    /// Passwords are asked for there (`management-query-passwords`).
    pub query_passwords: bool,
    /// The tunnel connects anew when the program that commanded it is gone (`management-signal`).
    pub signal: bool,
    /// Each remote is asked about there before it is tried (`management-query-remote`).
    pub query_remote: bool,
    /// For each remote a proxy is asked for there before it is tried (`management-query-proxy`), unless the remote itself is.
    pub query_proxy: bool,
    /// The program there is notified when the tunnel comes up and goes down (`management-up-down`).
    pub up_down: bool,
    /// A client forgets its password when the program that commanded it is gone (`management-forget-disconnect`).
    pub forget_disconnect: bool,
    /// adit connects to a program that listens at the address, and ends when that is gone (`management-client`).
    pub as_client: bool,
    /// Only this user may speak to a Unix socket.
    pub client_user: Option<String>,
    /// Only processes with this group may speak to a Unix socket.
    pub client_group: Option<String>,
}

impl Management {
    /// Lines of the log that the management socket keeps by default (OpenVPN options.c).
    pub const LOG_CACHE: u32 = 250;
}

/// Where the management socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagementAddress {
    /// TCP, at an address or name of this machine, and a port; 0 lets the system choose one.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

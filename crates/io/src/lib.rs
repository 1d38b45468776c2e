//! adit's driver: TUN, UDP, TCP, netlink, the clock and the threads.
//!
//! Everything that touches the world is here; what takes `unsafe` is in [`adit_sys`].
//! [`Driver`] runs a [`adit_core::Protocol`] and a data plane until the protocol ends.
#![forbid(unsafe_code)]

pub mod aead;
pub mod checksum;
mod clock;
mod config;
mod dns;
mod driver;
mod fair_queue;
mod firewall;
mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod helper;
mod kill_switch;
mod mailbox;
#[cfg(test)]
#[path = "mailbox/tests.rs"]
mod mailbox_tests;
mod mark;
mod netlink;
mod offload;
mod opener;
mod poller;
mod port_share;
mod privileges;
mod proxy;
mod refusal;
mod replace;
mod resolver;
mod routing;
mod staged_queue;
mod sync;
mod system;
mod tcp;
#[cfg(test)]
mod testing;
mod tls;
mod tun;
mod udp;
mod unix_listener;
mod zone;

pub use clock::{clock, local_time, unix_at_origin, unix_now};
pub use config::{
    Buffers, DriverConfig, Execution, Family, Fragmentation, Listen, Remote, SocketRouting, StreamOptions,
    UdpSource,
};
pub use driver::{
    BindAnswer, Change, Driver, DriverError, Handle, Inspection, IoStatus, Losses, MAX_WORKERS, MakeCodec,
    Observer, SharedDevice, UdpBinding, UdpSockets, WorkerStatus,
};
pub use forwarding::Forwarding;
pub use helper::{
    Allowed, Dialect, Gather, Gathered, Helper, HelperAccess, HelperFiles, LookedUp, LookedUpOne,
    MOST_FOLLOWING, Mark, Network, Policy, Revocations, Rewrite, ScriptCall, ScriptInput, ScriptLauncher,
    ScriptRun, Scripts, run_script, serve_helper,
};
pub use kill_switch::{KillSwitch, KillSwitchError};
pub use mark::MARK;
pub use netlink::{KernelRoute, LinkInfo, Netlink, NextHop, RouteWatch, Whose};
pub use offload::{OffloadState, OffloadStatus, OffloadSwitches};
pub use opener::look_up_marked;
pub use port_share::PortShare;
pub use privileges::{
    Account, AccountError, ConfineError, Confined, Layer, Sandbox, allow_many_descriptors, confine,
    forbid_core_files, lock_memory, restrict_libraries, set_niceness, user_and_group,
};
pub use proxy::{HttpAuthentication, HttpProxy, Proxy, ProxyCredentials, ProxyKind};
pub use refusal::{RefusalCheck, first_not_refusing};
pub use replace::replace_file;
pub use routing::Routing;
pub use tls::TlsClient;
pub use tun::{NULL_DEVICE, Tun, TunConfig, TunError, TunOffloads};
pub use udp::{UdpOptions, UdpSocket, has_ipv6};
pub use unix_listener::listen_at;
pub use zone::{scope_of_zone, zone_of_scope};

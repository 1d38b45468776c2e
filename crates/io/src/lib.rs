//! adit's driver: TUN, UDP, TCP, netlink, the clock and the threads.
//!
//! Everything that touches the world is here; functions that take `unsafe` are in [`adit_sys`]. [`Driver`]
//! runs a [`adit_core::Protocol`] and a data plane until the protocol ends.
#![forbid(unsafe_code)]

pub mod aead;
pub mod checksum;
mod clock;
mod config;
mod descriptors;
mod driver;
mod fair_queue;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod helper;
mod helper_channels;
mod mailbox;
#[cfg(test)]
#[path = "mailbox/tests.rs"]
mod mailbox_tests;
mod offload;
pub mod opener;
mod poller;
mod port_share;
mod proxy;
mod refusal;
mod refusal_check;
mod staged_queue;
mod sync;
mod system;
mod tcp;
mod tls;
mod tun;
mod udp;

pub use clock::{clock, local_time, unix_at_origin, unix_now};
pub use config::{Buffers, DriverConfig, Execution, Family, Listen, Remote, StreamOptions, UdpSource};
pub use descriptors::allow_many_descriptors;
pub use driver::{
    BindAnswer, Change, Driver, DriverError, Handle, Inspection, IoStatus, IpBinding, Losses, MAX_WORKERS,
    MakeCodec, Observer, SharedDevice, UdpBinding, UdpSockets, WorkerStatus,
};
pub use helper::{Attempt, DriverHelper, HelperNeeds, OpenOutcome};
pub use helper_channels::{ForwardChannel, NetworkChannel, SocketChannel};
pub use offload::{OffloadState, OffloadStatus, OffloadSwitches};
pub use port_share::{Forwarder, PortShare};
pub use proxy::{HttpAuthentication, HttpProxy, Proxy, ProxyCredentials, ProxyKind};
pub use refusal::{Question, first_not_refusing};
pub use refusal_check::RefusalCheck;
pub use tls::TlsClient;
pub use tun::{NULL_DEVICE, Tun, TunConfig, TunError, TunOffloads, TunOwner};
pub use udp::{Relay, UdpOptions, UdpSocket, has_ipv6};

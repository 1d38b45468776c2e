//! The nouns that adit's protocols, data plane and driver share.
//!
//! A *packet* is inner IP; a *datagram* is one outer UDP datagram or one TCP record. A *peer* is the other
//! end; a *session* is one set of data keys between us and a peer. Protocols decide (they are values in,
//! values out), the data plane moves packets, the driver touches the world; this crate holds the messages
//! between them and imports none of them.
#![forbid(unsafe_code)]

mod activity;
pub mod configuration;
mod device_name;
mod domain;
mod drive;
mod event;
mod ids;
mod limits;
mod network;
mod notice;
mod path;
mod peer_order;
mod pool;
mod preamble;
pub mod prefix_table;
mod printable;
mod protocol;
mod rate_limit;
mod selector;
mod session;
mod time;
mod tunnel;

pub use activity::{Activity, PeerActivity};
pub use device_name::{BadDeviceName, DeviceName};
pub use domain::is_domain;
pub use drive::{Drive, drive, drive_once, drive_with};
pub use event::{Command, DataEvent, Event, EventOf, OpenFailure, Report, Severity};
pub use ids::{ConnectionId, DeviceId, PeerId, SessionId};
pub use limits::{IdleLimit, PeerLimits};
pub use network::ipv6_network;
pub use notice::Notice;
pub use path::{Path, Transport};
pub use peer_order::PeerOrder;
pub use pool::{
    AddressChange, AddressKeeper, AddressPool, EndpointPool, Eviction, FixedAddresses, Lease, LeaseOwner,
    NameBinding, PoolEntry, PoolRanges, SharedPool,
};
pub use preamble::{Preamble, PreambleVerdict};
pub use prefix_table::{PrefixShares, PrefixTable, SourcePrefix, TableUsage};
pub use printable::{escaped, is_unprintable, printable};
pub use protocol::{HandshakeStage, Protocol, Rejected};
pub use rate_limit::{AnswerLimit, ClientLimit, Permit, Rate, silence};
pub use selector::{Flow, Ports, Selector};
pub use session::{Cipher, Digest, Identity, Install, OnFirstOpened, PeerConfig, ReplayWindow};
pub use time::{Instant, UnixTime};
pub use tunnel::{Dns, Ended, PeerInfo, Redirect, Route, RouteTable, RouteVia, TunnelSettings};

pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};

//! The system's network: links, addresses, routes and policy rules (by netlink), the firewall, the kill switch, forwarding and
//! name servers.
//!
//! [`Routing`] applies a tunnel's settings and takes them back; [`SystemSettings`] does so together with the name
//! servers. [`Forwarding`] lets clients reach networks beyond this machine. All of them find at the next start the
//! changes that a killed process left behind.
#![forbid(unsafe_code)]

mod dns;
mod firewall;
mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod kill_switch;
pub mod mark;
mod netlink;
pub mod nftables;
mod resolver;
mod routing;
mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod zone;

pub use dns::NameServers;
pub use forwarding::{Forwarded, Forwarding};
pub use kill_switch::{KillSwitch, KillSwitchError};
pub use mark::{Fragmentation, MARK, SocketRouting};
pub use netlink::{
    KernelRoute, LinkInfo, Netlink, NextHop, RouteChangeWatch, RouteChanges, RouteWatch, Whose,
};
pub use resolver::{MarkedServers, Resolving, ask_marked};
pub use routing::Routing;
pub use settings::{Network, SystemSettings};
pub use zone::{scope_of_zone, zone_of_scope};

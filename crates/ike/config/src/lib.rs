//! strongSwan's swanctl.conf: connections, their children, secrets, pools and authorities, with the directories of certificates and
//! keys beside the file (swanctl.conf(5) of strongSwan 6.1, src/swanctl/swanctl.opt).
//!
//! ```text
//! connections {
//!   office {
//!     remote_addrs = vpn.example.org
//!     local  { auth = psk
//!              id = laptop.example.org }
//!     remote { auth = psk
//!              id = vpn.example.org }
//!     children {
//!       net { remote_ts = 10.1.0.0/16 }
//!     }
//!   }
//! }
//! secrets {
//!   ike-office { id = vpn.example.org
//!                secret = "a long text" }
//! }
//! ```
//!
//! [`parse`] takes the bytes of a file and the [`Files`] that it includes and names, and gives a [`Config`] with every value checked.
//! The report ([`Parsed::report`]) says of each line that it is used, that it is accepted without effect and why that is safe, or that it
//! is refused and what to write instead. All problems of a file are found before any is reported, but for those of its grammar, of
//! which the first ends the reading.
//!
//! | module | does |
//! |---|---|
//! | `grammar` | bytes to sections: the settings grammar of strongSwan, with includes and references |
//! | `keys` | one table for each kind of section: its keys, their forms, and what becomes of each |
//! | `values` | the text of one value to its type |
//! | `read` | sections to the [`model`](Config), by the tables |
//!
//! This crate does no I/O, reads no clock and draws no random numbers.
#![forbid(unsafe_code)]

mod daemon;
mod distinguished_name;
mod documents;
mod draft;
mod files;
mod grammar;
mod keys;
mod model;
mod read;
#[cfg(test)]
mod tests;
mod values;

pub use self::daemon::{DaemonSetting, daemon_settings};
pub use self::files::{Entry, Files};
pub use self::grammar::is_recognized;
pub use self::keys::documentation;
pub use self::model::{
    Action, Addresses, Attribute, Authority, Child, Childless, Config, Connection, Credentials, Document,
    DscpCopy, EapMethod, Fragmentation, Host, Identity, IdentityPattern, InterfaceId, KeyKind, LocalRound,
    Method, OwnDevice, Padding, Place, Places, Pool, PoolAddresses, PortRange, PrivateKeyFile, RemoteRound,
    Revocation, Scheme, SchemeKey, SecretBytes, SendCertificate, SharedSecret, SignatureRules,
    TrafficSelector, Unique, ViciSettings, Volume,
};
pub use self::read::{Parsed, parse, parse_sections};

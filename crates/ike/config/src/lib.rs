//! strongSwan's swanctl.conf: connections, their children, secrets, pools and authorities, with the directories of certificates and
//! keys beside the file (swanctl.conf(5) of strongSwan 6.1, src/swanctl/swanctl.opt).
//!
//! So far it holds the [`Config`] that a file is to become.
//!
//! This crate does no I/O, reads no clock and draws no random numbers.
#![forbid(unsafe_code)]

mod model;

pub use self::model::{
    Action, Addresses, Attribute, Authority, Child, Childless, Config, Connection, Credentials, Document,
    DscpCopy, Fragmentation, Host, Identity, IdentityPattern, InterfaceId, KeyKind, LocalRound, Method,
    Padding, Place, Places, Pool, PoolAddresses, PortRange, PrivateKeyFile, RemoteRound, Revocation, Scheme,
    SchemeKey, SecretBytes, SendCertificate, SharedSecret, SignatureRules, TrafficSelector, Unique, Volume,
};

//! The content of a file, with every value checked. Fields have the names of their keys where those are words of the field.

mod child;
mod connection;
mod credentials;
mod identity;
mod own_device;
mod place;
mod pool;
mod round;
mod secret;
mod selector;

use std::collections::BTreeMap;

use adit_core::IpNet;
use adit_ike::machine::FullTranscript;

pub use self::child::{Action, Child, DscpCopy, Padding, Volume};
pub use self::connection::{
    Childless, Connection, Fragmentation, Host, InterfaceId, SendCertificate, Unique,
};
pub use self::credentials::{Authority, Credentials, Document, KeyKind, PrivateKeyFile};
pub use self::identity::{Identity, IdentityPattern};
pub use self::own_device::OwnDevice;
pub use self::place::{Place, Places};
pub use self::pool::{Attribute, Pool, PoolAddresses};
pub use self::round::{
    EapMethod, LocalRound, Method, RemoteRound, Revocation, Scheme, SchemeKey, SignatureRules,
};
pub use self::secret::{SecretBytes, SharedSecret};
pub use self::selector::{Addresses, PortRange, TrafficSelector};

/// A file with all that it includes and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The subsections of `connections`, in the order of the file.
    pub connections: Vec<Connection>,
    /// The sections `secrets.ike…`, in the order of the file.
    pub shared_keys: Vec<SharedSecret>,
    /// The sections `secrets.ppk…`: post-quantum pre-shared keys (RFC 8784), in the order of the file.
    pub post_quantum_keys: Vec<SharedSecret>,
    /// The sections `secrets.eap…`: passwords of users, in the order of the file.
    pub passwords: Vec<SharedSecret>,
    /// The subsections of `pools`, in the order of the file.
    pub pools: Vec<Pool>,
    /// The subsections of `authorities`, in the order of the file.
    pub authorities: Vec<Authority>,
    /// The files in the directories beside the file.
    pub credentials: Credentials,
    /// `#adit: device`: the name of the tunnel's device. `None`: the first of `ipsec0` and so on that is free.
    pub device: Option<String>,
    /// `#adit: forward`: the networks to which the packets of peers are forwarded; a prefix of length 0 is the internet.
    pub forward: Vec<IpNet>,
    /// `#adit: vici-socket` and `#adit: vici-group`.
    pub vici: ViciSettings,
    /// `#adit: CONNECTION.device` and `#adit: CONNECTION.addresses`: the devices of connections that have one of
    /// their own, by the names of the connections.
    pub own_devices: BTreeMap<String, OwnDevice>,
    /// `#adit: CONNECTION.full_transcript_auth`, by the names of the connections. The others have the default.
    pub full_transcripts: BTreeMap<String, FullTranscript>,
}

/// Where programs speak VICI to the tunnel, and who may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViciSettings {
    /// `vici-socket`: the path of the socket. `None`: that of strongSwan's daemon.
    pub socket: Option<String>,
    /// `vici-group`: the name of the group that may speak there beside root. `None`: root alone.
    pub group: Option<String>,
}

impl Config {
    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == name)
    }
}

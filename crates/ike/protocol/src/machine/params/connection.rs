//! Connections with their children.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{DeviceId, IpNet};

use super::credentials::{LocalAuth, LocalProof, Ppk, RemoteAuth, RemoteProof};
use super::inner::Inner;
use super::traffic::{Addresses, Traffic};
use crate::suite::Algorithms;

/// A peer, with its credentials, proposals and children. Peers are distinguished by both identities, never by address.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its name, in the log and in orders.
    pub name: String,
    /// The addresses that this end initiates to. If one does not answer, the next is tried. The port decides the kind of socket:
    /// messages to 4500 have the marker. Empty: the peer initiates, or no address of its names is known yet.
    pub remotes: Vec<SocketAddr>,
    /// Whether the file names the peer by names, whose addresses may change: after each round of addresses that were tried in vain,
    /// and after the end of an IKE SA, the endpoint asks for them again ([`super::Request::LookUp`]).
    pub has_names: bool,
    /// The networks from which the peer may initiate; empty: any.
    pub sources: Vec<IpNet>,
    /// The authentication of this end.
    pub local_auth: LocalAuth,
    /// The authentication of the peer.
    pub remote_auth: RemoteAuth,
    /// Proposals for the IKE SA, in order of preference.
    pub ike: Vec<Algorithms>,
    /// The children. The traffic of a child comes before that of later children.
    pub children: Vec<Child>,
    /// The device that packets for the peer come from, and to which its packets go.
    pub device: DeviceId,
    /// The inner addresses that it asks for, or gives.
    pub inner: Inner,
    /// The fate of older IKE SAs with the peer when the peer authenticates once more.
    pub unique: Unique,
    /// Whether IKE SAs without a child SA are made (RFC 6023).
    pub childless: Childless,
    /// Whether ESP is sent in UDP even without a NAT. The notifies of this end then make the peer detect a NAT (RFC 7296
    /// section 2.23).
    pub forces_encapsulation: bool,
    /// Whether the addresses of the IKE SA may change (RFC 4555).
    pub mobike: bool,
    /// The longest datagram in bytes. Longer messages are sent in fragments if the peer takes fragments (RFC 7383). `None`:
    /// fragments are neither sent nor taken.
    pub longest_datagram: Option<usize>,
    /// A key beside the key exchange (RFC 8784).
    pub ppk: Option<Ppk>,
    /// Whether the proofs of both ends cover both messages of the first exchange.
    pub full_transcript: FullTranscript,
    /// Its times.
    pub times: Times,
}

impl Connection {
    /// Whether this end initiates to that address.
    pub(crate) fn is_at(&self, address: IpAddr) -> bool {
        self.remotes.iter().any(|remote| remote.ip().to_canonical() == address.to_canonical())
    }

    /// Whether both ends prove their identities by EAP alone (RFC 5998).
    pub(crate) const fn is_eap_only(&self) -> bool {
        matches!((&self.local_auth.proof, &self.remote_auth.proof), (LocalProof::Eap(_), RemoteProof::Eap(_)))
    }

    /// Whether packets go to the peer's own outer address by a child SA: the traffic of a child is `dynamic` at the peer's end, and this
    /// end gives no inner address.
    pub(crate) fn reaches_outer(&self) -> bool {
        let is_dynamic = |child: &Child| child.remote.iter().any(|one| one.addresses == Addresses::Dynamic);
        !self.inner.gives() && self.children.iter().any(is_dynamic)
    }

    /// Whether each identity that proves itself is a peer of its own: it gets an inner address, or only peers initiate and several
    /// identities are accepted.
    pub(crate) fn has_instances(&self) -> bool {
        let has_many = self.remote_auth.identity.exact().is_none();
        self.inner.gives() || has_many && self.remotes.is_empty() && !self.has_names
    }

    /// Whether the settings of the tunnel change as its peer comes and goes.
    pub(crate) fn changes_settings(&self) -> bool {
        self.inner.asks() || self.reaches_outer()
    }

    /// Whether the peer may initiate from that address.
    pub(crate) fn may_come_from(&self, address: IpAddr) -> bool {
        self.sources.is_empty()
            || self.sources.iter().any(|network| network.contains(&address.to_canonical()))
    }
}

/// A child: traffic that child SAs carry, one after the other.
#[derive(Clone, Debug)]
pub struct Child {
    /// Its name, in the log and in orders.
    pub name: String,
    /// Proposals for child SAs, in order of preference.
    pub esp: Vec<Algorithms>,
    /// The packets of this end.
    pub local: Vec<Traffic>,
    /// The packets of the peer's end.
    pub remote: Vec<Traffic>,
    /// When this end brings it up.
    pub start: StartAction,
    /// The action after the peer has deleted its child SA.
    pub on_close: EndAction,
    /// The action after the peer has not answered.
    pub on_dead_peer: EndAction,
    /// The time from the making of a child SA to its rekey, less up to a tenth. `None`: this end does not rekey by time.
    pub rekey: Option<Duration>,
    /// The time from the making of a child SA to its end, if no rekey has replaced it. `None`: it does not end by time.
    pub lifetime: Option<Duration>,
    /// The time without a packet after which this end deletes a child SA. `None`: it does not. It holds where a connection has no other
    /// child.
    pub inactivity: Option<Duration>,
    /// The limits of the use of its child SAs in the data plane.
    pub limits: EspLimits,
    /// The program that the adapter runs when the child comes up and when it goes down ([`super::Request::ChildUp`]), which the
    /// endpoint does not read.
    pub updown: Option<Arc<str>>,
}

/// The limits of the use of a child SA in the data plane, which hold beside those of its cipher. `None`: no other limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EspLimits {
    /// The bytes that this end seals until it rekeys, in packets of ESP.
    pub rekey_bytes: Option<u64>,
    /// The most bytes that this end seals.
    pub most_bytes: Option<u64>,
    /// The packets that this end seals until it rekeys.
    pub rekey_packets: Option<u64>,
    /// The most packets that this end seals.
    pub most_packets: Option<u64>,
    /// The replay window in packets, at least 1. `None`: 2048.
    pub replay_window: Option<u32>,
    /// Whether the ECN field is not copied between packets and the headers around them (RFC 6040).
    pub ignores_ecn: bool,
    /// Whether the DSCP of packets is copied to the headers around them (RFC 4301 section 5.1.2.1).
    pub copies_dscp: bool,
}

/// When an end brings a child up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartAction {
    /// By an order, or when the peer does.
    #[default]
    None,
    /// At the start.
    Start,
    /// When a packet of its traffic comes.
    Trap,
    /// At the start, and when a packet of its traffic comes.
    TrapAndStart,
}

impl StartAction {
    pub(crate) const fn is_start(self) -> bool {
        matches!(self, StartAction::Start | StartAction::TrapAndStart)
    }

    pub(crate) const fn is_trap(self) -> bool {
        matches!(self, StartAction::Trap | StartAction::TrapAndStart)
    }
}

/// The action after a child has lost its child SA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndAction {
    /// None.
    #[default]
    None,
    /// This end brings the child up again.
    Start,
    /// This end brings the child up when a packet of its traffic comes.
    Trap,
}

/// The fate of older IKE SAs with a peer that authenticates once more. If both ends initiate at once, one of the two IKE SAs is
/// deleted, except with [`Unique::Never`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unique {
    /// They stay, whatever the peer says.
    Never,
    /// They stay, unless the peer says that it has none any more (`INITIAL_CONTACT`).
    #[default]
    No,
    /// They are deleted.
    Replace,
    /// They stay, and the peer's new IKE SA is refused.
    Keep,
}

/// Whether IKE SAs are made without a child SA (RFC 6023).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Childless {
    /// At a responder, if the initiator does so.
    #[default]
    Allow,
    /// By the initiator, too, if the peer knows RFC 6023.
    Prefer,
    /// By the initiator, too: each child SA gets an exchange of its own. The peer must know RFC 6023.
    Force,
    /// Never.
    Never,
}

/// Whether the proof of each end covers both messages of `IKE_SA_INIT`, in place of its own message alone
/// (draft-ietf-ipsecme-ikev2-downgrade-prevention-08). An attacker that has the key of one end, or breaks one of the offered key
/// exchanges, can then not alter what the ends offer. A responder does not know the identities when it says so: it does if one of the
/// connections that the initiator may mean does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullTranscript {
    /// If both ends say so.
    #[default]
    Offer,
    /// A peer that does not is refused.
    Require,
    /// This end does not say so.
    Never,
}

impl FullTranscript {
    pub(crate) const fn is_offered(self) -> bool {
        !matches!(self, FullTranscript::Never)
    }
}

/// Times of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time from the making of an IKE SA to its rekey, less up to a tenth. `None`: this end does not rekey it.
    pub ike_rekey: Option<Duration>,
    /// The time from an authentication to the next, less up to a tenth. `None`: this end does not authenticate anew by itself.
    pub reauthentication: Option<Duration>,
    /// The time of silence after which a peer is asked for a sign of life. `None`: the peer is not asked.
    pub dead_peer_detection: Option<Duration>,
    /// The time from a request to its first retransmission. Each further interval is 1.8 times as long as the one before.
    pub retransmission: Duration,
    /// The number of retransmissions of a request that is not answered.
    pub retransmissions: u32,
    /// The time after which an initiator that failed tries again.
    pub retry: Duration,
}

impl Default for Times {
    /// IKE SAs are rekeyed after 4 hours, a sign of life is asked for after 30 s, retransmissions come after 2 s and up to 82 s in
    /// all.
    fn default() -> Self {
        Times {
            ike_rekey: Some(Duration::from_secs(4 * 3600)),
            reauthentication: None,
            dead_peer_detection: Some(Duration::from_secs(30)),
            retransmission: Duration::from_secs(2),
            retransmissions: 5,
            retry: Duration::from_secs(5),
        }
    }
}

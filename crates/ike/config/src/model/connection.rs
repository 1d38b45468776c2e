use std::net::IpAddr;
use std::time::Duration;

use adit_core::IpNet;
use adit_ike::suite::Algorithms;

use super::{Child, IdentityPattern, LocalRound, Places, RemoteRound};

/// A subsection of `connections`: the configuration of IKE SAs with a peer, or with peers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub places: Places,
    /// `local_addrs`: our outer addresses, in order of preference. Without any: any address.
    pub local_addrs: Vec<Host>,
    /// `remote_addrs`: the peer's outer addresses. The first address or name is initiated to; a peer that initiates must come from
    /// one of them. Without any: any address.
    pub remote_addrs: Vec<Host>,
    /// `local_port`: our UDP port for IKE. `None`: 500, and 4500 with a NAT.
    pub local_port: Option<u16>,
    /// `remote_port`: the peer's UDP port for IKE. With 500 it changes to 4500 when a NAT is found.
    pub remote_port: u16,
    /// `proposals` for the IKE SA, in order of preference; at least one.
    pub proposals: Vec<Algorithms>,
    /// `vips`: the inner addresses that this end requests. An unspecified address requests any address of its family.
    pub vips: Vec<IpAddr>,
    /// `pools`: the names of the pools whose addresses peers get. Each stands in [`super::Config::pools`].
    pub pools: Vec<String>,
    /// `dscp` of sent IKE messages, 0 to 63.
    pub dscp: u8,
    /// `encap`: ESP goes in UDP even without a NAT.
    pub encap: bool,
    /// `mobike`: addresses of the SAs may change (RFC 4555).
    pub mobike: bool,
    /// `dpd_delay`: the silence after which the peer is asked for a sign of life. `None`: it is not asked.
    pub dpd_delay: Option<Duration>,
    /// `fragmentation` of IKE messages (RFC 7383).
    pub fragmentation: Fragmentation,
    /// `childless`: IKE SAs without a child SA (RFC 6023).
    pub childless: Childless,
    /// `send_certreq`: certificates of the trusted authorities are requested.
    pub send_certreq: bool,
    /// `send_cert`: when our certificate is sent.
    pub send_cert: SendCertificate,
    /// `ppk_id`: the identity of the post-quantum pre-shared key (RFC 8784) that this end proposes, or the identities of those that it
    /// takes.
    pub ppk_id: Option<IdentityPattern>,
    /// `ppk_required`: no IKE SA comes up without a post-quantum pre-shared key.
    pub ppk_required: bool,
    /// `keyingtries`: the sequences of retransmissions of a first message before the start is given up. `None` (0): no limit.
    pub keyingtries: Option<u32>,
    /// `unique`: what becomes of an IKE SA when its peer makes another.
    pub unique: Unique,
    /// `reauth_time`: the time to the reauthentication of an IKE SA. `None` (0): there is none.
    pub reauth_time: Option<Duration>,
    /// `rekey_time`: the time to the rekey of an IKE SA. `None` (0): there is none.
    pub rekey_time: Option<Duration>,
    /// `over_time`: the time from a rekey or reauthentication that is due and does not happen to the end of the IKE SA.
    pub over_time: Duration,
    /// `rand_time`: the most that is subtracted at random from `rekey_time` and `reauth_time`.
    pub rand_time: Duration,
    /// `if_id_in`, of all its children that have none of their own.
    pub if_id_in: InterfaceId,
    /// `if_id_out`, of all its children that have none of their own.
    pub if_id_out: InterfaceId,
    /// The sections `local…`, in the order of their rounds; at least one.
    pub local: Vec<LocalRound>,
    /// The sections `remote…`, in the order of their rounds; at least one.
    pub remote: Vec<RemoteRound>,
    /// The subsections of `children`, in the order of the file.
    pub children: Vec<Child>,
}

/// An outer address, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// Any address, of one family (`%any4`, `%any6`) or both (`%any`).
    Any {
        /// IPv4 is meant.
        ipv4: bool,
        /// IPv6 is meant.
        ipv6: bool,
    },
    /// An address.
    Address(IpAddr),
    /// The addresses of a network: a peer in it may initiate.
    Network(IpNet),
    /// The addresses from the first to the last, both of one family: a peer there may initiate.
    Range(IpAddr, IpAddr),
    /// A name that is to be resolved.
    Name(String),
}

/// `fragmentation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragmentation {
    /// Long messages are sent in fragments if the peer takes fragments (`yes`, and `force`, which differs in IKEv1 alone).
    #[default]
    Yes,
    /// Fragments are taken and not sent.
    Accept,
    /// Fragments are neither announced nor sent.
    No,
}

/// `childless`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Childless {
    /// A peer may make an IKE SA without a child SA; this end makes one with it.
    #[default]
    Allow,
    /// This end makes IKE SAs without child SAs if the peer takes them, and the child SAs after that.
    Prefer,
    /// This end makes IKE SAs without child SAs, and the child SAs after that. A peer that does not take such an IKE SA is refused.
    Force,
    /// No IKE SA without a child SA.
    Never,
}

/// `send_cert`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendCertificate {
    /// If the peer requests certificates.
    #[default]
    IfAsked,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `unique`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unique {
    /// A peer may have any number of IKE SAs, whatever it says.
    Never,
    /// A peer that says INITIAL_CONTACT loses its other IKE SAs. This end does not say it.
    #[default]
    No,
    /// A peer that has an IKE SA is refused another.
    Keep,
    /// A further IKE SA of a peer takes the place of the other.
    Replace,
}

/// `if_id_in` and `if_id_out`: the number that ties a child SA to a device of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterfaceId {
    /// None (0).
    #[default]
    None,
    /// This number, not 0.
    Number(u32),
    /// A number for each IKE SA or child SA (`%unique`).
    Unique,
    /// A number for each IKE SA or child SA and direction (`%unique-dir`).
    UniqueForDirection,
}

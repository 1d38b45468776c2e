//! The identities of both ends.

use std::net::IpAddr;

use adit_ike::machine::PeerIdentity;
use adit_ike::wire::{IdType, Identification};
use adit_ike_config::{Connection, Host, Identity, IdentityPattern, LocalRound, RemoteRound};

use super::problems::Problems;

/// The identity that this end proves with a pre-shared key: the one that the file gives, or else its address.
pub(super) fn of_this_end(
    of: &Connection,
    round: &LocalRound,
    problems: &mut Problems,
) -> Option<Identification> {
    match (&round.id, of.local_addrs.as_slice()) {
        (Some(Identity::Exact(identity)), _) => Some(identity.clone()),
        (_, [Host::Address(address)]) => Some(of_address(*address)),
        _ => {
            let text =
                "the identity of this end is needed: `id = …` in `local`, or one address in `local_addrs`";
            problems.add(round.places.of("id"), text);
            None
        }
    }
}

/// The identities that the peer may prove.
pub(super) fn of_the_peer(round: &RemoteRound, problems: &mut Problems) -> Option<PeerIdentity> {
    let identity = accepted(&round.id);
    if identity.is_none() {
        let text = "patterns of distinguished names and ranges of addresses are not matched yet: write the identity in full, or `%any`";
        problems.add(round.places.of("id"), text);
    }
    identity
}

/// The identities that match a pattern. `None`: the machine has no such pattern.
pub(super) fn accepted(pattern: &IdentityPattern) -> Option<PeerIdentity> {
    match pattern {
        IdentityPattern::Any => Some(PeerIdentity::Any),
        IdentityPattern::Exact(identity) => Some(PeerIdentity::Exactly(identity.clone())),
        IdentityPattern::EndsWith(end) => {
            Some(PeerIdentity::EndingWith { kind: end.kind, suffix: end.data.clone() })
        }
        IdentityPattern::Name(_) | IdentityPattern::Addresses(..) => None,
    }
}

/// The identity that an address is (RFC 7296 section 3.5).
fn of_address(address: IpAddr) -> Identification {
    match address.to_canonical() {
        IpAddr::V4(address) => Identification { kind: IdType::IPV4_ADDR, data: address.octets().to_vec() },
        IpAddr::V6(address) => Identification { kind: IdType::IPV6_ADDR, data: address.octets().to_vec() },
    }
}

//! The detection of NAT between the ends (RFC 7296 section 2.23).

use std::net::{IpAddr, SocketAddr};

use sha1::{Digest as _, Sha1};

use crate::wire::{Notify, NotifyType, Payload, Spi};

/// The ends that are behind a NAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nat {
    /// This end is behind a NAT.
    pub(crate) is_local: bool,
    /// The peer is behind a NAT.
    pub(crate) is_remote: bool,
}

impl Nat {
    pub(crate) const fn is_there(self) -> bool {
        self.is_local || self.is_remote
    }

    /// The NAT that the peer's notifies show. Without these notifies there is none. If this end does not know its address, `local`
    /// is `None`, and this end counts as behind a NAT.
    pub(crate) fn detect(
        payloads: &[Payload],
        spis: [Spi; 2],
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Self {
        let hashes = |kind: NotifyType| {
            payloads.iter().filter_map(move |payload| match payload {
                Payload::Notify(notify) if notify.kind == kind => Some(notify.data.as_slice()),
                _ => None,
            })
        };
        let mut sources = hashes(NotifyType::NAT_DETECTION_SOURCE_IP).peekable();
        let mut destinations = hashes(NotifyType::NAT_DETECTION_DESTINATION_IP).peekable();
        if sources.peek().is_none() || destinations.peek().is_none() {
            return Nat::default();
        }
        let expected = hash(spis, remote);
        let is_remote = !sources.any(|source| source == expected);
        let is_local = local.is_none_or(|local| {
            let expected = hash(spis, local);
            !destinations.any(|destination| destination == expected)
        });
        Nat { is_local, is_remote }
    }
}

/// The notifies of this end. Without `local`, the hash of the source is that of an address that cannot match, so that the peer
/// detects a NAT.
pub(crate) fn notifies(spis: [Spi; 2], local: Option<SocketAddr>, remote: SocketAddr) -> [Payload; 2] {
    let unmatched = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0);
    let source = hash(spis, local.unwrap_or(unmatched));
    let notify = |kind, hash: [u8; 20]| Payload::Notify(Notify::new(kind, hash.to_vec()));
    [
        notify(NotifyType::NAT_DETECTION_SOURCE_IP, source),
        notify(NotifyType::NAT_DETECTION_DESTINATION_IP, hash(spis, remote)),
    ]
}

/// SHA-1 of both SPIs, the address and the port.
fn hash(spis: [Spi; 2], address: SocketAddr) -> [u8; 20] {
    let mut hasher = Sha1::new();
    spis.iter().for_each(|spi| hasher.update(spi.0));
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => hasher.update(ip.octets()),
        IpAddr::V6(ip) => hasher.update(ip.octets()),
    }
    hasher.update(address.port().to_be_bytes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nat_is_where_the_address_differs() {
        let spis = [Spi([1; 8]), Spi::ZERO];
        let [a, b, outside]: [SocketAddr; 3] =
            ["192.0.2.1:500", "192.0.2.2:500", "198.51.100.1:7"].map(|address| address.parse().unwrap());
        let sent = notifies(spis, Some(a), b);
        let detect = |local, remote| Nat::detect(&sent, spis, local, remote);
        assert_eq!(detect(Some(b), a), Nat::default());
        assert_eq!(detect(Some(b), outside), Nat { is_local: false, is_remote: true });
        assert_eq!(detect(Some(outside), a), Nat { is_local: true, is_remote: false });
        assert_eq!(detect(None, a), Nat { is_local: true, is_remote: false });
        let forced = notifies(spis, None, b);
        assert_eq!(Nat::detect(&forced, spis, Some(b), a), Nat { is_local: false, is_remote: true });
        assert_eq!(Nat::detect(&[], spis, Some(b), outside), Nat::default(), "a peer that cannot detect one");
    }
}

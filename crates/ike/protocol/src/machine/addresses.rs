//! The state of an IKE SA's addresses (RFC 4555).

use std::net::IpAddr;

use adit_core::Path;

use super::nat::Nat;
use super::payloads::Payloads;
use crate::wire::NotifyType;

/// Most further addresses of a peer that are kept.
const MAX_ADDRESSES: usize = 8;

/// The state of an IKE SA's addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mobike {
    /// Whether both ends support it.
    pub(crate) is_supported: bool,
    /// Whether this end initiated the first IKE SA. A rekey does not change that (RFC 4555 section 3.5).
    pub(crate) is_initiator: bool,
    /// Whether this end is to send its addresses.
    pub(crate) update_is_due: bool,
    /// The place that the peer says it is at, which is to be checked.
    pub(crate) moved: Option<Moved>,
    /// Further addresses of the peer.
    pub(crate) peer_addresses: Vec<IpAddr>,
    /// The number of the peer's addresses that were tried without an answer.
    pub(crate) probed: usize,
}

/// The place of a peer after a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) path: Path,
    pub(crate) nat: Nat,
}

/// A check that the peer is at an address, which waits for its response.
pub(crate) struct AddressCheck {
    pub(crate) cookie: Vec<u8>,
    pub(crate) moved: Moved,
}

#[cfg(test)]
impl AddressCheck {
    pub(crate) fn forget_cookie(&mut self) {
        self.cookie.fill(0);
    }
}

impl Mobike {
    /// Reads the notifies of the peer's `IKE_AUTH`.
    pub(crate) fn agree(&mut self, is_allowed: bool, payloads: Payloads<'_>) {
        self.is_supported = is_allowed && payloads.notify(NotifyType::MOBIKE_SUPPORTED).is_some();
        self.read_addresses(payloads);
    }

    pub(crate) fn read_addresses(&mut self, payloads: Payloads<'_>) {
        let addresses = payloads.notifies().filter_map(|notify| match notify.kind {
            NotifyType::ADDITIONAL_IP4_ADDRESS => <[u8; 4]>::try_from(&*notify.data).ok().map(IpAddr::from),
            NotifyType::ADDITIONAL_IP6_ADDRESS => <[u8; 16]>::try_from(&*notify.data).ok().map(IpAddr::from),
            _ => None,
        });
        let addresses: Vec<IpAddr> = addresses.take(MAX_ADDRESSES).collect();
        if !addresses.is_empty() || payloads.notify(NotifyType::NO_ADDITIONAL_ADDRESSES).is_some() {
            self.peer_addresses = addresses;
        }
    }
}

//! Names, addresses and algorithms on which the initiators and the responder agree.

use std::net::Ipv4Addr;

/// The identity of the responder, a host name.
pub(crate) const RESPONDER: &str = "responder.load.example";
/// The end of the identities of all initiators.
pub(crate) const INITIATORS: &str = ".initiator.load.example";
/// The responder's address in the tunnels.
pub(crate) const INNER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
/// The network of the initiators' addresses in the tunnels: those of their own, and those of the responder's pool.
pub(crate) const NETWORK: &str = "10.64.0.0/10";
/// The proposal for IKE SAs, in the words of swanctl.
pub(crate) const IKE: &str = "aes256gcm16-prfsha384-x25519";
/// The proposal for child SAs.
pub(crate) const ESP: &str = "aes256gcm16";
/// The pre-shared key.
pub(crate) const KEY: &str = "a key of load generators alone";

/// The identity of the initiator with this number, a host name.
pub(crate) fn identity(number: u32) -> String {
    format!("i{number}{INITIATORS}")
}

/// The address in the tunnel of the initiator with this number. Initiators from 2^22 on share addresses.
pub(crate) fn inner(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 64, 0, 0).to_bits() + number % (1 << 22))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiators_have_addresses_of_their_own_in_their_network() {
        let ends = [0, 1, 9_999, (1 << 22) - 1].map(|number| inner(number).to_string());
        assert_eq!(ends, ["10.64.0.0", "10.64.0.1", "10.64.39.15", "10.127.255.255"]);
    }
}

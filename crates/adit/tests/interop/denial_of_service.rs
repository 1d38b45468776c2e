//! Clients connect while attackers send: forged addresses, validated addresses, abandoned handshakes; and peers that have authenticated
//! send whatever they can.

pub(crate) mod floods;
pub(crate) mod malicious_peers;
pub(crate) mod unauthenticated;
pub(crate) mod validated_addresses;

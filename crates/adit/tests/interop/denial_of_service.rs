//! Clients connect while attackers send: forged addresses, validated addresses, abandoned handshakes.

pub(crate) mod floods;
pub(crate) mod unauthenticated;
pub(crate) mod validated_addresses;

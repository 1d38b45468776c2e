//! IKEv2 (RFC 7296) with pre-shared keys, certificates and EAP, in pure values and functions: no I/O, no clock, no source of randomness.
//!
//! ESP, the wire form of the data of child SAs, is in `adit-ike-codec`. What there
//! is of the protocol, and what there is not, is said in [`machine`] and [`suite`].
//!
//! | part | holds |
//! |---|---|
//! | [`crypto`] | key exchanges, key derivation, the protection of messages, proofs of identity |
//! | [`eap`] | the Extensible Authentication Protocol, with EAP-MSCHAPv2 and EAP-TLS |
//! | [`fragment`] | messages in several datagrams (RFC 7383) |
//! | [`machine`] | the state machine for both roles, an [`adit_core::Protocol`] |
//! | [`suite`] | algorithms: proposals from keywords, and the choice of one |
//! | [`wire`] | messages and payloads: decoded into values, encoded from values |
#![forbid(unsafe_code)]

pub mod crypto;
pub mod eap;
pub mod fragment;
pub mod machine;
pub mod suite;
pub mod wire;

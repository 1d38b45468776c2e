//! EAP-TLS (RFC 5216 with TLS 1.2, RFC 9190 with TLS 1.3): both ends prove their identities by certificates in a TLS handshake, and the
//! key of EAP is exported from it.
//!
//! | part | holds |
//! |---|---|
//! | `packet` | the flags and the length in front of TLS |
//! | `fragments` | TLS messages in several packets, both ways, at most [`MAX_MESSAGE`] bytes each |
//! | `connection` | rustls, fed and drained in memory |
//! | `judge` | the verdict on the other end's certificate: its path, and the identity that it must have |
//! | `authenticator`, `peer` | the order of messages of each side |
//!
//! The key is of no other connection: rustls has ephemeral keys alone, and no session is resumed.

mod authenticator;
mod connection;
mod credentials;
mod fragments;
mod judge;
mod packet;
mod peer;

pub(super) use authenticator::AuthenticatorSide;
pub use authenticator::TlsOffer;
pub(super) use connection::Setup;
pub use credentials::{TlsCredentials, TlsVersions};
pub use fragments::MAX_MESSAGE;
pub(super) use peer::PeerSide;

//! The Extensible Authentication Protocol (EAP, RFC 3748) inside `IKE_AUTH` (RFC 7296 section 2.16), both sides, as pure values.
//!
//! | part | holds |
//! |---|---|
//! | [`Authenticator`] | the side of the responder: it asks for the name, runs the method, and decides |
//! | [`Peer`] | the side of the initiator |
//! | `mschapv2` | the method EAP-MSCHAPv2 (RFC 2759, draft-kamath-pppext-eap-mschapv2), with keys by RFC 3079 |
//! | `tls` | the method EAP-TLS (RFC 5216, RFC 9190), by rustls |
//! | [`Users`] | the names and NT hashes that an authenticator knows |
//!
//! Both sides take at most [`MAX_ROUNDS`] messages of at most [`MAX_DATA`] bytes. A success counts only if the method has ended by
//! itself: the authenticator has verified the response, and the peer has verified the authenticator's answer
//! (CVE-2021-45079, CVE-2015-8023). An authenticator with both methods offers EAP-TLS first, and EAP-MSCHAPv2 to a peer that asks for
//! it in place of the first one (RFC 3748 section 5.3.1).

mod authenticator;
mod message;
mod mschapv2;
mod peer;
mod step;
#[cfg(test)]
mod tests;
mod tls;
mod users;

pub use authenticator::{Authenticator, Methods, Turn};
pub use message::EapType;
pub use peer::{Credentials, Peer, PeerTurn, Surroundings};
pub use tls::{MAX_MESSAGE, TlsCredentials, TlsOffer, TlsVersions};
pub use users::{NtHash, User, Users};

/// Most messages that one side takes. Chains of certificates come in many.
pub const MAX_ROUNDS: u32 = 64;
/// Most bytes of the data of a message.
pub const MAX_DATA: usize = 2048;
/// Most bytes of a name that is text.
pub const MAX_NAME: usize = 253;
/// Most bytes of a name that is the subject of a certificate, in DER.
pub const MAX_SUBJECT: usize = 1024;

/// A source of secret randomness, which fills the bytes.
pub type Fill<'a> = &'a mut dyn FnMut(&mut [u8]);

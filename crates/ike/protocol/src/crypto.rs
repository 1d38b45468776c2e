//! The cryptography of IKEv2: key exchanges, key derivation, the protection of messages, and the proofs of identities.
//!
//! | part | of RFC 7296 |
//! |---|---|
//! | [`KeyShare`], [`answer_exchange`] | 2.12, 3.4; RFC 3526, RFC 5903, RFC 8031; ML-KEM |
//! | [`prf()`], [`prf_plus`], [`IkeKeys`], [`ChildKeys`] | 2.13, 2.14, 2.17, 2.18 |
//! | [`Protection`] | 3.14; RFC 5282, RFC 7634, RFC 7383 |
//! | [`shared_key_proof`] | 2.15 |
//! | [`is_named`] | RFC 4945 |
//! | [`certificate_proof`], [`verify_certificate_proof`] | 2.15; RFC 7427, RFC 8420, RFC 4754 |
//! | [`AnnouncedMethods`] | RFC 9593 |

mod announced;
mod auth;
mod exchange;
mod identity;
mod keys;
mod modp;
mod prf;
mod protection;
mod signature;
#[cfg(test)]
mod tests;

pub use announced::AnnouncedMethods;
pub use auth::{SignedOctets, intermediate_octets, shared_key_proof};
pub use exchange::{ExchangeError, KeyShare, answer_exchange};
pub use identity::{is_named, not_named};
pub use keys::{ChildKeys, DirectionKeys, IkeKeys, Nonces, Secrets, first_seed, rekey_seed};
pub use prf::{Secret, prf, prf_plus};
pub use protection::{Contents, OpenError, Protection};
pub use signature::{PeerHashes, ProofError, SignatureHashes, certificate_proof, verify_certificate_proof};

//! Certificates and keys in TLS handshakes, by rustls.

mod key;
mod verifier;

pub use key::TlsKey;
pub use verifier::{Judge, TlsVerifier};

//! The requirements on the peer's certificate.

use adit_pki::{NameCheck, NameField};

/// `TLS Web Server Authentication`.
pub(crate) const SERVER_AUTH: &str = "1.3.6.1.5.5.7.3.1";

/// The requirements on the peer's certificate beyond its signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCheck {
    /// Its key usage extensions must be there and name the role of the other side (`remote-cert-tls`).
    pub usage: bool,
    /// Its key usage must be there and, unless the list is empty, have all bits of one of these
    /// (`remote-cert-ku`; digitalSignature is 0x80).
    pub key_usages: Option<Vec<u16>>,
    /// Its extended key usage must name this dotted OID (`remote-cert-eku`).
    pub extended_usage: Option<String>,
    /// Its SHA-256 must be one of these, of 32 bytes each (`peer-fingerprint`); empty for any.
    pub fingerprints: Vec<Vec<u8>>,
    /// The SHA-1 (20 bytes) or SHA-256 (32 bytes) of the certificate that issued it must be one of these
    /// (`verify-hash`); empty for any.
    pub issuer_fingerprints: Vec<Vec<u8>>,
    /// Its name (`verify-x509-name`).
    pub name: Option<NameCheck>,
    /// The fields of it that are its name (`x509-username-field`); empty for the common name.
    pub name_fields: Vec<NameField>,
}

impl PeerCheck {
    /// Whether the check distinguishes the peer's certificate from those of the other role or of other peers.
    pub(crate) fn is_specific(&self) -> bool {
        self.usage
            || self.name.is_some()
            || !self.fingerprints.is_empty()
            || self.extended_usage.as_deref() == Some(SERVER_AUTH)
    }
}

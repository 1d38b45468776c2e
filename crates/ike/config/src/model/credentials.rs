use adit_pki::{inspect, pem};
use rustls_pki_types::CertificateDer;

use super::{Place, Places, SecretBytes};

/// The files in the directories beside the file. Those of a directory stand in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// `x509`: certificates of ends. Those that are not named by a connection complete chains.
    pub certificates: Vec<Document>,
    /// `x509ca`, and `cacert` of `authorities`: the trusted authorities.
    pub authorities: Vec<Document>,
    /// `x509crl`: revocation lists.
    pub revocation_lists: Vec<Document>,
    /// `pubkey`: public keys.
    pub public_keys: Vec<Document>,
    /// `private`, `rsa`, `ecdsa` and `pkcs8`: private keys, with the passwords of the sections of `secrets`.
    pub private_keys: Vec<PrivateKeyFile>,
    /// `pkcs12`: certificates with their private keys, with the passwords of the sections of `secrets`.
    pub containers: Vec<PrivateKeyFile>,
}

/// A file that was read, or bytes that stand in the file in its place (`0x…`, `0s…`). Two are equal by their content, whatever their
/// names are and whatever lines name them.
#[derive(Clone)]
pub struct Document {
    /// Its path, or the beginning of the text that stands in its place.
    pub name: String,
    /// The line that names it. `None`: it was found in its directory.
    pub place: Option<Place>,
    /// Its content.
    pub content: SecretBytes,
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Eq for Document {}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Document {
    /// Its certificates: those of a PEM text in their order, or one in DER.
    ///
    /// # Errors
    /// It holds none, or one is damaged.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let content = self.content.bytes();
        let certificates = match content.first() {
            // The tag of DER's SEQUENCE, which begins a certificate, and no text of PEM.
            Some(0x30) => vec![CertificateDer::from(content.to_vec())],
            _ => pem::certificates(content).map_err(|error| format!("{}: {error}", self.name))?,
        };
        match certificates.iter().all(|certificate| inspect::subject_and_serial(certificate).is_some()) {
            true => Ok(certificates),
            false => Err(format!("{}: the certificate is damaged", self.name)),
        }
    }
}

/// A file with private keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateKeyFile {
    /// The file.
    pub document: Document,
    /// The keys that its directory is for.
    pub kind: KeyKind,
    /// `secret` of the section of `secrets` that names it: its password.
    pub password: Option<SecretBytes>,
}

/// The private keys that a directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Any (`private`).
    Any,
    /// RSA (`rsa`).
    Rsa,
    /// ECDSA (`ecdsa`).
    Ecdsa,
    /// Any, as PKCS#8 (`pkcs8`).
    Pkcs8,
    /// Any, with certificates, as PKCS#12 (`pkcs12`).
    Pkcs12,
}

/// A subsection of `authorities`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub places: Places,
    /// `cacert` or `file`: its certificate.
    pub cacert: Document,
}

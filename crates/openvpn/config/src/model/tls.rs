//! The identities of both ends: certificates, TLS, and its wrapping.

use std::path::PathBuf;

use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::KeyDirection;
use adit_openvpn::wrap::v2::ClientKey;

use super::{ExternalIdentity, PeerCheck};
use crate::{Pem, Secret};

/// Certificates and TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The authorities that the peer's certificate must come from, at least one certificate. `None`:
    /// fingerprints alone decide.
    pub ca: Option<Pem>,
    /// Our identity; a client may be known by its username alone.
    pub identity: Option<Identity>,
    /// Our certificate, if its private key is held elsewhere.
    pub external: Option<ExternalIdentity>,
    /// The contents of `identity`, and perhaps authorities, in one PKCS#12 file, as base64 (`pkcs12`).
    /// Secret.
    pub pkcs12: Option<Secret>,
    /// Where the password is, if the private key or the PKCS#12 file has one (`askpass`).
    pub key_password: KeyPassword,
    /// Oldest TLS version to accept.
    pub version_min: TlsVersion,
    /// Newest, if limited.
    pub version_max: Option<TlsVersion>,
    /// TLS 1.2 suites to allow (`tls-cipher`); empty for all that adit has.
    pub ciphers: Vec<TlsName>,
    /// TLS 1.3 suites to allow (`tls-ciphersuites`); empty for all.
    pub suites: Vec<TlsName>,
    /// Key exchange groups to allow, most wanted first (`tls-groups`, `ecdh-curve`); empty for all.
    pub groups: Vec<TlsName>,
    /// Which certificates and suites are good enough (`tls-cert-profile`).
    pub cert_profile: CertProfile,
    /// The further requirements on the peer's certificate.
    pub peer: PeerCheck,
    /// Which certificates are revoked (`crl-verify`).
    pub crl: Option<Crl>,
}

impl Default for Tls {
    /// The defaults; without any certificate.
    fn default() -> Self {
        Tls {
            ca: None,
            identity: None,
            external: None,
            pkcs12: None,
            key_password: KeyPassword::default(),
            version_min: TlsVersion::V1_2,
            version_max: None,
            ciphers: Vec::new(),
            suites: Vec::new(),
            groups: Vec::new(),
            cert_profile: CertProfile::default(),
            peer: PeerCheck::default(),
            crl: None,
        }
    }
}

/// Our certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Our certificate, then those that link it to an authority (`cert`, `extra-certs`).
    pub cert: Pem,
    /// Our private key, perhaps encrypted. Secret.
    pub key: Pem,
}

/// `askpass`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyPassword {
    /// The password is asked for on the terminal when it is needed.
    #[default]
    Prompt,
    /// The first line of a file.
    File(PathBuf),
}

/// `crl-verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crl {
    /// Lists in the file itself or in the directory of `capath`, which are read again with the configuration alone.
    Inline(Pem),
    /// A file of lists, to be read anew when it changes.
    File(PathBuf),
    /// A directory in which a file named after a serial number in decimal revokes that certificate.
    Directory(PathBuf),
}

/// A TLS suite or group by its IANA number and OpenVPN's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlsName {
    /// The number in the IANA registry "TLS Cipher Suites" or "TLS Supported Groups".
    pub id: u16,
    /// The name.
    pub name: &'static str,
}

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// `tls-cert-profile`: which certificates and suites are good enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertProfile {
    /// RSA from 2048 bits, ECDSA and Ed25519, with SHA-256 or better (`preferred`; adit does not go below it).
    #[default]
    Preferred,
    /// ECDSA on P-256 and P-384 with AES-GCM alone (`suiteb`).
    SuiteB,
}

/// The wrapping of control datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// Nothing.
    None,
    /// `tls-auth`: authenticated.
    TlsAuth {
        /// The key that both sides share.
        key: StaticKey,
        /// Which half is for which direction.
        direction: KeyDirection,
    },
    /// `tls-crypt`: authenticated and encrypted.
    TlsCrypt {
        /// The key that all share.
        key: StaticKey,
    },
    /// `tls-crypt-v2` of a client.
    TlsCryptV2 {
        /// The client's own key.
        key: ClientKey,
    },
}

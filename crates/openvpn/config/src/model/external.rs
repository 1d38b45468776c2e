//! Our certificate, where its private key is held elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use crate::Pem;

/// Our certificate, and the holder of its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalIdentity {
    /// A program at the management socket signs (`management-external-key`).
    Management(ManagementIdentity),
    /// A smart card or the like (`pkcs11-id`, `pkcs11-id-management`).
    Pkcs11(Pkcs11Identity),
}

/// Our certificate and key on a token that a PKCS#11 module speaks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pkcs11Identity {
    /// The name of the certificate, in either form of pkcs11-helper (`pkcs11-id`); `None`: the program at the management
    /// socket names it (`pkcs11-id-management`).
    pub id: Option<String>,
    /// The modules (`pkcs11-providers`), at least one.
    pub providers: Vec<Pkcs11Provider>,
    /// How long a PIN holds; `None`: until the token is taken out (`pkcs11-pin-cache`).
    pub pin_cache: Option<Duration>,
    /// Certificates that link ours to an authority (`extra-certs`).
    pub extra: Option<Pem>,
}

/// A PKCS#11 module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pkcs11Provider {
    /// The shared library; a name without a slash is looked for where the system has its libraries.
    pub path: PathBuf,
    /// Its tokens ask for the PIN themselves (`pkcs11-protected-authentication`).
    pub protected: bool,
    /// Its certificates can be seen with the PIN alone (`pkcs11-cert-private`).
    pub private_certificates: bool,
}

impl Pkcs11Provider {
    /// The module that gives access to all those that the system knows of (p11-kit), OpenVPN's default where it is there.
    pub const DEFAULT: &str = "p11-kit-proxy.so";
}

/// Our certificate, for which a program at the management socket signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementIdentity {
    /// The certificate.
    pub certificate: ManagementCertificate,
    /// The signatures that the program can make.
    pub forms: SignatureForms,
}

/// Where the certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagementCertificate {
    /// Here, with those that link it to an authority (`cert`, `extra-certs`).
    Given(Pem),
    /// The program is asked for it (`management-external-cert`).
    Asked {
        /// The argument of the directive, which says to the program which certificate is meant.
        hint: String,
        /// Certificates that link it to an authority (`extra-certs`).
        extra: Option<Pem>,
    },
}

/// The arguments of `management-external-key`: the form in which the program takes the data to sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignatureForms {
    /// RSA without any padding of its own (`nopadding`).
    pub nopadding: bool,
    /// RSA with the padding of PKCS #1 v1.5 (`pkcs1`).
    pub pkcs1: bool,
    /// RSA with the padding of PSS (`pss`).
    pub pss: bool,
    /// The program takes the message, and hashes it itself (`digest`).
    pub digest: bool,
}

impl SignatureForms {
    /// The forms with their words in the configuration.
    pub(crate) fn words(&mut self) -> [(&'static str, &mut bool); 4] {
        [
            ("nopadding", &mut self.nopadding),
            ("pkcs1", &mut self.pkcs1),
            ("pss", &mut self.pss),
            ("digest", &mut self.digest),
        ]
    }
}

//! Our certificate, where its private key is held elsewhere.

use crate::Pem;

/// Our certificate, and who holds its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalIdentity {
    /// A program at the management socket signs (`management-external-key`).
    Management(ManagementIdentity),
}

/// Our certificate, for which a program at the management socket signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementIdentity {
    /// The certificate.
    pub certificate: ManagementCertificate,
    /// What the program can sign.
    pub forms: SignatureForms,
}

/// Where the certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagementCertificate {
    /// Here, with those that link it to an authority (`cert`, `extra-certs`).
    Given(Pem),
    /// The program is asked for it (`management-external-cert`).
    Asked {
        /// What it is told of it.
        hint: String,
        /// Certificates that link it to an authority (`extra-certs`).
        extra: Option<Pem>,
    },
}

/// The arguments of `management-external-key`: in what form the program takes what it signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignatureForms {
    /// RSA without any padding of its own (`nopadding`).
    pub nopadding: bool,
    /// RSA with the padding of PKCS #1 v1.5 (`pkcs1`).
    pub pkcs1: bool,
    /// RSA with the padding of PSS (`pss`).
    pub pss: bool,
    /// It takes the message, and hashes it itself (`digest`).
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

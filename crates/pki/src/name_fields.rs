//! The names by which a peer is known.

use adit_core::printable;
use rustls_pki_types::CertificateDer;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::certificate::{COMMON_NAME, text};

/// Longest name in bytes: X.520's limit on a common name, and OpenVPN's on any (`TLS_USERNAME_LEN`).
const MAX_NAME: usize = 64;

/// A part of a certificate that can name its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameField {
    /// The last attribute of the subject with this dotted OID.
    Subject(String),
    /// The certificate's serial number, in hexadecimal after `0x`.
    Serial,
    /// The last e-mail address among the subject's alternative names.
    SubjectEmail,
    /// The last e-mail address among the issuer's alternative names.
    IssuerEmail,
}

/// The fields that name a peer, joined by `_`. By default the common name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFields(Vec<NameField>);

impl NameFields {
    /// The given fields in their order; none stands for the common name.
    pub fn new(fields: Vec<NameField>) -> Self {
        if fields.is_empty() { Self::default() } else { NameFields(fields) }
    }

    /// The peer's name, [`printable`]. `None` if a field is missing or holds a NUL, or if all is empty or longer than 64
    /// bytes.
    pub(crate) fn read(&self, certificate: &X509Certificate<'_>) -> Option<String> {
        let fields: Option<Vec<String>> = self.0.iter().map(|field| read_field(field, certificate)).collect();
        let name = fields?.join("_");
        (!name.is_empty() && name.len() <= MAX_NAME).then(|| printable(&name))
    }

    /// The name in a certificate in DER, as `NameFields::read`.
    pub fn name(&self, certificate: &CertificateDer<'_>) -> Option<String> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        self.read(&parsed)
    }
}

impl Default for NameFields {
    fn default() -> Self {
        NameFields(vec![NameField::Subject(COMMON_NAME.to_owned())])
    }
}

fn read_field(field: &NameField, certificate: &X509Certificate<'_>) -> Option<String> {
    let text = match field {
        NameField::Subject(oid) => {
            let attributes = certificate.subject().iter_attributes();
            let last = attributes.filter(|attribute| attribute.attr_type().to_id_string() == *oid).last()?;
            text(last)?
        }
        NameField::Serial => {
            format!("0x{}", certificate.tbs_certificate.serial.to_str_radix(16).to_uppercase())
        }
        NameField::SubjectEmail => {
            let names = certificate.subject_alternative_name().ok()??;
            last_email(&names.value.general_names)?
        }
        NameField::IssuerEmail => {
            let names =
                certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                    ParsedExtension::IssuerAlternativeName(names) => Some(names),
                    _ => None,
                })?;
            last_email(&names.general_names)?
        }
    };
    (!text.contains('\0')).then_some(text)
}

fn last_email(names: &[GeneralName<'_>]) -> Option<String> {
    names.iter().rev().find_map(|name| match name {
        GeneralName::RFC822Name(address) => Some((*address).to_owned()),
        _ => None,
    })
}

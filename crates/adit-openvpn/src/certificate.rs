//! What a peer's certificate says: names, usages and fingerprints, read as OpenVPN reads them
//! (ssl_verify_openssl.c).

use std::fmt::Write as _;

use adit_core::{NameField, is_unprintable, printable};
use rustls::pki_types::CertificateDer;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, GeneralName, X509Certificate, X509Name};

/// The dotted OID of the common name (X.520).
const COMMON_NAME: &str = "2.5.4.3";
/// OpenVPN's limit on a name, in bytes (`TLS_USERNAME_LEN`).
const MAX_NAME: usize = 64;

/// Short names of attributes as OpenSSL prints them, by dotted OID.
const SHORT_NAMES: &[(&str, &str)] = &[
    (COMMON_NAME, "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
];

/// What names a peer: these fields, joined by `_`. By default the common name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFields(Vec<NameField>);

impl NameFields {
    /// These fields in this order; none stands for the common name.
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

    /// The name in a certificate in DER, as [`NameFields::read`].
    pub(crate) fn name(&self, certificate: &CertificateDer<'_>) -> Option<String> {
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
    use x509_parser::extensions::ParsedExtension;

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

/// An attribute's text; `None` if it is no text.
fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    use x509_parser::der_parser::asn1_rs::Tag;

    let value = attribute.attr_value();
    match value.tag() {
        Tag::T61String => Some(value.data.iter().map(|byte| char::from(*byte)).collect()),
        Tag::BmpString => {
            let units = value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        Tag::UniversalString => {
            let points =
                value.data.chunks_exact(4).map(|it| u32::from_be_bytes([it[0], it[1], it[2], it[3]]));
            points.map(char::from_u32).collect()
        }
        _ => std::str::from_utf8(value.data).ok().map(str::to_owned),
    }
}

/// The subject as OpenVPN prints and compares it: `C=DE, O=Example, CN=server`. What belongs to one part is
/// joined by ` + `, control characters of ASCII are `\` and two hexadecimal digits; others that are not [`printable`] are
/// `_`.
pub(crate) fn subject_text(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    for (number, part) in name.iter_rdn().enumerate() {
        for (place, attribute) in part.iter().enumerate() {
            out.push_str(match (number, place) {
                (0, 0) => "",
                (_, 0) => ", ",
                _ => " + ",
            });
            let oid = attribute.attr_type().to_id_string();
            let short = SHORT_NAMES.iter().find(|(known, _)| *known == oid).map(|(_, short)| *short);
            out.push_str(short.unwrap_or(&oid));
            out.push('=');
            for c in text(attribute).unwrap_or_default().chars() {
                match c {
                    '\\' => out.push_str("\\\\"),
                    '\0'..'\x20' | '\x7f' => {
                        // Writing to a string cannot fail.
                        let _ = write!(out, "\\{:02X}", u32::from(c));
                    }
                    _ => out.push(if is_unprintable(c) { '_' } else { c }),
                }
            }
        }
    }
    out
}

/// Whether a part of the subject holds a NUL, by which one name could pass for another.
pub(crate) fn has_nul(name: &X509Name<'_>) -> bool {
    name.iter_attributes().any(|attribute| text(attribute).is_some_and(|text| text.contains('\0')))
}

/// The key usage as OpenVPN counts it (`remote-cert-ku`): digitalSignature is 0x80, decipherOnly 0x8000.
pub(crate) fn key_usage(certificate: &X509Certificate<'_>) -> Option<u16> {
    let flags = certificate.key_usage().ok()??.value.flags;
    let first = (0..8).filter(|bit| flags & (1 << bit) != 0).fold(0, |sum, bit| sum | 0x80 >> bit);
    Some(first | if flags & 0x100 != 0 { 0x8000 } else { 0 })
}

/// The dotted OIDs of the extended key usage; empty without one.
pub(crate) fn extended_key_usage(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.extended_key_usage() else { return Vec::new() };
    let usage = extension.value;
    let known = [
        (usage.any, "2.5.29.37.0"),
        (usage.server_auth, "1.3.6.1.5.5.7.3.1"),
        (usage.client_auth, "1.3.6.1.5.5.7.3.2"),
        (usage.code_signing, "1.3.6.1.5.5.7.3.3"),
        (usage.email_protection, "1.3.6.1.5.5.7.3.4"),
        (usage.time_stamping, "1.3.6.1.5.5.7.3.8"),
        (usage.ocsp_signing, "1.3.6.1.5.5.7.3.9"),
    ];
    let known = known.iter().filter(|(is, _)| *is).map(|(_, oid)| (*oid).to_owned());
    known.chain(usage.other.iter().map(|oid| oid.to_id_string())).collect()
}

/// Whether one of `wanted` is the certificate's fingerprint: SHA-256 if it has 32 bytes, SHA-1 if 20.
pub(crate) fn is_one_of(certificate: &[u8], wanted: &[Vec<u8>]) -> bool {
    wanted.iter().any(|wanted| match wanted.len() {
        32 => Sha256::digest(certificate).as_slice() == wanted,
        20 => Sha1::digest(certificate).as_slice() == wanted,
        _ => false,
    })
}

/// The certificate's SHA-256 fingerprint, as `peer-fingerprint` takes it.
pub(crate) fn fingerprint(certificate: &[u8]) -> String {
    let pairs: Vec<String> = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

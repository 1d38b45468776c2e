//! The content of a certificate: names, usages and fingerprints, read as OpenVPN reads them (ssl_verify_openssl.c).

use std::fmt::Write as _;

use adit_core::{is_unprintable, printable};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use x509_parser::der_parser::asn1_rs::Tag;
use x509_parser::extensions::{NSCertType, ParsedExtension};
use x509_parser::oid_registry::{
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_CERT_TYPE, OID_X509_EXT_EXTENDED_KEY_USAGE,
    OID_X509_EXT_KEY_USAGE,
};
use x509_parser::prelude::{AttributeTypeAndValue, X509Certificate, X509Extension, X509Name};
use x509_parser::public_key::PublicKey;

use crate::object_names::short_name;
use crate::purpose::Purpose;

/// The dotted OID of the common name (X.520).
pub(crate) const COMMON_NAME: &str = "2.5.4.3";
/// The shortest RSA keys whose signatures are accepted: the limit of AWS-LC's algorithms in webpki, and of OpenSSL at
/// security level 2.
pub(crate) const LEAST_RSA_BITS: usize = 2048;

/// How a value of a name's attribute is encoded.
enum Characters {
    /// UTF-8.
    Utf8,
    /// One byte each, of ISO 8859-1.
    OneByte,
    /// Two bytes each, and for some of them twice two (UTF-16).
    TwoBytes,
    /// Four bytes each.
    FourBytes,
}

impl Characters {
    /// The characters of a string type; `None` of a type that is no string (OpenSSL a_strex.c, `tag2nbyte`, where T61
    /// counts as ISO 8859-1).
    fn of(tag: Tag) -> Option<Self> {
        match tag {
            Tag::Utf8String => Some(Characters::Utf8),
            Tag::BmpString => Some(Characters::TwoBytes),
            Tag::UniversalString => Some(Characters::FourBytes),
            Tag::NumericString
            | Tag::PrintableString
            | Tag::T61String
            | Tag::Ia5String
            | Tag::VisibleString
            | Tag::UtcTime
            | Tag::GeneralizedTime => Some(Characters::OneByte),
            _ => None,
        }
    }

    fn decode(&self, bytes: &[u8]) -> Option<String> {
        match self {
            Characters::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Characters::OneByte => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Characters::TwoBytes => {
                let (units, rest) = bytes.as_chunks();
                let units = units.iter().map(|unit| u16::from_be_bytes(*unit));
                rest.is_empty().then(|| char::decode_utf16(units).collect::<Result<_, _>>().ok())?
            }
            Characters::FourBytes => {
                let (points, rest) = bytes.as_chunks();
                let points = points.iter().map(|point| char::from_u32(u32::from_be_bytes(*point)));
                rest.is_empty().then(|| points.collect())?
            }
        }
    }
}

/// An attribute's text; `None` if it is no text.
pub(crate) fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    let value = attribute.attr_value();
    Characters::of(value.tag())?.decode(value.data)
}

/// An attribute's value as it is shown: its text, or the bytes of a value that is no string as characters of ISO 8859-1
/// (OpenSSL a_strex.c, `do_print_ex`).
fn shown(attribute: &AttributeTypeAndValue<'_>) -> String {
    let value = attribute.attr_value();
    let characters = Characters::of(value.tag()).unwrap_or(Characters::OneByte);
    characters.decode(value.data).unwrap_or_default()
}

/// The attributes of a name, each with OpenSSL's short name and its text. Those without either are left out, as in the
/// variables `X509_…` of OpenVPN (ssl_verify_openssl.c, `x509_setenv`).
pub fn named_attributes(name: &X509Name<'_>) -> Vec<(&'static str, String)> {
    let named = |attribute: &AttributeTypeAndValue<'_>| {
        Some((short_name(&attribute.attr_type().to_id_string())?, text(attribute)?))
    };
    name.iter_attributes().filter_map(named).collect()
}

/// A name as OpenVPN prints and compares it: `C=DE, O=Example, CN=server`, by OpenSSL's short names. Attributes of one relative distinguished name
/// are joined by ` + `; control characters of ASCII are `\` and two hexadecimal digits; other characters that a terminal
/// would obey are `_`.
pub fn subject_text(name: &X509Name<'_>) -> String {
    let mut out = String::new();
    for (number, part) in name.iter_rdn().enumerate() {
        for (place, attribute) in part.iter().enumerate() {
            out.push_str(match (number, place) {
                (0, 0) => "",
                (_, 0) => ", ",
                _ => " + ",
            });
            let oid = attribute.attr_type().to_id_string();
            out.push_str(short_name(&oid).unwrap_or(&oid));
            out.push('=');
            for c in shown(attribute).chars() {
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

/// Whether a part of the name holds a NUL, by which one name could pass for another.
pub fn has_nul(name: &X509Name<'_>) -> bool {
    name.iter_attributes().any(|attribute| text(attribute).is_some_and(|text| text.contains('\0')))
}

/// The bits of the key usage (RFC 5280 §4.2.1.3), its first byte in the low one: digitalSignature is 0x80, decipherOnly
/// 0x8000. `None` if there is no such extension, or if it cannot be read.
pub fn key_usage(certificate: &X509Certificate<'_>) -> Option<u16> {
    let flags = certificate.key_usage().ok()??.value.flags;
    let first = (0..8).filter(|bit| flags & (1 << bit) != 0).fold(0, |sum, bit| sum | 0x80 >> bit);
    Some(first | if flags & 0x100 != 0 { 0x8000 } else { 0 })
}

/// The dotted OIDs of the extended key usage; empty without one.
pub fn extended_key_usage(certificate: &X509Certificate<'_>) -> Vec<String> {
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

/// Whether the extended key usage allows this purpose: it names it, or is not there. One that cannot be read allows
/// nothing.
pub(crate) fn is_for(certificate: &X509Certificate<'_>, purpose: Purpose) -> bool {
    match certificate.extended_key_usage() {
        Ok(Some(usage)) => match purpose {
            Purpose::Server => usage.value.server_auth,
            Purpose::Client => usage.value.client_auth,
            Purpose::Any => true,
        },
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Whether the extended key usage is there and names this purpose.
pub(crate) fn names_purpose(certificate: &X509Certificate<'_>, purpose: Purpose) -> bool {
    matches!(certificate.extended_key_usage(), Ok(Some(_))) && is_for(certificate, purpose)
}

/// Whether it is signed by means of MD5 or SHA-1: md5WithRSAEncryption, sha1WithRSAEncryption, ecdsa-with-SHA1.
pub(crate) fn is_weakly_signed(certificate: &X509Certificate<'_>) -> bool {
    let algorithm = certificate.signature_algorithm.oid().to_id_string();
    ["1.2.840.113549.1.1.4", "1.2.840.113549.1.1.5", "1.2.840.10045.4.1"].contains(&algorithm.as_str())
}

/// Whether it counts as self-signed for OpenSSL (`EXFLAG_SS`): its issuer is its subject, and so is the key that signed it,
/// where both keys are named. The signature itself is not verified: such a certificate is trusted because the
/// configuration names it.
pub(crate) fn is_self_signed(certificate: &X509Certificate<'_>) -> bool {
    let extensions = || certificate.extensions().iter().map(|extension| extension.parsed_extension());
    let own = extensions().find_map(|extension| match extension {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    let issuers = extensions().find_map(|extension| match extension {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    });
    certificate.subject().as_raw() == certificate.issuer().as_raw()
        && own.zip(issuers).is_none_or(|(own, issuers)| own == issuers)
}

/// The length in bits of its RSA key, if that is shorter than [`LEAST_RSA_BITS`].
pub(crate) fn small_rsa_key(certificate: &X509Certificate<'_>) -> Option<usize> {
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => Some(key.key_size()).filter(|bits| *bits < LEAST_RSA_BITS),
        _ => None,
    }
}

/// Whether one of the extensions by which a certificate is judged cannot be read, or stands there twice. OpenSSL refuses
/// such a certificate (`EXFLAG_INVALID`).
pub(crate) fn is_malformed(certificate: &X509Certificate<'_>) -> bool {
    let judged = [
        OID_X509_EXT_BASIC_CONSTRAINTS,
        OID_X509_EXT_KEY_USAGE,
        OID_X509_EXT_EXTENDED_KEY_USAGE,
        OID_X509_EXT_CERT_TYPE,
    ];
    let broken = |extension: &X509Extension<'_>| {
        judged.contains(&extension.oid) && extension.parsed_extension().error().is_some()
    };
    certificate.extensions().iter().any(broken)
        || judged.iter().any(|oid| certificate.get_extension_unique(oid).is_err())
}

/// Whether a certificate's key may be used in a TLS handshake for that purpose, as OpenSSL demands it of the leaf: a
/// key usage, if there is one, that can sign or agree on a key (a server's may also encipher one), and a Netscape
/// certificate type, if there is one, that names the purpose.
pub(crate) fn fits_a_handshake(certificate: &X509Certificate<'_>, purpose: Purpose) -> bool {
    let (wanted, types): (u16, fn(&NSCertType) -> bool) = match purpose {
        Purpose::Server => (0x80 | 0x20 | 0x08, NSCertType::ssl_server),
        Purpose::Client => (0x80 | 0x08, NSCertType::ssl_client),
        // RFC 4945 section 5.1.3.2: digitalSignature or nonRepudiation.
        Purpose::Any => (0x80 | 0x40, |_| true),
    };
    let type_fits = |extension: &X509Extension<'_>| match extension.parsed_extension() {
        ParsedExtension::NSCertType(found) => types(found),
        _ => true,
    };
    key_usage(certificate).is_none_or(|found| found & wanted != 0)
        && certificate.extensions().iter().all(type_fits)
}

/// Whether one of `wanted` is the certificate's fingerprint: SHA-256 if it has 32 bytes, SHA-1 if 20.
pub(crate) fn is_one_of(certificate: &[u8], wanted: &[Vec<u8>]) -> bool {
    wanted.iter().any(|wanted| match wanted.len() {
        32 => Sha256::digest(certificate).as_slice() == wanted,
        20 => Sha1::digest(certificate).as_slice() == wanted,
        _ => false,
    })
}

/// The SHA-256 fingerprint of a certificate in DER: 32 pairs of hexadecimal digits with colons between them.
pub fn fingerprint(certificate: &[u8]) -> String {
    let pairs: Vec<String> = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// The common name, or all of the name if it has none; without characters that a terminal would obey.
pub(crate) fn name(name: &X509Name<'_>) -> String {
    let common = name.iter_common_name().find_map(text);
    printable(&common.unwrap_or_else(|| subject_text(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_each_string_type() {
        let of = |tag, bytes: &[u8]| Characters::of(tag).and_then(|characters| characters.decode(bytes));
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(of(Tag::Utf8String, "é€".as_bytes()), is("é€"));
        for tag in
            [Tag::T61String, Tag::PrintableString, Tag::Ia5String, Tag::VisibleString, Tag::NumericString]
        {
            assert_eq!(of(tag, b"B\xfccher"), is("Bücher"), "{tag}");
        }
        assert_eq!(of(Tag::BmpString, &[0, 0xe9, 0x20, 0xac, 0xd8, 0x34, 0xdd, 0x1e]), is("é€𝄞"));
        assert_eq!(of(Tag::UniversalString, &[0, 0, 0, 0xe9, 0, 1, 0xd1, 0x1e]), is("é𝄞"));
        assert_eq!(of(Tag::BitString, b"x"), None);
        for (tag, damaged) in [
            (Tag::Utf8String, &[0xff][..]),
            (Tag::BmpString, &[0, 0xe9, 0]),
            (Tag::BmpString, &[0xd8, 0x34]),
            (Tag::UniversalString, &[0, 0, 0xe9]),
            (Tag::UniversalString, &[0, 0x11, 0, 0]),
        ] {
            assert_eq!(of(tag, damaged), None, "{tag} {damaged:?}");
        }
    }
}

//! Names of certificates as RFC 5280 §7.1 compares them, not byte for byte: an authority may encode its name in one
//! string type in its certificate and in another one in its revocation lists.

use x509_parser::der_parser::asn1_rs::Tag;
use x509_parser::prelude::{AttributeTypeAndValue, X509Name};

use crate::certificate;

/// The string types whose text is compared (OpenSSL x_name.c, `ASN1_MASK_CANON`).
const TEXT: [Tag; 7] = [
    Tag::Utf8String,
    Tag::PrintableString,
    Tag::Ia5String,
    Tag::VisibleString,
    Tag::T61String,
    Tag::BmpString,
    Tag::UniversalString,
];

/// A name in the form that two equal names share: for each relative distinguished name its attributes, sorted, as
/// they form a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CanonicalName(Vec<Vec<Attribute>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attribute {
    oid: String,
    value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    /// A text in lower case (ASCII letters, as in OpenSSL), without white space at its ends, and with one space for
    /// each run of it inside.
    Text(String),
    /// Anything else is equal byte for byte.
    Other(u32, Vec<u8>),
}

impl CanonicalName {
    pub(crate) fn new(name: &X509Name<'_>) -> Self {
        let sorted = |attributes: Vec<Attribute>| {
            let mut attributes = attributes;
            attributes.sort();
            attributes
        };
        CanonicalName(name.iter_rdn().map(|part| sorted(part.iter().map(Attribute::new).collect())).collect())
    }
}

impl Attribute {
    fn new(attribute: &AttributeTypeAndValue<'_>) -> Self {
        let value = attribute.attr_value();
        let text = TEXT.contains(&value.tag()).then(|| certificate::text(attribute)).flatten();
        let value = match text {
            Some(text) => Value::Text(folded(&text)),
            None => Value::Other(value.tag().0, value.data.to_vec()),
        };
        Attribute { oid: attribute.attr_type().to_id_string(), value }
    }
}

fn folded(text: &str) -> String {
    text.split_ascii_whitespace().map(str::to_ascii_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    use super::*;

    fn name(attributes: &[(DnType, DnValue)]) -> CanonicalName {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in attributes {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        CanonicalName::new(parsed.subject())
    }

    fn common(text: &str) -> DnValue {
        DnValue::Utf8String(text.to_owned())
    }

    #[test]
    fn case_white_space_and_string_type_make_no_difference() {
        let of = |value| name(&[(DnType::CommonName, value)]);
        let plain = of(common("Example CA"));
        assert_eq!(of(common(" EXAMPLE   ca")), plain);
        assert_eq!(of(DnValue::PrintableString("Example CA".try_into().unwrap())), plain);
        assert_eq!(of(DnValue::BmpString("Example CA".try_into().unwrap())), plain);
        assert_ne!(of(common("ExampleCA")), plain);
        assert_ne!(of(common("Example CÄ")), of(common("Example Cä")));
    }

    #[test]
    fn attributes_and_their_order_count() {
        let [c, o] = [(DnType::CommonName, common("x")), (DnType::OrganizationName, common("y"))];
        assert_ne!(name(&[c.clone(), o.clone()]), name(&[o.clone(), c.clone()]));
        assert_ne!(name(std::slice::from_ref(&c)), name(&[c.clone(), o]));
        assert_ne!(name(&[c]), name(&[(DnType::OrganizationName, common("x"))]));
    }
}

//! Identities: `moon.example.org`, `keyid:#0a0b`, `C=CH, CN=moon`.

use std::net::IpAddr;

use adit_ike::wire::{IdType, Identification};

use super::{addresses, secret, shown};
use crate::distinguished_name;
use crate::model::{Identity, IdentityPattern};

/// Most bytes of an identity: far more than a certificate's name has.
const LONGEST: usize = 2048;

/// A kind of identity that a prefix names.
#[derive(Clone, Copy)]
enum Prefixed {
    /// The text behind the prefix, or `#` and hexadecimal digits.
    Text(IdType),
    /// `#` and hexadecimal digits alone: the text would be no identity of the kind.
    Bytes(IdType),
    /// IKEv2 has no such identities.
    Unknown,
}

const PREFIXES: [(&str, Prefixed); 16] = [
    ("ipv4:", Prefixed::Bytes(IdType::IPV4_ADDR)),
    ("ipv6:", Prefixed::Bytes(IdType::IPV6_ADDR)),
    ("ipv4net:", Prefixed::Unknown),
    ("ipv6net:", Prefixed::Unknown),
    ("ipv4range:", Prefixed::Unknown),
    ("ipv6range:", Prefixed::Unknown),
    ("rfc822:", Prefixed::Text(IdType::RFC822_ADDR)),
    ("email:", Prefixed::Text(IdType::RFC822_ADDR)),
    ("userfqdn:", Prefixed::Text(IdType::RFC822_ADDR)),
    ("fqdn:", Prefixed::Text(IdType::FQDN)),
    ("dns:", Prefixed::Text(IdType::FQDN)),
    ("asn1dn:", Prefixed::Bytes(IdType::DER_ASN1_DN)),
    ("asn1gn:", Prefixed::Bytes(IdType::DER_ASN1_GN)),
    ("xmppaddr:", Prefixed::Unknown),
    ("keyid:", Prefixed::Text(IdType::KEY_ID)),
    ("uri:", Prefixed::Unknown),
];

/// An identity in full.
///
/// # Errors
/// It is none, or a pattern for several.
pub(crate) fn identity(text: &str) -> Result<Identity, String> {
    match pattern(text)? {
        IdentityPattern::Any => Ok(Identity::Any),
        IdentityPattern::Exact(identity) => Ok(Identity::Exact(identity)),
        _ => Err(format!("`{}` stands for several identities; one is needed here", shown(text))),
    }
}

/// The identities that a peer may prove.
///
/// # Errors
/// They are none.
pub(crate) fn pattern(text: &str) -> Result<IdentityPattern, String> {
    if text.len() > LONGEST {
        return Err(format!("an identity is {} bytes long; at most {LONGEST} are read", text.len()));
    }
    if let Some((prefix, kind)) = prefix(text) {
        return prefixed(text, prefix, kind);
    }
    if let Some(numbered) = numbered(text) {
        return numbered.map(IdentityPattern::Exact);
    }
    if text.contains('=') {
        return name(text);
    }
    match text.split_once('@') {
        Some(("", key)) if key.starts_with('#') => bytes(IdType::KEY_ID, key).map(IdentityPattern::Exact),
        Some(("", rest)) => Ok(match rest.strip_prefix('@') {
            Some(mail) => text_or_end(IdType::RFC822_ADDR, mail),
            None => text_or_end(IdType::FQDN, rest),
        }),
        Some(_) => Ok(text_or_end(IdType::RFC822_ADDR, text)),
        None => Ok(address_or_name(text)),
    }
}

fn prefix(text: &str) -> Option<(&'static str, Prefixed)> {
    let is_prefix =
        |prefix: &str| text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    PREFIXES.iter().find(|(prefix, _)| is_prefix(prefix)).copied()
}

fn prefixed(text: &str, prefix: &str, kind: Prefixed) -> Result<IdentityPattern, String> {
    let rest = text.get(prefix.len()..).unwrap_or_default();
    if rest.starts_with('^') && rest.ends_with('$') {
        return Err(format!(
            "`{}` is a regular expression, which adit does not have: write one connection for each identity, or a pattern such as \
             *.example.org",
            shown(text)
        ));
    }
    match kind {
        Prefixed::Text(kind) | Prefixed::Bytes(kind) if rest.starts_with('#') => {
            bytes(kind, rest).map(IdentityPattern::Exact)
        }
        Prefixed::Text(kind) => Ok(text_or_end(kind, rest)),
        Prefixed::Bytes(IdType::DER_ASN1_DN) if rest.contains('=') => name(rest),
        Prefixed::Bytes(_) => Err(format!(
            "behind `{prefix}` stand `#` and hexadecimal digits; without `{prefix}`, an address or a name stands as it is"
        )),
        Prefixed::Unknown => Err(format!("IKEv2 has no identities of the kind `{prefix}`")),
    }
}

/// `{NUMBER}:` with text or `#` and hexadecimal digits. `None`: the text has not that form.
fn numbered(text: &str) -> Option<Result<Identification, String>> {
    let (number, rest) = text.strip_prefix('{')?.split_once("}:")?;
    let kind = match super::numbers::number(number, u8::MAX.into()) {
        Ok(number) => IdType(u8::try_from(number).unwrap_or_default()),
        Err(why) => return Some(Err(why)),
    };
    Some(match rest.starts_with('#') {
        true => bytes(kind, rest),
        false => Ok(Identification { kind, data: rest.as_bytes().to_vec() }),
    })
}

/// An identity of the bytes that stand behind `#`.
fn bytes(kind: IdType, text: &str) -> Result<Identification, String> {
    let data =
        secret::hexadecimal(text.trim_start_matches('#')).map_err(|why| format!("behind `#`: {why}"))?;
    let length = data.len();
    let is_right = match kind {
        IdType::IPV4_ADDR => length == 4,
        IdType::IPV6_ADDR => length == 16,
        _ => length > 0,
    };
    match is_right {
        true => Ok(Identification { kind, data: data.to_vec() }),
        false => Err(format!("behind `#` stand {length} bytes, which are no identity of that kind")),
    }
}

/// A name, or with a `*` in front the names that end with what is behind it.
fn text_or_end(kind: IdType, text: &str) -> IdentityPattern {
    let is_name = kind == IdType::FQDN || kind == IdType::RFC822_ADDR;
    let identification = |text: &str| Identification { kind, data: text.as_bytes().to_vec() };
    match text.strip_prefix('*').filter(|_| is_name) {
        Some(end) if end.starts_with(['.', '@']) => IdentityPattern::EndsWith(identification(end)),
        _ => IdentityPattern::Exact(identification(text)),
    }
}

fn name(text: &str) -> Result<IdentityPattern, String> {
    let data = distinguished_name::encode(text)
        .map_err(|why| format!("{why}; to mean other text, write keyid: in front"))?;
    let identification = Identification { kind: IdType::DER_ASN1_DN, data };
    Ok(match distinguished_name::is_pattern(&identification.data) {
        true => IdentityPattern::Name(identification),
        false => IdentityPattern::Exact(identification),
    })
}

/// An identity without `@` and `=`.
fn address_or_name(text: &str) -> IdentityPattern {
    if matches!(text, "" | "%any" | "%any6" | "0.0.0.0" | "*" | "::" | "0::0") {
        return IdentityPattern::Any;
    }
    if let Ok(address) = text.parse() {
        return IdentityPattern::Exact(of_address(address));
    }
    if let Some(network) = text.contains('/').then(|| addresses::network(text).ok()).flatten() {
        return IdentityPattern::Addresses(network.network(), network.broadcast());
    }
    let range = addresses::range(text).and_then(|(first, last)| addresses::ordered(text, first, last).ok());
    if let Some((first, last)) = range {
        return IdentityPattern::Addresses(first, last);
    }
    match text.contains(':') {
        true => {
            IdentityPattern::Exact(Identification { kind: IdType::KEY_ID, data: text.as_bytes().to_vec() })
        }
        false => text_or_end(IdType::FQDN, text),
    }
}

/// The identity of an address.
fn of_address(address: IpAddr) -> Identification {
    match address {
        IpAddr::V4(address) => Identification { kind: IdType::IPV4_ADDR, data: address.octets().to_vec() },
        IpAddr::V6(address) => Identification { kind: IdType::IPV6_ADDR, data: address.octets().to_vec() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(kind: IdType, data: &[u8]) -> IdentityPattern {
        IdentityPattern::Exact(Identification { kind, data: data.to_vec() })
    }

    /// The table of strongSwan's own tests (src/libstrongswan/tests/suites/test_identification.c) has the same kinds.
    #[test]
    fn the_kind_follows_from_the_form() {
        for (text, kind, data) in [
            ("moon.strongswan.org", IdType::FQDN, b"moon.strongswan.org".as_slice()),
            ("@moon.strongswan.org", IdType::FQDN, b"moon.strongswan.org"),
            ("@@carol", IdType::RFC822_ADDR, b"carol"),
            ("carol@strongswan.org", IdType::RFC822_ADDR, b"carol@strongswan.org"),
            ("@#0aFF", IdType::KEY_ID, b"\x0a\xff"),
            ("192.168.0.1", IdType::IPV4_ADDR, &[192, 168, 0, 1]),
            ("fe80::1", IdType::IPV6_ADDR, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            ("a:b", IdType::KEY_ID, b"a:b"),
            ("keyid:a@b", IdType::KEY_ID, b"a@b"),
            ("keyid:#00ff", IdType::KEY_ID, b"\x00\xff"),
            ("FQDN:10.0.0.1", IdType::FQDN, b"10.0.0.1"),
            ("email:carol", IdType::RFC822_ADDR, b"carol"),
            ("ipv4:#0a000001", IdType::IPV4_ADDR, &[10, 0, 0, 1]),
            ("{11}:abc", IdType::KEY_ID, b"abc"),
            ("{0x02}:#61", IdType::FQDN, b"a"),
        ] {
            assert_eq!(pattern(text), Ok(exact(kind, data)), "{text}");
        }
        for text in ["", "%any", "%any6", "0.0.0.0", "*", "::", "0::0"] {
            assert_eq!(identity(text), Ok(Identity::Any), "{text}");
        }
        let name = distinguished_name::encode("C=CH, CN=moon").expect("a name");
        assert_eq!(pattern("C=CH, CN=moon"), Ok(exact(IdType::DER_ASN1_DN, &name)));
        assert_eq!(pattern("asn1dn:C=CH, CN=moon"), Ok(exact(IdType::DER_ASN1_DN, &name)));
    }

    #[test]
    fn patterns_match_what_they_stand_for() {
        for (wanted, matching, other) in [
            ("*.example.org", "a.b.EXAMPLE.org", "example.org"),
            ("*@example.org", "carol@example.org", "carol@example.com"),
            ("*@example.org", "carol@example.org", "@carol.example.org"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.1-10.0.0.9", "10.0.0.9", "10.0.0.10"),
            ("C=CH, CN=*", "C=CH, CN=moon", "C=CH, O=x, CN=moon"),
            ("%any", "moon", "%any"),
            ("Moon.example.org", "moon.example.org", "moon.example.com"),
            ("carol@example.org", "CAROL@example.org", "bob@example.org"),
        ] {
            let pattern = pattern(wanted).expect(wanted);
            let identity = |text| match identity(text).expect(text) {
                Identity::Exact(identity) => identity,
                Identity::Any => Identification { kind: IdType::NULL, data: Vec::new() },
            };
            assert!(pattern.matches(&identity(matching)), "{wanted} {matching}");
            assert!(
                pattern == IdentityPattern::Any || !pattern.matches(&identity(other)),
                "{wanted} {other}"
            );
            let is_in_full = matches!(pattern, IdentityPattern::Any | IdentityPattern::Exact(_));
            assert_eq!(super::identity(wanted).is_ok(), is_in_full, "{wanted}");
        }
    }

    #[test]
    fn what_is_no_identity_says_what_would_be_right() {
        for (text, part) in [
            ("O=Example, Inc.", "write the name with slashes"),
            ("abc=def", "write keyid: in front"),
            ("ipv4:10.0.0.1", "without `ipv4:`"),
            ("ipv4:#0a00", "2 bytes, which are no identity"),
            ("keyid:#0", "hexadecimal digits are needed"),
            ("xmppaddr:a@b", "IKEv2 has no identities of the kind `xmppaddr:`"),
            ("fqdn:^vpn[0-9]+$", "is a regular expression"),
            ("{300}:a", "is not a number from 0 to 255"),
        ] {
            assert!(pattern(text).is_err_and(|why| why.contains(part)), "{text}: {:?}", pattern(text));
        }
    }
}

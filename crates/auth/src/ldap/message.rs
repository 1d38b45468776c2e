//! LDAP's messages (RFC 4511, 4).

use std::fmt;

use adit_openvpn_config::auth_ldap::Filter;
use zeroize::Zeroizing;

use super::ber::{BOOLEAN, ENUMERATED, Elements, INTEGER, Malformed, OCTETS, SEQUENCE, element, number};

/// Answers, by the first byte of their operation.
pub(super) const BOUND: u8 = 0x61;
pub(super) const ENTRY: u8 = 0x64;
pub(super) const SEARCHED: u8 = 0x65;
pub(super) const COMPARED: u8 = 0x6f;
pub(super) const REFERENCE: u8 = 0x73;
pub(super) const EXTENDED: u8 = 0x78;
pub(super) const INTERMEDIATE: u8 = 0x79;

/// StartTLS (RFC 4511, 4.14).
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// Result codes (RFC 4511, appendix A).
pub(super) const SUCCESS: u32 = 0;
pub(super) const SIZE_LIMIT_EXCEEDED: u32 = 4;
pub(super) const COMPARE_FALSE: u32 = 5;
pub(super) const COMPARE_TRUE: u32 = 6;
pub(super) const REFERRAL: u32 = 10;
pub(super) const NO_SUCH_ATTRIBUTE: u32 = 16;

/// A whole message.
pub(super) fn message(id: u32, operation: &[u8]) -> Zeroizing<Vec<u8>> {
    let content = Zeroizing::new([number(INTEGER, id).as_slice(), operation].concat());
    Zeroizing::new(element(SEQUENCE, &content))
}

/// BindRequest with a name and a password.
pub(super) fn bind(name: &str, password: &str) -> Zeroizing<Vec<u8>> {
    let password = Zeroizing::new(element(0x80, password.as_bytes()));
    let name = [number(INTEGER, 3), element(OCTETS, name.as_bytes())].concat();
    let content = Zeroizing::new([name.as_slice(), password.as_slice()].concat());
    Zeroizing::new(element(0x60, &content))
}

/// SearchRequest: the names of entries in the whole subtree, up to a number of them.
pub(super) fn search(base: &str, filter: &Filter, most: u32) -> Vec<u8> {
    const SUBTREE: u32 = 2;
    /// No attributes (RFC 4511, 4.5.1.8).
    const NO_ATTRIBUTES: &[u8] = b"1.1";
    let content = [
        element(OCTETS, base.as_bytes()),
        number(ENUMERATED, SUBTREE),
        number(ENUMERATED, 0),
        number(INTEGER, most),
        number(INTEGER, 0),
        element(BOOLEAN, &[0]),
        encoded(filter),
        element(SEQUENCE, &element(OCTETS, NO_ATTRIBUTES)),
    ];
    element(0x63, &content.concat())
}

/// CompareRequest.
pub(super) fn compare(entry: &str, attribute: &str, value: &[u8]) -> Vec<u8> {
    let assertion = element(SEQUENCE, &pair(attribute, value));
    element(0x6e, &[element(OCTETS, entry.as_bytes()), assertion].concat())
}

/// ExtendedRequest: StartTLS.
pub(super) fn start_tls() -> Vec<u8> {
    element(0x77, &element(0x80, START_TLS))
}

fn pair(attribute: &str, value: &[u8]) -> Vec<u8> {
    [element(OCTETS, attribute.as_bytes()), element(OCTETS, value)].concat()
}

/// Filter (RFC 4511, 4.5.1.7).
fn encoded(filter: &Filter) -> Vec<u8> {
    let all = |filters: &[Filter]| filters.iter().flat_map(encoded).collect::<Vec<u8>>();
    match filter {
        Filter::And(filters) => element(0xa0, &all(filters)),
        Filter::Or(filters) => element(0xa1, &all(filters)),
        Filter::Not(filter) => element(0xa2, &encoded(filter)),
        Filter::Equal(attribute, value) => element(0xa3, &pair(attribute, value)),
        Filter::Substrings { attribute, first, between, last } => {
            let mut parts = Vec::new();
            parts.extend(first.iter().flat_map(|part| element(0x80, part)));
            parts.extend(between.iter().flat_map(|part| element(0x81, part)));
            parts.extend(last.iter().flat_map(|part| element(0x82, part)));
            element(0xa4, &[element(OCTETS, attribute.as_bytes()), element(SEQUENCE, &parts)].concat())
        }
        Filter::AtLeast(attribute, value) => element(0xa5, &pair(attribute, value)),
        Filter::AtMost(attribute, value) => element(0xa6, &pair(attribute, value)),
        Filter::Present(attribute) => element(0x87, attribute.as_bytes()),
        Filter::Like(attribute, value) => element(0xa8, &pair(attribute, value)),
        Filter::Rule { attribute, rule, value, of_name } => {
            let mut content = Vec::new();
            content.extend(rule.iter().flat_map(|rule| element(0x81, rule.as_bytes())));
            content.extend(attribute.iter().flat_map(|name| element(0x82, name.as_bytes())));
            content.extend(element(0x83, value));
            if *of_name {
                content.extend(element(0x84, &[0xff]));
            }
            element(0xa9, &content)
        }
    }
}

/// An answer: the number of its request, the first byte of its operation, and its content.
pub(super) struct Answer<'a> {
    pub(super) id: u32,
    pub(super) kind: u8,
    pub(super) content: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Reads the content of a whole message.
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut elements = Elements(message);
        let id = elements.take_number(INTEGER)?;
        let operation = elements.take_any()?.ok_or(Malformed)?;
        Ok(Answer { id, kind: operation.tag, content: operation.content })
    }
}

/// LDAPResult, which is an answer, or the beginning of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) code: u32,
    pub(super) text: String,
    /// URLs of other servers.
    pub(super) referrals: Vec<String>,
}

impl Outcome {
    pub(super) fn read(content: &[u8]) -> Result<Self, Malformed> {
        let mut elements = Elements(content);
        let code = elements.take_number(ENUMERATED)?;
        elements.take(OCTETS)?;
        let text = String::from_utf8_lossy(elements.take(OCTETS)?).into_owned();
        let mut referrals = Vec::new();
        while let Some(element) = elements.take_any()? {
            if element.tag == 0xa3 {
                referrals = urls(element.content)?;
            }
        }
        Ok(Outcome { code, text, referrals })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            SUCCESS => "success",
            1 => "operationsError",
            2 => "protocolError",
            3 => "timeLimitExceeded",
            SIZE_LIMIT_EXCEEDED => "sizeLimitExceeded",
            8 => "strongerAuthRequired",
            REFERRAL => "referral",
            13 => "confidentialityRequired",
            32 => "noSuchObject",
            34 => "invalidDNSyntax",
            48 => "inappropriateAuthentication",
            49 => "invalidCredentials",
            50 => "insufficientAccessRights",
            51 => "busy",
            52 => "unavailable",
            53 => "unwillingToPerform",
            _ => "",
        };
        match name {
            "" => write!(f, "result {}", self.code)?,
            name => write!(f, "{name} ({})", self.code)?,
        }
        if self.text.is_empty() { Ok(()) } else { write!(f, ": {}", self.text) }
    }
}

/// SearchResultReference, and the like.
pub(super) fn urls(content: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut elements = Elements(content);
    let mut urls = Vec::new();
    while !elements.0.is_empty() {
        urls.push(elements.take_text()?.to_owned());
    }
    Ok(urls)
}

/// The name of a SearchResultEntry.
pub(super) fn entry_name(content: &[u8]) -> Result<String, Malformed> {
    Ok(Elements(content).take_text()?.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(text: &str) -> Vec<u8> {
        encoded(&Filter::parse(text, "ann").unwrap())
    }

    #[test]
    fn a_bind_request() {
        let expected = [&[0x30, 17, 2, 1, 1, 0x60, 12, 2, 1, 3, 4, 4][..], b"cn=a", &[0x80, 1], b"x"];
        assert_eq!(*message(1, &bind("cn=a", "x")), expected.concat());
    }

    #[test]
    fn filters() {
        assert_eq!(filter("(uid=%u)"), [&[0xa3, 10, 4, 3][..], b"uid", &[4, 3], b"ann"].concat());
        assert_eq!(
            filter("(&(a=b)(!(c=*)))"),
            [&[0xa0, 13, 0xa3, 6, 4, 1][..], b"a", &[4, 1], b"b", &[0xa2, 3, 0x87, 1], b"c"].concat()
        );
        let parts =
            [&[0xa4, 14, 4, 1][..], b"a", &[0x30, 9, 0x80, 1], b"x", &[0x81, 1], b"y", &[0x82, 1], b"z"];
        assert_eq!(filter("(a=x*y*z)"), parts.concat());
        let rule = [&[0xa9, 14, 0x81, 3][..], b"1.2", &[0x82, 1], b"a", &[0x83, 1], b"v", &[0x84, 1, 0xff]];
        assert_eq!(filter("(a:dn:1.2:=v)"), rule.concat());
    }

    #[test]
    fn a_search_request() {
        let encoded = search("dc=x", &Filter::parse("(a=b)", "").unwrap(), 2);
        let mut elements = Elements(&encoded[2..]);
        assert_eq!(encoded[0], 0x63);
        assert_eq!(elements.take_text(), Ok("dc=x"));
        assert_eq!(elements.take_number(ENUMERATED), Ok(2), "the subtree");
        assert_eq!(elements.take_number(ENUMERATED), Ok(0), "no aliases");
        assert_eq!((elements.take_number(INTEGER), elements.take_number(INTEGER)), (Ok(2), Ok(0)));
        assert_eq!(elements.take(BOOLEAN), Ok(&[0][..]));
        assert_eq!(elements.take(0xa3).map(<[u8]>::len), Ok(6));
        assert_eq!(elements.take(SEQUENCE), Ok(&element(OCTETS, b"1.1")[..]));
        assert!(elements.0.is_empty());
    }

    #[test]
    fn an_outcome() {
        let referral = element(0xa3, &element(OCTETS, b"ldap://b/"));
        let content =
            [number(ENUMERATED, 10), element(OCTETS, b""), element(OCTETS, b"there"), referral].concat();
        let outcome = Outcome::read(&content).unwrap();
        assert_eq!((outcome.code, outcome.referrals.as_slice()), (10, &["ldap://b/".to_owned()][..]));
        assert_eq!(outcome.to_string(), "referral (10): there");
        assert_eq!(Outcome::read(&content[..4]), Err(Malformed));
        let unknown = Outcome { code: 90, text: String::new(), referrals: Vec::new() };
        assert_eq!(unknown.to_string(), "result 90");
    }

    proptest! {
        #[test]
        fn any_bytes_may_come(bytes: Vec<u8>) {
            if let Ok(answer) = Answer::read(&bytes) {
                let _ = Outcome::read(answer.content);
                let _ = urls(answer.content);
                let _ = entry_name(answer.content);
            }
        }
    }
}

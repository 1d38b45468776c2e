//! Identities of ends, and the patterns that a peer's identity must match.

use std::net::IpAddr;

use adit_ike::wire::{IdType, Identification};

use crate::distinguished_name;

/// An identity that the file writes in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// None in particular (`%any`, or empty).
    Any,
    /// This one.
    Exact(Identification),
}

/// The identities that a peer may prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityPattern {
    /// Any (`%any`).
    Any,
    /// This one.
    Exact(Identification),
    /// The names of that kind that end so, with at least one byte before (`*.example.org`, `*@example.org`).
    EndsWith(Identification),
    /// The addresses from the first to the last, both of one family (`10.0.0.0/8`, `10.0.0.1-10.0.0.9`).
    Addresses(IpAddr, IpAddr),
    /// The distinguished names whose attributes match, in order; an attribute `*` matches any value.
    Name(Identification),
}

impl IdentityPattern {
    /// Whether a peer may prove that identity. Letters of names match in upper and lower case.
    pub fn matches(&self, identity: &Identification) -> bool {
        match self {
            IdentityPattern::Any => true,
            IdentityPattern::Exact(wanted) => is_same(wanted, identity),
            IdentityPattern::EndsWith(wanted) => {
                wanted.kind == identity.kind && ends_with(identity, &wanted.data)
            }
            IdentityPattern::Addresses(first, last) => {
                address(identity).is_some_and(|address| (*first..=*last).contains(&address))
            }
            IdentityPattern::Name(wanted) => {
                wanted.kind == identity.kind && distinguished_name::matches(&wanted.data, &identity.data)
            }
        }
    }
}

fn is_same(one: &Identification, other: &Identification) -> bool {
    let has_same_data = || match one.kind {
        IdType::DER_ASN1_DN => distinguished_name::matches(&one.data, &other.data),
        IdType::FQDN | IdType::RFC822_ADDR => one.data.eq_ignore_ascii_case(&other.data),
        _ => one.data == other.data,
    };
    one.kind == other.kind && has_same_data()
}

fn ends_with(identity: &Identification, end: &[u8]) -> bool {
    let data = &identity.data;
    let start = data.len().checked_sub(end.len()).filter(|start| *start > 0);
    start.and_then(|start| data.get(start..)).is_some_and(|found| found.eq_ignore_ascii_case(end))
}

fn address(identity: &Identification) -> Option<IpAddr> {
    match identity.kind {
        IdType::IPV4_ADDR => <[u8; 4]>::try_from(identity.data.as_slice()).ok().map(IpAddr::from),
        IdType::IPV6_ADDR => <[u8; 16]>::try_from(identity.data.as_slice()).ok().map(IpAddr::from),
        _ => None,
    }
}

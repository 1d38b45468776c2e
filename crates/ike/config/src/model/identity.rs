//! Identities of ends, and the patterns that a peer's identity must match.

use std::net::IpAddr;

use adit_ike::wire::Identification;

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
    /// This one. Letters of a name match in upper and lower case.
    Exact(Identification),
    /// The names that end so (`*.example.org`, `*@example.org`).
    EndsWith(Identification),
    /// The addresses from the first to the last, both of one family (`10.0.0.0/8`, `10.0.0.1-10.0.0.9`).
    Addresses(IpAddr, IpAddr),
    /// The distinguished names whose attributes match, in order; an attribute `*` matches any value.
    Name(Identification),
}

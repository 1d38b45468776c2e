//! Names of peers that are kept out.

use std::collections::BTreeSet;

use super::params::Connection;
use crate::wire::{IdType, Identification};

/// The peers that are kept out.
pub(crate) enum Blocked {
    /// Those of these names.
    Named(BTreeSet<String>),
    /// All of them.
    All,
}

impl Default for Blocked {
    fn default() -> Self {
        Blocked::Named(BTreeSet::new())
    }
}

impl Blocked {
    /// Whether a peer is kept out: by the name of its connection, or by the identity that it proves or must prove.
    pub(crate) fn has(&self, connection: &Connection, identity: Option<&Identification>) -> bool {
        let names = match self {
            Blocked::All => return true,
            Blocked::Named(names) if names.is_empty() => return false,
            Blocked::Named(names) => names,
        };
        let identity = identity.or_else(|| connection.remote_auth.identity.exact());
        let is_named = |name: &String| identity.is_some_and(|identity| is_name_of(name, identity));
        names.contains(&connection.name) || names.iter().any(is_named)
    }
}

/// Whether an identity has that name: it is the name, in upper or lower case where it is a host name or a mail address (RFC 4343), or
/// a distinguished name with it as a common name.
pub fn is_name_of(name: &str, identity: &Identification) -> bool {
    match identity.kind {
        IdType::FQDN | IdType::RFC822_ADDR => identity.data.eq_ignore_ascii_case(name.as_bytes()),
        IdType::KEY_ID => identity.data == name.as_bytes(),
        IdType::DER_ASN1_DN => adit_pki::name_text(&identity.data)
            .is_some_and(|text| text.split(", ").any(|part| part.strip_prefix("CN=") == Some(name))),
        _ => false,
    }
}

//! Names of peers that are kept out.

use std::collections::BTreeSet;

use super::endpoint::Endpoint;
use super::params::Connection;
use crate::wire::{IdType, Identification, Spi};

/// The names of the peers that are kept out.
#[derive(Default)]
pub(crate) struct Blocked(BTreeSet<String>);

impl Blocked {
    /// Whether a peer is kept out: by the name of its connection, or by the identity that it proves or must prove.
    pub(crate) fn has(&self, connection: &Connection, identity: Option<&Identification>) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let identity = identity.or_else(|| connection.remote_auth.identity.exact());
        let is_named = |name: &String| identity.is_some_and(|identity| is_name_of(name, identity));
        self.0.contains(&connection.name) || self.0.iter().any(is_named)
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

impl Endpoint {
    /// Keeps out the peers of these names, in place of those before. A name is that of a connection, or one of an identity
    /// ([`is_name_of`]). The IKE SAs of these peers are deleted at once, and this end initiates none to them. Connections that were kept
    /// out and are not any more begin as at the start.
    pub fn set_blocked(&mut self, names: BTreeSet<String>) {
        let before = std::mem::replace(&mut self.shared.blocked, Blocked(names));
        let now_blocked = &self.shared.blocked;
        let is_out = |connection: &Connection, identity: Option<&Identification>| {
            now_blocked.has(connection, identity)
        };
        let sas = self.sas.values().filter(|sa| {
            let connection = sa.connection.and_then(|number| self.connections.get(number));
            connection.is_some_and(|connection| is_out(connection, sa.peer_identity.as_ref()))
        });
        let out: Vec<Spi> = sas.map(|sa| sa.own_spi).collect();
        let is_back = |connection: &Connection| before.has(connection, None) && !is_out(connection, None);
        let back: Vec<usize> =
            self.connections.iter().filter(|(_, it)| is_back(it)).map(|(number, _)| number).collect();
        out.into_iter().for_each(|spi| self.close(spi, "blocked"));
        back.into_iter().for_each(|number| self.begin_anew(number));
    }

    /// Whether this end does not initiate to the peer of a connection.
    pub(super) fn is_blocked(&self, number: usize) -> bool {
        self.connections.get(number).is_some_and(|connection| self.shared.blocked.has(connection, None))
    }
}

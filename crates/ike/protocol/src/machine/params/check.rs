//! The check of connections before they are used.

use std::collections::BTreeSet;

use thiserror::Error;

use super::connection::{Child, Connection};
use super::credentials::{LocalProof, RemoteProof};
use crate::suite::{Algorithms, Group};

/// Most connections.
pub(crate) const MAX_CONNECTIONS: usize = 1 << 16;
/// Most connections that give inner addresses.
pub(crate) const MAX_GIVING: usize = 256;
/// Most children of a connection.
const MAX_CHILDREN: usize = 256;

/// The reason why parameters were refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadParams {
    /// There are too many connections.
    #[error("{0} connections, allowed are {MAX_CONNECTIONS}")]
    Count(usize),
    /// There are too many connections that give inner addresses.
    #[error("{0} connections give inner addresses, allowed are {MAX_GIVING}")]
    Giving(usize),
    /// A connection has no proposals for IKE.
    #[error("connection {0}: proposals for IKE are needed, such as aes256gcm16-prfsha256-x25519")]
    NoProposals(String),
    /// A connection has no children, or too many.
    #[error("connection {connection}: {count} children, allowed are 1 to {MAX_CHILDREN}")]
    Children {
        /// The connection.
        connection: String,
        /// The number of children.
        count: usize,
    },
    /// A child has no proposals, or no traffic at one of its ends.
    #[error(
        "connection {connection}, child {child}: proposals for ESP and traffic of both ends are needed; a range begins with its least value"
    )]
    Child {
        /// The connection.
        connection: String,
        /// The child.
        child: String,
    },
    /// Two children of a connection have the same name.
    #[error("connection {connection}: two children are named {child}")]
    ChildName {
        /// The connection.
        connection: String,
        /// The child.
        child: String,
    },
    /// A child is to be brought up, and there is no address to initiate to.
    #[error(
        "connection {connection}, child {child}: it cannot be brought up without the address of the peer"
    )]
    NoRemote {
        /// The connection.
        connection: String,
        /// The child.
        child: String,
    },
    /// The connection asks for a part of the protocol that is not there.
    #[error("connection {connection}: {part} not supported yet; leave it out")]
    NotSupported {
        /// The connection.
        connection: String,
        /// The part, with its verb.
        part: &'static str,
    },
    /// Two connections have the same name.
    #[error("two connections are named {0}")]
    Name(String),
    /// Two connections have the same identities, and the same addresses to initiate to.
    #[error("connections {0} and {1} have the same identities and addresses")]
    Identities(String, String),
}

/// Checks a connection by itself.
pub(crate) fn check(connection: &Connection) -> Result<(), BadParams> {
    let name = || connection.name.clone();
    if connection.ike.is_empty() {
        return Err(BadParams::NoProposals(name()));
    }
    let count = connection.children.len();
    if !(1..=MAX_CHILDREN).contains(&count) {
        return Err(BadParams::Children { connection: name(), count });
    }
    let mut names = BTreeSet::new();
    for child in &connection.children {
        check_child(connection, child)?;
        if !names.insert(&child.name) {
            return Err(BadParams::ChildName { connection: name(), child: child.name.clone() });
        }
    }
    match not_supported(connection) {
        Some(part) => Err(BadParams::NotSupported { connection: name(), part }),
        None => Ok(()),
    }
}

fn check_child(connection: &Connection, child: &Child) -> Result<(), BadParams> {
    let (connection_name, name) = (connection.name.clone(), child.name.clone());
    let mut traffic = child.local.iter().chain(&child.remote);
    if child.esp.is_empty()
        || child.local.is_empty()
        || child.remote.is_empty()
        || traffic.any(|one| one.is_empty())
    {
        return Err(BadParams::Child { connection: connection_name, child: name });
    }
    let needs_remote = child.start.is_start() || child.start.is_trap();
    if needs_remote && connection.remotes.is_empty() && !connection.has_names {
        return Err(BadParams::NoRemote { connection: connection_name, child: name });
    }
    Ok(())
}

/// The first part of the protocol that the connection asks for and that is not there.
fn not_supported(connection: &Connection) -> Option<&'static str> {
    let is_long = |own: &Algorithms| own.groups().any(|group| group == Group::MlKem1024);
    // RFC 7383 section 2.3: messages of IKE_SA_INIT are not sent in fragments.
    let is_asked = connection.ike.iter().any(is_long);
    if is_asked {
        return Some("mlkem1024 in place of ke1_mlkem1024, too long for the first message, is");
    }
    let is_eap = matches!(connection.local_auth.proof, LocalProof::Eap(_))
        || matches!(connection.remote_auth.proof, RemoteProof::Eap(_));
    if is_eap && connection.ppk.is_some() {
        return Some("a PPK beside EAP is");
    }
    match (&connection.local_auth.proof, &connection.remote_auth.proof) {
        (LocalProof::Eap(own), RemoteProof::Eap(peers))
            if !own.are_mutual() || own.authenticator.is_some() || peers.users.is_some() =>
        {
            Some(
                "another method than EAP-TLS, or another identity of the authenticator, for both ends alone (RFC 5998) is",
            )
        }
        _ => None,
    }
}

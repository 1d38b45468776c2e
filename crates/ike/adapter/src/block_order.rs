//! `adit block` and `adit allow` for a file of swanctl.

use adit_core::printable;
use adit_host::blocking::{BlockError, BlockOrder};
use adit_ike::machine::{PeerIdentity, is_name_of};
use adit_ike::wire::{IdType, Identification};
use adit_ike_config::{IdentityPattern, is_recognized};

use crate::blocked::list;
use crate::content::{Content, parse};
use crate::files::{Disk, read};
use crate::translate::Planned;
use crate::vici;

/// Keeps a peer out of a file's tunnel, or lets it in again, whether the tunnel runs or not. `None`: it is no file of swanctl.
pub(crate) fn set(order: &BlockOrder<'_>) -> Option<Result<String, BlockError>> {
    let text = read(order.tunnel).ok()?;
    is_recognized(&text).then(|| set_in(order, &text))
}

fn set_in(order: &BlockOrder<'_>, text: &[u8]) -> Result<String, BlockError> {
    let (file, name) = (order.tunnel, printable(order.peer));
    let content = parse(file, text, &Disk::default());
    let content = content.map_err(|failure| BlockError::NoTunnel(failure.to_string()))?;
    let is_line = !order.peer.is_empty() && !order.peer.contains(char::is_control);
    let known = content.planned.iter().map(|planned| knows(planned, order.peer)).max();
    let known = known.filter(|_| is_line).unwrap_or(Known::No);
    if order.is_blocked && known == Known::No {
        let text =
            format!("{}: no connection has the name {name}, or takes a peer of that name", file.display());
        return Err(BlockError::NoSuchPeer(text));
    }
    let names = list(file).set(order.peer, order.is_blocked).map_err(BlockError::Failed)?;
    let place = file.display();
    // A slip of the pen would go unseen.
    let unchecked = match known {
        Known::Any if !order.is_known && !has_password(&content, order.peer) => {
            " No connection names this peer, and one takes any identity: the name could not be checked."
        }
        Known::No | Known::Any | Known::Named => "",
    };
    match vici::tell_blocked(file, &names) {
        Ok(is_running) => Ok(match (order.is_blocked, is_running) {
            (true, true) => format!("{name} is blocked at {place}.{unchecked}"),
            (true, false) => {
                format!(
                    "{name} is blocked at {place}, which does not run, from its next start on.{unchecked}"
                )
            }
            (false, _) => format!("{name} may connect to {place}."),
        }),
        Err(error) => Err(BlockError::Failed(format!(
            "the list has the change, for the next start of {place}, but the running tunnel did not take it: {error}"
        ))),
    }
}

/// Whether a file has a password for that name.
fn has_password(content: &Content, name: &str) -> bool {
    let all = content.parsed.config.passwords.iter().flat_map(|secret| &secret.owners);
    let mut exact = all.filter_map(|owner| match owner {
        IdentityPattern::Exact(identity) => Some(identity),
        _ => None,
    });
    exact.any(|identity| is_name_of(name, identity))
}

/// Whether a file knows the name of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    /// No connection takes such a peer.
    No,
    /// A connection takes any peer.
    Any,
    /// The name is that of a connection, or one that a connection names.
    Named,
}

/// Whether a connection knows the name of a peer.
fn knows(planned: &Planned, name: &str) -> Known {
    let host = |kind| Identification { kind, data: name.as_bytes().to_vec() };
    let accepted = &planned.connection.remote_auth.identity;
    let is_named = planned.connection.name == name
        || match accepted {
            PeerIdentity::Exactly(identity) => is_name_of(name, identity),
            PeerIdentity::Any => {
                return if planned.connection.name == name { Known::Named } else { Known::Any };
            }
            PeerIdentity::EndingWith { .. } => [IdType::FQDN, IdType::RFC822_ADDR, IdType::KEY_ID]
                .iter()
                .any(|kind| accepted.accepts(&host(*kind))),
        };
    if is_named { Known::Named } else { Known::No }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::planned;

    #[test]
    fn a_name_is_that_of_a_connection_or_of_a_peer() {
        let planned = planned("", "");
        for name in ["office", "b.example", "B.example"] {
            assert_eq!(knows(&planned[0], name), Known::Named, "{name}");
        }
        for name in ["net", "a.example", ""] {
            assert_eq!(knows(&planned[0], name), Known::No, "{name}");
        }
    }

    #[test]
    fn a_connection_that_takes_any_identity_knows_no_name_but_its_own() {
        let text = crate::testing::text("", "").replace("id = b.example", "id = %any");
        let planned = crate::translate::connections(&crate::testing::config(&text)).expect("connections");
        assert_eq!(knows(&planned[0], "office"), Known::Named);
        assert_eq!(knows(&planned[0], "slip.example"), Known::Any);
    }
}

//! `adit block` and `adit allow` for a file of swanctl.

use adit_core::printable;
use adit_host::blocking::{BlockError, BlockOrder};
use adit_ike::machine::{PeerIdentity, is_name_of};
use adit_ike::wire::{IdType, Identification};
use adit_ike_config::is_recognized;

use crate::blocked::BlockedFile;
use crate::content::parse;
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
    let is_known = is_line && content.planned.iter().any(|planned| may_be(planned, order.peer));
    if order.is_blocked && !is_known {
        let text =
            format!("{}: no connection has the name {name}, or takes a peer of that name", file.display());
        return Err(BlockError::NoSuchPeer(text));
    }
    let names = BlockedFile::of(file).set(order.peer, order.is_blocked).map_err(BlockError::Failed)?;
    let place = file.display();
    match vici::tell_blocked(file, &names) {
        Ok(is_running) => Ok(match (order.is_blocked, is_running) {
            (true, true) => format!("{name} is blocked at {place}."),
            (true, false) => {
                format!("{name} is blocked at {place}, which does not run, from its next start on.")
            }
            (false, _) => format!("{name} may connect to {place}."),
        }),
        Err(error) => Err(BlockError::Failed(format!(
            "the list has the change, for the next start of {place}, but the running tunnel did not take it: {error}"
        ))),
    }
}

/// Whether a peer of that name may come by a connection.
fn may_be(planned: &Planned, name: &str) -> bool {
    let host = |kind| Identification { kind, data: name.as_bytes().to_vec() };
    let accepted = &planned.connection.remote_auth.identity;
    planned.connection.name == name
        || match accepted {
            PeerIdentity::Exactly(identity) => is_name_of(name, identity),
            PeerIdentity::Any => true,
            PeerIdentity::EndingWith { .. } => [IdType::FQDN, IdType::RFC822_ADDR, IdType::KEY_ID]
                .iter()
                .any(|kind| accepted.accepts(&host(*kind))),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::planned;

    #[test]
    fn a_name_is_that_of_a_connection_or_of_a_peer() {
        let planned = planned("", "");
        let names = ["office", "b.example", "B.example", "net", "a.example", ""];
        assert_eq!(names.map(|name| may_be(&planned[0], name)), [true, true, true, false, false, false]);
    }
}

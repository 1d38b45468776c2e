//! The list of the peers of an interface that `adit block` keeps out, over restarts: a public key a line.

use std::collections::BTreeSet;

use adit_host::blocking::{AtStart, BlockedList};
use adit_host::log::Logger;
use adit_wireguard::PublicKey;

/// The folder of lists in the state directory.
const FOLDER: &str = "wireguard";

/// The list of the interface with this name.
pub(crate) fn list(interface: &str) -> BlockedList {
    BlockedList::of(FOLDER, interface)
}

/// The keys that an interface blocks from its start on, and whether it blocks all: the list cannot be read.
pub(super) fn at_start(list: &BlockedList, log: &mut Logger) -> (BTreeSet<PublicKey>, bool) {
    match BlockedList::at_start(list.read_as(PublicKey::from_base64, "public key in base64"), log) {
        AtStart::Listed(keys) => (keys, false),
        AtStart::All => (BTreeSet::new(), true),
    }
}

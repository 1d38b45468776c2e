//! Peers that are kept out of a tunnel: `adit block`, `adit allow`, `adit revoke`.

mod list;

use std::path::Path;

pub use self::list::{AtStart, BlockedList};

/// An order to keep a peer out of a tunnel, or to let it in again, also after the tunnel starts anew.
#[derive(Clone, Copy, Debug)]
pub struct BlockOrder<'a> {
    /// The file of the tunnel, or a name that the protocol's own programs give it.
    pub tunnel: &'a Path,
    /// The name of the peer.
    pub peer: &'a str,
    /// The peer is kept out.
    pub is_blocked: bool,
    /// The caller knows that there is such a peer.
    pub is_known: bool,
}

/// Why an order was not carried out. Each has the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The tunnel has no peer of that name.
    NoSuchPeer(String),
    /// There is no such tunnel, or its file is wrong.
    NoTunnel(String),
    /// Something in the world stood in the way.
    Failed(String),
}

//! A small protocol of its own, for tests: the proof that a new protocol needs no change in core, data plane or driver.
//!
//! It is no protocol to use: its keys have no forward secrecy. But it has the properties that VPN protocols have and
//! the others in this workspace lack:
//!
//! - two sockets with rules of their own, as IKEv2 has on ports 500 and 4500: one for control messages alone, and one for
//!   data, on which a control message has a marker in front ([`wire`]);
//! - peers whose endpoints are unknown until an authentic datagram shows them, and peers that roam;
//! - packets that wait for the handshake which they cause ([`adit_core::Notice::Wanted`]);
//! - sessions that are replaced by time or number, and expire;
//! - counters of 64 bits, of which 32 are on the wire (RFC 4303 §2.2.1);
//! - several series of sessions with a peer, each with selectors, of which one session each seals at once;
//! - keepalives apart from data.
//!
//! A handshake is two messages, each authenticated by HMAC-SHA256 with a pre-shared key; the data keys come from the same key
//! and the nonces of both ends by HKDF (RFC 5869). As in WireGuard, an initiation bears a timestamp that must grow, and
//! the responder seals with a new session only after it has opened something with it.
//!
//! [`Endpoint`] is the machine, for either role. The data plane's part is the crate `adit-toy-codec`: protocols do not
//! import the data plane.
#![forbid(unsafe_code)]

mod endpoint;
mod keys;
mod peer;
mod ports;
mod series;
mod settings;
pub mod wire;

use std::fmt;
use std::sync::Arc;

use adit_core::{Instant, Selector};
use zeroize::Zeroizing;

pub use endpoint::Endpoint;
pub use ports::{LocalAddresses, Port, PortSockets};
pub use settings::{PeerSettings, Remotes, Settings};

/// The parameters of a session's codec.
#[derive(Clone)]
pub struct Codec {
    /// The index that the peer chose; in front of sent datagrams.
    pub remote_index: u32,
    /// The ChaCha20-Poly1305 key of sent datagrams.
    pub seal_key: Zeroizing<[u8; 32]>,
    /// The ChaCha20-Poly1305 key of received datagrams.
    pub open_key: Zeroizing<[u8; 32]>,
    /// The counter of the first datagram that we send.
    pub first_counter: u64,
    /// How many datagrams until a new session is due.
    pub rekey_after_datagrams: u64,
    /// The packets that the session may carry; everything, if there are none.
    pub selectors: Arc<[Selector]>,
    /// When it seals and opens no more.
    pub expires: Instant,
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").field("remote_index", &self.remote_index).finish_non_exhaustive()
    }
}

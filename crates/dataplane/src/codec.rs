//! Wire formats as values: how a sealed packet looks on the wire, and which session or protocol a received datagram
//! belongs to.
//!
//! The rest of the data plane knows three traits and no format. A session is installed with a [`SessionCodec`]: a
//! [`Sealer`] for one half of the data plane, an [`Opener`] for the other. A socket has a [`Demultiplexer`]. The formats
//! are in crates of their own, one with each protocol.
//!
//! Most formats have one key for each direction and one counter. They implement [`Encode`] and [`Decode`] and leave
//! counters, limits of use, and the replay window to [`CountingSealer`] and [`WindowedOpener`].

mod demultiplexer;
mod halves;
mod open;
mod seal;

use std::fmt;
use std::sync::Arc;

use adit_core::{Instant, Selector};

pub use self::demultiplexer::{Class, Demultiplexer, Steering, StreamAdvice};
pub use self::halves::{OpenSession, SealSession};
pub use self::open::{Decode, NotInPlace, Opened, Opener, Plain, WindowedOpener};
pub use self::seal::{CountingSealer, Encode, Layout, Place, Run, Sealer, UsageLimits};
use crate::outer::OuterPolicy;
pub use crate::replay::{Freshness, Window};
use crate::selectors::Selectors;

/// Failed tags after which a session opens no more (RFC 9001 §6.6 has 2^36 for ChaCha20-Poly1305, and no
/// lower a figure would do for GCM with datagrams of ours).
pub const FAILED_TAGS_MAX: u64 = 1 << 36;
/// Failed tags after which new keys are due.
pub const FAILED_TAGS_WARN: u64 = 1 << 35;
/// GCM blocks and packets under one key: an attacker then tells ciphertexts from random bytes with a chance of 2^-57
/// (draft-irtf-cfrg-aead-limits §5.1.1).
pub const GCM_MAX: u64 = (1 << 36) - 1;
/// When new keys are due, where a session has one key: at 7/8 of them.
const GCM_WARN: u64 = GCM_MAX / 8 * 7;

/// The blocks and packets that a datagram of that length takes of a key's limit: one block for the authenticated header, one
/// for the packet.
#[inline]
pub fn blocks(datagram: usize) -> u64 {
    (datagram as u64).div_ceil(16) + 2
}

/// Both directions of a session, ready for use: the keys are expanded, and the secrets that they were made
/// from are gone.
pub struct SessionCodec {
    /// Seals sent packets.
    pub seal: Box<dyn Sealer>,
    /// Opens received datagrams.
    pub open: Box<dyn Opener>,
    /// Whether a payload is a keepalive: it is counted apart from data, and says only that the peer is there.
    pub is_keepalive: fn(&[u8]) -> bool,
    /// The time from which nothing is sealed or opened any more.
    pub expires: Option<Instant>,
    /// Whether the peer's datagrams bear the number that [`Demultiplexer::steering`] goes by. If not, the kernel brings
    /// it to the first worker, which then serves the peer.
    pub steered: bool,
    /// The relation of the IP headers around the datagrams to the packets inside.
    pub outer: OuterPolicy,
    /// The packets that it seals and opens. `None`: all.
    pub selectors: Option<Arc<Selectors>>,
}

impl SessionCodec {
    /// A codec whose keepalives are empty payloads, that does not expire, whose datagrams can be steered, and whose outer
    /// headers do not depend on the packets inside.
    pub fn new(seal: Box<dyn Sealer>, open: Box<dyn Opener>) -> Self {
        SessionCodec {
            seal,
            open,
            is_keepalive: <[u8]>::is_empty,
            expires: None,
            steered: true,
            outer: OuterPolicy::default(),
            selectors: None,
        }
    }

    /// The codec of a session that seals and opens only packets that one of the selectors matches; others count as
    /// [`crate::DropReason::NotSelected`]. Messages of the protocol's own are not judged.
    #[must_use]
    pub fn with_selectors(self, selectors: impl AsRef<[Selector]>) -> Self {
        SessionCodec { selectors: Some(Arc::new(Selectors::new(selectors.as_ref()))), ..self }
    }

    /// The parts of the codec for the two halves of the data plane.
    pub(crate) fn halves(self) -> (SealSession, OpenSession) {
        let SessionCodec { seal, open, is_keepalive, expires, outer, selectors, .. } = self;
        let seal = SealSession { codec: seal, is_keepalive, expires, outer, selectors: selectors.clone() };
        (seal, OpenSession { codec: open, is_keepalive, expires, outer, selectors })
    }
}

impl fmt::Debug for SessionCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCodec").field("steered", &self.steered).finish_non_exhaustive()
    }
}

//! Which session, or which protocol, a datagram belongs to.

use std::fmt;

use adit_core::{PeerId, SessionId};

/// The kind of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A datagram for the protocol.
    Control,
    /// Data of that session.
    Session(SessionId),
    /// Data of the peer whose path it came by; [`Demultiplexer::session_of`] says of which of its sessions.
    Path,
    /// A datagram that keeps a NAT or a firewall on its way open: it is dropped and not counted.
    Ignored,
    /// A datagram that is none of these.
    Malformed,
}

/// Tells apart the datagrams that arrive at a socket. Each socket has one; the same value may serve several.
pub trait Demultiplexer: fmt::Debug + Send + Sync {
    /// The kind of a datagram. Called once a datagram, before anything of it is authenticated.
    fn classify(&self, datagram: &[u8]) -> Class;

    /// The session of a datagram that was classified as [`Class::Path`] and came from that peer. The default is for
    /// formats without such datagrams: no session.
    fn session_of(&self, peer: PeerId, datagram: &[u8]) -> Option<SessionId> {
        let _ = (peer, datagram);
        None
    }

    /// Whether a peer may turn up on any path, other streams among them, because only its key identifies it.
    fn follows_streams(&self) -> bool {
        false
    }

    /// The longest record, in bytes, on a stream that no peer uses yet. `None`: as long as any record.
    fn longest_first_record(&self) -> Option<usize> {
        None
    }

    /// Whether a stream that a peer opened is of this format, by its first three bytes, or fewer if the peer sends no more.
    /// Asked at a port that is shared with another server.
    fn begins_stream(&self, first: &[u8]) -> bool {
        let _ = first;
        true
    }

    /// The causes that the log names for a record of an impossible length.
    fn stream_advice(&self) -> StreamAdvice {
        StreamAdvice {
            lost_step: "it speaks another protocol, or the stream lost its step",
            too_long: "it speaks another protocol",
        }
    }

    /// Whether a datagram is of this format, by its first bytes alone. `None`: any datagram may be of it, so that a socket
    /// can have no other format beside it.
    fn recognises(&self) -> Option<fn(&[u8]) -> bool> {
        None
    }

    /// How the kernel brings a peer's datagrams to the worker that serves the peer. `None`: all go to the first.
    fn steering(&self) -> Option<Steering> {
        None
    }
}

/// Explanations of a stream that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAdvice {
    /// The explanation of a record that no end sends.
    pub lost_step: &'static str,
    /// The explanation of a record that is too long for the first ones.
    pub too_long: &'static str,
}

/// A rule by which a datagram names a worker: if its first byte, masked, is `kind`, then the 32-bit word (big-endian)
/// at `offset`, masked, modulo the number of workers; else, and if it is too short, the first worker. A peer whose
/// datagrams are steered must bear a number there that is its [`PeerId`] modulo the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Which bits of the first byte matter.
    pub kind_mask: u8,
    /// The values of these bits.
    pub kind: u8,
    /// Where the word is, in bytes from the start.
    pub offset: u32,
    /// Which of its bits matter.
    pub mask: u32,
}

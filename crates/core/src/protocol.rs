use thiserror::Error;

use crate::{Command, Event, Instant, Notice, Path, PeerId, PeerInfo, TableUsage};

/// A VPN protocol as a state machine: no I/O, no clock, no randomness of its own (its seed was given at
/// construction).
///
/// After every `handle_*` call (and once after construction) the caller drains [`Protocol::poll_event`], then
/// [`Protocol::poll_transmit`], in that order, so that keys are installed before the peer learns of them; and
/// again both, until neither gives anything: an event that follows the last datagrams on a path comes after
/// them. Then it reads [`Protocol::poll_timeout`]. `now` never goes back.
pub trait Protocol {
    /// A request of the protocol to its adapter, the part of the program that knows this protocol: to run a script, to
    /// ask for a password, to decide on a client. It reaches the adapter as [`Event::Request`].
    type Request;

    /// The adapter's answers to requests, and orders that only this protocol knows.
    type Reply;

    /// The part of a peer in `status` that only this protocol has, beside the part that the peers of all
    /// protocols have ([`PeerInfo`]).
    type Detail;

    /// The parameters of a session for the data plane: its keys and its wire format. The driver's caller knows how to
    /// make the data plane's codec of them, so that neither the protocol nor the data plane imports the other. Keys in
    /// it are zeroized when dropped, and its `Debug` shows none.
    type Codec;

    /// One control datagram (without TCP's length prefix). Data datagrams go to the data plane and never
    /// come here.
    ///
    /// # Errors
    /// Why the datagram was dropped.
    fn handle_datagram(&mut self, now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected>;

    /// How far the sender of a control datagram seems to have come. It is called for many datagrams that wait, so the
    /// answer should cost little beside what [`Protocol::handle_datagram`] does. The default is for protocols with
    /// known peers.
    fn stage_of(&self, path: Path, datagram: &[u8]) -> HandshakeStage {
        let _ = (path, datagram);
        HandshakeStage::Established
    }

    /// An order from the driver or the host.
    fn handle_command(&mut self, now: Instant, command: Command);

    /// An answer or an order from the protocol's adapter.
    fn handle_reply(&mut self, now: Instant, reply: Self::Reply);

    /// Word from the data plane.
    fn handle_notice(&mut self, now: Instant, notice: Notice);

    /// The time given by [`Protocol::poll_timeout`] has come. Harmless when called early.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Protocol::handle_timeout`] is next due. May lie in the past: then it is due now.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Appends the next control datagram to send to `buf` (which the caller cleared) and says where to.
    /// `None` when there is nothing to send.
    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path>;

    /// The next order to the data plane, the driver or the adapter.
    fn poll_event(&mut self) -> Option<Event<Self::Request, Self::Codec, Self::Detail>>;

    /// The peers that are up.
    fn peers(&self) -> Vec<(PeerId, PeerInfo<Self::Detail>)>;

    /// How full the tables are that unauthenticated peers can fill.
    fn tables(&self) -> Vec<TableUsage>;
}

/// How far the sender of a control datagram has come, by the fields that can be read of the datagram at a glance.
/// Nothing of it is authenticated; when many wait, datagrams of each stage have turns of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandshakeStage {
    /// The datagram names a control channel, a handshake or a session that is there.
    Established,
    /// The datagram seems to return a cookie, that is, to answer a message of which nothing was kept.
    Returning,
    /// The datagram asks for an answer, and shows nothing.
    First,
}

/// Why a control datagram was dropped. Dropping changes no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum Rejected {
    /// The datagram does not parse.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// Its authentication does not verify: wrong key, or forged.
    #[error("not authentic: {0}")]
    Unauthentic(&'static str),
    /// The datagram was seen before.
    #[error("replayed")]
    Replayed,
    /// The datagram parses but belongs to no session we have, or has no place in its state.
    #[error("unexpected: {0}")]
    Unexpected(&'static str),
    /// We have no room for another half-open peer now.
    #[error("too many: {0}")]
    Limited(&'static str),
}

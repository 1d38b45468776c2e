//! Control datagrams that were received, and their turns.

use std::time::Duration;

use adit_core::{ConnectionId, HandshakeStage, Instant, Path, Protocol, Rejected, Severity, Transport};

use super::Control;
use crate::clock;
use crate::driver::status::count;

/// Between two lines in the log about datagrams of unauthenticated peers that do not parse or verify, and between two
/// about connections that cannot be forwarded.
pub(super) const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// Datagrams handled before mails are taken again.
const DATAGRAM_BATCH: usize = 32;

/// A control datagram, or an end of a connection, that waits for its turn.
#[derive(Clone, Debug)]
pub(super) enum Waiting {
    Datagram(Path, Vec<u8>),
    /// A connection is broken, and why.
    Broken(ConnectionId, String),
    /// The bytes of a connection cannot be cut into records, and why.
    NotFramed(ConnectionId, String),
}

impl<P: Protocol> Control<'_, P> {
    /// Whether more datagrams wait than are handled in a moment.
    pub(super) fn is_behind(&self) -> bool {
        !self.datagrams.is_empty() || self.mail.waiting() >= DATAGRAM_BATCH
    }

    /// Has a datagram wait for its turn.
    pub(super) fn wait_for_turn(&mut self, path: Path, bytes: Vec<u8>) {
        let path = self.sockets.present_path(path);
        let stage = proved_by(path.transport(), self.protocol.stage_of(path, &bytes));
        if !self.datagrams.offer(stage, path.source_prefix(), Waiting::Datagram(path, bytes)) {
            count(&self.losses.control_full);
        }
    }

    /// Handles some of the datagrams that wait. One that comes meanwhile waits for these.
    pub(super) fn handle_datagrams(&mut self) {
        for _ in 0..DATAGRAM_BATCH {
            if self.ended.is_some() {
                return;
            }
            let Some(waiting) = self.datagrams.take() else { return };
            self.take_turn(clock(), waiting);
            self.pump();
        }
    }

    fn take_turn(&mut self, now: Instant, waiting: Waiting) {
        match waiting {
            // It was closed meanwhile.
            Waiting::Datagram(Path::Tcp { connection, .. }, _)
                if self.connections.path(connection).is_none() =>
            {
                count(&self.losses.no_path);
            }
            Waiting::Datagram(path, bytes) => self.datagram(now, path, &bytes),
            Waiting::Broken(connection, reason) => self.broken(now, connection, reason),
            Waiting::NotFramed(connection, why) => self.not_framed(now, connection, why),
        }
    }

    /// Handles the end of a connection after its datagrams that wait, as the last of them may say why it ends. Where the queue
    /// has no room for the end, that is counted, the end is handled at once, and those datagrams are dropped.
    pub(super) fn end_in_turn(&mut self, now: Instant, connection: ConnectionId, end: Waiting) {
        let source = self.connections.path(connection).map(|path| path.source_prefix());
        if let Some(source) = source.filter(|_| !self.datagrams.is_empty()) {
            if self.datagrams.offer(HandshakeStage::Established, source, end.clone()) {
                return;
            }
            count(&self.losses.control_full);
        }
        self.take_turn(now, end);
    }

    pub(super) fn datagram(&mut self, now: Instant, path: Path, bytes: &[u8]) {
        self.moderation.add(1, now);
        let path = self.sockets.present_path(path);
        if let Err(why) = self.protocol.handle_datagram(now, path, bytes) {
            self.rejected(now, path, why);
        }
    }

    /// Counts a datagram that the protocol did not take. That ends use different keys, or one of them none, would show
    /// nowhere else; but any host can send such datagrams, so the log has few of them.
    fn rejected(&mut self, now: Instant, path: Path, why: Rejected) {
        count(&self.losses.rejected);
        if matches!(why, Rejected::Unauthentic(_) | Rejected::Malformed(_)) {
            self.complain(now, path, format!("dropped a control datagram: {why}"));
        }
    }

    /// Logs the fault of a datagram of an unauthenticated peer, if nothing was logged of such for a while.
    pub(super) fn complain(&mut self, now: Instant, path: Path, text: String) {
        if now >= self.next_complaint {
            self.next_complaint = now + COMPLAIN_EVERY;
            self.report(Severity::Warning, Some(path), text);
        }
    }
}

/// How far a sender has come if its datagram shows `stage`. A connection proves the address of its other end, as a
/// cookie does, so that datagrams that came by one do not wait behind first packets with forged addresses.
const fn proved_by(transport: Transport, stage: HandshakeStage) -> HandshakeStage {
    match (transport, stage) {
        (Transport::Tcp, HandshakeStage::First) => HandshakeStage::Returning,
        (_, stage) => stage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stands_for_a_cookie() {
        use HandshakeStage::{Established, First, Returning};
        let stages = [Established, Returning, First];
        assert_eq!(stages.map(|stage| proved_by(Transport::Udp, stage)), stages);
        assert_eq!(stages.map(|stage| proved_by(Transport::Tcp, stage)), [Established, Returning, Returning]);
    }
}

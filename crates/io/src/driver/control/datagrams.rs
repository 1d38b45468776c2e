//! Control datagrams, received and sent, and their turns.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{ConnectionId, HandshakeStage, Instant, Path, Protocol, Rejected, Severity, Transport};
use adit_dataplane::OuterHeader;

use super::Control;
use crate::clock;
use crate::driver::mail::DataMail;
use crate::driver::status::count;
use crate::udp::Datagrams;

/// Between two lines in the log about what unauthenticated peers sent that does not parse or verify, and between two about
/// connections that cannot be forwarded.
pub(super) const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// Datagrams handled before mails are taken again.
const DATAGRAM_BATCH: usize = 32;
/// Between two lines in the log about datagrams that a listening socket could not send.
const SEND_COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// What waits for its turn.
#[derive(Clone, Debug)]
pub(super) enum Waiting {
    Datagram(Path, Vec<u8>),
    /// A connection is broken, and why.
    Broken(ConnectionId, String),
    /// What came on a connection is not cut into records, and why not.
    NotFramed(ConnectionId, String),
}

impl<P: Protocol> Control<'_, P> {
    /// Whether more datagrams wait than are handled in a moment.
    pub(super) fn is_behind(&self) -> bool {
        !self.datagrams.is_empty() || self.mail.waiting() >= DATAGRAM_BATCH
    }

    /// Has a datagram wait for its turn.
    pub(super) fn wait_for_turn(&mut self, path: Path, bytes: Vec<u8>) {
        let path = self.present_path(path);
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
                if !self.connections.contains_key(&connection) =>
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
        let source = self.connections.get(&connection).map(|path| path.source_prefix());
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
        let path = self.present_path(path);
        if let Err(why) = self.protocol.handle_datagram(now, path, bytes) {
            self.rejected(now, path, why);
        }
    }

    /// Counts a datagram that the protocol did not take. That ends use different keys, or one of them none, would
    /// show nowhere else; but anyone can send such datagrams, so the log hears of few.
    fn rejected(&mut self, now: Instant, path: Path, why: Rejected) {
        count(&self.losses.rejected);
        if matches!(why, Rejected::Unauthentic(_) | Rejected::Malformed(_)) {
            self.complain(now, path, format!("dropped a control datagram: {why}"));
        }
    }

    /// Says in the log what is wrong with what an unauthenticated peer sent, if nothing was said for a while.
    pub(super) fn complain(&mut self, now: Instant, path: Path, text: String) {
        if now >= self.next_complaint {
            self.next_complaint = now + COMPLAIN_EVERY;
            self.report(Severity::Warning, Some(path), text);
        }
    }

    pub(super) fn send(&mut self, path: Path, datagram: &[u8]) {
        match path {
            Path::Udp { socket, remote } => {
                let (number, source) = match self.sockets.contains_key(&socket) {
                    true => (socket, None),
                    false => self.sources.resolve(socket, clock()).unwrap_or((socket, None)),
                };
                let Some(socket) = self.sockets.get(&number).and_then(|group| group.first()) else {
                    return count(&self.losses.no_path);
                };
                if self.transmit_queue.gathers() {
                    let is_full = self.transmit_queue.push(Arc::clone(socket), source, path, datagram);
                    if is_full {
                        self.send_gathered();
                    }
                    return;
                }
                let outer = self.outer_header();
                let datagram = Datagrams { bytes: datagram, segment: datagram.len(), to: remote, outer };
                let result = socket.send_from(source.as_deref(), datagram);
                self.note_send(path, result);
            }
            Path::Tcp { connection, .. } => {
                self.workers.post_first(DataMail::Control { connection, datagram: datagram.to_vec() });
            }
        }
    }

    /// What the IP header around a control datagram has.
    fn outer_header(&self) -> OuterHeader {
        OuterHeader { traffic_class: self.traffic_class, ..OuterHeader::default() }
    }

    /// Sends what was gathered, and gathers no more.
    pub(super) fn flush(&mut self) {
        self.send_gathered();
        self.transmit_queue.gather(false);
    }

    fn send_gathered(&mut self) {
        let mut transmit_queue = std::mem::take(&mut self.transmit_queue);
        let outer = self.outer_header();
        let mut number = 0;
        while let Some(first) = transmit_queue.get(number) {
            let together = transmit_queue.together_with(number);
            number += match first.socket.send_datagrams(outer, first.source, together) {
                0 => {
                    // Alone it waits for room, or says what is wrong with it.
                    let (bytes, to) = (first.bytes, first.path.remote());
                    let alone = Datagrams { bytes, segment: bytes.len(), to, outer };
                    let result = first.socket.send_from(first.source, alone);
                    self.note_send(first.path, result);
                    1
                }
                sent => {
                    self.send_error = None;
                    sent
                }
            };
        }
        transmit_queue.clear();
        self.transmit_queue = transmit_queue;
    }

    /// Reports a failure to send when it is another one than the last time.
    fn note_send(&mut self, path: Path, result: io::Result<()>) {
        let error = match result {
            Ok(()) => return self.send_error = None,
            Err(error) => error,
        };
        count(&self.losses.udp_send);
        // Any sender can cause answers that fail, and others between them that are sent.
        if matches!(path, Path::Udp { socket, .. } if self.is_listening(socket)) {
            let now = clock();
            if now >= self.next_send_complaint {
                self.next_send_complaint = now + SEND_COMPLAIN_EVERY;
                self.report(Severity::Warning, Some(path), format!("cannot send: {error}"));
            }
            return;
        }
        if self.send_error != Some(error.kind()) {
            self.send_error = Some(error.kind());
            self.report(Severity::Warning, Some(path), format!("cannot send: {error}"));
        }
    }
}

/// How far a sender has come if what its datagram shows is `stage`. A connection proves the address of its other end, as a
/// cookie does, so that what came by one does not wait behind first packets with forged addresses.
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

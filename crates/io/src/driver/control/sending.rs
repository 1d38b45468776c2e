//! Control datagrams that are sent.

use std::io;
use std::time::Duration;

use adit_core::{Path, Protocol, Severity};

use super::Control;
use crate::clock;
use crate::driver::mail::DataMail;
use crate::driver::status::count;
use crate::udp::Datagrams;

/// Between two lines in the log about datagrams that a listening socket could not send.
const SEND_COMPLAIN_EVERY: Duration = Duration::from_secs(60);

impl<P: Protocol> Control<'_, P> {
    pub(super) fn send(&mut self, path: Path, datagram: &[u8]) {
        match path {
            Path::Udp { socket, remote } | Path::Ip { socket, remote, .. } => {
                let Some((socket, source)) = self.sockets.sender(socket) else {
                    return count(&self.losses.no_path);
                };
                if self.sockets.transmit_queue.gathers() {
                    let is_full = self.sockets.transmit_queue.push(socket, source, path, datagram);
                    if is_full {
                        self.send_gathered();
                    }
                    return;
                }
                let outer = self.sockets.outer_header();
                let datagram = Datagrams { bytes: datagram, segment: datagram.len(), to: remote, outer };
                let result = socket.send_from(source.as_deref(), datagram);
                self.note_send(path, result);
            }
            Path::Tcp { connection, .. } => {
                self.workers.post_first(DataMail::Control { connection, datagram: datagram.to_vec() });
            }
        }
    }

    /// Sends the gathered datagrams, and gathers no more.
    pub(super) fn flush(&mut self) {
        self.send_gathered();
        self.sockets.transmit_queue.gather(false);
    }

    fn send_gathered(&mut self) {
        let mut transmit_queue = std::mem::take(&mut self.sockets.transmit_queue);
        let outer = self.sockets.outer_header();
        let mut number = 0;
        while let Some(first) = transmit_queue.get(number) {
            let together = transmit_queue.together_with(number);
            number += match first.socket.send_datagrams(outer, first.source, together) {
                0 => {
                    // Alone it waits for room, or its error shows.
                    let (bytes, to) = (first.bytes, first.path.remote());
                    let alone = Datagrams { bytes, segment: bytes.len(), to, outer };
                    let result = first.socket.send_from(first.source, alone);
                    self.note_send(first.path, result);
                    1
                }
                sent => {
                    self.sockets.send_error = None;
                    sent
                }
            };
        }
        transmit_queue.clear();
        self.sockets.transmit_queue = transmit_queue;
    }

    /// Reports a failure to send when it is another one than the last time.
    fn note_send(&mut self, path: Path, result: io::Result<()>) {
        let error = match result {
            Ok(()) => return self.sockets.send_error = None,
            Err(error) => error,
        };
        count(&self.losses.udp_send);
        // Any sender can cause answers that fail, and others between them that are sent.
        if path.socket().is_some_and(|socket| self.sockets.is_listening(socket)) {
            let now = clock();
            if now >= self.sockets.next_send_complaint {
                self.sockets.next_send_complaint = now + SEND_COMPLAIN_EVERY;
                self.report(Severity::Warning, Some(path), format!("cannot send: {error}"));
            }
            return;
        }
        if self.sockets.send_error != Some(error.kind()) {
            self.sockets.send_error = Some(error.kind());
            self.report(Severity::Warning, Some(path), format!("cannot send: {error}"));
        }
    }
}

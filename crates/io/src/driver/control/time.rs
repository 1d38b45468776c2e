//! The work that is due by the clock: totals, looks at the device, the protocol's timers.

use adit_core::{Instant, Notice, Protocol, Severity};

use super::{Control, TICK};
use crate::clock;

impl<P: Protocol> Control<'_, P> {
    /// Totals first, so that a peer heard within this second is not taken for silent; then the timers.
    pub(super) fn check_time(&mut self) {
        let now = clock();
        if now >= self.next_tick {
            self.next_tick += TICK;
            if self.next_tick < now {
                self.next_tick = now + TICK;
            }
            self.tell_totals(now);
            // Keys that ended are wiped within a second, though nothing passes.
            self.workers.wake_for_rest();
            self.watch_queue(now);
            self.look_at_path_mtus(now);
            self.close_unprepared(now);
            self.end_undecided(now);
            self.connections.end_rest(&self.poller);
        }
        if self.protocol.poll_timeout().is_some_and(|due| due <= now) {
            self.protocol.handle_timeout(now);
            self.pump();
        }
    }

    /// Logs that the TUN device drops packets, and the remedy.
    fn watch_queue(&mut self, now: Instant) {
        let news = self.network.overflow_news(now, self.tun.name());
        // One of the endpoints says it for all.
        if let Some(text) = news.filter(|_| self.workers.membership().is_first()) {
            self.report(Severity::Warning, None, text);
        }
    }

    /// Sends the protocol the totals of traffic that changed.
    pub(super) fn tell_totals(&mut self, now: Instant) {
        let mut changed = Vec::new();
        for (peer, told) in &mut self.peers {
            if let Some(totals) = self.workers.traffic(*peer)
                && totals != *told
            {
                *told = totals;
                changed.push((*peer, totals));
            }
        }
        for (peer, (received, sent)) in changed {
            let (received_bytes, sent_bytes) = self.workers.traffic_bytes(peer).unwrap_or_default();
            let message_bytes = self.workers.message_bytes(peer).unwrap_or_default();
            let activity = self.workers.activity(peer).unwrap_or_default();
            let notice =
                Notice::Traffic { peer, received, sent, received_bytes, sent_bytes, message_bytes, activity };
            self.protocol.handle_notice(now, notice);
            self.pump();
        }
    }
}

//! Handshakes with a peer.

use std::time::Duration;

use adit_core::{Path, Rejected, Severity};

use super::timers::REKEY_TIMEOUT;
use super::{Peer, Pending, Up};
use crate::crypto::Refused;
use crate::keys::PresharedKey;
use crate::noise::{self, Named};
use crate::shared::Shared;
use crate::wire::{CookieReply, INITIATION_LEN, Initiation, RESPONSE_LEN, Response};

/// Initiations of one peer are this far apart (wireguard-go: `HandshakeInitationRate`, 50 a second).
const INITIATION_INTERVAL: Duration = Duration::from_millis(20);

const UNPROVED: Rejected = Rejected::Unauthentic("the handshake does not verify");

impl Peer {
    /// Sends an initiation, unless the last handshake message is younger than 5 s or the peer cannot be reached.
    /// Without a path the limit of one message in 5 s (`REKEY_TIMEOUT`) does not begin: the first handshake begins as soon as
    /// there is an endpoint.
    ///
    /// A handshake that waits for its response is tried again by the timer alone, which has jitter. If packets that
    /// wait did it as well, each when the 5 s are over, it and an end that does as upstream would go on crossing each other.
    pub(crate) fn initiate(&mut self, shared: &mut Shared, is_retry: bool) {
        if !is_retry {
            self.timers.attempts = 0;
            if self.timers.retry.is_some() {
                return;
            }
        }
        if self.blocked {
            return;
        }
        let Some(path) = self.path else { return self.connect(shared) };
        if self.handshake_sent.is_some_and(|sent| shared.now - sent < REKEY_TIMEOUT) {
            return;
        }
        // A key of low order has no agreement: nothing is ever sent to it.
        let Ok(message) = self.initiation(shared) else { return };
        // Only the initiation goes there: packets follow when the peer has answered.
        let configured = self.configured_path(shared).filter(|_| self.tries_configured);
        shared.send(configured.unwrap_or(path), &message);
        self.sent.handshakes += INITIATION_LEN as u64;
        self.unanswered = self.unanswered.saturating_add(1);
        self.handshake_message_sent(shared);
        self.timers.retry = Some(shared.now + REKEY_TIMEOUT + shared.jitter());
    }

    fn initiation(&mut self, shared: &mut Shared) -> Result<[u8; INITIATION_LEN], Refused> {
        let static_shared = self.static_shared(shared)?;
        let ephemeral = shared.ephemeral()?;
        let own = shared.identity.as_ref().ok_or(Refused)?.pair.public;
        let timestamp = shared.take_timestamp();
        let (timestamp, named) = self.mark_timestamp(shared, timestamp)?;
        self.drop_pending(shared);
        let index = shared.take_index(self.id);
        match noise::initiate(&own, &self.key, &static_shared, ephemeral, timestamp, index) {
            Ok((noise, mut message)) => {
                let had_cookie = self.cookie.is_usable(shared.now);
                self.pending = Some(Box::new(Pending { index, noise, named, had_cookie }));
                self.cookie.add_macs(shared.now, &self.receiver_keys, &mut message);
                Ok(message)
            }
            Err(refused) => {
                shared.free_index(index);
                Err(refused)
            }
        }
    }

    /// Takes an initiation that names this peer, and responds.
    pub(crate) fn take_initiation(
        &mut self,
        shared: &mut Shared,
        path: Path,
        named: Named,
        message: &Initiation<'_>,
    ) -> Result<(), Rejected> {
        if self.blocked {
            return Err(Rejected::Unexpected("the peer is blocked"));
        }
        let static_shared = self.static_shared(shared).map_err(|_| UNPROVED)?;
        let proved = named.prove(&static_shared, message).map_err(|_| UNPROVED)?;
        if self.last_timestamp.is_some_and(|last| proved.timestamp <= last) {
            return Err(Rejected::Replayed);
        }
        if self.initiation_taken.is_some_and(|taken| shared.now - taken < INITIATION_INTERVAL) {
            return Err(Rejected::Limited("initiations of this peer"));
        }
        let timestamp = proved.timestamp;
        let mark = self.read_mark(shared, timestamp).map_err(|_| UNPROVED)?;
        let preshared = mark.key.as_ref().unwrap_or(&self.preshared);
        let ephemeral = shared.ephemeral().map_err(|_| UNPROVED)?;
        let index = shared.take_index(self.id);
        let indices = (index, message.sender());
        let Ok((keys, mut response)) = proved.respond(&ephemeral, preshared, indices) else {
            shared.free_index(index);
            return Err(UNPROVED);
        };
        self.last_timestamp = Some(timestamp);
        self.initiation_taken = Some(shared.now);
        // Where both ends began at once, the handshake of the one with the greater key goes on. Upstream has one place for
        // both, so that neither does, until a retry does not cross another.
        if shared.identity.as_ref().is_none_or(|identity| identity.pair.public < self.key) {
            self.drop_pending(shared);
        }
        // The peer is followed to `path` when it uses the session that comes of it: the initiation may be one that was
        // recorded before we last started.
        self.handshake_message_received(shared, INITIATION_LEN);
        self.begin_as_responder(shared, indices, keys, &mark);
        self.cookie.add_macs(shared.now, &self.receiver_keys, &mut response);
        shared.send(path, &response);
        self.sent.handshakes += RESPONSE_LEN as u64;
        self.handshake_message_sent(shared);
        Ok(())
    }

    /// Takes the response to our initiation.
    pub(crate) fn take_response(
        &mut self,
        shared: &mut Shared,
        path: Path,
        message: &Response<'_>,
    ) -> Result<(), Rejected> {
        let pending = self.pending.as_ref().filter(|pending| pending.index == message.receiver());
        let pending = pending.ok_or(Rejected::Unexpected("no initiation waits for this response"))?;
        let identity = shared.identity.as_ref().ok_or(Rejected::Unexpected("there is no private key"))?;
        let finish = |preshared: &PresharedKey| pending.noise.finish(&identity.pair, preshared, message);
        let with_named = pending.named.as_ref().map(finish).and_then(Result::ok);
        let post_quantum = with_named.is_some();
        let keys = with_named.map_or_else(|| finish(&self.preshared), Ok).map_err(|_| UNPROVED)?;
        let indices = (pending.index, message.sender());
        // Its index is the session's from now on.
        let named = self.pending.take().and_then(|pending| pending.named);
        self.set_path(shared, path);
        self.handshake_message_received(shared, RESPONSE_LEN);
        if let Some(named) = &named {
            self.named_key_was_used(named, post_quantum);
        }
        let session = self.begin_as_initiator(shared, indices, keys, post_quantum);
        self.handshake_complete(shared);
        // Proves to the responder that we have the keys. Packets that waited went before it.
        self.send_keepalive(shared);
        self.session_began(shared, session, named.is_some() && !post_quantum);
        Ok(())
    }

    /// Takes the cookie for our next message. Where it came from says nothing about where the peer is.
    ///
    /// If the initiation that waits had none, the next goes out at once, and not after the 5 s of upstream's retry (§5.3 of the
    /// whitepaper): under load every peer would wait so long. As a cookie is used for 115 s, that is one initiation more
    /// in that time.
    pub(crate) fn take_cookie(
        &mut self,
        shared: &mut Shared,
        reply: &CookieReply<'_>,
    ) -> Result<(), Rejected> {
        let taken = self.cookie.take(shared.now, &self.receiver_keys, reply);
        taken.map_err(|_| Rejected::Unauthentic("the cookie answers none of our messages"))?;
        if self.pending.as_ref().is_some_and(|pending| !pending.had_cookie) {
            self.handshake_sent = None;
            self.initiate(shared, true);
        }
        Ok(())
    }

    fn handshake_message_sent(&mut self, shared: &Shared) {
        self.handshake_sent = Some(shared.now);
        self.sent_anything(shared.now);
    }

    fn handshake_message_received(&mut self, shared: &Shared, len: usize) {
        self.received.handshakes += len as u64;
        self.heard.note_handshake(shared.now);
        self.timers.unanswered = None;
        self.stream_is_good();
        self.restart_persistent(shared.now);
    }

    /// Both ends have the keys.
    pub(super) fn handshake_complete(&mut self, shared: &mut Shared) {
        self.timers.handshake_complete();
        self.unanswered = 0;
        self.tries_configured = false;
        let last_handshake_wall = shared.timestamps.wall(shared.now);
        match &mut self.up {
            Some(up) => {
                up.last_handshake = shared.now;
                up.last_handshake_wall = last_handshake_wall;
                up.handshakes += 1;
            }
            None => {
                let (since, last_handshake) = (shared.now, shared.now);
                let (handshakes, announced) = (1, false);
                self.up = Some(Up { since, last_handshake, last_handshake_wall, handshakes, announced });
            }
        }
        self.announce(shared);
    }

    /// No initiation was answered.
    pub(super) fn give_up(&mut self, shared: &mut Shared) {
        self.timers.give_up(shared.now);
        self.wanted = false;
        let text =
            format!("{}: no initiation was answered; the next packet for it tries again", self.called());
        shared.report(Severity::Info, self.path, text);
    }
}

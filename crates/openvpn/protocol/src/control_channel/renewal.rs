//! How key exchanges follow each other, and which keys seal.
//!
//! # Which keys seal, and from when until when
//!
//! Each end opens with the keys of every exchange that is complete and not yet retired. It seals with one set:
//!
//! - The first exchange's keys seal at once.
//! - Later keys seal from the moment that `min(hand-window, reneg-sec / 2)` has passed since their exchange began
//!   (OpenVPN ssl.c `auth_deferred_expire_window`), and [`SETTLING`] since it was complete here, provided that the
//!   peer is known to have them ([`KeyState::is_confirmed`]).
//! - They seal at once when the peer sealed with them, or began the exchange after theirs: OpenVPN 2 then drops the
//!   keys before them.
//! - Keys never go back: keys that newer ones overtook do not seal any more.
//!
//! Keys open until `tran-window` after a later exchange was complete, or until two later ones exist.
//!
//! `docs/measure/OPENVPN-PEERS.md` describes the behaviour of OpenVPN 2, OpenVPN 3 and MirageVPN.
//!
//! # A renegotiation that does not end
//!
//! While older keys serve, a renegotiation that is late ends no tunnel:
//!
//! - The peer does not know of it: it begins again under the same key id, which is the one that the peer expects.
//! - The client has not acknowledged all of it: the keys go on to open, and it counts as one that the peer knows of.
//! - The peer knows of it: the peer's own timer ends it there, too. OpenVPN 3 then begins the next key id, OpenVPN 2 a
//!   new control channel beside this one. A server waits for that and begins the next key id by itself after one more
//!   `hand-window`; when that comes to nothing, it sends the client RESTART. A client connects anew.
//! - All attempts together may take `tran-window`, as long as OpenVPN 2 keeps keys beside an unfinished renegotiation.

use std::time::Duration;

use adit_core::Instant;
use rand_core::RngCore;

use super::{Activation, ControlChannel, ControlOutput, Exchange, MAX_KEY_ID, MAX_KEY_STATES};
use crate::key_state::{KeyState, KeyStateError};
use crate::params::ControlParams;
use crate::wire::{ControlBody, Header, Opcode, TlsRole};

/// Attempts in a row that the peer knew of and that did not end, after which a server sends the client away.
const MAX_UNFINISHED: u32 = 2;
/// How long keys wait at least for the peer to have them: our last acknowledgement may have to be repeated, which takes
/// OpenVPN's first retransmission (2 s) and a round trip.
const SETTLING: Duration = Duration::from_secs(5);

impl ControlChannel {
    pub(super) fn start_exchange(
        &mut self,
        now: Instant,
        key_id: u8,
        reset: Option<Opcode>,
    ) -> Result<(), KeyStateError> {
        let hello = self.hello.as_ref().map(|hello| {
            let mut hello = hello.clone();
            hello.source = crate::key_state::key_source(&mut self.rng, self.role);
            hello
        });
        let shape = self.packet_shape(key_id);
        let state = KeyState::new(now, self.role, key_id, reset, &self.params, hello, shape)?;
        // A peer in a hurry has the keys after the oldest, or it could not begin a third exchange.
        while self.exchanges.len() >= MAX_KEY_STATES {
            self.drop_oldest();
        }
        if key_id > 0 {
            self.unfinished_since.get_or_insert(now);
        }
        self.newest_key_id = key_id;
        // Most clients of a server have one. A vector makes room for four elements of this size at once: 3 KiB a client more.
        self.exchanges.reserve_exact(1);
        self.exchanges.push(Exchange { state, activation: Activation::Pending(now), retire_at: None });
        Ok(())
    }

    /// Retires the keys of the oldest exchange. If we seal with them, the next ones take over.
    pub(super) fn drop_oldest(&mut self) {
        let oldest = self.exchanges.remove(0);
        if !self.exchanges.iter().any(|exchange| exchange.activation == Activation::Done) {
            self.activate(0);
        }
        self.outputs.push_back(ControlOutput::Retire { key_id: oldest.state.key_id });
    }

    pub(super) fn next_key_id(&self) -> u8 {
        if self.newest_key_id < MAX_KEY_ID { self.newest_key_id + 1 } else { 1 }
    }

    /// Whether the peer's SOFT_RESET begins an exchange, of which there is none with its key id.
    pub(super) fn is_beginning(&self, header: Header, body: &ControlBody) -> bool {
        let first = header.opcode == Opcode::SoftReset && body.packet_id == Some(0);
        let Some(newest) = self.exchanges.last() else { return false };
        // OpenVPN 3 gives up an exchange of its own and begins the next one. While the first exchange is unfinished,
        // there are no keys to go on with.
        let may_follow = newest.state.is_established() || self.exchanges.len() > 1;
        // We gave that attempt up, and the peer begins it again.
        let again = header.key_id == self.newest_key_id && newest.state.key_id != self.newest_key_id;
        first && may_follow && (again || header.key_id == self.next_key_id())
    }

    /// The peer begins an exchange.
    pub(super) fn begin_for_peer(&mut self, now: Instant, key_id: u8) -> Result<(), KeyStateError> {
        if self.is_overdue(now) {
            self.say_restart(now);
            return Err(KeyStateError::Peer(format!(
                "it began renegotiations for {} s (tran-window) and finished none",
                self.params.rekey.transition.as_secs()
            )));
        }
        if let Some(newest) = self.exchanges.last() {
            if !newest.state.is_established() {
                self.drop_unfinished(self.exchanges.len() - 1);
            } else if newest.state.is_confirmed() {
                self.activate(self.exchanges.len() - 1);
            }
        }
        self.start_exchange(now, key_id, Some(Opcode::SoftReset))
    }

    pub(super) fn established(&mut self, now: Instant, index: usize) {
        let exchange = &mut self.exchanges[index];
        let key_id = exchange.state.key_id;
        let at = match key_id {
            // There are no older keys to wait on.
            0 => now,
            _ if exchange.state.is_used() => now,
            _ => {
                let delay = switch_delay(&self.params);
                (exchange.state.started + delay).max(now + delay.min(SETTLING))
            }
        };
        exchange.activation = Activation::Pending(at);
        let retire_at = now + self.params.rekey.transition;
        for old in self.exchanges.iter_mut().take(index) {
            old.retire_at.get_or_insert(retire_at);
        }
        self.reneg_at = self.reneg_after.map(|after| now + after);
        self.outputs.push_back(ControlOutput::Established { key_id });
        self.activate_due(now);
    }

    /// Starts new keys, unless newer ones than those we seal with exist or are being made: another exchange
    /// would push out keys that one of the ends still seals with. Says whether it did.
    pub(crate) fn rekey(&mut self, now: Instant) -> bool {
        let settled = self.agreed && !self.failed;
        let over = |newest: &Exchange| newest.activation == Activation::Done || newest.state.is_given_up();
        if !settled || !self.exchanges.last().is_some_and(over) {
            return false;
        }
        let key_id = self.next_key_id();
        if let Err(error) = self.start_exchange(now, key_id, Some(Opcode::SoftReset)) {
            self.fail(now, error);
        }
        true
    }

    /// Renegotiates: its time has come, or the present keys do not fit a new path. While it is not possible, it is tried again
    /// later.
    pub(crate) fn renegotiate_by_time(&mut self, now: Instant) {
        self.reneg_at = None;
        if !self.rekey(now) && !self.failed {
            self.reneg_at = Some(now + self.params.rekey.handshake);
        }
    }

    /// The peer sealed with these keys, so it has them: no need to wait any longer.
    pub(crate) fn confirm(&mut self, now: Instant, key_id: u8) {
        let found = self.exchanges.iter_mut().find(|exchange| exchange.state.key_id == key_id);
        if let Some(exchange) = found {
            exchange.state.confirm();
            if exchange.state.is_established() && exchange.activation != Activation::Done {
                exchange.activation = Activation::Pending(now);
            }
        }
        self.activate_due(now);
    }

    /// Once the newest keys are confirmed, attempts that failed are forgotten. The next renegotiation is one of its own: OpenVPN
    /// 3 drops keys that are not its primary ones yet when the next are made.
    fn settle_attempts(&mut self, now: Instant) {
        let latest = |newest: &Exchange| newest.state.key_id == self.newest_key_id;
        if !self.exchanges.last().is_some_and(|newest| latest(newest) && newest.state.is_confirmed()) {
            return;
        }
        self.unfinished_since = None;
        if std::mem::take(&mut self.unfinished) > 0 {
            self.reneg_at = self.reneg_after.map(|after| now + after);
        }
    }

    /// Makes the changes that follow from the state of the exchanges.
    pub(super) fn activate_due(&mut self, now: Instant) {
        self.settle_attempts(now);
        let is_due = |exchange: &Exchange| {
            let due = matches!(exchange.activation, Activation::Pending(at) if at <= now);
            let state = &exchange.state;
            due && state.is_established() && (state.key_id == 0 || state.is_confirmed())
        };
        if let Some(index) = self.exchanges.iter().rposition(is_due) {
            self.activate(index);
        }
    }

    /// Seals with these keys from now on, and never again with older ones.
    fn activate(&mut self, index: usize) {
        let overtaken = |exchange: &Exchange| exchange.activation == Activation::Done;
        if self.exchanges.iter().skip(index).any(overtaken) {
            return;
        }
        let Some(exchange) = self.exchanges.get(index).filter(|exchange| exchange.state.is_established())
        else {
            return;
        };
        let key_id = exchange.state.key_id;
        self.exchanges.iter_mut().take(index + 1).for_each(|exchange| exchange.activation = Activation::Done);
        self.outputs.push_back(ControlOutput::Activate { key_id });
    }

    /// An exchange did not end within `hand-window`.
    pub(super) fn give_up_late(&mut self, now: Instant, index: usize) {
        let serves = |exchange: &Exchange| exchange.state.is_established();
        if !self.exchanges.iter().take(index).any(serves) {
            self.fall_silent();
            return self.time_out();
        }
        let (known, key_id) = match self.exchanges[index].state.is_established() {
            // The client may have the keys, and only its acknowledgements be lost.
            true => {
                self.exchanges[index].state.give_up();
                (true, self.exchanges[index].state.key_id)
            }
            false => self.drop_unfinished(index),
        };
        self.unfinished += u32::from(known);
        let again = match (known, self.role) {
            (true, TlsRole::Client) => false,
            (true, TlsRole::Server) => self.unfinished < MAX_UNFINISHED,
            (false, _) => true,
        };
        if !again || self.is_overdue(now) {
            self.say_restart(now);
            return self.time_out();
        }
        self.outputs.push_back(ControlOutput::Unfinished { known });
        if known {
            self.reneg_at = Some(now + self.params.rekey.handshake);
        } else if let Err(error) = self.start_exchange(now, key_id, Some(Opcode::SoftReset)) {
            self.fail(now, error);
        }
    }

    /// Drops an exchange that is not complete. Gives whether the peer knew of it, and its key id.
    fn drop_unfinished(&mut self, index: usize) -> (bool, u8) {
        let KeyState { key_id, .. } = self.exchanges[index].state;
        let known = self.exchanges.remove(index).state.is_known_to_peer();
        self.outputs.push_back(ControlOutput::Retire { key_id });
        (known, key_id)
    }

    /// Whether attempts to renegotiate have taken as long as old keys may serve.
    fn is_overdue(&self, now: Instant) -> bool {
        self.unfinished_since.is_some_and(|since| now >= since + self.params.rekey.transition)
    }

    /// A client whose control channel ends here shall connect anew at once, not when it misses us.
    fn say_restart(&mut self, now: Instant) {
        match self.role {
            TlsRole::Server => self.send_message(now, "RESTART"),
            TlsRole::Client => self.fall_silent(),
        }
    }
}

/// How long after the start of a renegotiation we stay on the old keys.
fn switch_delay(params: &ControlParams) -> Duration {
    match params.rekey.after {
        Some(reneg) => params.rekey.handshake.min(reneg / 2),
        None => params.rekey.handshake,
    }
}

/// A server renegotiates up to a tenth early, so that clients that came together do not return together
/// (OpenVPN options.c `renegotiate_seconds_min`).
pub(super) fn jittered(reneg: Duration, role: TlsRole, rng: &mut impl RngCore) -> Duration {
    match role {
        TlsRole::Client => reneg,
        TlsRole::Server => reneg - reneg.mul_f64(f64::from(rng.next_u32()) / f64::from(u32::MAX) / 10.0),
    }
}

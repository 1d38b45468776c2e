//! How key exchanges follow each other, and keys come into use.

use std::time::Duration;

use adit_core::Instant;
use rand_core::RngCore;

use super::{Activation, Exchange, MAX_KEY_ID, MAX_KEY_STATES, Session, SessionOutput};
use crate::key_state::{KeyState, KeyStateError};
use crate::params::ControlParams;
use crate::wire::{Opcode, Role};

impl Session {
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
        // One old exchange is kept beside the current one; an older one goes now.
        while self.exchanges.len() >= MAX_KEY_STATES {
            let oldest = self.exchanges.remove(0);
            // A peer in a hurry: the exchange after it is complete at both ends, or there were no third one.
            if let Some(next) = self.exchanges.first_mut()
                && next.activation != Activation::Done
            {
                next.activation = Activation::Done;
                self.outputs.push_back(SessionOutput::Activate { key_id: next.state.key_id });
            }
            self.outputs.push_back(SessionOutput::Retire { key_id: oldest.state.key_id });
        }
        self.exchanges.push(Exchange { state, activation: Activation::Pending(now), retire_at: None });
        Ok(())
    }

    pub(super) fn next_key_id(&self) -> u8 {
        match self.exchanges.last().map(|newest| newest.state.key_id) {
            Some(id) if id < MAX_KEY_ID => id + 1,
            _ => 1,
        }
    }

    pub(super) fn established(&mut self, now: Instant, index: usize) {
        let params = &self.params;
        let first = self.exchanges.len() == 1;
        let exchange = &mut self.exchanges[index];
        // The peer may not have these keys yet: it makes them once it has our last acknowledgement (OpenVPN
        // ssl.c `auth_deferred_expire_window`). The first exchange has no older keys to wait on.
        let grace = if first { Duration::ZERO } else { switch_delay(params) };
        exchange.activation = Activation::Pending(exchange.state.started + grace);
        let key_id = exchange.state.key_id;
        let retire_at = now + params.tran_window;
        for old in self.exchanges.iter_mut().take(index) {
            old.retire_at.get_or_insert(retire_at);
        }
        self.reneg_at = self.reneg_after.map(|after| now + after);
        self.outputs.push_back(SessionOutput::Established { key_id });
        self.activate_due(now);
    }

    /// Starts new keys, unless newer ones than those we seal with exist or are being made: one exchange more
    /// would push out keys that one of the ends still seals with.
    pub(crate) fn rekey(&mut self, now: Instant) {
        let settled = self.agreed && !self.failed;
        if !settled || !self.exchanges.last().is_some_and(|newest| newest.activation == Activation::Done) {
            return;
        }
        let key_id = self.next_key_id();
        if let Err(error) = self.start_exchange(now, key_id, Some(Opcode::SoftReset)) {
            self.fail(now, error);
        }
    }

    /// The peer sealed with these keys, so it has them: no need to wait any longer.
    pub(crate) fn confirm(&mut self, now: Instant, key_id: u8) {
        for exchange in &mut self.exchanges {
            if exchange.state.key_id == key_id
                && exchange.state.is_established()
                && exchange.activation != Activation::Done
            {
                exchange.activation = Activation::Pending(now);
            }
        }
        self.activate_due(now);
    }

    pub(super) fn activate_due(&mut self, now: Instant) {
        for exchange in &mut self.exchanges {
            let due = matches!(exchange.activation, Activation::Pending(at) if at <= now);
            if due && exchange.state.is_established() {
                exchange.activation = Activation::Done;
                self.outputs.push_back(SessionOutput::Activate { key_id: exchange.state.key_id });
            }
        }
    }
}

/// How long after the start of a renegotiation we stay on the old keys.
fn switch_delay(params: &ControlParams) -> Duration {
    match params.reneg {
        Some(reneg) => params.hand_window.min(reneg / 2),
        None => params.hand_window,
    }
}

/// A server renegotiates up to a tenth early, so that clients that came together do not return together
/// (OpenVPN options.c `renegotiate_seconds_min`).
pub(super) fn jittered(reneg: Duration, role: Role, rng: &mut impl RngCore) -> Duration {
    match role {
        Role::Client => reneg,
        Role::Server => reneg - reneg.mul_f64(f64::from(rng.next_u32()) / f64::from(u32::MAX) / 10.0),
    }
}

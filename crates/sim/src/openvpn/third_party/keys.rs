//! Which keys a third-party client has, and which of them it seals with.

use std::time::Duration;

use adit_core::Instant;
use adit_openvpn::wire::{ControlBody, Header, Sid};

use super::exchange::Exchange;
use super::{Implementation, Params};

/// Key ids are 3 bits; 0 is the first exchange's only.
const MAX_KEY_ID: u8 = 7;
/// `reneg-sec 0` in OpenVPN 3: a week.
const NEVER: Duration = Duration::from_secs(7 * 86_400);

/// A change in the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Install(u8),
    Seal(u8),
    Drop(u8),
}

/// A key, and the state of its exchange.
struct Context {
    exchange: Exchange,
    installed: bool,
    /// A newer key is complete: it makes no other by itself (OpenVPN 3 `prepare_expire`).
    overtaken: bool,
    /// When it goes.
    expires: Option<Instant>,
}

impl Context {
    fn new(exchange: Exchange) -> Self {
        Context { exchange, installed: false, overtaken: false, expires: None }
    }

    fn key_id(&self) -> u8 {
        self.exchange.key_id()
    }
}

/// The keys of a connection.
pub(super) struct Keys {
    implementation: Implementation,
    hand_window: Duration,
    reneg: Duration,
    /// OpenVPN 3's `become_primary`.
    promotion: Duration,
    tran_window: Duration,
    /// The keys that seal packets and carry control messages.
    primary: Context,
    /// OpenVPN 3: the key being made, the one not yet primary, or the one before. MirageVPN: the one before.
    secondary: Option<Context>,
    /// MirageVPN: the key being made.
    making: Option<Context>,
    next_key_id: u8,
    /// An exchange is to begin with the next key id.
    wants_exchange: bool,
    over: bool,
}

impl Keys {
    pub(super) fn new(params: &Params, first: Exchange) -> Self {
        let reneg = params.reneg.unwrap_or(NEVER);
        Keys {
            implementation: params.implementation,
            hand_window: params.hand_window,
            reneg,
            promotion: params.hand_window.min(reneg / 2),
            tran_window: params.tran_window,
            primary: Context::new(first),
            secondary: None,
            making: None,
            next_key_id: 1,
            wants_exchange: false,
            over: false,
        }
    }

    pub(super) fn primary(&mut self) -> &mut Exchange {
        &mut self.primary.exchange
    }

    /// Whether there is no key that could be used.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Context> {
        std::iter::once(&mut self.primary).chain(&mut self.secondary).chain(&mut self.making)
    }

    pub(super) fn find(&mut self, key_id: u8) -> Option<&mut Exchange> {
        self.all().map(|context| &mut context.exchange).find(|exchange| exchange.key_id() == key_id)
    }

    /// Whether the server's SOFT_RESET with this key id begins an exchange.
    pub(super) fn may_begin(&mut self, key_id: u8) -> bool {
        let expected = match self.implementation {
            Implementation::OpenVpn3 => key_id == self.next_key_id,
            Implementation::MirageVpn => self.making.is_none() && key_id != 0,
        };
        expected && self.primary.exchange.is_active() && self.find(key_id).is_none()
    }

    /// The key id of an exchange that it wants to begin, once.
    pub(super) fn wants_exchange(&mut self, now: Instant) -> Option<u8> {
        self.check_time(now);
        std::mem::take(&mut self.wants_exchange).then_some(self.next_key_id)
    }

    /// Has an exchange begin, unless one is under way.
    pub(super) fn ask_for_exchange(&mut self) {
        self.wants_exchange = self.making.is_none() && self.primary.exchange.is_active();
    }

    fn check_time(&mut self, now: Instant) {
        let due = now >= self.primary.exchange.created() + self.reneg && !self.primary.overtaken;
        let settled = self.primary.exchange.is_active();
        match self.implementation {
            // Also in the middle of another exchange, which it then forgets.
            Implementation::OpenVpn3 => self.wants_exchange |= due && settled,
            Implementation::MirageVpn => self.wants_exchange |= due && settled && self.making.is_none(),
        }
        if due && settled && self.wants_exchange {
            self.primary.overtaken = true;
        }
    }

    /// A new exchange takes its place.
    pub(super) fn take(&mut self, exchange: Exchange) -> Vec<Change> {
        let key_id = exchange.key_id();
        self.next_key_id = if key_id < MAX_KEY_ID { key_id + 1 } else { 1 };
        let context = Context::new(exchange);
        let place = match self.implementation {
            Implementation::OpenVpn3 => &mut self.secondary,
            Implementation::MirageVpn => &mut self.making,
        };
        let dropped = place.replace(context).filter(|context| context.installed);
        dropped.map(|context| Change::Drop(context.key_id())).into_iter().collect()
    }

    /// Both ends agreed on the tunnel: the first key is used.
    pub(super) fn ready(&mut self) -> Vec<Change> {
        self.primary.installed = true;
        let key_id = self.primary.key_id();
        vec![Change::Install(key_id), Change::Seal(key_id)]
    }

    /// Takes the steps that are due.
    pub(super) fn advance(&mut self, now: Instant) -> Vec<Change> {
        let first = &self.primary.exchange;
        let late = !first.is_active() && now >= first.created() + self.hand_window;
        self.over |= late || first.failed;
        match self.implementation {
            Implementation::OpenVpn3 => self.advance_contexts(now),
            Implementation::MirageVpn => self.advance_channels(now),
        }
    }

    fn advance_contexts(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        let Some(second) = &mut self.secondary else { return changes };
        let (key_id, created) = (second.key_id(), second.exchange.created());
        if second.expires.is_some_and(|at| now >= at) {
            self.secondary = None;
            return vec![Change::Drop(key_id)];
        }
        if second.exchange.is_active() && !second.installed {
            second.installed = true;
            self.primary.overtaken = true;
            changes.push(Change::Install(key_id));
        }
        if !second.exchange.is_active() && (now >= created + self.hand_window || second.exchange.failed) {
            self.secondary = None;
            self.wants_exchange = true;
            return changes;
        }
        let promoted = second.exchange.active_at.is_some_and(|at| now >= at + self.promotion);
        if promoted && second.expires.is_none() {
            std::mem::swap(&mut self.primary, second);
            second.expires = Some(second.exchange.created() + self.reneg * 2);
            changes.push(Change::Seal(key_id));
        }
        changes
    }

    fn advance_channels(&mut self, now: Instant) -> Vec<Change> {
        let mut changes = Vec::new();
        if let Some(old) = self.secondary.take_if(|old| old.expires.is_some_and(|at| now >= at)) {
            changes.push(Change::Drop(old.key_id()));
        }
        let late = |making: &mut Context| {
            making.exchange.failed || now >= making.exchange.created() + self.hand_window
        };
        if self.making.take_if(late).is_some() {
            self.primary.overtaken = false;
        }
        let Some(mut next) = self.making.take_if(|making| making.exchange.has_keys()) else { return changes };
        next.installed = true;
        changes.extend([Change::Install(next.key_id()), Change::Seal(next.key_id())]);
        let mut old = std::mem::replace(&mut self.primary, next);
        old.expires = Some(now + self.tran_window);
        changes.extend(self.secondary.replace(old).map(|older| Change::Drop(older.key_id())));
        changes
    }

    pub(super) fn take_messages(&mut self) -> Vec<Vec<u8>> {
        self.all().flat_map(|context| std::iter::from_fn(|| context.exchange.take_message())).collect()
    }

    pub(super) fn poll_packet(
        &mut self,
        now: Instant,
        peer_sid: Option<Sid>,
    ) -> Option<(Header, ControlBody)> {
        self.all().find_map(|context| {
            let key_id = context.key_id();
            let (opcode, body) = context.exchange.poll_packet(now, peer_sid)?;
            Some((Header { opcode, key_id }, body))
        })
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let contexts = [Some(&self.primary), self.secondary.as_ref(), self.making.as_ref()];
        let of_each = contexts.into_iter().flatten().flat_map(|context| {
            let exchange = &context.exchange;
            let late = (!exchange.is_active()).then(|| exchange.created() + self.hand_window);
            let promoted = exchange.active_at.map(|at| at + self.promotion);
            let promoted = promoted
                .filter(|_| self.implementation == Implementation::OpenVpn3 && context.expires.is_none());
            let promoted = promoted.filter(|_| exchange.key_id() != self.primary.key_id());
            [exchange.poll_timeout(), late, promoted, context.expires].into_iter().flatten()
        });
        let may_begin = self.primary.exchange.is_active() && !self.primary.overtaken && self.making.is_none();
        let reneg = may_begin.then(|| self.primary.exchange.created() + self.reneg);
        of_each.chain(reneg).min()
    }
}

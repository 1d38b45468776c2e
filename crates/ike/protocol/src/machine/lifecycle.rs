//! The changes to an endpoint's IKE SAs when one is established, replaced or removed.

use std::time::Duration;

use adit_core::{PeerId, Severity};

use super::child_sa::REPLACED_FOR;
use super::connections::is_instance;
use super::endpoint::Endpoint;
use super::params::Unique;
use super::peer::{EndKind, Ending, Place, Wish};
use super::sa::{IkeSa, Phase};
use super::shared::Event;
use crate::wire::Spi;

/// If each end initiated an IKE SA within this time, one of the two is deleted; the nonces decide which.
const AT_ONCE: Duration = Duration::from_secs(30);
/// A reauthentication that failed is tried again after so many times as long as an initiation: the IKE SA that is there goes on.
const REAUTHENTICATION_RETRIES: u32 = 12;
/// Most IKE SAs of a peer that stay beside each other.
const MAX_IKE_SAS: usize = 4;

impl Endpoint {
    /// The peer has authenticated. If the peer says that it has no other IKE SA, or the connection replaces IKE SAs, older ones are
    /// removed (RFC 7296 section 2.4). Otherwise, if both ends initiated at once, the IKE SA with the lower nonce is removed, as after rekeys
    /// (section 2.8.2): both ends keep the other one.
    pub(super) fn established(&mut self, spi: Spi, is_initial_contact: bool) {
        self.forget_half_open(spi);
        let Some(sa) = self.sas.get(&spi) else { return };
        let Some(number) = sa.connection else { return };
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        state.initiate_at = None;
        self.initiations.set(number, None);
        state.connecting.take_if(|connecting| *connecting == spi);
        state.current_identity.clone_from(&sa.peer_identity);
        let Some(old) = state.sa.replace(spi).filter(|old| *old != spi) else { return };
        if state.replacing == Some(old) {
            return self.with_sa(spi, |sa, cx| sa.next_task(cx));
        }
        let Some(before) = self.sas.get(&old) else { return };
        let unique = connection.unique;
        let is_recent = self.shared.now.saturating_since(before.made_at) < AT_ONCE;
        // After a rekey the roles are those of the rekey, so that they do not show who initiated.
        let is_by_other = before.is_initiator != sa.is_initiator && !before.is_successor;
        let is_collision = is_by_other && is_recent && unique != Unique::Never;
        if is_initial_contact && unique != Unique::Never {
            self.started_anew(number, spi, is_collision);
        } else if is_collision && sa.lowest_nonce < before.lowest_nonce {
            state.sa = Some(old);
            self.with_sa(spi, |sa, cx| sa.close(cx, EndKind::Own, "another IKE SA of the peer stays"));
            self.with_sa(old, IkeSa::activate_again);
        } else if is_collision || unique == Unique::Replace {
            self.remove_older(number, spi, |sa, cx| {
                sa.close(cx, EndKind::Own, "the peer has another IKE SA")
            });
            // The child SAs of an IKE SA that was made without one may have been the only ones.
            self.with_sa(spi, |sa, cx| {
                sa.lose_children(cx, EndKind::ByPeer);
                sa.next_task(cx);
            });
        } else {
            self.limit_older(number, spi);
        }
    }

    /// The peer says that it has no other IKE SA, while one is established here: it has started anew. If the ends have just
    /// initiated at once, it may also have said so before it answered this end, in a message that came late: then the peer has the
    /// older IKE SA, too, and gets a DELETE.
    fn started_anew(&mut self, number: usize, spi: Spi, may_have_older: bool) {
        const WHY: &str = "the peer has started anew";
        match may_have_older {
            true => self.remove_older(number, spi, |sa, cx| sa.close(cx, EndKind::Own, WHY)),
            false => self.remove_older(number, spi, |_, cx| cx.remove(WHY)),
        }
    }

    /// A peer says that it has no other IKE SA: the other instances of its connection with its identity are gone, and their addresses
    /// are free at once.
    pub(super) fn remove_other_instances(&mut self, spi: Spi) {
        let Some(sa) = self.sas.get(&spi) else { return };
        let (Some(number), Some(identity)) = (sa.connection, &sa.peer_identity) else { return };
        let Some(connection) = self.connections.number_of_peer(number) else { return };
        let is_kept = self.connections.get(number).is_none_or(|it| it.unique == Unique::Never);
        let mut others = self.shared.pools.instances(connection, identity);
        others.retain(|other| *other != number && !is_kept);
        for other in others {
            let of_other = self.sas.values().filter(|sa| sa.connection == Some(other));
            let of_other: Vec<Spi> = of_other.map(|sa| sa.own_spi).collect();
            of_other
                .into_iter()
                .for_each(|spi| self.with_sa(spi, |_, cx| cx.remove("the peer has started anew")));
        }
    }

    /// The IKE SAs of a peer that are established, but for one, the oldest first.
    fn older(&self, number: usize, spi: Spi) -> Vec<Spi> {
        let is_older = |sa: &&IkeSa| {
            sa.connection == Some(number) && sa.own_spi != spi && matches!(sa.phase, Phase::Established)
        };
        let mut older: Vec<&IkeSa> = self.sas.values().map(|sa| &**sa).filter(is_older).collect();
        older.sort_by_key(|sa| sa.made_at);
        older.into_iter().map(|sa| sa.own_spi).collect()
    }

    fn remove_older(
        &mut self,
        number: usize,
        spi: Spi,
        act: impl Fn(&mut IkeSa, &mut super::context::Context<'_>),
    ) {
        self.seal_by_current(number);
        for old in self.older(number, spi) {
            self.with_sa(old, &act);
        }
    }

    /// Makes the data plane seal with the child SAs of the peer's current IKE SA, where child SAs of another IKE SA go: before they are
    /// gone, as one of them may have been activated later; and after it, as the data plane keeps to a session that began by a packet.
    fn seal_by_current(&mut self, number: usize) {
        let current = self.peers.get(&number).and_then(|state| state.sa);
        current.into_iter().for_each(|spi| self.with_sa(spi, IkeSa::activate_again));
    }

    fn limit_older(&mut self, number: usize, spi: Spi) {
        let older = self.older(number, spi);
        let excess = (older.len() + 1).saturating_sub(MAX_IKE_SAS);
        if excess > 0 {
            self.seal_by_current(number);
        }
        for old in older.into_iter().take(excess) {
            self.with_sa(old, |sa, cx| sa.close(cx, EndKind::Own, "the peer has newer IKE SAs"));
        }
    }

    pub(super) fn move_children(&mut self, from: Spi, to: Spi) {
        if !self.sas.contains_key(&to) {
            return self.with_sa(from, |sa, cx| sa.close(cx, EndKind::DeadPeer, "its successor is gone"));
        }
        let Some(old) = self.sas.get_mut(&from) else { return };
        let (children, to_delete) = (std::mem::take(&mut old.children), std::mem::take(&mut old.to_delete));
        let connection = old.connection;
        let Some(new) = self.sas.get_mut(&to) else { return };
        new.children.extend(children);
        new.to_delete.extend(to_delete);
        new.is_waiting = false;
        if let Some(state) = connection.and_then(|number| self.peers.get_mut(&number)) {
            let of_peer = [&mut state.sa, &mut state.replacing];
            of_peer.into_iter().filter(|sa| **sa == Some(from)).for_each(|sa| *sa = Some(to));
        }
        self.with_sa(to, |sa, cx| sa.next_task(cx));
    }

    pub(super) fn expire(&mut self, spi: Spi) {
        let ends_at = self.shared.now + REPLACED_FOR;
        self.with_sa(spi, |sa, _| sa.ends_at = Some(ends_at));
    }

    /// The IKE SA of a peer is of no use any more. If the peer has another IKE SA, that one gets child SAs from now on. Else the
    /// peer is down, and the children take their actions.
    pub(super) fn down(&mut self, spi: Spi, ending: &Ending) {
        let Some(number) = self.sas.get(&spi).and_then(|sa| sa.connection) else { return };
        let path = self.sas.get(&spi).map(|sa| sa.path);
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        let was_connecting = state.connecting.take_if(|connecting| *connecting == spi).is_some();
        let was_current = state.sa.take_if(|current| *current == spi).is_some();
        if !was_current {
            if was_connecting && state.sa.is_none() {
                let text = format!("{}: {}", connection.name, ending.reason);
                self.shared.report(Severity::Error, path, text);
                self.shared.failed(connection, &ending.reason);
                self.initiation_failed(number, ending.kind);
            } else if was_connecting && state.replacing.is_some() {
                let text = format!("{}: it was not authenticated anew: {}", connection.name, ending.reason);
                self.shared.report(Severity::Error, path, text);
                self.reauthentication_failed(number);
            }
            return self.seal_by_current(number);
        }
        if let Some(other) = self.older(number, spi).pop() {
            if let Some(state) = self.peers.get_mut(&number) {
                state.sa = Some(other);
            }
            return self.with_sa(other, |sa, cx| {
                sa.activate_again(cx);
                sa.order_entry(cx);
            });
        }
        self.peer_down(number, ending);
    }

    fn peer_down(&mut self, number: usize, ending: &Ending) {
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        let peer = PeerId(number as u32);
        let again = self.shared.now + connection.times.retry;
        self.shared.are_settings_stale |= connection.changes_settings();
        state.current_identity = None;
        state.replacing = None;
        state.installed.clear();
        for up in std::mem::take(&mut state.up) {
            if let Some(child) = connection.children.get(up) {
                self.shared.tell_down(peer, child);
                state.lost(up, child, ending.kind, again);
            }
        }
        if ending.kind == EndKind::Own || self.has_ended {
            state.wanted.clear();
        }
        state.wanted.values_mut().for_each(|wish| wish.at = wish.at.max(again));
        state.initiate_at =
            state.wanted.values().map(|wish| wish.at).min().filter(|_| state.connecting.is_none());
        self.initiations.set(number, state.initiate_at);
        if state.initiate_at.is_some() {
            self.shared.ask_for_addresses(connection);
        }
        if state.entry.take().is_some() {
            self.shared.remove_peer(peer);
        }
        if std::mem::take(&mut state.is_up) {
            self.shared.emit(Event::PeerDown { peer, reason: ending.reason.clone() });
            self.shared.sas_changed(number);
        }
        if !self.has_ended {
            self.run(None, |cx, _| cx.order_entry(number, Place::default(), None));
        }
        self.update_settings();
    }

    /// Forgets an instance of a connection that has no IKE SA any more. Its inner address is free.
    fn forget_instance(&mut self, number: usize) {
        if !is_instance(number) || self.sas.values().any(|sa| sa.connection == Some(number)) {
            return;
        }
        let lease = self.peers.remove(&number).and_then(|state| state.lease);
        self.shared.pools.remove(number, lease.as_deref());
    }

    /// Makes another IKE SA with the peer, with all children, before this one is deleted (RFC 7296 section 2.8.3).
    pub(super) fn reauthenticate(&mut self, spi: Spi) {
        let Some(number) = self.sas.get(&spi).and_then(|sa| sa.connection) else { return };
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        if state.sa != Some(spi)
            || state.connecting.is_some()
            || connection.remotes.is_empty()
            || self.has_ended
        {
            return;
        }
        state.replacing = Some(spi);
        let now = self.shared.now;
        state.wanted.extend(state.up.iter().map(|child| (*child, Wish { at: now, is_kept: true })));
        self.initiate(number);
    }

    /// The children of the new IKE SA are up: the one that it replaces is deleted.
    pub(super) fn reauthenticated(&mut self, spi: Spi) {
        let number = self.sas.get(&spi).and_then(|sa| sa.connection);
        let Some(state) = number.and_then(|number| self.peers.get_mut(&number)) else { return };
        let old = state.replacing.take_if(|old| *old != spi);
        if let (Some(number), Some(old)) = (number, old) {
            self.seal_by_current(number);
            self.with_sa(old, |sa, cx| sa.close_replaced(cx, "it was authenticated anew"));
        }
    }

    /// The IKE SA stays that was to be replaced. The peer is authenticated anew later.
    fn reauthentication_failed(&mut self, number: usize) {
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        let again = self.shared.now + connection.times.retry * REAUTHENTICATION_RETRIES;
        state.wanted.retain(|child, _| !state.up.contains(child));
        if let Some(old) = state.replacing.take() {
            self.with_sa(old, |sa, _| sa.reauthentication_at = Some(again));
        }
    }

    /// An IKE SA was not established. The next address of the connection is tried at once, and the first one after some time.
    pub(super) fn initiation_failed(&mut self, number: usize, kind: EndKind) {
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        let next = state.remote + 1;
        let has_next = next < connection.remotes.len();
        state.remote = if has_next { next } else { 0 };
        let again = if has_next { self.shared.now } else { self.shared.now + connection.times.retry };
        if kind == EndKind::Own || self.has_ended {
            state.wanted.clear();
        }
        state.wanted.retain(|_, wish| wish.is_kept || has_next);
        state.wanted.values_mut().for_each(|wish| wish.at = again);
        state.initiate_at = (!state.wanted.is_empty()).then_some(again);
        self.initiations.set(number, state.initiate_at);
        self.shared.are_settings_stale |= connection.changes_settings();
        if !has_next {
            self.shared.ask_for_addresses(connection);
        }
    }

    pub(super) fn remove(&mut self, spi: Spi, ending: &Ending) {
        let is_in_use = self.sas.get(&spi).is_some_and(|sa| {
            matches!(sa.phase, Phase::Connecting | Phase::Established) && sa.connection.is_some()
        });
        let number = self.sas.get(&spi).and_then(|sa| sa.connection);
        let is_current = |number: &usize| self.peers.get(number).is_some_and(|state| state.sa == Some(spi));
        let others = number.filter(|number| !is_current(number));
        others.into_iter().for_each(|number| self.seal_by_current(number));
        self.with_sa(spi, IkeSa::remove_children);
        others.into_iter().for_each(|number| self.seal_by_current(number));
        if is_in_use {
            self.down(spi, ending);
        }
        self.forget_half_open(spi);
        self.sas.remove(&spi);
        self.schedule.set(spi, None);
        number.into_iter().for_each(|number| self.forget_instance(number));
    }

    pub(super) fn forget_half_open(&mut self, spi: Spi) {
        if let Some(first) = self.half_open.remove(&spi) {
            self.first_requests.remove(&first);
        }
    }
}

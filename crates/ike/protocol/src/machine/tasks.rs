//! The tasks of an IKE SA: its timers, retransmissions, and the requests that it sends one after the other.

use std::time::Duration;

use adit_core::{Instant, Severity};

use super::child_sa::{ChildPhase, ChildSa, EXPIRED_FOR};
use super::context::{Context, Effect};
use super::peer::{EndKind, Ending, PeerState};
use super::requests::{Answered, Purpose, Wanted};
use super::sa::{IkeSa, Phase, Request};
use crate::wire::ExchangeType;

impl IkeSa {
    /// Starts the next task that is due, if no request is pending (the window is 1, RFC 7296 section 2.3).
    pub(crate) fn next_task(&mut self, cx: &mut Context<'_>) {
        if self.pending.is_some() || !cx.effects.iter().all(|effect| !matches!(effect, Effect::Remove(_))) {
            return;
        }
        match self.phase {
            Phase::Closing => return self.request_delete(cx, None),
            Phase::Established => {}
            Phase::Connecting | Phase::HalfOpen(_) | Phase::Failed | Phase::Replaced => return,
        }
        if self.next_address_task(cx) {
            return;
        }
        self.end_inactive(cx);
        while let Some(spi) = self.to_delete.pop_front() {
            if self.children.contains_key(&spi) {
                return self.request_delete(cx, Some(spi));
            }
        }
        if self.follow_up.is_some() {
            return;
        }
        let now = cx.now();
        if self.rekey_at.is_some_and(|at| at <= now) {
            return self.request_ike_rekey(cx, None);
        }
        let due = self.children.values().find(|child| child.is_rekey_due(now)).map(|child| child.own_spi);
        if let Some(spi) = due {
            return self.request_child_rekey(cx, spi);
        }
        if let Some(number) = self.current_state(cx).and_then(|state| state.due_child(now)) {
            return self.request_child(cx, Wanted::new(number, None));
        }
        if self.current_state(cx).is_some_and(|state| state.replacing.is_some()) {
            cx.effects.push(Effect::Reauthenticated);
        }
        if self.reauthentication_at.is_some_and(|at| at <= now) {
            self.reauthentication_at = None;
            cx.effects.push(Effect::Reauthenticate);
        }
        if self.liveness_due(cx).is_some_and(|at| at <= now) {
            self.request(cx, ExchangeType::INFORMATIONAL, &[], Request::Liveness);
        }
    }

    fn liveness_due(&self, cx: &Context<'_>) -> Option<Instant> {
        self.connection?;
        Some(self.heard + self.times(cx).dead_peer_detection?)
    }

    /// The state of the peer, if this IKE SA is the one that gets child SAs. While another IKE SA is made in its place, it gets none.
    fn current_state<'c>(&self, cx: &'c Context<'_>) -> Option<&'c PeerState> {
        let own = Some(self.own_spi);
        cx.peers
            .get(&self.connection?)
            .map(|state| &**state)
            .filter(|state| state.sa == own && state.replacing != own)
    }

    /// The time when [`Self::handle_timeout`] is due.
    pub(crate) fn timeout(&self, cx: &Context<'_>) -> Option<Instant> {
        let pending = self.pending.as_ref().map(|pending| pending.due);
        let is_busy = self.pending.is_some() || self.follow_up.is_some();
        let idle = !is_busy && matches!(self.phase, Phase::Established);
        let rekeys = self.children.values().filter_map(ChildSa::rekey_at).chain(self.rekey_at);
        let wanted = self.current_state(cx).and_then(|state| state.wanted.values().map(|wish| wish.at).min());
        let tasks = rekeys.chain(self.liveness_due(cx)).chain(wanted).chain(self.reauthentication_at);
        let tasks = tasks.chain(self.inactive_at(cx));
        let tasks = tasks.filter(|_| idle).min();
        let children = self.children.values().filter_map(|child| self.end_of(child, cx.now()));
        let follow_up = self.follow_up.as_ref().map(|answer| answer.ends_at);
        let others = [self.answer_ends_at(), self.keepalive_at(cx)];
        pending
            .into_iter()
            .chain(tasks)
            .chain(self.ends_at)
            .chain(children)
            .chain(follow_up)
            .chain(others.into_iter().flatten())
            .min()
    }

    pub(crate) fn handle_timeout(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        if self.ends_at.is_some_and(|at| at <= now) {
            return cx.remove("it took too long");
        }
        self.follow_up.take_if(|answer| answer.ends_at <= now);
        self.forget_answer(now);
        let is_late = |child: &&ChildSa| self.end_of(child, now).is_some_and(|at| at <= now);
        let late: Vec<u32> = self.children.values().filter(is_late).map(|child| child.own_spi).collect();
        for spi in late {
            self.end_late_child(cx, spi);
        }
        if self.pending.as_ref().is_some_and(|pending| pending.due <= now) {
            self.retransmit(cx);
        }
        self.keep_mapping(cx);
        self.next_task(cx);
    }

    /// The time when a child SA ends by itself. Until a rekey that is due, or that has begun, has come to its end, the child SA goes on:
    /// a request that is not answered ends the IKE SA.
    fn end_of(&self, child: &ChildSa, now: Instant) -> Option<Instant> {
        let is_rekeyed = child.is_rekey_due(now) || self.is_being_rekeyed(child.own_spi);
        child.ends_at.filter(|_| !is_rekeyed)
    }

    /// Whether an end has asked for a child SA in place of that one.
    fn is_being_rekeyed(&self, spi: u32) -> bool {
        let own = match self.pending.as_ref().map(|pending| &pending.request) {
            Some(Request::Child(request)) => request.wanted.old,
            Some(Request::FollowUp(request)) => match &request.purpose {
                Purpose::Child(request) => request.wanted.old,
                Purpose::Ike(_) => None,
            },
            _ => None,
        };
        let peers = match self.follow_up.as_ref().map(|answer| &answer.answered) {
            Some(Answered::Child { old, .. }) => *old,
            _ => None,
        };
        [own, peers].contains(&Some(spi))
    }

    /// Ends a child SA whose time is over: the peer replaced it and has not deleted it, or no rekey has replaced it. If it is the last
    /// one of its child, this end asks for a further one first, and deletes it when that one has had time to come.
    fn end_late_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        let Some(child) = self.children.get(&spi) else { return };
        let number = child.number;
        let is_active = |other: &&ChildSa| other.number == number && other.is_active();
        let is_last = child.is_active() && self.children.values().filter(is_active).count() == 1;
        let is_current = matches!(self.phase, Phase::Established) && self.current_state(cx).is_some();
        if !is_last || !is_current {
            return self.delete_late_child(cx, spi);
        }
        let now = cx.now();
        if let Some(child) = self.children.get_mut(&spi) {
            (child.phase, child.ends_at) = (ChildPhase::Replaced, Some(now + EXPIRED_FOR));
        }
        if let Some(state) = self.connection.and_then(|number| cx.peers.get_mut(&number)) {
            state.want(number, now);
        }
    }

    fn retransmit(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        let is_last = self.pending.as_ref().is_some_and(|pending| pending.retransmissions == 0);
        if is_last && self.try_next_address(cx) {
            return;
        }
        let most = self.times(cx).retransmissions;
        let Some(pending) = &mut self.pending else { return };
        let path = pending.path.unwrap_or(self.path);
        if pending.retransmissions == 0 {
            let reason = match &pending.request {
                Request::Init(request) => request.no_answer(),
                _ => "it does not answer".to_owned(),
            };
            return cx.remove(reason);
        }
        pending.retransmissions -= 1;
        // 1.8 times as long each time, as strongSwan does (`charon.retransmit_base`).
        pending.interval = pending.interval * 9 / 5;
        pending.due = now + pending.interval;
        let times = most.saturating_sub(pending.retransmissions);
        let before = std::mem::take(&mut pending.datagrams);
        let datagrams = self.cut_shorter(cx, &before, times).unwrap_or(before);
        self.send(cx, path, &datagrams);
        if let Some(pending) = &mut self.pending {
            pending.datagrams = datagrams;
        }
        self.say_no_answer_yet(cx);
    }

    /// Logs that a peer has not answered a first request that was sent once more, of the first initiation since it answered.
    fn say_no_answer_yet(&self, cx: &mut Context<'_>) {
        let first = self.times(cx).retransmissions.checked_sub(1);
        let pending = self.pending.as_ref().filter(|pending| {
            matches!(pending.request, Request::Init(_)) && Some(pending.retransmissions) == first
        });
        let state = self.connection.and_then(|number| cx.peers.get(&number));
        let (Some(pending), Some(1)) = (pending, state.map(|state| state.unanswered)) else { return };
        let intervals = std::iter::successors(Some(pending.interval), |interval| Some(*interval * 9 / 5));
        let left: Duration = intervals.take(pending.retransmissions as usize + 1).sum();
        let text = format!("it has not answered yet; the request is sent again for {} s", left.as_secs());
        self.log(cx, Severity::Warning, &text);
    }

    /// Deletes this IKE SA. Its child SAs are gone at once.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>, kind: EndKind, reason: &str) {
        self.remove_children(cx);
        if !matches!(self.phase, Phase::Established | Phase::Replaced) {
            return cx.remove_as(kind, reason);
        }
        cx.effects.push(Effect::Down(Ending { kind, reason: reason.to_owned() }));
        self.begin_delete(cx);
    }

    /// Ends this IKE SA, which another one has replaced. Its child SAs take packets until the peer has answered: the peer has sealed
    /// packets with them before it got the request.
    pub(crate) fn close_replaced(&mut self, cx: &mut Context<'_>, reason: &str) {
        match self.phase {
            Phase::Established => self.begin_delete(cx),
            _ => self.close(cx, EndKind::Own, reason),
        }
    }

    /// Asks the peer to delete this IKE SA, as soon as no other request is pending.
    pub(crate) fn begin_delete(&mut self, cx: &mut Context<'_>) {
        self.phase = Phase::Closing;
        self.rekey_at = None;
        self.ends_at = None;
        self.next_task(cx);
    }

    pub(crate) fn log(&self, cx: &mut Context<'_>, severity: Severity, text: &str) {
        let name = self.connection.and_then(|number| cx.connections.get(number)).map(|c| c.name.clone());
        let text = format!("{}: {text}", name.as_deref().unwrap_or("a peer"));
        cx.shared.report(severity, Some(self.path), text);
    }
}

//! Further child SAs (RFC 7296 section 1.3.1), and rekeys of child SAs (1.3.3 and 2.8) with their collisions (2.8.1 and 2.25.1).

use adit_core::{Path, Severity};

use super::child::{AnsweredChild, Exchange, Exchanged, Offer, child_spi};
use super::child_sa::{ChildPhase, ChildSa};
use super::context::Context;
use super::init::{lowest, offers, wanted_group};
use super::payloads::{Payloads, notify};
use super::peer::EndKind;
use super::requests::{Answered, ChildRequest, Form, PeersChild, Purpose, Wanted};
use super::sa::{IkeSa, Phase, Request};
use crate::crypto::{KeyShare, Nonces, Secret, Secrets, answer_exchange};
use crate::suite::{Group, accept};
use crate::wire::{ExchangeType, KeyExchange, Notify, NotifyType, Payload, ProtocolId};

/// Answers the key exchange of a suite, if it has one.
pub(crate) fn answer_group(
    group: Option<Group>,
    offered: Option<&KeyExchange>,
    fill: &mut dyn FnMut(&mut [u8]),
) -> Result<Exchanged, Payload> {
    let Some(group) = group else { return Ok(None) };
    let wanted = || notify(NotifyType::INVALID_KE_PAYLOAD, group.number().to_be_bytes().to_vec());
    let offered = offered.filter(|offered| offered.method == group.number()).ok_or_else(wanted)?;
    let answered = answer_exchange(group, &offered.data, fill);
    let (data, secret) = answered.map_err(|_| notify(NotifyType::INVALID_SYNTAX, Vec::new()))?;
    Ok(Some((KeyExchange { method: group.number(), data }, secret)))
}

impl IkeSa {
    /// Rekeys a child SA.
    pub(crate) fn request_child_rekey(&mut self, cx: &mut Context<'_>, old: u32) {
        let Some(child) = self.children.get(&old) else { return };
        let form = if child.lacks_exchange { Form::WithoutExchange } else { Form::Configured };
        self.request_child(cx, Wanted { form, ..Wanted::new(child.number, Some(old)) });
    }

    /// Asks for a child SA.
    pub(crate) fn request_child(&mut self, cx: &mut Context<'_>, wanted: Wanted) {
        let Some(child) = self.child(cx, wanted.number) else { return };
        let sides = self.sides(cx, child);
        if sides.local.is_empty() || sides.remote.is_empty() {
            let text =
                format!("child {}: the outer address that its traffic depends on is not known", child.name);
            self.log(cx, Severity::Error, &text);
            return self.child_failed(cx, wanted);
        }
        let proposals = wanted.proposals(child);
        let group = wanted.group.or_else(|| proposals.first().and_then(|own| own.groups().next()));
        let share = group.and_then(|group| KeyShare::new(group, &mut cx.fill()).ok());
        let (own_spi, nonce) = (cx.offered_child_spi(), cx.shared.nonce());
        let (protocol, kind) = (ProtocolId::ESP, NotifyType::REKEY_SA);
        let rekey = wanted.old.map(|old| {
            let spi = old.to_be_bytes().to_vec();
            Payload::Notify(Notify { protocol, spi, kind, data: Vec::new() })
        });
        let mut payloads: Vec<Payload> = rekey.into_iter().collect();
        payloads.push(Payload::SecurityAssociation(offers(&proposals, &own_spi.to_be_bytes())));
        payloads.push(Payload::Nonce(nonce.clone()));
        payloads.extend(share.as_ref().map(|share| {
            Payload::KeyExchange(KeyExchange {
                method: share.group().number(),
                data: share.public().to_vec(),
            })
        }));
        payloads.push(Payload::SelectorsInitiator(sides.local));
        payloads.push(Payload::SelectorsResponder(sides.remote));
        let old = wanted.old.and_then(|old| self.children.get(&old));
        let is_old_unknown = old.is_some_and(|old| old.may_be_unknown(cx.shared.now));
        let (peers, deleted) = (None, Vec::new());
        let request = ChildRequest { wanted, own_spi, nonce, share, is_old_unknown, peers, deleted };
        self.request(cx, ExchangeType::CREATE_CHILD_SA, &payloads, Request::Child(Box::new(request)));
    }

    /// A request for a child SA, or for a rekey of this IKE SA.
    pub(crate) fn handle_create_child(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        // The peer has given up the additional key exchanges that it began before.
        self.follow_up = None;
        let answer = match Payloads(payloads).proposals() {
            Some([first, ..]) if first.protocol == ProtocolId::IKE => self.answer_ike_rekey(cx, payloads),
            Some(_) => self.answer_child(cx, payloads),
            None => Err(notify(NotifyType::INVALID_SYNTAX, Vec::new())),
        };
        match answer {
            Ok(payloads) => self.respond(cx, path, ExchangeType::CREATE_CHILD_SA, &payloads),
            Err(error) => self.respond(cx, path, ExchangeType::CREATE_CHILD_SA, &[error]),
        }
    }

    fn answer_child(&mut self, cx: &mut Context<'_>, payloads: &[Payload]) -> Result<Vec<Payload>, Payload> {
        let found = Payloads(payloads);
        let pending = self.pending.as_ref().map(|pending| &pending.request);
        let busy = matches!(pending, Some(Request::IkeRekey(_) | Request::FollowUp(_)));
        if busy || self.is_waiting || !matches!(self.phase, Phase::Established) {
            return Err(notify(NotifyType::TEMPORARY_FAILURE, Vec::new()));
        }
        let old = self.child_to_rekey(found.notify(NotifyType::REKEY_SA))?;
        let nonce = found.nonce().ok_or_else(|| notify(NotifyType::INVALID_SYNTAX, Vec::new()))?;
        let own_nonce = cx.shared.nonce();
        let nonces = Nonces { initiator: nonce, responder: &own_nonce };
        let rekeyed = old.and_then(|old| self.children.get(&old)).map(|child| child.number);
        let choice = self.choose_child(cx, found, Exchange::CreateChild, rekeyed)?;
        let (group, additional) =
            choice.chosen.child_suite().map(|suite| (suite.group, suite.additional)).unwrap_or_default();
        let exchanged = answer_group(group, found.key_exchange(), &mut cx.fill())?;
        if !additional.is_empty() {
            let (exchange, secret) = exchanged.unzip();
            let (AnsweredChild { number, own_spi, agreed }, mut parts) =
                self.agree_child(cx, choice, exchange)?;
            parts.insert(1, Payload::Nonce(own_nonce.clone()));
            self.note_peers_child(old, number, PeersChild { spi: own_spi, lowest: lowest(&nonces) });
            let answered = Answered::Child { number, own_spi, old, agreed };
            let secrets = secret.unwrap_or_default().into();
            parts.push(self.await_follow_up(cx, answered, &nonces, (secrets, additional)));
            return Ok(parts);
        }
        let (mut child, mut parts) = self.make_child(cx, choice, exchanged, &nonces)?;
        child.lacks_exchange = group.is_none();
        parts.insert(1, Payload::Nonce(own_nonce.clone()));
        let peers = PeersChild { spi: child.own_spi, lowest: lowest(&nonces) };
        self.install_for_peer(cx, child, old, peers);
        Ok(parts)
    }

    /// The child SA that a request names. `None`: it asks for a further one.
    fn child_to_rekey(&self, rekey: Option<&Notify>) -> Result<Option<u32>, Payload> {
        let Some(rekey) = rekey else { return Ok(None) };
        let spi = child_spi(&rekey.spi).filter(|_| rekey.protocol == ProtocolId::ESP);
        let child = self.children.values().find(|child| Some(child.peer_spi) == spi);
        match child {
            Some(child) if child.phase == ChildPhase::Active => Ok(Some(child.own_spi)),
            Some(_) => Err(notify(NotifyType::TEMPORARY_FAILURE, Vec::new())),
            None => Err(Payload::Notify(Notify {
                kind: NotifyType::CHILD_SA_NOT_FOUND,
                data: Vec::new(),
                ..rekey.clone()
            })),
        }
    }

    /// Gives the data plane a child SA that the peer asked for. If this end asks for one in its place, too, the nonces decide when the
    /// response comes.
    pub(crate) fn install_for_peer(
        &mut self,
        cx: &mut Context<'_>,
        child: ChildSa,
        old: Option<u32>,
        peers: PeersChild,
    ) {
        let number = child.number;
        // Until the peer has the response, it opens packets of the child SAs alone that are there.
        let is_first = old.is_none() && !self.has_session_of(cx, number);
        self.install_child(cx, child, is_first);
        let is_collision = self.note_peers_child(old, number, peers);
        let Some(old) = old else { return };
        if !is_collision && let Some(child) = self.children.get_mut(&old) {
            child.replace(cx.shared.now);
        }
        self.count_rekey(cx);
    }

    /// Notes the peer's child SA in this end's request for one in its place: a rekey of the same child SA, or a further child SA of
    /// the same child. Gives whether there is such a request.
    fn note_peers_child(&mut self, old: Option<u32>, number: usize, peers: PeersChild) -> bool {
        let request = self.pending.as_mut().map(|pending| &mut pending.request);
        match request {
            Some(Request::Child(request)) if request.wanted.old == old && request.wanted.number == number => {
                request.peers = Some(peers);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn count_rekey(&self, cx: &mut Context<'_>) {
        if let Some(state) = self.connection.and_then(|number| cx.peers.get_mut(&number)) {
            state.rekeys += 1;
        }
    }

    pub(crate) fn handle_child_response(
        &mut self,
        cx: &mut Context<'_>,
        request: ChildRequest,
        payloads: &[Payload],
    ) {
        let found = Payloads(payloads);
        if let Some(error) = found.error() {
            return self.child_refused(cx, request, error);
        }
        match self.child_exchange(cx, &request, payloads) {
            Ok((secrets, additional)) if additional.is_empty() => {
                self.child_agreed(cx, &request, payloads, secrets);
            }
            Ok(exchanged) => self.follow_up_child(cx, request, payloads, exchanged),
            Err(reason) => self.close(cx, EndKind::DeadPeer, &format!("a child SA was not made: {reason}")),
        }
    }

    /// All key exchanges are done: makes the child SA that this end asked for.
    pub(crate) fn child_agreed(
        &mut self,
        cx: &mut Context<'_>,
        request: &ChildRequest,
        response: &[Payload],
        secrets: Secrets,
    ) {
        match self.finish_child(cx, request, response, secrets) {
            // The peer has deleted it before its response came.
            Ok((child, _)) if request.deleted.contains(&child.peer_spi) => {
                self.child_failed(cx, request.wanted)
            }
            Ok((child, own_lowest)) => {
                self.tell_form(cx, request.wanted);
                self.settle(cx, request, child, &own_lowest);
            }
            Err(reason) => {
                // The peer has a child SA that this end refuses: RFC 7296 section 2.21.3.
                self.close(cx, EndKind::DeadPeer, &format!("a child SA was not made: {reason}"));
            }
        }
    }

    /// The peer has refused the form of proposals that is configured, and taken the other one.
    fn tell_form(&self, cx: &mut Context<'_>, wanted: Wanted) {
        let Some(child) = self.child(cx, wanted.number).filter(|_| wanted.is_second) else { return };
        if wanted.form == Form::WithoutExchange {
            let text = format!(
                "child {}: the peer takes child SAs without a key exchange of their own alone (PFS): leave the groups out of \
                 `esp_proposals`, or give the peer one of them",
                child.name
            );
            self.log(cx, Severity::Warning, &text);
        }
    }

    /// Goes on with additional key exchanges, unless the peer asked for a child SA in place of this one, too, and this end's request
    /// has the lowest nonce.
    fn follow_up_child(
        &mut self,
        cx: &mut Context<'_>,
        mut request: ChildRequest,
        response: &[Payload],
        exchanged: (Secrets, Vec<Group>),
    ) {
        let nonce = Payloads(response).nonce().unwrap_or_default();
        let own_lowest = lowest(&Nonces { initiator: &request.nonce, responder: nonce });
        let is_redundant = request.peers.as_ref().is_some_and(|peers| own_lowest < peers.lowest);
        if is_redundant {
            let old = request.wanted.old.filter(|_| self.follow_up.is_none());
            old.and_then(|old| self.children.get_mut(&old))
                .into_iter()
                .for_each(|child| child.replace(cx.shared.now));
            return;
        }
        if self.follow_up.take().is_some() {
            request.peers = None;
        }
        self.begin_follow_up(cx, Purpose::Child(Box::new(request)), response, exchanged);
    }

    /// The secret of the key exchange in a response, and the methods of the additional key exchanges.
    fn child_exchange(
        &self,
        cx: &Context<'_>,
        request: &ChildRequest,
        payloads: &[Payload],
    ) -> Result<(Secrets, Vec<Group>), String> {
        let found = Payloads(payloads);
        let own = self.child(cx, request.wanted.number).ok_or("the child was removed")?;
        let chosen = accept(&request.wanted.proposals(own), found.proposals().unwrap_or_default());
        let suite = chosen.map_err(|error| error.to_string())?.child_suite();
        let secret = match (&request.share, found.key_exchange()) {
            (None, None) => Secret::default(),
            (Some(share), Some(answer)) if answer.method == share.group().number() => {
                share.finish(&answer.data).map_err(|error| error.to_string())?
            }
            _ => return Err("the answer has another key exchange".to_owned()),
        };
        Ok((secret.into(), suite.ok_or("the answer lacks an algorithm")?.additional))
    }

    fn finish_child(
        &self,
        cx: &mut Context<'_>,
        request: &ChildRequest,
        payloads: &[Payload],
        secrets: Secrets,
    ) -> Result<(ChildSa, Vec<u8>), String> {
        let number = request.wanted.number;
        let own = self.child(cx, number).ok_or("the child was removed")?;
        let nonce = Payloads(payloads).nonce().ok_or("the answer has no nonce")?;
        let nonces = Nonces { initiator: &request.nonce, responder: nonce };
        let offer = Offer { number, own_spi: request.own_spi, is_initiator: true, secrets, nonces };
        let mut child = self.accept_child(cx, &request.wanted.proposals(own), &offer, payloads)?;
        child.lacks_exchange = request.wanted.form == Form::WithoutExchange;
        Ok((child, lowest(&nonces)))
    }

    /// Of two rekeys at once, that with the lowest nonce is redundant, and its initiator deletes what it made (RFC 7296 section
    /// 2.8.1).
    fn settle(&mut self, cx: &mut Context<'_>, request: &ChildRequest, child: ChildSa, own_lowest: &[u8]) {
        let is_redundant = request.peers.as_ref().is_some_and(|peers| own_lowest < peers.lowest.as_slice());
        let spi = child.own_spi;
        self.install_child(cx, child, !is_redundant);
        let Some(old) = request.wanted.old else {
            return self.settle_further(request.peers.as_ref(), spi, is_redundant);
        };
        if is_redundant {
            self.delete_child(spi);
            if let Some(old) = self.children.get_mut(&old) {
                old.replace(cx.shared.now);
            }
            return;
        }
        self.count_rekey(cx);
        self.delete_child(old);
        let redundant = request.peers.as_ref().and_then(|peers| self.children.get_mut(&peers.spi));
        redundant.into_iter().for_each(|child| child.replace(cx.shared.now));
    }

    /// Of two child SAs of a child that both ends asked for at once, that with the lowest nonce is deleted. Each end that sees both
    /// deletes it, as the other end need not have seen them at once.
    fn settle_further(&mut self, peers: Option<&PeersChild>, own: u32, is_redundant: bool) {
        let Some(peers) = peers else { return };
        let redundant = if is_redundant { own } else { peers.spi };
        if self.children.get(&redundant).is_some_and(|child| child.phase == ChildPhase::Active) {
            self.delete_child(redundant);
        }
    }

    pub(crate) fn child_refused(&mut self, cx: &mut Context<'_>, request: ChildRequest, error: &Notify) {
        let ChildRequest { wanted, is_old_unknown, peers, .. } = request;
        if let (Some(_), Some(old)) = (peers, wanted.old) {
            // The peer's own rekey holds, or goes on with additional key exchanges.
            if self.follow_up.is_none()
                && let Some(child) = self.children.get_mut(&old)
            {
                child.replace(cx.shared.now);
            }
            return;
        }
        if error.kind == NotifyType::INVALID_KE_PAYLOAD && wanted.group.is_none() {
            let own = self.child(cx, wanted.number);
            let allows = |group: &Group| {
                own.is_some_and(|own| own.esp.iter().any(|esp| esp.groups().any(|own| own == *group)))
            };
            if let Some(group) = wanted_group(&error.data).filter(allows) {
                return self
                    .request_child(cx, Wanted { group: Some(group), form: Form::Configured, ..wanted });
            }
        }
        let other_form = self.child(cx, wanted.number).and_then(|child| wanted.other_form(child));
        if let Some(wanted) = other_form.filter(|_| error.kind == NotifyType::NO_PROPOSAL_CHOSEN) {
            return self.request_child(cx, wanted);
        }
        if error.kind != NotifyType::TEMPORARY_FAILURE && error.kind != NotifyType::CHILD_SA_NOT_FOUND {
            let name = self.child(cx, wanted.number).map_or("", |child| child.name.as_str());
            let aim = if wanted.old.is_some() { "rekey a child SA" } else { "make a child SA" };
            let text = format!("the peer refuses to {aim}: {} ({name})", error.kind);
            self.log(cx, Severity::Warning, &text);
            let connection = self.connection.and_then(|number| cx.connections.get(number));
            let connection = connection.filter(|_| wanted.old.is_none());
            connection.into_iter().for_each(|connection| cx.shared.failed(connection, &text));
        }
        if let Some(old) = wanted.old
            && error.kind == NotifyType::CHILD_SA_NOT_FOUND
            && !is_old_unknown
        {
            self.remove_child(cx, old);
        }
        self.child_failed(cx, wanted);
    }

    /// A child SA was not made. A rekey is tried again later, and so is a further child SA that this end keeps up.
    pub(crate) fn child_failed(&mut self, cx: &mut Context<'_>, wanted: Wanted) {
        let retry = self.retry_at(cx);
        let old = wanted.old.and_then(|old| self.children.get_mut(&old));
        match old {
            Some(child) => child.rekey_at = Some(retry),
            None => {
                let state = self.connection.and_then(|number| cx.peers.get_mut(&number));
                state.into_iter().for_each(|state| state.refused(wanted.number, retry));
                self.close_without_child(cx);
            }
        }
    }

    /// When what the peer refused is tried again.
    pub(crate) fn retry_at(&self, cx: &mut Context<'_>) -> adit_core::Instant {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let retry = connection.map_or(std::time::Duration::from_secs(5), |connection| connection.times.retry);
        cx.now() + cx.shared.jittered(retry)
    }
}

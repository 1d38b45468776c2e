//! Rekeys of IKE SAs (RFC 7296 sections 1.3.2 and 2.18), with their collisions (2.8.2 and 2.25.2).

use adit_core::Severity;

use super::channel::Channel;
use super::child_sa::REPLACED_FOR;
use super::context::{Context, Effect};
use super::create_child::answer_group;
use super::init::{lowest, offers, wanted_group};
use super::params::Connection;
use super::payloads::{Payloads, notify};
use super::peer::EndKind;
use super::requests::{Answered, IkeRekeyRequest, PeersIkeRekey, Purpose};
use super::sa::{IkeSa, NewSa, Phase, Request};
use crate::crypto::{IkeKeys, KeyShare, Nonces, Secrets, rekey_seed};
use crate::suite::{Algorithms, Chosen, Group, Preference, accept, choose};
use crate::wire::{ExchangeType, KeyExchange, NotifyType, Payload, Spi};

/// The values that the successor of an IKE SA is made of, beside the chosen proposal.
pub(crate) struct Successor<'a> {
    pub(crate) is_initiator: bool,
    pub(crate) own_spi: Spi,
    pub(crate) secrets: Secrets,
    pub(crate) nonces: Nonces<'a>,
}

/// The proposals for a rekey: those of the connection, and then, for peers that have additional key exchanges in the first IKE SA
/// alone, those without additional ones. The keys of a successor are derived from the `SK_d` of the first IKE SA in any case.
fn own_proposals(connection: &Connection) -> Vec<Algorithms> {
    let without =
        connection.ike.iter().filter(|own| own.has_additional()).map(Algorithms::without_additional);
    connection.ike.iter().cloned().chain(without).collect()
}

impl IkeSa {
    pub(crate) fn request_ike_rekey(&mut self, cx: &mut Context<'_>, wanted: Option<Group>) {
        self.rekey_at = None;
        let Some(connection) = self.connection.and_then(|index| cx.connections.get(index)) else { return };
        let used = self.channel.as_ref().map(|channel| channel.suite.group);
        let allowed = |group: &Group| connection.ike.iter().any(|own| own.groups().any(|own| own == *group));
        let Some(group) = wanted.or(used).filter(allowed) else { return };
        let Ok(share) = KeyShare::new(group, &mut cx.fill()) else { return };
        let (own_spi, nonce) = (cx.shared.ike_spi(), cx.shared.nonce());
        let payloads = [
            Payload::SecurityAssociation(offers(&own_proposals(connection), &own_spi.0)),
            Payload::Nonce(nonce.clone()),
            Payload::KeyExchange(KeyExchange { method: group.number(), data: share.public().to_vec() }),
        ];
        let request = IkeRekeyRequest { own_spi, nonce, share, peers: None, is_second: wanted.is_some() };
        self.request(cx, ExchangeType::CREATE_CHILD_SA, &payloads, Request::IkeRekey(Box::new(request)));
    }

    /// The peer rekeys this IKE SA.
    pub(crate) fn answer_ike_rekey(
        &mut self,
        cx: &mut Context<'_>,
        payloads: &[Payload],
    ) -> Result<Vec<Payload>, Payload> {
        let pending = self.pending.as_ref().map(|pending| &pending.request);
        let is_busy =
            matches!(pending, Some(Request::Child(_) | Request::DeleteChild(_) | Request::FollowUp(_)));
        if is_busy || self.is_waiting || !matches!(self.phase, Phase::Established) {
            return Err(notify(NotifyType::TEMPORARY_FAILURE, Vec::new()));
        }
        let found = Payloads(payloads);
        let connection = self.connection.and_then(|index| cx.connections.get(index));
        let (Some(connection), Some(nonce), Some(offered)) = (connection, found.nonce(), found.proposals())
        else {
            return Err(notify(NotifyType::INVALID_SYNTAX, Vec::new()));
        };
        let refused = || notify(NotifyType::NO_PROPOSAL_CHOSEN, Vec::new());
        let chosen = choose(&own_proposals(connection), offered, Preference::Own).ok_or_else(refused)?;
        let suite = chosen.ike_suite().ok_or_else(refused)?;
        let answered = answer_group(Some(suite.group), found.key_exchange(), &mut cx.fill())?;
        let (exchange, secret) = answered.ok_or_else(refused)?;
        let (own_spi, own_nonce) = (cx.shared.ike_spi(), cx.shared.nonce());
        let nonces = Nonces { initiator: nonce, responder: &own_nonce };
        let peers = PeersIkeRekey { spi: own_spi, lowest: lowest(&nonces) };
        let mut answer = vec![
            Payload::SecurityAssociation(vec![chosen.to_wire(&own_spi.0)]),
            Payload::Nonce(own_nonce.clone()),
            Payload::KeyExchange(exchange),
        ];
        let secrets = Secrets::from(secret);
        if suite.additional.is_empty() {
            let successor = Successor { is_initiator: false, own_spi, secrets, nonces };
            let sa = self.successor(cx, &chosen, successor);
            let sa = sa.ok_or_else(|| notify(NotifyType::INVALID_SYNTAX, Vec::new()))?;
            self.add_for_peer(cx, sa, peers);
            return Ok(answer);
        }
        if let Some(Request::IkeRekey(request)) = self.pending.as_mut().map(|pending| &mut pending.request) {
            request.peers = Some(peers);
        }
        let answered = Answered::Ike { chosen, own_spi };
        answer.push(self.await_follow_up(cx, answered, &nonces, (secrets, suite.additional)));
        Ok(answer)
    }

    /// The IKE SA of the peer's rekey takes the place of this one, and the peer deletes this one.
    pub(crate) fn replaced_by(&mut self, cx: &mut Context<'_>, successor: Spi) {
        self.phase = Phase::Replaced;
        self.rekey_at = None;
        self.ends_at = Some(cx.now() + REPLACED_FOR);
        cx.effects.push(Effect::MoveChildren(successor));
    }

    /// The IKE SA that takes the place of this one. Its keys are derived from the old `SK_d` with the old PRF (RFC 7296
    /// section 2.18).
    pub(crate) fn successor(
        &self,
        cx: &mut Context<'_>,
        chosen: &Chosen,
        parts: Successor<'_>,
    ) -> Option<IkeSa> {
        let Successor { is_initiator, own_spi, secrets, nonces } = parts;
        let suite = chosen.ike_suite()?;
        let peer_spi = Spi(chosen.spi.as_slice().try_into().ok()?);
        let old = self.channel.as_ref()?;
        let seed = rekey_seed(old.suite.prf, &old.keys.derivation, &nonces, &secrets);
        let [first, second] = if is_initiator { [own_spi, peer_spi] } else { [peer_spi, own_spi] };
        let keys = IkeKeys::derive(&suite, &seed, &nonces, first, second);
        let new = NewSa {
            own_spi,
            peer_spi,
            is_initiator,
            connection: self.connection,
            path: self.path,
            phase: Phase::Established,
            channel: Some(Channel::new(suite, keys, is_initiator)?),
        };
        let mut sa = IkeSa::new(new, cx.now());
        sa.is_successor = true;
        sa.nat = self.nat;
        sa.is_encapsulated = self.is_encapsulated;
        (sa.peer_takes_fragments, sa.is_path_narrow) = (self.peer_takes_fragments, self.is_path_narrow);
        sa.mobike.clone_from(&self.mobike);
        sa.peer_identity.clone_from(&self.peer_identity);
        sa.ike_identity.clone_from(&self.ike_identity);
        sa.uses_ppk = self.uses_ppk;
        sa.reauthentication_at = self.reauthentication_at;
        sa.lowest_nonce = lowest(&nonces);
        sa.schedule_rekey(cx);
        Some(sa)
    }

    pub(crate) fn handle_rekey_response(
        &mut self,
        cx: &mut Context<'_>,
        request: IkeRekeyRequest,
        payloads: &[Payload],
    ) {
        let error = Payloads(payloads).error();
        if let (Some(_), Some(peers)) = (error, &request.peers) {
            return self.leave_to_peer(cx, peers.spi);
        }
        if let Some(error) = error {
            let wanted = Some(error)
                .filter(|error| error.kind == NotifyType::INVALID_KE_PAYLOAD && !request.is_second);
            if let Some(group) = wanted.and_then(|error| wanted_group(&error.data)) {
                return self.request_ike_rekey(cx, Some(group));
            }
            if error.kind != NotifyType::TEMPORARY_FAILURE {
                self.log(
                    cx,
                    Severity::Warning,
                    &format!("the peer refuses to rekey the IKE SA: {}", error.kind),
                );
            }
            self.rekey_at = Some(self.retry_at(cx));
            return;
        }
        match self.ike_exchange(cx, &request, payloads) {
            Ok((_, secrets, additional)) if additional.is_empty() => {
                self.ike_rekey_agreed(cx, request, payloads, secrets);
            }
            Ok((_, secrets, additional)) => {
                self.follow_up_ike(cx, request, payloads, (secrets, additional));
            }
            Err(reason) => {
                self.close(cx, EndKind::DeadPeer, &format!("the IKE SA was not rekeyed: {reason}"));
            }
        }
    }

    /// All key exchanges are done: makes the successor that this end asked for.
    pub(crate) fn ike_rekey_agreed(
        &mut self,
        cx: &mut Context<'_>,
        request: IkeRekeyRequest,
        response: &[Payload],
        secrets: Secrets,
    ) {
        match self.finish_ike_rekey(cx, &request, response, secrets) {
            Ok(successor) => self.settle_ike(cx, request.peers, successor),
            Err(reason) => {
                self.close(cx, EndKind::DeadPeer, &format!("the IKE SA was not rekeyed: {reason}"));
            }
        }
    }

    /// The peer's rekey holds, or goes on with additional key exchanges.
    fn leave_to_peer(&mut self, cx: &mut Context<'_>, successor: Spi) {
        if self.follow_up.is_some() {
            self.rekey_at = Some(self.retry_at(cx));
        } else {
            self.replaced_by(cx, successor);
        }
    }

    /// Goes on with additional key exchanges, unless the peer rekeys this IKE SA, too, and this end's request has the lowest nonce.
    fn follow_up_ike(
        &mut self,
        cx: &mut Context<'_>,
        mut request: IkeRekeyRequest,
        response: &[Payload],
        exchanged: (Secrets, Vec<Group>),
    ) {
        let nonce = Payloads(response).nonce().unwrap_or_default();
        let own_lowest = lowest(&Nonces { initiator: &request.nonce, responder: nonce });
        if let Some(peers) = &request.peers
            && own_lowest < peers.lowest
        {
            return self.leave_to_peer(cx, peers.spi);
        }
        if self.follow_up.take().is_some() {
            request.peers = None;
        }
        self.begin_follow_up(cx, Purpose::Ike(Box::new(request)), response, exchanged);
    }

    /// The choice of a response, the secret of its key exchange, and the methods of the additional key exchanges.
    fn ike_exchange(
        &self,
        cx: &Context<'_>,
        request: &IkeRekeyRequest,
        payloads: &[Payload],
    ) -> Result<(Chosen, Secrets, Vec<Group>), &'static str> {
        let found = Payloads(payloads);
        let connection =
            self.connection.and_then(|index| cx.connections.get(index)).ok_or("no connection")?;
        let (Some(answer), Some(_), Some(exchange)) =
            (found.proposals(), found.nonce(), found.key_exchange())
        else {
            return Err("the answer lacks SA, nonce or KE");
        };
        let chosen = accept(&own_proposals(connection), answer)
            .map_err(|_| "the answer chooses what was not offered")?;
        let suite = chosen.ike_suite().ok_or("the answer lacks an algorithm")?;
        let group = request.share.group();
        if suite.group != group || exchange.method != group.number() {
            return Err("the answer has another key exchange");
        }
        let secret =
            request.share.finish(&exchange.data).map_err(|_| "the answer's key exchange is malformed")?;
        Ok((chosen, secret.into(), suite.additional))
    }

    fn finish_ike_rekey(
        &self,
        cx: &mut Context<'_>,
        request: &IkeRekeyRequest,
        response: &[Payload],
        secrets: Secrets,
    ) -> Result<IkeSa, &'static str> {
        let (chosen, ..) = self.ike_exchange(cx, request, response)?;
        let nonce = Payloads(response).nonce().unwrap_or_default();
        let nonces = Nonces { initiator: &request.nonce, responder: nonce };
        let parts = Successor { is_initiator: true, own_spi: request.own_spi, secrets, nonces };
        self.successor(cx, &chosen, parts).ok_or("the answer has no SPI of eight bytes")
    }

    /// Of two rekeys at once, the one with the lowest nonce is redundant: its initiator deletes the IKE SA that it made. The IKE SA
    /// of the other rekey gets the child SAs, and the initiator of that rekey deletes the old IKE SA (RFC 7296 section 2.8.2).
    fn settle_ike(&mut self, cx: &mut Context<'_>, peers: Option<PeersIkeRekey>, mut successor: IkeSa) {
        if matches!(self.phase, Phase::Closing) {
            successor.begin_delete(cx);
            return cx.effects.push(Effect::Add(Box::new(successor)));
        }
        if let Some(peers) = &peers
            && successor.lowest_nonce < peers.lowest
        {
            successor.begin_delete(cx);
            cx.effects.push(Effect::Add(Box::new(successor)));
            return self.replaced_by(cx, peers.spi);
        }
        cx.effects.extend(peers.map(|peers| Effect::Expire(peers.spi)));
        self.count_rekey(cx);
        let spi = successor.own_spi;
        cx.effects.push(Effect::Add(Box::new(successor)));
        cx.effects.push(Effect::MoveChildren(spi));
        self.phase = Phase::Closing;
        self.rekey_at = None;
    }

    /// The IKE SA of the peer's rekey, if both ends rekey this IKE SA. If the peer deletes this IKE SA meanwhile, that one gets the
    /// child SAs (RFC 7296 section 2.25.2).
    pub(crate) fn peers_rekey(&self) -> Option<Spi> {
        match self.pending.as_ref().map(|pending| &pending.request) {
            Some(Request::IkeRekey(request)) if self.follow_up.is_none() => {
                request.peers.as_ref().map(|peers| peers.spi)
            }
            _ => None,
        }
    }
}

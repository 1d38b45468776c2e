//! Child SAs: their proposals and selectors.

use std::sync::Arc;

use adit_core::{IpNet, Severity};

use super::child_sa::{Agreed, ChildPhase, ChildSa};
use super::context::Context;
use super::narrow::{is_within, left_out, narrow, routes, session_selectors};
use super::params::{Child, ChildCounters, Codec};
use super::payloads::{Payloads, notify};
use super::sa::IkeSa;
use crate::crypto::{ChildKeys, Nonces, Secret, Secrets};
use crate::suite::{Algorithms, Chosen, Preference, accept, choose};
use crate::wire::{KeyExchange, NotifyType, Payload, TrafficSelector};

/// Most child SAs of an IKE SA.
const MAX_CHILD_SAS: usize = 512;
/// Most networks in a line of the log.
const MOST_SHOWN: usize = 8;

/// This end's SPI and role, and the secrets that the keys of a child SA are derived from.
pub(crate) struct Offer<'a> {
    /// The number of the child.
    pub(crate) number: usize,
    pub(crate) own_spi: u32,
    pub(crate) is_initiator: bool,
    pub(crate) secrets: Secrets,
    pub(crate) nonces: Nonces<'a>,
}

/// The SPI of a child SA.
pub(crate) fn child_spi(bytes: &[u8]) -> Option<u32> {
    let spi: [u8; 4] = bytes.try_into().ok()?;
    Some(u32::from_be_bytes(spi)).filter(|spi| *spi != 0)
}

/// The answer to the peer's key exchange, and the shared secret. `None`: there is no key exchange.
pub(crate) type Exchanged = Option<(KeyExchange, Secret)>;

/// The traffic of a child, between the outer addresses of an IKE SA.
pub(crate) struct Sides {
    pub(crate) local: Vec<TrafficSelector>,
    pub(crate) remote: Vec<TrafficSelector>,
}

/// A responder's choice for the offer of a child SA.
pub(crate) struct Choice {
    /// The number of the child.
    pub(crate) number: usize,
    pub(crate) chosen: Chosen,
    sides: Sides,
}

/// A child SA that a responder has agreed on.
pub(crate) struct AnsweredChild {
    pub(crate) number: usize,
    pub(crate) own_spi: u32,
    pub(crate) agreed: Agreed,
}

/// The proposals of a child for an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// `IKE_AUTH`, where child SAs have no key exchange of their own (RFC 7296 section 1.2).
    Auth,
    /// `CREATE_CHILD_SA`.
    CreateChild,
}

pub(crate) fn proposals(child: &Child, exchange: Exchange) -> Vec<Algorithms> {
    match exchange {
        Exchange::Auth => child.esp.iter().map(|own| own.without_key_exchange()).collect(),
        Exchange::CreateChild => child.esp.clone(),
    }
}

impl IkeSa {
    /// The traffic of a child as this end offers it.
    pub(crate) fn sides(&self, cx: &Context<'_>, child: &Child) -> Sides {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let Some(connection) = connection else { return Sides { local: Vec::new(), remote: Vec::new() } };
        let [local, remote] = self.dynamic(cx, connection);
        Sides { local: local.selectors(&child.local), remote: remote.selectors(&child.remote) }
    }

    /// Checks the answer to an offer of a child SA.
    pub(crate) fn accept_child(
        &self,
        cx: &mut Context<'_>,
        own: &[Algorithms],
        offer: &Offer<'_>,
        payloads: &[Payload],
    ) -> Result<ChildSa, String> {
        let child = self.child(cx, offer.number).ok_or("the child was removed")?;
        let payloads = Payloads(payloads);
        let (Some(answer), Some([initiator, responder])) = (payloads.proposals(), payloads.selectors())
        else {
            let error = payloads.error().map(|error| format!("the peer answers {}", error.kind));
            return Err(error.unwrap_or_else(|| "the answer has no SA or no selectors".to_owned()));
        };
        let chosen = accept(own, answer).map_err(|error| error.to_string())?;
        let suite = chosen.child_suite().ok_or("the answer lacks an algorithm")?;
        let peer_spi = child_spi(&chosen.spi).ok_or("the answer has no SPI of four bytes")?;
        let sides = self.sides(cx, child);
        let asks =
            self.connection.and_then(|number| cx.connections.get(number)).is_some_and(|it| it.inner.asks());
        // All of a family was offered, as this end did not know the address that it was to get.
        let initiator = if asks { narrow(&sides.local, initiator) } else { initiator.to_vec() };
        if !is_within(&initiator, &sides.local) || !is_within(responder, &sides.remote) {
            return Err("the answer has selectors beyond those that were offered".to_owned());
        }
        if !self.has_session_of(cx, offer.number) {
            self.tell_left_out(cx, &child.name, &sides, [&initiator, responder]);
        }
        let agreed = Agreed { suite, peer_spi, local: initiator, remote: responder.to_vec() };
        self.derive_child(cx, agreed, offer).ok_or_else(|| "there are no keys".to_owned())
    }

    /// Names the networks that the peer's answer leaves out.
    fn tell_left_out(&self, cx: &mut Context<'_>, child: &str, own: &Sides, answer: [&[TrafficSelector]; 2]) {
        let left_out: Vec<TrafficSelector> =
            left_out(&own.local, answer[0]).chain(left_out(&own.remote, answer[1])).cloned().collect();
        if left_out.is_empty() {
            return;
        }
        let networks: Vec<String> = routes(&left_out).iter().take(MOST_SHOWN).map(IpNet::to_string).collect();
        let text = format!(
            "child {child}: the peer leaves out {}: a peer that takes one pair of networks alone needs a child for each pair",
            networks.join(", ")
        );
        self.log(cx, Severity::Warning, &text);
    }

    /// Chooses the child and the proposal for an offer. `rekeyed` is the number of the child whose child SA is rekeyed; its traffic
    /// was agreed on before. Of several children, the one comes first whose traffic is what was offered, then those that the offer
    /// is part of, then others.
    ///
    /// # Errors
    /// The error that refuses the offer.
    pub(crate) fn choose_child(
        &self,
        cx: &Context<'_>,
        payloads: Payloads<'_>,
        exchange: Exchange,
        rekeyed: Option<usize>,
    ) -> Result<Choice, Payload> {
        let refuse = |kind| notify(kind, Vec::new());
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let connection = connection.ok_or_else(|| refuse(NotifyType::NO_PROPOSAL_CHOSEN))?;
        let offered = payloads.proposals().ok_or_else(|| refuse(NotifyType::INVALID_SYNTAX))?;
        let [initiator, responder] =
            payloads.selectors().ok_or_else(|| refuse(NotifyType::INVALID_SYNTAX))?;
        if rekeyed.is_none() && self.children.len() >= MAX_CHILD_SAS {
            return Err(refuse(NotifyType::NO_ADDITIONAL_SAS));
        }
        let mut refusal = NotifyType::TS_UNACCEPTABLE;
        let mut best: Option<(u8, Choice)> = None;
        for (number, child) in connection.children.iter().enumerate() {
            if rekeyed.is_some_and(|rekeyed| rekeyed != number) {
                continue;
            }
            let own = self.sides(cx, child);
            let sides =
                Sides { local: narrow(&own.local, responder), remote: narrow(&own.remote, initiator) };
            if sides.local.is_empty() || sides.remote.is_empty() {
                continue;
            }
            let Some(chosen) = choose(&proposals(child, exchange), offered, Preference::Own) else {
                refusal = NotifyType::NO_PROPOSAL_CHOSEN;
                continue;
            };
            let is_whole = sides.local == own.local && sides.remote == own.remote;
            let is_offer = sides.local == responder && sides.remote == initiator;
            let rank = u8::from(is_offer) * 2 + u8::from(is_whole);
            if best.as_ref().is_none_or(|(before, _)| *before < rank) {
                best = Some((rank, Choice { number, chosen, sides }));
            }
        }
        best.map(|(_, choice)| choice).ok_or_else(|| refuse(refusal))
    }

    /// Answers an offer of a child SA: the child SA, and the payloads of the answer. The mode is tunnel, whatever the offer
    /// asks for (RFC 7296 section 1.3.1).
    ///
    /// # Errors
    /// The error that refuses the offer.
    pub(crate) fn make_child(
        &self,
        cx: &mut Context<'_>,
        choice: Choice,
        exchanged: Exchanged,
        nonces: &Nonces<'_>,
    ) -> Result<(ChildSa, Vec<Payload>), Payload> {
        let (exchange, secret) = exchanged.unzip();
        let (answer, parts) = self.agree_child(cx, choice, exchange)?;
        let AnsweredChild { number, own_spi, agreed } = answer;
        let secrets = secret.unwrap_or_default().into();
        let offer = Offer { number, own_spi, is_initiator: false, secrets, nonces: *nonces };
        let child = self.derive_child(cx, agreed, &offer);
        Ok((child.ok_or_else(|| notify(NotifyType::NO_PROPOSAL_CHOSEN, Vec::new()))?, parts))
    }

    /// The parameters of a child SA that an offer asks for, and the payloads of the answer.
    ///
    /// # Errors
    /// The error that refuses the offer.
    pub(crate) fn agree_child(
        &self,
        cx: &mut Context<'_>,
        choice: Choice,
        exchange: Option<KeyExchange>,
    ) -> Result<(AnsweredChild, Vec<Payload>), Payload> {
        let refuse = |kind| notify(kind, Vec::new());
        let Choice { number, chosen, sides: Sides { local, remote } } = choice;
        let suite = chosen.child_suite().ok_or_else(|| refuse(NotifyType::NO_PROPOSAL_CHOSEN))?;
        let is_new = |spi: &u32| self.children.values().all(|child| child.peer_spi != *spi);
        let peer_spi = child_spi(&chosen.spi).filter(is_new);
        let peer_spi = peer_spi.ok_or_else(|| refuse(NotifyType::INVALID_SYNTAX))?;
        let own_spi = cx.child_spi();
        let mut parts = vec![Payload::SecurityAssociation(vec![chosen.to_wire(&own_spi.to_be_bytes())])];
        parts.extend(exchange.map(Payload::KeyExchange));
        parts.push(Payload::SelectorsInitiator(remote.clone()));
        parts.push(Payload::SelectorsResponder(local.clone()));
        let agreed = Agreed { suite, peer_spi, local, remote };
        Ok((AnsweredChild { number, own_spi, agreed }, parts))
    }

    pub(crate) fn derive_child(
        &self,
        cx: &mut Context<'_>,
        agreed: Agreed,
        offer: &Offer<'_>,
    ) -> Option<ChildSa> {
        let child = self.child(cx, offer.number)?;
        let channel = self.channel.as_ref()?;
        let Agreed { suite, peer_spi, local, remote } = agreed;
        let derivation = &channel.keys.derivation;
        let keys = ChildKeys::derive(&suite, channel.suite.prf, derivation, &offer.secrets, &offer.nonces);
        let (seal, open) = if offer.is_initiator {
            (keys.initiator, keys.responder)
        } else {
            (keys.responder, keys.initiator)
        };
        let counters = Arc::new(ChildCounters::default());
        let codec = Codec {
            outbound_spi: peer_spi,
            cipher: suite.cipher,
            integrity: suite.integrity,
            has_extended_sequence_numbers: suite.has_extended_sequence_numbers,
            seal,
            open,
            selectors: session_selectors(&local, &remote),
            is_encapsulated: self.is_encapsulated,
            limits: child.limits,
            counters: Arc::clone(&counters),
        };
        let now = cx.now();
        let after = child.rekey.map(|time| cx.shared.jittered(time));
        Some(ChildSa {
            number: offer.number,
            own_spi: offer.own_spi,
            peer_spi,
            phase: ChildPhase::Active,
            is_sealing: false,
            is_known: offer.is_initiator,
            lacks_exchange: false,
            made_at: now,
            rekey_at: after.map(|after| now + after),
            ends_at: child.lifetime.map(|time| now + time),
            cipher: suite.cipher,
            integrity: suite.integrity,
            groups: suite.group.into_iter().chain(suite.additional).collect(),
            has_extended_sequence_numbers: suite.has_extended_sequence_numbers,
            is_encapsulated: self.is_encapsulated,
            codec: Some(Box::new(codec)),
            counters,
            local: local.into(),
            remote: remote.into(),
        })
    }

    /// A child of the connection.
    pub(crate) fn child<'c>(&self, cx: &Context<'c>, number: usize) -> Option<&'c Child> {
        cx.connections.get(self.connection?)?.children.get(number)
    }
}

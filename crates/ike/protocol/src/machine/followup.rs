//! Additional key exchanges after `CREATE_CHILD_SA` (`IKE_FOLLOWUP_KE`, RFC 9370 section 2.2.4), in both roles.
//!
//! No SA is made before the last exchange. Of two rekeys at once, the initiator of the one with the lowest nonce does not go on with
//! it, so that nothing is to be deleted. While a responder waits for the next exchange, it makes no SAs of its own.

use std::time::Duration;

use adit_core::Path;

use super::child::Offer;
use super::context::{Context, Effect};
use super::payloads::{Payloads, notify};
use super::peer::EndKind;
use super::rekey::Successor;
use super::requests::{Answered, FollowUpAnswer, FollowUpRequest, PeersChild, PeersIkeRekey, Purpose};
use super::sa::{IkeSa, Phase, Request};
use crate::crypto::{KeyShare, Nonces, Secrets, answer_exchange};
use crate::suite::Group;
use crate::wire::{ExchangeType, KeyExchange, NotifyType, Payload};

/// The time within which the initiator of additional key exchanges sends the next one.
const NEXT_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of the link between two exchanges.
const LINK: usize = 8;

/// A link between an exchange of this responder and the next one.
fn link(cx: &mut Context<'_>) -> Vec<u8> {
    let mut link = vec![0; LINK];
    cx.fill()(&mut link);
    link
}

/// The link in a message. `None`: there is none, or an empty one.
fn link_in(payloads: &[Payload]) -> Option<&[u8]> {
    let found = Payloads(payloads).notify(NotifyType::ADDITIONAL_KEY_EXCHANGE);
    found.map(|notify| notify.data.as_slice()).filter(|link| !link.is_empty())
}

impl IkeSa {
    /// The initiator begins the additional key exchanges of a suite after the response of `CREATE_CHILD_SA`.
    pub(crate) fn begin_follow_up(
        &mut self,
        cx: &mut Context<'_>,
        purpose: Purpose,
        response: &[Payload],
        exchanged: (Secrets, Vec<Group>),
    ) {
        let (secrets, groups) = exchanged;
        let (Some(link), Some((first, left))) = (link_in(response), groups.split_first()) else {
            return self.close(cx, EndKind::DeadPeer, "the answer has no link to additional key exchanges");
        };
        let Ok(share) = KeyShare::new(*first, &mut cx.fill()) else {
            return self.close(cx, EndKind::Own, "there is no private key");
        };
        let left = left.iter().copied().collect();
        let request = FollowUpRequest { purpose, response: response.to_vec(), secrets, share, left };
        self.send_follow_up(cx, request, link.to_vec());
    }

    fn send_follow_up(&mut self, cx: &mut Context<'_>, request: FollowUpRequest, link: Vec<u8>) {
        let data = request.share.public().to_vec();
        let exchange = KeyExchange { method: request.share.group().number(), data };
        let payloads = [Payload::KeyExchange(exchange), notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, link)];
        self.request(cx, ExchangeType::IKE_FOLLOWUP_KE, &payloads, Request::FollowUp(Box::new(request)));
    }

    /// The response to an additional key exchange. After the last one, the SA is made.
    pub(crate) fn handle_follow_up_response(
        &mut self,
        cx: &mut Context<'_>,
        mut request: FollowUpRequest,
        payloads: &[Payload],
    ) {
        let is_last = request.left.is_empty();
        let is_of_ike = matches!(request.purpose, Purpose::Ike(_));
        if !(matches!(self.phase, Phase::Established) || is_of_ike && is_last) {
            return;
        }
        let found = Payloads(payloads);
        if let Some(error) = found.error() {
            return match request.purpose {
                Purpose::Child(request) => self.child_refused(cx, *request, error),
                Purpose::Ike(request) => self.handle_rekey_response(cx, *request, payloads),
            };
        }
        let answer = found.key_exchange().filter(|answer| answer.method == request.share.group().number());
        let Some(secret) = answer.and_then(|answer| request.share.finish(&answer.data).ok()) else {
            return self.close(cx, EndKind::DeadPeer, "an additional key exchange is malformed");
        };
        request.secrets.additional.extend_from_slice(&secret);
        let Some(next) = request.left.pop_front() else { return self.follow_up_done(cx, request) };
        let (Some(link), Ok(share)) = (link_in(payloads), KeyShare::new(next, &mut cx.fill())) else {
            return self.close(cx, EndKind::DeadPeer, "the answer has no link to additional key exchanges");
        };
        self.send_follow_up(cx, FollowUpRequest { share, ..request }, link.to_vec());
    }

    fn follow_up_done(&mut self, cx: &mut Context<'_>, request: FollowUpRequest) {
        let FollowUpRequest { purpose, response, secrets, .. } = request;
        match purpose {
            Purpose::Child(request) => self.child_agreed(cx, &request, &response, secrets),
            Purpose::Ike(request) => self.ike_rekey_agreed(cx, *request, &response, secrets),
        }
    }

    /// A responder waits for the additional key exchanges of a suite. Gives the link for its answer.
    pub(crate) fn await_follow_up(
        &mut self,
        cx: &mut Context<'_>,
        answered: Answered,
        nonces: &Nonces<'_>,
        exchanged: (Secrets, Vec<Group>),
    ) -> Payload {
        let (secrets, groups) = exchanged;
        let link = link(cx);
        self.follow_up = Some(Box::new(FollowUpAnswer {
            link: link.clone(),
            secrets,
            left: groups.into(),
            nonces: [nonces.initiator.to_vec(), nonces.responder.to_vec()],
            answered,
            ends_at: cx.now() + NEXT_WITHIN,
        }));
        notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, link)
    }

    /// An additional key exchange of the peer's. One with a link that this end did not give changes nothing.
    pub(crate) fn handle_follow_up(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        let is_linked =
            self.follow_up.as_ref().is_some_and(|answer| link_in(payloads) == Some(answer.link.as_slice()));
        let answer = self.follow_up.take_if(|_| is_linked);
        let answered = match answer {
            Some(answer) => self.answer_follow_up(cx, *answer, payloads),
            None => Err(notify(NotifyType::STATE_NOT_FOUND, Vec::new())),
        };
        let answer = answered.unwrap_or_else(|error| vec![error]);
        self.respond(cx, path, ExchangeType::IKE_FOLLOWUP_KE, &answer);
    }

    fn answer_follow_up(
        &mut self,
        cx: &mut Context<'_>,
        mut answer: FollowUpAnswer,
        payloads: &[Payload],
    ) -> Result<Vec<Payload>, Payload> {
        let malformed = || notify(NotifyType::INVALID_SYNTAX, Vec::new());
        let group = answer.left.pop_front().ok_or_else(malformed)?;
        let offered = Payloads(payloads).key_exchange().filter(|offered| offered.method == group.number());
        let offered = offered.ok_or_else(malformed)?;
        let (data, secret) =
            answer_exchange(group, &offered.data, &mut cx.fill()).map_err(|_| malformed())?;
        answer.secrets.additional.extend_from_slice(&secret);
        let mut parts = vec![Payload::KeyExchange(KeyExchange { method: group.number(), data })];
        if answer.left.is_empty() {
            self.finish_follow_up(cx, answer)?;
        } else {
            answer.link = link(cx);
            answer.ends_at = cx.now() + NEXT_WITHIN;
            parts.push(notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, answer.link.clone()));
            self.follow_up = Some(Box::new(answer));
        }
        Ok(parts)
    }

    /// The responder makes the SA.
    fn finish_follow_up(&mut self, cx: &mut Context<'_>, answer: FollowUpAnswer) -> Result<(), Payload> {
        let gone = || notify(NotifyType::STATE_NOT_FOUND, Vec::new());
        let FollowUpAnswer { secrets, nonces, answered, .. } = answer;
        let nonces = Nonces { initiator: &nonces[0], responder: &nonces[1] };
        match answered {
            Answered::Child { number, own_spi, old, agreed } => {
                if old.is_some_and(|old| !self.children.get(&old).is_some_and(|child| child.is_active())) {
                    return Err(gone());
                }
                let offer = Offer { number, own_spi, is_initiator: false, secrets, nonces };
                let child = self.derive_child(cx, agreed, &offer).ok_or_else(gone)?;
                let lowest = super::init::lowest(&offer.nonces);
                self.install_for_peer(cx, child, old, PeersChild { spi: own_spi, lowest });
            }
            Answered::Ike { chosen, own_spi } => {
                let lowest = super::init::lowest(&nonces);
                let successor = Successor { is_initiator: false, own_spi, secrets, nonces };
                let sa = self.successor(cx, &chosen, successor).ok_or_else(gone)?;
                self.add_for_peer(cx, sa, PeersIkeRekey { spi: own_spi, lowest });
            }
        }
        Ok(())
    }

    /// The peer's rekey of this IKE SA made its successor.
    pub(crate) fn add_for_peer(&mut self, cx: &mut Context<'_>, mut sa: IkeSa, peers: PeersIkeRekey) {
        let request = self.pending.as_mut().map(|pending| &mut pending.request);
        let spi = peers.spi;
        let collision = match request {
            Some(Request::IkeRekey(request)) => Some(request),
            _ => None,
        };
        sa.is_waiting = collision.is_some();
        cx.effects.push(Effect::Add(Box::new(sa)));
        match collision {
            Some(request) => request.peers = Some(peers),
            None => self.replaced_by(cx, spi),
        }
    }
}

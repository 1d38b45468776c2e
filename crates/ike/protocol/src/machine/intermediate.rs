//! Additional key exchanges between the first exchange and the authentication (`IKE_INTERMEDIATE`, RFC 9242 and RFC 9370).
//!
//! Each exchange is protected by the keys before it, and the keys after it are derived from those before and the new secret. The
//! proofs of both ends cover all messages.

use adit_core::Path;

use super::channel::Channel;
use super::context::Context;
use super::payloads::{Payloads, notify};
use super::proof::{announce, announced_in};
use super::sa::{IkeSa, Phase, Request};
use super::transcript::{FirstMessages, IntermediateRequest};
use crate::crypto::{
    IkeKeys, KeyShare, Nonces, Secret, answer_exchange, intermediate_octets, prf, rekey_seed,
};
use crate::suite::Group;
use crate::wire::{ExchangeType, Header, KeyExchange, NotifyType, Payload, PayloadType, encode_chain};

impl IkeSa {
    /// Goes on after the first exchange or an additional one: with the next additional exchange, or with the authentication.
    pub(crate) fn go_on(&mut self, cx: &mut Context<'_>, first: FirstMessages, index: usize) {
        let group = self.channel.as_ref().and_then(|channel| channel.suite.additional.get(index).copied());
        let Some(group) = group else { return self.send_auth(cx, first) };
        if !self.peer_support.knows_intermediate {
            return cx
                .remove("it chooses additional key exchanges and does not know IKE_INTERMEDIATE (RFC 9242)");
        }
        let Ok(share) = KeyShare::new(group, &mut cx.fill()) else {
            return cx.remove("there is no private key");
        };
        let data = share.public().to_vec();
        let payloads = [Payload::KeyExchange(KeyExchange { method: group.number(), data })];
        let header = self.header(ExchangeType::IKE_INTERMEDIATE, false, self.next_request());
        self.extend_transcript(true, &octets_of(&header, &payloads));
        let request = Request::Intermediate(Box::new(IntermediateRequest { first, share, index }));
        self.request(cx, ExchangeType::IKE_INTERMEDIATE, &payloads, request);
    }

    /// Keeps the octets of a message of the peer, which was opened, until it is handled.
    pub(crate) fn note_received(&mut self, header: &Header, first: PayloadType, plain: &[u8]) {
        if header.exchange == ExchangeType::IKE_INTERMEDIATE {
            self.transcript.opened = intermediate_octets(header, first, plain);
        }
    }

    /// Adds the octets of a message to those of its end, with the keys that protect it.
    fn extend_transcript(&mut self, is_by_initiator: bool, octets: &[u8]) {
        let Some(channel) = &self.channel else { return };
        let (before, key) = if is_by_initiator {
            (&mut self.transcript.initiator, &channel.keys.initiator_proof)
        } else {
            (&mut self.transcript.responder, &channel.keys.responder_proof)
        };
        *before = prf(channel.suite.prf, key, &[before, octets]);
    }

    /// The initiator has the responder's answer.
    pub(crate) fn handle_intermediate_response(
        &mut self,
        cx: &mut Context<'_>,
        request: IntermediateRequest,
        payloads: &[Payload],
    ) {
        let IntermediateRequest { first, share, index } = request;
        let found = Payloads(payloads);
        if let Some(error) = found.error() {
            return cx.remove(format!("it answers an additional key exchange with {}", error.kind));
        }
        let answer = found.key_exchange().filter(|answer| answer.method == share.group().number());
        let secret = answer.and_then(|answer| share.finish(&answer.data).ok());
        let Some(secret) = secret else {
            return cx.remove("its answer to an additional key exchange is malformed");
        };
        if let Some(announced) = announced_in(found) {
            self.peer_support.announced = announced;
        }
        let received = std::mem::take(&mut self.transcript.opened);
        self.extend_transcript(false, &received);
        let nonces = Nonces { initiator: &first.nonces[0], responder: &first.nonces[1] };
        let Some(channel) = self.next_channel(&secret, &nonces) else {
            return cx.remove("there are no keys");
        };
        self.channel = Some(channel);
        self.transcript.done += 1;
        self.go_on(cx, first, index + 1);
    }

    /// The additional key exchange of an initiator that has not authenticated.
    pub(crate) fn answer_intermediate(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        let Some(group) = self.awaited_group() else {
            return self.refuse_intermediate(cx, path, NotifyType::INVALID_SYNTAX);
        };
        let offered = Payloads(payloads).key_exchange().filter(|offered| offered.method == group.number());
        let answered = offered.and_then(|offered| answer_exchange(group, &offered.data, &mut cx.fill()).ok());
        let Some((data, secret)) = answered else {
            return self.refuse_intermediate(cx, path, NotifyType::INVALID_SYNTAX);
        };
        let received = std::mem::take(&mut self.transcript.opened);
        let own = self.header(ExchangeType::IKE_INTERMEDIATE, true, self.expected());
        self.extend_transcript(true, &received);
        let mut answer = vec![Payload::KeyExchange(KeyExchange { method: group.number(), data })];
        answer.extend(self.late_announcement(cx));
        self.extend_transcript(false, &octets_of(&own, &answer));
        let next = match &self.phase {
            Phase::HalfOpen(half_open) => {
                let nonces = Nonces { initiator: &half_open.nonces[0], responder: &half_open.nonces[1] };
                self.next_channel(&secret, &nonces)
            }
            _ => None,
        };
        self.respond(cx, path, ExchangeType::IKE_INTERMEDIATE, &answer);
        let Some(next) = next else { return cx.remove("there are no keys") };
        // The request may come again, and is then protected by the keys before.
        self.previous_open = self.channel.replace(next).map(|channel| channel.open);
        self.transcript.done += 1;
    }

    /// The methods of authentication that this end said it would announce in its answer to the last additional key exchange.
    fn late_announcement(&self, cx: &Context<'_>) -> Option<Payload> {
        let additional = self.channel.as_ref()?.suite.additional.len();
        let is_last = usize::try_from(self.transcript.done + 1) == Ok(additional);
        let Phase::HalfOpen(half_open) = &self.phase else { return None };
        let announces = half_open.announces_later && is_last;
        announces.then(|| announce(&cx.connections.announced(self.path.remote().ip())))?
    }

    fn refuse_intermediate(&mut self, cx: &mut Context<'_>, path: Path, kind: NotifyType) {
        self.respond(cx, path, ExchangeType::IKE_INTERMEDIATE, &[notify(kind, Vec::new())]);
        cx.remove("its additional key exchange is malformed");
    }

    /// The group of the additional key exchange that a responder waits for. `None`: it waits for the authentication.
    pub(crate) fn awaited_group(&self) -> Option<Group> {
        let additional = &self.channel.as_ref()?.suite.additional;
        additional.get(usize::try_from(self.transcript.done).ok()?).copied()
    }

    /// The keys after an additional key exchange (RFC 9370 section 2.2.2).
    fn next_channel(&self, secret: &Secret, nonces: &Nonces<'_>) -> Option<Channel> {
        let channel = self.channel.as_ref()?;
        let suite = channel.suite.clone();
        let secrets = secret.clone().into();
        let seed = rekey_seed(suite.prf, &channel.keys.derivation, nonces, &secrets);
        let [initiator, responder] = self.spis();
        let keys = IkeKeys::derive(&suite, &seed, nonces, initiator, responder);
        Channel::new(suite, keys, self.is_initiator)
    }
}

fn octets_of(header: &Header, payloads: &[Payload]) -> Vec<u8> {
    let mut plain = zeroize::Zeroizing::new(Vec::new());
    let first = encode_chain(payloads, &mut plain);
    intermediate_octets(header, first, &plain)
}

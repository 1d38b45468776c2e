//! The first exchange, `IKE_SA_INIT` (RFC 7296 sections 1.2 and 2.6), in both roles.

use adit_core::{Path, Rejected, Severity};

use super::channel::Channel;
use super::context::Context;
use super::nat::{self, Nat};
use super::params::{Childless, Connection};
use super::payloads::{Payloads, notify};
use super::proof::PeerSupport;
use super::requests::{HalfOpen, InitRequest};
use super::sa::{IkeSa, NewSa, Phase, Request};
use super::transcript::{FirstMessages, full_transcript, has_full_transcript};
use crate::crypto::{IkeKeys, KeyShare, Nonces, Secret, SignatureHashes, answer_exchange, first_seed};
use crate::suite::{Algorithms, Group, IkeSuite, accept};
use crate::wire::{
    ExchangeType, Header, KeyExchange, Message, NotifyType, Payload, Proposal, Spi, TransformType,
};

/// The port of the sockets with a marker (RFC 7296 section 2.23).
pub(crate) const MARKED_PORT: u16 = 4500;
/// Most times that a first request is sent anew, for a cookie or for another group.
const MOST_RESTARTS: u8 = 4;
/// Most bytes of an answer to a first request with a list of methods (RFC 9593): as much as each host of IPv4 takes (RFC 791 section 3.1),
/// less the headers of IP and UDP. The answer is not sent in fragments, and some paths lose longer datagrams.
const LONGEST_WITH_LIST: usize = 576 - 20 - 8;

/// The proposals as they are sent.
pub(crate) fn offers(own: &[Algorithms], spi: &[u8]) -> Vec<Proposal> {
    own.iter().zip(1..=u8::MAX).map(|(own, number)| own.to_wire(number, spi)).collect()
}

/// The lower of two nonces.
pub(crate) fn lowest(nonces: &Nonces<'_>) -> Vec<u8> {
    nonces.initiator.min(nonces.responder).to_vec()
}

impl IkeSa {
    /// Initiates an IKE SA. `None`: there is no key exchange.
    pub(crate) fn initiate(cx: &mut Context<'_>, number: usize, path: Path) -> Option<Self> {
        let group = cx.connections.get(number)?.ike.first()?.groups().next()?;
        let share = KeyShare::new(group, &mut cx.fill()).ok()?;
        let new = NewSa {
            own_spi: cx.shared.ike_spi(),
            peer_spi: Spi::ZERO,
            is_initiator: true,
            connection: Some(number),
            path,
            phase: Phase::Connecting,
            channel: None,
        };
        let mut sa = IkeSa::new(new, cx.now());
        let nonce = cx.shared.nonce();
        let offers_full_transcript = cx.connections.get(number)?.full_transcript.is_offered();
        let (cookie, message, restarts, refusal) = (None, Vec::new(), 0, None);
        let request =
            InitRequest { nonce, share, cookie, message, restarts, offers_full_transcript, refusal };
        sa.send_init(cx, Box::new(request));
        Some(sa)
    }

    fn send_init(&mut self, cx: &mut Context<'_>, mut request: Box<InitRequest>) {
        let Some(connection) = self.connection.and_then(|number| cx.connections.get(number)) else { return };
        let forces = forces_encapsulation(cx, connection, self.path);
        let local = cx.shared.local_of(self.path).filter(|_| !forces);
        // A responder that finds no hash of this end's address detects a NAT, and takes ESP in UDP alone (RFC 7296 section 2.23).
        self.is_encapsulated = local.is_none();
        let cookie = request.cookie.clone().map(|cookie| notify(NotifyType::COOKIE, cookie));
        let exchange =
            KeyExchange { method: request.share.group().number(), data: request.share.public().to_vec() };
        let payloads = cookie.into_iter().chain([
            Payload::SecurityAssociation(offers(&connection.ike, &[])),
            Payload::KeyExchange(exchange),
            Payload::Nonce(request.nonce.clone()),
        ]);
        let nat = nat::notifies(self.spis(), local, self.path.remote());
        let fragments = connection
            .longest_datagram
            .map(|_| notify(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, Vec::new()));
        let hashes = notify(NotifyType::SIGNATURE_HASH_ALGORITHMS, SignatureHashes::own().encode());
        // The notify of RFC 6023 is the responder's. In the request it leaves room for it in an answer that is not longer.
        let childless = (connection.childless != Childless::Never)
            .then(|| notify(NotifyType::CHILDLESS_IKEV2_SUPPORTED, Vec::new()));
        let additional = connection.ike.iter().any(|own| own.has_additional());
        let intermediate =
            additional.then(|| notify(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, Vec::new()));
        let ppk = connection.ppk.as_ref().map(|_| notify(NotifyType::USE_PPK, Vec::new()));
        let full = request.offers_full_transcript.then(full_transcript);
        let others = fragments.into_iter().chain([hashes]).chain(childless).chain(intermediate);
        let others = others.chain(ppk).chain(full);
        let payloads = payloads.chain(nat).chain(others).collect();
        let header = self.header(ExchangeType::IKE_SA_INIT, false, 0);
        request.message = Message { header, payloads, sealed: None }.encode();
        let datagrams = vec![request.message.clone()];
        self.send_request(cx, ExchangeType::IKE_SA_INIT, datagrams, Request::Init(request));
    }

    /// The response to the first request. Errors in it are not authentic: the request goes on.
    pub(crate) fn handle_init_response(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        datagram: &[u8],
        message: &Message<'_>,
    ) -> Result<(), Rejected> {
        let header = &message.header;
        let mut request =
            self.take_init(header).ok_or(Rejected::Unexpected("a first response to no request"))?;
        let payloads = Payloads(&message.payloads);
        if self.is_restart(cx, &mut request, payloads) {
            self.send_init(cx, request);
            return Ok(());
        }
        match self.finish_init(cx, &mut request, header.responder_spi, payloads) {
            Ok((channel, nr)) => {
                self.take_pending();
                let state = self.connection.and_then(|number| cx.peers.get_mut(&number));
                state.into_iter().for_each(|state| state.unanswered = 0);
                self.peer_spi = header.responder_spi;
                self.channel = Some(channel);
                self.choose_path(cx, path, &message.payloads);
                let fragments = NotifyType::IKEV2_FRAGMENTATION_SUPPORTED;
                self.peer_takes_fragments = payloads.notify(fragments).is_some();
                self.lowest_nonce = lowest(&Nonces { initiator: &request.nonce, responder: &nr });
                self.peer_support = PeerSupport::of(payloads);
                self.transcript.is_full = request.offers_full_transcript && has_full_transcript(payloads);
                let nonces = [request.nonce, nr];
                let first = FirstMessages { own: request.message, peer: datagram.to_vec(), nonces };
                self.go_on(cx, first, 0);
                Ok(())
            }
            Err(rejected) => {
                if let Some(pending) = &mut self.pending {
                    pending.request = Request::Init(request);
                }
                Err(rejected)
            }
        }
    }

    /// The first request, if `header` is that of its response. Its retransmissions go on.
    fn take_init(&mut self, header: &Header) -> Option<Box<InitRequest>> {
        let pending = self.pending.as_mut().filter(|_| header.flags.is_response && header.message_id == 0)?;
        if !matches!(pending.request, Request::Init(_)) {
            return None;
        }
        match std::mem::replace(&mut pending.request, Request::Liveness) {
            Request::Init(request) => Some(request),
            _ => None,
        }
    }

    /// Whether the request is to be sent anew, with a cookie or with another group (RFC 7296 sections 1.2 and 2.6).
    fn is_restart(&self, cx: &mut Context<'_>, request: &mut InitRequest, payloads: Payloads<'_>) -> bool {
        let may_restart = request.restarts < MOST_RESTARTS;
        let cookie = payloads.notify(NotifyType::COOKIE).map(|notify| &notify.data);
        if let Some(cookie) = cookie.filter(|cookie| may_restart && (1..=64).contains(&cookie.len())) {
            let is_new = request.cookie.as_ref() != Some(cookie);
            request.cookie = Some(cookie.clone());
            request.restarts += 1;
            return is_new;
        }
        let wanted = payloads.notify(NotifyType::INVALID_KE_PAYLOAD).filter(|_| may_restart);
        let Some(group) = wanted.and_then(|notify| wanted_group(&notify.data)) else { return false };
        let Some(connection) = self.connection.and_then(|number| cx.connections.get(number)) else {
            return false;
        };
        let is_allowed = connection.ike.iter().any(|own| own.groups().any(|own| own == group));
        if !is_allowed || group == request.share.group() {
            return false;
        }
        let Ok(share) = KeyShare::new(group, &mut cx.fill()) else { return false };
        request.share = share;
        request.restarts += 1;
        true
    }

    fn finish_init(
        &self,
        cx: &Context<'_>,
        request: &mut InitRequest,
        responder_spi: Spi,
        payloads: Payloads<'_>,
    ) -> Result<(Channel, Vec<u8>), Rejected> {
        if let Some(error) = payloads.error() {
            request.refusal = Some(error.kind);
            return Err(Rejected::Unauthentic("an error in a first response"));
        }
        let missing = Rejected::Malformed("a first response without SA, KE or nonce");
        let (Some(answer), Some(exchange), Some(nonce)) =
            (payloads.proposals(), payloads.key_exchange(), payloads.nonce())
        else {
            return Err(missing);
        };
        let connection = self.connection.and_then(|number| cx.connections.get(number)).ok_or(missing)?;
        let refused = Rejected::Unexpected("a proposal that was not made");
        let chosen = accept(&connection.ike, answer).map_err(|_| refused)?;
        let suite = chosen.ike_suite().ok_or(refused)?;
        let group = request.share.group();
        if suite.group != group || exchange.method != group.number() || responder_spi == Spi::ZERO {
            return Err(refused);
        }
        let secret =
            request.share.finish(&exchange.data).map_err(|_| Rejected::Malformed("the key exchange"))?;
        let nonces = Nonces { initiator: &request.nonce, responder: nonce };
        let seed = first_seed(suite.prf, &nonces, &secret);
        let keys = IkeKeys::derive(&suite, &seed, &nonces, self.own_spi, responder_spi);
        let channel = Channel::new(suite, keys, true).ok_or(refused)?;
        Ok((channel, nonce.to_vec()))
    }

    /// Changes to the marked sockets if there is a NAT or the connection forces encapsulation (RFC 7296 section 2.23).
    fn choose_path(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let forces = connection.is_some_and(|connection| forces_encapsulation(cx, connection, path));
        self.nat = Nat::detect(payloads, self.spis(), cx.shared.local_of(path), path.remote());
        self.is_encapsulated |= self.nat.is_there() || forces;
        // RFC 4555 section 3.3: with MOBIKE at port 4500 in any case, as a NAT may come in between later.
        let is_marked = self.is_encapsulated || connection.is_some_and(|connection| connection.mobike);
        if is_marked && !cx.shared.is_marked(self.path) {
            let mut remote = self.path.remote();
            remote.set_port(MARKED_PORT);
            match cx.shared.sockets.marked.path_to(remote) {
                Some(path) => self.path = path,
                None => self.log(cx, Severity::Warning, "there is a NAT, and no socket for ESP in UDP"),
            }
        }
    }
}

/// Whether ESP goes in UDP even without a NAT: the connection demands it, or there is no socket for ESP in IP.
pub(crate) fn forces_encapsulation(cx: &Context<'_>, connection: &Connection, path: Path) -> bool {
    let raw = cx.shared.sockets.esp.raw_path_to(path.remote().ip());
    connection.forces_encapsulation || raw.is_none()
}

/// Whether a chosen proposal has additional key exchanges.
pub(super) fn has_additional(proposal: &Proposal) -> bool {
    let first = TransformType::ADDITIONAL_KEY_EXCHANGE_1;
    proposal.transforms.iter().any(|transform| transform.kind >= first && transform.id != 0)
}

/// The method that an `INVALID_KE_PAYLOAD` asks for.
pub(crate) fn wanted_group(data: &[u8]) -> Option<Group> {
    let number: [u8; 2] = data.try_into().ok()?;
    Group::from_number(u16::from_be_bytes(number))
}

/// A first request at a responder.
pub(crate) struct FirstRequest<'a> {
    pub(crate) path: Path,
    pub(crate) datagram: &'a [u8],
    pub(crate) message: &'a Message<'a>,
}

/// A responder's answer to a first request.
pub(crate) enum FirstAnswer {
    /// The responder makes an IKE SA.
    Accept(Box<IkeSa>),
    /// The responder answers an error and keeps no state.
    Refuse(Payload),
    /// The answer would be longer than the request, and the initiator has not proved its address: a responder amplifies nothing.
    AskForCookie,
}

impl FirstRequest<'_> {
    /// Answers with an error or a cookie, and keeps no state. The header has the SPI of the initiator and no SPI of this end.
    pub(crate) fn refuse(&self, cx: &mut Context<'_>, payload: Payload) {
        let mut header = self.message.header;
        header.flags.is_initiator = false;
        header.flags.is_response = true;
        header.minor_version = 0;
        let answer = Message { header, payloads: vec![payload], sealed: None }.encode();
        cx.shared.send(self.path, &answer);
    }

    /// Chooses a proposal and answers the key exchange. `has_cookie`: the initiator has proved its address.
    pub(crate) fn answer(&self, cx: &mut Context<'_>, has_cookie: bool) -> Result<FirstAnswer, Rejected> {
        let payloads = Payloads(&self.message.payloads);
        let (Some(offered), Some(exchange), Some(nonce)) =
            (payloads.proposals(), payloads.key_exchange(), payloads.nonce())
        else {
            return Err(Rejected::Malformed("a first request without SA, KE or nonce"));
        };
        let Some((connection, chosen)) = self.choose(cx.connections, offered) else {
            return Ok(FirstAnswer::Refuse(notify(NotifyType::NO_PROPOSAL_CHOSEN, Vec::new())));
        };
        let suite = chosen.ike_suite().ok_or(Rejected::Malformed("the proposal"))?;
        let knows_intermediate = payloads.notify(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED).is_some();
        if !suite.additional.is_empty() && !knows_intermediate {
            return Ok(FirstAnswer::Refuse(notify(NotifyType::NO_PROPOSAL_CHOSEN, Vec::new())));
        }
        if suite.group.number() != exchange.method {
            let group = suite.group.number().to_be_bytes().to_vec();
            return Ok(FirstAnswer::Refuse(notify(NotifyType::INVALID_KE_PAYLOAD, group)));
        }
        let draft = Draft {
            connection,
            proposal: chosen.to_wire(&[]),
            own_spi: cx.shared.ike_spi(),
            nonce: cx.shared.nonce(),
            has_cookie,
            offers_full_transcript: self.offers_full_transcript(cx.connections),
        };
        let placeholder = KeyExchange { method: exchange.method, data: vec![0; suite.group.responder_len()] };
        let Some(mut answer) = self.message_of(cx, &draft, placeholder) else {
            return Ok(FirstAnswer::AskForCookie);
        };
        let answered = answer_exchange(suite.group, &exchange.data, &mut cx.fill());
        let (public, secret) = answered.map_err(|_| Rejected::Malformed("the key exchange"))?;
        for payload in &mut answer.payloads {
            if let Payload::KeyExchange(exchange) = payload {
                exchange.data.clone_from(&public);
            }
        }
        let announced = Payloads(&answer.payloads).notify(NotifyType::SUPPORTED_AUTH_METHODS);
        let announces_later = announced.is_some_and(|announced| announced.data.is_empty());
        let (message, nonce) = (answer.encode(), nonce.to_vec());
        let sa = self.make(cx, Parts { suite, draft, message, announces_later, secret, nonce });
        Ok(FirstAnswer::Accept(Box::new(sa.ok_or(Rejected::Malformed("the proposal"))?)))
    }

    /// The answer. Payloads that the initiator can do without are left out where they would make it longer than the request. `None`: it
    /// is longer without them, too, and the initiator has not proved its address.
    fn message_of(
        &self,
        cx: &Context<'_>,
        draft: &Draft<'_>,
        exchange: KeyExchange,
    ) -> Option<Message<'static>> {
        let request = Payloads(&self.message.payloads);
        let Draft { connection, proposal, own_spi, nonce, has_cookie, offers_full_transcript } = draft;
        let mut payloads = vec![
            Payload::SecurityAssociation(vec![proposal.clone()]),
            Payload::KeyExchange(exchange),
            Payload::Nonce(nonce.clone()),
        ];
        let spis = [self.message.header.initiator_spi, *own_spi];
        if request.notify(NotifyType::NAT_DETECTION_SOURCE_IP).is_some() {
            let local = cx.shared.local_of(self.path);
            let local = local.filter(|_| !forces_encapsulation(cx, connection, self.path));
            payloads.extend(nat::notifies(spis, local, self.path.remote()));
        }
        let fragments = NotifyType::IKEV2_FRAGMENTATION_SUPPORTED;
        payloads.extend(request.notify(fragments).map(|_| notify(fragments, Vec::new())));
        // RFC 7427 section 4: for the initiator's signature. Without one it takes room that others need.
        let hashes = NotifyType::SIGNATURE_HASH_ALGORITHMS;
        let wanted = request.notify(hashes).filter(|_| self.takes_signatures(cx.connections));
        payloads.extend(wanted.map(|_| notify(hashes, SignatureHashes::own().encode())));
        if has_additional(proposal) {
            payloads.push(notify(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, Vec::new()));
        }
        let ppk = request.notify(NotifyType::USE_PPK).filter(|_| self.may_use_ppk(cx.connections));
        payloads.extend(ppk.map(|_| notify(NotifyType::USE_PPK, Vec::new())));
        // To an initiator that does not say so, too: an attacker may have taken the notify out of the request, and cannot take it out of
        // the answer, which this end proves.
        payloads.extend(offers_full_transcript.then(full_transcript));
        payloads.extend(self.certificate_request(cx.connections));
        let childless = (connection.childless != Childless::Never)
            .then(|| notify(NotifyType::CHILDLESS_IKEV2_SUPPORTED, Vec::new()));
        let announcement = self.announcement(cx.connections, proposal);
        let mut header = self.message.header;
        header.responder_spi = *own_spi;
        (header.flags.is_initiator, header.flags.is_response, header.minor_version) = (false, true, 0);
        let mut message = Message { header, payloads, sealed: None };
        let may_be_sent =
            |message: &Message<'_>| *has_cookie || message.encode().len() <= self.datagram.len();
        let optional = childless.map(|payload| (payload, usize::MAX)).into_iter();
        for (payload, longest) in optional.chain(announcement.map(|payload| (payload, LONGEST_WITH_LIST))) {
            message.payloads.push(payload);
            if !may_be_sent(&message) || message.encode().len() > longest {
                message.payloads.pop();
            }
        }
        may_be_sent(&message).then_some(message)
    }

    fn make(&self, cx: &mut Context<'_>, parts: Parts<'_>) -> Option<IkeSa> {
        let Parts { suite, draft, message, announces_later, secret, nonce } = parts;
        let (own_spi, peer_spi) = (draft.own_spi, self.message.header.initiator_spi);
        let nonces = Nonces { initiator: &nonce, responder: &draft.nonce };
        let seed = first_seed(suite.prf, &nonces, &secret);
        let keys = IkeKeys::derive(&suite, &seed, &nonces, peer_spi, own_spi);
        let lowest = lowest(&nonces);
        let half_open = HalfOpen {
            proposal: draft.proposal,
            peer_message: self.datagram.to_vec(),
            own_message: message.clone(),
            nonces: [nonce, draft.nonce],
            announces_later,
            eap: None,
        };
        let new = NewSa {
            own_spi,
            peer_spi,
            is_initiator: false,
            connection: None,
            path: self.path,
            phase: Phase::HalfOpen(Box::new(half_open)),
            channel: Some(Channel::new(suite, keys, false)?),
        };
        let mut sa = IkeSa::new(new, cx.now());
        sa.lowest_nonce = lowest;
        let request = Payloads(&self.message.payloads);
        // The hashes in a first request are made with a responder's SPI of zero.
        let local = cx.shared.local_of(self.path);
        sa.nat = Nat::detect(request.0, [peer_spi, Spi::ZERO], local, self.path.remote());
        sa.is_encapsulated = sa.nat.is_there() || forces_encapsulation(cx, draft.connection, self.path);
        sa.peer_takes_fragments = request.notify(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED).is_some();
        sa.peer_support = PeerSupport::of(request);
        sa.transcript.is_full = draft.offers_full_transcript && has_full_transcript(request);
        sa.send_response(cx, self.path, vec![message]);
        Some(sa)
    }
}

/// A responder's answer before its key exchange.
struct Draft<'a> {
    connection: &'a Connection,
    proposal: Proposal,
    own_spi: Spi,
    nonce: Vec<u8>,
    /// Whether the initiator has proved its address.
    has_cookie: bool,
    /// Whether this end says that it proves both first messages.
    offers_full_transcript: bool,
}

/// The values that a responder makes an IKE SA of.
struct Parts<'a> {
    suite: IkeSuite,
    draft: Draft<'a>,
    /// The answer.
    message: Vec<u8>,
    /// Whether the methods of authentication are announced with the last additional key exchange.
    announces_later: bool,
    secret: Secret,
    /// The initiator's nonce.
    nonce: Vec<u8>,
}

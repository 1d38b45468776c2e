//! An IKE SA: its messages, protected and numbered (RFC 7296 sections 2.1 to 2.3), and its timers.

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{Instant, Path, Rejected};

use super::addresses::{AddressCheck, Mobike};
use super::channel::Channel;
use super::child_sa::{ChildSa, REPLACED_FOR};
use super::context::{Context, Effect};
use super::few::FewMap;
use super::nat::Nat;
use super::params::Times;
use super::payloads::{Payloads, notify};
use super::peer::EndKind;
use super::proof::PeerSupport;
use super::requests::{
    AuthRequest, ChildRequest, FollowUpAnswer, FollowUpRequest, HalfOpen, IkeRekeyRequest, InitRequest,
};
use super::transcript::{IntermediateRequest, Transcript};
use crate::crypto::Protection;
use crate::fragment::{Assembler, Joined};
use crate::wire::{
    ExchangeType, Fault, Flags, Header, Identification, Message, NotifyType, Payload, Sealed, Spi,
    decode_chain,
};

/// Most bytes of a message in fragments from a peer that has authenticated; the next constant is for other peers.
const MOST_BYTES: usize = 65_536;
const MOST_BYTES_HALF_OPEN: usize = 16_384;

/// The phase of an IKE SA.
pub(crate) enum Phase {
    /// This end initiated it, and the peer has not authenticated.
    Connecting,
    /// The peer initiated it, and has not authenticated.
    HalfOpen(Box<HalfOpen>),
    /// The peer initiated it, and failed to authenticate. The response may be asked for again.
    Failed,
    /// Both have authenticated.
    Established,
    /// Another IKE SA took its place, and the peer deletes it.
    Replaced,
    /// This end deletes it.
    Closing,
}

/// A request that waits for its response.
pub(crate) struct Pending {
    message_id: u32,
    exchange: ExchangeType,
    pub(crate) datagrams: Vec<Vec<u8>>,
    pub(crate) retransmissions: u32,
    pub(crate) interval: Duration,
    pub(crate) due: Instant,
    /// The path that it is sent by. `None`: that of the IKE SA.
    pub(crate) path: Option<Path>,
    pub(crate) request: Request,
}

/// The purpose of a request, with the values that its response needs.
pub(crate) enum Request {
    Init(Box<InitRequest>),
    Intermediate(Box<IntermediateRequest>),
    Auth(Box<AuthRequest>),
    Child(Box<ChildRequest>),
    IkeRekey(Box<IkeRekeyRequest>),
    FollowUp(Box<FollowUpRequest>),
    DeleteChild(u32),
    DeleteIke,
    Liveness,
    AddressUpdate,
    AddressCheck(Box<AddressCheck>),
}

pub(crate) struct IkeSa {
    pub(crate) own_spi: Spi,
    pub(crate) peer_spi: Spi,
    pub(crate) is_initiator: bool,
    /// Its connection. `None`: the peer has not proved its identity.
    pub(crate) connection: Option<usize>,
    /// The identity that the peer has proved.
    pub(crate) peer_identity: Option<Identification>,
    /// The peer's identity of IKE, if the peer has proved another one by EAP.
    pub(crate) ike_identity: Option<Identification>,
    /// Whether a post-quantum pre-shared key is in its keys (RFC 8784).
    pub(crate) uses_ppk: bool,
    pub(crate) path: Path,
    pub(crate) phase: Phase,
    pub(crate) channel: Option<Channel>,
    pub(crate) nat: Nat,
    pub(crate) is_encapsulated: bool,
    pub(crate) peer_takes_fragments: bool,
    /// Whether long datagrams to the peer seem to be lost.
    pub(crate) is_path_narrow: bool,
    /// The messages of additional key exchanges.
    pub(crate) transcript: Transcript,
    /// The keys of the request that was answered last, if an additional key exchange has changed the keys since.
    pub(crate) previous_open: Option<Protection>,
    /// The changes of addresses (RFC 4555).
    pub(crate) mobike: Mobike,
    /// The parts of authentication that the peer supports.
    pub(crate) peer_support: PeerSupport,
    pub(crate) children: FewMap<u32, ChildSa>,
    /// Child SAs to delete.
    pub(crate) to_delete: VecDeque<u32>,
    pub(crate) pending: Option<Pending>,
    /// The additional key exchanges of the peer that this end waits for.
    pub(crate) follow_up: Option<Box<FollowUpAnswer>>,
    next_request: u32,
    expected: u32,
    /// The last response, for as long as its request can come again.
    answer: Vec<Vec<u8>>,
    answer_ends_at: Option<Instant>,
    /// How often its request has come again.
    answer_repeats: u32,
    request_parts: Assembler,
    response_parts: Assembler,
    pub(crate) made_at: Instant,
    pub(crate) heard: Instant,
    /// The time of the last datagram to the peer.
    pub(crate) sent_at: Instant,
    pub(crate) rekey_at: Option<Instant>,
    /// The time when this end authenticates anew.
    pub(crate) reauthentication_at: Option<Instant>,
    /// The time when the IKE SA ends if the peer has not authenticated or deleted it by then.
    pub(crate) ends_at: Option<Instant>,
    /// Whether the IKE SA that it replaces still has the child SAs: this end rekeys that IKE SA, too, and waits for the response.
    pub(crate) is_waiting: bool,
    /// The lower nonce of the exchange that made it.
    pub(crate) lowest_nonce: Vec<u8>,
    /// Whether a rekey made it. If not, it began with a first exchange.
    pub(crate) is_successor: bool,
}

/// The parameters of a new IKE SA.
pub(crate) struct NewSa {
    pub(crate) own_spi: Spi,
    pub(crate) peer_spi: Spi,
    pub(crate) is_initiator: bool,
    pub(crate) connection: Option<usize>,
    pub(crate) path: Path,
    pub(crate) phase: Phase,
    pub(crate) channel: Option<Channel>,
}

impl IkeSa {
    pub(crate) fn new(new: NewSa, now: Instant) -> Self {
        let most_bytes =
            if matches!(new.phase, Phase::Established) { MOST_BYTES } else { MOST_BYTES_HALF_OPEN };
        IkeSa {
            own_spi: new.own_spi,
            peer_spi: new.peer_spi,
            is_initiator: new.is_initiator,
            connection: new.connection,
            peer_identity: None,
            ike_identity: None,
            uses_ppk: false,
            path: new.path,
            phase: new.phase,
            channel: new.channel,
            nat: Nat::default(),
            is_encapsulated: false,
            peer_takes_fragments: false,
            is_path_narrow: false,
            transcript: Transcript::default(),
            previous_open: None,
            mobike: Mobike::default(),
            peer_support: PeerSupport::default(),
            children: FewMap::default(),
            to_delete: VecDeque::new(),
            pending: None,
            follow_up: None,
            next_request: 0,
            expected: 0,
            answer: Vec::new(),
            answer_ends_at: None,
            answer_repeats: 0,
            request_parts: Assembler::new(most_bytes),
            response_parts: Assembler::new(MOST_BYTES),
            made_at: now,
            heard: now,
            sent_at: now,
            rekey_at: None,
            reauthentication_at: None,
            ends_at: None,
            is_waiting: false,
            lowest_nonce: Vec::new(),
            is_successor: false,
        }
    }

    /// Both SPIs as they stand in headers.
    pub(crate) const fn spis(&self) -> [Spi; 2] {
        if self.is_initiator { [self.own_spi, self.peer_spi] } else { [self.peer_spi, self.own_spi] }
    }

    pub(crate) const fn header(&self, exchange: ExchangeType, is_response: bool, message_id: u32) -> Header {
        let [initiator_spi, responder_spi] = self.spis();
        let flags = Flags { is_initiator: self.is_initiator, has_higher_version: false, is_response };
        Header { initiator_spi, responder_spi, minor_version: 0, exchange, flags, message_id }
    }

    pub(crate) fn establish(&mut self, cx: &mut Context<'_>, is_initial_contact: bool) {
        self.phase = Phase::Established;
        self.ends_at = None;
        self.request_parts.set_limit(MOST_BYTES);
        self.forget_handshake();
        self.schedule_rekey(cx);
        self.schedule_reauthentication(cx);
        cx.effects.push(Effect::Established { is_initial_contact });
    }

    /// Forgets the values that authentication alone needs.
    fn forget_handshake(&mut self) {
        self.channel.iter_mut().for_each(|channel| channel.keys.forget_proofs());
        (self.transcript, self.peer_support) = (Transcript::default(), PeerSupport::default());
    }

    pub(crate) fn schedule_rekey(&mut self, cx: &mut Context<'_>) {
        let after = self.times(cx).ike_rekey.map(|time| cx.shared.jittered(time));
        self.rekey_at = after.map(|after| cx.now() + after);
    }

    /// The initiator authenticates anew when its own time has come, or earlier if the responder demands it (RFC 4478).
    fn schedule_reauthentication(&mut self, cx: &mut Context<'_>) {
        let after = self.times(cx).reauthentication.filter(|_| self.is_initiator);
        let after = after.map(|time| cx.shared.jittered(time));
        self.reauthentication_at = after.map(|after| cx.now() + after);
    }

    /// The responder says how long its authentication of the initiator holds (RFC 4478).
    pub(crate) fn limit_authentication(&mut self, cx: &Context<'_>, payloads: &[Payload]) {
        let notify = Payloads(payloads).notify(NotifyType::AUTH_LIFETIME);
        let Some(Ok(seconds)) = notify.map(|notify| <[u8; 4]>::try_from(notify.data.as_slice())) else {
            return;
        };
        let lifetime = Duration::from_secs(u32::from_be_bytes(seconds).into());
        // A tenth of the time is left for the exchanges.
        let at = cx.now() + (lifetime - lifetime / 10);
        self.reauthentication_at = Some(self.reauthentication_at.map_or(at, |own| own.min(at)));
    }

    /// The times of the connection. Those of a connection that was removed are the usual ones.
    pub(crate) fn times(&self, cx: &Context<'_>) -> Times {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        connection.map_or_else(Times::default, |connection| connection.times)
    }

    /// Sends a protected request. `request` decides how the response is handled.
    pub(crate) fn request(
        &mut self,
        cx: &mut Context<'_>,
        exchange: ExchangeType,
        payloads: &[Payload],
        request: Request,
    ) {
        let header = self.header(exchange, false, self.next_request);
        let Some(datagrams) = self.seal(cx, &header, payloads) else {
            return cx.remove("its keys are used up");
        };
        self.send_request(cx, exchange, datagrams, request);
    }

    /// Sends a request, and again until it is answered.
    pub(crate) fn send_request(
        &mut self,
        cx: &mut Context<'_>,
        exchange: ExchangeType,
        datagrams: Vec<Vec<u8>>,
        request: Request,
    ) {
        let times = self.times(cx);
        self.send(cx, self.path, &datagrams);
        self.pending = Some(Pending {
            message_id: self.next_request,
            exchange,
            datagrams,
            retransmissions: times.retransmissions,
            interval: times.retransmission,
            due: cx.now() + times.retransmission,
            path: None,
            request,
        });
    }

    /// The request was answered: the next one has the next number.
    pub(crate) fn take_pending(&mut self) -> Option<Request> {
        let pending = self.pending.take()?;
        self.next_request += 1;
        Some(pending.request)
    }

    /// Sends a protected response, which is kept for requests that come again.
    pub(crate) fn respond(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        exchange: ExchangeType,
        payloads: &[Payload],
    ) {
        let header = self.header(exchange, true, self.expected);
        let Some(datagrams) = self.seal(cx, &header, payloads) else {
            return cx.remove("its keys are used up");
        };
        self.send_response(cx, path, datagrams);
    }

    pub(crate) fn send_response(&mut self, cx: &mut Context<'_>, path: Path, datagrams: Vec<Vec<u8>>) {
        self.send(cx, path, &datagrams);
        (self.answer, self.answer_repeats) = (datagrams, 0);
        self.answer_ends_at = Some(cx.now() + REPLACED_FOR);
        self.expected += 1;
    }

    /// Sends the datagrams of a message.
    pub(crate) fn send(&mut self, cx: &mut Context<'_>, path: Path, datagrams: &[Vec<u8>]) {
        self.sent_at = cx.now();
        datagrams.iter().for_each(|datagram| cx.shared.send(path, datagram));
    }

    /// The time when the last response is forgotten: its request does not come again then.
    pub(crate) const fn answer_ends_at(&self) -> Option<Instant> {
        self.answer_ends_at
    }

    /// Forgets the last response if its time is over.
    pub(crate) fn forget_answer(&mut self, now: Instant) {
        if self.answer_ends_at.take_if(|at| *at <= now).is_some() {
            self.answer = Vec::new();
        }
    }

    /// Sends the last response once more.
    pub(crate) fn respond_again(&mut self, cx: &mut Context<'_>, path: Path) {
        self.answer_repeats = self.answer_repeats.saturating_add(1);
        let before = std::mem::take(&mut self.answer);
        let answer = self.cut_shorter(cx, &before, self.answer_repeats).unwrap_or(before);
        self.send(cx, path, &answer);
        self.answer = answer;
    }

    /// Checks that a message is a response or a request that this end waits for.
    fn check_number(&self, header: &Header) -> Result<(), Rejected> {
        if header.flags.is_response {
            let is_awaited = |pending: &Pending| {
                pending.message_id == header.message_id && pending.exchange == header.exchange
            };
            let is_awaited = self.pending.as_ref().is_some_and(is_awaited);
            return if is_awaited { Ok(()) } else { Err(Rejected::Unexpected("a response to no request")) };
        }
        let is_again = header.message_id.checked_add(1) == Some(self.expected) && !self.answer.is_empty();
        match self.phase {
            Phase::Connecting => return Err(Rejected::Unexpected("a request before authentication")),
            Phase::Failed if !is_again => {
                return Err(Rejected::Unexpected("a request after authentication failed"));
            }
            // CVE-2026-78135 of strongSwan, CVE-2014-2338: nothing else before authentication.
            Phase::HalfOpen(_) if !is_again && header.exchange != self.awaited_exchange() => {
                return Err(Rejected::Unexpected("a request before authentication"));
            }
            _ => {}
        }
        if header.message_id == self.expected || is_again { Ok(()) } else { Err(Rejected::Replayed) }
    }

    /// The exchange that a responder waits for before authentication.
    fn awaited_exchange(&self) -> ExchangeType {
        if self.awaited_group().is_some() { ExchangeType::IKE_INTERMEDIATE } else { ExchangeType::IKE_AUTH }
    }

    /// The number of the next request of this end.
    pub(crate) const fn next_request(&self) -> u32 {
        self.next_request
    }

    /// The number of the next request of the peer.
    pub(crate) const fn expected(&self) -> u32 {
        self.expected
    }

    /// Whether a datagram is the first request of this IKE SA once more.
    pub(crate) fn is_first_request(&self, datagram: &[u8]) -> bool {
        matches!(&self.phase, Phase::HalfOpen(half_open) if half_open.peer_message == datagram)
    }

    /// A message with an encrypted payload.
    pub(crate) fn handle_protected(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        datagram: &[u8],
        message: &Message<'_>,
    ) -> Result<(), Rejected> {
        let header = &message.header;
        let sealed = message.sealed.as_ref().ok_or(Rejected::Unexpected("nothing is protected"))?;
        if header.flags.is_initiator == self.is_initiator {
            return Err(Rejected::Unexpected("a message of this end"));
        }
        self.check_number(header)?;
        let channel = self.channel.as_ref().ok_or(Rejected::Unexpected("there are no keys"))?;
        let is_again = !header.flags.is_response && header.message_id != self.expected;
        let open = self.previous_open.as_ref().filter(|_| is_again).unwrap_or(&channel.open);
        let plain =
            open.open(datagram, sealed).map_err(|_| Rejected::Unauthentic("the encrypted payload"))?;
        if is_again {
            // RFC 7383 section 2.6.1: once for all fragments.
            if sealed.fragment.is_none_or(|fragment| fragment.number == 1) {
                self.respond_again(cx, path);
            }
            return Ok(());
        }
        let Some(joined) = self.join(header, sealed, plain)? else { return Ok(()) };
        self.heard = cx.now();
        self.follow(cx, path);
        let payloads = match decode_chain(joined.first, &joined.plain) {
            Ok(payloads) => payloads,
            Err(error) => {
                self.refuse_content(cx, path, header, error.fault);
                return Err(Rejected::Malformed("the payloads in the encrypted payload"));
            }
        };
        self.note_received(header, joined.first, &joined.plain);
        if header.flags.is_response {
            self.handle_response(cx, path, &payloads);
        } else {
            self.handle_request(cx, path, header.exchange, &payloads);
        }
        self.next_task(cx);
        Ok(())
    }

    fn join(
        &mut self,
        header: &Header,
        sealed: &Sealed<'_>,
        plain: crate::crypto::Secret,
    ) -> Result<Option<Joined>, Rejected> {
        let Some(place) = sealed.fragment else { return Ok(Some(Joined { first: sealed.first, plain })) };
        let parts = if header.flags.is_response { &mut self.response_parts } else { &mut self.request_parts };
        let joined = parts.add(header.message_id, place, sealed.first, plain);
        joined.map_err(|_| Rejected::Limited("fragments of a message"))
    }

    /// RFC 7296 section 2.21: a request with an error is answered, an SA with such a response ends.
    fn refuse_content(&mut self, cx: &mut Context<'_>, path: Path, header: &Header, fault: Fault) {
        if header.flags.is_response {
            return cx.remove(format!("its response is malformed: {fault}"));
        }
        let answer = match fault {
            Fault::Critical(kind) => notify(NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD, vec![kind.0]),
            _ => notify(NotifyType::INVALID_SYNTAX, Vec::new()),
        };
        self.respond(cx, path, header.exchange, &[answer]);
        if matches!(self.phase, Phase::HalfOpen(_)) {
            cx.remove(format!("its request is malformed: {fault}"));
        }
    }

    /// Moves the peer to the path of its newest message, if it has not authenticated, or if it is behind a NAT and this end is not
    /// (RFC 7296 section 2.23).
    fn follow(&mut self, cx: &mut Context<'_>, path: Path) {
        let may_follow = matches!(self.phase, Phase::HalfOpen(_)) || self.nat.is_remote && !self.nat.is_local;
        if may_follow && path != self.path {
            self.move_to(cx, path);
        }
    }

    fn handle_request(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        exchange: ExchangeType,
        payloads: &[Payload],
    ) {
        // The window of the peer is 1, so that it has the responses to all requests before this one.
        self.children.values_mut().for_each(|child| child.is_known = true);
        match exchange {
            ExchangeType::IKE_INTERMEDIATE if matches!(self.phase, Phase::HalfOpen(_)) => {
                self.answer_intermediate(cx, path, payloads)
            }
            ExchangeType::IKE_AUTH if matches!(self.phase, Phase::HalfOpen(_)) => {
                self.previous_open = None;
                self.handle_auth_request(cx, path, payloads)
            }
            ExchangeType::CREATE_CHILD_SA => self.handle_create_child(cx, path, payloads),
            ExchangeType::IKE_FOLLOWUP_KE => self.handle_follow_up(cx, path, payloads),
            ExchangeType::INFORMATIONAL => self.handle_informational(cx, path, payloads),
            _ => self.respond(cx, path, exchange, &[notify(NotifyType::INVALID_SYNTAX, Vec::new())]),
        }
    }

    fn handle_response(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        self.mobike.probed = 0;
        match self.take_pending() {
            Some(Request::Intermediate(request)) => self.handle_intermediate_response(cx, *request, payloads),
            Some(Request::Auth(request)) => self.handle_auth_response(cx, *request, payloads),
            Some(Request::Child(request)) if matches!(self.phase, Phase::Established) => {
                self.handle_child_response(cx, *request, payloads)
            }
            Some(Request::IkeRekey(request)) => self.handle_rekey_response(cx, *request, payloads),
            Some(Request::FollowUp(request)) => self.handle_follow_up_response(cx, *request, payloads),
            Some(Request::DeleteChild(spi)) => {
                self.remove_child(cx, spi);
                self.lose_children(cx, EndKind::DeadPeer);
            }
            Some(Request::AddressUpdate) => self.handle_address_update(cx, payloads),
            Some(Request::AddressCheck(check)) => self.handle_address_check(cx, path, *check, payloads),
            Some(Request::DeleteIke) => cx.remove_as(EndKind::Own, "deleted"),
            Some(Request::Child(_) | Request::Liveness | Request::Init(_)) | None => {}
        }
    }
}

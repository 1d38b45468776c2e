//! Before authentication: an initial packet gets an answer that costs no memory, or begins a control channel.
//!
//! Over UDP a first packet proves nothing. It is answered with a reset whose session id is a cookie, and
//! forgotten; a control channel begins with the third packet, which returns the cookie. Sources: OpenVPN mudp.c
//! (`do_pre_decrypt_check`), ssl_pkt.c (`tls_pre_decrypt_lite`).

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::{
    AnswerLimit, ClientLimit, Instant, Path, Permit, Rate, Rejected, Report, Severity, SourcePrefix,
    Transport, UnixTime, silence,
};
use zeroize::Zeroizing;

use super::cookie::CookieMaker;
use super::pre_check::answer_length;
use crate::outbox::Outbox;
use crate::params::{ServerParams, TlsCryptV2};
use crate::request::Event;
use crate::wire::{ControlBody, HEADER_LEN, Header, Opcode, Sid};
use crate::wrap::v2::{ASK_FOR_WRAPPED_KEY, Metadata, negotiates_early, wrapped_key_at_end};
use crate::wrap::{Opened, WrapConfig};

/// Answers that wait to be sent; the driver takes them at once.
const MAX_ANSWERS: usize = 256;
/// Answers to one address that are no larger than the packets that they answer. They are of no use for amplification,
/// but an attacker who replays one recorded first packet could make the server send many.
const SMALL_ANSWERS: Rate = Rate { count: 50, period: Duration::from_secs(1) };
/// Answers to copies of one wrapped first packet, wherever they come from. OpenVPN 2 wraps a first packet that it repeats anew.
/// OpenVPN 3 sends the same bytes once a second until it is answered (its protostack.hpp, `retransmit`), which takes more than
/// these only when so many answers were lost. Further copies were recorded and sent again.
const COPIES: Rate = Rate { count: 4, period: Duration::from_secs(10) };
/// The bytes at the start of a wrapped packet that tell it from all others: they hold its packet id and its tag, or enough of it.
const TELLING_BYTES: usize = 64;
/// The highest packet id in the three packets that begin a control channel.
const LAST_FIRST_ID: u32 = 1;

/// A client that shall have a control channel.
pub(super) struct PendingClient {
    /// Its session id.
    pub(super) sid: Sid,
    /// Its wrapping.
    pub(super) wrap: WrapConfig,
    /// The session id that it knows us by, if it returned a cookie: its address is proven, and both resets are
    /// done.
    pub(super) cookie: Option<Sid>,
    /// The metadata of its tls-crypt-v2 key, if it brought one.
    pub(super) metadata: Option<Metadata>,
}

/// The result of an initial packet.
pub(super) enum PreAuthOutcome {
    /// The packet was answered; nothing of it is left but the answer.
    Answered,
    /// The packet begins a control channel.
    Enter(PendingClient),
}

/// An initial packet with its tls-auth or tls-crypt wrapping removed.
struct FirstPacket {
    opened: Opened,
    wrap: WrapConfig,
    metadata: Option<Metadata>,
}

/// The pre-authentication stage: cookies and the limits on answers.
pub(super) struct PreAuth {
    cookies: CookieMaker,
    answer_limit: AnswerLimit,
    small_answer_limit: AnswerLimit,
    copy_limit: AnswerLimit,
    client_limit: ClientLimit,
    /// The source of the last first packet with its places in the limits, which are asked twice for each.
    last_source: Option<(SourcePrefix, [usize; 2])>,
    answers: VecDeque<(Path, Vec<u8>)>,
}

impl PreAuth {
    pub(super) fn new(params: &ServerParams, secret: Zeroizing<[u8; 32]>) -> Self {
        PreAuth {
            cookies: CookieMaker::new(secret, params.control.rekey.handshake),
            answer_limit: AnswerLimit::new(params.admission.answers),
            small_answer_limit: AnswerLimit::new(small_answers(params)),
            copy_limit: AnswerLimit::new(COPIES),
            client_limit: ClientLimit::new(params.admission.clients),
            last_source: None,
            answers: VecDeque::new(),
        }
    }

    /// All that was answered so far is void: no control channel begins by it any more.
    pub(super) fn renew(&mut self, params: &ServerParams, secret: Zeroizing<[u8; 32]>) {
        self.cookies = CookieMaker::new(secret, params.control.rekey.handshake);
        self.last_source = None;
        self.answers.clear();
    }

    /// Takes the limits of other settings.
    pub(super) fn set_limits(&mut self, params: &ServerParams) {
        self.answer_limit = AnswerLimit::new(params.admission.answers);
        self.small_answer_limit = AnswerLimit::new(small_answers(params));
        self.client_limit = ClientLimit::new(params.admission.clients);
    }

    /// The next answer to send.
    pub(super) fn poll_answer(&mut self) -> Option<(Path, Vec<u8>)> {
        self.answers.pop_front()
    }

    /// A control packet that belongs to no control channel. Events that are worth a line in the log go to `events`, at
    /// most one line in each period of a limit.
    pub(super) fn handle_initial_packet(
        &mut self,
        now: Instant,
        params: &ServerParams,
        path: Path,
        datagram: &[u8],
        events: &mut Outbox,
    ) -> Result<PreAuthOutcome, Rejected> {
        let first = open(params, datagram)?;
        let Header { opcode, key_id } = first.opened.header;
        let is_reset = matches!(opcode, Opcode::HardResetClientV2 | Opcode::HardResetClientV3);
        let may_begin = is_reset || matches!(opcode, Opcode::Control | Opcode::Ack | Opcode::ControlWkc);
        if !may_begin || key_id != 0 {
            return Err(Rejected::Unexpected("no control channel here has this session id"));
        }
        let body = ControlBody::decode(opcode, &first.opened.body)?;
        if is_reset && (body.packet_id != Some(0) || !body.acks.is_empty()) {
            return Err(Rejected::Unexpected("not a first reset"));
        }
        let pending = match (is_reset, path.transport()) {
            // A TCP connection has proved its address.
            (true, Transport::Tcp) => {
                check_age(now, params, &first)?;
                let FirstPacket { opened, wrap, metadata } = first;
                PendingClient { sid: opened.sid, wrap, cookie: None, metadata }
            }
            (false, Transport::Tcp) => {
                return Err(Rejected::Unexpected("no control channel here has this session id"));
            }
            (true, Transport::Udp | Transport::Ip(_)) => {
                match self.answer(now, params, path, datagram, first, events)? {
                    Some(old_client) => old_client,
                    None => return Ok(PreAuthOutcome::Answered),
                }
            }
            (false, Transport::Udp | Transport::Ip(_)) => {
                self.check_cookie(now, params, path, first, &body)?
            }
        };
        if let Some(rate) = params.admission.clients
            && let Permit::Refused { first } = self.client_limit.ask(now)
        {
            note_limit(first, "connect-freq", rate, "new clients are not let in", path, events);
            return Err(Rejected::Limited("new clients (connect-freq)"));
        }
        Ok(PreAuthOutcome::Enter(pending))
    }

    /// Answers a first packet over UDP. A tls-crypt-v2 client before OpenVPN 2.6 cannot bring its key a second
    /// time: it gets a control channel at once.
    fn answer(
        &mut self,
        now: Instant,
        params: &ServerParams,
        path: Path,
        datagram: &[u8],
        first: FirstPacket,
        events: &mut Outbox,
    ) -> Result<Option<PendingClient>, Rejected> {
        let client = first.opened.sid;
        let mut payload = Vec::new();
        if first.metadata.is_some() {
            if !first.opened.wrap_id.is_some_and(|id| negotiates_early(id.id)) {
                check_age(now, params, &first)?;
                let FirstPacket { wrap, metadata, .. } = first;
                return Ok(Some(PendingClient { sid: client, wrap, cookie: None, metadata }));
            }
            payload = ASK_FOR_WRAPPED_KEY.to_vec();
        }
        let answer_length = answer_length(first.wrap.overhead(), &payload);
        let body = ControlBody { acks: vec![0], peer_sid: Some(client), packet_id: Some(0), payload };
        let mut bytes = Vec::new();
        body.encode(&mut bytes);
        let larger = answer_length > datagram.len();
        self.check_answer(now, params, path, larger, AnswerLimit::ask, events)?;
        self.check_copies(now, params, datagram, AnswerLimit::ask)?;
        if self.answers.len() >= MAX_ANSWERS {
            return Err(Rejected::Limited("answers that wait to be sent"));
        }
        let mut wrap = first.wrap.instantiate_after(params.control.wall(now), 0);
        let mut answer = Vec::with_capacity(answer_length);
        let header = Header { opcode: Opcode::HardResetServerV2, key_id: 0 };
        let cookie = self.cookies.make(now, path, client);
        if wrap.seal(header, cookie, &bytes, &mut answer).is_ok() {
            debug_assert_eq!(answer.len(), answer_length, "as it was foreseen");
            self.answers.push_back((path, answer));
        }
        Ok(None)
    }

    /// Whether one more answer may go to that address; `larger` than the packet that it answers, or not.
    /// [`AnswerLimit::ask`] counts it, [`AnswerLimit::foresee`] does not.
    pub(super) fn check_answer(
        &mut self,
        now: Instant,
        params: &ServerParams,
        path: Path,
        larger: bool,
        ask: fn(&mut AnswerLimit, Instant, [usize; 2]) -> Permit,
        events: &mut Outbox,
    ) -> Result<(), Rejected> {
        let places = self.places(path.source_prefix());
        let permit = ask(self.limit(larger), now, places);
        check_permit(permit, params, path, larger, events)
    }

    /// Whether one more copy of that first packet may be answered. Without a wrapping it is no work to make another.
    pub(super) fn check_copies(
        &mut self,
        now: Instant,
        params: &ServerParams,
        datagram: &[u8],
        ask: fn(&mut AnswerLimit, Instant, [usize; 2]) -> Permit,
    ) -> Result<(), Rejected> {
        if matches!(params.control.wrap, WrapConfig::Plain) && params.admission.v2.is_none() {
            return Ok(());
        }
        let telling = datagram.get(..TELLING_BYTES).unwrap_or(datagram);
        match ask(&mut self.copy_limit, now, self.cookies.places_of_packet(telling)) {
            Permit::Granted => Ok(()),
            Permit::Refused { .. } => Err(Rejected::Limited("answers to copies of one first packet")),
        }
    }

    fn places(&mut self, source: SourcePrefix) -> [usize; 2] {
        match self.last_source {
            Some((last, places)) if last == source => places,
            _ => {
                let places = self.cookies.places(source);
                self.last_source = Some((source, places));
                places
            }
        }
    }

    fn limit(&mut self, larger: bool) -> &mut AnswerLimit {
        if larger { &mut self.answer_limit } else { &mut self.small_answer_limit }
    }

    /// The third packet: it must return the cookie, and be one of the first.
    fn check_cookie(
        &mut self,
        now: Instant,
        params: &ServerParams,
        path: Path,
        first: FirstPacket,
        body: &ControlBody,
    ) -> Result<PendingClient, Rejected> {
        let early = |id: &u32| *id <= LAST_FIRST_ID;
        if !body.acks.iter().all(early) || !body.packet_id.iter().all(early) {
            return Err(Rejected::Unexpected("no control channel here has this session id"));
        }
        let client = first.opened.sid;
        let cookie = body.peer_sid.filter(|cookie| self.cookies.is_ours(now, path, client, *cookie));
        let Some(cookie) = cookie else {
            return Err(Rejected::Unexpected(
                "no control channel here has this session id, nor is it our cookie",
            ));
        };
        check_age(now, params, &first)?;
        let places = self.places(path.source_prefix());
        self.answer_limit.credit(places);
        self.small_answer_limit.credit(places);
        Ok(PendingClient { sid: client, wrap: first.wrap, cookie: Some(cookie), metadata: first.metadata })
    }
}

/// [`SMALL_ANSWERS`], or as many as the configuration allows of others if that is more.
fn small_answers(params: &ServerParams) -> Rate {
    let answers = params.admission.answers;
    let a_second = f64::from(answers.count) / answers.period.as_secs_f64().max(1.0);
    if a_second > f64::from(SMALL_ANSWERS.count) { answers } else { SMALL_ANSWERS }
}

/// Takes the wrapping off, with the key that a tls-crypt-v2 client brings.
fn open(params: &ServerParams, datagram: &[u8]) -> Result<FirstPacket, Rejected> {
    let wrap = &params.control.wrap;
    let header = datagram.first().and_then(|byte| Header::from_byte(*byte));
    let brings_key = header.is_some_and(|header| header.opcode.carries_client_key());
    let v2 = params.admission.v2.as_ref();
    let Some(TlsCryptV2 { key, .. }) = v2.filter(|_| brings_key) else {
        // Beside tls-crypt-v2, no wrapping means a wrapping of some kind (OpenVPN ssl_pkt.c `read_control_auth`).
        return match (wrap, v2) {
            (WrapConfig::Plain, Some(_)) => {
                Err(Rejected::Unauthentic("it is not wrapped, and this server asks for tls-crypt-v2"))
            }
            _ if brings_key => {
                Err(Rejected::Unexpected("a tls-crypt-v2 client, but this server has no tls-crypt-v2 key"))
            }
            _ => Ok(FirstPacket { opened: wrap.open(datagram)?, wrap: wrap.clone(), metadata: None }),
        };
    };
    let (_, wrapped) = datagram
        .split_at_checked(HEADER_LEN)
        .and_then(|(_, rest)| wrapped_key_at_end(rest))
        .ok_or(Rejected::Malformed("the length of the tls-crypt-v2 client key"))?;
    let (key, metadata) = key.unwrap(wrapped)?;
    let wrap = WrapConfig::tls_crypt_v2_of_client(&key);
    Ok(FirstPacket { opened: wrap.open(datagram)?, wrap, metadata: Some(metadata) })
}

/// `tls-crypt-v2-max-age`: a key that says when it was made must not be older, and must say it.
fn check_age(now: Instant, params: &ServerParams, first: &FirstPacket) -> Result<(), Rejected> {
    let max_age = params.admission.v2.as_ref().and_then(|v2| v2.max_age);
    let (Some(max_age), Some(metadata)) = (max_age, &first.metadata) else { return Ok(()) };
    let UnixTime(wall) = params.control.wall(now);
    match metadata {
        Metadata::Made(UnixTime(made)) if wall.saturating_sub(*made) <= max_age.as_secs() => Ok(()),
        _ => Err(Rejected::Unauthentic(
            "its tls-crypt-v2 key is too old, or has no date (tls-crypt-v2-max-age)",
        )),
    }
}

/// The verdict of a limit of answers, as a result; and in the log, if that is worth it.
fn check_permit(
    permit: Permit,
    params: &ServerParams,
    path: Path,
    larger: bool,
    events: &mut Outbox,
) -> Result<(), Rejected> {
    let Permit::Refused { first } = permit else { return Ok(()) };
    let (name, rate) = match larger {
        true => ("connect-freq-initial", params.admission.answers),
        false => ("connect-freq-initial, or its least", small_answers(params)),
    };
    note_limit(first, name, rate, "its first packets are not answered", path, events);
    Err(Rejected::Limited("answers to one address (connect-freq-initial)"))
}

fn note_limit(
    first: bool,
    directive: &str,
    Rate { count, period }: Rate,
    what: &str,
    path: Path,
    events: &mut Outbox,
) {
    if first {
        let text = format!(
            "more than {count} in {} s ({directive}): {what} for a while; this is said once in {} s",
            period.as_secs().max(1),
            silence(period).as_secs()
        );
        events.push_back(Event::Report(Report { severity: Severity::Warning, path: Some(path), text }));
    }
}

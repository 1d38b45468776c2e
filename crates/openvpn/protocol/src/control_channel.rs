//! The control channel with one peer: wrapping, session ids, and the key exchanges one after another.

mod peer;
mod receive;
mod renewal;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use adit_core::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use zeroize::Zeroizing;

use self::renewal::jittered;
use crate::key_method::KeyMethod2;
use crate::key_state::{KeyState, KeyStateError, PacketShape, earliest};
use crate::keys::KeyMaterial;
use crate::params::ControlParams;
use crate::request::{ConnectionFailure, UserPassword};
use crate::tls::{CertificateFault, TlsStep};
use crate::wire::{Header, MAX_ACKS, Opcode, SID_LEN, Sid, TlsRole};
use crate::wrap::{Wrap, WrapConfig, WrapReplay};

/// Key exchanges that can be alive at once: retiring, current, next.
const MAX_KEY_STATES: usize = 3;
/// Key ids are 3 bits; 0 is the first exchange's only (OpenVPN ssl.c `key_state_soft_reset`).
const MAX_KEY_ID: u8 = 7;
/// `op | sid | acks | ack ids | peer sid | packet id`: a control packet without wrapping and payload.
const CONTROL_HEADER: usize = 1 + 8 + 1 + 4 * 4 + 8 + 4;
/// TLS in a control packet, however small `max-packet-size` is.
const LEAST_CHUNK: usize = 64;
/// ACKs that a SoftEther server takes in one packet.
const MAX_ACKS_OF_SOFTETHER: usize = 4;
/// IPv6 and UDP, the larger of the outer headers that `max-packet-size` includes.
const OUTER_HEADERS: usize = 48;

/// A message of the control channel to its client or server.
pub(crate) enum ControlOutput {
    /// A server: this client said hello in exchange `key_id`; answer with [`ControlChannel::answer_hello`].
    Hello { key_id: u8, message: Box<KeyMethod2> },
    /// A client: data keys can be exported from a renegotiation whose end is still to come. A server may seal with them
    /// in the step that ends it (MirageVPN does), so that its first packets are right behind its key method 2.
    Secured { key_id: u8 },
    /// A client: scripts judge the server's certificates; then [`ControlChannel::say_hello`] or the end.
    Judge { key_id: u8 },
    /// A client: a step of TLS that is to be made outside; then [`ControlChannel::step_done`].
    Step(TlsStep),
    /// An exchange is complete: its data keys can be made.
    Established { key_id: u8 },
    /// A control message.
    Message(Zeroizing<Vec<u8>>),
    /// The data keys of `key_id` are due to become the ones we seal with.
    Activate { key_id: u8 },
    /// The keys of `key_id` are over.
    Retire { key_id: u8 },
    /// A renegotiation did not end within `hand-window`; the tunnel goes on with the keys it has. `known`: the peer had
    /// answered it.
    Unfinished { known: bool },
    /// The control channel is beyond repair. `refused`: one end does not accept the certificate of the other
    /// end.
    Failed { reason: String, refused: bool, failure: ConnectionFailure },
}

/// Whether we seal with the keys of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activation {
    Pending(Instant),
    Done,
}

struct Exchange {
    state: KeyState,
    activation: Activation,
    /// When the keys stop to open, once a newer exchange took over.
    retire_at: Option<Instant>,
}

/// The control channel with one peer.
pub(crate) struct ControlChannel {
    role: TlsRole,
    params: Arc<ControlParams>,
    own_sid: Sid,
    peer_sid: Option<Sid>,
    wrap: Wrap,
    replay: WrapReplay,
    /// The wrapping of renegotiations, if both ends can do dynamic tls-crypt.
    dynamic: Option<(Wrap, WrapReplay)>,
    /// Oldest first; never empty.
    exchanges: Vec<Exchange>,
    reneg_at: Option<Instant>,
    reneg_after: Option<Duration>,
    /// The key id of the exchange that began last.
    newest_key_id: u8,
    /// Since when there is a renegotiation under way, or one attempt at it after the other.
    unfinished_since: Option<Instant>,
    /// How many attempts in a row the peer knew of and did not end.
    unfinished: u32,
    /// The peer wraps packets of the first exchange like those of later ones.
    peer_wraps_alike: bool,
    peer_name: Option<String>,
    /// The peer has proved its name, or that it has none.
    identified: bool,
    tls_description: String,
    outputs: VecDeque<ControlOutput>,
    agreed: bool,
    failed: bool,
    /// The packets that still wait to be sent are stale.
    silent: bool,
    server_may_begin: bool,
    /// A client's key method 2 with random numbers still to be filled in.
    hello: Option<KeyMethod2>,
    rng: ChaCha20Rng,
}

impl ControlChannel {
    /// A client's control channel: starts with a hard reset. `hello` is repeated (with fresh random numbers) in each
    /// exchange.
    pub(crate) fn client(
        now: Instant,
        params: Arc<ControlParams>,
        hello: KeyMethod2,
        mut rng: ChaCha20Rng,
    ) -> Result<Self, KeyStateError> {
        let (own_sid, wrap) = (random_sid(&mut rng), params.wrap.instantiate(params.wall(now)));
        let reset = match params.wrap.client_key_len() {
            Some(_) => Opcode::HardResetClientV3,
            None => Opcode::HardResetClientV2,
        };
        let mut channel = Self::new(TlsRole::Client, params, (own_sid, wrap), Some(hello), rng);
        channel.start_exchange(now, 0, Some(reset))?;
        Ok(channel)
    }

    /// A server's control channel with the client whose session id is `peer_sid`. If `cookie` is given, the client knows
    /// us by it, and the resets are done.
    pub(crate) fn server(
        now: Instant,
        params: Arc<ControlParams>,
        wrap: WrapConfig,
        (peer_sid, cookie): (Sid, Option<Sid>),
        mut rng: ChaCha20Rng,
    ) -> Result<Self, KeyStateError> {
        let own_sid = cookie.unwrap_or_else(|| random_sid(&mut rng));
        // The packet that carried the cookie was number 1.
        let last = u32::from(cookie.is_some());
        let wrap = wrap.instantiate_after(params.wall(now), last);
        let mut channel = Self::new(TlsRole::Server, params, (own_sid, wrap), None, rng);
        channel.peer_sid = Some(peer_sid);
        let reset = if cookie.is_some() { None } else { Some(Opcode::HardResetServerV2) };
        channel.start_exchange(now, 0, reset)?;
        Ok(channel)
    }

    fn new(
        role: TlsRole,
        params: Arc<ControlParams>,
        (own_sid, wrap): (Sid, Wrap),
        hello: Option<KeyMethod2>,
        mut rng: ChaCha20Rng,
    ) -> Self {
        let reneg_after = params.rekey.after.map(|reneg| jittered(reneg, role, &mut rng));
        ControlChannel {
            role,
            own_sid,
            peer_sid: None,
            wrap,
            replay: WrapReplay::new(),
            dynamic: None,
            exchanges: Vec::new(),
            reneg_at: None,
            reneg_after,
            newest_key_id: 0,
            unfinished_since: None,
            unfinished: 0,
            peer_wraps_alike: false,
            peer_name: None,
            identified: false,
            tls_description: String::new(),
            outputs: VecDeque::new(),
            agreed: false,
            failed: false,
            silent: false,
            server_may_begin: false,
            hello,
            rng,
            params,
        }
    }

    /// The ends have agreed on the tunnel: there may be renegotiations. `dynamic`: they are wrapped by a key that
    /// only this control channel has.
    ///
    /// # Errors
    /// When TLS cannot export.
    pub(crate) fn agreed(&mut self, now: Instant, dynamic: bool) -> Result<(), KeyStateError> {
        self.agreed = true;
        let first = self.exchanges.iter().find(|exchange| exchange.state.key_id == 0);
        if let (true, None, Some(first)) = (dynamic, &self.dynamic, first) {
            let exported = first.state.export_wrapping()?;
            let config = self.wrap.config().dynamic(&exported, self.role);
            self.dynamic = Some((config.instantiate(self.params.wall(now)), WrapReplay::new()));
        }
        Ok(())
    }

    /// The wrapping of packets with this key id (OpenVPN ssl_pkt.h `tls_session_get_tls_wrap`).
    fn wrapping(&mut self, key_id: u8) -> &mut Wrap {
        match &mut self.dynamic {
            Some((wrap, _)) if key_id > 0 || self.peer_wraps_alike => wrap,
            _ => &mut self.wrap,
        }
    }

    fn packet_shape(&mut self, key_id: u8) -> PacketShape {
        let overhead = self.wrapping(key_id).overhead();
        let headers = OUTER_HEADERS + CONTROL_HEADER + overhead;
        let unwrapped_client = self.role == TlsRole::Client && overhead == 0;
        PacketShape {
            chunk: self.params.max_packet_size.saturating_sub(headers).max(LEAST_CHUNK),
            // SoftEther drops packets with more (OpenVPN ssl_pkt.c `write_control_auth`).
            acks_alone: if unwrapped_client { MAX_ACKS_OF_SOFTETHER } else { MAX_ACKS },
            client_key: self.params.wrap.client_key_len(),
        }
    }

    /// A server may speak first: a point-to-point one does that knows where we are.
    pub(crate) fn let_server_begin(&mut self) {
        self.server_may_begin = true;
    }

    /// Everything we sent was acknowledged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.exchanges.iter().all(|exchange| exchange.state.is_quiet())
    }

    /// A server's answer to [`ControlOutput::Hello`].
    pub(crate) fn answer_hello(&mut self, now: Instant, key_id: u8, mut answer: KeyMethod2) {
        answer.source = crate::key_state::key_source(&mut self.rng, self.role);
        let Some(index) = self.exchanges.iter().position(|exchange| exchange.state.key_id == key_id) else {
            return;
        };
        match self.exchanges[index].state.send_key_method(now, answer) {
            Ok(()) => self.established(now, index),
            Err(error) => self.fail(now, error),
        }
    }

    /// The server's certificates were found good ([`ControlOutput::Judge`]): a client says its key method 2.
    pub(crate) fn say_hello(&mut self, now: Instant, key_id: u8) {
        let exchange = self.exchanges.iter_mut().find(|exchange| exchange.state.key_id == key_id);
        if let Some(Err(error)) = exchange.map(|exchange| exchange.state.say_hello(now)) {
            self.fail(now, error);
        }
    }

    /// A step of TLS was made outside ([`ControlOutput::Step`]). One that is not awaited any more changes nothing.
    pub(crate) fn step_done(&mut self, now: Instant, step: &TlsStep) {
        let Some(index) = self.exchanges.iter().position(|exchange| exchange.state.awaits(step)) else {
            return;
        };
        if self.failed {
            return;
        }
        match self.exchanges[index].state.step_done(now) {
            Ok(()) => self.collect(now, index),
            Err(error) => self.fail(now, error),
        }
    }

    /// Sends a control message on the newest established exchange.
    pub(crate) fn send_message(&mut self, now: Instant, text: &str) {
        let newest = self.exchanges.iter_mut().rev().find(|exchange| exchange.state.is_established());
        if let Some(exchange) = newest
            && let Err(error) = exchange.state.send_message(now, text)
        {
            self.fail(now, error);
        }
    }

    /// Sets the credentials that a client sends from the next exchange on.
    pub(crate) fn set_credentials(&mut self, credentials: &UserPassword) {
        if let Some(hello) = &mut self.hello {
            hello.username.clone_from(&credentials.username);
            hello.password.clone_from(&credentials.password);
        }
    }

    /// Takes other settings, which hold from the next key exchange on. How control packets are wrapped stays.
    pub(crate) fn reconfigure(&mut self, params: &ControlParams) {
        self.params = Arc::new(ControlParams { wrap: self.params.wrap.clone(), ..params.clone() });
    }

    /// The next exchange is made by these.
    #[cfg(test)]
    pub(crate) fn set_control(&mut self, params: ControlParams) {
        self.params = Arc::new(params);
    }

    /// The data keys of an established exchange.
    pub(crate) fn key_material(&self, key_id: u8, exporter: bool) -> Result<KeyMaterial, KeyStateError> {
        let exchange = self.exchanges.iter().find(|exchange| exchange.state.key_id == key_id);
        match (exchange, self.peer_sid) {
            (Some(exchange), Some(peer_sid)) => exchange.state.key_material(exporter, self.own_sid, peer_sid),
            _ => Err(KeyStateError::MissingKeySource),
        }
    }

    fn fail(&mut self, now: Instant, error: KeyStateError) {
        // Lets the TLS alert out, so that the peer can say why.
        for exchange in &mut self.exchanges {
            exchange.state.flush(now);
        }
        // A forged word of the server must not end a client for good. TLS proves the messages after its handshake.
        let proven = self.wrap.overhead() > 0
            || self.exchanges.last().is_some_and(|exchange| !exchange.state.tls().is_handshaking());
        let refused = error.is_refusal() && (proven || !error.is_hearsay());
        let fault =
            self.exchanges.iter().find_map(|exchange| exchange.state.tls().refused_certificate()).cloned();
        let mut reason = error.to_string();
        if let Some(CertificateFault { depth: 0, subject, .. }) = &fault
            && !reason.contains(subject)
        {
            reason.push_str(&format!(" (the certificate of {subject})"));
        }
        self.end_with(ControlOutput::Failed {
            reason,
            refused,
            failure: ConnectionFailure::Tls(fault.map(Box::new)),
        });
    }

    fn give_up(&mut self, reason: String, refused: bool) {
        self.end_with(ControlOutput::Failed { reason, refused, failure: ConnectionFailure::Tls(None) });
    }

    /// A key exchange did not end within `hand-window`, and there are no keys to go on with.
    fn time_out(&mut self) {
        let (reason, failure) = (self.lateness(), ConnectionFailure::Late(self.params.rekey.handshake));
        self.end_with(ControlOutput::Failed { reason, refused: false, failure });
    }

    fn end_with(&mut self, failure: ControlOutput) {
        if !self.failed {
            self.failed = true;
            self.outputs.push_back(failure);
        }
    }

    /// Sends nothing any more, neither again nor for the first time: the peer is gone, or has another control channel.
    pub(crate) fn fall_silent(&mut self) {
        self.silent = true;
    }

    /// Does the work that is due at `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.failed {
            return;
        }
        let is_late = |exchange: &Exchange| exchange.state.is_late(now, self.params.rekey.handshake);
        if let Some(index) = self.exchanges.iter().position(is_late) {
            self.give_up_late(now, index);
        }
        if self.failed {
            return;
        }
        self.activate_due(now);
        while self.exchanges.first().and_then(|oldest| oldest.retire_at).is_some_and(|at| now >= at) {
            self.drop_oldest();
        }
        if self.agreed && self.reneg_at.is_some_and(|at| now >= at) {
            self.renegotiate_by_time(now);
        }
    }

    /// [`ControlOutput::Unfinished`] for people.
    pub(crate) fn unfinished_text(&self, known: bool) -> String {
        let seconds = self.params.rekey.handshake.as_secs();
        let next = match known {
            true => "the peer answered, and may begin another",
            false => "the peer did not answer; another attempt begins",
        };
        format!(
            "a renegotiation did not end within {seconds} s (hand-window): {next}; the present keys stay in use"
        )
    }

    fn lateness(&self) -> String {
        let seconds = self.params.rekey.handshake.as_secs();
        if self.heard() {
            format!(
                "the key exchange did not end within {seconds} s (hand-window): packets are lost on the way, or the peer stopped"
            )
        } else {
            format!(
                "no answer within {seconds} s (hand-window): a firewall is in the way, the server is not running there, or its tls-auth/tls-crypt key is another"
            )
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.failed {
            return None;
        }
        let mut next = self.reneg_at.filter(|_| self.agreed);
        for exchange in &self.exchanges {
            next = earliest(next, exchange.state.poll_timeout(self.params.rekey.handshake));
            next = earliest(next, exchange.retire_at);
            if let Activation::Pending(at) = exchange.activation
                && (exchange.state.is_confirmed()
                    || exchange.state.key_id == 0 && exchange.state.is_established())
            {
                next = earliest(next, Some(at));
            }
        }
        next
    }

    pub(crate) fn poll_output(&mut self) -> Option<ControlOutput> {
        self.outputs.pop_front()
    }

    /// Appends the next control datagram to `out`; false when there is none.
    pub(crate) fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.silent {
            return false;
        }
        let peer_sid = self.peer_sid;
        for exchange in &mut self.exchanges {
            exchange.state.flush(now);
            let Some((opcode, body)) = exchange.state.poll_packet(now, peer_sid) else { continue };
            let mut bytes = Vec::with_capacity(body.payload.len() + CONTROL_HEADER);
            body.encode(&mut bytes);
            let header = Header { opcode, key_id: exchange.state.key_id };
            let own_sid = self.own_sid;
            if self.wrapping(header.key_id).seal(header, own_sid, &bytes, out).is_err() {
                self.give_up("the control channel has used up its packet ids".to_owned(), false);
                return false;
            }
            return true;
        }
        false
    }
}

fn random_sid(rng: &mut impl RngCore) -> Sid {
    let mut sid = [0; SID_LEN];
    while sid == [0; SID_LEN] {
        rng.fill_bytes(&mut sid);
    }
    Sid(sid)
}

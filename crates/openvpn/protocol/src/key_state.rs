//! One key exchange: reliability layer, TLS, key method 2.

mod error;
mod key_material;

use std::time::Duration;

use adit_core::Instant;
use zeroize::Zeroizing;

pub(crate) use self::error::KeyStateError;
pub(crate) use self::key_material::key_source;
use crate::client_hello::without_exports;
use crate::key_method::KeyMethod2;
use crate::keys::KeySource;
use crate::params::ControlParams;
use crate::reliable::{Accept, AckQueue, ReceiveWindow, SendWindow};
use crate::tls::{TlsChannel, TlsStep};
use crate::wire::{ControlBody, Opcode, Sid, TlsRole};
use crate::wrap::v2::asks_for_wrapped_key;

/// ACKs in a packet that carries something else; ACK_V1 takes up to 8 (OpenVPN ssl_pkt.h).
const MAX_ACKS_WITH_DATA: usize = 4;
/// TLS in a packet that brings a wrapped key, however long the key is.
const LEAST_BESIDE_KEY: usize = 16;
/// Id of the packet that brings the wrapped key, the first after the reset.
const KEY_PACKET: u32 = 1;

/// How far a key exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Resets are being exchanged.
    Reset,
    /// The TLS handshake runs.
    Handshake,
    /// TLS is up; key method 2 is under way.
    KeyMethod,
    /// Both key method 2 messages are known.
    Established,
}

/// A message of a key exchange to the control channel.
#[derive(Debug)]
pub(crate) enum KeyStateOutput {
    /// The client's key method 2 arrived: a server decides now and answers with [`KeyState::send_key_method`].
    ClientHello(Box<KeyMethod2>),
    /// A client: the TLS handshake of a renegotiation is done, so that keys can be exported.
    Secured,
    /// Both sides' key method 2 are known.
    Established,
    /// A control message, still with its NUL.
    Message(Zeroizing<Vec<u8>>),
    /// A client: the server's certificates are to be judged before anything is said to it.
    Judge,
    /// A step of TLS that is to be made outside; then [`KeyState::step_done`].
    Step(TlsStep),
}

/// One key exchange with the peer, and the control channel that stays open after it.
pub(crate) struct KeyState {
    pub(crate) key_id: u8,
    pub(crate) started: Instant,
    /// When both key method 2 messages were known.
    pub(crate) established_at: Option<Instant>,
    role: TlsRole,
    phase: Phase,
    /// The peer's first packet of this exchange was taken, in order.
    begun: bool,
    /// The peer has all that it needs to make the data keys.
    confirmed: bool,
    /// The peer sealed with the data keys.
    used: bool,
    /// The peer did not confirm the keys in time.
    given_up: bool,
    send: SendWindow,
    receive: ReceiveWindow,
    acks: AckQueue,
    tls: TlsChannel,
    local: Option<KeySource>,
    remote: Option<KeySource>,
    /// The peer's options string.
    remote_options: Option<String>,
    /// The peer's `IV_` lines.
    remote_info: Option<String>,
    /// The key method 2 of a client, until it was sent.
    hello: Option<KeyMethod2>,
    /// The client's key method 2 is sent only when the server's certificates were judged
    /// ([`KeyState::say_hello`]).
    holds_hello: bool,
    shape: PacketShape,
    /// The server asks for our wrapped key once more.
    bring_key: bool,
    outputs: Vec<KeyStateOutput>,
}

/// The sizes of an exchange's control packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketShape {
    /// How many bytes of TLS fit one packet.
    pub(crate) chunk: usize,
    /// Most ACKs in a packet that carries nothing else.
    pub(crate) acks_alone: usize,
    /// Length of the wrapped key that we can bring (tls-crypt-v2).
    pub(crate) client_key: Option<usize>,
}

impl KeyState {
    /// Starts an exchange by sending `reset`; without one, both resets are done already: the server's by a cookie,
    /// the client's by its return. `hello` is a client's key method 2.
    pub(crate) fn new(
        now: Instant,
        role: TlsRole,
        key_id: u8,
        reset: Option<Opcode>,
        params: &ControlParams,
        hello: Option<KeyMethod2>,
        shape: PacketShape,
    ) -> Result<Self, KeyStateError> {
        let first = u32::from(reset.is_none());
        let mut send = SendWindow::starting_at(first);
        send.set_initial_timeout(params.rekey.retransmit);
        if let Some(reset) = reset {
            send.push(now, reset, Vec::new());
        }
        let mut tls = TlsChannel::new(&params.tls)?;
        if params.signs_outside {
            tls.make_steps();
        }
        Ok(KeyState {
            key_id,
            started: now,
            established_at: None,
            role,
            phase: Phase::Reset,
            begun: reset.is_none(),
            confirmed: false,
            used: false,
            given_up: false,
            send,
            receive: ReceiveWindow::new(first),
            acks: AckQueue::new(),
            tls,
            local: None,
            remote: None,
            remote_options: None,
            remote_info: None,
            holds_hello: params.holds_hello && hello.is_some(),
            hello,
            shape,
            bring_key: false,
            outputs: Vec::new(),
        })
    }

    pub(crate) fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Nothing of ours waits for an acknowledgement.
    pub(crate) fn is_quiet(&self) -> bool {
        self.send.is_empty()
    }

    /// The peer's first packet of this exchange arrived.
    pub(crate) fn heard(&self) -> bool {
        self.begun
    }

    /// The peer has a state for this exchange: it sent its first packet, or acknowledged ours.
    pub(crate) fn is_known_to_peer(&self) -> bool {
        self.begun || self.reset_is_acknowledged()
    }

    /// The peer acknowledged the packet that began this exchange.
    pub(crate) fn reset_is_acknowledged(&self) -> bool {
        self.send.oldest() != Some(0)
    }

    /// The peer can make the data keys: a server has read our key method 2 before it sent its own; a client has
    /// acknowledged all that we sent, or [used the keys](Self::confirm).
    pub(crate) fn is_confirmed(&self) -> bool {
        self.is_established() && (self.confirmed || self.role == TlsRole::Client)
    }

    /// The peer sealed with the data keys.
    pub(crate) fn confirm(&mut self) {
        (self.confirmed, self.used) = (true, true);
    }

    /// Whether the peer sealed with the data keys.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// The peer's options string, once its key method 2 is known.
    pub(crate) fn remote_options(&self) -> Option<&str> {
        self.remote_options.as_deref()
    }

    /// The peer's `IV_` lines, once its key method 2 is known.
    pub(crate) fn remote_info(&self) -> Option<&str> {
        self.remote_info.as_deref()
    }

    pub(crate) fn tls(&self) -> &TlsChannel {
        &self.tls
    }

    /// Takes one control packet that belongs to this exchange.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        opcode: Opcode,
        body: ControlBody,
    ) -> Result<(), KeyStateError> {
        self.send.acknowledge(now, &body.acks);
        self.confirmed |= self.is_established() && self.send.is_empty() && !self.tls.has_output();
        if let Some(id) = body.packet_id {
            match self.receive.accept(id, opcode, body.payload) {
                Accept::New | Accept::Duplicate => self.acks.push(id),
                Accept::OutOfWindow => {}
            }
        }
        while let Some(packet) = self.receive.pop() {
            self.handle_in_order(now, packet.opcode, &packet.payload)?;
        }
        self.advance(now)
    }

    fn handle_in_order(&mut self, now: Instant, opcode: Opcode, payload: &[u8]) -> Result<(), KeyStateError> {
        match opcode {
            Opcode::Control | Opcode::ControlWkc => {
                // OpenVPN 3 and MirageVPN answer a SOFT_RESET with their TLS and send no reset of their own.
                self.begun |= self.key_id > 0;
                let records = self.tls.receive(payload);
                self.handle_records(now, records)
            }
            // It says no more than its header. MirageVPN's server sends two (OpenVPN reads them as TLS of no length).
            Opcode::SoftReset => {
                self.begun = true;
                Ok(())
            }
            _ if !self.begun => {
                self.begun = true;
                self.bring_key = self.shape.client_key.is_some()
                    && opcode == Opcode::HardResetServerV2
                    && asks_for_wrapped_key(payload);
                Ok(())
            }
            _ => Err(KeyStateError::Peer("a reset in the middle of a key exchange".to_owned())),
        }
    }

    /// Takes the records that TLS made of the peer's bytes. The rest may be made outside.
    fn handle_records(
        &mut self,
        now: Instant,
        records: Result<Vec<Zeroizing<Vec<u8>>>, rustls::Error>,
    ) -> Result<(), KeyStateError> {
        self.outputs.extend(self.tls.take_step().map(KeyStateOutput::Step));
        for record in records? {
            self.handle_record(now, record)?;
        }
        Ok(())
    }

    /// Whether it waits for this step of TLS.
    pub(crate) fn awaits(&self, step: &TlsStep) -> bool {
        self.tls.awaits(step)
    }

    /// The step of TLS that it waits for was made outside.
    pub(crate) fn step_done(&mut self, now: Instant) -> Result<(), KeyStateError> {
        let records = self.tls.finish_step();
        self.handle_records(now, records)?;
        self.advance(now)
    }

    fn handle_record(&mut self, now: Instant, record: Zeroizing<Vec<u8>>) -> Result<(), KeyStateError> {
        if self.remote.is_some() {
            self.outputs.push(KeyStateOutput::Message(record));
            return Ok(());
        }
        // The exchange would be complete although no script has judged the server. A server answers our message.
        if self.holds_hello && self.hello.is_some() {
            return Err(KeyStateError::Peer("its key method 2 came before ours".to_owned()));
        }
        let sender = self.role.other();
        let message = KeyMethod2::decode(&record, sender)
            .map_err(|error| KeyStateError::Peer(format!("its key method 2 message: {error}")))?;
        self.remote = Some(message.source.clone());
        self.remote_options = Some(message.options.clone());
        self.remote_info = Some(message.peer_info.clone());
        match self.role {
            TlsRole::Server => self.outputs.push(KeyStateOutput::ClientHello(Box::new(message))),
            TlsRole::Client => {
                self.establish(now);
                self.outputs.push(KeyStateOutput::Established);
            }
        }
        Ok(())
    }

    fn establish(&mut self, now: Instant) {
        self.phase = Phase::Established;
        self.established_at = Some(now);
    }

    /// A client begins TLS once its reset is acknowledged: a stateless server looks at the packet after it. In a
    /// renegotiation that is enough (OpenVPN ssl.c `tls_process_state`, `S_PRE_START`): the peer's own reset carries
    /// nothing, and may not come at all.
    fn resets_are_done(&self) -> bool {
        match self.role {
            TlsRole::Server => self.begun,
            TlsRole::Client => self.send.is_empty() && (self.begun || self.key_id > 0),
        }
    }

    /// Moves TLS and key method 2 on as far as possible.
    fn advance(&mut self, now: Instant) -> Result<(), KeyStateError> {
        if self.phase == Phase::Reset && self.resets_are_done() {
            self.phase = Phase::Handshake;
        }
        if self.phase == Phase::Handshake && !self.tls.is_handshaking() {
            self.phase = Phase::KeyMethod;
            if self.role == TlsRole::Client && self.key_id > 0 {
                self.outputs.push(KeyStateOutput::Secured);
            }
            match self.holds_hello {
                true => self.outputs.push(KeyStateOutput::Judge),
                false => self.say_hello(now)?,
            }
        }
        self.flush(now);
        Ok(())
    }

    /// A client says its key method 2.
    pub(crate) fn say_hello(&mut self, now: Instant) -> Result<(), KeyStateError> {
        self.hello.take().map_or(Ok(()), |hello| self.send_key_method(now, hello))
    }

    /// Sends our key method 2. A server's completes the exchange.
    pub(crate) fn send_key_method(
        &mut self,
        now: Instant,
        mut message: KeyMethod2,
    ) -> Result<(), KeyStateError> {
        if !self.may_export() {
            message.peer_info = without_exports(&message.peer_info);
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(message.max_len()));
        message.encode(&mut bytes)?;
        self.local = Some(message.source);
        self.tls.send(&bytes)?;
        if self.role == TlsRole::Server && self.remote.is_some() {
            self.establish(now);
        }
        self.flush(now);
        Ok(())
    }

    /// Sends one control message; the NUL is added.
    pub(crate) fn send_message(&mut self, now: Instant, text: &str) -> Result<(), KeyStateError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() + 1));
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
        self.tls.send(&bytes)?;
        self.flush(now);
        Ok(())
    }

    /// Cuts TLS output into control packets while the window has room.
    pub(crate) fn flush(&mut self, now: Instant) {
        if self.phase == Phase::Reset {
            return;
        }
        while self.send.has_room() {
            let opcode = self.next_opcode();
            let room = match (opcode, self.shape.client_key) {
                (Opcode::ControlWkc, Some(key)) => self.shape.chunk.saturating_sub(key).max(LEAST_BESIDE_KEY),
                _ => self.shape.chunk,
            };
            let chunk = self.tls.take_output(room);
            if chunk.is_empty() {
                break;
            }
            self.send.push(now, opcode, chunk);
        }
    }

    /// The packet after the reset brings the wrapped key, if the server asked for it.
    fn next_opcode(&self) -> Opcode {
        match self.bring_key && self.send.next_id() == KEY_PACKET {
            true => Opcode::ControlWkc,
            false => Opcode::Control,
        }
    }

    pub(crate) fn poll_output(&mut self) -> Option<KeyStateOutput> {
        if self.outputs.is_empty() { None } else { Some(self.outputs.remove(0)) }
    }

    /// The next control packet that is due: opcode and body.
    pub(crate) fn poll_packet(
        &mut self,
        now: Instant,
        peer_sid: Option<Sid>,
    ) -> Option<(Opcode, ControlBody)> {
        // A bare ACK would not be sent again if it were lost, and the server knows us only by our key (OpenVPN
        // ssl.c `tls_multi_process`).
        if self.acks.pending() && self.next_opcode() == Opcode::ControlWkc {
            self.send.push(now, Opcode::ControlWkc, Vec::new());
        }
        let acks = &mut self.acks;
        let mut take_acks = |limit| if peer_sid.is_some() { acks.take(limit) } else { Vec::new() };
        if let Some(packet) = self.send.poll(now) {
            let acks = take_acks(MAX_ACKS_WITH_DATA);
            let peer_sid = if acks.is_empty() { None } else { peer_sid };
            let body =
                ControlBody { acks, peer_sid, packet_id: Some(packet.id), payload: packet.payload.to_vec() };
            return Some((packet.opcode, body));
        }
        if peer_sid.is_none() || !self.acks.pending() {
            return None;
        }
        let acks = self.acks.take(self.shape.acks_alone);
        Some((Opcode::Ack, ControlBody { acks, peer_sid, packet_id: None, payload: Vec::new() }))
    }

    /// When something is to be sent again, or the exchange is late.
    pub(crate) fn poll_timeout(&self, hand_window: Duration) -> Option<Instant> {
        let deadline = (!self.is_finished()).then(|| self.started + hand_window);
        earliest(self.send.poll_timeout(), deadline)
    }

    pub(crate) fn is_late(&self, now: Instant, hand_window: Duration) -> bool {
        !self.is_finished() && now >= self.started + hand_window
    }

    /// Nothing more is awaited: the first exchange is complete here, or a later one at both ends, or it is given up.
    fn is_finished(&self) -> bool {
        match self.key_id {
            0 => self.is_established(),
            _ => self.is_confirmed() || self.given_up,
        }
    }

    /// Gives up waiting for the peer to confirm the keys. The keys go on to open.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up
    }
}

/// The earlier of two moments that may not be set.
pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

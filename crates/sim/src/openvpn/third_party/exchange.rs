//! One key exchange of a third-party client.

use std::collections::VecDeque;
use std::time::Duration;

use adit_core::Instant;
use adit_openvpn::TlsRole;
use adit_openvpn::key_method::KeyMethod2;
use adit_openvpn::keys::{KeyMaterial, KeySource, derive_prf};
use adit_openvpn::reliable::{Accept, AckQueue, ReceiveWindow, SendWindow};
use adit_openvpn::tls::{TlsChannel, TlsConfig};
use adit_openvpn::wire::{ControlBody, Opcode, Sid};

use super::Params;

/// TLS in one packet.
const CHUNK: usize = 400;
/// OpenVPN 3's `tls_timeout`.
const RETRANSMIT: Duration = Duration::from_secs(1);
/// ACKs in a packet that carries something else, and in one that does not.
const ACKS: [usize; 2] = [4, 8];

/// The key method 2 that it sends; the random numbers are new in each exchange.
pub(super) struct Hello {
    pub(super) random: [u8; 112],
    pub(super) username: String,
    pub(super) info: String,
}

/// OpenVPN 3's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum State {
    WaitReset,
    WaitResetAck,
    WaitAuth,
    WaitAuthAck,
    Active,
}

pub(super) struct Exchange {
    key_id: u8,
    created: Instant,
    state: State,
    /// When it became active.
    pub(super) active_at: Option<Instant>,
    /// TLS failed.
    pub(super) failed: bool,
    brings_key: bool,
    role: TlsRole,
    /// A second reset answers the peer's (MirageVPN's server, in exchanges that it began).
    answers_reset: bool,
    send: SendWindow,
    receive: ReceiveWindow,
    acks: AckQueue,
    tls: TlsChannel,
    hello: Option<KeyMethod2>,
    sources: (KeySource, Option<KeySource>),
    messages: VecDeque<Vec<u8>>,
}

impl Exchange {
    /// Begins with `reset`, or waits for the server's.
    pub(super) fn new(
        now: Instant,
        (key_id, reset): (u8, Option<Opcode>),
        params: &Params,
        hello: Hello,
    ) -> Result<Self, rustls::Error> {
        let part = |from: usize, to: usize| hello.random.get(from..to).unwrap_or_default();
        let role = match params.tls {
            TlsConfig::Client(_) => TlsRole::Client,
            TlsConfig::Server(_) => TlsRole::Server,
        };
        let source = KeySource {
            pre_master: part(0, 48).try_into().ok().filter(|_| role == TlsRole::Client),
            random1: part(48, 80).try_into().unwrap_or_default(),
            random2: part(80, 112).try_into().unwrap_or_default(),
        };
        let mut send = SendWindow::new();
        send.set_initial_timeout(RETRANSMIT);
        if let Some(reset) = reset {
            send.push(now, reset, Vec::new());
        }
        Ok(Exchange {
            key_id,
            created: now,
            state: State::WaitReset,
            active_at: None,
            failed: false,
            brings_key: params.brings_key && key_id == 0,
            role,
            answers_reset: false,
            send,
            receive: ReceiveWindow::new(0),
            acks: AckQueue::new(),
            tls: TlsChannel::new(&params.tls)?,
            hello: Some(KeyMethod2 {
                source: source.clone(),
                options: "V4,dev-type tun".to_owned(),
                username: hello.username,
                password: "correct horse".to_owned().into(),
                peer_info: hello.info,
            }),
            sources: (source, None),
            messages: VecDeque::new(),
        })
    }

    /// Has the exchange answer the peer's reset with a second one of its own.
    pub(super) fn answers_reset_with_another(mut self) -> Self {
        self.answers_reset = true;
        self
    }

    pub(super) fn key_id(&self) -> u8 {
        self.key_id
    }

    pub(super) fn created(&self) -> Instant {
        self.created
    }

    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Whether the exchange has the peer's key method 2.
    pub(super) fn has_keys(&self) -> bool {
        self.sources.1.is_some()
    }

    pub(super) fn handle(&mut self, now: Instant, opcode: Opcode, body: ControlBody) {
        self.send.acknowledge(now, &body.acks);
        if let Some(id) = body.packet_id
            && self.receive.accept(id, opcode, body.payload) != Accept::OutOfWindow
        {
            self.acks.push(id);
        }
        while let Some(packet) = self.receive.pop() {
            match packet.opcode {
                Opcode::Control => self.take_tls(&packet.payload),
                _ if self.state == State::WaitReset => {
                    self.state = State::WaitResetAck;
                    if std::mem::take(&mut self.answers_reset) {
                        self.send.push(now, Opcode::SoftReset, Vec::new());
                    }
                }
                _ => {}
            }
        }
        self.advance(now);
    }

    fn take_tls(&mut self, payload: &[u8]) {
        let Ok(records) = self.tls.receive(payload) else {
            self.failed = true;
            return;
        };
        for record in records {
            match self.sources.1 {
                Some(_) => self.messages.push_back(record.to_vec()),
                None => match KeyMethod2::decode(&record, self.role.other()) {
                    Ok(message) => self.sources.1 = Some(message.source.clone()),
                    Err(_) => self.failed = true,
                },
            }
        }
    }

    /// Each state waits until all that was sent is acknowledged (`post_ack_action`).
    fn advance(&mut self, now: Instant) {
        if self.state == State::WaitResetAck && (self.send.is_empty() || self.role == TlsRole::Server) {
            self.state = State::WaitAuth;
        }
        // A server answers the client's.
        let turn = self.role == TlsRole::Client || self.has_keys();
        if self.state == State::WaitAuth
            && turn
            && !self.tls.is_handshaking()
            && let Some(hello) = self.hello.take()
        {
            let mut bytes = Vec::new();
            self.failed |= hello.encode(&mut bytes).is_err() || self.tls.send(&bytes).is_err();
        }
        self.flush(now);
        if self.state == State::WaitAuth && self.has_keys() {
            self.state = State::WaitAuthAck;
        }
        if self.state == State::WaitAuthAck && self.send.is_empty() {
            self.state = State::Active;
            self.active_at = Some(now);
        }
    }

    pub(super) fn send_message(&mut self, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.failed |= self.tls.send(&bytes).is_err();
    }

    fn flush(&mut self, now: Instant) {
        while self.state >= State::WaitAuth && self.send.has_room() {
            let chunk = self.tls.take_output(CHUNK);
            if chunk.is_empty() {
                return;
            }
            let opcode = match self.brings_key && self.send.next_id() == 1 {
                true => Opcode::ControlWkc,
                false => Opcode::Control,
            };
            self.send.push(now, opcode, chunk);
        }
    }

    pub(super) fn poll_packet(
        &mut self,
        now: Instant,
        peer_sid: Option<Sid>,
    ) -> Option<(Opcode, ControlBody)> {
        self.flush(now);
        let acks = &mut self.acks;
        let mut take = |limit| if peer_sid.is_some() { acks.take(limit) } else { Vec::new() };
        if let Some(packet) = self.send.poll(now) {
            let acks = take(ACKS[0]);
            let peer_sid = peer_sid.filter(|_| !acks.is_empty());
            let payload = packet.payload.to_vec();
            return Some((
                packet.opcode,
                ControlBody { acks, peer_sid, packet_id: Some(packet.id), payload },
            ));
        }
        if peer_sid.is_none() || !self.acks.pending() {
            return None;
        }
        let acks = self.acks.take(ACKS[1]);
        Some((Opcode::Ack, ControlBody { acks, peer_sid, packet_id: None, payload: Vec::new() }))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.send.poll_timeout()
    }

    pub(super) fn take_message(&mut self) -> Option<Vec<u8>> {
        self.messages.pop_front()
    }

    pub(super) fn export<const N: usize>(&self, label: &str) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.tls.export(label, &mut bytes).ok()?;
        Some(bytes)
    }

    /// The data keys of peers that do not export.
    pub(super) fn prf(&self, own_sid: Sid, peer_sid: Sid) -> Option<KeyMaterial> {
        derive_prf(&self.sources.0, self.sources.1.as_ref()?, own_sid, peer_sid)
    }
}

//! One control channel of an attacker: OpenVPN from the client's side, up to the step at which the attacker stops
//! to follow the protocol, or which it repeats without end.
//!
//! Nothing is retransmitted: an attacker whose packet was lost begins anew.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_core::UnixTime;
use adit_load::LoadError;
use adit_openvpn::TlsConfig;
use adit_openvpn::key_method::KeyMethod2;
use adit_openvpn::keys::KeySource;
use adit_openvpn::reliable::SEND_WINDOW;
use adit_openvpn::tls::TlsChannel;
use adit_openvpn::wire::{ControlBody, HEADER_LEN, Header, MAX_ACKS, Opcode, Sid};
use adit_openvpn::wrap::{Wrap, WrapConfig};
use zeroize::Zeroizing;

/// Bytes of the TLS stream in one packet.
const CHUNK: usize = 1100;
/// Bytes that no TLS implementation takes for a record: an unknown type and version.
const GARBAGE: [u8; 200] = [0x5a; 200];
/// Control messages, each of one unprintable byte and the NUL that ends it. In one TLS record they fit into one packet.
const MESSAGES: [u8; 1000] = {
    let mut bytes = [0; 1000];
    let mut index = 0;
    while index < bytes.len() {
        bytes[index] = 1;
        index += 2;
    }
    bytes
};
/// Keys 1 to 7 follow key 0, and then 1 again.
const MAX_KEY_ID: u8 = 7;
/// The options string of OpenVPN's client; servers only warn about it.
const OPTIONS: &str = "V4,dev-type tun,link-mtu 1549,tun-mtu 1500,proto UDPv4,cipher AES-256-GCM,auth [null-digest],\
                       keysize 256,key-method 2,tls-client";
/// DATA_V2, pushes unasked, TLS-EKM, AUTH_PENDING, EXIT on the control channel (`IV_PROTO`, OpenVPN ssl.h); no dynamic
/// tls-crypt, so that soft resets are wrapped as the control channel is.
const IV_PROTO: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7;

/// How far an attacker follows the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Behaviour {
    /// It returns the cookie with its ClientHello, and is silent.
    HalfOpen,
    /// It returns the cookie with bytes that are no TLS.
    GarbageTls,
    /// It ends the handshake, sends its key method 2 message, and `EXIT`.
    Exit,
    /// It ends the handshake and sends its key method 2 message; and again on the next key, without end.
    SoftResets,
    /// It is let in, and then sends control messages of unprintable bytes, without end, as fast as the server acknowledges
    /// them.
    ControlMessages,
    /// It ends the handshake, waits until it hears that authentication takes longer (`AUTH_PENDING`), and is silent.
    PutOff,
}

/// The parameters that the control channels of one attacker share.
pub struct Plan {
    /// How far they follow the protocol.
    pub behaviour: Behaviour,
    /// `tls-auth`, `tls-crypt`, `tls-crypt-v2` or none.
    pub wrap: WrapConfig,
    /// The TLS settings, with or without a client certificate.
    pub tls: TlsConfig,
    /// The username for `auth-user-pass-verify`; empty for none.
    pub username: String,
    /// A ClientHello for all control channels that do not go on after it.
    hello: Vec<u8>,
    /// The wrapping is tls-crypt-v2: the first packets carry the client's key.
    brings_key: bool,
}

impl Plan {
    /// A plan without a username.
    ///
    /// # Errors
    /// When TLS cannot begin.
    pub fn new(behaviour: Behaviour, wrap: WrapConfig, tls: TlsConfig) -> Result<Plan, LoadError> {
        let mut channel = TlsChannel::new(&tls).map_err(LoadError::key("the attackers' TLS"))?;
        let hello = channel.take_output(CHUNK);
        let brings_key = brings_key(&wrap);
        Ok(Plan { behaviour, wrap, tls, username: String::new(), hello, brings_key })
    }
}

fn brings_key(wrap: &WrapConfig) -> bool {
    let mut bytes = Vec::new();
    let header = Header { opcode: Opcode::HardResetClientV3, key_id: 0 };
    let sealed = wrap.instantiate(UnixTime(0)).seal(header, Sid([1; 8]), &[], &mut bytes);
    sealed.is_ok() && bytes.len() > HEADER_LEN + wrap.overhead()
}

/// The state of a control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The control channel goes on.
    Open,
    /// The attacker is done.
    Done,
    /// The server, or TLS, ended it.
    Failed,
}

/// One control channel.
pub(crate) struct ControlChannel {
    plan: Arc<Plan>,
    wrap: Wrap,
    own: Sid,
    peer: Option<Sid>,
    exchange: Exchange,
    /// See [`ControlChannel::rounds`].
    rounds: u64,
    out: Vec<Vec<u8>>,
}

/// One key exchange of a control channel.
struct Exchange {
    key_id: u8,
    tls: Option<TlsChannel>,
    /// Number of the next packet to send, and of the next to read.
    next: u32,
    expected: u32,
    early: BTreeMap<u32, Vec<u8>>,
    acks: Vec<u32>,
    told: bool,
    /// Numbers of packets that were sent and that the server has not acknowledged.
    unacknowledged: BTreeSet<u32>,
    /// The number of the first packet with [`MESSAGES`], once the server has let the attacker in.
    messages_from: Option<u32>,
}

impl Exchange {
    fn new(key_id: u8, tls: Option<TlsChannel>) -> Exchange {
        Exchange {
            key_id,
            tls,
            next: 0,
            expected: 0,
            early: BTreeMap::new(),
            acks: Vec::new(),
            told: false,
            unacknowledged: BTreeSet::new(),
            messages_from: None,
        }
    }
}

impl ControlChannel {
    /// A control channel under this session id; its first packet is in [`ControlChannel::take_output`].
    pub(crate) fn new(plan: &Arc<Plan>, number: u64, wall: u64) -> ControlChannel {
        let mut channel = ControlChannel {
            plan: Arc::clone(plan),
            wrap: plan.wrap.instantiate(UnixTime(wall)),
            own: Sid((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).to_be_bytes()),
            peer: None,
            exchange: Exchange::new(0, None),
            rounds: 0,
            out: Vec::new(),
        };
        let reset = match plan.brings_key {
            true => Opcode::HardResetClientV3,
            false => Opcode::HardResetClientV2,
        };
        channel.send(reset, Vec::new());
        channel
    }

    /// Datagrams for the server.
    pub(crate) fn take_output(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }

    /// How often the server did its part in an attack that repeats without end: key exchanges that it took part in to
    /// the end, or packets of control messages that it acknowledged.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Takes one datagram of the server.
    pub(crate) fn handle(&mut self, datagram: &[u8]) -> Progress {
        let Ok(opened) = self.plan.wrap.open(datagram) else { return Progress::Open };
        let Ok(body) = ControlBody::decode(opened.header.opcode, &opened.body) else { return Progress::Open };
        if opened.header.key_id != self.exchange.key_id {
            return Progress::Open;
        }
        let first = self.peer.is_none();
        self.peer = Some(opened.sid);
        self.acknowledged(&body.acks);
        let Some(id) = body.packet_id else {
            self.send_messages();
            return Progress::Open;
        };
        self.exchange.acks.push(id);
        if id >= self.exchange.expected {
            self.exchange.early.insert(id, body.payload);
        }
        let progress = match first {
            true => self.greet(),
            false => self.read(),
        };
        self.send_messages();
        if !self.exchange.acks.is_empty() && progress == Progress::Open {
            self.send(Opcode::Ack, Vec::new());
        }
        progress
    }

    fn acknowledged(&mut self, ids: &[u32]) {
        let Exchange { unacknowledged, messages_from, .. } = &mut self.exchange;
        for id in ids {
            // Servers repeat their latest acknowledgements: each counts once.
            let is_new = unacknowledged.remove(id);
            let holds_messages = messages_from.is_some_and(|first| *id >= first);
            self.rounds += u64::from(is_new && holds_messages);
        }
    }

    /// Once the attacker is let in: as many packets of messages as may be under way at once.
    fn send_messages(&mut self) {
        if self.exchange.messages_from.is_none() {
            return;
        }
        for _ in self.exchange.unacknowledged.len()..SEND_WINDOW as usize {
            let Some(tls) = &mut self.exchange.tls else { return };
            if tls.send(&MESSAGES).is_err() {
                return;
            }
            self.flush();
        }
    }

    /// The server's first packet came: its session id is the cookie.
    fn greet(&mut self) -> Progress {
        self.exchange.early.clear();
        self.exchange.expected = 1;
        let payload = match self.plan.behaviour {
            Behaviour::GarbageTls => GARBAGE.to_vec(),
            Behaviour::HalfOpen => self.plan.hello.clone(),
            _ => {
                let Ok(mut tls) = TlsChannel::new(&self.plan.tls) else { return Progress::Failed };
                let hello = tls.take_output(CHUNK);
                self.exchange.tls = Some(tls);
                hello
            }
        };
        let opcode = if self.plan.brings_key { Opcode::ControlWkc } else { Opcode::Control };
        self.send(opcode, payload);
        self.flush();
        match self.plan.behaviour {
            Behaviour::GarbageTls | Behaviour::HalfOpen => Progress::Done,
            _ => Progress::Open,
        }
    }

    fn read(&mut self) -> Progress {
        while let Some(payload) = self.exchange.early.remove(&self.exchange.expected) {
            self.exchange.expected += 1;
            let Some(tls) = &mut self.exchange.tls else { continue };
            let Ok(messages) = tls.receive(&payload) else { return Progress::Failed };
            for message in messages {
                match self.heard(&message) {
                    Progress::Open => {}
                    progress => return progress,
                }
            }
        }
        self.speak();
        self.flush();
        match self.plan.behaviour {
            Behaviour::Exit if self.exchange.told => Progress::Done,
            _ => Progress::Open,
        }
    }

    /// A message inside TLS.
    fn heard(&mut self, message: &[u8]) -> Progress {
        if message.starts_with(b"AUTH_FAILED") {
            return Progress::Failed;
        }
        let waits = message.starts_with(b"AUTH_PENDING") || message.starts_with(b"INFO_PRE");
        match self.plan.behaviour {
            Behaviour::PutOff if waits => Progress::Done,
            Behaviour::ControlMessages if message.starts_with(b"PUSH_REPLY") => {
                self.exchange.messages_from.get_or_insert(self.exchange.next);
                Progress::Open
            }
            // The server's key method 2 message begins with four bytes of zero.
            Behaviour::SoftResets if message.starts_with(&[0, 0, 0, 0]) => {
                self.flush();
                self.reset_softly()
            }
            _ => Progress::Open,
        }
    }

    /// Once TLS stands: sends the key method 2 message, and the messages after it.
    fn speak(&mut self) {
        let Exchange { tls: Some(tls), told, .. } = &mut self.exchange else { return };
        if tls.is_handshaking() || *told {
            return;
        }
        *told = true;
        let mut message = Vec::new();
        let source = KeySource { pre_master: Some([1; 48]), random1: [2; 32], random2: [3; 32] };
        let hello = KeyMethod2 {
            source,
            options: OPTIONS.to_owned(),
            username: self.plan.username.clone(),
            password: Zeroizing::new(self.plan.username.clone()),
            peer_info: format!(
                "IV_VER=2.6.14\nIV_PROTO={IV_PROTO}\nIV_CIPHERS=AES-256-GCM\nIV_SSO=webauth,openurl\n"
            ),
        };
        // Its strings are short, and TLS has room: neither fails.
        let _ = hello.encode(&mut message);
        let _ = tls.send(&message);
        if self.plan.behaviour == Behaviour::Exit {
            let _ = tls.send(b"EXIT\0");
        }
    }

    /// The next key exchange begins.
    fn reset_softly(&mut self) -> Progress {
        if !self.exchange.acks.is_empty() {
            self.send(Opcode::Ack, Vec::new());
        }
        let Ok(tls) = TlsChannel::new(&self.plan.tls) else { return Progress::Failed };
        let key_id = if self.exchange.key_id == MAX_KEY_ID { 1 } else { self.exchange.key_id + 1 };
        self.exchange = Exchange::new(key_id, Some(tls));
        self.rounds += 1;
        self.send(Opcode::SoftReset, Vec::new());
        self.flush();
        Progress::Open
    }

    /// Sends the bytes of TLS.
    fn flush(&mut self) {
        while let Some(tls) = self.exchange.tls.as_mut().filter(|tls| tls.has_output()) {
            let payload = tls.take_output(CHUNK);
            if payload.is_empty() {
                return;
            }
            self.send(Opcode::Control, payload);
        }
    }

    fn send(&mut self, opcode: Opcode, payload: Vec<u8>) {
        let count = self.exchange.acks.len().min(MAX_ACKS);
        let acks: Vec<u32> = self.exchange.acks.drain(..count).collect();
        let packet_id = (opcode != Opcode::Ack).then_some(self.exchange.next);
        self.exchange.next += u32::from(packet_id.is_some());
        self.exchange.unacknowledged.extend(packet_id);
        let body = ControlBody { peer_sid: self.peer.filter(|_| !acks.is_empty()), acks, packet_id, payload };
        let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
        body.encode(&mut bytes);
        let header = Header { opcode, key_id: self.exchange.key_id };
        // It fails after 2³² datagrams.
        let _ = self.wrap.seal(header, self.own, &bytes, &mut datagram);
        self.out.push(datagram);
    }
}

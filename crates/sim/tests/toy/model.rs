//! The conditions that must hold for packets, keys, counters and series of sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use adit_core::{Cipher, Flow, Install, Instant, OnFirstOpened, Ports, SessionId};
use adit_dataplane::aead::aws_lc;
use adit_sim::packet;
use adit_toy::Codec;

use crate::policy::{self, SERIES};

/// A packet that is about to be sent.
pub(crate) struct Packet {
    pub(crate) number: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: Vec<u8>,
    /// It must arrive, if both ends' selectors say so.
    pub(crate) expected: bool,
}

/// A packet that was sent.
struct Sent {
    packet: Packet,
    arrived: bool,
}

/// A session at one end.
struct Session {
    end: usize,
    /// The end that it is for.
    peer: usize,
    series: usize,
    /// Later ones have higher numbers.
    number: u64,
    on_first_opened: OnFirstOpened,
    began_by_packet: bool,
    codec: Codec,
    next_counter: u64,
}

/// Knows all packets, keys, counters and sessions.
#[derive(Default)]
pub(crate) struct Model {
    packets: BTreeMap<u64, Sent>,
    /// By end and the index that the end chose.
    sessions: BTreeMap<(usize, SessionId), Session>,
    /// The session that seals, by end, the end that it is for, and series.
    sealing: BTreeMap<(usize, usize, usize), SessionId>,
    /// All keys that ever sealed.
    used: BTreeSet<[u8; 32]>,
    installed: u64,
    pub(crate) delivered: u64,
    pub(crate) beyond_32_bits: u64,
    /// Packets that each series carried.
    pub(crate) carried: [u64; SERIES],
    /// Packets that both series may carry.
    pub(crate) crossing: u64,
    /// Sessions that took the place of another one, by series.
    pub(crate) rekeys: [u64; SERIES],
}

impl Model {
    /// Notes a packet that is about to be sent. Says whether it must arrive.
    pub(crate) fn send(&mut self, packet: Packet) {
        let selected = policy::select(packet.from, packet.to, &flow(&packet.bytes, true));
        self.crossing += u64::from(selected == [true; SERIES]);
        let received = policy::select(packet.to, packet.from, &flow(&packet.bytes, false));
        // Each series that the sender may take has it at the other end, too.
        let fits = selected.iter().zip(received).all(|(sent, received)| !sent || received);
        let expected = packet.expected && fits && selected.contains(&true);
        let sent = Sent { packet: Packet { expected, ..packet }, arrived: false };
        assert!(self.packets.insert(sent.packet.number, sent).is_none());
    }

    /// A packet that a session opened left the data plane of that end.
    pub(crate) fn deliver(&mut self, at: usize, session: SessionId, bytes: &[u8]) {
        let number = packet::number(bytes).expect("it has a number");
        let sent = self.packets.get_mut(&number).expect("it was sent");
        assert_eq!(bytes, sent.packet.bytes, "packet {number} was changed");
        assert_eq!(at, sent.packet.to, "packet {number} is at another end");
        assert!(!sent.arrived, "packet {number} came twice");
        let session = self.sessions.get(&(at, session)).expect("the session is there");
        assert_eq!(session.peer, sent.packet.from, "packet {number} came by another peer's session");
        let received = policy::select(at, session.peer, &flow(bytes, false));
        assert!(received[session.series], "packet {number} is none of series {}", session.series);
        sent.arrived = true;
        self.delivered += 1;
    }

    pub(crate) fn install(&mut self, end: usize, peer: usize, install: &Install<Codec>) {
        let codec = &install.codec;
        assert!(self.used.insert(*codec.seal_key), "end {end} seals with a key that was used before");
        assert_ne!(codec.seal_key, codec.open_key);
        self.installed += 1;
        let session = Session {
            end,
            peer,
            series: install.series as usize,
            number: self.installed,
            on_first_opened: install.on_first_opened,
            began_by_packet: false,
            codec: codec.clone(),
            next_counter: codec.first_counter,
        };
        self.sessions.insert((end, install.session), session);
    }

    /// The protocol orders to seal with a session: it does, unless a later one began by its first packet.
    pub(crate) fn activate(&mut self, end: usize, id: SessionId) {
        let Some(session) = self.sessions.get(&(end, id)) else { return };
        let (number, key) = (session.number, session.key());
        let sealing = self.sealing.get(&key).and_then(|id| self.sessions.get(&(end, *id)));
        if !sealing.is_some_and(|sealing| sealing.number > number && sealing.began_by_packet) {
            self.begin(key, id);
        }
    }

    /// A session opened its first packet: it seals, if it was installed so and no later one seals.
    pub(crate) fn first_opened(&mut self, end: usize, id: SessionId) {
        let Some(session) = self.sessions.get(&(end, id)) else { return };
        let (number, key) = (session.number, session.key());
        let sealing = self.sealing.get(&key).and_then(|id| self.sessions.get(&(end, *id)));
        if session.on_first_opened == OnFirstOpened::Activate
            && sealing.is_none_or(|sealing| sealing.number < number)
        {
            self.begin(key, id);
            self.sessions.get_mut(&(end, id)).expect("it is there").began_by_packet = true;
        }
    }

    fn begin(&mut self, key: (usize, usize, usize), id: SessionId) {
        let before = self.sealing.insert(key, id);
        self.rekeys[key.2] += u64::from(before.is_some_and(|before| before != id));
    }

    pub(crate) fn retire(&mut self, end: usize, id: SessionId) {
        if let Some(session) = self.sessions.remove(&(end, id))
            && self.sealing.get(&session.key()) == Some(&id)
        {
            self.sealing.remove(&session.key());
        }
    }

    /// An end's process is killed.
    pub(crate) fn forget(&mut self, end: usize) {
        self.sessions.retain(|(owner, _), _| *owner != end);
        self.sealing.retain(|(owner, ..), _| *owner != end);
    }

    /// A datagram was sealed: its counter is the next one of its key. A packet is carried by the session that seals, of the
    /// first series that may carry it and has one.
    pub(crate) fn seal(&mut self, now: Instant, by: usize, datagram: &[u8]) {
        let word = |at: usize| u32::from_be_bytes(*datagram[at..].first_chunk().unwrap());
        let sealed = |session: &mut Session| match session.end == by && session.codec.remote_index == word(0)
        {
            true => session.open_own(datagram),
            false => None,
        };
        let found = self.sessions.values_mut().find_map(|session| Some((sealed(session)?, session)));
        let (payload, session) = found.expect("it is sealed with the next counter of a session of this end");
        assert!(now < session.codec.expires, "sealed after the session's end");
        assert_eq!(word(4), session.next_counter as u32, "counters rise one by one");
        self.beyond_32_bits += u64::from(session.next_counter > u32::MAX.into());
        session.next_counter += 1;
        if payload.first().is_none_or(|first| first >> 4 != 4) {
            return;
        }
        let (peer, series, number) = (session.peer, session.series, session.number);
        let selected = policy::select(by, peer, &flow(&payload, true));
        assert!(selected[series], "a packet is sealed by series {series}, which does not have it");
        let carrier = (0..SERIES).filter(|series| selected[*series]).find_map(|series| {
            let id = self.sealing.get(&(by, peer, series))?;
            self.sessions.get(&(by, *id)).filter(|session| now < session.codec.expires)
        });
        let carrier = carrier.expect("a session seals").number;
        assert_eq!(
            number, carrier,
            "a packet is sealed by another session than its series and the last rekey say"
        );
        self.carried[series] += 1;
    }

    /// How many packets had to arrive; all of them did.
    pub(crate) fn check_expected(&self) -> u64 {
        let expected = self.packets.values().filter(|sent| sent.packet.expected);
        let mut count = 0;
        for Sent { packet, arrived } in expected {
            assert!(arrived, "packet {} to end {} was lost on a clean network", packet.number, packet.to);
            count += 1;
        }
        count
    }
}

impl Session {
    fn key(&self) -> (usize, usize, usize) {
        (self.end, self.peer, self.series)
    }

    /// The payload of a datagram, if it sealed that with its next counter.
    fn open_own(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        let aead = aws_lc(Cipher::ChaCha20Poly1305, self.codec.seal_key.as_slice()).unwrap();
        let (header, rest) = datagram.split_at(8);
        let (body, tag) = rest.split_last_chunk().unwrap();
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.next_counter.to_be_bytes());
        let mut body = body.to_vec();
        aead.open(nonce, header, tag, &mut body).ok().map(|()| body)
    }
}

/// The fields that selectors read of a packet of the simulation, which is UDP over IPv4.
fn flow(packet: &[u8], outbound: bool) -> Flow {
    let address = |at: usize| IpAddr::from(*packet[at..].first_chunk::<4>().unwrap());
    let port = |at: usize| u16::from_be_bytes(*packet[at..].first_chunk().unwrap());
    let ([local, remote], [local_port, remote_port]) = match outbound {
        true => ([12, 16], [20, 22]),
        false => ([16, 12], [22, 20]),
    };
    let ports = Some(Ports { local: port(local_port), remote: port(remote_port) });
    Flow { local: address(local), remote: address(remote), protocol: Some(17), ports }
}

//! The model: the conditions that must hold in every run for inner packets, keys and control packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Digest, Instant, PeerId};
use adit_openvpn::codec::{Framing, key_id_of};
use adit_openvpn::reliable::MAX_TIMEOUT;
use adit_openvpn::request::Install;

use crate::openvpn::scenario::{Scenario, UDP_HEADERS, Wrapping};
use crate::openvpn::settings::network_behind;
use crate::openvpn::third_party::Implementation;
use crate::packets::{Fate, Packets};
use crate::violation::{MAX_TRANSIT, Violation, ensure};

/// The server's number among the ends; clients count from 1.
pub(crate) const SERVER: usize = 0;
/// Opcode of `DATA_V2`, the only data opcode that two ends of ours use.
const DATA_V2: u8 = 9;
/// Opcode and session id, in front of every control packet.
const CONTROL_HEADER: usize = 9;

/// Opcodes of packets with a client's wrapped key at the end.
const BRINGS_KEY: [u8; 2] = [10, 11];

/// A key that an end seals with.
struct SealKey {
    owner: (usize, PeerId, u8),
    since: Instant,
    used: Used,
}

/// The packet ids that were used under a key, none of which may come twice.
enum Used {
    /// The highest packet id so far. Ids may only rise.
    Ids { last: u32 },
    /// The highest id so far of the epoch format, whose ids are epoch and counter.
    EpochIds { last: u64 },
    /// The IVs of a cipher whose packet ids are sealed, behind an HMAC of that digest.
    Ivs { digest: Digest, seen: BTreeSet<[u8; 16]> },
}

/// A tunnel, as its ends report it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnel {
    /// Since when the client says that it is up, and its addresses.
    pub(crate) client: Option<(Instant, Vec<IpAddr>)>,
    /// Since when the server says that this client is up, and its addresses.
    pub(crate) server: Option<(Instant, Vec<IpAddr>)>,
    /// Its peer-id at the server.
    pub(crate) peer: Option<PeerId>,
    /// When the server last said that this client is gone, and the addresses it had.
    pub(crate) left: Option<(Instant, Vec<IpAddr>)>,
}

impl Tunnel {
    /// The server says that this client is gone.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.left = self.server.take().map(|(_, addresses)| (now, addresses));
        self.peer = None;
    }

    /// Whether packets from that address are this client's, or were `lag` ago. `routed`: whether the network
    /// behind it has that address.
    fn owns(&self, now: Instant, lag: Duration, address: IpAddr, routed: bool) -> bool {
        let left = self.left.iter().filter(|(at, _)| *at + lag >= now);
        self.server.iter().chain(left).any(|(_, addresses)| routed || addresses.contains(&address))
    }

    /// Both ends have been up for that long and agree on the addresses.
    pub(crate) fn is_settled(&self, now: Instant, time: Duration) -> bool {
        match (&self.client, &self.server) {
            (Some((client, ours)), Some((server, theirs))) => {
                *client + time <= now && *server + time <= now && ours == theirs
            }
            _ => false,
        }
    }
}

/// Knows all packets and all keys.
pub(crate) struct Model {
    wrapping: Wrapping,
    /// Some clients wrap packets of the first exchange like later ones, and are answered so: the model
    /// cannot tell which counter such a packet has.
    wraps_alike: bool,
    /// Some clients have no dynamic tls-crypt, so that renegotiations keep the wrapping.
    keeps_wrapping: bool,
    /// Each end has one peer, whatever peer-id is on the wire.
    point_to_point: bool,
    client_to_client: bool,
    /// `max-packet-size`.
    max_packet_size: usize,
    /// How long after new keys an end may seal with old ones.
    key_overlap: Duration,
    /// How late a data plane applies orders.
    lag: Duration,
    /// Since when acknowledgements arrive: while the net is faulty, an end cannot know that its peer has new keys.
    pub(crate) clean_since: Option<Instant>,
    /// When each end's machine last awoke: before that it could do nothing.
    pub(crate) awake: Vec<Instant>,
    /// Which clients have a network behind them.
    routed: Vec<bool>,
    /// The addresses that each client had first, if they must never change.
    addresses: Option<BTreeMap<usize, Vec<IpAddr>>>,
    pub(crate) packets: Packets,
    keys: BTreeMap<Vec<u8>, SealKey>,
    /// The keys that an end got last with a peer.
    newest: BTreeMap<(usize, PeerId), Vec<u8>>,
    /// The key by which an end seals datagrams with that peer and key id.
    current: BTreeMap<(usize, PeerId, u8), Vec<u8>>,
    /// The beginning of the bytes that authenticate a datagram, by end, session id, whether it is a renegotiation's,
    /// and packet id.
    wraps: BTreeMap<(usize, u64, bool, u64), u64>,
    pub(crate) server_addresses: Vec<IpAddr>,
    /// Index 0 is client 1.
    pub(crate) tunnels: Vec<Tunnel>,
}

impl Model {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Model {
            wrapping: scenario.control.wrapping,
            keeps_wrapping: scenario.third_party.clients.contains(&Some(Implementation::MirageVpn)),
            wraps_alike: scenario.third_party.clients.contains(&Some(Implementation::OpenVpn3)),
            point_to_point: scenario.point_to_point.is_some(),
            client_to_client: scenario.server.client_to_client,
            max_packet_size: scenario.control.max_packet_size,
            key_overlap: scenario.longest_window(),
            lag: scenario.latency.orders + scenario.latency.wake,
            clean_since: Some(Instant::ORIGIN),
            awake: vec![Instant::ORIGIN; scenario.clients + 1],
            routed: (1..=scenario.clients).map(|client| scenario.has_client_config(client)).collect(),
            // With a small pool, another client may have them by then.
            addresses: (scenario.server.persist_pool && !scenario.server.tight_pool).then(BTreeMap::new),
            packets: Packets::default(),
            keys: BTreeMap::new(),
            current: BTreeMap::new(),
            newest: BTreeMap::new(),
            wraps: BTreeMap::new(),
            server_addresses: Vec::new(),
            tunnels: vec![Tunnel::default(); scenario.clients],
        }
    }

    /// A client has these addresses now: always the same, if the server keeps them.
    pub(crate) fn check_address(&mut self, client: usize, now: &[IpAddr]) -> Result<(), Violation> {
        let Some(addresses) = &mut self.addresses else { return Ok(()) };
        let first = addresses.entry(client).or_insert_with(|| now.to_vec());
        ensure(first == now, || format!("client {client} had the addresses {first:?}, and now {now:?}"))
    }

    /// When an end got its last keys with a peer.
    pub(crate) fn last_keys(&self, end: usize, peer: PeerId) -> Option<Instant> {
        let newest = self.newest.get(&(end, peer))?;
        self.keys.get(newest).map(|key| key.since)
    }

    /// Keys that were installed so far.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// An end's process is gone, and with it its state.
    pub(crate) fn forget(&mut self, end: usize) {
        self.current.retain(|(owner, _, _), _| *owner != end);
        self.newest.retain(|(owner, _), _| *owner != end);
        for (index, tunnel) in self.tunnels.iter_mut().enumerate() {
            if end == SERVER {
                (tunnel.server, tunnel.peer, tunnel.left) = (None, None, None);
            } else if end == index + 1 {
                tunnel.client = None;
            }
        }
    }

    /// The client of the server's peer.
    pub(crate) fn client_of(&self, peer: PeerId) -> Option<usize> {
        self.tunnels.iter().position(|tunnel| tunnel.peer == Some(peer)).map(|index| index + 1)
    }

    /// An inner packet is about to be sent.
    pub(crate) fn send(
        &mut self,
        at: Instant,
        (from, source): (usize, IpAddr),
        (to, destination): (usize, IpAddr),
        len: usize,
        (forged, expected): (bool, bool),
    ) -> Vec<u8> {
        let fate = match (forged, expected) {
            (true, _) => Fate::Refused,
            (false, true) => Fate::ArrivesBy(at + MAX_TRANSIT),
            (false, false) => Fate::MayBeLost,
        };
        self.packets.send(at, (from, source), (to, destination), len, fate)
    }

    /// An end gave an inner packet to its device. Returns its sender.
    pub(crate) fn deliver(&mut self, now: Instant, end: usize, bytes: &[u8]) -> Result<usize, Violation> {
        let (sent, name) = self.packets.find(end, bytes)?;
        // A server that has no such client (yet), or may not relay, leaves the packet to its own system.
        ensure(end == sent.to || end == SERVER, || format!("{name} arrived at end {end}"))?;
        if end != SERVER && sent.from != SERVER {
            ensure(self.client_to_client, || format!("{name} arrived without client-to-client"))?;
        }
        if sent.from != SERVER
            && let Some(tunnel) = self.tunnels.get(sent.from - 1)
            && end == SERVER
        {
            let routed = self.routed.get(sent.from - 1) == Some(&true)
                && network_behind(sent.from).contains(&sent.source);
            let leased = tunnel.owns(now, self.lag, sent.source, routed);
            ensure(leased, || format!("{name} arrived from {}, which is not its sender's", sent.source))?;
        }
        let from = sent.from;
        self.packets.deliver(bytes);
        Ok(from)
    }

    /// An end got new keys.
    pub(crate) fn install(&mut self, at: Instant, end: usize, install: &Install) -> Result<(), Violation> {
        let owner = (end, install.peer, key_id_of(install.session));
        let mut key = install.codec.seal.key.to_vec();
        key.extend(install.codec.seal.implicit_iv);
        if let Some(known) = self.keys.get(&key) {
            return Err(Violation::new(format!(
                "the key that {:?} seals with was installed again, for {owner:?}",
                known.owner
            )));
        }
        let used = match &install.codec.seal.mac {
            Some(mac) => Used::Ivs { digest: mac.digest, seen: BTreeSet::new() },
            None if matches!(install.codec.framing, Framing::Epoch(_)) => Used::EpochIds { last: 0 },
            None => Used::Ids { last: 0 },
        };
        self.keys.insert(key.clone(), SealKey { owner, since: at, used });
        self.newest.insert((end, install.peer), key.clone());
        self.current.insert(owner, key);
        Ok(())
    }

    /// An end sealed a data datagram.
    pub(crate) fn sealed(&mut self, at: Instant, end: usize, datagram: &[u8]) -> Result<(), Violation> {
        let Some((&[first, p0, p1, p2], rest)) = datagram.split_first_chunk() else {
            return Err(Violation::new(format!("end {end} sealed a datagram without a header")));
        };
        ensure(first >> 3 == DATA_V2, || format!("end {end} sealed with opcode {}", first >> 3))?;
        let peer = match end {
            SERVER if !self.point_to_point => PeerId(u32::from_be_bytes([0, p0, p1, p2])),
            _ => PeerId::SERVER,
        };
        let owner = (end, peer, first & 7);
        let newest = self.newest.get(&(end, peer));
        if newest != self.current.get(&owner)
            && let Some(newest) = newest.and_then(|newest| self.keys.get(newest))
            && let Some(clean) = self.clean_since
            && self.is_answered(at, end, peer)
        {
            let awake = self.awake.get(end).copied().unwrap_or_default();
            // A renegotiation that the faults ruined is over after a window of each end.
            let ruined =
                (MAX_TIMEOUT + MAX_TRANSIT + self.key_overlap * 2) * u32::from(clean > Instant::ORIGIN);
            let acknowledged = clean + ruined;
            ensure((newest.since + self.key_overlap).max(awake).max(acknowledged) + self.lag >= at, || {
                format!("{owner:?} still seals with old keys; newer ones came at {:?}", newest.since)
            })?;
        }
        let key = self.current.get(&owner).and_then(|key| self.keys.get_mut(key));
        let Some(key) = key else {
            return Err(Violation::new(format!("{owner:?} sealed without a key")));
        };
        let short = || Violation::new(format!("end {end} sealed a datagram that is too short"));
        match &mut key.used {
            Used::Ids { last } => {
                let id = u32::from_be_bytes(*rest.first_chunk().ok_or_else(short)?);
                ensure(id > *last, || format!("{owner:?} sealed packet id {id} after {last}"))?;
                *last = id;
            }
            Used::EpochIds { last } => {
                let id = u64::from_be_bytes(*rest.first_chunk().ok_or_else(short)?);
                ensure(id > *last, || format!("{owner:?} sealed packet id {id:#x} after {last:#x}"))?;
                *last = id;
            }
            Used::Ivs { digest, seen } => {
                let iv = rest.get(digest.output_len()..).and_then(|rest| rest.first_chunk());
                let new = seen.insert(*iv.ok_or_else(short)?);
                ensure(new, || format!("{owner:?} used an IV twice"))?;
            }
        }
        Ok(())
    }

    /// The other end has been up for so long that it must have acknowledged new keys.
    fn is_answered(&self, at: Instant, end: usize, peer: PeerId) -> bool {
        let client = if end == SERVER { self.client_of(peer) } else { Some(end) };
        let tunnel = client.and_then(|client| self.tunnels.get(client - 1));
        tunnel.is_some_and(|tunnel| tunnel.is_settled(at, self.key_overlap))
    }

    /// A control datagram is no larger than `max-packet-size`, except with a client's wrapped key in it.
    pub(crate) fn check_size(&self, end: usize, datagram: &[u8]) -> Result<(), Violation> {
        let brings_key = datagram.first().is_some_and(|first| BRINGS_KEY.contains(&(first >> 3)));
        let size = datagram.len() + UDP_HEADERS;
        ensure(brings_key || size <= self.max_packet_size, || {
            format!("end {end} sent a control packet of {size} bytes; {} are allowed", self.max_packet_size)
        })
    }

    /// An end wrapped a control datagram. A packet id comes again only on the same datagram: a server's answer
    /// to a first packet that comes again.
    pub(crate) fn wrapped(&mut self, end: usize, datagram: &[u8]) -> Result<(), Violation> {
        let renegotiates = datagram.first().is_some_and(|first| first & 7 > 0);
        let (id_at, tag_at) = match self.wrapping {
            Wrapping::Plain if !renegotiates => return Ok(()),
            _ if !renegotiates && self.wraps_alike => return Ok(()),
            Wrapping::Plain | Wrapping::TlsAuth(_) if renegotiates && self.keeps_wrapping => return Ok(()),
            Wrapping::TlsAuth(digest) if !renegotiates => {
                (CONTROL_HEADER + digest.output_len(), CONTROL_HEADER)
            }
            // Renegotiations have dynamic tls-crypt, whatever the wrapping is.
            _ => (CONTROL_HEADER, CONTROL_HEADER + 8),
        };
        let word = |at: usize| {
            datagram.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_be_bytes(*bytes))
        };
        let (Some(sid), Some(id), Some(tag)) = (word(1), word(id_at), word(tag_at)) else {
            return Err(Violation::new(format!("end {end} sent a control datagram that is too short")));
        };
        let before = self.wraps.insert((end, sid, renegotiates, id), tag);
        ensure(before.is_none_or(|before| before == tag), || {
            format!("end {end} used the control packet id {:#x} twice under session id {sid:016x}", id >> 32)
        })
    }
}

#[cfg(test)]
mod tests;

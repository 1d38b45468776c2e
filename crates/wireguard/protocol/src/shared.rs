//! The state that all peers of an interface share: the time, randomness, the private key, indices, and the
//! output.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Instant, Path, PeerId, Report, Severity};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;
use zeroize::Zeroizing;

use crate::connections::Connections;
use crate::crypto::{KeyPair, Refused};
use crate::keys::{KEY_LEN, PrivateKey};
use crate::macs::ReceiverKeys;
use crate::params::Sockets;
use crate::request::{DataEvent, Event, Request};
use crate::tai64n::{SentTimestamps, Tai64n};
use crate::wire::INITIATION_LEN;

/// Most jitter of a timer, in milliseconds (as Linux: `REKEY_TIMEOUT_JITTER_MAX_JIFFIES`, a third of a second).
const JITTER_MILLIS: u32 = 333;

/// The private key with the values that follow from it.
pub(crate) struct Identity {
    pub(crate) private: PrivateKey,
    pub(crate) pair: KeyPair,
    pub(crate) receiver_keys: ReceiverKeys,
}

impl Identity {
    pub(crate) fn new(private: PrivateKey) -> Result<Self, Refused> {
        let pair = KeyPair::new(private.as_bytes())?;
        let receiver_keys = ReceiverKeys::new(&pair.public);
        Ok(Identity { private, pair, receiver_keys })
    }
}

/// Events for which room is kept.
const EVENTS_KEPT: usize = 1024;

const IPV4_AND_UDP: u16 = 28;
const IPV6_AND_UDP: u16 = 48;
/// Bytes of a data message beside its packet: type, receiver, counter and tag.
const DATA_OVERHEAD: u16 = 32;
/// Packets are padded to a multiple of so many bytes.
const PADDING: u16 = 16;
/// The bytes of IPv4 and TCP headers in a packet, without options (RFC 9293 §3.7.1).
const IPV4_AND_TCP: u16 = 40;

/// Largest TCP MSS for IPv4 with that MTU of the tunnel, or `most` if that is less.
fn max_mss(mtu: u16, most: u16) -> u16 {
    mtu.min(most).saturating_sub(IPV4_AND_TCP)
}

/// Largest TCP MSS for IPv4 with which padded data messages fit a path of that MTU. `None`: the system itself cuts data
/// that goes there.
pub(crate) fn mss_of_path(path: Path, mtu: u16) -> Option<u16> {
    let Path::Udp { remote, .. } = path else { return None };
    let headers = if remote.ip().to_canonical().is_ipv4() { IPV4_AND_UDP } else { IPV6_AND_UDP };
    let room = mtu.saturating_sub(headers + DATA_OVERHEAD);
    Some((room - room % PADDING).saturating_sub(IPV4_AND_TCP))
}

/// A datagram that waits to be sent. No handshake message is longer than an initiation.
struct Transmit {
    path: Path,
    bytes: [u8; INITIATION_LEN],
    len: usize,
}

pub(crate) struct Shared {
    pub(crate) now: Instant,
    pub(crate) identity: Option<Identity>,
    pub(crate) sockets: Sockets,
    pub(crate) connections: Connections,
    pub(crate) timestamps: SentTimestamps,
    pub(crate) mtu: u16,
    clamp_mss: Option<u16>,
    /// Largest TCP MSS for IPv4 that may pass.
    pub(crate) max_mss: Option<u16>,
    /// Connections must be admitted ([`crate::Changes::gated`]).
    pub(crate) gated: bool,
    workers: u32,
    rng: ChaCha20Rng,
    /// Indices in use, of pending handshakes and of sessions, with their peers.
    indices: BTreeMap<u32, PeerId>,
    events: VecDeque<Event>,
    transmits: VecDeque<Transmit>,
}

impl Shared {
    pub(crate) fn new(params: &crate::Params, now: Instant, rng: ChaCha20Rng) -> Self {
        Shared {
            now,
            identity: None,
            sockets: params.sockets,
            connections: Connections::new(),
            timestamps: SentTimestamps::new(params.clock, params.timestamp_floor),
            mtu: params.mtu,
            clamp_mss: params.clamp_mss,
            max_mss: params.clamp_mss.map(|most| max_mss(params.mtu, most)),
            gated: false,
            workers: params.workers.max(1),
            rng,
            indices: BTreeMap::new(),
            events: VecDeque::new(),
            transmits: VecDeque::new(),
        }
    }

    /// The device's MTU is another; `None`: not known. True if that changes the MSS.
    pub(crate) fn set_mtu(&mut self, mtu: Option<u16>) -> bool {
        let max_mss = mtu.zip(self.clamp_mss).map(|(mtu, most)| max_mss(mtu, most));
        std::mem::replace(&mut self.max_mss, max_mss) != max_mss
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.rng.fill_bytes(bytes);
    }

    /// A fresh pair for one handshake.
    pub(crate) fn ephemeral(&mut self) -> Result<KeyPair, Refused> {
        let mut private = Zeroizing::new([0; KEY_LEN]);
        self.rng.fill_bytes(private.as_mut_slice());
        KeyPair::new(&private)
    }

    /// 0 to 333 ms.
    pub(crate) fn jitter(&mut self) -> Duration {
        Duration::from_millis(u64::from(self.rng.next_u32() % (JITTER_MILLIS + 1)))
    }

    /// An index that is not in use, for that peer. Indices are random, so that they tell neither how many peers nor how
    /// many handshakes there were. Their value on the wire, read as a big-endian number, is the peer's number modulo
    /// the number of workers: the kernel divides datagrams by it.
    pub(crate) fn take_index(&mut self, peer: PeerId) -> u32 {
        loop {
            let random = self.rng.next_u32();
            let Some(wire) = (random - random % self.workers).checked_add(peer.0 % self.workers) else {
                continue;
            };
            let index = wire.swap_bytes();
            if let Entry::Vacant(free) = self.indices.entry(index) {
                free.insert(peer);
                return index;
            }
        }
    }

    pub(crate) fn free_index(&mut self, index: u32) {
        self.indices.remove(&index);
    }

    /// The peer whose handshake or session an index names.
    pub(crate) fn peer_of(&self, index: u32) -> Option<PeerId> {
        self.indices.get(&index).copied()
    }

    /// Indices in use.
    #[cfg(test)]
    pub(crate) fn index_count(&self) -> usize {
        self.indices.len()
    }

    /// A timestamp for an initiation. Requests the adapter to save the timestamp that must be saved before,
    /// if there is one.
    pub(crate) fn take_timestamp(&mut self) -> Tai64n {
        let (timestamp, save) = self.timestamps.take(self.now);
        self.events.extend(save.map(|save| Event::Request(Request::SaveTimestamp(save))));
        timestamp
    }

    /// By which path an address is reached. `None`: no socket is for its family.
    pub(crate) fn path_to(&self, remote: SocketAddr) -> Option<Path> {
        let socket = match remote.ip().to_canonical() {
            IpAddr::V4(_) => self.sockets.ipv4,
            IpAddr::V6(_) => self.sockets.ipv6,
        };
        socket.map(|socket| Path::Udp { socket, remote })
    }

    /// A peer uses that connection no more, which is closed now or if no other does.
    pub(crate) fn leave_connection(&mut self, path: Path, peer: PeerId, is_closed: bool) {
        let evicted = self.connections.leave(self.now, path, peer);
        if is_closed {
            self.connections.closed(path);
        }
        let closed = is_closed.then_some(path).into_iter().chain(evicted);
        closed.for_each(|path| self.emit(Event::Close { path }));
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn order(&mut self, order: DataEvent) {
        self.events.push_back(Event::Data(order));
    }

    pub(crate) fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.events.push_back(Event::Report(Report { severity, path, text }));
    }

    /// Sends a handshake message, which is no longer than an initiation.
    pub(crate) fn send(&mut self, path: Path, message: &[u8]) {
        let mut bytes = [0; INITIATION_LEN];
        let Some(place) = bytes.get_mut(..message.len()) else { return };
        place.copy_from_slice(message);
        self.transmits.push_back(Transmit { path, bytes, len: message.len() });
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        // A configuration of thousands of peers has events for each: their room is not kept.
        if event.is_none() && self.events.capacity() > EVENTS_KEPT {
            self.events.shrink_to(EVENTS_KEPT);
        }
        event
    }

    pub(crate) fn next_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let Transmit { path, bytes, len } = self.transmits.pop_front()?;
        buf.extend_from_slice(bytes.get(..len).unwrap_or_default());
        Some(path)
    }
}

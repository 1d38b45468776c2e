//! The state that all IKE SAs of an endpoint share: the time, randomness, addresses, events and outgoing messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Instant, Path, PeerId, PeerOrder, Report, SessionId, Severity, TunnelSettings, UnixTime};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;

use super::blocked::Blocked;
use super::guesses::{Guesser, Guesses};
use super::lingering::LingeringSessions;
use super::params::{Codec, Connection, PeerDetail, Request, Sockets};
use super::pools::Pools;
use crate::wire::Spi;

/// An endpoint's event for the driver.
pub(crate) type Event = adit_core::Event<Request, Codec, PeerDetail>;
/// An endpoint's orders to the data plane.
pub(crate) type DataEvent = adit_core::DataEvent<Codec>;

/// The bytes in front of IKE messages on the sockets for ESP in UDP (RFC 3948 section 2.2).
pub(crate) const MARKER: [u8; 4] = [0; 4];
/// Bytes of a nonce: at least half of the key of the PRF (RFC 7296 section 2.10).
pub(crate) const NONCE_LEN: usize = 32;
/// Most local addresses that are remembered. A driver has fewer at once.
const MOST_LOCALS: usize = 1 << 14;
/// SPIs of child SAs up to this are reserved (RFC 4303 section 2.1).
const RESERVED_SPIS: u32 = 255;

pub(crate) struct Shared {
    pub(crate) now: Instant,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) sockets: Sockets,
    /// The SPIs of this end's child SAs, and of those that are gone and whose sessions linger.
    pub(crate) child_spis: BTreeSet<u32>,
    /// The number of sessions that the data plane has got.
    pub(crate) installed: u64,
    /// The sessions of child SAs that are gone.
    pub(crate) lingering: LingeringSessions,
    /// The wrong passwords of peers.
    pub(crate) guesses: Guesses,
    /// The pools of inner addresses.
    pub(crate) pools: Pools,
    /// The settings of the tunnel without those that peers give. `None`: this endpoint emits no settings.
    pub(crate) tunnel: Option<TunnelSettings>,
    /// The settings that were emitted last.
    pub(crate) emitted: Option<TunnelSettings>,
    /// Whether the settings that peers give may have changed.
    pub(crate) are_settings_stale: bool,
    /// Largest TCP MSS for IPv4 that may pass. `None`: it is left as it is.
    pub(crate) max_mss: Option<u16>,
    /// The peers that are kept out.
    pub(crate) blocked: Blocked,
    /// The addresses of this machine from which it reaches peers, by the peers' addresses.
    pub(crate) sources: BTreeMap<IpAddr, IpAddr>,
    wall_at_origin: UnixTime,
    /// Local addresses, by the numbers of the sockets, and of addresses that sockets have learned.
    locals: BTreeMap<u32, SocketAddr>,
    events: VecDeque<Event>,
    transmits: VecDeque<(Path, Vec<u8>)>,
}

impl Shared {
    pub(crate) fn new(now: Instant, rng: ChaCha20Rng, sockets: Sockets, wall_at_origin: UnixTime) -> Self {
        let (events, transmits) = (VecDeque::new(), VecDeque::new());
        let (child_spis, locals) = (BTreeSet::new(), BTreeMap::new());
        Shared {
            now,
            rng,
            sockets,
            child_spis,
            installed: 0,
            lingering: LingeringSessions::default(),
            max_mss: None,
            blocked: Blocked::default(),
            sources: BTreeMap::new(),
            guesses: Guesses::default(),
            pools: Pools::default(),
            tunnel: None,
            emitted: None,
            are_settings_stale: false,
            wall_at_origin,
            locals,
            events,
            transmits,
        }
    }

    /// The time of the system's clock, for certificates.
    pub(crate) fn wall(&self) -> rustls_pki_types::UnixTime {
        let since_origin = (self.now - Instant::ORIGIN).as_secs();
        let seconds = self.wall_at_origin.0.saturating_add(since_origin);
        rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    pub(crate) fn nonce(&mut self) -> Vec<u8> {
        let mut nonce = vec![0; NONCE_LEN];
        self.rng.fill_bytes(&mut nonce);
        nonce
    }

    pub(crate) fn ike_spi(&mut self) -> Spi {
        Spi(self.rng.next_u64().max(1).to_be_bytes())
    }

    pub(crate) fn child_spi(&mut self) -> u32 {
        self.rng.next_u32().max(RESERVED_SPIS + 1)
    }

    /// A time less up to a tenth, so that both ends do not rekey at once.
    pub(crate) fn jittered(&mut self, time: Duration) -> Duration {
        time - time / 10 * (self.rng.next_u32() % 1024) / 1024
    }

    /// A socket is bound, or has learned a local address. Gives the address that the number had before. Of too many addresses the
    /// oldest is forgotten.
    pub(crate) fn bound(&mut self, socket: u32, local: SocketAddr) -> Option<SocketAddr> {
        let before = self.locals.insert(socket, local);
        let is_learned = |number: &&u32| !self.sockets.has(**number);
        let oldest = self.locals.keys().find(is_learned).filter(|_| self.locals.len() > MOST_LOCALS).copied();
        oldest.and_then(|oldest| self.locals.remove(&oldest));
        before
    }

    /// Whether messages on that path have a marker in front: it is by a socket for ESP in UDP, or by a local address that such a
    /// socket has learned, which has the port of the socket.
    pub(crate) fn is_marked(&self, path: Path) -> bool {
        let port = |socket| self.locals.get(&socket).map(SocketAddr::port);
        let local = path.socket().filter(|socket| !self.sockets.has(*socket)).and_then(port);
        let mut marked = self.sockets.marked.numbers().filter_map(port);
        self.sockets.is_marked(path) || local.is_some_and(|local| marked.any(|port| port == local))
    }

    /// The local address of a path: that of the socket, or else the one that the system chooses. `None`: it is not known.
    pub(crate) fn local_of(&self, path: Path) -> Option<SocketAddr> {
        let bound = *self.locals.get(&path.socket()?)?;
        if !bound.ip().is_unspecified() {
            return Some(bound);
        }
        let chosen = self.sources.get(&path.remote().ip().to_canonical())?;
        Some(SocketAddr::new(*chosen, bound.port()))
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn order(&mut self, order: DataEvent) {
        self.events.push_back(Event::Data(order));
    }

    /// A peer said a wrong password, or proved its identity by a wrong key.
    pub(crate) fn count_guess(&mut self, guesser: Guesser<'_>) {
        let (rng, now) = (&mut self.rng, self.now);
        self.guesses.count(now, guesser, &mut |bytes| rng.fill_bytes(bytes));
    }

    /// The data plane forgets a session.
    pub(crate) fn retire(&mut self, peer: PeerId, spi: u32) {
        self.child_spis.remove(&spi);
        self.order(DataEvent::Retire { peer, session: SessionId(u64::from(spi)) });
    }

    /// The data plane forgets a session after a short time.
    pub(crate) fn retire_later(&mut self, peer: PeerId, spi: u32) {
        let excess = self.lingering.add(peer, spi, self.now);
        excess.into_iter().for_each(|oldest| self.retire(oldest.peer, oldest.spi));
    }

    /// The data plane forgets the sessions whose time is over.
    pub(crate) fn retire_over(&mut self) {
        while let Some(over) = self.lingering.next_over(self.now) {
            self.retire(over.peer, over.spi);
        }
    }

    /// The data plane forgets a peer with all of its sessions.
    pub(crate) fn remove_peer(&mut self, peer: PeerId) {
        let gone = self.lingering.take_of(peer);
        self.child_spis.retain(|spi| !gone.contains(spi));
        self.order(DataEvent::Peer(PeerOrder::Remove(peer)));
    }

    pub(crate) fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.events.push_back(Event::Report(Report { severity, path, text }));
    }

    /// Has the adapter look the names of a connection up, if it has names.
    pub(crate) fn ask_for_addresses(&mut self, connection: &Connection) {
        if connection.has_names {
            self.emit(Event::Request(Request::LookUp(connection.name.clone())));
        }
    }

    /// Sends a message, with the marker where the path has one.
    pub(crate) fn send(&mut self, path: Path, message: &[u8]) {
        let datagram = if self.is_marked(path) { [&MARKER, message].concat() } else { message.to_vec() };
        self.transmits.push_back((path, datagram));
    }

    /// Sends a datagram that is no message, without a marker.
    pub(crate) fn send_as_it_is(&mut self, path: Path, datagram: &[u8]) {
        self.transmits.push_back((path, datagram.to_vec()));
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn next_transmit(&mut self) -> Option<(Path, Vec<u8>)> {
        self.transmits.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng as _;

    use super::*;
    use crate::machine::FamilySockets;

    const PEER: &str = "192.0.2.9:4500";

    fn by(socket: u32) -> Path {
        Path::Udp { socket, remote: PEER.parse().unwrap() }
    }

    #[test]
    fn messages_have_the_marker_at_local_addresses_that_a_marked_socket_learns() {
        let family = |socket| FamilySockets { ipv4: Some(socket), ipv6: None };
        let sockets = Sockets { plain: family(0), marked: family(1), ..Sockets::default() };
        let mut shared = Shared::new(Instant::ORIGIN, ChaCha20Rng::from_seed([1; 32]), sockets, UnixTime(0));
        let locals = ["0.0.0.0:500", "0.0.0.0:4500", "192.0.2.1:500", "192.0.2.1:4500"];
        for (socket, local) in (0..).zip(locals) {
            assert_eq!(shared.bound(socket, local.parse().unwrap()), None);
        }
        assert_eq!(
            [0, 1, 2, 3, 4].map(|socket| shared.is_marked(by(socket))),
            [false, true, false, true, false]
        );
        shared.send(by(3), b"message");
        assert_eq!(shared.next_transmit(), Some((by(3), b"\0\0\0\0message".to_vec())));
        assert_eq!(shared.local_of(by(1)), None);
        let [peer, source] = ["192.0.2.9", "192.0.2.3"].map(|address| address.parse().unwrap());
        shared.sources.insert(peer, source);
        assert_eq!(shared.local_of(by(1)), Some("192.0.2.3:4500".parse().unwrap()));
        assert_eq!(shared.local_of(by(3)), Some("192.0.2.1:4500".parse().unwrap()));
        // The sockets stay, and the newest address.
        let newest = 9 + MOST_LOCALS as u32;
        (9..=newest)
            .for_each(|socket| assert_eq!(shared.bound(socket, "192.0.2.2:4500".parse().unwrap()), None));
        assert!(
            shared.locals.len() <= MOST_LOCALS
                && [1, newest].iter().all(|socket| shared.is_marked(by(*socket)))
        );
        assert!(!shared.is_marked(by(3)), "the oldest address is forgotten");
    }
}

//! One peer: its sessions, its handshakes and its timers.

mod gate;
mod handshake;
mod initiation_mark;
mod liveness;
mod post_quantum;
mod sessions;
mod stream;
mod timers;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Identity, Instant, IpNet, Path, PeerConfig, PeerId, PeerOrder, Transport};

use self::gate::Gate;
use self::liveness::Heard;
use self::post_quantum::Agreement;
use self::sessions::Sessions;
use self::stream::Stream;
use self::timers::Timers;
use crate::crypto::{Refused, Secret};
use crate::keys::{PresharedKey, PublicKey};
use crate::macs::{ReceiverKeys, SenderCookie};
use crate::noise::Initiated;
use crate::request::{DataEvent, Event, PeerDetail, PeerStatus};
use crate::shared::{Shared, mss_of_path};
use crate::tai64n::Tai64n;

/// An initiation that was sent, and waits for its response.
struct Pending {
    index: u32,
    noise: Initiated,
    /// The post-quantum key that it names.
    named: Option<PresharedKey>,
    /// The initiation had a cookie.
    had_cookie: bool,
}

/// Bytes in one direction.
#[derive(Clone, Copy, Default)]
struct Bytes {
    /// The bytes of data datagrams, as the data plane counts them.
    data: u64,
    /// The bytes of handshake messages.
    handshakes: u64,
}

impl Bytes {
    const fn total(self) -> u64 {
        self.data.saturating_add(self.handshakes)
    }
}

pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) key: PublicKey,
    /// The name that it was given ([`crate::PeerChange::name`]).
    pub(crate) name: Option<String>,
    receiver_keys: ReceiverKeys,
    /// The agreement of both static keys, once it was computed.
    static_shared: Option<Secret>,
    pub(crate) preshared: PresharedKey,
    /// `None`: no post-quantum keys are agreed on with it.
    post_quantum: Option<Box<Agreement>>,
    /// Its address over UDP, as configured, or as an authentic datagram showed. There may be no socket to reach it by.
    remote: Option<SocketAddr>,
    /// The address that was configured last.
    configured: Option<SocketAddr>,
    /// The handshake that is tried goes to the configured address, although the peer was heard from another.
    tries_configured: bool,
    path: Option<Path>,
    /// The MTU of the path, where the system knows it.
    path_mtu: Option<u16>,
    /// How it is reached over TCP, if it is.
    stream: Option<Stream>,
    pub(crate) allowed_ips: BTreeSet<IpNet>,
    persistent_keepalive: u16,
    sessions: Sessions,
    /// Boxed, as most peers of a large server have none.
    pending: Option<Box<Pending>>,
    cookie: SenderCookie,
    timers: Timers,
    heard: Heard,
    /// When the last initiation or response was sent.
    handshake_sent: Option<Instant>,
    /// When the last initiation was taken.
    initiation_taken: Option<Instant>,
    last_timestamp: Option<Tai64n>,
    blocked: bool,
    gate: Gate,
    /// Initiations sent since the last complete handshake.
    unanswered: u32,
    /// A packet waits for a session or a path.
    wanted: bool,
    up: Option<Up>,
    received: Bytes,
    sent: Bytes,
}

/// The state of a peer that has finished a handshake.
struct Up {
    since: Instant,
    last_handshake: Instant,
    /// The last handshake by the system's clock.
    last_handshake_wall: Duration,
    handshakes: u64,
    /// [`Event::PeerUp`] was given: it needs a path.
    announced: bool,
}

impl Peer {
    /// A new peer; the data plane gets the order to add it.
    pub(crate) fn new(shared: &mut Shared, id: PeerId, key: PublicKey) -> Self {
        let peer = Peer {
            id,
            key,
            name: None,
            receiver_keys: ReceiverKeys::new(&key),
            static_shared: None,
            preshared: PresharedKey::default(),
            post_quantum: None,
            remote: None,
            configured: None,
            tries_configured: false,
            path: None,
            path_mtu: None,
            stream: None,
            allowed_ips: BTreeSet::new(),
            persistent_keepalive: 0,
            sessions: Sessions::default(),
            pending: None,
            cookie: SenderCookie::default(),
            timers: Timers::default(),
            heard: Heard::default(),
            handshake_sent: None,
            initiation_taken: None,
            last_timestamp: None,
            blocked: false,
            gate: Gate::default(),
            unanswered: 0,
            wanted: false,
            up: None,
            received: Bytes::default(),
            sent: Bytes::default(),
        };
        shared.order(DataEvent::Peer(PeerOrder::Add(peer.config(shared))));
        peer
    }

    /// Its name in the log and in `status`: the name that it was given, or else its key.
    pub(crate) fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.key.to_base64())
    }

    /// Gives it a name, by which access rules know it, too.
    pub(crate) fn set_name(&mut self, shared: &mut Shared, name: String) {
        if self.name.as_ref() != Some(&name) {
            self.name = Some(name);
            shared.order(DataEvent::Peer(PeerOrder::Add(self.config(shared))));
        }
    }

    fn config(&self, shared: &Shared) -> PeerConfig {
        PeerConfig {
            peer: self.id,
            path: self.path,
            routes: self.routes(),
            selectors: Default::default(),
            max_mss: self.max_mss(shared),
            roams: true,
            staging: true,
            device: Default::default(),
            by_path: false,
            identity: Identity { name: self.called(), groups: Vec::new() },
        }
    }

    /// The agreement of both static keys.
    fn static_shared(&mut self, shared: &Shared) -> Result<Secret, Refused> {
        if let Some(secret) = &self.static_shared {
            return Ok(secret.clone());
        }
        let secret = shared.identity.as_ref().ok_or(Refused)?.pair.agree(&self.key)?;
        self.static_shared = Some(secret.clone());
        Ok(secret)
    }

    fn endpoint(&self) -> Option<SocketAddr> {
        let of_connection = self.path.filter(|path| path.transport() == Transport::Tcp);
        of_connection.map(|path| path.remote()).or(self.remote).map(|remote| {
            match remote.ip().to_canonical() {
                IpAddr::V4(address) => (address, remote.port()).into(),
                IpAddr::V6(_) => remote,
            }
        })
    }

    /// The peer is at that address, as was configured. A handshake that waits for its response is tried there at once.
    pub(crate) fn set_endpoint(&mut self, shared: &mut Shared, remote: SocketAddr) {
        let is_other = self.remote != Some(remote);
        self.remote = Some(remote);
        self.configured = Some(remote);
        self.tries_configured = false;
        self.find_path(shared);
        if is_other && self.path.is_some() && self.timers.retry.is_some() {
            self.handshake_sent = None;
            self.initiate(shared, true);
        }
    }

    /// The path to the configured address, where the peer was heard from another one and a socket reaches both.
    fn configured_path(&self, shared: &Shared) -> Option<Path> {
        let configured = self.configured.filter(|configured| Some(*configured) != self.remote)?;
        let roamed = self.path.filter(|path| path.transport() == Transport::Udp);
        roamed.and_then(|_| shared.path_to(configured))
    }

    /// The peer is reached by that path from now on.
    pub(crate) fn set_path(&mut self, shared: &mut Shared, path: Path) {
        if self.path != Some(path) {
            let before = self.max_mss(shared);
            self.change_path(shared, Some(path));
            shared.order(DataEvent::Peer(PeerOrder::Move { peer: self.id, path }));
            if self.max_mss(shared) != before {
                self.tell_mss(shared);
            }
        }
        self.announce(shared);
    }

    /// Notes where the peer is, and which connections are used.
    fn change_path(&mut self, shared: &mut Shared, path: Option<Path>) {
        if path.map(|path| path.remote().ip()) != self.path.map(|path| path.remote().ip()) {
            self.path_mtu = None;
        }
        let before = std::mem::replace(&mut self.path, path).filter(|before| Some(*before) != path);
        match path {
            Some(Path::Udp { remote, .. } | Path::Ip { remote, .. }) => self.remote = Some(remote),
            Some(path @ Path::Tcp { .. }) => shared.connections.take(path, self.id),
            None => {}
        }
        if let Some(before @ Path::Tcp { .. }) = before {
            let is_own = self.stream.as_mut().is_some_and(|stream| stream.leave(before));
            shared.leave_connection(before, self.id, is_own);
        }
    }

    /// Sent packets were not answered, perhaps because of the local address that they left from: the system chooses one
    /// from now on, until the peer is heard again (wireguard-go: `markEndpointSrcForClearing`).
    pub(crate) fn forget_source(&mut self, shared: &mut Shared) {
        self.rebind(shared);
    }

    /// The route to the peer leads by another device than that of the local address: the system chooses the address from now on.
    pub(crate) fn route_changed(&mut self, shared: &mut Shared, path: Path) {
        if self.path == Some(path) {
            self.forget_source(shared);
        }
    }

    /// The sockets were bound anew: the numbers in paths have changed.
    pub(crate) fn rebind(&mut self, shared: &mut Shared) {
        if !matches!(self.path, Some(Path::Tcp { .. })) {
            self.find_path(shared);
        }
    }

    fn find_path(&mut self, shared: &mut Shared) {
        let known = [self.remote, self.configured].into_iter().flatten();
        match known.into_iter().find_map(|remote| shared.path_to(remote)) {
            Some(path) => self.set_path(shared, path),
            None if self.path.is_some() => self.lose_path(shared),
            None => {}
        }
    }

    /// Whether it is at that address.
    pub(crate) fn is_at(&self, remote: IpAddr) -> bool {
        self.path.is_some_and(|path| path.remote().ip().to_canonical() == remote)
    }

    /// Takes the MTU of its path, as the system knows it.
    pub(crate) fn set_path_mtu(&mut self, shared: &mut Shared, mtu: Option<u16>) {
        if std::mem::replace(&mut self.path_mtu, mtu) != mtu {
            self.tell_mss(shared);
        }
    }

    /// The largest TCP MSS for IPv4 of packets to and from it.
    fn max_mss(&self, shared: &Shared) -> Option<u16> {
        let most = shared.max_mss?;
        let fitting = self.path.zip(self.path_mtu).and_then(|(path, mtu)| mss_of_path(path, mtu));
        Some(fitting.map_or(most, |fitting| fitting.min(most)))
    }

    /// Has the data plane know that.
    pub(crate) fn tell_mss(&self, shared: &mut Shared) {
        let max_mss = self.max_mss(shared);
        shared.order(DataEvent::Peer(PeerOrder::SetMaxMss { peer: self.id, max_mss }));
    }

    /// The path is of no use any more.
    pub(crate) fn lose_path(&mut self, shared: &mut Shared) {
        self.change_path(shared, None);
        shared.order(DataEvent::Peer(PeerOrder::Add(self.config(shared))));
    }

    /// Sets the interval of persistent keepalives. True if there were none before.
    pub(crate) fn set_persistent_keepalive(&mut self, shared: &Shared, seconds: u16) -> bool {
        let was = std::mem::replace(&mut self.persistent_keepalive, seconds);
        self.restart_persistent(shared.now);
        was == 0 && seconds != 0
    }

    pub(crate) fn set_last_timestamp(&mut self, timestamp: Tai64n) {
        self.last_timestamp = self.last_timestamp.max(Some(timestamp));
    }

    /// The next handshake uses this key; the running session stays.
    pub(crate) fn set_preshared(&mut self, preshared: PresharedKey) {
        if self.preshared != preshared {
            self.preshared = preshared;
            self.forget_post_quantum_keys();
        }
    }

    /// Blocks the peer, or lets it connect again.
    pub(crate) fn set_blocked(&mut self, shared: &mut Shared, blocked: bool) {
        self.blocked = blocked;
        if blocked {
            self.wipe(shared, "it is blocked");
        }
    }

    /// The configuration of the peer was changed: packets that waited may go now.
    pub(crate) fn configured(&mut self, shared: &mut Shared, keepalive: bool) {
        if keepalive {
            self.send_keepalive(shared);
        } else if self.wanted && self.path.is_some() {
            self.initiate(shared, false);
        }
    }

    /// Word that a packet waits.
    pub(crate) fn wanted(&mut self, shared: &mut Shared) {
        self.wanted = true;
        if !self.awaits_exchange(shared.now) {
            self.initiate(shared, false);
        }
    }

    /// Our private key is another one: nothing of the old one is used any more.
    pub(crate) fn forget_keys(&mut self, shared: &mut Shared) {
        self.wipe(shared, "the private key was changed");
        self.forget_post_quantum_keys();
        self.static_shared = None;
        self.handshake_sent = None;
    }

    /// All keys go, and a new handshake may begin at once.
    pub(crate) fn start_over(&mut self, shared: &mut Shared) {
        self.wipe(shared, "starting over");
        self.handshake_sent = None;
        self.end_wait();
        if self.persistent_keepalive != 0 || self.wanted {
            self.initiate(shared, false);
        }
    }

    /// The data plane opened a newer packet than all before from elsewhere: it is answered there from now on.
    pub(crate) fn roamed(&mut self, shared: &mut Shared, path: Path) {
        if path.transport() == Transport::Tcp && !shared.connections.has(&path) {
            // It was closed meanwhile.
            let before = self.path.map(|path| DataEvent::Peer(PeerOrder::Move { peer: self.id, path }));
            return before.into_iter().for_each(|order| shared.order(order));
        }
        self.change_path(shared, Some(path));
        shared.order(DataEvent::Peer(PeerOrder::Move { peer: self.id, path }));
        self.announce(shared);
    }

    /// Says that the peer is up, once.
    fn announce(&mut self, shared: &mut Shared) {
        let is_new = self.up.as_ref().is_some_and(|up| !up.announced);
        let Some(info) = self.info().filter(|_| is_new) else { return };
        shared.emit(Event::PeerUp { peer: self.id, info: Box::new(info) });
        if let Some(up) = &mut self.up {
            up.announced = true;
        }
    }

    fn announce_end(&mut self, shared: &mut Shared, reason: &str) {
        if self.up.take().is_some_and(|up| up.announced) {
            shared.emit(Event::PeerDown { peer: self.id, reason: reason.to_owned() });
        }
    }

    /// Forgets all sessions and handshakes. The peer stays configured.
    pub(crate) fn wipe(&mut self, shared: &mut Shared, reason: &str) {
        for session in self.sessions.take_all() {
            self.retire(shared, session);
        }
        self.forget_admission(shared);
        self.drop_pending(shared);
        self.forget_used_keys();
        self.timers.clear_handshakes();
        self.announce_end(shared, reason);
        self.leave_connection(shared);
    }

    /// The peer is not configured any more.
    pub(crate) fn remove(mut self, shared: &mut Shared) {
        for session in self.sessions.take_all() {
            shared.free_index(session.index);
        }
        self.drop_pending(shared);
        self.announce_end(shared, "it was removed");
        self.change_path(shared, None);
        shared.order(DataEvent::Peer(PeerOrder::Remove(self.id)));
    }

    fn drop_pending(&mut self, shared: &mut Shared) {
        if let Some(pending) = self.pending.take() {
            shared.free_index(pending.index);
        }
    }

    fn is_post_quantum(&self) -> bool {
        self.sessions.current.is_some_and(|current| current.post_quantum)
    }

    pub(crate) fn detail(&self) -> PeerDetail {
        PeerDetail {
            public_key: self.key,
            name: self.name.clone(),
            endpoint: self.endpoint(),
            transport: self.path.map(|path| path.transport()),
            last_handshake: self.up.as_ref().map(|up| up.last_handshake_wall),
            received_bytes: self.received.total(),
            sent_bytes: self.sent.total(),
            persistent_keepalive: self.persistent_keepalive,
            allowed_ips: self.allowed_ips.iter().copied().collect(),
            last_timestamp: self.last_timestamp,
            unanswered: self.unanswered,
            blocked: self.blocked,
            post_quantum: self.post_quantum.as_ref().map(|_| self.is_post_quantum()),
        }
    }

    pub(crate) fn status(&self) -> PeerStatus {
        PeerStatus { detail: self.detail(), preshared_key: self.preshared.clone() }
    }

    /// The peer as `status` and the log show it, if it is up.
    pub(crate) fn info(&self) -> Option<crate::PeerInfo> {
        let (up, path) = (self.up.as_ref()?, self.path?);
        let is_host = |net: &&IpNet| net.prefix_len() == net.max_prefix_len();
        Some(crate::PeerInfo {
            name: self.called(),
            path,
            addresses: self.allowed_ips.iter().filter(is_host).map(IpNet::addr).collect(),
            cipher: adit_core::Cipher::ChaCha20Poly1305,
            rekeys: up.handshakes.saturating_sub(1),
            last_handshake: up.last_handshake,
            since: up.since,
            heard: self.heard.last_received().map_or(up.last_handshake, |at| at.max(up.last_handshake)),
            routes: self.allowed_ips.iter().filter(|net| !is_host(net)).copied().collect(),
            detail: self.detail(),
        })
    }
}

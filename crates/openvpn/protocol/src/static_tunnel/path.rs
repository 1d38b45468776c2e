//! Where the peer is reached, and where it may be heard.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use adit_core::{IpNet, Ipv4Net, Ipv6Net, Path, PeerConfig, PeerId, PeerOrder, Report, Severity, Transport};

use super::{State, StaticTunnel};
use crate::negotiate::{PathSize, Shape, max_mss};
use crate::request::{DataEvent, Event};

/// Where a peer is that was not heard yet: no socket has this number.
pub(super) const NOWHERE: Path =
    Path::Udp { socket: u32::MAX, remote: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)) };

impl StaticTunnel {
    /// The peer is reached there from now on.
    pub(super) fn reach(&mut self, path: Path) {
        let params = &self.params;
        let size = PathSize { path, mtu: self.path_mtu };
        let max_mss = max_mss(params.mssfix, params.tun_mtu, size, &Shape::from(params));
        // As in `may_be_at`, for any path.
        let roams = self.comes_from_anywhere() || (params.float && !params.waits() && path != NOWHERE);
        self.data(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PeerId::SERVER,
            path: Some(path),
            routes: vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())],
            selectors: Default::default(),
            max_mss,
            roams,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })));
    }

    /// Whether the peer comes to us, from any address. Then the data plane answers its first packet: it finds the peer, and seals,
    /// by that packet alone.
    pub(super) fn comes_from_anywhere(&self) -> bool {
        self.params.waits() && self.params.only_from.is_none()
    }

    /// Takes the MTU of the path to that address, which may be the peer's, as the system knows it.
    pub(super) fn take_path_mtu(&mut self, remote: IpAddr, mtu: Option<u16>) {
        let Some(path) = self.path.filter(|path| path.remote().ip().to_canonical() == remote) else { return };
        if std::mem::replace(&mut self.path_mtu, mtu) != mtu {
            self.reach(path);
        }
    }

    /// Sends datagrams there from now on.
    pub(super) fn take(&mut self, path: Path) {
        if self.path.is_none_or(|before| before.remote().ip() != path.remote().ip()) {
            self.path_mtu = None;
        }
        self.path = Some(path);
        self.told_elsewhere = false;
        self.reach(path);
        if !std::mem::replace(&mut self.seals, true) {
            self.activate();
        }
        self.liveness.restart(self.now);
    }

    /// Leaves the path to the peer, which has none for now.
    pub(super) fn leave(&mut self) {
        if let Some(path) = self.path.take() {
            self.events.push_back(Event::Close { path });
            self.reach(NOWHERE);
        }
    }

    /// Takes a new connection: until the peer was heard, the newest one is taken for its.
    pub(super) fn accepted(&mut self, path: Path) {
        if self.up.is_some() {
            self.keep(path);
        } else {
            if let Some(before) = self.path.filter(|before| before.transport() == Transport::Tcp) {
                self.keep(before);
            }
            self.take(path);
        }
    }

    /// Keeps a connection on which the peer may be heard later.
    fn keep(&mut self, path: Path) {
        if let Some((path, ())) = self.unproven.insert(path.remote().ip(), path, (), ()) {
            self.events.push_back(Event::Close { path });
        }
    }

    /// Whether the peer may be there.
    pub(super) fn may_be_at(&self, path: Path) -> bool {
        match self.params.waits() {
            true => {
                let address = path.remote().ip().to_canonical();
                self.params.only_from.as_ref().is_none_or(|addresses| addresses.contains(&address))
            }
            false => self.params.float || self.path == Some(path),
        }
    }

    /// The peer's datagrams came from there.
    pub(super) fn roamed(&mut self, path: Path) {
        if self.state != State::Running || self.path == Some(path) {
            return;
        }
        if !self.may_be_at(path) {
            // An attacker who sees both ends' datagrams can replay them from any number of addresses.
            if std::mem::replace(&mut self.told_elsewhere, true) {
                return;
            }
            let answers = match self.path {
                Some(known) => format!("answers still go to {} alone", known.remote()),
                None => "it gets no answer".to_owned(),
            };
            let text = format!(
                "datagrams of the other end come from here, where it is not by `remote`: {answers}, as anyone who \
                 overhears its datagrams can send them again from any address. If the other end may change its \
                 address, write `float`; if it is here for good, correct `remote`"
            );
            return self.report(Severity::Warning, Some(path), text);
        }
        if path.transport() == Transport::Tcp && self.unproven.remove(&path).is_none() {
            // The connection is closed by now: the data plane's datagrams for it go where the peer was
            // before.
            let peer = PeerId::SERVER;
            let before = self.path.map(|path| DataEvent::Peer(PeerOrder::Move { peer, path }));
            return before.into_iter().for_each(|order| self.data(order));
        }
        if let Some(before) = self.path.filter(|before| before.transport() == Transport::Tcp) {
            self.events.push_back(Event::Close { path: before });
        }
        self.take(path);
        self.heard = true;
        if self.up.is_some() {
            let text = "the other end moved here".to_owned();
            self.events.push_back(Event::Report(Report { severity: Severity::Info, path: Some(path), text }));
            self.tell_peer();
        }
        self.establish();
    }
}

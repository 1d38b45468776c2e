//! The sessions of child SAs in the data plane, and the peer's path there.

use adit_core::{Identity, Install, OnFirstOpened, Path, PeerId, PeerInfo, PeerOrder, SessionId};

use super::child_sa::{ChildPhase, ChildSa};
use super::connections::{Connections, is_instance};
use super::context::Context;
use super::narrow::routes;
use super::params::{Connection, PeerDetail};
use super::peer::{Installed, PeerState, Peers, Place};
use super::proof::name_of;
use super::sa::{IkeSa, Phase};
use super::shared::{DataEvent, Shared};
use crate::wire::IdType;

impl IkeSa {
    /// The peer in the data plane. Its connection is known.
    pub(crate) fn peer(&self) -> Option<PeerId> {
        self.connection.map(|number| PeerId(number as u32))
    }

    /// The path of ESP: that of IKE messages with ESP in UDP, else IP protocol 50.
    pub(crate) fn data_path(&self, shared: &Shared) -> Path {
        let raw = shared.sockets.esp.raw_path_to(self.path.remote().ip());
        raw.filter(|_| !self.is_encapsulated).unwrap_or(self.path)
    }

    /// Whether this end follows the peer to another address by itself: the peer is behind a NAT, and this end is not (RFC 7296
    /// section 2.23).
    pub(crate) const fn follows_peer(&self) -> bool {
        self.nat.is_remote && !self.nat.is_local
    }

    /// Gives the data plane the peer's entry as the child SAs demand it.
    pub(crate) fn order_entry(&self, cx: &mut Context<'_>) {
        let Some(number) = self.connection else { return };
        let path = Some(self.data_path(cx.shared));
        let proven = cx.connections.get(number).map(|connection| self.identity(connection));
        cx.order_entry(number, Place { path, roams: self.follows_peer(), shares: false }, proven);
    }

    /// The peer as access rules name it. Its groups are the organizational units of the name that it proved.
    fn identity(&self, connection: &Connection) -> Identity {
        let subject = self.peer_identity.as_ref().filter(|identity| identity.kind == IdType::DER_ASN1_DN);
        let groups = subject.map(|identity| adit_pki::units_of_name(&identity.data)).unwrap_or_default();
        Identity { name: self.name(connection), groups }
    }

    /// Whether the data plane has a child SA of that child, of this IKE SA or of another one of the peer.
    pub(crate) fn has_session_of(&self, cx: &Context<'_>, child: usize) -> bool {
        let state = self.connection.and_then(|number| cx.peers.get(&number));
        state.is_some_and(|state| state.installed.values().any(|installed| installed.number == child))
    }

    /// Whether all child SAs of that child that are left were installed later, and there are some.
    fn has_later_session(&self, cx: &Context<'_>, gone: &Installed) -> bool {
        let Some(state) = self.connection.and_then(|number| cx.peers.get(&number)) else { return false };
        let mut left = state.installed.values().filter(|other| other.number == gone.number).peekable();
        left.peek().is_some() && left.all(|other| other.order > gone.order)
    }

    /// Gives a child SA to the data plane.
    pub(crate) fn install_child(&mut self, cx: &mut Context<'_>, mut child: ChildSa, is_sealing: bool) {
        let (Some(peer), Some(codec)) = (self.peer(), child.codec.take()) else { return };
        let Some(state) = self.connection.and_then(|number| cx.peers.get_mut(&number)) else { return };
        state.cipher = Some(child.cipher);
        state.last_handshake = cx.shared.now;
        // While another IKE SA is made in place of this one, that one is to have the child.
        if state.replacing != Some(self.own_spi) {
            state.wanted.remove(&child.number);
        }
        let is_up_now = state.up.insert(child.number);
        if is_up_now {
            state.last_data = cx.shared.now;
        }
        let (spi, session) = (child.own_spi, SessionId(u64::from(child.own_spi)));
        cx.shared.installed += 1;
        state.installed.insert(spi, child.installed(cx.shared.installed));
        self.order_entry(cx);
        // This end seals with the child SA once the peer has sealed with it (RFC 7296 section 2.8).
        let on_first_opened = if is_sealing { OnFirstOpened::Nothing } else { OnFirstOpened::Activate };
        cx.shared.order(DataEvent::Install(Box::new(Install {
            on_first_opened,
            series: child.number as u32,
            ..Install::new(peer, session, *codec)
        })));
        if is_up_now {
            self.tell_up(cx, &child);
        }
        self.children.insert(spi, child);
        cx.shared.child_spis.insert(spi);
        if is_sealing {
            self.activate_child(cx, spi);
        }
    }

    /// Makes the data plane seal packets of its child with that child SA from now on.
    pub(crate) fn activate_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        let (Some(peer), Some(number)) = (self.peer(), self.children.get(&spi).map(|child| child.number))
        else {
            return;
        };
        for child in self.children.values_mut().filter(|child| child.number == number) {
            child.is_sealing = child.own_spi == spi;
        }
        cx.shared.order(DataEvent::Activate { peer, session: SessionId(u64::from(spi)) });
    }

    fn of_child(&self, number: usize) -> impl DoubleEndedIterator<Item = &ChildSa> {
        self.children.values().filter(move |child| child.number == number)
    }

    /// Activates a child SA that this end does not seal with yet, if this end seals with no other child SA of the child.
    fn activate_waiting(&mut self, cx: &mut Context<'_>, number: usize) {
        let sealing = |child: &ChildSa| child.phase != ChildPhase::Deleting && child.is_sealing;
        if self.of_child(number).any(sealing) {
            return;
        }
        let waiting = |child: &&ChildSa| child.phase == ChildPhase::Active && !child.is_sealing;
        let waiting = self.of_child(number).find(waiting).map(|child| child.own_spi);
        waiting.into_iter().for_each(|spi| self.activate_child(cx, spi));
    }

    /// Activates the child SA in use of a child once more, after another session of the peer was activated.
    fn activate_child_again(&mut self, cx: &mut Context<'_>, number: usize) {
        let sealing = |child: &&ChildSa| child.phase == ChildPhase::Active && child.is_sealing;
        let sealing = self.of_child(number).rfind(sealing).map(|child| child.own_spi);
        sealing.into_iter().for_each(|spi| self.activate_child(cx, spi));
    }

    /// Activates the child SAs in use once more, after sessions of another IKE SA of the peer were activated, or those that wait
    /// where sessions of another IKE SA seal.
    pub(crate) fn activate_again(&mut self, cx: &mut Context<'_>) {
        let mut numbers: Vec<usize> = self.children.values().map(|child| child.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            self.activate_child_again(cx, number);
            self.activate_waiting(cx, number);
        }
    }

    /// The peer has sealed a packet with a child SA, so that it has the keys (RFC 7296 section 2.8), and the data plane seals with
    /// that child SA from then on. If that child SA is replaced or deleted, the child SA in use is activated again.
    pub(crate) fn opened_first(&mut self, cx: &mut Context<'_>, spi: u32) {
        self.children.get_mut(&spi).into_iter().for_each(|child| child.is_known = true);
        match self.children.get(&spi) {
            Some(child) if child.phase == ChildPhase::Active => self.activate_child(cx, spi),
            Some(child) => {
                let number = child.number;
                self.activate_child_again(cx, number);
            }
            None => {}
        }
    }

    /// Rekeys a child SA as soon as no other request is pending.
    pub(crate) fn rekey_child_now(&mut self, cx: &mut Context<'_>, spi: u32) {
        if let Some(child) = self.children.get_mut(&spi) {
            child.rekey_at = Some(cx.shared.now);
        }
        self.next_task(cx);
    }

    /// Rekeys all child SAs.
    pub(crate) fn rekey_children(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        self.children.values_mut().for_each(|child| child.rekey_at = Some(now));
        self.next_task(cx);
    }

    /// Removes a child SA from the data plane, after another child SA of the child is activated, if there is one.
    pub(crate) fn remove_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        let Some(child) = self.children.get_mut(&spi) else { return };
        child.phase = ChildPhase::Deleting;
        let number = child.number;
        self.activate_waiting(cx, number);
        self.retire(cx, spi);
    }

    fn retire(&mut self, cx: &mut Context<'_>, spi: u32) {
        let (Some(_), Some(peer)) = (self.children.remove(&spi), self.peer()) else { return };
        let state = self.connection.and_then(|number| cx.peers.get_mut(&number));
        let gone = state.and_then(|state| state.installed.remove(&spi));
        // The peer may have sealed packets with it before it took a later one. With a later one this end seals at once: to one that was
        // installed earlier the data plane does not go back while this session is there.
        if gone.as_ref().is_some_and(|gone| self.has_later_session(cx, gone)) {
            cx.shared.retire_later(peer, spi);
        } else {
            cx.shared.retire(peer, spi);
        }
        if gone.is_some() {
            self.order_entry(cx);
        }
    }

    pub(crate) fn remove_children(&mut self, cx: &mut Context<'_>) {
        let all: Vec<u32> = self.children.keys().copied().collect();
        all.into_iter().for_each(|spi| self.retire(cx, spi));
    }

    /// This end deletes a child SA with the next request.
    pub(crate) fn delete_child(&mut self, spi: u32) {
        let Some(child) = self.children.get_mut(&spi) else { return };
        child.phase = ChildPhase::Deleting;
        child.ends_at = None;
        self.to_delete.push_back(spi);
    }

    /// Deletes a child SA whose time is over.
    pub(crate) fn delete_late_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        let Some(number) = self.children.get(&spi).map(|child| child.number) else { return };
        self.delete_child(spi);
        self.activate_waiting(cx, number);
    }

    /// The peer is reached by another path from now on.
    pub(crate) fn move_to(&mut self, cx: &mut Context<'_>, path: Path) {
        self.path = path;
        let Some(peer) = self.peer().filter(|_| matches!(self.phase, Phase::Established)) else { return };
        let path = self.data_path(cx.shared);
        cx.shared.are_settings_stale = true;
        let state = self.connection.and_then(|number| cx.peers.get_mut(&number));
        let Some(entry) = state.and_then(|state| state.entry.as_mut()) else { return };
        entry.path = Some(path);
        cx.shared.order(DataEvent::Peer(PeerOrder::Move { peer, path }));
    }

    /// An authentic packet came by another path. Only a peer behind a NAT, to an end that is behind none, is followed to that path.
    pub(crate) fn moved(&mut self, cx: &mut Context<'_>, path: Path) {
        let path = if self.follows_peer() { path } else { self.path };
        self.move_to(cx, path);
    }

    /// The peer's entry in a status. `None`: the peer is not known yet, or there is no child SA.
    pub(crate) fn info(&self, connections: &Connections, peers: &Peers) -> Option<PeerInfo<PeerDetail>> {
        let number = self.connection?;
        let (connection, state) = (connections.get(number)?, peers.get(&number)?);
        let mut prefixes: Vec<adit_core::IpNet> = Vec::new();
        for route in self.children.values().flat_map(|child| routes(&child.remote)) {
            if !prefixes.contains(&route) {
                prefixes.push(route);
            }
        }
        let (hosts, networks): (Vec<_>, Vec<_>) =
            prefixes.into_iter().partition(|route| route.prefix_len() == route.max_prefix_len());
        Some(PeerInfo {
            name: self.name(connection),
            path: self.path,
            addresses: hosts.iter().map(|host| host.addr()).collect(),
            cipher: state.cipher?,
            rekeys: state.rekeys,
            last_handshake: state.last_handshake,
            since: state.since,
            heard: self.heard,
            routes: networks,
            detail: self.detail(connection, state)?,
        })
    }

    /// The name of the peer: its own, if the connection has peers with names of their own, or else that of the connection.
    fn name(&self, connection: &Connection) -> String {
        let own =
            self.peer_identity.as_ref().filter(|_| self.connection.is_some_and(is_instance)).map(name_of);
        own.unwrap_or_else(|| connection.name.clone())
    }

    fn detail(&self, connection: &Connection, state: &PeerState) -> Option<PeerDetail> {
        let mut children: Vec<&ChildSa> = self.children.values().collect();
        children.sort_by_key(|child| (child.number, child.made_at));
        let inner = |is_there: bool| if is_there { state.inner.clone() } else { Vec::new() };
        Some(PeerDetail {
            connection: connection.name.clone(),
            own_inner: inner(connection.inner.asks()),
            peer_inner: inner(connection.inner.gives()),
            is_initiator: self.is_initiator,
            own_spi: self.own_spi,
            peer_spi: self.peer_spi,
            local_identity: connection.local_auth.identity.clone(),
            remote_identity: self.peer_identity.clone()?,
            ike_identity: self.ike_identity.clone(),
            suite: self.channel.as_ref()?.suite.clone(),
            uses_ppk: self.uses_ppk,
            is_behind_nat: self.nat.is_local,
            is_peer_behind_nat: self.nat.is_remote,
            is_encapsulation_forced: self.is_encapsulated && !self.nat.is_there(),
            made_at: self.made_at,
            rekey_at: self.rekey_at,
            reauthentication_at: self.reauthentication_at,
            children: children.into_iter().map(|child| child.detail(connection)).collect(),
        })
    }
}

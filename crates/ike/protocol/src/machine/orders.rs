//! Orders of the adapter and the host: connections that come and go, children that are brought up, and the end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use adit_core::{Ended, PeerId, Severity, TunnelSettings};

use super::child_orders::{ChildSelection, TrapOrder};
use super::context::Context;
use super::endpoint::Endpoint;
use super::params::{BadParams, Connection};
use super::peer::{EndKind, PeerState, Place};
use super::sa::{IkeSa, Phase};
use super::schedule::Schedule;
use super::shared::Event;
use crate::wire::Spi;

/// Orders of the adapter. If one cannot be carried out, an error in the log says so.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A further connection.
    Add(Box<Connection>),
    /// The connection with that name goes. Its IKE SAs are deleted.
    Remove(String),
    /// A child is brought up.
    Initiate {
        /// The connection's name.
        connection: String,
        /// The child's name. `None`: all children.
        child: Option<String>,
    },
    /// The addresses that this end initiates to, of a connection with names ([`Connection::has_names`]).
    Remotes {
        /// The connection's name.
        connection: String,
        /// Its addresses now.
        remotes: Vec<SocketAddr>,
    },
    /// The IKE SAs of the connection with that name are deleted. Nothing is brought up again by itself.
    Terminate(String),
    /// The IKE SAs of the connection with that name are rekeyed.
    Rekey(String),
    /// The IKE SA of that peer is rekeyed.
    RekeyPeer(PeerId),
    /// The peer is authenticated anew, by another IKE SA with all child SAs. A peer whose address is not known stays as it is.
    ReauthenticatePeer(PeerId),
    /// A child SA is rekeyed.
    RekeyChild(ChildSelection),
    /// A child SA is deleted. Its IKE SA stays, and nothing is brought up again by itself.
    DeleteChild(ChildSelection),
    /// Packets of a child bring it up, or do so no longer.
    SetTrap(TrapOrder),
    /// The peers of these names are kept out ([`Endpoint::set_blocked`]).
    Block(BTreeSet<String>),
    /// The addresses from which this machine reaches its peers ([`Endpoint::set_sources`]).
    Sources(BTreeMap<IpAddr, IpAddr>),
    /// The settings of the tunnel are these from now on.
    Tunnel(TunnelSettings),
}

impl Endpoint {
    /// Adds a connection, and brings its children up as they demand. Gives the peer's number, which no other peer gets.
    ///
    /// # Errors
    /// The connection cannot be used, or one like it is there.
    pub fn add_connection(&mut self, connection: Connection) -> Result<PeerId, BadParams> {
        let state = PeerState::new(&connection, self.shared.now);
        let number = self.connections.add(connection)?;
        self.initiations.set(number, state.initiate_at);
        self.peers.insert(number, Box::new(state));
        self.run(None, |cx, _| cx.order_entry(number, Place::default(), None));
        Ok(PeerId(number as u32))
    }

    /// Removes a connection. Its IKE SAs are deleted. Gives whether there was one of that name.
    pub fn remove_connection(&mut self, name: &str) -> bool {
        let Some(number) = self.connections.number_of(name) else { return false };
        self.close_connection(number, "the connection was removed");
        self.connections.remove(number);
        self.initiations.set(number, None);
        for number in self.peers_of(number) {
            let Some(state) = self.peers.remove(&number) else { continue };
            self.shared.pools.remove(number, state.lease.as_deref());
            if state.entry.is_some() {
                self.shared.remove_peer(PeerId(number as u32));
            }
        }
        self.shared.are_settings_stale = true;
        self.update_settings();
        true
    }

    /// Takes the addresses from which this machine reaches its peers, by the peers' addresses. At sockets that are bound to all
    /// addresses, this end does not know its own address without them, so that it seems to be behind a NAT. If the address towards a
    /// peer has changed, the peer gets the new one (RFC 4555).
    pub fn set_sources(&mut self, sources: BTreeMap<IpAddr, IpAddr>) {
        let before = std::mem::replace(&mut self.shared.sources, sources);
        let changed =
            |(peer, source): (&IpAddr, &IpAddr)| (before.get(peer) != Some(source)).then_some(*peer);
        let changed: BTreeSet<IpAddr> = self.shared.sources.iter().filter_map(changed).collect();
        self.addresses_changed(|sa| changed.contains(&sa.path.remote().ip().to_canonical()));
    }

    pub(super) fn obey(&mut self, reply: Reply) {
        let outcome = match reply {
            Reply::Add(connection) => {
                self.add_connection(*connection).map(drop).map_err(|error| error.to_string())
            }
            Reply::Remove(name) => known(&name, self.remove_connection(&name)),
            Reply::Tunnel(settings) => {
                self.set_tunnel(settings);
                Ok(())
            }
            Reply::Initiate { connection, child } => self.bring_up(&connection, child.as_deref()),
            Reply::Remotes { connection, remotes } => self.set_remotes(&connection, remotes),
            Reply::Block(names) => {
                self.set_blocked(names);
                Ok(())
            }
            Reply::Sources(sources) => {
                self.set_sources(sources);
                Ok(())
            }
            Reply::Terminate(name) => {
                let number = self.connections.number_of(&name);
                number.into_iter().for_each(|number| self.close_connection(number, "terminated"));
                known(&name, number.is_some())
            }
            Reply::Rekey(name) => {
                let number = self.connections.number_of(&name);
                let peers = number.map(|number| self.peers_of(number)).unwrap_or_default();
                peers.into_iter().for_each(|number| self.rekey_ike_sa(number));
                known(&name, number.is_some())
            }
            Reply::RekeyPeer(peer) => {
                self.rekey_ike_sa(peer.0 as usize);
                Ok(())
            }
            Reply::ReauthenticatePeer(peer) => {
                self.reauthenticate_peer(peer);
                Ok(())
            }
            Reply::RekeyChild(child) => {
                self.rekey_child(child);
                Ok(())
            }
            Reply::DeleteChild(child) => {
                self.delete_child(child);
                Ok(())
            }
            Reply::SetTrap(order) => self.set_trap(&order),
        };
        if let Err(error) = outcome {
            self.shared.report(Severity::Error, None, error);
        }
    }

    fn bring_up(&mut self, name: &str, child: Option<&str>) -> Result<(), String> {
        let number = self.connections.number_of(name);
        let (Some(number), Some(connection)) = (number, number.and_then(|it| self.connections.get(it)))
        else {
            return known(name, false);
        };
        if connection.remotes.is_empty() && !connection.has_names {
            self.shared.failed(connection, "the address of the peer is not known");
            return Err(format!("{name}: it cannot be brought up without the address of the peer"));
        }
        let is_asked = |own: &str| child.is_none_or(|child| child == own);
        let children = connection.children.iter().enumerate().filter(|(_, own)| is_asked(&own.name));
        let children: Vec<usize> = children.map(|(child, _)| child).collect();
        if children.is_empty() {
            return Err(format!("{name}: there is no child {}", child.unwrap_or_default()));
        }
        children.into_iter().for_each(|child| self.want(number, child));
        Ok(())
    }

    /// Sets the addresses of a connection's peer. An IKE SA that is there stays as it is. A connection that was removed meanwhile has
    /// none.
    fn set_remotes(&mut self, name: &str, remotes: Vec<SocketAddr>) -> Result<(), String> {
        let Some(number) = self.connections.number_of(name) else { return Ok(()) };
        if self.connections.set_remotes(number, remotes).map_err(|error| error.to_string())?
            && let Some(state) = self.peers.get_mut(&number)
        {
            state.remote = 0;
        }
        Ok(())
    }

    /// Rekeys the IKE SA of a peer as soon as no other request is pending.
    fn rekey_ike_sa(&mut self, number: usize) {
        let Some(spi) = self.peers.get(&number).and_then(|state| state.sa) else { return };
        let now = self.shared.now;
        self.with_sa(spi, |sa, cx| {
            sa.rekey_at = Some(now);
            sa.next_task(cx);
        });
    }

    /// Brings a child up.
    pub(super) fn want(&mut self, number: usize, child: usize) {
        let now = self.shared.now;
        let Some(state) = self.peers.get_mut(&number).filter(|_| !self.has_ended) else { return };
        if state.installed.values().any(|installed| installed.number == child) {
            return;
        }
        state.want(child, now);
        match state.sa {
            Some(spi) => self.with_sa(spi, |sa, cx| sa.next_task(cx)),
            None if state.connecting.is_none() => {
                state.initiate_at = Some(now);
                self.initiations.set(number, Some(now));
            }
            None => {}
        }
    }

    /// Initiates an IKE SA for the children that are wanted.
    pub(super) fn initiate(&mut self, number: usize) {
        let is_blocked = self.is_blocked(number);
        let (Some(state), Some(connection)) = (self.peers.get_mut(&number), self.connections.get(number))
        else {
            return;
        };
        state.initiate_at = None;
        self.initiations.set(number, None);
        if is_blocked {
            return self.shared.failed(connection, "the peer is blocked");
        }
        if state.connecting.is_some() || state.sa.is_some() && state.replacing.is_none() {
            return;
        }
        let Some(remote) = connection.remotes.get(state.remote).copied() else {
            if connection.has_names {
                self.shared.failed(connection, "the names of the peer have no address");
                self.initiation_failed(number, EndKind::DeadPeer);
            }
            return;
        };
        let sockets = self.shared.sockets;
        let plain = sockets.plain.path_to(remote).filter(|_| remote.port() != super::init::MARKED_PORT);
        let Some(path) = plain.or_else(|| sockets.marked.path_to(remote)) else {
            self.shared.report(Severity::Error, None, format!("there is no socket for {remote}"));
            return self.initiation_failed(number, EndKind::DeadPeer);
        };
        let Some(sa) = self.run(None, |cx, _| IkeSa::initiate(cx, number, path)) else { return };
        if let Some(state) = self.peers.get_mut(&number) {
            state.connecting = Some(sa.own_spi);
            state.unanswered = state.unanswered.saturating_add(1);
        }
        self.add(Box::new(sa));
    }

    /// The numbers of the peers of a connection.
    fn peers_of(&self, number: usize) -> Vec<usize> {
        [number].into_iter().chain(self.shared.pools.all_instances(number)).collect()
    }

    fn close_connection(&mut self, number: usize, reason: &str) {
        self.peers_of(number).into_iter().for_each(|number| self.close_peer(number, reason));
    }

    /// The settings of the tunnel are these from now on, with those that peers give.
    pub(super) fn set_tunnel(&mut self, settings: TunnelSettings) {
        self.shared.tunnel = Some(settings);
        self.shared.are_settings_stale = true;
        self.update_settings();
    }

    /// Peers of other endpoints of the tunnel have taken the place of peers of this one.
    pub(super) fn leave_evicted(&mut self) {
        for number in self.shared.pools.evicted() {
            self.close_peer(number, "its name went to another peer of the tunnel");
        }
    }

    pub(super) fn close_peer(&mut self, number: usize, reason: &str) {
        let of_peer = self.sas.values().filter(|sa| sa.connection == Some(number));
        let of_peer: Vec<Spi> = of_peer.map(|sa| sa.own_spi).collect();
        if let Some(state) = self.peers.get_mut(&number) {
            (state.initiate_at, state.remote) = (None, 0);
            self.initiations.set(number, None);
            state.wanted.clear();
        }
        of_peer.into_iter().for_each(|spi| self.close(spi, reason));
    }

    fn close_all(&mut self, reason: &str) {
        let all: Vec<Spi> = self.sas.keys().copied().collect();
        all.into_iter().for_each(|spi| self.close(spi, reason));
    }

    pub(super) fn close(&mut self, spi: Spi, reason: &str) {
        self.with_sa(spi, |sa: &mut IkeSa, cx: &mut Context<'_>| {
            if !matches!(sa.phase, Phase::Closing) {
                sa.close(cx, EndKind::Own, reason);
            }
        });
    }

    pub(super) fn restart(&mut self) {
        self.close_all("restarted");
        let all: Vec<usize> = self.connections.iter().map(|(number, _)| number).collect();
        all.into_iter().for_each(|number| self.begin_anew(number));
    }

    /// Brings the children of a connection up as at the start.
    pub(super) fn begin_anew(&mut self, number: usize) {
        let Some(connection) = self.connections.get(number) else { return };
        let PeerState { wanted, initiate_at, .. } = PeerState::new(connection, self.shared.now);
        if let Some(state) = self.peers.get_mut(&number) {
            (state.wanted, state.initiate_at, state.remote) = (wanted, initiate_at, 0);
            self.initiations.set(number, initiate_at);
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.has_ended = true;
        self.initiations = Schedule::default();
        for state in self.peers.values_mut() {
            state.initiate_at = None;
            state.wanted.clear();
        }
        self.close_all("shut down");
        self.shared.emit(Event::Ended(Ended::Shutdown));
    }
}

pub(super) fn known(name: &str, is_there: bool) -> Result<(), String> {
    if is_there { Ok(()) } else { Err(format!("there is no connection {name}")) }
}

//! The endpoint's messages to its adapter: what has become of IKE SAs and child SAs.

use std::net::SocketAddr;

use adit_core::{Path, PeerId, PeerInfo, Protocol as _};

use super::endpoint::Endpoint;
use super::params::{Connection, PeerDetail, Request};
use super::sa::{IkeSa, Phase};
use super::shared::{Event, Shared};
use crate::wire::Spi;

/// An IKE SA that is not established yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connecting {
    /// The peer.
    pub peer: PeerId,
    /// The name of the connection.
    pub connection: String,
    /// The path of its messages.
    pub path: Path,
    /// The local address and port, where they are known.
    pub local: Option<SocketAddr>,
    /// The SPIs of the initiator and of the responder. That of a responder that has not answered is 0.
    pub spis: [Spi; 2],
}

/// A peer that this end seeks, or would seek for a packet, and that is not up.
#[derive(Clone, Copy, Debug)]
pub struct Unconnected<'a> {
    /// Its connection.
    pub connection: &'a Connection,
    /// The address that this end initiates to. `None`: none is known.
    pub remote: Option<SocketAddr>,
    /// The initiations since the peer answered one.
    pub unanswered: u32,
    /// Whether the peer is kept out.
    pub is_blocked: bool,
}

/// The properties of an IKE SA by which the endpoint sees that it has changed.
#[derive(PartialEq, Eq)]
pub(super) struct Shape {
    number: Option<usize>,
    is_established: bool,
    path: Path,
    own_spi: Spi,
    /// A sum over the child SAs.
    children: u64,
}

impl Shape {
    fn of(sa: &IkeSa) -> Self {
        let child = |child: &super::child_sa::ChildSa| {
            u64::from(child.own_spi) << 2 | u64::from(child.is_sealing) << 1 | u64::from(child.is_active())
        };
        Shape {
            number: sa.connection,
            is_established: matches!(sa.phase, Phase::Established),
            path: sa.path,
            own_spi: sa.own_spi,
            children: sa.children.values().fold(0, |sum, of| sum.wrapping_add(child(of))),
        }
    }
}

impl Shared {
    /// Tells the adapter that the IKE SA of a peer or its child SAs have changed.
    pub(crate) fn sas_changed(&mut self, number: usize) {
        self.emit(Event::Request(Request::SasChanged(PeerId(number as u32))));
    }

    /// Tells the adapter that a child was asked for in vain.
    pub(crate) fn failed(&mut self, connection: &Connection, reason: &str) {
        let (connection, reason) = (connection.name.clone(), reason.to_owned());
        self.emit(Event::Request(Request::Failed { connection, reason }));
    }
}

impl Endpoint {
    /// The properties of an IKE SA before it is changed.
    pub(super) fn shape(&self, spi: Option<Spi>) -> Option<Shape> {
        self.sas.get(&spi?).map(|sa| Shape::of(sa))
    }

    /// Tells the adapter of an IKE SA that has changed.
    pub(super) fn notify_change(&mut self, spi: Option<Spi>, before: Option<Shape>) {
        let after = self.shape(spi);
        if before == after {
            return;
        }
        let is_there = |shape: &&Shape| shape.is_established || shape.children != 0;
        let number = [&before, &after].into_iter().flatten().find(is_there).and_then(|shape| shape.number);
        number.into_iter().for_each(|number| self.shared.sas_changed(number));
    }

    /// The peer of that number as [`adit_core::Protocol::peers`] gives it. `None`: it is not up.
    pub fn peer(&self, peer: PeerId) -> Option<PeerInfo<PeerDetail>> {
        let state = self.peers.get(&(peer.0 as usize)).filter(|state| state.is_up)?;
        self.sas.get(&state.sa?)?.info(&self.connections, &self.peers)
    }

    /// The IKE SAs that this end initiates and that are not established yet.
    pub fn connecting(&self) -> Vec<Connecting> {
        let connecting = self.sas.values().filter(|sa| matches!(sa.phase, Phase::Connecting));
        let of = |sa: &IkeSa| {
            let connection = self.connections.get(sa.connection?)?;
            Some(Connecting {
                peer: sa.peer()?,
                connection: connection.name.clone(),
                path: sa.path,
                local: self.local_address(sa.path),
                spis: sa.spis(),
            })
        };
        connecting.filter_map(|sa| of(sa)).collect()
    }

    /// The peers that this end seeks and that are not up. Those that initiate themselves are none of them.
    pub fn unconnected(&self) -> impl Iterator<Item = Unconnected<'_>> {
        self.peers.iter().filter_map(|(number, state)| {
            let connection = self.connections.get(*number)?;
            let is_sought = state.connecting.is_some() || !state.wanted.is_empty() || !state.traps.is_empty();
            (is_sought && !state.is_up).then(|| Unconnected {
                connection,
                remote: connection.remotes.get(state.remote).or(connection.remotes.first()).copied(),
                unanswered: state.unanswered,
                is_blocked: self.shared.blocked.has(connection, None),
            })
        })
    }

    /// Whether this end initiates an IKE SA of the connection of that name now.
    pub fn is_initiating(&self, connection: &str) -> bool {
        let state = self.connections.number_of(connection).and_then(|number| self.peers.get(&number));
        state.is_some_and(|state| {
            state.connecting.is_some() || state.initiate_at.is_some_and(|at| at <= self.shared.now)
        })
    }

    /// The number of IKE SAs that peers have initiated and not authenticated.
    pub fn half_open(&self) -> usize {
        self.tables().first().map_or(0, |table| table.entries)
    }

    /// The children that packets bring up: the names of their connections, and their own.
    pub fn traps(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (number, state) in &self.peers {
            let Some(connection) = self.connections.get(*number) else { continue };
            let children = state.traps.iter().filter_map(|child| connection.children.get(*child));
            all.extend(children.map(|child| (connection.name.clone(), child.name.clone())));
        }
        all
    }
}

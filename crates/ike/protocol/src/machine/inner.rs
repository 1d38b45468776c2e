//! The inner addresses that peers get of this end, or this end of a peer.
//!
//! Each identity of a connection that gives addresses is a peer of its own, an *instance* of the connection, with a number above those of
//! connections ([`Connections`](super::connections::Connections)). So is each identity of a connection that only peers initiate and that accepts
//! several, if it has other traffic than those before. It is forgotten with its last IKE SA; its address is free then, and the pool remembers whose it was.

use adit_core::{FixedAddresses, Lease, NameBinding, Path, PeerId};

use super::configuration::{Asked, Assigned, any_like, reply, request};
use super::context::Context;
use super::narrow::narrow;
use super::params::{Addresses, Connection, Inner, Traffic, Unique};
use super::payloads::{Payloads, notify};
use super::proof::name_of;
use super::sa::{IkeSa, Phase};
use super::shared::Event;
use crate::wire::{Identification, NotifyType, Payload, TrafficSelector};

/// The addresses that traffic of `dynamic` addresses has.
pub(crate) enum Dynamic<'a> {
    /// The outer address, if it is known.
    Outer(Option<std::net::IpAddr>),
    /// The inner addresses.
    Inner(&'a [std::net::IpAddr]),
    /// The inner addresses that this end asks for, and which it does not know: all of their families.
    Asked(&'a [std::net::IpAddr]),
}

impl Dynamic<'_> {
    /// The selectors of traffic.
    pub(crate) fn selectors(&self, traffic: &[Traffic]) -> Vec<TrafficSelector> {
        traffic.iter().flat_map(|one| self.selectors_of(one)).collect()
    }

    fn selectors_of(&self, traffic: &Traffic) -> Vec<TrafficSelector> {
        let with = |addresses| Traffic { addresses, ..traffic.clone() }.selector(None);
        match self {
            Dynamic::Inner(addresses) if traffic.addresses == Addresses::Dynamic => {
                addresses.iter().filter_map(|address| with(Addresses::Range(*address, *address))).collect()
            }
            Dynamic::Asked(addresses) if traffic.addresses == Addresses::Dynamic => {
                let all =
                    addresses.iter().filter_map(|address| adit_core::IpNet::new(any_like(*address), 0).ok());
                all.filter_map(|all| with(Addresses::Network(all))).collect()
            }
            Dynamic::Outer(outer) => traffic.selector(*outer).into_iter().collect(),
            Dynamic::Inner(_) | Dynamic::Asked(_) => traffic.selector(None).into_iter().collect(),
        }
    }
}

impl Context<'_> {
    /// The number of the peer that has proved an identity: that of the connection, or of an instance if the connection has those.
    /// A peer that has started anew, or that asks for the address of its other IKE SA, is the peer of that IKE SA, and so is one that
    /// offers traffic of its other IKE SA.
    ///
    /// # Errors
    /// The reason for the log.
    pub(crate) fn peer_of(
        &mut self,
        connection: usize,
        identity: &Identification,
        path: Path,
        payloads: Payloads<'_>,
    ) -> Result<usize, String> {
        let Some(of) = self.connections.get(connection).filter(|_| self.connections.has_place(connection))
        else {
            return Ok(connection);
        };
        let offered = if of.inner.gives() { Vec::new() } else { self.offered(of, path, payloads) };
        let is_initial = payloads.notify(NotifyType::INITIAL_CONTACT).is_some() && of.unique != Unique::Never;
        let asked = Asked::of(payloads).unwrap_or_default();
        let others = self.shared.pools.instances(connection, identity);
        let is_same = |number: &usize| {
            self.peers.get(number).is_some_and(|state| {
                let has_address = state.inner.iter().any(|own| asked.named.contains(own));
                state.sa.is_none() || has_address || state.has_traffic(&offered)
            })
        };
        let found = others.iter().copied().find(is_same);
        let found =
            found.or_else(|| others.first().copied().filter(|_| is_initial || of.unique == Unique::Replace));
        match found {
            Some(found) => return Ok(found),
            None if of.unique == Unique::Keep && !others.is_empty() => {
                return Err(format!("the connection {} has an IKE SA with this identity", of.name));
            }
            None => {}
        }
        let mut all = self.shared.pools.all_instances(connection).into_iter();
        if all.any(|other| self.peers.get(&other).is_some_and(|state| state.has_traffic(&offered))) {
            return Err(format!("the connection {} has an IKE SA with a peer", of.name));
        }
        let number = self.shared.pools.add(connection, identity, self.connections, self.peers);
        let number = number.ok_or_else(|| format!("the connection {} has too many peers", of.name))?;
        self.peers.insert(number, Box::default());
        Ok(number)
    }

    /// The parts of an offer that are traffic of the connection's children: selectors of this end and of the peer's.
    fn offered(&self, of: &Connection, path: Path, payloads: Payloads<'_>) -> Vec<[Vec<TrafficSelector>; 2]> {
        let Some([initiator, responder]) = payloads.selectors() else { return Vec::new() };
        let local = Dynamic::Outer(self.shared.local_of(path).map(|local| local.ip()));
        let remote = Dynamic::Outer(Some(path.remote().ip()));
        let children = of.children.iter();
        children
            .map(|child| {
                [
                    narrow(&local.selectors(&child.local), responder),
                    narrow(&remote.selectors(&child.remote), initiator),
                ]
            })
            .collect()
    }
}

impl IkeSa {
    /// The addresses of `dynamic` traffic of this end, and of the peer's.
    pub(crate) fn dynamic<'c>(&self, cx: &'c Context<'_>, connection: &'c Connection) -> [Dynamic<'c>; 2] {
        let state = self.connection.and_then(|number| cx.peers.get(&number));
        let inner = state.map_or(&[][..], |state| &state.inner);
        let local = Dynamic::Outer(cx.shared.local_of(self.path).map(|local| local.ip()));
        let remote = Dynamic::Outer(Some(self.path.remote().ip()));
        match &connection.inner {
            Inner::None => [local, remote],
            Inner::Ask(asked) if matches!(self.phase, Phase::Connecting) => [Dynamic::Asked(asked), remote],
            Inner::Ask(_) => [Dynamic::Inner(inner), remote],
            Inner::Give(_) => [local, Dynamic::Inner(inner)],
        }
    }

    /// The request for inner addresses: for those that this end had before, if it had some.
    pub(crate) fn ask_for_inner(&self, cx: &Context<'_>, connection: &Connection) -> Option<Payload> {
        let Inner::Ask(wanted) = &connection.inner else { return None };
        let before = self.connection.and_then(|number| cx.peers.get(&number)).map(|state| &state.inner);
        let with_former = wanted.iter().map(|address| {
            let is_like = |former: &&std::net::IpAddr| former.is_ipv4() == address.is_ipv4();
            let former = before.and_then(|before| before.iter().find(is_like));
            if address.is_unspecified() { *former.unwrap_or(address) } else { *address }
        });
        Some(request(&with_former.collect::<Vec<_>>()))
    }

    /// The addresses and settings that the responder gives.
    ///
    /// # Errors
    /// It gives no address, and the reason for the log.
    pub(crate) fn take_inner(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        payloads: &[Payload],
    ) -> Result<(), String> {
        let Inner::Ask(wanted) = &connection.inner else { return Ok(()) };
        let payloads = Payloads(payloads);
        let Some(assigned) = Assigned::of(payloads, wanted) else {
            let error = payloads.error().map(|error| format!("the peer answers {}", error.kind));
            return Err(error.unwrap_or_else(|| "the peer gives no inner address".to_owned()));
        };
        let Some(state) = self.connection.and_then(|number| cx.peers.get_mut(&number)) else { return Ok(()) };
        state.inner.clone_from(&assigned.addresses);
        state.assigned = Some(Box::new(assigned));
        Ok(())
    }

    /// Gives the initiator its inner addresses: the payload of the answer. `None`: the connection gives none.
    ///
    /// # Errors
    /// The error for the answer. No child SA is made then (RFC 7296 section 3.15.4).
    pub(crate) fn give_inner(
        &self,
        cx: &mut Context<'_>,
        connection: &Connection,
        payloads: Payloads<'_>,
    ) -> Result<Option<Payload>, Payload> {
        let (Inner::Give(pool), Some(number)) = (&connection.inner, self.connection) else { return Ok(None) };
        let asked = Asked::of(payloads).ok_or_else(|| notify(NotifyType::FAILED_CP_REQUIRED, Vec::new()))?;
        let failure = || notify(NotifyType::INTERNAL_ADDRESS_FAILURE, Vec::new());
        let state = cx.peers.get_mut(&number).ok_or_else(failure)?;
        let name = self.peer_identity.as_ref().map(name_of).unwrap_or_default();
        let of = cx.shared.pools.of(pool.ranges);
        let peer = PeerId(number as u32);
        if state.lease.is_none() {
            let is_only = matches!(connection.unique, Unique::Replace | Unique::Keep);
            let binding = if is_only { of.bind_name(peer, &name) } else { NameBinding::Granted };
            state.lease = of.lease(peer, Some(&name), FixedAddresses::default()).map(Box::new);
            if binding == NameBinding::Moved {
                cx.shared.emit(Event::LeasesMoved);
            }
        }
        let addresses = state.lease.as_deref().map(Lease::addresses).unwrap_or_default();
        state.inner = addresses.into_iter().filter(|address| asked.is_for(*address)).collect();
        if state.inner.is_empty() {
            return Err(failure());
        }
        Ok(Some(reply(&state.inner, pool)))
    }
}

//! Access rules in a half of the data plane: the rules, and what they say of each peer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use adit_access::{Direction, Guard, Member, Moment, Owner, PeerFlows, Rules};
use adit_core::{DeviceId, Identity, Instant, PeerId};

use crate::headers::Address;
use crate::routes::Routes;

/// The flows of the peers of a data plane, which both halves share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedFlows(Arc<Mutex<BTreeMap<PeerId, Known>>>);

#[derive(Debug)]
struct Known {
    identity: Identity,
    flows: Weak<PeerFlows>,
}

impl SharedFlows {
    /// The flows of that peer, for as long as it is the one of that name. Called where a peer or rules change, never for a packet.
    fn of(&self, peer: PeerId, identity: &Identity) -> Arc<PeerFlows> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| known.flows.strong_count() > 0);
        let known = all.get(&peer).filter(|known| known.identity == *identity);
        if let Some(flows) = known.and_then(|known| known.flows.upgrade()) {
            return flows;
        }
        let flows = Arc::default();
        all.insert(peer, Known { identity: identity.clone(), flows: Arc::downgrade(&flows) });
        flows
    }
}

/// The rules of a half.
pub(crate) struct Access {
    direction: Direction,
    /// `None`: every packet passes.
    rules: Option<Arc<Rules>>,
    flows: SharedFlows,
    /// Changes of rules, peers and routes so far: both halves of a worker follow the same ones.
    epoch: u64,
}

/// A peer, as the rules of its half see it.
pub(crate) struct PeerAccess {
    identity: Identity,
    /// `None`: there are no rules.
    member: Option<Arc<Member>>,
    /// `None`: no packet of the peer needs to be judged.
    guard: Option<Box<Guard>>,
}

impl PeerAccess {
    /// The peer as rules see it, where it is not the peer whose packet is judged.
    fn member(&self) -> Option<&Member> {
        self.member.as_deref()
    }

    /// The guard, which [`PeerAccess::put_back`] takes back.
    pub(crate) fn take_guard(&mut self) -> Option<Box<Guard>> {
        self.guard.take()
    }

    pub(crate) fn put_back(&mut self, guard: Box<Guard>) {
        self.guard = Some(guard);
    }
}

impl Access {
    pub(crate) fn new(direction: Direction, flows: SharedFlows) -> Self {
        Access { direction, rules: None, flows, epoch: 0 }
    }

    /// Whether there are rules.
    #[inline]
    pub(crate) fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// Judges by these rules from now on, for which [`Access::renew`] is then called with each peer.
    pub(crate) fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = Some(rules);
        self.note_change();
    }

    /// The owners of addresses change.
    pub(crate) fn note_change(&mut self) {
        self.epoch += 1;
    }

    /// A new peer. `is_served_here`: its packets pass through this half.
    pub(crate) fn admit(&self, peer: PeerId, identity: Identity, is_served_here: bool) -> PeerAccess {
        let mut access = PeerAccess { identity, member: None, guard: None };
        self.renew(peer, &mut access, is_served_here);
        access
    }

    /// A peer that was known is perhaps another one now.
    pub(crate) fn identify(
        &self,
        peer: PeerId,
        access: &mut PeerAccess,
        identity: Identity,
        is_served_here: bool,
    ) {
        if access.identity != identity {
            *access = self.admit(peer, identity, is_served_here);
        }
    }

    /// Brings a peer in line with the rules.
    pub(crate) fn renew(&self, peer: PeerId, access: &mut PeerAccess, is_served_here: bool) {
        let Some(rules) = &self.rules else { return };
        let groups = access.identity.groups.iter().map(String::as_str);
        let member = Arc::new(rules.member(&access.identity.name, groups));
        if !(member.is_restricted() && is_served_here) {
            access.guard = None;
        } else if let Some(guard) = &mut access.guard {
            guard.set_rules(Arc::clone(rules), Arc::clone(&member));
        } else {
            let flows = self.flows.of(peer, &access.identity);
            let guard = Guard::new(self.direction, Arc::clone(rules), Arc::clone(&member), flows);
            access.guard = Some(Box::new(guard));
        }
        access.member = Some(member);
    }

    /// The moment at which a packet is judged.
    pub(crate) fn moment(&self, now: Instant) -> Moment {
        Moment { now, epoch: self.epoch }
    }
}

/// The routes of a half: of the main device, and of the others.
#[derive(Clone, Copy)]
pub(crate) struct AllRoutes<'a> {
    pub(crate) main: &'a Routes,
    pub(crate) others: &'a BTreeMap<DeviceId, Routes>,
}

impl AllRoutes<'_> {
    /// The owner of an address, for the peer in a slot, which belongs to that device. `access`: a slot's peer.
    pub(crate) fn owner<'p>(
        &self,
        (slot, device): (u32, DeviceId),
        address: adit_access::Address,
        access: impl Fn(u32) -> Option<&'p PeerAccess>,
    ) -> Owner<'p> {
        let address = match address {
            adit_access::Address::V4(bits) => Address::V4(bits),
            adit_access::Address::V6(bits) => Address::V6(bits),
        };
        let own = if device.is_main() { Some(self.main) } else { self.others.get(&device) };
        if own.is_some_and(|routes| routes.lead_to(address, slot)) {
            return Owner::ThisPeer;
        }
        let found = own.and_then(|routes| routes.find(address, |_| true).ok());
        let found = found.or_else(|| self.main.find(address, |_| true).ok());
        match found.and_then(access).and_then(PeerAccess::member) {
            Some(member) => Owner::Peer(member),
            None => Owner::NoPeer,
        }
    }
}

//! The state of a peer at an endpoint, beside its IKE SAs: the children that are wanted and those that are up, and the peer's entry in
//! the data plane.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{Cipher, Flow, Instant, IpNet, Lease, Path, PeerConfig, PeerId, Selector};

use super::configuration::Assigned;
use super::few::FewMap;
use super::narrow::{narrow, routes, session_selectors};
use super::params::{Child, Connection, EndAction};
use super::peer_settings::PeerSettings;
use crate::wire::{Identification, Spi, TrafficSelector};

/// The scope of multicast addresses of IPv6 that are those of a link; those of the interface have a lower one.
const LINK_LOCAL: u8 = 2;

/// The reason why an IKE SA, or a child SA, is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    /// The peer does not answer, or answers what cannot be used.
    DeadPeer,
    /// The peer deleted it.
    ByPeer,
    /// This end ends it.
    Own,
}

/// The end of an IKE SA, with the reason for the log.
pub(crate) struct Ending {
    pub(crate) kind: EndKind,
    pub(crate) reason: String,
}

/// A child that this end brings up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// The time when this end asks for it.
    pub(crate) at: Instant,
    /// Whether this end asks again after a failure.
    pub(crate) is_kept: bool,
}

/// The traffic of a child SA in the data plane.
#[derive(Debug)]
pub(crate) struct Installed {
    /// The number of its child.
    pub(crate) number: usize,
    /// Later sessions of the peer have higher numbers.
    pub(crate) order: u64,
    pub(crate) local: Arc<[TrafficSelector]>,
    pub(crate) remote: Arc<[TrafficSelector]>,
}

/// The states of peers, by number: each in an allocation of its own, so that the free places of the tree are small.
pub(crate) type Peers = BTreeMap<usize, Box<PeerState>>;

/// The state of a peer.
#[derive(Debug, Default)]
pub(crate) struct PeerState {
    /// The IKE SA that has the child SAs.
    pub(crate) sa: Option<Spi>,
    /// The identity that the peer of this IKE SA has proved.
    pub(crate) current_identity: Option<Identification>,
    /// The IKE SA that this end initiates.
    pub(crate) connecting: Option<Spi>,
    /// The IKE SA that this end replaces by one with a new authentication.
    pub(crate) replacing: Option<Spi>,
    /// The time when this end initiates.
    pub(crate) initiate_at: Option<Instant>,
    /// The index of the address that this end initiates to.
    pub(crate) remote: usize,
    /// The initiations since the peer answered one.
    pub(crate) unanswered: u32,
    /// The children that this end brings up, by number.
    pub(crate) wanted: BTreeMap<usize, Wish>,
    /// The children that packets bring up.
    pub(crate) traps: BTreeSet<usize>,
    /// The children that have a child SA.
    pub(crate) up: BTreeSet<usize>,
    /// The child SAs in the data plane, by this end's SPI.
    pub(crate) installed: FewMap<u32, Installed>,
    /// The inner addresses: of the peer if this end gives them, of this end if it asks for them.
    pub(crate) inner: Vec<IpAddr>,
    /// The lease of the peer's inner addresses.
    pub(crate) lease: Option<Box<Lease>>,
    /// The addresses and settings that the peer gave.
    pub(crate) assigned: Option<Box<Assigned>>,
    /// The settings that the tunnel has of the peer.
    pub(crate) settings: Option<Box<PeerSettings>>,
    /// The peer's entry in the data plane.
    pub(crate) entry: Option<PeerConfig>,
    /// Whether the peer was said to be up.
    pub(crate) is_up: bool,
    pub(crate) since: Instant,
    /// The time when a packet passed last, or a child came up.
    pub(crate) last_data: Instant,
    pub(crate) last_handshake: Instant,
    pub(crate) rekeys: u64,
    pub(crate) cipher: Option<Cipher>,
}

impl PeerState {
    /// Whether a child SA has some of that traffic: selectors of this end and of the peer's.
    pub(crate) fn has_traffic(&self, all: &[[Vec<TrafficSelector>; 2]]) -> bool {
        let overlap = |one: &[TrafficSelector], other: &[TrafficSelector]| !narrow(one, other).is_empty();
        self.installed.values().any(|installed| {
            let mut all = all.iter();
            all.any(|[local, remote]| overlap(&installed.local, local) && overlap(&installed.remote, remote))
        })
    }

    /// The single addresses that its child SAs lead to.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = IpAddr> {
        let all = self.installed.values().flat_map(|installed| routes(&installed.remote));
        all.filter(|route| route.prefix_len() == route.max_prefix_len()).map(|route| route.addr())
    }

    /// The state of a connection's peer at the start.
    pub(crate) fn new(connection: &Connection, now: Instant) -> Self {
        let mut state = PeerState::default();
        for (number, child) in connection.children.iter().enumerate() {
            if child.start.is_trap() {
                state.traps.insert(number);
            }
            if child.start.is_start() {
                state.wanted.insert(number, Wish { at: now, is_kept: true });
                state.initiate_at = Some(now);
            }
        }
        state
    }

    /// A packet, or an order, asks for a child.
    pub(crate) fn want(&mut self, number: usize, now: Instant) {
        let wish = self.wanted.entry(number).or_insert(Wish { at: now, is_kept: false });
        wish.at = wish.at.min(now);
    }

    /// The first child that this end is to ask for by now.
    pub(crate) fn due_child(&self, now: Instant) -> Option<usize> {
        self.wanted.iter().find(|(_, wish)| wish.at <= now).map(|(number, _)| *number)
    }

    /// A child was asked for in vain.
    pub(crate) fn refused(&mut self, number: usize, again: Instant) {
        match self.wanted.get_mut(&number) {
            Some(wish) if wish.is_kept => wish.at = again,
            _ => drop(self.wanted.remove(&number)),
        }
    }

    /// Takes the action of a child that has lost its child SA.
    pub(crate) fn lost(&mut self, number: usize, child: &Child, kind: EndKind, again: Instant) {
        let action = match kind {
            EndKind::Own => EndAction::None,
            EndKind::ByPeer => child.on_close,
            EndKind::DeadPeer => child.on_dead_peer,
        };
        match action {
            EndAction::None => {}
            EndAction::Start => drop(self.wanted.insert(number, Wish { at: again, is_kept: true })),
            EndAction::Trap => drop(self.traps.insert(number)),
        }
    }

    /// The peer's entry in the data plane: with the traffic of its child SAs and of the children that packets bring up. `None`:
    /// there is no traffic.
    pub(crate) fn entry(&self, peer: PeerId, connection: &Connection, place: Place) -> Option<PeerConfig> {
        let Place { path, roams, shares } = place;
        let trapped = self.traps.iter().filter_map(|number| Installed::configured(connection, *number, path));
        let trapped: Vec<Installed> = trapped.collect();
        let mut all: Vec<&Installed> = self.installed.values().chain(&trapped).collect();
        all.sort_by_key(|installed| installed.number);
        if all.is_empty() {
            return None;
        }
        let mut prefixes: Vec<IpNet> = Vec::new();
        for route in all.iter().flat_map(|installed| routes(&installed.remote)) {
            if !prefixes.contains(&route) {
                prefixes.push(route);
            }
        }
        let has_selectors = shares || connection.children.len() > 1 || !trapped.is_empty();
        let selectors: Arc<[Selector]> = if has_selectors {
            all.iter().flat_map(|one| session_selectors(&one.local, &one.remote).to_vec()).collect()
        } else {
            Arc::default()
        };
        Some(PeerConfig {
            peer,
            path,
            routes: prefixes,
            selectors,
            max_mss: None,
            roams,
            staging: !trapped.is_empty(),
            device: connection.device,
            by_path: false,
            identity: Default::default(),
        })
    }
}

/// Where a peer is, for its entry in the data plane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) path: Option<Path>,
    /// Whether the data plane may follow the peer to another address.
    pub(crate) roams: bool,
    /// Whether other peers may have the same prefixes.
    pub(crate) shares: bool,
}

impl Installed {
    fn configured(connection: &Connection, number: usize, path: Option<Path>) -> Option<Self> {
        let child = connection.children.get(number)?;
        let outer = path.map(|path| path.remote().ip());
        Some(Installed {
            number,
            order: 0,
            local: child.local.iter().filter_map(|traffic| traffic.selector(None)).collect(),
            remote: child.remote.iter().filter_map(|traffic| traffic.selector(outer)).collect(),
        })
    }
}

/// The number of the first child that a packet brings up: whose configured traffic it is part of. Packets to all hosts or routers of a
/// link, which systems send by themselves on each device (MLD, router solicitations), bring no child up.
pub(crate) fn child_of(connection: &Connection, flow: &Flow) -> Option<usize> {
    if is_to_link(flow.remote) {
        return None;
    }
    let selects = |number: &usize| {
        let configured = Installed::configured(connection, *number, None);
        configured.is_some_and(|Installed { local, remote, .. }| {
            session_selectors(&local, &remote).iter().any(|selector| selector.matches(flow))
        })
    };
    (0..connection.children.len()).find(selects)
}

/// Whether an address stands for several hosts of a link alone (RFC 5771 section 4, RFC 4291 section 2.7).
fn is_to_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_broadcast() || matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => matches!(address.octets(), [0xff, scope, ..] if scope & 0x0f <= LINK_LOCAL),
    }
}

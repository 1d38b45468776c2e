//! The carriers of devices beside the main one: each follows the peers of its device.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use adit_core::{DataEvent, DeviceId, PeerId, PeerOrder, SessionId};

use crate::tun::Tun;

/// A device whose carrier follows its peers. It has a carrier while it has users.
struct Link {
    tun: Arc<Tun>,
    /// The peers of the device that have a session, or packets that wait for one.
    users: usize,
}

/// A peer of such a device.
struct Peer {
    device: DeviceId,
    /// Packets wait for a session.
    waits: bool,
    sessions: BTreeSet<SessionId>,
}

impl Peer {
    fn uses_device(&self) -> bool {
        self.waits || !self.sessions.is_empty()
    }
}

/// The devices whose carriers follow their peers, with these peers.
#[derive(Default)]
pub(super) struct Carriers {
    links: BTreeMap<DeviceId, Link>,
    peers: BTreeMap<PeerId, Peer>,
}

impl Carriers {
    /// The carrier of a device without peers follows its peers from now on.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(super) fn follow(&mut self, device: DeviceId, tun: Arc<Tun>) -> io::Result<()> {
        tun.set_carrier(false)?;
        self.links.insert(device, Link { tun, users: 0 });
        Ok(())
    }

    /// The protocol gives the data plane an order.
    pub(super) fn note<C>(&mut self, order: &DataEvent<C>) {
        if self.links.is_empty() {
            return;
        }
        let peer = match order {
            DataEvent::Peer(order @ (PeerOrder::Add(_) | PeerOrder::Remove(_))) => order.peer(),
            DataEvent::Install(install) => install.peer,
            DataEvent::Retire { peer, .. } => *peer,
            _ => return,
        };
        let before = self.used_by(peer);
        self.change(peer, order);
        let after = self.used_by(peer);
        if before != after {
            before.into_iter().for_each(|device| self.count(device, |users| users.saturating_sub(1)));
            after.into_iter().for_each(|device| self.count(device, |users| users + 1));
        }
    }

    fn change<C>(&mut self, peer: PeerId, order: &DataEvent<C>) {
        match order {
            DataEvent::Peer(PeerOrder::Add(config)) => {
                let sessions = self.peers.remove(&peer).map(|peer| peer.sessions).unwrap_or_default();
                if self.links.contains_key(&config.device) {
                    let added = Peer { device: config.device, waits: config.staging, sessions };
                    self.peers.insert(peer, added);
                }
            }
            DataEvent::Peer(_) => drop(self.peers.remove(&peer)),
            DataEvent::Install(install) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.sessions.insert(install.session);
                }
            }
            DataEvent::Retire { session, .. } => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.sessions.remove(session);
                }
            }
            _ => {}
        }
    }

    /// The device that a peer uses.
    fn used_by(&self, peer: PeerId) -> Option<DeviceId> {
        self.peers.get(&peer).filter(|peer| peer.uses_device()).map(|peer| peer.device)
    }

    fn count(&mut self, device: DeviceId, change: impl Fn(usize) -> usize) {
        let Some(link) = self.links.get_mut(&device) else { return };
        let had_users = link.users > 0;
        link.users = change(link.users);
        let has_users = link.users > 0;
        if had_users != has_users {
            // The kernel has taken this request before. It refuses it for a device that another program has deleted.
            let _ = link.tun.set_carrier(has_users);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use adit_core::{Install, PeerConfig};
    use adit_system::testing::in_fresh_network;

    use super::*;
    use crate::driver::setup;
    use crate::tun::TunConfig;

    const DEVICE: DeviceId = DeviceId(1);

    fn add(peer: u32, device: DeviceId, staging: bool) -> DataEvent<()> {
        DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PeerId(peer),
            path: None,
            routes: Vec::new(),
            selectors: Arc::default(),
            device,
            max_mss: None,
            roams: false,
            staging,
            by_path: false,
            identity: Default::default(),
        }))
    }

    fn install(peer: u32, session: u64) -> DataEvent<()> {
        DataEvent::Install(Box::new(Install::new(PeerId(peer), SessionId(session), ())))
    }

    fn retire(peer: u32, session: u64) -> DataEvent<()> {
        DataEvent::Retire { peer: PeerId(peer), session: SessionId(session) }
    }

    fn has_carrier(name: &str) -> bool {
        let shown = Command::new("ip").args(["link", "show", name]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains(name), "{shown}");
        !shown.contains("NO-CARRIER")
    }

    #[test]
    fn a_device_has_a_carrier_while_a_peer_of_it_has_a_session_or_packets_that_wait() {
        in_fresh_network(|| {
            let config = TunConfig { name: Some("own0".to_owned()), ..TunConfig::default() };
            let tun = Arc::new(Tun::create(&config).unwrap());
            setup::take_up("own0", &[]).unwrap();
            assert!(has_carrier("own0"), "at first");
            let mut carriers = Carriers::default();
            carriers.follow(DEVICE, tun).unwrap();
            let remove = |peer: u32| DataEvent::<()>::Peer(PeerOrder::Remove(PeerId(peer)));
            for (order, expected) in [
                (add(1, DEVICE, false), false),
                (add(2, DeviceId::MAIN, true), false),
                (install(2, 20), false),
                (install(1, 10), true),
                // A rekey.
                (install(1, 11), true),
                (retire(1, 10), true),
                (retire(1, 11), false),
                (add(1, DEVICE, true), true),
                (add(3, DEVICE, false), true),
                (install(3, 30), true),
                (add(1, DEVICE, false), true),
                (remove(3), false),
                (install(1, 12), true),
                (remove(1), false),
            ] {
                carriers.note(&order);
                assert_eq!(has_carrier("own0"), expected, "{order:?}");
            }
        });
    }
}

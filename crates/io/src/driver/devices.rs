//! Devices of a tunnel beside the main one, as a data thread sees them: each peer may have one of its own.
//!
//! The first data thread reads them; each writes to those of its peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_core::DeviceId;

use super::ids::EndpointId;
use crate::poller::{Interest, Poller, Token};
use crate::tun::Tun;

/// A device, and the endpoint to which it belongs.
struct Entry {
    endpoint: EndpointId,
    tun: Arc<Tun>,
    /// The poller waits for packets.
    is_watched: bool,
    /// The device was deleted, or this data thread does not read it.
    is_silent: bool,
}

/// The devices beside the main one.
#[derive(Default)]
pub(super) struct Devices(BTreeMap<DeviceId, Entry>);

impl Devices {
    /// One more device. `reads`: this data thread takes packets from it.
    pub(super) fn add(&mut self, endpoint: EndpointId, id: DeviceId, tun: Arc<Tun>, reads: bool) {
        self.0.insert(id, Entry { endpoint, tun, is_watched: false, is_silent: !reads });
    }

    /// The endpoint has ended, and its devices with it.
    pub(super) fn remove_of(&mut self, endpoint: EndpointId, poller: &Poller) {
        self.0.retain(|_, entry| {
            let stays = entry.endpoint != endpoint;
            if !stays && entry.is_watched {
                poller.remove(&*entry.tun);
            }
            stays
        });
    }

    /// A device.
    pub(super) fn get(&self, id: DeviceId) -> Option<&Arc<Tun>> {
        self.0.get(&id).map(|entry| &entry.tun)
    }

    /// Another program deleted the device.
    pub(super) fn deleted(&mut self, id: DeviceId, poller: &Poller) {
        if let Some(entry) = self.0.get_mut(&id) {
            poller.remove(&*entry.tun);
            (entry.is_watched, entry.is_silent) = (false, true);
        }
    }

    /// Has the poller wait for packets, or not.
    pub(super) fn watch(&mut self, wanted: bool, poller: &Poller) {
        for (id, entry) in self.0.iter_mut().filter(|(_, entry)| !entry.is_silent) {
            if entry.is_watched == wanted {
                continue;
            }
            entry.is_watched = wanted && poller.add(&*entry.tun, Token::Device(id.0), Interest::Read).is_ok();
            if !wanted {
                poller.remove(&*entry.tun);
            }
        }
    }
}

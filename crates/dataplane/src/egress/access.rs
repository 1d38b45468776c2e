//! The check of packets for peers by access rules.

use std::sync::Arc;

use adit_access::Rules;

use super::Egress;
use crate::access::AllRoutes;

impl Egress {
    /// Judges packets by these rules from now on.
    pub(super) fn set_rules(&mut self, rules: Arc<Rules>) {
        self.access.set_rules(rules);
        for peer in self.peers.iter_mut() {
            self.access.renew(peer.id, &mut peer.access, peer.worker.is_none());
        }
    }

    /// Whether the rules let a packet pass for the peer in that slot. It may be a super-packet: its pieces are of one flow.
    #[inline(never)]
    pub(super) fn may_receive(&mut self, slot: u32, packet: &[u8]) -> bool {
        let Some(peer) = self.peers.get_mut(slot) else { return false };
        let (device, Some(mut guard)) = (peer.device, peer.access.take_guard()) else { return true };
        let routes = AllRoutes { main: &self.routes, others: &self.other_routes };
        let access = |slot: u32| self.peers.get(slot).map(|peer| &peer.access);
        let passes = guard.passes(packet, self.access.moment(self.now), |address| {
            routes.owner((slot, device), address, access)
        });
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.access.put_back(guard);
        }
        passes
    }
}

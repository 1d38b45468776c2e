//! Other settings for a server that runs. Clients that are connected stay.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_core::{AddressPool, PoolRanges};

use super::Server;
use crate::params::ServerParams;

impl Server {
    /// Takes other settings. They hold for clients that connect from now on, and for connected ones where they do not
    /// depend on what was agreed: TLS at their next renegotiation, scripts, limits.
    ///
    /// What belongs to the device and to the data plane stays, whatever `params` say: our addresses, the MTU, our own
    /// routes, `client-to-client`, and whether this is a point-to-point tunnel. [`crate::params::ControlParams::revocations`]
    /// must be those of before.
    pub fn reconfigure(&mut self, params: ServerParams) {
        let old = Arc::clone(&self.params);
        let mut params = ServerParams {
            address4: old.address4,
            address6: old.address6,
            routes: old.routes.clone(),
            client_to_client: old.client_to_client,
            point: old.point.clone(),
            ..params
        };
        params.data.tun_mtu = old.data.tun_mtu;
        params.data.told_mtu = old.data.told_mtu;
        let has_other_pool = (params.pool4, params.pool6) != (old.pool4, old.pool6);
        let params = Arc::new(params);
        self.control = Arc::new(params.control.clone());
        self.pre_auth.set_limits(&params);
        // Connected clients keep what their keys were agreed by.
        let mut with_old_data = BTreeMap::new();
        for peer in self.peers.values_mut() {
            let own = with_old_data.entry(Arc::as_ptr(peer.params())).or_insert_with(|| {
                Arc::new(ServerParams { data: peer.params().data.clone(), ..ServerParams::clone(&params) })
            });
            peer.reconfigure(own);
        }
        if has_other_pool {
            let ranges = PoolRanges { v4: params.pool4, v6: params.pool6 };
            self.pool = AddressPool::new(ranges, &[]).in_place_of(&self.pool);
            for peer in self.peers.values_mut() {
                peer.leases_mut().for_each(|lease| self.pool.adopt(&mut lease.addresses));
            }
        }
        self.params = params;
    }
}

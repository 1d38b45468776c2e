//! Other settings for a server that runs. Clients that are connected stay.

use std::collections::BTreeMap;
use std::sync::Arc;

use adit_core::{PeerId, PoolRanges, Severity};

use super::{Server, settings};
use crate::params::{LocalSettings, PointToPointParams, ServerParams};
use crate::request::Event;

/// The settings that a point-to-point tunnel takes for its device at its next restart.
pub(super) struct AtRestart {
    local: LocalSettings,
    tun_mtu: u16,
    told_mtu: Option<u16>,
}

impl Server {
    /// Takes other settings. They hold for clients that connect from now on, and for connected ones where they do not
    /// depend on the agreement: TLS at their next renegotiation, scripts, limits. The other end of a point-to-point
    /// tunnel is judged by the new `ping-restart` and `session-timeout` at once.
    ///
    /// Settings of the device and of the data plane stay, whatever `params` has: our addresses, the MTU, our own
    /// routes, `client-to-client`, and whether this is a point-to-point tunnel. Such a tunnel takes its own addresses,
    /// routes and MTU at the next [`adit_core::Command::Restart`]; [`PointToPointParams::only_from`] stays. So do
    /// [`crate::access::AccessParams::back_ends`], whose programs were made ready at the start. A client that new
    /// [`crate::params::ControlParams::revocations`] revoke goes.
    pub fn reconfigure(&mut self, params: ServerParams) {
        let old = Arc::clone(&self.params);
        let point_to_point = match (&old.point_to_point, params.point_to_point) {
            (Some(old), Some(new)) => {
                self.at_restart = Some(AtRestart {
                    local: new.local,
                    tun_mtu: params.data.tun_mtu,
                    told_mtu: params.data.told_mtu,
                });
                let (local, only_from) = (old.local.clone(), old.only_from.clone());
                Some(PointToPointParams {
                    local,
                    only_from,
                    exit_notify: new.exit_notify,
                    single: new.single,
                })
            }
            (old, _) => old.clone(),
        };
        let mut params = ServerParams {
            address4: old.address4,
            address6: old.address6,
            routes: old.routes.clone(),
            client_to_client: old.client_to_client,
            scripts: old.scripts.clone(),
            point_to_point,
            ..params
        };
        params.data.tun_mtu = old.data.tun_mtu;
        params.data.told_mtu = old.data.told_mtu;
        params.access.back_ends.clone_from(&old.access.back_ends);
        if (params.pool4, params.pool6) != (old.pool4, old.pool6) && !self.set_pool(&params) {
            (params.pool4, params.pool6) = (old.pool4, old.pool6);
            let text = "the pool (server, ifconfig-pool) is shared with other endpoints of the tunnel: other ranges hold \
                        when adit is started again";
            self.report(Severity::Warning, None, text.to_owned());
        }
        let has_other_lists = match (&params.control.revocations, &old.control.revocations) {
            (Some(lists), Some(before)) => !lists.is_same(before),
            (lists, _) => lists.is_some(),
        };
        let params = Arc::new(params);
        self.control = Arc::new(params.control.clone());
        self.pre_auth.set_limits(&params);
        self.half_open.set_max_clients(params.max_clients);
        // Connected clients keep the settings by which their keys were agreed.
        let mut with_old_data = BTreeMap::new();
        for peer in self.peers.values_mut() {
            let own = with_old_data.entry(Arc::as_ptr(peer.params())).or_insert_with(|| {
                Arc::new(ServerParams { data: peer.params().data.clone(), ..ServerParams::clone(&params) })
            });
            peer.reconfigure(own);
        }
        self.params = params;
        let ids: Vec<PeerId> = self.peers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.note_deadline(id));
        if has_other_lists {
            self.remove_revoked();
        }
    }

    /// The peers are gone: settings that waited for that hold now.
    pub(super) fn take_what_waits(&mut self) {
        let Some(AtRestart { local, tun_mtu, told_mtu }) = self.at_restart.take() else { return };
        let mut params = ServerParams::clone(&self.params);
        (params.data.tun_mtu, params.data.told_mtu) = (tun_mtu, told_mtu);
        if let Some(point) = &mut params.point_to_point {
            point.local = local;
        }
        let tunnel = settings::tunnel(&params);
        if tunnel != settings::tunnel(&self.params) {
            self.events.push_back(Event::Up(tunnel));
        }
        self.params = Arc::new(params);
    }

    /// False, and nothing changes, while other endpoints use the pool.
    fn set_pool(&mut self, params: &ServerParams) -> bool {
        let ranges = PoolRanges { v4: params.pool4, v6: params.pool6 };
        let leases = self.peers.values_mut().flat_map(|peer| peer.leases_mut());
        self.pool.set_ranges(ranges, leases.map(|lease| &mut lease.addresses))
    }
}

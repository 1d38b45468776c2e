//! The settings of the tunnel that come and go with peers: the addresses, routes and name servers of an end that gets its inner addresses
//! of a peer, and the peers that are reached at their own outer addresses.

use adit_core::DeviceId;

use super::endpoint::Endpoint;
use super::peer_settings::PeerSettings;
use super::shared::Event;

impl Endpoint {
    /// A peer's settings are those of its child SAs. A peer that is to be connected again keeps them meanwhile, so that no packet leaves
    /// beside the tunnel.
    pub(super) fn update_settings(&mut self) {
        if !std::mem::take(&mut self.shared.are_settings_stale) {
            return;
        }
        let Some(base) = &self.shared.tunnel else { return };
        let mut settings = base.clone();
        for (number, state) in &mut self.peers {
            let Some(connection) = self.connections.get(*number) else { continue };
            if connection.reaches_outer() && connection.device == DeviceId::MAIN {
                settings.peers.extend(state.hosts());
            }
            if !connection.inner.asks() {
                continue;
            }
            let current = PeerSettings::of(state);
            if current.is_some() || state.wanted.is_empty() && state.connecting.is_none() {
                state.settings = current.map(Box::new);
            }
            state.settings.iter().for_each(|of| of.add_to(&mut settings));
        }
        settings.peers.sort_unstable();
        settings.peers.dedup();
        if self.shared.emitted.as_ref() != Some(&settings) {
            self.shared.emitted = Some(settings.clone());
            self.shared.emit(Event::Up(settings));
        }
    }
}

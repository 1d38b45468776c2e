//! The facts of the tunnel for scripts.

use adit_core::TunnelSettings;

use super::StaticTunnel;
use crate::dns::DnsOptions;
use crate::environment::{Environment, place_text};
use crate::request::{Event, PeerFacts, Request};
use crate::tunnel_facts::Told;

impl StaticTunnel {
    pub(super) fn has_scripts(&self) -> bool {
        self.params.local.scripts.is_some()
    }

    /// The facts of these settings, for scripts.
    pub(super) fn facts(&self, settings: &TunnelSettings) -> Option<Event> {
        let (scripts, none) = (self.params.local.scripts.as_deref()?, DnsOptions::default());
        let facts = Told::by_file(settings, scripts, &none).facts(scripts);
        Some(Event::Request(Request::TunnelFacts(Box::new(facts))))
    }

    /// The peer was heard, or it moved.
    pub(super) fn tell_peer(&mut self) {
        let (Some(scripts), Some(path)) = (self.params.local.scripts.as_deref(), self.path) else { return };
        let mut env = Environment::new(&scripts.env);
        env.place(path, true);
        let facts = PeerFacts { env: env.into_list(), address: place_text(path) };
        self.events.push_back(Event::Request(Request::PeerFacts(Box::new(facts))));
    }
}

//! The events of an endpoint as lines of the log.

use std::collections::BTreeMap;

use adit_core::{Ended, Event, EventOf, PeerId, Severity};
use adit_host::log::Logger;
use adit_ike::machine::{Endpoint, Request};
use adit_io::Observer;

use crate::status_rows;
use crate::vici::Hub;

/// Writes the events of an endpoint to the log.
pub(crate) struct Lines {
    log: Logger,
    /// The names of the peers that are connected.
    names: BTreeMap<PeerId, String>,
    /// Programs that wait for changes of SAs.
    hub: Hub,
}

impl Lines {
    /// Writes to that log, and tells programs at that hub.
    pub(crate) fn new(log: Logger, hub: Hub) -> Self {
        Lines { log, names: BTreeMap::new(), hub }
    }
}

impl Observer<Endpoint> for Lines {
    fn event(&mut self, event: &EventOf<Endpoint>, tun_name: &str) {
        match event {
            Event::Report(report) => self.log.log(report.severity, report),
            Event::Up(settings) => {
                let text = format_args!("tunnel up: {tun_name}, MTU {}", settings.mtu);
                self.log.log(Severity::Info, text);
            }
            Event::PeerUp { peer, info } => {
                self.names.insert(*peer, info.name.clone());
                let (path, name) = (&info.path, &info.name);
                let text = format_args!("{path}: {name} connected: {}", status_rows::summary(info));
                self.log.log(Severity::Info, text);
            }
            Event::PeerDown { peer, reason } => {
                let name = self.names.remove(peer).unwrap_or_default();
                self.log.log(Severity::Info, format_args!("{name} disconnected: {reason}"));
            }
            Event::Ended(Ended::Shutdown) => self.log.log(Severity::Info, "ended on request"),
            // The tunnel says why when it has ended.
            Event::Ended(Ended::Failed(_)) => {}
            // IKEv2 has no streams and no leases, and the driver takes the orders to the data plane.
            Event::Data(_) | Event::Request(_) | Event::LeasesMoved => {}
            Event::Down | Event::Open { .. } | Event::Close { .. } => {}
        }
    }

    fn request(&mut self, request: Request, _tun_name: &str) {
        self.hub.notify(request);
    }
}

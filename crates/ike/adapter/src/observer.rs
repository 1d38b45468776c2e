//! The events of an endpoint as lines of the log, and its requests.

use std::collections::BTreeMap;

use adit_core::{Ended, Event, EventOf, PeerId, Severity, TunnelSettings};
use adit_host::log::Logger;
use adit_ike::machine::{Endpoint, Request};
use adit_io::Observer;

use crate::lookups::LookUps;
use crate::status_rows;
use crate::updown::Updown;
use crate::vici::Hub;

/// Writes the events of an endpoint to the log, and hands its requests on.
pub(crate) struct Lines {
    log: Logger,
    /// The names of the peers that are connected.
    names: BTreeMap<PeerId, String>,
    /// The settings that the log has.
    settings: Option<TunnelSettings>,
    /// Programs that wait for changes of SAs.
    hub: Hub,
    lookups: LookUps,
    /// The programs of children; `None`: there are none.
    updown: Option<Updown>,
}

impl Lines {
    /// Writes to that log, and hands requests on: to programs at the hub, to the helper, and to the programs of children.
    pub(crate) fn new(log: Logger, hub: Hub, lookups: LookUps, updown: Option<Updown>) -> Self {
        Lines { log, names: BTreeMap::new(), settings: None, hub, lookups, updown }
    }
}

impl Observer<Endpoint> for Lines {
    fn event(&mut self, event: &EventOf<Endpoint>, tun_name: &str) {
        match event {
            Event::Report(report) => self.log.log(report.severity, report),
            Event::Up(settings) => {
                // Peers have lines of their own.
                let settings = TunnelSettings { peers: Vec::new(), ..settings.clone() };
                if self.settings.as_ref() != Some(&settings) {
                    let text = format_args!("tunnel up: {tun_name}, MTU {}", settings.mtu);
                    self.log.log(Severity::Info, text);
                    self.settings = Some(settings);
                }
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

    fn request(&mut self, request: Request, tun_name: &str) {
        match (request, &mut self.updown) {
            (request @ (Request::SasChanged(_) | Request::Failed { .. }), _) => self.hub.notify(request),
            (Request::LookUp(connection), _) => self.lookups.ask(connection),
            (Request::ChildUp(child), Some(updown)) => updown.up(&child, tun_name),
            (Request::ChildDown { peer, child }, Some(updown)) => updown.down(peer, child),
            (Request::ChildUp(_) | Request::ChildDown { .. }, None) => {}
        }
    }
}

//! What the system is told of the tunnel: addresses, routes, name servers. By this process, or by a helper that has
//! the right to.

use std::io;
use std::net::IpAddr;

use adit_core::{IpNet, Report, Severity, TunnelSettings};

use crate::dns::NameServers;
use crate::helper::NetworkChannel;
use crate::netlink::RouteWatch;
use crate::opener::Resolving;
use crate::resolver::MarkedServers;
use crate::routing::Routing;

/// Who tells it.
#[derive(Debug)]
pub(crate) enum System {
    /// This process.
    Own(Box<SystemSettings>),
    /// Its helper.
    Helper(NetworkChannel),
    /// Nothing does: there is no device.
    Untouched,
}

/// Routes and name servers, set by this process. They are taken back when this is dropped.
#[derive(Debug)]
pub(crate) struct SystemSettings {
    routing: Routing,
    name_servers: NameServers,
}

impl SystemSettings {
    pub(crate) fn new(routing: Routing, name_servers: NameServers) -> Self {
        SystemSettings { routing, name_servers }
    }

    /// Restores what an adit that was killed left behind, and looks which name servers there are without the tunnel.
    pub(crate) fn recover(&mut self) -> Vec<Report> {
        let reports = self.name_servers.recover();
        self.routing.set_name_servers(self.name_servers.of_the_system());
        reports
    }

    /// See [`Routing::apply`]. Name servers are set if the tunnel can be used.
    pub(crate) fn apply(&mut self, settings: &TunnelSettings) -> Vec<Report> {
        let mut reports = self.routing.apply(settings);
        if self.routing.lacks().is_none() {
            reports.extend(self.name_servers.apply(&settings.dns));
        }
        reports
    }

    /// See [`Routing::lacks`].
    pub(crate) fn lacks(&self) -> Option<&str> {
        self.routing.lacks()
    }

    /// See [`Routing::missing_addresses`].
    pub(crate) fn missing_addresses(&self) -> &[IpNet] {
        self.routing.missing_addresses()
    }

    /// See [`Routing::takes_all`].
    pub(crate) fn takes_all(&self) -> bool {
        self.routing.takes_all()
    }

    /// How to resolve names: while a tunnel that was up is lost, or with the kill switch, the system's resolver may not
    /// reach its name servers.
    pub(crate) fn resolving(&self, kill_switch: bool) -> Resolving {
        match kill_switch || self.routing.is_applied() {
            true => {
                let (servers, mark) = (self.name_servers.of_the_system(), self.routing.mark());
                Resolving::Marked(MarkedServers { servers, mark })
            }
            false => Resolving::System,
        }
    }

    /// See [`Routing::bypass`].
    pub(crate) fn bypass(&mut self, addresses: &[IpAddr]) {
        self.routing.bypass(addresses);
    }

    /// See [`Routing::follow`].
    pub(crate) fn follow(&mut self) {
        self.routing.follow();
    }

    pub(crate) fn undo(&mut self) {
        self.name_servers.undo();
        self.routing.undo();
    }

    /// See [`Routing::depends_on_network`].
    pub(crate) fn depends_on_network(&self) -> bool {
        self.routing.depends_on_network()
    }
}

impl System {
    /// Restores what an adit that was killed left behind. A helper has done it at its start.
    pub(crate) fn recover(&mut self) -> Vec<Report> {
        match self {
            System::Own(settings) => settings.recover(),
            System::Helper(_) | System::Untouched => Vec::new(),
        }
    }

    /// Makes the system look as `settings` say. What went wrong comes back.
    pub(crate) fn apply(&mut self, settings: &TunnelSettings) -> Vec<Report> {
        match self {
            System::Own(own) => own.apply(settings),
            System::Helper(channel) => channel.apply(settings).unwrap_or_else(|error| {
                let text = format!("the tunnel's network is not set up: its helper failed: {error}");
                vec![Report { severity: Severity::Error, path: None, text }]
            }),
            System::Untouched => Vec::new(),
        }
    }

    /// Lets these addresses be reached beside the tunnel. The next attempt shows if it failed.
    pub(crate) fn bypass(&mut self, addresses: &[IpAddr]) {
        match self {
            System::Own(own) => own.bypass(addresses),
            System::Helper(channel) => drop(channel.bypass(addresses)),
            System::Untouched => {}
        }
    }

    /// The network changed.
    pub(crate) fn follow(&mut self) {
        match self {
            System::Own(own) => own.follow(),
            System::Helper(channel) => drop(channel.follow()),
            System::Untouched => {}
        }
    }

    /// Gives the system back what was changed. A helper that is gone has done so.
    pub(crate) fn undo(&mut self) {
        match self {
            System::Own(own) => own.undo(),
            System::Helper(channel) => drop(channel.undo()),
            System::Untouched => {}
        }
    }

    /// Whether what was applied changes with the network.
    pub(crate) fn depends_on_network(&self) -> bool {
        match self {
            System::Own(own) => own.depends_on_network(),
            System::Helper(channel) => channel.depends_on_network(),
            System::Untouched => false,
        }
    }

    /// What the tunnel cannot be without, and why it has not got it.
    pub(crate) fn lacks(&self) -> Option<String> {
        match self {
            System::Own(own) => own.lacks().map(str::to_owned),
            System::Helper(channel) => channel.lacks(),
            System::Untouched => None,
        }
    }

    /// The addresses of the settings applied last that the device could not get.
    pub(crate) fn missing_addresses(&self) -> &[IpNet] {
        match self {
            System::Own(own) => own.missing_addresses(),
            System::Helper(channel) => channel.missing_addresses(),
            System::Untouched => &[],
        }
    }

    /// Whether all traffic goes into the tunnel, and is held up while a route is missing.
    pub(crate) fn takes_all(&self) -> bool {
        match self {
            System::Own(own) => own.takes_all(),
            System::Helper(channel) => channel.takes_all(),
            System::Untouched => false,
        }
    }

    /// How this process resolves names. A helper knows it itself.
    pub(crate) fn resolving(&self, kill_switch: bool) -> Resolving {
        match self {
            System::Own(own) => own.resolving(kill_switch),
            System::Helper(_) | System::Untouched => Resolving::System,
        }
    }

    /// Watches for changes of the network.
    pub(crate) fn watch(&mut self) -> io::Result<RouteWatch> {
        match self {
            System::Own(_) | System::Untouched => RouteWatch::new(),
            System::Helper(channel) => channel.watch(),
        }
    }
}

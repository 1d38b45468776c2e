//! Routes and name servers of a tunnel, applied together.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use adit_core::{IpNet, Report, TunnelSettings};
use serde::{Deserialize, Serialize};

use crate::dns::NameServers;
use crate::resolver::{MarkedServers, Resolving};
use crate::routing::Routing;

/// The TUN device whose network is set up, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Network {
    /// Its name.
    pub device: String,
    /// The file to write name servers to, in place of `/etc/resolv.conf` and of systemd-resolved.
    pub resolv_conf: Option<PathBuf>,
    /// The state before an earlier run that was killed is restored.
    pub changes_routing: bool,
    /// Other endpoints of the tunnel use the device too ([`Routing::share_device`]).
    pub shared: bool,
    /// Another program sets the device up ([`Routing::leave_device`]).
    pub leaves_device: bool,
    /// The mark of the tunnel's own datagrams, if it is not that of all tunnels.
    pub mark: Option<u32>,
}

/// Routes and name servers, set by this process. They are taken back when this is dropped.
#[derive(Debug)]
pub struct SystemSettings {
    routing: Routing,
    name_servers: NameServers,
}

impl SystemSettings {
    /// Nothing is set yet.
    pub fn new(routing: Routing, name_servers: NameServers) -> Self {
        SystemSettings { routing, name_servers }
    }

    /// The settings for the device of a network. Settings that an earlier run left behind are undone, if the tunnel
    /// changes routes; the reports name those that could not be.
    ///
    /// # Errors
    /// There is no such device.
    pub fn of(network: Network) -> io::Result<(Self, Vec<Report>)> {
        let mut routing = Routing::new(&network.device)?;
        if network.shared {
            routing.share_device();
        }
        if network.leaves_device {
            routing.leave_device();
        }
        routing.set_mark(network.mark);
        let name_servers = NameServers::new(routing.device(), network.resolv_conf);
        let mut settings = SystemSettings::new(routing, name_servers);
        let reports = if network.changes_routing { settings.recover() } else { Vec::new() };
        Ok((settings, reports))
    }

    /// Restores the settings that an adit that was killed left behind, and looks which name servers there are without
    /// the tunnel.
    pub fn recover(&mut self) -> Vec<Report> {
        let reports = self.name_servers.recover();
        self.routing.set_name_servers(self.name_servers.of_the_system());
        reports
    }

    /// See [`Routing::apply`]. Name servers are set if the tunnel can be used.
    pub fn apply(&mut self, settings: &TunnelSettings) -> Vec<Report> {
        let mut reports = self.routing.apply(settings);
        if self.routing.lacks().is_none() {
            reports.extend(self.name_servers.apply(&settings.dns));
        }
        reports
    }

    /// See [`Routing::lacks`].
    pub fn lacks(&self) -> Option<&str> {
        self.routing.lacks()
    }

    /// See [`Routing::missing_addresses`].
    pub fn missing_addresses(&self) -> &[IpNet] {
        self.routing.missing_addresses()
    }

    /// See [`Routing::takes_all`].
    pub fn takes_all(&self) -> bool {
        self.routing.takes_all()
    }

    /// How to resolve names: while a tunnel that was up is lost, or with the kill switch, the system's resolver may not
    /// reach its name servers.
    pub fn resolving(&self, kill_switch: bool) -> Resolving {
        match kill_switch || self.routing.is_applied() {
            true => {
                let (servers, mark) = (self.name_servers.of_the_system(), self.routing.mark());
                Resolving::Marked(MarkedServers { servers, mark })
            }
            false => Resolving::System,
        }
    }

    /// See [`Routing::bypass`].
    pub fn bypass(&mut self, addresses: &[IpAddr]) {
        self.routing.bypass(addresses);
    }

    /// See [`Routing::follow`].
    pub fn follow(&mut self) {
        self.routing.follow();
    }

    /// Undoes the changes of the system.
    pub fn undo(&mut self) {
        self.name_servers.undo();
        self.routing.undo();
    }

    /// See [`Routing::depends_on_network`].
    pub fn depends_on_network(&self) -> bool {
        self.routing.depends_on_network()
    }
}

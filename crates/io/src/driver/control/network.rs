//! The device and the network of the system, as the control thread sees them.

use std::net::IpAddr;

use adit_core::{Instant, Protocol};

use super::stages::Stages;
use crate::clock;
use crate::driver::counters::LinkCounters;
use crate::driver::mtu::MtuWatch;
use crate::driver::network::NetworkWatch;
use crate::driver::overflow::Overflow;
use crate::driver::path_mtus::PathMtus;
use crate::driver::source_check::SourceCheck;
use crate::driver::workers::Workers;
use crate::poller::Poller;
use crate::system::System;

/// The system's settings, and the watches of the network.
pub(super) struct Network<P: Protocol> {
    pub(super) system: System,
    pub(super) link: LinkCounters,
    /// `None`: no session depends on the device's MTU.
    pub(super) mtu: Option<MtuWatch>,
    pub(super) watch: NetworkWatch,
    /// `None`: no socket learns its local addresses, or the system does not allow to listen.
    pub(super) source_check: Option<SourceCheck>,
    pub(super) path_mtus: PathMtus,
    pub(super) stages: Stages<P>,
    pub(super) overflow: Overflow,
    /// Packets that may wait in the TUN device.
    pub(super) txqueuelen: u32,
}

impl<P: Protocol> Network<P> {
    /// When something of it is to be looked at.
    pub(super) fn due(&self) -> Option<Instant> {
        let routes = self.watch.due(self.system.takes_all());
        let sources = self.source_check.as_ref().and_then(SourceCheck::due);
        routes.into_iter().chain(sources).min()
    }

    /// Lets datagrams to these addresses pass beside the tunnel.
    pub(super) fn bypass(&mut self, addresses: &[IpAddr], poller: &Poller) {
        self.system.bypass(addresses);
        self.follow_changes(poller);
    }

    /// Takes back the settings.
    pub(super) fn undo(&mut self, poller: &Poller) {
        self.system.undo();
        self.follow_changes(poller);
    }

    /// Listens for changes of the network if settings depend on it, or no more.
    pub(super) fn follow_changes(&mut self, poller: &Poller) {
        let wanted = self.system.depends_on_network();
        self.watch.set(wanted, poller, || self.system.watch());
    }

    /// Brings the settings in line with the network, if it has changed. Gives the reason if the tunnel lacks then a
    /// setting that it cannot be without.
    pub(super) fn follow(&mut self, now: Instant, poller: &Poller) -> Option<String> {
        if !self.watch.is_due(now, self.system.takes_all(), poller) {
            return None;
        }
        self.system.follow();
        self.watch.looked(now, clock());
        self.system.lacks()
    }

    /// Notes that routes have changed, for [`super::Control::check_sources`].
    pub(super) fn routes_changed(&mut self, poller: &Poller) {
        if let Some(check) = &mut self.source_check {
            check.woke(poller);
        }
    }

    /// The device's MTU, if it has changed; within: `None` if the kernel does not report it.
    pub(super) fn changed_mtu(&mut self, workers: &Workers) -> Option<Option<u16>> {
        self.mtu.as_mut()?.follow(&mut self.link, workers)
    }

    /// The line for the log that says that the TUN device drops packets, if it is time for one.
    pub(super) fn overflow_news(&mut self, now: Instant, device: &str) -> Option<String> {
        if !self.overflow.is_due(now) {
            return None;
        }
        let dropped = self.link.tx_dropped();
        self.overflow.look(now, dropped, device, self.txqueuelen)
    }
}

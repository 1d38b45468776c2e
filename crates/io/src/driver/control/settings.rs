//! The system's settings: set with the tunnel, and followed when the network changes.

use adit_core::{Command, Instant, Protocol, Report, Severity, TunnelSettings};

use super::Control;
use crate::clock;

/// Lines of the log about refusals of the system in one change of settings. A peer may have sent thousands of routes.
const MOST_REPORTS: usize = 16;

/// At most [`MOST_REPORTS`], of which the last says how many there are besides.
fn some_of(mut reports: Vec<Report>) -> Vec<Report> {
    if reports.len() > MOST_REPORTS {
        let others = reports.len() - (MOST_REPORTS - 1);
        reports.truncate(MOST_REPORTS - 1);
        let text = format!("{others} further faults of this kind are not written");
        reports.push(Report { severity: Severity::Warning, path: None, text });
    }
    reports
}

impl<P: Protocol> Control<'_, P> {
    /// Sets the system up.
    ///
    /// # Errors
    /// The setting that the tunnel cannot be without, and why the system refused it.
    pub(super) fn up(&mut self, settings: &TunnelSettings) -> Result<(), String> {
        let reports = self.network.system.apply(settings);
        self.network.follow_changes(&self.poller);
        let lacks = self.network.system.lacks();
        some_of(reports).into_iter().for_each(|report| self.tell(report));
        lacks.map_or(Ok(()), Err)
    }

    /// The device's MTU may be another.
    pub(super) fn follow_mtu(&mut self) {
        if let Some(mtu) = self.network.changed_mtu(&self.workers) {
            self.protocol.handle_command(clock(), Command::MtuChanged { mtu });
        }
    }

    /// The network may have changed.
    pub(super) fn follow_network(&mut self) {
        let now = clock();
        if let Some(reason) = self.network.follow(now, &self.poller) {
            self.protocol.handle_command(clock(), Command::NotUp { reason });
            self.pump();
        }
    }

    /// Tells the protocol how large datagrams may be on paths on which they did not fit.
    pub(super) fn look_at_path_mtus(&mut self, now: Instant) {
        let (mark, limited) = (self.sockets.mark(), self.sockets.narrow_destinations());
        for (remote, mtu) in self.network.path_mtus.look(now, mark, limited) {
            self.protocol.handle_command(now, Command::PathMtu { remote, mtu });
            self.pump();
        }
    }

    /// Tells the protocol of peers to which the system's route leads by another device than before.
    pub(super) fn check_sources(&mut self) {
        let now = clock();
        let poller = &self.poller;
        let Some(check) = self.network.source_check.as_mut() else { return };
        if !check.is_due(now, poller) {
            return;
        }
        let peers = self.protocol.peers().into_iter().map(|(peer, info)| (peer, info.path));
        let redirected =
            check.redirected(&self.sockets.sources, self.sockets.ports.mark().unwrap_or_default(), peers);
        check.looked(now, clock());
        for (peer, path) in redirected {
            self.protocol.handle_command(clock(), Command::RouteChanged { peer, path });
            self.pump();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_of_one_change_has_some_lines() {
        let reports = |count: usize| -> Vec<Report> {
            let report = |n| Report { severity: Severity::Error, path: None, text: format!("route {n}") };
            (0..count).map(report).collect()
        };
        assert_eq!(some_of(reports(16)), reports(16));
        let some = some_of(reports(8000));
        assert_eq!((some.len(), &some[..15]), (16, &reports(15)[..]));
        assert_eq!(some[15].text, "7985 further faults of this kind are not written");
    }
}

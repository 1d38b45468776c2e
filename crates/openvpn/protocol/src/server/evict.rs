//! The clients that make room when a table of unauthenticated peers is full, and how full the tables are.

use adit_core::{Path, PeerId, Severity, TableUsage};

use super::Server;
use super::peer::Peer;
use crate::request::Event;

impl Server {
    /// How full the tables are that peers can fill before they have authenticated.
    pub(super) fn table_usage(&self) -> Vec<TableUsage> {
        let mut tables = vec![self.silent.usage()];
        tables.extend(self.half_open.usage());
        if self.params.access.key_verify.is_some() {
            tables.extend(self.tls_crypt_v2_verify.usage());
        }
        tables.extend([self.log_budget.usage(), self.unauthentic_budget.usage()]);
        tables
    }

    /// A client that is not up makes room for another.
    pub(super) fn evict(&mut self, id: PeerId) {
        let put_off = self.peers.get(&id).is_some_and(Peer::is_put_off);
        self.report_full(if put_off { "clients put off for sign-on" } else { "handshakes" });
        self.peers.get_mut(&id).into_iter().for_each(Peer::fall_silent);
        self.remove(id, "made room for others (see docs/use/LIMITS.md)", Severity::Debug);
    }

    /// Closes a connection that no control channel uses.
    pub(super) fn close_unused(&mut self, path: Path) {
        if self.silent.remove(path) {
            self.events.push_back(Event::Close { path });
        }
    }

    /// A TCP connection was accepted.
    pub(super) fn opened(&mut self, path: Path) {
        if self.exit_until.is_some() || !self.may_be_at(path) {
            return self.events.push_back(Event::Close { path });
        }
        if let Some(evicted) = self.silent.opened(self.now, path) {
            self.report_full("TCP connections without a control channel");
            self.events.push_back(Event::Close { path: evicted });
        }
    }

    pub(super) fn close_silent_connections(&mut self) {
        while let Some(path) = self.silent.take_late(self.now) {
            self.events.push_back(Event::Close { path });
        }
    }
}

//! Lists of revoked certificates (`crl-verify`) that are read again.

use adit_core::{PeerId, Severity};

use super::Server;
use super::peer::Peer;

impl Server {
    /// The next handshakes are judged by the new lists, and clients on them go now.
    pub(super) fn take_revocations(&mut self, content: &[u8]) {
        let Some(revocations) = self.params.control.revocations.clone() else { return };
        if let Err(error) = revocations.update(content) {
            let text = format!("crl-verify: {error}; the list read before stays in force");
            return self.report(Severity::Error, None, text);
        }
        self.report(Severity::Info, None, "crl-verify: read anew".to_owned());
        self.remove_revoked();
    }

    /// Clients on the lists in force go.
    pub(super) fn remove_revoked(&mut self) {
        let Some(revocations) = &self.params.control.revocations else { return };
        let lists = revocations.current();
        // A client that was refused or halted goes soon by itself, and shall get the reason.
        let goes = |peer: &Peer| !peer.is_refused() && peer.is_revoked(&lists);
        let revoked: Vec<PeerId> =
            self.peers.iter().filter(|(_, peer)| goes(peer)).map(|(id, _)| *id).collect();
        let reason = "its certificate was revoked (crl-verify)";
        for id in revoked {
            // A peer without `pull` knows no HALT (OpenVPN push.c `server_pushed_signal`).
            if self.params.point_to_point.is_none() && self.peers.get(&id).is_some_and(Peer::is_up) {
                self.halt(id, "your certificate was revoked", reason);
            } else {
                self.remove(id, reason, Severity::Warning);
            }
        }
    }
}

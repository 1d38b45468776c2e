//! `SaveConfig`: what runs, as the helper takes it, which writes the file ([`State`]).

use std::io;

use adit_core::Transport;
use adit_guard::HelperFiles;
use adit_wireguard::{PeerStatus, Status};

use crate::saved::{PeerState, State};

/// Has the helper write the file. Its name stands for the old one or for the whole new one.
///
/// # Errors
/// When it cannot be written; the old one is there then.
pub(super) fn save(files: &HelperFiles, status: &Status) -> io::Result<()> {
    files.save_configuration(&state(status).encode()?)
}

fn state(status: &Status) -> State {
    State {
        private_key: status.private_key.as_ref().map(|key| *key.as_bytes()),
        listen_port: status.listen_port,
        fwmark: status.fwmark,
        peers: status.peers.iter().map(peer).collect(),
    }
}

fn peer(PeerStatus { detail, preshared_key }: &PeerStatus) -> PeerState {
    PeerState {
        public_key: detail.public_key.0,
        preshared_key: (!preshared_key.is_none()).then(|| *preshared_key.as_bytes()),
        allowed_ips: detail.allowed_ips.clone(),
        // Where a connection comes from says nothing about the next one.
        endpoint: detail.endpoint.filter(|_| detail.transport != Some(Transport::Tcp)),
        persistent_keepalive: detail.persistent_keepalive,
    }
}

//! The rows of an interface in `adit status`.

use adit_wireguard::{Interface, PeerDetail};

use adit_host::status::Rows;
use adit_host::status::report::Unconnected;

/// The rows of an interface in its reports.
pub(crate) const ROWS: Rows<Interface> =
    Rows { role: "wireguard", handshake, public_key, sessions: |_, _| Vec::new(), unconnected };

fn handshake(detail: &PeerDetail) -> String {
    let post_quantum = match detail.post_quantum {
        Some(true) => ", post-quantum (X25519MLKEM768)",
        Some(false) => ", not post-quantum",
        None => "",
    };
    format!("Noise_IKpsk2{post_quantum}")
}

fn public_key(detail: &PeerDetail) -> Option<String> {
    Some(detail.public_key.to_base64())
}

fn unconnected(interface: &Interface) -> Vec<Unconnected> {
    let peer = |detail: PeerDetail| Unconnected {
        name: detail.called(),
        public_key: public_key(&detail),
        remote: detail.endpoint,
        networks: detail.allowed_ips.iter().map(ToString::to_string).collect(),
        unanswered: detail.unanswered,
        blocked: detail.blocked,
    };
    interface.unconnected().map(peer).collect()
}

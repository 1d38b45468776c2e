//! Options of a client, as the machine and the system take them.

use adit_core::{Redirect, Transport};
use adit_openvpn::params::UserAuth;
use adit_openvpn_config as file;

/// How the client authenticates itself; the username and the password come later.
pub(super) fn user_auth(auth: &file::UserAuth) -> UserAuth {
    UserAuth {
        credentials: None,
        retry: auth.retry,
        nocache: auth.nocache,
        by_program: false,
        challenge: auth.challenge.clone(),
    }
}

/// `redirect-gateway`. `def1` and `local` name routes of other systems; a DHCP server is reached on the link in any
/// case (`bypass-dhcp`).
pub(super) fn redirect(flags: file::RedirectGateway) -> Redirect {
    let file::RedirectGateway { ipv4, ipv6, autolocal, block_local, bypass_dns, .. } = flags;
    Redirect { ipv4, ipv6, server_on_link: autolocal, block_local, bypass_dns }
}

/// The protocol of a remote in the words of a `remote` line (OpenVPN socket_util.c, `proto2ascii`).
pub(super) fn protocol(transport: Transport, family: file::Family) -> &'static str {
    match (transport, family) {
        (Transport::Udp | Transport::Ip(_), file::Family::Any) => "udp",
        (Transport::Udp | Transport::Ip(_), file::Family::V4) => "udp4",
        (Transport::Udp | Transport::Ip(_), file::Family::V6) => "udp6",
        (Transport::Tcp, file::Family::Any) => "tcp-client",
        (Transport::Tcp, file::Family::V4) => "tcp4-client",
        (Transport::Tcp, file::Family::V6) => "tcp6-client",
    }
}

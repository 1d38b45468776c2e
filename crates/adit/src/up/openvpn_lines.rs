//! The lines that programs look for in OpenVPN's output, beside adit's own (its init.c, ssl.c, push.c and sig.c).

use std::net::SocketAddr;

use adit_core::{Ended, Severity};
use adit_openvpn::request::Event;

use crate::log::{Logger, Manner};
use crate::openvpn::VERSION;

/// What says that a tunnel is there.
const COMPLETED: &str = "Initialization Sequence Completed";

/// The first line of a process.
pub(super) fn begin(log: &mut Logger) {
    if log.manner() != Manner::Adit {
        log.log(Severity::Info, VERSION);
    }
}

/// The lines of an event, if it has any.
pub(super) fn tell(event: &Event, is_server: bool, log: &mut Logger) {
    if log.manner() == Manner::Adit {
        return;
    }
    for line in lines(event, is_server) {
        log.log(Severity::Info, line);
    }
}

fn lines(event: &Event, is_server: bool) -> Vec<String> {
    match event {
        Event::Up(_) if is_server => vec![COMPLETED.to_owned()],
        Event::PeerUp { info, .. } => {
            let (name, remote) = (&info.name, info.path.remote());
            let family = if remote.is_ipv4() { "AF_INET" } else { "AF_INET6" };
            let initiated = format!("[{name}] Peer Connection Initiated with [{family}]{}", address(remote));
            if is_server {
                vec![format!("{} {initiated}", address(remote))]
            } else {
                // The device has its addresses by now: the client reports `Up` before.
                vec![initiated, COMPLETED.to_owned()]
            }
        }
        Event::Ended(Ended::Shutdown) => vec!["SIGTERM[hard,] received, process exiting".to_owned()],
        Event::Ended(Ended::Failed(why)) if why.contains("(AUTH_FAILED)") => {
            vec!["AUTH: Received control message: AUTH_FAILED".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// An IPv6 address without brackets (socket.c `print_sockaddr_ex`).
fn address(address: SocketAddr) -> String {
    format!("{}:{}", address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_openvpns_lines() {
        let ended = |ended| lines(&Event::Ended(ended), false);
        assert_eq!(ended(Ended::Shutdown), ["SIGTERM[hard,] received, process exiting"]);
        // The words of adit-openvpn's client.
        let refused = Ended::Failed("the server refused us (AUTH_FAILED): no".to_owned());
        assert_eq!(ended(refused), ["AUTH: Received control message: AUTH_FAILED"]);
        assert!(ended(Ended::Failed("other".to_owned())).is_empty());
        assert!(lines(&Event::Down, false).is_empty());
    }

    #[test]
    fn addresses_are_openvpns() {
        let of = |text: &str| address(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1:1194"), "192.0.2.1:1194");
        assert_eq!(of("[2001:db8::1]:1194"), "2001:db8::1:1194");
    }
}

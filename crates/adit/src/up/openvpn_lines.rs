//! The lines that programs look for in OpenVPN's output, beside adit's own (its init.c, ssl.c, push.c and sig.c).

use std::net::SocketAddr;

use adit_core::{Ended, Severity};
use adit_openvpn::request::{ConnectionFailure, Event, Request};

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

/// What a tunnel has said so far, as its last line depends on it.
#[derive(Default)]
pub(super) struct Lines {
    /// The other end was sent an exit notice.
    exit_notice: bool,
}

impl Lines {
    /// Writes the lines of an event, if it has any.
    pub(super) fn tell(&self, event: &Event, is_server: bool, log: &mut Logger) {
        let ends = matches!(event, Event::Ended(Ended::Shutdown));
        write(log, || if ends { vec![self.last().to_owned()] } else { lines(event, is_server) });
    }

    /// The same for what a tunnel asks or tells.
    pub(super) fn request(&mut self, request: &Request, log: &mut Logger) {
        self.exit_notice |= matches!(request, Request::ExitNotice { .. });
        write(log, || lines_of_request(request));
    }

    fn last(&self) -> &'static str {
        match self.exit_notice {
            true => "SIGTERM[soft,exit-with-notification] received, process exiting",
            false => "SIGTERM[hard,] received, process exiting",
        }
    }
}

fn write(log: &mut Logger, lines: impl FnOnce() -> Vec<String>) {
    if log.manner() != Manner::Adit {
        lines().into_iter().for_each(|line| log.log(Severity::Info, line));
    }
}

fn lines_of_request(request: &Request) -> Vec<String> {
    const HANDSHAKE_FAILED: &str = "TLS Error: TLS handshake failed";
    const SENDING: &str = "SIGTERM received, sending exit notification to peer";
    let lines = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| (*line).to_owned()).collect() };
    match request {
        Request::ConnectionFailed(ConnectionFailure::Late(limit)) => {
            let late = format!(
                "TLS Error: TLS key negotiation failed to occur within {} seconds (check your network connectivity)",
                limit.as_secs()
            );
            vec![late, HANDSHAKE_FAILED.to_owned()]
        }
        Request::ConnectionFailed(ConnectionFailure::Tls) => lines(&[HANDSHAKE_FAILED]),
        Request::ConnectionFailed(ConnectionFailure::Refused(reason)) => {
            let comma = if reason.is_empty() { "" } else { "," };
            vec![format!("AUTH: Received control message: AUTH_FAILED{comma}{reason}")]
        }
        // What the signal interrupts in OpenVPN (error.c, `x_check_status`).
        Request::ExitNotice { commanded: true } => {
            lines(&["event_wait : Interrupted system call (fd=-1,code=4)", SENDING])
        }
        Request::ExitNotice { commanded: false } => lines(&[SENDING]),
        _ => Vec::new(),
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
        _ => Vec::new(),
    }
}

/// An IPv6 address without brackets (socket.c `print_sockaddr_ex`).
fn address(address: SocketAddr) -> String {
    format!("{}:{}", address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ends_have_openvpns_lines() {
        assert_eq!(Lines::default().last(), "SIGTERM[hard,] received, process exiting");
        assert_eq!(
            Lines { exit_notice: true }.last(),
            "SIGTERM[soft,exit-with-notification] received, process exiting"
        );
        assert_eq!(lines_of_request(&Request::ExitNotice { commanded: true }).len(), 2);
        assert_eq!(lines_of_request(&Request::ExitNotice { commanded: false }).len(), 1);
        assert!(lines(&Event::Down, false).is_empty());
    }

    #[test]
    fn failed_connections_have_openvpns_lines() {
        let failed = |failure| lines_of_request(&Request::ConnectionFailed(failure));
        let late = "TLS Error: TLS key negotiation failed to occur within 20 seconds (check your network connectivity)";
        let of_all = "TLS Error: TLS handshake failed";
        assert_eq!(failed(ConnectionFailure::Late(Duration::from_secs(20))), [late, of_all]);
        assert_eq!(failed(ConnectionFailure::Tls), [of_all]);
        let refused = |reason: &str| failed(ConnectionFailure::Refused(reason.to_owned()));
        assert_eq!(refused(""), ["AUTH: Received control message: AUTH_FAILED"]);
        assert_eq!(refused("no, not now"), ["AUTH: Received control message: AUTH_FAILED,no, not now"]);
    }

    #[test]
    fn addresses_are_openvpns() {
        let of = |text: &str| address(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1:1194"), "192.0.2.1:1194");
        assert_eq!(of("[2001:db8::1]:1194"), "2001:db8::1:1194");
    }
}

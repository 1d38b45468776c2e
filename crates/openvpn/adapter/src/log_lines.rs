//! The lines that programs look for in OpenVPN's output, beside adit's own (its init.c, ssl.c, push.c and sig.c).

use std::net::SocketAddr;

use adit_core::{Ended, Severity};
use adit_openvpn::request::{ConnectionFailure, Event, FailedClient, Request};
use adit_openvpn::tls::CertificateFault;

use adit_host::log::Logger;

/// The line that reports that a tunnel is there.
const COMPLETED: &str = "Initialization Sequence Completed";

/// The lines that a tunnel has logged so far, as far as its last line depends on them.
#[derive(Default)]
pub(crate) struct Lines {
    /// The other end was sent an exit notice.
    exit_notice: bool,
}

impl Lines {
    /// Writes the lines of an event, if it has any.
    pub(crate) fn tell(&self, event: &Event, is_server: bool, log: &mut Logger) {
        let ends = matches!(event, Event::Ended(Ended::Shutdown));
        write(log, || if ends { vec![self.last().to_owned()] } else { lines(event, is_server) });
    }

    /// Writes the lines for a request of a tunnel.
    pub(crate) fn request(&mut self, request: &Request, log: &mut Logger) {
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
    if !log.manner().is_own() {
        lines().into_iter().for_each(|line| log.log(Severity::Info, line));
    }
}

fn lines_of_request(request: &Request) -> Vec<String> {
    const SENDING: &str = "SIGTERM received, sending exit notification to peer";
    match request {
        Request::ConnectionFailed(failure) => failure_lines(failure),
        Request::ClientFailed(client) => {
            let prefix = client_prefix(client);
            failure_lines(&client.failure).into_iter().map(|line| format!("{prefix} {line}")).collect()
        }
        // The call that the signal interrupts in OpenVPN (error.c, `x_check_status`).
        Request::ExitNotice { commanded: true } => {
            vec!["event_wait : Interrupted system call (fd=-1,code=4)".to_owned(), SENDING.to_owned()]
        }
        Request::ExitNotice { commanded: false } => vec![SENDING.to_owned()],
        _ => Vec::new(),
    }
}

/// The beginning of a line about a client of a server (multi.c, `multi_instance_string`).
fn client_prefix(client: &FailedClient) -> String {
    let address = address(client.path.remote());
    match &client.name {
        Some(name) => format!("{name}/{address}"),
        None => address,
    }
}

fn failure_lines(failure: &ConnectionFailure) -> Vec<String> {
    const HANDSHAKE_FAILED: &str = "TLS Error: TLS handshake failed";
    match failure {
        ConnectionFailure::Late(limit) => {
            let late = format!(
                "TLS Error: TLS key negotiation failed to occur within {} seconds (check your network connectivity)",
                limit.as_secs()
            );
            vec![late, HANDSHAKE_FAILED.to_owned()]
        }
        ConnectionFailure::Tls(fault) => {
            let fault = fault.as_deref().and_then(certificate_line);
            fault.into_iter().chain([HANDSHAKE_FAILED.to_owned()]).collect()
        }
        ConnectionFailure::Refused(reason) => {
            let comma = if reason.is_empty() { "" } else { "," };
            vec![format!("AUTH: Received control message: AUTH_FAILED{comma}{reason}")]
        }
        ConnectionFailure::Login => {
            vec!["TLS Auth Error: Auth Username/Password verification failed for peer".to_owned()]
        }
        // ssl_pkt.c, `read_control_auth`.
        ConnectionFailure::Unauthentic(path) => {
            let from = place(path.remote());
            vec![format!("TLS Error: incoming packet authentication failed from {from}")]
        }
        ConnectionFailure::Silent { name, exits } => {
            let name = match name.as_deref() {
                Some("") => "[UNDEF] ".to_owned(),
                Some(name) => format!("[{name}] "),
                None => String::new(),
            };
            let what = if *exits { "(--ping-exit), exiting" } else { "(--ping-restart), restarting" };
            vec![format!("{name}Inactivity timeout {what}")]
        }
    }
}

/// The line about the fault of a certificate's path (ssl_verify_openssl.c, `verify_callback`).
fn certificate_line(fault: &CertificateFault) -> Option<String> {
    let CertificateFault { depth, subject, serial, error } = fault;
    let (error, serial) = ((*error)?, serial.as_deref().unwrap_or("<not available>"));
    Some(format!("VERIFY ERROR: depth={depth}, error={error}: {subject}, serial={serial}"))
}

fn lines(event: &Event, is_server: bool) -> Vec<String> {
    match event {
        Event::Up(_) if is_server => vec![COMPLETED.to_owned()],
        Event::PeerUp { info, .. } => {
            let (name, remote) = (&info.name, info.path.remote());
            let initiated = format!("[{name}] Peer Connection Initiated with {}", place(remote));
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

/// An address with its family (socket.c `print_link_socket_actual`).
fn place(remote: SocketAddr) -> String {
    let family = if remote.is_ipv4() { "AF_INET" } else { "AF_INET6" };
    format!("[{family}]{}", address(remote))
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
        assert_eq!(failed(ConnectionFailure::Tls(None)), [of_all]);
        let fault = CertificateFault {
            depth: 0,
            subject: "C=DE, CN=server".to_owned(),
            serial: Some("7".to_owned()),
            error: Some("certificate has expired"),
        };
        let expired = "VERIFY ERROR: depth=0, error=certificate has expired: C=DE, CN=server, serial=7";
        assert_eq!(failed(ConnectionFailure::Tls(Some(Box::new(fault.clone())))), [expired, of_all]);
        let other = CertificateFault { error: None, ..fault };
        assert_eq!(failed(ConnectionFailure::Tls(Some(Box::new(other)))), [of_all]);
        let silent = |name: Option<&str>, exits| {
            failed(ConnectionFailure::Silent { name: name.map(str::to_owned), exits })
        };
        assert_eq!(
            silent(Some("server"), false),
            ["[server] Inactivity timeout (--ping-restart), restarting"]
        );
        assert_eq!(silent(Some(""), true), ["[UNDEF] Inactivity timeout (--ping-exit), exiting"]);
        assert_eq!(silent(None, false), ["Inactivity timeout (--ping-restart), restarting"]);
        let refused = |reason: &str| failed(ConnectionFailure::Refused(reason.to_owned()));
        assert_eq!(refused(""), ["AUTH: Received control message: AUTH_FAILED"]);
        assert_eq!(refused("no, not now"), ["AUTH: Received control message: AUTH_FAILED,no, not now"]);
    }

    #[test]
    fn lines_about_a_client_begin_with_it() {
        let path = adit_core::Path::Udp { socket: 0, remote: ([192, 0, 2, 1], 1194).into() };
        let of = |name: Option<&str>, failure| {
            let name = name.map(str::to_owned);
            lines_of_request(&Request::ClientFailed(Box::new(FailedClient { path, name, failure })))
        };
        let login = "192.0.2.1:1194 TLS Auth Error: Auth Username/Password verification failed for peer";
        assert_eq!(of(None, ConnectionFailure::Login), [login]);
        // The filters of fail2ban look for it.
        let line =
            "192.0.2.1:1194 TLS Error: incoming packet authentication failed from [AF_INET]192.0.2.1:1194";
        assert_eq!(of(None, ConnectionFailure::Unauthentic(path)), [line]);
        let silent = ConnectionFailure::Silent { name: Some("alice".to_owned()), exits: false };
        let line = "alice/192.0.2.1:1194 [alice] Inactivity timeout (--ping-restart), restarting";
        assert_eq!(of(Some("alice"), silent), [line]);
    }

    #[test]
    fn addresses_are_openvpns() {
        let of = |text: &str| address(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1:1194"), "192.0.2.1:1194");
        assert_eq!(of("[2001:db8::1]:1194"), "2001:db8::1:1194");
    }
}

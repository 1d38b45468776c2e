//! The lines of the log: to the console, and to a server of syslog.

use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// Facility "daemon", severity "informational" (RFC 5424, section 6.2.1).
const PRIORITY: u8 = 3 * 8 + 6;
/// The longest line in bytes that a server has to take (RFC 5424, section 6.1).
const LONGEST: usize = 2048;

/// Where lines go. Copies share it.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    server: Option<SocketAddr>,
    socket: Option<UdpSocket>,
    hostname: Option<String>,
}

impl Log {
    /// A log to the console alone.
    pub(super) fn new() -> Self {
        Log(Arc::default())
    }

    /// Sends further lines to a server as well, under the machine's name.
    pub(super) fn send_to(&self, server: Option<SocketAddr>, hostname: Option<String>) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (places.server, places.hostname) = (server, hostname);
    }

    /// Writes a line of this process.
    pub(super) fn say(&self, text: impl std::fmt::Display) {
        self.line(&format!("appliance: {text}"));
    }

    /// Writes a line. A console or a server that cannot be reached is passed over.
    pub(super) fn line(&self, text: &str) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(std::io::stderr(), "{text}");
        let Some(server) = places.server else { return };
        let message = message(places.hostname.as_deref(), text);
        if places.socket.is_none() {
            let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            places.socket = UdpSocket::bind(any).ok();
        }
        if let Some(socket) = &places.socket {
            let _ = socket.send_to(&message, server);
        }
    }
}

/// A message (RFC 5424, section 6). The server knows better when it came.
fn message(hostname: Option<&str>, text: &str) -> Vec<u8> {
    let mut message = format!("<{PRIORITY}>1 - {} adit - - - {text}", hostname.unwrap_or("-")).into_bytes();
    message.truncate(LONGEST);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_each_line() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let log = Log::new();
        log.send_to(server.local_addr().ok(), Some("gate".to_owned()));
        log.say("up");
        let mut buffer = [0; 100];
        let length = server.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"<30>1 - gate adit - - - appliance: up");
    }

    #[test]
    fn messages_are_no_longer_than_servers_take() {
        assert_eq!(message(None, &"x".repeat(5000)).len(), LONGEST);
    }
}

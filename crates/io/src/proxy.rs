//! Proxies by which a remote is reached: HTTP (CONNECT, RFC 9110 §9.3.6) and SOCKS5 (RFC 1928).
//!
//! All of it happens while a path is opened, on the thread or in the process that opens paths. Afterwards a TCP connection by a
//! proxy is a TCP connection as any other. Datagrams by a SOCKS proxy have a header, which the socket puts before each and
//! takes off each (`udp/relay.rs`).

mod http;
mod socks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

/// A machine that connects in our place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The protocol that it speaks.
    pub kind: ProxyKind,
    /// Our credentials, if it asks for them.
    pub credentials: Option<ProxyCredentials>,
}

/// The protocol of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProxyKind {
    /// HTTP: TCP alone.
    Http(HttpProxy),
    /// SOCKS5: TCP and UDP.
    Socks,
}

/// How an HTTP proxy is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpProxy {
    /// Which kinds of authentication may be used.
    pub authentication: HttpAuthentication,
    /// The version of HTTP in the request, such as `1.0`.
    pub version: String,
    /// Headers of the request, each a line `Name: value`, besides those for authentication and, unless there is one here,
    /// `Host`.
    pub headers: Vec<String>,
}

/// The authentication to an HTTP proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpAuthentication {
    /// Not at all.
    None,
    /// By the password itself (RFC 7617), with the first request.
    Basic,
    /// By a digest of the password (RFC 7616).
    Digest,
    /// As the proxy asks, by a digest where it can be.
    Any,
}

/// A username and a password for a proxy. Wiped when dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyCredentials {
    /// The username.
    pub username: String,
    /// The password.
    pub password: String,
}

impl Drop for ProxyCredentials {
    fn drop(&mut self) {
        self.username.zeroize();
        self.password.zeroize();
    }
}

impl fmt::Debug for ProxyCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyCredentials").finish_non_exhaustive()
    }
}

/// A proxy asks for a username and a password that there are not, or refuses those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CredentialsWanted {
    /// There were credentials, and they were refused.
    pub(crate) refused: bool,
}

impl CredentialsWanted {
    /// Whether the error is one of these.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    fn error(refused: bool) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, CredentialsWanted { refused })
    }
}

impl std::error::Error for CredentialsWanted {}

impl fmt::Display for CredentialsWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.refused {
            true => "it refuses the username and password",
            false => "it asks for a username and a password; name a file with both",
        })
    }
}

/// Datagrams by a proxy.
#[derive(Debug)]
pub(crate) struct Association {
    /// The connection that asked for it: it ends with this (RFC 1928 §7).
    pub(crate) connection: TcpStream,
    /// Where datagrams go in place of the remote.
    pub(crate) relay: SocketAddr,
    /// The header before each datagram, in both directions.
    pub(crate) header: Vec<u8>,
}

impl Proxy {
    /// Has the proxy connect to `host`. `dial` makes a connection to the proxy, which may be needed twice; all of it may take
    /// as long as `timeout`.
    ///
    /// # Errors
    /// The proxy's refusal, or its silence.
    pub(crate) fn connect(
        &self,
        (host, port): (&str, u16),
        timeout: Duration,
        dial: impl Fn(Duration) -> io::Result<TcpStream>,
    ) -> io::Result<TcpStream> {
        let until = Instant::now() + timeout;
        let mut dial =
            || -> io::Result<Conversation> { Ok(Conversation { stream: dial(left(until)?)?, until }) };
        let credentials = self.credentials.as_ref();
        match &self.kind {
            ProxyKind::Http(http) => http::connect(http, credentials, (host, port), &mut dial),
            ProxyKind::Socks => socks::connect(dial()?, credentials, (host, port)),
        }
    }

    /// Has the proxy relay datagrams to and from `remote`.
    ///
    /// # Errors
    /// The proxy's refusal, or its silence; or that it relays no datagrams.
    pub(crate) fn associate(
        &self,
        remote: SocketAddr,
        timeout: Duration,
        dial: impl FnOnce(Duration) -> io::Result<TcpStream>,
    ) -> io::Result<Association> {
        if self.kind != ProxyKind::Socks {
            return Err(io::Error::other("an HTTP proxy carries TCP alone"));
        }
        let until = Instant::now() + timeout;
        let conversation = Conversation { stream: dial(left(until)?)?, until };
        socks::associate(conversation, self.credentials.as_ref(), remote)
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(slow()) } else { Ok(left) }
}

fn slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer in time")
}

/// A connection to a proxy that is being asked, until an answer is due.
struct Conversation {
    stream: TcpStream,
    until: Instant,
}

impl Conversation {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        self.stream.write_all(bytes).map_err(closed)
    }

    /// Fills the buffer. Reads nothing beyond it, as that belongs to the remote.
    fn read(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            self.stream.set_read_timeout(Some(left(self.until)?))?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(closed(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => buffer = buffer.get_mut(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(closed(error)),
            }
        }
        Ok(())
    }

    /// The connection, for other use.
    fn into_stream(self) -> io::Result<TcpStream> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }
}

/// The functions that fuzz targets and tests call.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    use super::{HttpAuthentication, ProxyCredentials, http};

    /// Whether the head of an answer has a challenge that we answer.
    pub(crate) fn answer(head: &[u8]) -> bool {
        let Some(answer) = http::parse(head) else { return false };
        let credentials = ProxyCredentials { username: "ann".to_owned(), password: "S3cr3t!".to_owned() };
        let given =
            http::answer_to(&answer.challenges, HttpAuthentication::Any, Some(&credentials), "a.example:443");
        if let Ok(given) = &given {
            assert!(!given.contains(['\r', '\n']) && !given.contains("S3cr3t!"), "{}", given.as_str());
        }
        given.is_ok()
    }
}

/// An error of a connection, in words.
fn closed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => slow(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            io::Error::new(error.kind(), "it closed the connection without an answer")
        }
        _ => error,
    }
}

//! A connection to a directory, and the requests on it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use adit_openvpn_config::auth_ldap::{Filter, LdapPlace};

use super::Trust;
use super::ber::{self, Malformed, SEQUENCE};
use super::message::{
    self, Answer, BOUND, COMPARE_FALSE, COMPARE_TRUE, COMPARED, ENTRY, EXTENDED, INTERMEDIATE,
    NO_SUCH_ATTRIBUTE, Outcome, REFERENCE, REFERRAL, SEARCHED, SIZE_LIMIT_EXCEEDED, SUCCESS,
};
use super::stream::Stream;

/// The most URLs of other servers that are kept of one search.
const MAX_REFERENCES: usize = 16;

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Names of entries.
    pub(super) entries: Vec<String>,
    /// URLs of servers that have more.
    pub(super) references: Vec<String>,
    /// The server has more entries than it gave.
    pub(super) is_cut: bool,
}

/// How to connect.
#[derive(Clone, Copy)]
pub(super) struct Manner<'a> {
    pub(super) trust: &'a Trust,
    /// Start TLS on a connection that begins without it.
    pub(super) start_tls: bool,
    /// How long each step may take.
    pub(super) timeout: Duration,
}

pub(super) struct Connection {
    stream: Stream,
    /// Bytes that were received and not read yet.
    received: Vec<u8>,
    last_id: u32,
}

impl Connection {
    /// Connects to a server. With TLS, no other request is sent before the handshake is complete.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) fn open(place: &LdapPlace, manner: Manner<'_>) -> Result<Self, String> {
        let Manner { trust, start_tls, timeout } = manner;
        let of = |stream| Connection { stream, received: Vec::new(), last_id: 0 };
        match place {
            LdapPlace::Unix(path) => {
                let stream = Stream::unix(path, timeout);
                stream.map(of).map_err(|error| format!("{}: {}", path.display(), said(&error)))
            }
            LdapPlace::Tls { host, port } => {
                let stream = Stream::tcp(host, *port, timeout);
                let stream = stream.and_then(|stream| Stream::with_tls(stream, host, trust));
                stream.map(of).map_err(|error| format!("{host}:{port}: {}", said(&error)))
            }
            LdapPlace::Tcp { host, port } => {
                let failed = |why: String| format!("{host}:{port}: {why}");
                let stream = Stream::tcp(host, *port, timeout).map_err(|error| failed(said(&error)))?;
                let connection = of(Stream::Tcp(stream));
                if !start_tls {
                    return Ok(connection);
                }
                let stream = connection.start_tls().map_err(failed)?;
                let stream = Stream::with_tls(stream, host, trust);
                stream.map(of).map_err(|error| failed(said(&error)))
            }
        }
    }

    /// Asks the server to start TLS.
    fn start_tls(mut self) -> Result<TcpStream, String> {
        let id = self.ask(&message::start_tls())?;
        let (_, content) = self.answer(id, EXTENDED)?;
        let outcome = Outcome::read(&content).map_err(malformed)?;
        if outcome.code != SUCCESS {
            return Err(format!("it does not go over to TLS (TLSEnable): {outcome}"));
        }
        match self {
            // Bytes that came before TLS may be forged by a third party on the path.
            Connection { stream: Stream::Tcp(stream), received, .. } if received.is_empty() => Ok(stream),
            _ => Err("it said more before it went over to TLS".to_owned()),
        }
    }

    /// Binds as an entry, with its password.
    ///
    /// # Errors
    /// When there is no answer. A refusal is an [`Outcome`].
    pub(super) fn bind(&mut self, entry: &str, password: &str) -> Result<Outcome, String> {
        let id = self.ask(&message::bind(entry, password))?;
        let (_, content) = self.answer(id, BOUND)?;
        Outcome::read(&content).map_err(malformed)
    }

    /// Searches below `base`, for at most `most` entries.
    ///
    /// # Errors
    /// When the search failed.
    pub(super) fn search(&mut self, base: &str, filter: &Filter, most: u32) -> Result<Found, String> {
        let id = self.ask(&message::search(base, filter, most))?;
        let mut found = Found::default();
        loop {
            let (kind, content) = self.answer(id, SEARCHED)?;
            match kind {
                ENTRY => found.entries.push(message::entry_name(&content).map_err(malformed)?),
                REFERENCE => found.references.extend(message::urls(&content).map_err(malformed)?),
                _ => {
                    let mut outcome = Outcome::read(&content).map_err(malformed)?;
                    found.references.append(&mut outcome.referrals);
                    found.references.truncate(MAX_REFERENCES);
                    found.is_cut = outcome.code == SIZE_LIMIT_EXCEEDED;
                    return match outcome.code {
                        SUCCESS | SIZE_LIMIT_EXCEEDED | REFERRAL => Ok(found),
                        _ => Err(format!("the search below `{base}` failed: {outcome}")),
                    };
                }
            }
            found.references.truncate(MAX_REFERENCES);
            if found.entries.len() > usize::try_from(most).unwrap_or(usize::MAX) {
                return Err(format!("the search below `{base}` finds more than it may"));
            }
        }
    }

    /// Whether an attribute of an entry has that value.
    ///
    /// # Errors
    /// When the comparison failed.
    pub(super) fn compare(&mut self, entry: &str, attribute: &str, value: &str) -> Result<bool, String> {
        let id = self.ask(&message::compare(entry, attribute, value.as_bytes()))?;
        let (_, content) = self.answer(id, COMPARED)?;
        let outcome = Outcome::read(&content).map_err(malformed)?;
        match outcome.code {
            COMPARE_TRUE => Ok(true),
            COMPARE_FALSE | NO_SUCH_ATTRIBUTE => Ok(false),
            _ => Err(format!("the comparison of {attribute} in `{entry}` failed: {outcome}")),
        }
    }

    /// Sends a request. Gives its number.
    fn ask(&mut self, operation: &[u8]) -> Result<u32, String> {
        self.last_id += 1;
        let message = message::message(self.last_id, operation);
        let sent = self.stream.write_all(&message).and_then(|()| self.stream.flush());
        sent.map_err(|error| said(&error))?;
        Ok(self.last_id)
    }

    /// Waits for the answer of that kind to a request, or for an entry or a reference. Gives its kind and content.
    fn answer(&mut self, id: u32, kind: u8) -> Result<(u8, Vec<u8>), String> {
        loop {
            let message = self.receive()?;
            let answer = Answer::read(&message).map_err(malformed)?;
            if answer.id == 0 {
                // It ends the connection (RFC 4511, 4.4.1).
                let outcome = Outcome::read(answer.content).map_err(malformed)?;
                return Err(format!("the directory ended the connection: {outcome}"));
            }
            let is_of_search = kind == SEARCHED && matches!(answer.kind, ENTRY | REFERENCE);
            if answer.id != id || (answer.kind != kind && !is_of_search && answer.kind != INTERMEDIATE) {
                return Err(malformed(Malformed));
            }
            if answer.kind != INTERMEDIATE {
                return Ok((answer.kind, answer.content.to_vec()));
            }
        }
    }

    /// Waits for a message. Gives its content.
    fn receive(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some((element, rest)) = ber::split(&self.received).map_err(malformed)? {
                if element.tag != SEQUENCE {
                    return Err(malformed(Malformed));
                }
                let (content, left) = (element.content.to_vec(), rest.to_vec());
                self.received = left;
                return Ok(content);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("the directory closed the connection".to_owned()),
                Ok(length) => self.received.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(said(&error)),
            }
        }
    }
}

fn malformed(_: Malformed) -> String {
    "the directory's answer is not LDAP's".to_owned()
}

/// The message of an error of the connection. A read or a write that is over time gives one of two kinds of error.
fn said(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            "the directory did not answer in time (Timeout)".to_owned()
        }
        _ => error.to_string(),
    }
}

//! The messages between a tunnel and the process with the modules.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use super::Identity;

/// Longest message in bytes: the certificates of some tokens.
const MAX_MESSAGE: usize = 1 << 20;

/// A module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Provider {
    /// The shared library; a name without a slash is looked for where the system has its libraries.
    pub(crate) path: PathBuf,
    /// Its tokens ask for the PIN themselves.
    pub(crate) protected: bool,
    /// Its certificates can be seen with the PIN alone.
    pub(crate) private_certificates: bool,
}

/// A PIN, which is wiped after use and not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin(String);

impl Pin {
    pub(crate) fn new(text: &str) -> Self {
        Pin(text.to_owned())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pin(..)")
    }
}

/// A request to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// The policy: the modules to load. The first message, once; another one ends the process.
    Load {
        providers: Vec<Provider>,
        /// How long a PIN holds; `None`: until the token is taken out.
        pin_cache: Option<Duration>,
    },
    /// Which certificates there are. With `token`, only the token of that identity is logged in at.
    Find { pin: Option<Pin>, token: Option<Identity> },
    /// A signature.
    Sign { identity: Identity, operation: Operation, data: Vec<u8>, pin: Option<Pin> },
}

/// A request or its answer, with the request's number: the answer to a request that was given up is recognised, and dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Numbered<T> {
    pub(super) number: u32,
    pub(super) content: T,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The modules are loaded.
    Loaded,
    /// This is on the tokens.
    Found(Listing),
    /// The signature, as the token gave it.
    Signed(Vec<u8>),
    /// The PIN of the token with that label is needed.
    PinNeeded(String),
    /// The PIN of the token with that label was wrong.
    PinWrong(String),
    /// The token is not there.
    Absent,
    /// The request failed, for that reason.
    Failed(String),
}

/// The content of the tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// The certificates.
    pub(crate) certificates: Vec<Found>,
    /// The tokens whose certificates could not be read.
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Listing {
    /// Why tokens could not be read, if there are such.
    pub(crate) fn reasons(&self) -> Option<String> {
        let reasons: Vec<&str> = self.unreadable.iter().map(|unreadable| unreadable.why.as_str()).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// A token whose certificates could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unreadable {
    /// The token, as an identity without an id; `None`: all tokens of a module.
    pub(crate) token: Option<Identity>,
    /// The reason, with the token's label or the module's path.
    pub(crate) why: String,
}

/// A certificate on a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Its name.
    pub(crate) identity: Identity,
    /// In DER.
    pub(crate) certificate: Vec<u8>,
    /// The abilities by which the token signs.
    pub(crate) signs_by: Vec<Ability>,
}

/// A way in which a token signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ability {
    /// `CKM_RSA_PKCS`.
    RsaPkcs1,
    /// `CKM_RSA_PKCS_PSS`.
    RsaPss,
    /// `CKM_RSA_X_509`.
    RsaRaw,
    /// `CKM_ECDSA`.
    Ecdsa,
    /// `CKM_EDDSA`.
    Eddsa,
}

/// The operation of a token on the data of a [`Request::Sign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    /// A DigestInfo is padded by PKCS #1 v1.5.
    RsaPkcs1,
    /// A digest is padded by PSS, with a salt as long as it.
    RsaPss(Hash),
    /// The data is padded already.
    RsaRaw,
    /// A digest; the signature is two numbers of the same length.
    Ecdsa,
    /// A message.
    Eddsa,
}

/// The digests of TLS signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// Sends a message: its length (4 bytes, little-endian) and its content in postcard's form.
pub(super) fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    // In one piece: a buffer that grows would leave copies of a PIN behind.
    let size = postcard::experimental::serialized_size(message).map_err(io::Error::other)?;
    let length = u32::try_from(size).ok().filter(|_| size <= MAX_MESSAGE);
    let length = length.ok_or_else(|| io::Error::other("too long a message"))?;
    let mut body = Zeroizing::new(vec![0; size]);
    postcard::to_slice(message, &mut body).map_err(io::Error::other)?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(&body)
}

/// Waits for a message, without a limit.
pub(super) fn receive<T: DeserializeOwned>(mut stream: &UnixStream) -> io::Result<T> {
    message(|buffer| stream.read_exact(buffer))
}

/// Takes a message that has begun to arrive. It must be complete within `longest`.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] when it is not, and others. After an error the stream cannot be used further, as the rest of a
/// message may follow.
pub(super) fn receive_within<T: DeserializeOwned>(stream: &UnixStream, longest: Duration) -> io::Result<T> {
    let end = Instant::now() + longest;
    message(|buffer| read_until(stream, buffer, end))
}

/// Reads a message by `fill`, which fills a buffer.
fn message<T: DeserializeOwned>(mut fill: impl FnMut(&mut [u8]) -> io::Result<()>) -> io::Result<T> {
    let mut head = [0; 4];
    fill(&mut head)?;
    let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        return Err(io::Error::other("too long a message"));
    }
    let mut body = Zeroizing::new(vec![0; length]);
    fill(&mut body)?;
    let (message, rest) = postcard::take_from_bytes(&body).map_err(io::Error::other)?;
    match rest {
        [] => Ok(message),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "bytes follow the message")),
    }
}

/// Fills a buffer before `end`.
fn read_until(mut stream: &UnixStream, mut buffer: &mut [u8], end: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => buffer = buffer.get_mut(length..).unwrap_or_default(),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        let request =
            Numbered { number: 7, content: Request::Find { pin: Some(Pin::new("1234")), token: None } };
        send(&one, &request).expect("room");
        assert_eq!(receive::<Numbered<Request>>(&other).expect("a message"), request);
        let shown = "Numbered { number: 7, content: Find { pin: Some(Pin(..)), token: None } }";
        assert_eq!(format!("{request:?}"), shown);
        send(&one, &request).expect("room");
        let longest = Duration::from_secs(60);
        assert_eq!(receive_within::<Numbered<Request>>(&other, longest).expect("a message"), request);
        (&one).write_all(&[0xff; 8]).expect("room");
        assert!(receive::<Numbered<Request>>(&other).is_err());
    }

    #[test]
    fn a_message_that_stops_is_given_up() {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        (&one).write_all(&[9, 0, 0, 0, 1, 2]).expect("room");
        let outcome = receive_within::<Numbered<Request>>(&other, Duration::from_millis(20));
        assert!(outcome.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
        drop(one);
        let outcome = receive_within::<Numbered<Request>>(&other, Duration::from_secs(60));
        assert!(outcome.is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof));
    }
}

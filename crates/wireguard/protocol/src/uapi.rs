//! The cross-platform interface's text (<https://www.wireguard.com/xplatform/#configuration-protocol>), by which `wg`
//! speaks to an implementation in user space: one operation is some lines and a blank one.
//!
//! A `set` is read as a whole before anything of it is applied. In an answer to `set`, `errno` is negative, as
//! wireguard-go has it and `wg` expects it; in one to `get` it is positive, as `wg` reads digits alone.

use std::fmt::Write as _;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use adit_core::IpNet;
use thiserror::Error;
use zeroize::{Zeroize as _, Zeroizing};

use crate::keys::{KEY_LEN, PresharedKey, PrivateKey, PublicKey};
use crate::params::{AllowedIp, Changes, ConfigureError, PeerChange, PostQuantum};
use crate::request::{PeerStatus, Status};

/// Longest operation in bytes. 130,560 allowed IPs, as wireguard-go's `netns.sh` sets them, take about 3 MB.
pub const MAX_OPERATION: usize = 16 << 20;

/// Linux's `EINVAL`.
const INVALID: i32 = 22;
/// Linux's `E2BIG`.
const TOO_BIG: i32 = 7;
/// Linux's `EPROTO`.
const PROTOCOL: i32 = 71;

/// Finds the scope that the zone of an IPv6 address stands for (RFC 4007 §11): `wg` writes the name of an interface there,
/// or a number. `None`: there is no such interface.
pub type ScopeOf<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// An operation of the UAPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `get=1`: answered with [`print_status`].
    Get,
    /// `set=1`: applied, then answered with [`print_outcome`].
    Set(Box<Changes>),
}

/// Why an operation was refused. The line counts from 1, which is `get=1` or `set=1`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {text}")]
pub struct Refusal {
    /// The line.
    pub line: usize,
    /// Linux's number of the error, positive.
    pub errno: i32,
    /// The operation was `get`: in its answer the number is positive.
    pub of_get: bool,
    /// The fault, and what would be right. No secret is in it.
    pub text: String,
}

impl Refusal {
    fn new(errno: i32, text: impl Into<String>) -> Self {
        Refusal { line: 0, errno, of_get: false, text: text.into() }
    }

    fn invalid(key: &str, right: &str) -> Self {
        Refusal::new(INVALID, format!("{key} takes {right}"))
    }
}

/// The bytes of a connection, cut into operations.
#[derive(Default)]
pub struct Reader {
    bytes: Zeroizing<Vec<u8>>,
    /// The length of the bytes that were searched for the blank line that ends the first operation.
    searched: usize,
}

impl Reader {
    /// Takes received bytes.
    ///
    /// # Errors
    /// The connection is of no use any more: an operation is longer than [`MAX_OPERATION`], or a line ends in CR LF, so that no
    /// blank line would ever be found.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let len = self.bytes.len() + bytes.len();
        if len > MAX_OPERATION {
            let text = format!("more than {MAX_OPERATION} bytes without a blank line");
            return Err(Refusal { of_get: is_get(&self.bytes), ..Refusal::new(TOO_BIG, text) });
        }
        if len > self.bytes.capacity() {
            // The old buffer is wiped, which a vector that grows would not do.
            let mut larger = Zeroizing::new(Vec::with_capacity(len.next_power_of_two()));
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
        let from = self.bytes.len().saturating_sub(1);
        self.bytes.extend_from_slice(bytes);
        let pairs = self.bytes.get(from..).unwrap_or_default().windows(2);
        if pairs.into_iter().any(|pair| pair == b"\r\n") {
            let text = "lines end in LF alone, not in CR LF";
            let line = 1 + self
                .bytes
                .split(|byte| *byte == b'\n')
                .position(|line| line.ends_with(b"\r"))
                .unwrap_or(0);
            let of_get = self.bytes.starts_with(b"get=1\r");
            return Err(Refusal { line, of_get, ..Refusal::new(PROTOCOL, text) });
        }
        Ok(())
    }

    /// The next operation that is there as a whole. A refused one is answered, and the next may follow.
    pub fn next_operation(&mut self, scope_of: ScopeOf<'_>) -> Option<Result<Operation, Refusal>> {
        let from = self.searched.saturating_sub(1);
        let found = self.bytes.get(from..)?.windows(2).position(|pair| pair == b"\n\n");
        let Some(end) = found.map(|at| from + at + 2) else {
            self.searched = self.bytes.len();
            return None;
        };
        let operation = self.bytes.get(..end).map(|operation| parse(operation, scope_of));
        let len = self.bytes.len();
        self.bytes.copy_within(end.., 0);
        self.bytes.get_mut(len - end..).unwrap_or_default().zeroize();
        self.bytes.truncate(len - end);
        self.searched = 0;
        operation
    }
}

/// Reads one operation.
///
/// # Errors
/// The fault. Nothing of it may be applied then.
pub fn parse(operation: &[u8], scope_of: ScopeOf<'_>) -> Result<Operation, Refusal> {
    read(operation, scope_of).map_err(|refusal| Refusal { of_get: is_get(operation), ..refusal })
}

/// Whether an operation is `get`, by its first line.
fn is_get(operation: &[u8]) -> bool {
    operation.starts_with(b"get=1\n")
}

fn read(operation: &[u8], scope_of: ScopeOf<'_>) -> Result<Operation, Refusal> {
    let in_line = |line: usize| move |refusal: Refusal| Refusal { line, ..refusal };
    let text = std::str::from_utf8(operation)
        .map_err(|_| in_line(1)(Refusal::new(PROTOCOL, "the operation is not text (UTF-8)")))?;
    let mut lines = text.split('\n').zip(1..).take_while(|(line, _)| !line.is_empty());
    match lines.next() {
        Some(("get=1", _)) => match lines.next() {
            Some((_, line)) => Err(in_line(line)(Refusal::new(INVALID, "get=1 takes no lines"))),
            None => Ok(Operation::Get),
        },
        Some(("set=1", _)) => {
            let mut changes = Changes::default();
            for (line, number) in lines {
                set_line(&mut changes, line, scope_of).map_err(in_line(number))?;
            }
            Ok(Operation::Set(Box::new(changes)))
        }
        _ => Err(in_line(1)(Refusal::new(PROTOCOL, "an operation begins with get=1 or set=1"))),
    }
}

fn set_line(changes: &mut Changes, line: &str, scope_of: ScopeOf<'_>) -> Result<(), Refusal> {
    let (key, value) =
        line.split_once('=').ok_or_else(|| Refusal::new(PROTOCOL, "a line is a key, =, and a value"))?;
    if key == "public_key" {
        let key = PublicKey(*hex(key, value)?);
        changes.peers.push(PeerChange::new(key));
        return Ok(());
    }
    match changes.peers.last_mut() {
        Some(peer) => peer_line(peer, (key, value), scope_of),
        None => interface_line(changes, key, value),
    }
}

/// The name of a peer (`adit_name`), which the log prints.
fn name(key: &str, value: &str) -> Result<String, Refusal> {
    const LONGEST: usize = 64;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    match (1..=LONGEST).contains(&value.len()) && value.chars().all(is_plain) {
        true => Ok(value.to_owned()),
        false => Err(Refusal::invalid(key, "1 to 64 letters, digits and `._@-`")),
    }
}

fn interface_line(changes: &mut Changes, key: &str, value: &str) -> Result<(), Refusal> {
    match key {
        "private_key" => changes.private_key = Some(PrivateKey::new(*hex(key, value)?)),
        "listen_port" => changes.listen_port = Some(number(key, value, "a number up to 65535")?),
        "fwmark" => changes.fwmark = Some(number(key, value, "a number up to 4294967295")?),
        "replace_peers" => changes.replace_peers = is_true(key, value)?,
        _ => return Err(unknown(key, "an interface")),
    }
    Ok(())
}

fn peer_line(
    peer: &mut PeerChange,
    (key, value): (&str, &str),
    scope_of: ScopeOf<'_>,
) -> Result<(), Refusal> {
    match key {
        "preshared_key" => peer.preshared_key = Some(PresharedKey::new(*hex(key, value)?)),
        "endpoint" => peer.endpoint = Some(endpoint(key, value, scope_of)?),
        "persistent_keepalive_interval" => {
            peer.persistent_keepalive = Some(number(key, value, "a number of seconds up to 65535")?);
        }
        "allowed_ip" => peer.allowed_ips.push(allowed_ip(key, value)?),
        "replace_allowed_ips" => {
            peer.replace_allowed_ips = is_true(key, value)?;
            // Those above it in the operation go as well.
            peer.allowed_ips.clear();
        }
        "remove" => peer.remove = is_true(key, value)?,
        "update_only" => peer.update_only = is_true(key, value)?,
        // Ours: upstream's interface has no such keys, and `wg` never sends them.
        "adit_name" => peer.name = Some(name(key, value)?),
        "adit_blocked" => peer.blocked = Some(boolean(key, value)?),
        "adit_post_quantum" => peer.post_quantum = Some(post_quantum(key, value)?),
        "protocol_version" if value == "1" => {}
        "protocol_version" => return Err(Refusal::invalid(key, "1")),
        _ => return Err(unknown(key, "a peer")),
    }
    Ok(())
}

fn endpoint(key: &str, value: &str, scope_of: ScopeOf<'_>) -> Result<SocketAddr, Refusal> {
    let wrong = || Refusal::invalid(key, "ADDRESS:PORT or [ADDRESS%INTERFACE]:PORT");
    let Some((address, rest)) = value.split_once('%') else { return value.parse().map_err(|_| wrong()) };
    let (zone, port) = rest.rsplit_once("]:").ok_or_else(wrong)?;
    let address: Ipv6Addr = address.strip_prefix('[').and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
    let port = number(key, port, "a port up to 65535 behind an address")?;
    let scope = scope_of(zone).ok_or_else(|| Refusal::invalid(key, "an interface that is there behind %"))?;
    Ok(SocketAddrV6::new(address, port, 0, scope).into())
}

/// The key is printed as far as it is one, as it is in the log then.
fn unknown(key: &str, of: &str) -> Refusal {
    let shown: String = key.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
    Refusal::new(INVALID, format!("{shown} is no key of {of}"))
}

fn is_true(key: &str, value: &str) -> Result<bool, Refusal> {
    if value == "true" { Ok(true) } else { Err(Refusal::invalid(key, "only the value true")) }
}

fn post_quantum(key: &str, value: &str) -> Result<PostQuantum, Refusal> {
    match value {
        "off" => Ok(PostQuantum::Off),
        "on" => Ok(PostQuantum::On),
        "required" => Ok(PostQuantum::Required),
        _ => Err(Refusal::invalid(key, "off, on or required")),
    }
}

fn boolean(key: &str, value: &str) -> Result<bool, Refusal> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Refusal::invalid(key, "true or false")),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str, right: &str) -> Result<T, Refusal> {
    // Rust's numbers may have a plus sign.
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| digits).ok_or_else(|| Refusal::invalid(key, right))
}

fn allowed_ip(key: &str, value: &str) -> Result<AllowedIp, Refusal> {
    let net = |text: &str| -> Result<IpNet, Refusal> {
        text.parse().map_err(|_| Refusal::invalid(key, "ADDRESS/LENGTH, or -ADDRESS/LENGTH to remove it"))
    };
    match value.strip_prefix('-') {
        Some(rest) => net(rest).map(AllowedIp::Remove),
        None => net(value).map(AllowedIp::Add),
    }
}

/// A key of 64 hexadecimal digits. Which digit is wrong does not show.
fn hex(key: &str, value: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, Refusal> {
    let wrong = || Refusal::invalid(key, "64 hexadecimal digits");
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    let (pairs, []) = value.as_bytes().as_chunks::<2>() else { return Err(wrong()) };
    if pairs.len() != KEY_LEN {
        return Err(wrong());
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high).ok_or_else(wrong)? << 4 | digit(*low).ok_or_else(wrong)?;
    }
    Ok(bytes)
}

/// The answer to `get`.
pub fn print_status(status: &Status) -> Zeroizing<String> {
    // Long enough that it need not grow, which would leave copies of secrets behind.
    let peers: usize = status.peers.iter().map(|peer| 512 + 64 * peer.detail.allowed_ips.len()).sum();
    let mut out = Zeroizing::new(String::with_capacity(256 + peers));
    if let Some(private) = &status.private_key {
        print_key(&mut out, "private_key", private.as_bytes());
    }
    line(&mut out, "listen_port", status.listen_port);
    if status.fwmark != 0 {
        line(&mut out, "fwmark", status.fwmark);
    }
    status.peers.iter().for_each(|peer| print_peer(&mut out, peer));
    out.push_str("errno=0\n\n");
    out
}

fn print_peer(out: &mut String, peer: &PeerStatus) {
    let detail = &peer.detail;
    print_key(out, "public_key", &detail.public_key.0);
    print_key(out, "preshared_key", peer.preshared_key.as_bytes());
    line(out, "protocol_version", 1);
    if let Some(endpoint) = detail.endpoint {
        line(out, "endpoint", endpoint);
    }
    let last = detail.last_handshake.unwrap_or_default();
    line(out, "last_handshake_time_sec", last.as_secs());
    line(out, "last_handshake_time_nsec", last.subsec_nanos());
    line(out, "tx_bytes", detail.sent_bytes);
    line(out, "rx_bytes", detail.received_bytes);
    line(out, "persistent_keepalive_interval", detail.persistent_keepalive);
    detail.allowed_ips.iter().for_each(|net| line(out, "allowed_ip", net));
}

fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{key}={value}");
}

fn print_key(out: &mut String, key: &str, bytes: &[u8; KEY_LEN]) {
    out.push_str(key);
    out.push('=');
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out.push('\n');
}

/// The answer to `set`: `errno` is 0, or the negative number of the error.
pub fn print_outcome(outcome: Result<(), i32>) -> String {
    format!("errno={}\n\n", outcome.err().map_or(0, |errno| -errno))
}

/// The answer to an operation that was refused. An operation that is neither `get` nor `set` is answered as
/// `set`.
pub fn print_refusal(refusal: &Refusal) -> String {
    let Refusal { errno, of_get, .. } = refusal;
    if *of_get { format!("errno={errno}\n\n") } else { print_outcome(Err(*errno)) }
}

impl ConfigureError {
    /// Linux's number of the error, positive: the argument of [`print_outcome`].
    pub const fn errno(&self) -> i32 {
        match self {
            ConfigureError::TooManyPeers => INVALID,
            ConfigureError::Socket { errno, .. } => *errno,
        }
    }
}

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::{MAX_WAIT, Namespace, TestbedError};

/// How long either end waits for the next byte of the opposite end.
const STALLED: Duration = MAX_WAIT;
/// Bytes per read.
const CHUNK: usize = 256 * 1024;

/// How a file went over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes that arrived.
    pub bytes: u64,
    /// The time from the connection's start to the last byte's arrival.
    pub elapsed: Duration,
    /// Whether the bytes that arrived have the SHA-256 of those that were sent.
    pub intact: bool,
}

impl Transfer {
    /// Payload bits per second, in millions.
    pub fn megabits_per_second(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Sends `length` pseudo-random bytes over TCP from one namespace to `address` in the other.
/// The bytes are held in memory at both ends, so that making and checking them costs the transfer nothing.
pub fn transfer(
    from: &Namespace,
    to: &Namespace,
    address: IpAddr,
    length: usize,
) -> Result<Transfer, TestbedError> {
    transfer_with_timeout(from, to, address, length, Content::Random, STALLED)
}

/// The content that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing compresses it.
    Random,
    /// The ten digits, again and again.
    Digits,
}

/// Transfers that content, where either end waits so long for the next byte of the opposite end.
pub fn transfer_with_timeout(
    from: &Namespace,
    to: &Namespace,
    address: IpAddr,
    length: usize,
    content: Content,
    timeout: Duration,
) -> Result<Transfer, TestbedError> {
    let content = match content {
        Content::Random => pseudo_random(length),
        Content::Digits => b"0123456789".iter().copied().cycle().take(length).collect(),
    };
    let expected = Sha256::digest(&content);
    let failed = |what: &str| {
        let what = format!("{what} ({} to {address} in {})", from.name(), to.name());
        move |source| TestbedError::Network { what, source }
    };
    let listener = to
        .enter(|| TcpListener::bind(SocketAddr::new(address, 0)))?
        .map_err(failed("cannot listen for the file"))?;
    let target = listener.local_addr().map_err(failed("cannot listen for the file"))?;
    let connection = from
        .enter(|| TcpStream::connect_timeout(&target, timeout))?
        .map_err(failed("cannot connect to send the file"))?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&listener, length, timeout));
        let sent = send(connection, &content, timeout);
        let received = receiver.join().map_err(|_| TestbedError::Worker("receiving a file"))?;
        sent.map_err(failed("sending the file stalled"))?;
        let received = received.map_err(failed("receiving the file stalled"))?;
        let elapsed = start.elapsed();
        let intact = received.len() == length && Sha256::digest(&received) == expected;
        Ok(Transfer { bytes: received.len() as u64, elapsed, intact })
    })
}

fn send(mut connection: TcpStream, content: &[u8], timeout: Duration) -> std::io::Result<()> {
    connection.set_write_timeout(Some(timeout))?;
    connection.write_all(content)?;
    connection.shutdown(std::net::Shutdown::Write)?;
    // The end is the receiver's, so that the connection is not reset under the last bytes.
    connection.set_read_timeout(Some(timeout))?;
    read(&mut connection, &mut [0]).map(drop)
}

/// Reads on after a signal: a read with a time limit is not restarted by the kernel.
fn read(connection: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match connection.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn receive(listener: &TcpListener, length: usize, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let (mut connection, _) = listener.accept()?;
    connection.set_read_timeout(Some(timeout))?;
    let mut received = Vec::with_capacity(length);
    let mut chunk = vec![0; CHUNK];
    loop {
        match read(&mut connection, &mut chunk)? {
            0 => return Ok(received),
            count => received.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Bytes that do not compress and do not repeat: xorshift64* (Vigna 2016), the same in every run.
fn pseudo_random(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

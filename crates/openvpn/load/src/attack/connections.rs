//! Attackers that connect over TCP and do not speak OpenVPN.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use adit_load::Counters;

use super::sources::Sources;

/// How long one connection may take.
const TIMEOUT: Duration = Duration::from_millis(500);
/// How often the connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Connections that are opened each time: 2,000 a second.
const BATCH: usize = 40;
/// A record of that length (two bytes), and no opcode that OpenVPN knows.
const GARBAGE: [u8; 66] = {
    let mut bytes = [0xff; 66];
    bytes[0] = 0;
    bytes[1] = 64;
    bytes
};

/// The bytes that the attackers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Talk {
    /// Nothing.
    Silence,
    /// A record that is no OpenVPN packet, on each connection.
    Garbage,
}

/// Holds so many connections until `counters` say stop, and opens another for each that the server closes.
///
/// Runs in the calling thread.
pub(super) fn run(counters: &Counters, target: SocketAddr, talk: Talk, sources: Sources, count: usize) {
    let mut open: Vec<TcpStream> = Vec::new();
    let mut begun = 0;
    while !counters.is_stopped() {
        let start = Instant::now();
        open.retain_mut(is_open);
        for _ in 0..count.saturating_sub(open.len()).min(BATCH) {
            let Ok(mut stream) = sources.connect(begun, target, TIMEOUT) else { break };
            begun += 1;
            counters.add_begun(1);
            counters.add_done(1);
            if talk == Talk::Garbage {
                let _ = stream.write_all(&GARBAGE);
            }
            open.push(stream);
        }
        std::thread::sleep(LOOK_EVERY.saturating_sub(start.elapsed()));
    }
}

fn is_open(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 256]) {
        Ok(length) => length > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

//! The socket by which `wg` configures a device (<https://www.wireguard.com/xplatform/>), with the time that it takes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use adit_testbed::{TestbedError, wireguard_socket};

/// How long a device may take to answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes these changes, and gives how long it took from the connection to the whole answer.
pub(super) fn set(device: &str, changes: &str) -> Result<Duration, TestbedError> {
    let failed = |source| TestbedError::Network { what: format!("cannot configure {device}"), source };
    let (answer, time) = exchange(device, &format!("set=1\n{changes}\n")).map_err(failed)?;
    match answer.contains("errno=0\n") {
        true => Ok(time),
        false => Err(TestbedError::Output { command: format!("the socket of {device}"), output: answer }),
    }
}

fn exchange(device: &str, request: &str) -> std::io::Result<(String, Duration)> {
    let start = Instant::now();
    let mut socket = UnixStream::connect(wireguard_socket(device))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.write_all(request.as_bytes())?;
    let (mut answer, mut reader) = (String::new(), BufReader::new(socket));
    // An empty line ends the answer.
    while reader.read_line(&mut answer)? > 1 {}
    Ok((answer, start.elapsed()))
}

/// A peer that is added or changed: its key in hexadecimal digits, and the one address that it has.
pub(super) fn peer(key: &str, allowed: &str) -> String {
    format!("public_key={key}\nallowed_ip={allowed}/32\n")
}

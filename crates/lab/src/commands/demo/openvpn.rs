//! OpenVPN: `adit init`, `adit add-client`, `adit up` at both ends, and a renegotiation in the midst of pings.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_testbed::{Process, wait_until, wait_until_reachable};

use super::testbed::{ENDPOINT, NAME_SERVER, TIMEOUT, Testbed, inner_address};
use super::{Change, DemoError, Measured, show};

const PORT: u16 = 1194;
/// The renegotiation comes this many seconds after the connection, instead of after an hour.
const RENEGOTIATE_AFTER: u64 = 10;
/// Both ends send under the new key this many seconds after a renegotiation started, instead of a minute.
const SWITCH_AFTER: u64 = 5;

/// Brings the tunnel up and shows it.
pub(super) fn measure(testbed: &mut Testbed, proto: &str, file: usize) -> Result<Measured, DemoError> {
    let home = testbed.directory().join("vpn");
    let reach: [&dyn Display; 3] = [&"--full-tunnel", &"--dns", &NAME_SERVER];
    let words: [&dyn Display; 6] = [&"init", &home.display(), &"--endpoint", &ENDPOINT, &"--proto", &proto];
    testbed.adit(&[&words[..], &reach].concat())?;
    testbed.adit(&[&"add-client", &home.display(), &"laptop"])?;
    testbed.say(format_args!("a certificate authority, a server and a client made in {}", home.display()));
    let server_file = quicken(&home.join("server.conf"), RENEGOTIATE_AFTER)?;
    let client_file = quicken(&home.join("clients").join("laptop.ovpn"), 0)?;

    testbed.server = Some(testbed.left.spawn("server", testbed.up(&server_file))?);
    let listens = || testbed.left.is_bound(proto == "tcp", PORT).unwrap_or(false);
    wait_until("the server listening", TIMEOUT, listens)?;
    let inner = inner_address(&testbed.left)?;
    testbed.say(format_args!("server up, {inner} inside the tunnel"));

    testbed.client = Some(testbed.right.spawn("client", testbed.up(&client_file))?);
    let first_packet = wait_until_reachable(&testbed.right, inner, TIMEOUT)?;
    let connected = Instant::now();
    let client = inner_address(&testbed.right)?;
    testbed.say(format_args!("tunnel up, client is {client}; first packet after {}", show(first_packet)));

    testbed.beyond()?;
    let quiet = testbed.quiet(inner)?;
    testbed.say("pinging 100 times a second, in both directions, across a renegotiation ...");
    // Until both ends must have switched to the new keys.
    let end = connected + Duration::from_secs(RENEGOTIATE_AFTER + SWITCH_AFTER + 2);
    let left = end.saturating_duration_since(Instant::now());
    let across = testbed.both_ways(left, inner, client, || Ok(()))?;
    let renegotiations = renegotiations(testbed.server.as_ref());
    let lost = across.lost();
    testbed.say(format_args!("{} pings, {lost} lost, renegotiations: {renegotiations}", across.sent));
    let [to_server, to_client] = testbed.files(file, inner, client)?;
    let change = Change::Renegotiations(renegotiations);
    Ok(Measured { first_packet, to_server, to_client, quiet, across, change })
}

/// How often the ends renegotiated, as the server's log says.
fn renegotiations(server: Option<&Process>) -> usize {
    server.map_or(0, |server| server.count_lines(0, "renegotiated"))
}

/// Has a configuration file renegotiate soon instead of after an hour (0: leave that to the other end), and
/// switch keys soon after.
fn quicken(path: &Path, renegotiate_after: u64) -> Result<PathBuf, DemoError> {
    let failed = |source| DemoError::File { path: path.to_owned(), source };
    let mut text = std::fs::read_to_string(path).map_err(failed)?;
    text.push_str(&format!("\nreneg-sec {renegotiate_after}\nhand-window {SWITCH_AFTER}\n"));
    std::fs::write(path, text).map_err(failed)?;
    Ok(path.to_owned())
}

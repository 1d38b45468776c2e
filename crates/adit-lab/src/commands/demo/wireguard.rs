//! WireGuard: `adit wireguard` at both ends, configured through their sockets as `wg` does it, and a client whose port
//! changes in the midst of pings.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    TestbedError, WireGuardKeys, configure_wireguard, wait_until_reachable, wireguard_keys, wireguard_socket,
};

use super::testbed::{ENDPOINT, TIMEOUT, Testbed};
use super::{Change, DemoError, Measured, show};
use crate::subjects::wireguard::MTU;
use crate::testbed::bring_up;

const PORT: u16 = 51820;
/// The client's port after it changed.
const OTHER_PORT: u16 = 51821;
/// The server's and the client's address inside the tunnel.
const INNER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 8, 0, 1), Ipv4Addr::new(10, 8, 0, 2)];
/// Pings go on for so long; the port changes in their midst.
const PINGING: Duration = Duration::from_secs(4);

/// Brings the tunnel up and shows it.
pub(super) fn measure(testbed: &mut Testbed, file: usize) -> Result<Measured, DemoError> {
    let keys = wireguard_keys(testbed.directory())?;
    let devices = ["s", "c"].map(|end| format!("wg{}{end}", std::process::id()));
    testbed.leftovers = devices.iter().map(|device| wireguard_socket(device)).collect();
    let [server, client] = INNER.map(IpAddr::V4);
    testbed.say("a key for the server and one for the client made");

    let command = wireguard(testbed, &devices[0]);
    testbed.server = Some(testbed.left.spawn("server", command)?);
    configure_wireguard(&devices[0], &keys[0], Some(PORT), &keys[1], None, &INNER[1].to_string())?;
    bring_up(&testbed.left, &devices[0], &INNER[0].to_string(), MTU)?;
    testbed.say(format_args!("server up, {server} inside the tunnel"));

    let command = wireguard(testbed, &devices[1]);
    testbed.client = Some(testbed.right.spawn("client", command)?);
    configure_client(&devices[1], &keys, PORT)?;
    bring_up(&testbed.right, &devices[1], &INNER[1].to_string(), MTU)?;
    let first_packet = wait_until_reachable(&testbed.right, server, TIMEOUT)?;
    testbed.say(format_args!("tunnel up, client is {client}; first packet after {}", show(first_packet)));

    let quiet = testbed.quiet(server)?;
    testbed.say("pinging 100 times a second, in both directions, while the client's UDP port changes ...");
    let across = testbed.both_ways(PINGING, server, client, || {
        std::thread::sleep(PINGING / 2);
        configure_client(&devices[1], &keys, OTHER_PORT)
    })?;
    let lost = across.lost();
    testbed.say(format_args!("{} pings, {lost} lost; the client's port is {OTHER_PORT} now", across.sent));
    let [to_server, to_client] = testbed.files(file, server, client)?;
    Ok(Measured { first_packet, to_server, to_client, quiet, across, change: Change::Port })
}

/// The program for one end. What outlasts it is kept where the demo's files are.
fn wireguard(testbed: &Testbed, device: &str) -> Command {
    let mut command = Command::new(&testbed.program);
    command.args(["wireguard", "--foreground", device]).env("STATE_DIRECTORY", testbed.directory());
    command
}

/// Gives the client its key, its port and the server.
fn configure_client(device: &str, keys: &[WireGuardKeys; 2], port: u16) -> Result<(), TestbedError> {
    let [server, client] = keys;
    let endpoint = format!("{ENDPOINT}:{PORT}");
    configure_wireguard(device, client, Some(port), server, Some(&endpoint), &INNER[0].to_string())
}

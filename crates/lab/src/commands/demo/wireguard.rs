//! WireGuard: `adit init --wireguard`, `adit add-client --wireguard`, `adit up` at both ends, and a client whose port changes in the
//! midst of pings.

use std::time::Duration;

use adit_testbed::{set_wireguard_port, wait_until, wait_until_reachable, wireguard_socket};

use super::testbed::{ENDPOINT, NAME_SERVER, TIMEOUT, Testbed, inner_address};
use super::{Change, DemoError, Measured, show};

const PORT: u16 = 51820;
/// The client's port after it changed.
const OTHER_PORT: u16 = 51821;
/// Pings go on for so long; the port changes in their midst.
const PINGING: Duration = Duration::from_secs(4);

/// Brings the tunnel up and shows it.
pub(super) fn measure(testbed: &mut Testbed, file: usize) -> Result<Measured, DemoError> {
    let home = testbed.directory().join("vpn");
    let [server_device, device] = ["s", "c"].map(|end| format!("wg{}{end}", std::process::id()));
    testbed.leftovers = [&server_device, &device].map(|device| wireguard_socket(device)).to_vec();
    testbed.adit(&[
        &"init",
        &home.display(),
        &"--endpoint",
        &ENDPOINT,
        &"--wireguard",
        &"--dev",
        &server_device,
        &"--full-tunnel",
        &"--dns",
        &NAME_SERVER,
    ])?;
    testbed.adit(&[&"add-client", &home.display(), &device, &"--wireguard"])?;
    testbed.say(format_args!("a server and a client made in {}", home.display()));

    let command = testbed.up(&home.join(format!("{server_device}.conf")));
    testbed.server = Some(testbed.left.spawn("server", command)?);
    wait_until("the server listening", TIMEOUT, || testbed.left.is_bound(false, PORT).unwrap_or(false))?;
    let server = inner_address(&testbed.left)?;
    testbed.say(format_args!("server up, {server} inside the tunnel"));

    let command = testbed.up(&home.join("clients").join(format!("{device}.conf")));
    testbed.client = Some(testbed.right.spawn("client", command)?);
    let first_packet = wait_until_reachable(&testbed.right, server, TIMEOUT)?;
    let client = inner_address(&testbed.right)?;
    testbed.say(format_args!("tunnel up, client is {client}; first packet after {}", show(first_packet)));

    testbed.beyond()?;
    let quiet = testbed.quiet(server)?;
    testbed.say("pinging 100 times a second, in both directions, while the client's UDP port changes ...");
    let across = testbed.both_ways(PINGING, server, client, || {
        std::thread::sleep(PINGING / 2);
        set_wireguard_port(&device, OTHER_PORT)
    })?;
    let lost = across.lost();
    testbed.say(format_args!("{} pings, {lost} lost; the client's port is {OTHER_PORT} now", across.sent));
    let [to_server, to_client] = testbed.files(file, server, client)?;
    Ok(Measured { first_packet, to_server, to_client, quiet, across, change: Change::Port })
}

//! IPsec: `adit up` at both ends with files of swanctl, and rekeys of the child SA and of the IKE SA in the midst of pings.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use adit_testbed::{Process, TestbedError, wait_until_reachable};

use super::testbed::{ENDPOINT, TIMEOUT, Testbed};
use super::{Change, DemoError, Measured, show};

/// The ends' addresses in the networks that the tunnel joins, the server's first.
const INNER: [[u8; 4]; 2] = [[10, 77, 1, 1], [10, 77, 2, 1]];
/// The host beyond the server, and its network.
const HOST: [u8; 4] = [203, 0, 113, 80];
const BEYOND: &str = "203.0.113.0/24";
const NETWORKS: [&str; 2] = ["10.77.1.0/24", "10.77.2.0/24"];
/// The client rekeys the child SA and the IKE SA so long after they were made, up to a tenth earlier.
const REKEY_AFTER: [u64; 2] = [4, 6];
/// Pings go on for so long.
const PINGING: Duration = Duration::from_secs(8);
/// The start of the SPIs of a child SA in the log.
const SPIS: &str = "SPIs ";

/// Brings the tunnel up and shows it.
pub(super) fn measure(testbed: &mut Testbed, file: usize) -> Result<Measured, DemoError> {
    let [server, client] = INNER.map(IpAddr::from);
    let files = [write(testbed, 0)?, write(testbed, 1)?];
    testbed.say(format_args!("two files of swanctl written in {}", testbed.directory().display()));
    for (namespace, address) in [(&testbed.left, server), (&testbed.right, client)] {
        namespace.ip(&["address", "add", &format!("{address}/32"), "dev", "lo"])?;
    }
    testbed.join_networks(NETWORKS[1])?;

    let mut process = testbed.left.spawn("server", testbed.up(&files[0]))?;
    process.wait_for_line(0, "tunnel up", TIMEOUT)?;
    testbed.server = Some(process);
    testbed.say(format_args!("server up, {server} inside the tunnel"));
    testbed.client = Some(testbed.right.spawn("client", testbed.up(&files[1]))?);
    let first_packet = wait_until_reachable(&testbed.right, server, TIMEOUT)?;
    let connected = Instant::now();
    testbed.say(format_args!("tunnel up, client is {client}; first packet after {}", show(first_packet)));
    let host = IpAddr::from(HOST);
    wait_until_reachable(&testbed.right, host, TIMEOUT)?;
    testbed.say(format_args!("the client reaches {host} beyond the server, which forwards"));

    let quiet = testbed.quiet(server)?;
    testbed.say("pinging 100 times a second, in both directions, across rekeys of both kinds ...");
    let mut seen = BTreeSet::new();
    seen.extend(spis(testbed.server.as_mut())?);
    let left = (connected + PINGING).saturating_duration_since(Instant::now());
    let across = testbed.both_ways(left, server, client, || Ok(()))?;
    seen.extend(spis(testbed.server.as_mut())?);
    let rekeys = seen.len().saturating_sub(1);
    let lost = across.lost();
    testbed.say(format_args!(
        "{} pings, {lost} lost; the child SA is {}",
        across.sent,
        if rekeys > 0 { "another one" } else { "the first one" }
    ));
    let [to_server, to_client] = testbed.files(file, server, client)?;
    Ok(Measured { first_packet, to_server, to_client, quiet, across, change: Change::Rekeys(rekeys) })
}

/// Writes an end's file. The names of files are those of tunnels in `adit status`.
fn write(testbed: &Testbed, own: usize) -> Result<PathBuf, DemoError> {
    let names = ["server", "client"];
    let other = 1 - own;
    let networks = [format!("{}, {BEYOND}", NETWORKS[0]), NETWORKS[1].to_owned()];
    let (peer, starts) = match own {
        0 => (String::new(), String::new()),
        _ => {
            let [child, ike] = REKEY_AFTER;
            let starts = format!("   start_action = start\n   rekey_time = {child}s\n");
            (format!("  remote_addrs = {ENDPOINT}\n  rekey_time = {ike}s\n"), starts)
        }
    };
    let text = format!(
        "connections {{\n site {{\n{peer}  local {{\n   auth = psk\n   id = {}\n  }}\n  remote {{\n   auth = psk\n   id = {}\n  }}\n  \
         children {{\n  net {{\n   local_ts = {}\n   remote_ts = {}\n   esp_proposals = aes256gcm16-x25519\n{starts}  }}\n  }}\n }}\n}}\n\
         secrets {{\n ike-site {{\n  secret = \"a secret of this demo alone\"\n }}\n}}\n",
        names[own], names[other], networks[own], networks[other],
    );
    let path = testbed.directory().join(format!("{}.conf", names[own]));
    std::fs::write(&path, text).map_err(|source| DemoError::File { path: path.clone(), source })?;
    Ok(path)
}

/// The SPIs of the child SA, as the server writes them to its log on SIGUSR2.
fn spis(server: Option<&mut Process>) -> Result<Option<String>, TestbedError> {
    let Some(server) = server else { return Ok(None) };
    let mark = server.mark();
    server.write_state();
    let line = server.wait_for_line(mark, SPIS, TIMEOUT)?;
    Ok(line.split_once(SPIS).map(|(_, spis)| spis.to_owned()))
}

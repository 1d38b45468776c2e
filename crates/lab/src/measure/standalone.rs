//! Measurements without a tunnel between two ends: a program's own benchmark, and many clients of one server.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use adit_testbed::{Clients, Ends, Flood, Probe, TestbedError, Usage, find_saturation_from};

use super::{note, note_times};
use crate::error::LabError;
use crate::layout::client_address;
use crate::link::Link;
use crate::record::Outcome;
use crate::subjects::{Subject, Tools};
use crate::testbed::{Testbed, WIRE};

/// Bytes of payload that the clients send, as much as every tunnel carries in one piece.
const PAYLOAD: usize = 1300;
/// How long the clients may take to come up, and each of them more.
const TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT_EACH: Duration = Duration::from_millis(200);
/// How often the clients' devices are listed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A server that listens may still be starting, which is not its clients' work.
const SETTLE: Duration = Duration::from_millis(500);
/// The time for an echo reply through a tunnel that is up.
const REPLY: Duration = Duration::from_secs(2);
/// The memory of a client at most, in KiB: where the machine does not have that for all, nothing is tried.
const MEMORY_EACH: u64 = 12 * 1024;

/// Runs a program's own benchmark, as it would run by hand.
pub(super) fn in_memory(subject: &dyn Subject, tools: &Tools) -> Result<Outcome, LabError> {
    let mut outcome = Outcome::default();
    for (name, value) in subject.in_memory(tools)? {
        note(&mut outcome, &name, value);
    }
    Ok(outcome)
}

/// One server, and so many clients that start at once; then all of them send.
pub(super) fn clients(
    link: &Link,
    subject: &dyn Subject,
    tools: &Tools,
    count: u32,
    time: Duration,
) -> Result<Outcome, LabError> {
    has_memory_for(count)?;
    let mut testbed = Testbed::build(link)?;
    prepare(&testbed, count)?;
    let commands = subject.clients(&mut testbed, tools, count)?;
    let logs = testbed.directory.path().join("clients");
    std::fs::create_dir(&logs).map_err(|source| LabError::File { path: logs.clone(), source })?;
    let server = testbed.server.processes()?;
    std::thread::sleep(SETTLE);
    let before = Usage::of(&server);
    let start = Instant::now();
    let mut running = Clients::start(&testbed.client, commands, &logs)?;
    let devices = wait_for(&testbed, &mut running, count, start)?;
    let elapsed = start.elapsed();
    let (after, theirs) = (Usage::of(&server), Usage::of(&running.processes()));

    let mut outcome = Outcome::default();
    let each = f64::from(count);
    note(&mut outcome, "storm_ms", elapsed.as_secs_f64() * 1e3);
    note(&mut outcome, "storm_per_s", each / elapsed.as_secs_f64());
    let work = after.processor_seconds - before.processor_seconds;
    note(&mut outcome, "server_cpu_per_client_ms", work * 1e3 / each);
    note(&mut outcome, "client_cpu_per_client_ms", theirs.processor_seconds * 1e3 / each);
    // Not PSS: the more clients there are, the less of the shared memory is the server's.
    let memory = after.resident_kib - before.resident_kib;
    note(&mut outcome, "server_rss_per_client_kib", memory / each);
    note(&mut outcome, "server_pss_kib", after.proportional_kib);
    note(&mut outcome, "server_rss_kib", after.resident_kib);
    note(&mut outcome, "client_pss_kib", theirs.proportional_kib / each);

    let ends = &testbed.ends(true);
    let replies = replies(ends, &devices)?;
    note(&mut outcome, "clients", replies.len() as f64);
    note_times(&mut outcome, "idle", &replies);
    let flood = |rate| Flood { size: PAYLOAD, rate, time, segmented: false };
    let rates = flood(find_saturation_from(ends, &devices, PAYLOAD)?).run_from(ends, &devices)?;
    note(&mut outcome, "offered_pps", rates.sent);
    note(&mut outcome, "received_pps", rates.received);
    note(&mut outcome, "received_mbit", rates.received * PAYLOAD as f64 * 8.0 / 1e6);
    Ok(outcome)
}

fn has_memory_for(count: u32) -> Result<(), LabError> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let there = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let needed = u64::from(count) * MEMORY_EACH;
    match there {
        Some(there) if there < needed => Err(LabError::Usage(format!(
            "{count} clients may need {} MiB, and {} MiB are free",
            needed / 1024,
            there / 1024
        ))),
        _ => Ok(()),
    }
}

/// Gives the client's end an address for each of them.
fn prepare(testbed: &Testbed, count: u32) -> Result<(), LabError> {
    let mut batch = String::new();
    for number in 0..count {
        let _ = writeln!(batch, "address add {}/32 dev {WIRE}", client_address(number));
    }
    let file = testbed.directory.write("addresses", &batch)?;
    testbed.client.ip(&["-batch", &file.display().to_string()])?;
    testbed.server.ip(&["route", "add", "198.18.0.0/15", "dev", WIRE])?;
    // All tunnels lead to the same network: a reply may come through another one than the kernel would choose.
    for filter in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv4/conf/{filter}/rp_filter");
        let written = testbed.client.enter(|| std::fs::write(&path, "0"))?;
        written.map_err(|source| LabError::File { path: path.into(), source })?;
    }
    Ok(())
}

/// The tunnels' devices, as soon as all of them have an address.
fn wait_for(
    testbed: &Testbed,
    clients: &mut Clients,
    count: u32,
    start: Instant,
) -> Result<Vec<String>, LabError> {
    let timeout = TIMEOUT + TIMEOUT_EACH * count;
    loop {
        let devices = up(&testbed.client.ip(&["-json", "-4", "address", "show"])?);
        if devices.len() >= count as usize {
            return Ok(devices);
        }
        let waited = start.elapsed();
        let ended = clients.ended();
        if waited > timeout || ended.as_ref().is_some_and(|(ended, _)| *ended == count as usize) {
            let (ended, text) = ended.unwrap_or_default();
            let why = format!(
                "{} of {count} clients came up in {:.0} s, and {ended} gave up; the first of them said: {text}",
                devices.len(),
                waited.as_secs_f64()
            );
            return Err(LabError::Usage(why));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The TUN devices of `ip -json -4 address`, which shows those with an address.
fn up(json: &str) -> Vec<String> {
    let links: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let links = links.as_array().map(Vec::as_slice).unwrap_or_default();
    let names = links.iter().filter_map(|link| link["ifname"].as_str());
    names.filter(|name| !matches!(*name, "lo" | WIRE)).map(str::to_owned).collect()
}

/// The round trip of each client that is answered.
fn replies(ends: &Ends<'_>, devices: &[String]) -> Result<Vec<Duration>, TestbedError> {
    ends.client.enter(|| {
        let ask = |device: &String| -> Result<Option<Duration>, TestbedError> {
            let probe = Probe::open_on(ends.target, device)?;
            Ok(probe.first_reply(Instant::now(), REPLY).ok())
        };
        devices.iter().filter_map(|device| ask(device).transpose()).collect()
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_an_address_of_its_own() {
        assert_eq!(client_address(0).to_string(), "198.18.0.1");
        assert_eq!(client_address(999).to_string(), "198.18.3.232");
    }

    #[test]
    fn a_tunnel_is_up_when_it_has_an_address() {
        let json = r#"[{"ifname":"lo"},{"ifname":"wire"},{"ifname":"tun0"},{},{"ifname":"tun17"}]"#;
        assert_eq!(up(json), ["tun0", "tun17"]);
        assert!(up("nothing").is_empty());
    }
}

//! TCP flows, and the processor time they take.

use std::process::Command;
use std::time::Duration;

use crate::{Ends, MAX_WAIT, Process, TestbedError, program, wait_until};

/// iperf3's own.
const IPERF_PORT: u16 = 5201;

/// The time that a flow may take beyond its own, to begin and to end.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One TCP flow.
#[derive(Clone, Copy, Debug)]
pub struct TcpLoad {
    /// How long.
    pub time: Duration,
    /// Whether it goes from the server to the client.
    pub back: bool,
    /// Bytes that the sender writes at once; iperf3's own 128 KiB if absent.
    pub write: Option<u32>,
    /// A few characters, repeated, in place of random bytes.
    pub compressible: bool,
}

/// How a TCP flow went.
#[derive(Clone, Copy, Debug)]
pub struct TcpFlow {
    /// Goodput: 10^6 bits of payload a second.
    pub megabits: f64,
    /// 10^9 bytes of payload.
    pub gigabytes: f64,
    /// The seconds of all processors, for all that ran meanwhile.
    pub processor_seconds: f64,
}

/// A server for one flow, and the client's command.
///
/// Each flow has a server of its own: between two flows an iperf3 server closes its listening socket and opens
/// another, and resets the client that connected meanwhile.
fn iperf(ends: &Ends<'_>, time: Duration) -> Result<(Process, Command), TestbedError> {
    let target = ends.target.to_string();
    let mut server = program("iperf3")?;
    server.args(["--server", "--one-off", "--bind", &target]);
    let server = ends.server.spawn("the iperf3 server", server)?;
    let listens = || ends.server.is_bound(true, IPERF_PORT).unwrap_or(false);
    wait_until("iperf3 to listen", MAX_WAIT, listens)?;
    let mut client = program("iperf3")?;
    client.args(["--client", &target, "--json", "--time"]).arg(time.as_secs().max(1).to_string());
    Ok((server, client))
}

/// Runs one TCP flow.
pub fn tcp_flow(ends: &Ends<'_>, load: TcpLoad) -> Result<TcpFlow, TestbedError> {
    let (mut server, mut client) = iperf(ends, load.time)?;
    if load.back {
        client.arg("--reverse");
    }
    if let Some(write) = load.write {
        client.args(["--length", &write.to_string()]);
    }
    if load.compressible {
        client.arg("--repeating-payload");
    }
    let before = processor_seconds()?;
    let mut client = ends.client.spawn("the iperf3 client", client)?;
    // When a tunnel dies under it, it waits for TCP to give up, which takes a quarter of an hour.
    let status = client.wait(load.time + TIMEOUT)?;
    let processor_seconds = processor_seconds()? - before;
    let text = client.log();
    if !status.success() {
        return Err(TestbedError::Failed {
            command: "iperf3 --client".to_owned(),
            status: status.to_string(),
            output: text.trim().to_owned(),
        });
    }
    server.wait(MAX_WAIT)?;
    // Both streams are in it: a warning may stand around the report.
    let report = text.find('{').zip(text.rfind('}')).and_then(|(start, end)| text.get(start..=end));
    let json: serde_json::Value = serde_json::from_str(report.unwrap_or_default()).unwrap_or_default();
    let received = &json["end"]["sum_received"];
    match (received["bits_per_second"].as_f64(), received["bytes"].as_f64()) {
        (Some(bits), Some(bytes)) if bytes > 0.0 => {
            Ok(TcpFlow { megabits: bits / 1e6, gigabytes: bytes / 1e9, processor_seconds })
        }
        _ => Err(TestbedError::Output { command: "iperf3".to_owned(), output: text }),
    }
}

/// Does something while a TCP flow from the client to the server is under way.
pub fn while_busy<T>(
    ends: &Ends<'_>,
    time: Duration,
    work: impl FnOnce() -> Result<T, TestbedError>,
) -> Result<T, TestbedError> {
    let (_server, client) = iperf(ends, time + TIMEOUT)?;
    let mut flow = ends.client.spawn("iperf3", client)?;
    let outcome = work();
    if !flow.is_running() {
        return Err(TestbedError::Output { command: "iperf3 (ended early)".to_owned(), output: flow.log() });
    }
    flow.terminate(MAX_WAIT)?;
    outcome
}

/// The seconds that all processors have worked since the machine started (proc(5): user, nice, system, irq,
/// softirq, in hundredths of a second).
pub fn processor_seconds() -> Result<f64, TestbedError> {
    let path = "/proc/stat";
    let text =
        std::fs::read_to_string(path).map_err(|source| TestbedError::File { path: path.into(), source })?;
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    match ticks[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, ..] => {
            Ok((user + nice + system + irq + softirq) / 100.0)
        }
        _ => Err(TestbedError::Output { command: path.to_owned(), output: first.to_owned() }),
    }
}

//! The workloads.

mod cpu_usage;
mod load;
mod roaming;
pub(crate) mod standalone;

use std::time::Duration;

use adit_testbed::{PingReport, TestbedError, round_trips, while_busy};

use crate::error::LabError;
use crate::link::Link;
use crate::record::Outcome;
use crate::subjects::{Subject, Tools, Tunnel};
use crate::testbed::Started;
use crate::testbed::Testbed;
use crate::workload::Workload;

/// A flow has found its speed by then.
const SETTLING: Duration = Duration::from_millis(500);

/// Runs one workload through a tunnel that is up.
pub(crate) fn run(
    load: &Workload,
    testbed: &Testbed,
    tunnel: &Tunnel,
    time: Duration,
) -> Result<Outcome, TestbedError> {
    let mut outcome = Outcome::default();
    if !matches!(load, Workload::Start { .. }) {
        testbed.wait_until_idle();
    }
    let ends = &testbed.ends(tunnel.inner);
    let (before, frames) = (testbed.dropped()?, testbed.frames());
    match load {
        Workload::Tcp { write, payload } => load::tcp(&mut outcome, testbed, ends, (*write, *payload), time)?,
        Workload::Transfer { kib, payload } => load::transfer(&mut outcome, testbed, ends, *kib, *payload)?,
        Workload::Udp { size } => load::udp(&mut outcome, testbed, ends, *size, time)?,
        Workload::Sweep { size, from, to } => load::sweep(&mut outcome, ends, *size, [*from, *to], time)?,
        Workload::Latency { count, loaded } => {
            let count = count.unwrap_or_else(|| echoes(time));
            latency(&mut outcome, testbed, tunnel, count, *loaded)?;
        }
        Workload::Move {} => roaming::roam(&mut outcome, testbed, ends, time)?,
        Workload::Start { .. } => note_starts(&mut outcome, &tunnel.starts),
        // See `run_standalone`.
        Workload::Clients { .. } | Workload::InMemory {} => {}
    }
    if let (Some(before), Some(after)) = (frames, testbed.frames()) {
        roaming::note_frames(&mut outcome, after - before);
    }
    if tunnel.inner && !matches!(load, Workload::Start { .. }) {
        note(&mut outcome, "queue_dropped", (testbed.dropped()? - before) as f64);
        if let Some([mtu, queue]) = testbed.tunnel_device()? {
            note(&mut outcome, "tunnel_mtu_bytes", mtu as f64);
            note(&mut outcome, "tunnel_queue", queue as f64);
        }
    }
    Ok(outcome)
}

/// Runs one workload that has no tunnel between two ends.
pub(crate) fn run_standalone(
    load: &Workload,
    link: &Link,
    subject: &dyn Subject,
    tools: &Tools,
    time: Duration,
) -> Result<Outcome, LabError> {
    match load {
        Workload::Clients { count } => standalone::clients(link, subject, tools, *count, time),
        Workload::InMemory {} => standalone::in_memory(subject, tools),
        _ => Ok(Outcome::default()),
    }
}

/// Sends a second's echoes a second.
fn echoes(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn note(outcome: &mut Outcome, name: &str, value: f64) {
    if value.is_finite() {
        outcome.figures.insert(name.to_owned(), value);
    }
}

/// The median of each kind, and all of them. The bare wire has no tunnel to start.
fn note_starts(outcome: &mut Outcome, starts: &[Started]) {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let replies: Vec<f64> = starts.iter().map(|start| millis(start.reply)).collect();
    let handshakes: Vec<f64> = starts.iter().filter_map(|start| start.handshake.map(millis)).collect();
    for (name, values) in [("start_ms", replies), ("handshake_ms", handshakes)] {
        if let Some(median) = crate::stats::median(&values) {
            note(outcome, name, median);
            outcome.sample(name, values);
        }
    }
}

fn latency(
    outcome: &mut Outcome,
    testbed: &Testbed,
    tunnel: &Tunnel,
    count: u32,
    loaded: bool,
) -> Result<(), TestbedError> {
    let ends = &testbed.ends(tunnel.inner);
    let clock = cpu_usage::Clock::start(testbed)?;
    note_round_trips(outcome, "idle", &round_trips(ends, count)?);
    clock.note_seconds(outcome, "idle");
    if loaded {
        let time = SETTLING + Duration::from_millis(count.into());
        let report = while_busy(ends, time, || {
            std::thread::sleep(SETTLING);
            round_trips(ends, count)
        })?;
        note_round_trips(outcome, "loaded", &report);
    }
    Ok(())
}

fn note_round_trips(outcome: &mut Outcome, when: &str, report: &PingReport) {
    note_times(outcome, when, &report.round_trips);
    note(outcome, &format!("{when}_lost"), report.lost().into());
}

/// Percentiles of round trips, and all of them.
fn note_times(outcome: &mut Outcome, when: &str, times: &[Duration]) {
    let micros: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        let value = crate::stats::percentile(&micros, share).unwrap_or(f64::NAN);
        note(outcome, &format!("{when}_{name}_us"), value);
    }
    outcome.sample(&format!("{when}_us"), micros);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_starts_have_a_median_and_a_curve() {
        let start = |millis: u64| Started {
            reply: Duration::from_millis(millis),
            handshake: (millis > 20).then(|| Duration::from_millis(millis - 20)),
        };
        let mut outcome = Outcome::default();
        note_starts(&mut outcome, &[start(30), start(10), start(50)]);
        assert_eq!(outcome.figures["start_ms"], 30.0);
        assert_eq!(outcome.figures["handshake_ms"], 20.0);
        assert_eq!(outcome.samples["start_ms"], [10.0, 30.0, 50.0]);
        note_starts(&mut Outcome::default(), &[]);
    }
}

//! The workloads.

use std::time::Duration;

use adit_testbed::{
    Ends, Flood, PingReport, TcpLoad, TestbedError, find_saturation, round_trips, tcp_flow, while_busy,
};

use crate::ground::Ground;
use crate::plan::Workload;
use crate::record::Outcome;
use crate::subjects::Tunnel;

/// A flow has found its speed by then.
const SETTLING: Duration = Duration::from_millis(500);

/// Runs one workload.
pub(crate) fn run(
    load: &Workload,
    ground: &Ground,
    tunnel: Tunnel,
    time: Duration,
) -> Result<Outcome, TestbedError> {
    let mut outcome = Outcome::default();
    let ends = &ground.ends(tunnel.inner);
    let before = ground.dropped()?;
    match load {
        Workload::Tcp { write } => tcp(&mut outcome, ends, *write, time)?,
        Workload::Udp { size } => udp(&mut outcome, ends, (*size).into(), time)?,
        Workload::Latency {} => latency(&mut outcome, ends, time)?,
        // The bare wire has no tunnel to start.
        Workload::Start {} => {
            if let Some(first) = tunnel.first_reply {
                note(&mut outcome, "start_ms", first.as_secs_f64() * 1e3);
            }
        }
    }
    if tunnel.inner && !matches!(load, Workload::Start {}) {
        note(&mut outcome, "queue_dropped", (ground.dropped()? - before) as f64);
    }
    Ok(outcome)
}

fn note(outcome: &mut Outcome, name: &str, value: f64) {
    if value.is_finite() {
        outcome.figures.insert(name.to_owned(), value);
    }
}

fn tcp(
    outcome: &mut Outcome,
    ends: &Ends<'_>,
    write: Option<u32>,
    time: Duration,
) -> Result<(), TestbedError> {
    for (back, direction) in [(false, "up"), (true, "down")] {
        let flow = tcp_flow(ends, TcpLoad { time, back, write })?;
        note(outcome, &format!("{direction}_mbit"), flow.megabits);
        note(outcome, &format!("{direction}_cpu_s_per_gb"), flow.processor_seconds / flow.gigabytes);
    }
    Ok(())
}

fn udp(outcome: &mut Outcome, ends: &Ends<'_>, size: usize, time: Duration) -> Result<(), TestbedError> {
    let rate = find_saturation(ends, size, false)?;
    let flood = |rate| Flood { size, rate, time, segmented: false }.run(ends);
    let (once, twice) = (flood(rate)?, flood(rate.saturating_mul(2))?);
    note(outcome, "offered_pps", once.sent);
    note(outcome, "received_pps", once.received);
    note(outcome, "double_offered_pps", twice.sent);
    note(outcome, "double_received_pps", twice.received);
    note(outcome, "kept", twice.received / once.received);
    Ok(())
}

fn latency(outcome: &mut Outcome, ends: &Ends<'_>, time: Duration) -> Result<(), TestbedError> {
    let idle = round_trips(ends, time)?;
    note_round_trips(outcome, "idle", &idle);
    let loaded = while_busy(ends, time, || {
        std::thread::sleep(SETTLING);
        round_trips(ends, time)
    })?;
    note_round_trips(outcome, "loaded", &loaded);
    Ok(())
}

fn note_round_trips(outcome: &mut Outcome, when: &str, report: &PingReport) {
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        let value = report.percentile(share).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
        note(outcome, &format!("{when}_{name}_us"), value);
    }
    note(outcome, &format!("{when}_lost"), report.lost().into());
    let times = report.round_trips.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    outcome.sample(&format!("{when}_us"), times);
}

//! The workloads.

use std::time::Duration;

use adit_testbed::{
    Ends, Flood, PingReport, TcpLoad, TestbedError, find_saturation, round_trips, tcp_flow,
    wait_until_reachable, while_busy,
};

use crate::ground::{Ground, PATIENCE};
use crate::plan::Workload;
use crate::record::Outcome;
use crate::subjects::Tunnel;
use crate::wire::Counts;

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
    let (before, frames) = (ground.dropped()?, ground.frames());
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
        Workload::Move {} => moved(&mut outcome, ground, ends, time)?,
    }
    if let (Some(before), Some(after)) = (frames, ground.frames()) {
        note_frames(&mut outcome, after - before);
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

/// The client moves after a quarter of the time, and afterwards back.
fn moved(
    outcome: &mut Outcome,
    ground: &Ground,
    ends: &Ends<'_>,
    time: Duration,
) -> Result<(), TestbedError> {
    let report = std::thread::scope(|scope| {
        let echoes = scope.spawn(|| round_trips(ends, time));
        std::thread::sleep(time / 4);
        let moved = ground.move_client();
        let report = echoes.join().map_err(|_| TestbedError::Worker("sending echoes"))?;
        moved.and(report)
    })?;
    note(outcome, "move_lost", report.lost().into());
    // Echoes go out once a millisecond.
    note(outcome, "move_outage_ms", longest_gap(&report.missing) as f64);
    ground.move_client()?;
    wait_until_reachable(ends.client, ends.target, PATIENCE).map(drop)
}

/// The most sequence numbers in a row.
fn longest_gap(missing: &[u16]) -> usize {
    missing.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(<[u16]>::len).max().unwrap_or(0)
}

/// What the lab's own wire did to the frames, as shares of all.
fn note_frames(outcome: &mut Outcome, frames: Counts) {
    let named = [
        ("link_lost", frames.lost),
        ("link_reordered", frames.reordered),
        ("link_duplicated", frames.duplicated),
        ("link_crowded_out", frames.crowded_out),
    ];
    for (name, count) in named.into_iter().filter(|(_, count)| *count > 0) {
        note(outcome, name, count as f64 / frames.handed as f64);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_what_is_missing_in_a_row() {
        assert_eq!(longest_gap(&[]), 0);
        assert_eq!(longest_gap(&[3, 7, 8, 9, 12, 13]), 3);
        assert_eq!(longest_gap(&[65_534, 65_535, 0]), 2);
    }
}

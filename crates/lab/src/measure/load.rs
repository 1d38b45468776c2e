//! Flows and packets through a tunnel.

use std::time::Duration;

use adit_testbed::{
    Content, Ends, Flood, Sweep, TcpLoad, TestbedError, find_saturation, largest_payload, tcp_flow,
    transfer_with_timeout,
};

use super::cpu_usage::Clock;
use super::note;
use crate::record::Outcome;
use crate::testbed::Testbed;
use crate::workload::{NamedSize, Payload, Size};

/// The loads of a sweep share the plan's time: there are about so many.
const LOADS: u32 = 5;
/// The least that a load of a sweep runs.
const LEAST: Duration = Duration::from_secs(1);
/// Over the slowest link a segment takes more than a second, and several may have to be sent again.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn tcp(
    outcome: &mut Outcome,
    testbed: &Testbed,
    ends: &Ends<'_>,
    (write, payload): (Option<u32>, Payload),
    time: Duration,
) -> Result<(), TestbedError> {
    let compressible = payload == Payload::Compressible;
    for (back, direction) in [(false, "up_"), (true, "down_")] {
        let clock = Clock::start(testbed)?;
        let flow = tcp_flow(ends, TcpLoad { time, back, write, compressible })?;
        clock.note_for(outcome, direction, flow.gigabytes * 1e9);
        clock.note_memory(outcome);
        note(outcome, &format!("{direction}mbit"), flow.megabits);
        note(outcome, &format!("{direction}cpu_s_per_gb"), flow.processor_seconds / flow.gigabytes);
    }
    Ok(())
}

pub(super) fn transfer(
    outcome: &mut Outcome,
    testbed: &Testbed,
    ends: &Ends<'_>,
    kib: u32,
    payload: Payload,
) -> Result<(), TestbedError> {
    let bytes = usize::try_from(kib).unwrap_or(usize::MAX).saturating_mul(1024);
    let content = match payload {
        Payload::Random => Content::Random,
        Payload::Compressible => Content::Digits,
    };
    // The listener needs an address, and the client's is not the same in every tunnel: one way is enough.
    let clock = Clock::start(testbed)?;
    let sent = transfer_with_timeout(ends.client, ends.server, ends.target, bytes, content, TIMEOUT)?;
    if !sent.intact {
        let output = format!("{} bytes came, but not those that were sent", sent.bytes);
        return Err(TestbedError::Output { command: "the transfer".to_owned(), output });
    }
    clock.note_for(outcome, "up_", sent.bytes as f64);
    clock.note_memory(outcome);
    note(outcome, "up_kbyte_s", sent.bytes as f64 / 1e3 / sent.elapsed.as_secs_f64());
    Ok(())
}

fn bytes(size: Size, ends: &Ends<'_>) -> Result<usize, TestbedError> {
    match size {
        Size::Bytes(size) => Ok(size.into()),
        Size::Named(NamedSize::Max) => largest_payload(ends),
    }
}

fn megabits(packets: f64, size: usize) -> f64 {
    packets * size as f64 * 8.0 / 1e6
}

pub(super) fn udp(
    outcome: &mut Outcome,
    testbed: &Testbed,
    ends: &Ends<'_>,
    size: Size,
    time: Duration,
) -> Result<(), TestbedError> {
    let size = bytes(size, ends)?;
    let rate = find_saturation(ends, size, false)?;
    let flood = |rate| Flood { size, rate, time, segmented: false }.run(ends);
    let clock = Clock::start(testbed)?;
    let once = flood(rate)?;
    clock.note_for(outcome, "", once.packets_received as f64 * size as f64);
    let twice = flood(rate.saturating_mul(2))?;
    note(outcome, "payload_bytes", size as f64);
    note(outcome, "offered_pps", once.sent);
    note(outcome, "received_pps", once.received);
    note(outcome, "received_mbit", megabits(once.received, size));
    note(outcome, "double_offered_pps", twice.sent);
    note(outcome, "double_received_pps", twice.received);
    note(outcome, "kept", twice.received / once.received);
    Ok(())
}

pub(super) fn sweep(
    outcome: &mut Outcome,
    ends: &Ends<'_>,
    size: Size,
    [from, to]: [u32; 2],
    time: Duration,
) -> Result<(), TestbedError> {
    let size = bytes(size, ends)?;
    let report = Sweep { size, from, to, time: (time / LOADS).max(LEAST) }.run(ends)?;
    note(outcome, "payload_bytes", size as f64);
    for (name, packets) in [
        ("ndr", report.no_drop),
        ("pdr", report.partial_drop),
        ("most", report.most),
        ("overload", report.last),
    ] {
        note(outcome, &format!("{name}_pps"), packets);
        note(outcome, &format!("{name}_mbit"), megabits(packets, size));
    }
    outcome.curves.insert("delivered_pps".to_owned(), report.loads);
    Ok(())
}

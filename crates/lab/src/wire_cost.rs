//! The cost of the lab's own wire, beside the kernel's.

use std::time::Duration;

use adit_testbed::{Ends, TcpLoad, TestbedError, round_trips, tcp_flow};

use crate::environment::{Bare, WireCost};
use crate::link::Link;
use crate::plan::Plan;
use crate::stats;
use crate::testbed::Testbed;

const FLOW: Duration = Duration::from_secs(1);
/// One a millisecond.
const ECHOES: u32 = 500;

/// Measures both where a plan has a link that takes the lab's own.
pub(crate) fn measure(plan: &Plan) -> Result<Option<WireCost>, TestbedError> {
    if !plan.links.iter().any(Link::is_in_user_space) {
        return Ok(None);
    }
    let own = Link { user_space: true, ..Link::plain("the lab's own") };
    Ok(Some(WireCost { kernel: bare(&Link::plain("the kernel's"))?, own: bare(&own)? }))
}

fn bare(link: &Link) -> Result<Bare, TestbedError> {
    let testbed = Testbed::build(link)?;
    let ends = testbed.ends(false);
    let flow = tcp_flow(&ends, TcpLoad { time: FLOW, back: false, write: None, compressible: false })?;
    let echoes = round_trips(&ends, ECHOES)?;
    let times: Vec<f64> = echoes.round_trips.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    let round_trip_us = stats::median(&times).ok_or_else(|| nothing_came_back(&ends))?;
    Ok(Bare { mbit: flow.megabits, cpu_s_per_gb: flow.processor_seconds / flow.gigabytes, round_trip_us })
}

fn nothing_came_back(ends: &Ends<'_>) -> TestbedError {
    TestbedError::TimedOut {
        what: format!("an echo from {} on a bare wire", ends.target),
        waited: Duration::from_millis(ECHOES.into()),
    }
}

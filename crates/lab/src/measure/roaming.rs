//! Roaming: the client's address changes under a tunnel. And the counts of the lab's own wire: frames and its
//! effects on them.

use std::time::Duration;

use adit_testbed::{Ends, TestbedError, round_trips, wait_until_reachable};

use super::{echoes, note};
use crate::record::Outcome;
use crate::testbed::{TIMEOUT, Testbed};
use crate::wire::Counts;

/// The client moves after a quarter of the time, and afterwards back.
pub(super) fn roam(
    outcome: &mut Outcome,
    testbed: &Testbed,
    ends: &Ends<'_>,
    time: Duration,
) -> Result<(), TestbedError> {
    let report = std::thread::scope(|scope| {
        let replies = scope.spawn(|| round_trips(ends, echoes(time)));
        std::thread::sleep(time / 4);
        let outcome = testbed.move_client();
        let report = replies.join().map_err(|_| TestbedError::Worker("sending echoes"))?;
        outcome.and(report)
    })?;
    note(outcome, "move_lost", report.lost().into());
    // Echoes go out once a millisecond.
    note(outcome, "move_outage_ms", longest_gap(&report.missing) as f64);
    testbed.move_client()?;
    wait_until_reachable(ends.client, ends.target, TIMEOUT).map(drop)
}

/// The most sequence numbers in a row.
fn longest_gap(missing: &[u16]) -> usize {
    missing.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(<[u16]>::len).max().unwrap_or(0)
}

/// Notes the frames that the lab's own wire lost, reordered, duplicated or dropped, as shares of all.
pub(super) fn note_frames(outcome: &mut Outcome, frames: Counts) {
    let named = [
        ("link_lost", frames.lost),
        ("link_reordered", frames.reordered),
        ("link_duplicated", frames.duplicated),
        ("link_crowded_out", frames.queue_full),
    ];
    for (name, count) in named.into_iter().filter(|(_, count)| *count > 0) {
        note(outcome, name, count as f64 / frames.handed as f64);
    }
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

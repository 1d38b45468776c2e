//! How much a tunnel carries at which load.

use std::time::Duration;

use crate::{Ends, Flood, Rates, TestbedError};

/// The factor from one load to the next.
const FACTOR: f64 = 1.5;
/// A load of so many times the most that ever arrived is well beyond saturation.
const BEYOND: f64 = 4.0;
/// How often the step between the last good load and the first bad one is halved.
const HALVINGS: u32 = 4;
/// Sending less than this share of the offered load is all that the sender can.
const EXHAUSTED: f64 = 0.9;
/// The share that may be lost at a "partial drop rate".
const PARTIAL: f64 = 0.01;

/// Loads from low to high.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// Bytes of payload.
    pub size: usize,
    /// Packets a second, the lowest load.
    pub from: u32,
    /// Packets a second, the highest load.
    pub to: u32,
    /// How long each load runs.
    pub time: Duration,
}

/// The results of a sweep, in packets a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepReport {
    /// The highest load of which all arrived, and of all lower ones, too; 0 if even the lowest lost one.
    pub no_drop: f64,
    /// The highest load of which no more than a hundredth was lost, and of no lower one more.
    pub partial_drop: f64,
    /// The most that arrived at any load.
    pub most: f64,
    /// The packets that arrived at the highest load.
    pub last: f64,
    /// Each load, offered and delivered, in ascending order.
    pub loads: Vec<[f64; 2]>,
}

impl Sweep {
    /// Offers one load after the other, then looks more closely where loss begins.
    pub fn run(self, ends: &Ends<'_>) -> Result<SweepReport, TestbedError> {
        let Sweep { size, time, .. } = self;
        self.run_with(|rate| Flood { size, rate, time, segmented: false }.run(ends))
    }

    fn run_with(
        self,
        mut offer: impl FnMut(u32) -> Result<Rates, TestbedError>,
    ) -> Result<SweepReport, TestbedError> {
        let mut steps = Vec::new();
        let mut most = 0.0_f64;
        let mut rate = self.from;
        while rate <= self.to {
            let rates = offer(rate)?;
            most = most.max(rates.received);
            let exhausted = rates.sent < EXHAUSTED * f64::from(rate);
            steps.push((rate, rates));
            if exhausted || rates.sent > BEYOND * most {
                break;
            }
            rate = (f64::from(rate) * FACTOR) as u32 + 1;
        }
        let mut report = SweepReport::default();
        report.last = steps.last().map_or(0.0, |(_, rates)| rates.received);
        report.no_drop = edge(&steps, 0.0, &mut offer)?;
        // Each edge has trials of its own, which may disagree a little: a load that loses nothing loses less than a
        // hundredth.
        report.partial_drop = edge(&steps, PARTIAL, &mut offer)?.max(report.no_drop);
        report.most = most.max(report.no_drop);
        report.loads = steps.iter().map(|(_, rates)| [rates.sent, rates.received]).collect();
        report.loads.sort_unstable_by(|one, other| one[0].total_cmp(&other[0]));
        Ok(report)
    }
}

/// The highest load that loses no more than this share.
fn edge(
    steps: &[(u32, Rates)],
    share: f64,
    offer: &mut impl FnMut(u32) -> Result<Rates, TestbedError>,
) -> Result<f64, TestbedError> {
    let good = |rates: &Rates| rates.lost() <= share;
    let mut first_bad = steps.len();
    for (index, (rate, rates)) in steps.iter().enumerate() {
        // Something else on the machine may have been in the way: only a load that fails twice has failed.
        if !good(rates) && !good(&offer(*rate)?) {
            first_bad = index;
            break;
        }
    }
    let Some((mut low, mut best)) = first_bad.checked_sub(1).and_then(|index| steps.get(index)).copied()
    else {
        return Ok(0.0);
    };
    if let Some((mut high, _)) = steps.get(first_bad).copied() {
        for _ in 0..HALVINGS {
            let middle = low + (high - low) / 2;
            let rates = offer(middle)?;
            if good(&rates) {
                (low, best) = (middle, rates);
            } else {
                high = middle;
            }
        }
    }
    Ok(best.sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tunnel that carries so many, loses a two-hundredth from half of that on, and forwards nothing at
    /// three times as many.
    fn tunnel(capacity: f64) -> impl FnMut(u32) -> Result<Rates, TestbedError> {
        move |rate| {
            let sent = f64::from(rate);
            let received = match sent / capacity {
                load if load <= 0.5 => sent,
                load if load <= 1.0 => sent * 0.995,
                load if load < 3.0 => capacity,
                _ => 0.0,
            };
            Ok(Rates { sent, received, packets_sent: sent as u64, packets_received: received as u64 })
        }
    }

    fn sweep(to: u32) -> Sweep {
        Sweep { size: 64, from: 1000, to, time: Duration::ZERO }
    }

    #[test]
    fn both_edges_are_found_and_livelock_is_seen() {
        let report = sweep(1_000_000).run_with(tunnel(100_000.0)).unwrap();
        assert!(report.no_drop > 0.9 * 50_000.0 && report.no_drop <= 50_000.0, "{report:?}");
        assert!(report.partial_drop > 0.9 * 100_000.0 && report.partial_drop <= 101_000.0, "{report:?}");
        assert!(report.most > 90_000.0 && report.last == 0.0, "{report:?}");
        assert!(report.loads.is_sorted_by(|one, other| one[0] <= other[0]));
    }

    #[test]
    fn the_highest_load_is_an_edge_when_nothing_is_lost() {
        let report = sweep(10_000).run_with(tunnel(1e9)).unwrap();
        assert_eq!(report.no_drop, report.partial_drop);
        assert_eq!(report.no_drop, report.loads.last().unwrap()[0]);
    }

    #[test]
    fn one_who_always_loses_has_no_edge() {
        let lossy = |rate: u32| {
            Ok(Rates { sent: rate.into(), received: 0.0, packets_sent: u64::from(rate), packets_received: 0 })
        };
        let report = sweep(10_000).run_with(lossy).unwrap();
        assert_eq!((report.no_drop, report.partial_drop, report.most), (0.0, 0.0, 0.0));
        assert_eq!(report.loads.len(), 1);
    }

    #[test]
    fn one_bad_moment_is_forgiven() {
        let mut count = 0;
        let unlucky = |rate: u32| {
            count += 1;
            let sent = u64::from(rate);
            let received = if count == 2 { 0 } else { sent };
            let (sent_rate, received_rate) = (f64::from(rate), received as f64);
            Ok(Rates {
                sent: sent_rate,
                received: received_rate,
                packets_sent: sent,
                packets_received: received,
            })
        };
        let report = sweep(10_000).run_with(unlucky).unwrap();
        assert_eq!(report.no_drop, report.loads.last().unwrap()[0]);
    }

    #[test]
    fn trials_that_disagree_leave_the_edges_in_order() {
        // Later trials do better: the load that the first edge finds is beyond all that the steps saw.
        let mut count = 0;
        let warming = |rate: u32| {
            count += 1;
            let sent = f64::from(rate);
            let received = if count < 8 { sent.min(3000.0) } else { sent.min(5000.0) };
            let (packets_sent, packets_received) = (sent as u64, received as u64);
            Ok(Rates { sent, received, packets_sent, packets_received })
        };
        let report = sweep(8_000).run_with(warming).unwrap();
        assert!(report.no_drop > 3000.0, "{report:?}");
        assert!(report.no_drop <= report.partial_drop && report.no_drop <= report.most, "{report:?}");
    }

    #[test]
    fn a_sender_at_its_end_ends_the_sweep() {
        let tired = |rate: u32| {
            let sent = f64::from(rate).min(3000.0);
            Ok(Rates { sent, received: sent, packets_sent: sent as u64, packets_received: sent as u64 })
        };
        assert_eq!(sweep(1_000_000).run_with(tired).unwrap().loads.len(), 4);
    }
}

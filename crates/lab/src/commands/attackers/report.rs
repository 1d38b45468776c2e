//! The result of a row, and whether the server withstood the attack.

use std::time::Duration;

use super::watch::Noticed;

/// Below this share of its rate an attack is another one.
const WEAK: f64 = 0.9;
/// A client may take so many times as long as without an attack.
const SLOWDOWN: f64 = 2.0;
/// Memory that a server may take more, in KiB.
const MEMORY: i64 = 64 << 10;
/// Lines a second that a server may log beside those about clients and attackers that were let in.
const LINES_A_SECOND: f64 = 10.0;
/// Lines about each client or attacker that was let in.
const LINES_OF_CLIENT: f64 = 8.0;

fn millis(time: f64) -> String {
    if time.is_finite() { format!("{time:.1}") } else { "not let in".to_owned() }
}

/// Clients that connected one after the other.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Attempts {
    planned: usize,
    /// `None`: it did not get in.
    times: Vec<Option<Duration>>,
}

impl Attempts {
    pub(in crate::commands) fn new(planned: usize) -> Attempts {
        Attempts { planned, times: Vec::new() }
    }

    pub(in crate::commands) fn add(&mut self, time: Option<Duration>) {
        self.times.push(time);
    }

    pub(in crate::commands) fn tried(&self) -> usize {
        self.times.len()
    }

    fn succeeded(&self) -> usize {
        self.times.iter().flatten().count()
    }

    /// Whether the last `count` did not get in.
    pub(in crate::commands) fn last_failed(&self, count: usize) -> bool {
        self.times.len() >= count && self.times.iter().rev().take(count).all(Option::is_none)
    }

    /// Milliseconds of each, the shortest first; infinite for those that did not get in.
    fn sorted(&self) -> Vec<f64> {
        let millis = |time: &Option<Duration>| time.map_or(f64::INFINITY, |time| time.as_secs_f64() * 1e3);
        let mut times: Vec<f64> = self.times.iter().map(millis).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// The median; clients that did not try because of others before them count as not let in.
    fn median(&self) -> f64 {
        let mut times = self.sorted();
        times.resize(self.planned.max(times.len()), f64::INFINITY);
        let upper = times.len() / 2;
        let pair = [times.get((times.len().saturating_sub(1)) / 2), times.get(upper)];
        pair.into_iter().flatten().sum::<f64>() / 2.0
    }

    fn worst(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(f64::NAN)
    }
}

/// The measurements of a row.
pub(in crate::commands) struct Measured {
    pub(in crate::commands) idle: Attempts,
    pub(in crate::commands) attacked: Attempts,
    /// Control channels, connections or datagrams of the attackers that began, and that came as far as they should.
    pub(in crate::commands) begun: u64,
    pub(in crate::commands) done: u64,
    /// How many should begin in a second; `None`: as many as can.
    pub(in crate::commands) wanted: Option<u32>,
    /// How often an attacker was let in: the log may have lines about each.
    pub(in crate::commands) let_in: u64,
    /// How many had begun when the first client came.
    pub(in crate::commands) begun_at_first: u64,
    pub(in crate::commands) seconds: f64,
    /// The pings without and with the attack.
    pub(in crate::commands) pings: [Noticed; 2],
    /// The growth of the server's memory, in KiB.
    pub(in crate::commands) memory: i64,
    /// Lines of its log that are not about the clients.
    pub(in crate::commands) lines: f64,
    pub(in crate::commands) processor_seconds: f64,
    pub(in crate::commands) dropped: i64,
}

impl Measured {
    /// The columns of the table.
    pub(in crate::commands) const HEADER: &str = "| attackers | server | begun (done) a second | idle, ms | attacked, ms (worst) | \
        let in | pings lost (for good) | memory, KiB | log lines a second | server's CPU | datagrams dropped a second | \
        verdict |\n|---|---|---|---|---|---|---|---|---|---|---|---|";

    /// One line of the table.
    pub(in crate::commands) fn line(&self, name: &str, server: &str) -> String {
        let rate = |number: f64| number / self.seconds;
        let [_, pings] = self.pings;
        format!(
            "| {name} | {server} | {:.0} ({:.0}) | {} | {} ({}) | {} of {} | {} of {} ({}) | {} | {:.1} | \
             {:.0} % | {:.0} | {} |",
            rate(self.begun as f64),
            rate(self.done as f64),
            millis(self.idle.median()),
            millis(self.attacked.median()),
            millis(self.attacked.worst()),
            self.attacked.succeeded(),
            self.attacked.tried(),
            pings.lost,
            pings.pings,
            pings.lost_for_good,
            self.memory,
            rate(self.lines),
            rate(self.processor_seconds) * 100.0,
            rate(self.dropped as f64),
            self.verdict(),
        )
    }

    /// `ok`, or the attacks that the server did not withstand.
    pub(in crate::commands) fn verdict(&self) -> String {
        let mut failures = Vec::new();
        if self.begun_at_first == 0 {
            failures.push("no attack");
        } else if self.wanted.is_some_and(|rate| (self.begun as f64) < WEAK * f64::from(rate) * self.seconds)
        {
            failures.push("weak attack");
        }
        let (idle, attacked) = (self.idle.median(), self.attacked.median());
        if !idle.is_finite() {
            failures.push("idle clients fail");
        } else if !attacked.is_finite() {
            failures.push("shut out");
        } else if attacked > SLOWDOWN * idle {
            failures.push("slow");
        }
        let [before, during] = self.pings;
        if during.lost_for_good > before.lost_for_good {
            failures.push("pings lost");
        }
        if self.memory > MEMORY {
            failures.push("memory");
        }
        if self.lines > LINES_A_SECOND * self.seconds + LINES_OF_CLIENT * self.let_in as f64 {
            failures.push("log");
        }
        if failures.is_empty() { "ok".to_owned() } else { failures.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(planned: usize, millis: &[Option<u64>]) -> Attempts {
        let times = millis.iter().map(|time| time.map(Duration::from_millis)).collect();
        Attempts { planned, times }
    }

    fn measured() -> Measured {
        Measured {
            idle: attempts(3, &[Some(10), Some(12), Some(11)]),
            attacked: attempts(3, &[Some(22), Some(9), None]),
            begun: 100,
            done: 80,
            wanted: Some(50),
            let_in: 0,
            begun_at_first: 10,
            seconds: 2.0,
            pings: [Noticed::default(); 2],
            memory: 1000,
            lines: 5.0,
            processor_seconds: 1.0,
            dropped: 0,
        }
    }

    #[test]
    fn clients_that_did_not_try_count_as_shut_out() {
        assert_eq!(attempts(4, &[Some(1), Some(3)]).median(), f64::INFINITY);
        assert_eq!(attempts(4, &[Some(1), Some(3), Some(2), None]).median(), 2.5);
        assert!(attempts(9, &[Some(1), None, None, None]).last_failed(3));
        assert!(!attempts(9, &[None, None]).last_failed(3));
    }

    #[test]
    fn each_bound_has_a_verdict() {
        assert_eq!(measured().verdict(), "ok");
        let slow = Measured { attacked: attempts(3, &[Some(23), Some(23), Some(23)]), ..measured() };
        assert_eq!(slow.verdict(), "slow");
        let shut_out = Measured { attacked: attempts(3, &[Some(9), None, None]), ..measured() };
        assert_eq!(shut_out.verdict(), "shut out");
        let lost = Noticed { lost: 2, lost_for_good: 1, ..Noticed::default() };
        let noticed = Measured { pings: [Noticed::default(), lost], memory: 70_000, ..measured() };
        assert_eq!(noticed.verdict(), "pings lost, memory");
        let loud = Measured { lines: 300.0, ..measured() };
        assert_eq!(loud.verdict(), "log");
        assert_eq!(Measured { let_in: 34, ..loud }.verdict(), "log");
        assert_eq!(Measured { let_in: 35, lines: 300.0, ..measured() }.verdict(), "ok");
        assert_eq!(Measured { wanted: Some(56), ..measured() }.verdict(), "weak attack");
        assert_eq!(Measured { begun_at_first: 0, ..measured() }.verdict(), "no attack");
    }
}

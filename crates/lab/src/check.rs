//! Whether the lab measures what is there: it measures things whose right answer is known.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{Flood, Scratch};

use crate::compare::{self, Verdict};
use crate::error::LabError;
use crate::link::Link;
use crate::plan::Plan;
use crate::results::Results;
use crate::subjects::{self, Availability, Tools};
use crate::testbed::Testbed;
use crate::{run, stats};

/// The goodput of one TCP flow at 1 Gbit/s, in Mbit/s: 1448 of 1538 bytes, 941 Mbit/s, less the time that it
/// takes to find its speed.
const GIGABIT: RangeInclusive<f64> = 930.0..=945.0;
/// The measured delay of a link of 20 ms: an echo takes some time at either end, too.
const DELAY_MS: RangeInclusive<f64> = 20.0..=21.0;
/// The measured loss of a link that loses 1 %, in so many packets: 3 standard deviations to each side.
const LOSS: (f64, f64) = (0.0087, 0.0113);
const PACKETS_PER_SECOND: u32 = 10_000;
const FLOOD_TIME: Duration = Duration::from_secs(5);
/// The threshold of `compare` for a change.
const THRESHOLD: f64 = 0.1;

/// One question and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Check {
    /// The value that is right.
    pub(crate) claim: &'static str,
    /// The value that was measured.
    pub(crate) found: String,
    pub(crate) holds: bool,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds { "ok    " } else { "FAILED" };
        write!(f, "{word} {}: {}", self.claim, self.found)
    }
}

/// Asks all questions, and tells each answer when it is there. False if one of them is wrong.
pub(crate) fn check(tools: &Tools, tell: impl Fn(&Check)) -> Result<bool, LabError> {
    let scratch = Scratch::create("lab-check")?;
    let measure = |name: &str, text: &str| measure(text, &scratch.path().join(name), tools);
    let mut all = true;
    let mut note = |check: Check| {
        all &= check.holds;
        tell(&check);
    };
    let limited = measure("limited", &limited("1_000_000_000"))?;
    note(judge_rate(&limited));
    note(judge_slowed(&limited, &measure("slowed", &self::limited("500_000_000"))?));
    note(judge_agreement(&measure("twice", &twice(tools))?));
    let delayed = measure("delayed", DELAYED)?;
    note(judge_delay(&delayed));
    note(judge_loss(&lossy(PACKETS_PER_SECOND, FLOOD_TIME)?));
    note(judge_cost(&delayed));
    Ok(all)
}

/// The bare wire at one rate or another.
fn limited(rate: &str) -> String {
    format!(
        "title = 'A limit'\nrounds = 3\nseconds = 4\nsubjects = ['veth']\n[[link]]\nname = 'limited'\n\
         rate = {rate}\nsegmentation = false\n[[workload]]\nkind = 'tcp'\n"
    )
}

/// A plan with one subject under two names: the null tunnel where there is one.
fn twice(tools: &Tools) -> String {
    let all = subjects::all();
    let null = subjects::find(&all, "null").map(|null| null.availability(tools));
    let name = if matches!(null, Some(Availability::Installed(_))) { "null" } else { "veth" };
    format!(
        "title = 'Twice'\nrounds = 7\nseconds = 1\nsubjects = ['{name}', '{name}@again']\n\
         [[workload]]\nkind = 'tcp'\n"
    )
}

const DELAYED: &str = "title = 'A delay'\nrounds = 1\nseconds = 1\nsubjects = ['veth']\n\
                       [[link]]\nname = '20 ms'\ndelay-ms = 10.0\n[[workload]]\nkind = 'latency'\n";

fn measure(plan: &str, folder: &Path, tools: &Tools) -> Result<Results, LabError> {
    let plan = Plan::parse("adit-lab check", plan)?;
    run::run(&plan, folder, &subjects::all(), tools, false)?;
    Results::read(folder)
}

/// All values of a figure of one subject.
fn values(results: &Results, subject: &str, figure: &str) -> Vec<f64> {
    let figures = results.figures().into_iter();
    let ours = figures.filter(|(place, _)| place.subject == subject && place.figure == figure);
    ours.flat_map(|(_, values)| values).collect()
}

/// A check of a value between two others. A measurement that failed has no value.
fn between(claim: &'static str, value: Option<f64>, range: RangeInclusive<f64>, unit: &str) -> Check {
    let holds = value.is_some_and(|value| range.contains(&value));
    let value = value.map_or("nothing".to_owned(), |value| format!("{value:.2}"));
    Check { claim, found: format!("{value} {unit}, right is {} to {}", range.start(), range.end()), holds }
}

fn judge_rate(results: &Results) -> Check {
    let value = stats::median(&values(results, "veth", "up_mbit"));
    between("plain TCP on a link of 1 Gbit/s", value, GIGABIT, "Mbit/s")
}

fn judge_slowed(before: &Results, after: &Results) -> Check {
    let claim = "what is slowed to a half shows as slowed, what is not does not";
    let goodput = |after: &Results| {
        let changes = compare::compare(before, after, THRESHOLD);
        changes.into_iter().find(|change| change.place.figure == "up_mbit")
    };
    match (goodput(after), goodput(before)) {
        (Some(slowed), Some(same)) => Check {
            claim,
            found: format!("{:.3} x and {:.3} x", slowed.ratio, same.ratio),
            holds: slowed.verdict == Verdict::Worse && same.verdict == Verdict::Same,
        },
        _ => Check { claim, found: "nothing was measured".to_owned(), holds: false },
    }
}

/// Two names of one subject may differ by less than either's median is uncertain by.
fn judge_agreement(results: &Results) -> Check {
    let claim = "the same subject under two names differs by less than its interval";
    let judged = || {
        let [first, second] = &results.plan.subjects[..] else { return None };
        let of = |name| {
            let values = values(results, name, "up_mbit");
            Some((stats::median(&values)?, stats::median_interval(&values)?))
        };
        let ((one, first), (other, second)) = (of(first)?, of(second)?);
        let (difference, width) = ((one - other).abs(), first.width().max(second.width()));
        let found = format!(
            "{one:.0} and {other:.0} Mbit/s, {difference:.0} apart; the wider interval spans {width:.0}"
        );
        Some(Check { claim, found, holds: difference <= width })
    };
    judged().unwrap_or_else(|| Check { claim, found: "too little was measured".to_owned(), holds: false })
}

fn judge_delay(results: &Results) -> Check {
    let median = stats::median(&values(results, "veth", "idle_p50_us"));
    between("a link of 20 ms", median.map(|time| time / 1e3), DELAY_MS, "ms")
}

/// The packets that were sent, that arrived, and that the wire's counters have as lost.
struct Lossy {
    sent: u64,
    received: u64,
    lost: u64,
}

/// Sends UDP packets over a bare link that loses 1 %.
fn lossy(rate: u32, time: Duration) -> Result<Lossy, LabError> {
    let testbed = Testbed::build(&Link { loss: 0.01, ..Link::plain("1 %") })?;
    let flood = Flood { size: 200, rate, time, segmented: false };
    let rates = flood.run(&testbed.ends(false))?;
    let (sent, received) = (rates.packets_sent, rates.packets_received);
    Ok(Lossy { sent, received, lost: testbed.frames().map_or(0, |frames| frames.lost) })
}

fn judge_loss(lossy: &Lossy) -> Check {
    let missing = lossy.sent.saturating_sub(lossy.received);
    let share = missing as f64 / lossy.sent.max(1) as f64;
    let within = (LOSS.0..=LOSS.1).contains(&share);
    let Lossy { sent, lost, .. } = lossy;
    Check {
        claim: "a link that loses 1 % of UDP packets",
        found: format!("{missing} of {sent} did not arrive, {:.2} %; the link counts {lost}", share * 100.0),
        // The link also sees the ends ask for each other's hardware address.
        holds: within && lost.abs_diff(missing) <= 3,
    }
}

/// Says what the lab's own wire costs. It may cost what it likes as long as it is known.
fn judge_cost(results: &Results) -> Check {
    let claim = "the cost of the lab's own wire is known";
    let Some(cost) = results.environment.wire else {
        return Check { claim, found: "it was not measured".to_owned(), holds: false };
    };
    let (kernel, own) = (cost.kernel, cost.own);
    let found = format!(
        "{:.0} Mbit/s, {:.2} CPU s/GB, round trip {:.0} µs; the kernel's {:.0} Mbit/s, {:.2} CPU s/GB, {:.0} µs",
        own.mbit, own.cpu_s_per_gb, own.round_trip_us, kernel.mbit, kernel.cpu_s_per_gb, kernel.round_trip_us
    );
    Check { claim, found, holds: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cell, Outcome, Record};
    use adit_testbed::can_run;

    /// Results of a plan, as if each subject had had these values.
    fn made_up(plan: &str, figure: &str, all: &[(&str, &[f64])]) -> Results {
        let plan = Plan::parse("made up", plan).unwrap();
        let records = all.iter().flat_map(|(subject, values)| {
            values.iter().zip(0..).map(|(value, round)| {
                let mut outcome = Outcome::default();
                outcome.figures.insert(figure.to_owned(), *value);
                let (subject, link, workload) = ((*subject).to_owned(), "x".to_owned(), "tcp".to_owned());
                Record { cell: Cell { subject, link, workload, round }, outcome }
            })
        });
        Results {
            records: records.collect(),
            plan,
            environment: Default::default(),
            references: Default::default(),
        }
    }

    #[test]
    fn a_rate_is_right_or_it_is_not() {
        let of = |values: &[f64]| judge_rate(&made_up(&limited("1000"), "up_mbit", &[("veth", values)]));
        assert!(of(&[941.0, 940.0, 100.0]).holds);
        assert!(!of(&[956.0, 957.0, 955.0]).holds);
        let nothing = of(&[]);
        assert!(!nothing.holds && nothing.found.starts_with("nothing Mbit/s"), "{nothing}");
    }

    #[test]
    fn what_is_slowed_must_show() {
        let of = |values: &[f64]| made_up(&limited("1000"), "up_mbit", &[("veth", values)]);
        let before = of(&[941.0, 940.0, 939.0]);
        assert!(judge_slowed(&before, &of(&[470.0, 471.0, 469.0])).holds);
        assert!(!judge_slowed(&before, &of(&[941.0, 940.0, 939.0])).holds);
        assert!(!judge_slowed(&before, &of(&[])).holds);
    }

    #[test]
    fn two_names_must_agree() {
        let plan = "title = 'x'\nsubjects = ['veth', 'veth@again']\n[[workload]]\nkind = 'tcp'\n";
        let of = |again: &[f64]| {
            let first: &[f64] = &[100.0, 103.0, 98.0, 101.0];
            judge_agreement(&made_up(plan, "up_mbit", &[("veth", first), ("veth@again", again)]))
        };
        assert!(of(&[101.0, 99.0, 102.0, 104.0]).holds);
        assert!(!of(&[201.0, 199.0, 202.0, 204.0]).holds);
        assert!(!of(&[]).holds);
    }

    #[test]
    fn a_loss_is_what_the_link_says_and_what_was_asked_for() {
        let holds = |received, lost| judge_loss(&Lossy { sent: 50_000, received, lost }).holds;
        assert!(holds(49_500, 501));
        assert!(!holds(50_000, 0), "nothing was lost");
        assert!(!holds(49_500, 400), "the other flow lost some");
        assert!(!holds(49_000, 1000), "twice as much");
    }

    #[test]
    fn one_in_a_hundred_packets_is_lost() {
        if !can_run("one_in_a_hundred_packets_is_lost", &["ip"]) {
            return;
        }
        // So few a second that the receiver takes all that comes, also beside other tests.
        let lossy = lossy(2_000, Duration::from_secs(5)).unwrap();
        let missing = lossy.sent - lossy.received;
        let share = missing as f64 / lossy.sent as f64;
        assert!((0.006..0.014).contains(&share), "{share}");
        assert!(lossy.lost.abs_diff(missing) <= 3, "{missing} {}", lossy.lost);
    }

    #[test]
    fn a_wire_slowed_on_purpose_shows_as_slowed() {
        if !can_run("a_wire_slowed_on_purpose_shows_as_slowed", &["ip", "tc", "ethtool", "iperf3"]) {
            return;
        }
        let scratch = Scratch::create("lab-check").unwrap();
        let tools = Tools {
            directory: "/".into(),
            load: "/".into(),
            adit: "/".into(),
            lab: "/".into(),
            external: "/".into(),
            miragevpn: None,
        };
        let of = |rate: &str| {
            let plan = limited(rate).replace("rounds = 3\nseconds = 4", "rounds = 1\nseconds = 1");
            measure(&plan, &scratch.path().join(rate), &tools).unwrap()
        };
        let (before, after) = (of("100_000_000"), of("30_000_000"));
        let check = judge_slowed(&before, &after);
        assert!(check.holds, "{check}");
        let fast = values(&before, "veth", "up_mbit");
        assert!(fast.iter().all(|mbit| (80.0..97.0).contains(mbit)), "{fast:?}");
    }
}

//! How far a run is: a bar on a terminal, else a line for each tunnel.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::tell;

/// Characters of the bar.
const WIDTH: usize = 20;
/// Goes to the line's start, and clears the line.
pub(crate) const CLEAR: &str = "\r\x1b[K";
/// A line that does not fit is cut off, so that it is cleared whole (xterm's DECAWM).
const CUT: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// The turns of a run that are done. The rest takes as long as other turns on the same link did.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The link of each turn, in their order.
    links: Vec<usize>,
    done: usize,
    /// The time that the turns on each link took together, and their number.
    durations: BTreeMap<usize, (Duration, u32)>,
    what: String,
    start: Instant,
    on_terminal: bool,
}

/// Whether lines on standard error can be written anew.
pub(crate) fn is_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|name| name != "dumb")
}

impl Progress {
    /// The progress of a run whose turns are on these links.
    pub(crate) fn of(links: Vec<usize>) -> Progress {
        Progress {
            links,
            done: 0,
            durations: BTreeMap::new(),
            what: String::new(),
            start: Instant::now(),
            on_terminal: is_terminal(),
        }
    }

    /// The next turn begins.
    pub(crate) fn begin(&mut self, what: String) {
        (self.what, self.start) = (what, Instant::now());
        if self.on_terminal {
            self.step("");
        } else {
            let left = self.left().map(|left| format!(", {left}")).unwrap_or_default();
            tell(format_args!("[{}/{}] {}{left}", self.done + 1, self.links.len(), self.what));
        }
    }

    /// Something of the turn begins.
    pub(crate) fn step(&self, step: &str) {
        if self.on_terminal {
            let line = self.line(step);
            let _ = std::io::stderr().write_all(format!("{CLEAR}{CUT}{line}{WRAP}").as_bytes());
        }
    }

    /// Says something that stays above the bar.
    pub(crate) fn tell(&self, what: impl fmt::Display) {
        tell(what);
        self.step("");
    }

    /// The turn has ended.
    pub(crate) fn end(&mut self) {
        if let Some(link) = self.links.get(self.done) {
            let (time, count) = self.durations.entry(*link).or_default();
            (*time, *count) = (*time + self.start.elapsed(), *count + 1);
        }
        self.done += 1;
        if self.on_terminal && self.done == self.links.len() {
            let _ = std::io::stderr().write_all(CLEAR.as_bytes());
        }
    }

    fn line(&self, step: &str) -> String {
        let all = self.links.len();
        let full = self.done * WIDTH / all.max(1);
        let bar = "#".repeat(full) + &".".repeat(WIDTH.saturating_sub(full));
        let left = self.left().map(|left| format!(", {left}")).unwrap_or_default();
        let step = if step.is_empty() { String::new() } else { format!(", {step}") };
        format!("[{bar}] {} of {all}{left}; {}{step}", self.done, self.what)
    }

    /// How long the rest will take; nothing before the first turn is done.
    fn left(&self) -> Option<String> {
        let mean = |(time, count): (Duration, u32)| time / count.max(1);
        let sum = |all: (Duration, u32), one: &(Duration, u32)| (all.0 + one.0, all.1 + one.1);
        let all = self.durations.values().fold((Duration::ZERO, 0), sum);
        let of = |link: &usize| mean(self.durations.get(link).copied().unwrap_or(all));
        let left: Duration = self.links.get(self.done..)?.iter().map(of).sum();
        let minutes = (left.as_secs_f64() / 60.0).ceil();
        let text = match minutes >= 90.0 {
            true => format!("about {:.1} h left", minutes / 60.0),
            false => format!("about {minutes} min left"),
        };
        (all.1 > 0).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_others_on_its_link() {
        let mut progress = Progress::of(vec![0, 1, 1, 0, 1]);
        assert_eq!(progress.left(), None);
        progress.durations =
            BTreeMap::from([(0, (Duration::from_secs(60), 1)), (1, (Duration::from_secs(600), 2))]);
        progress.done = 3;
        assert_eq!(progress.left().as_deref(), Some("about 6 min left"));
        // Of a link that nothing is known of, the mean of all.
        (progress.links, progress.done) = (vec![0, 1, 1, 2], 3);
        assert_eq!(progress.left().as_deref(), Some("about 4 min left"));
        (progress.links, progress.done) = (vec![1; 40], 3);
        assert_eq!(progress.left().as_deref(), Some("about 3.1 h left"));
    }

    #[test]
    fn the_bar_is_as_full_as_the_run() {
        let mut progress = Progress::of(vec![0; 4]);
        progress.begin("round 1 of 2: veth on x".to_owned());
        progress.end();
        let line = progress.line("tcp");
        assert!(line.starts_with("[#####...............] 1 of 4, about "), "{line}");
        assert!(line.ends_with("; round 1 of 2: veth on x, tcp"), "{line}");
    }
}

//! The figures.

use serde::Serialize;

use crate::commands::load::EchoCounters;
use crate::commands::output::table;

/// One SIGHUP.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) name: String,
    /// The log's line.
    pub(super) said: String,
    pub(super) counted: EchoCounters,
}

/// All figures.
#[derive(Serialize)]
pub(super) struct Report {
    machine: Vec<String>,
    clients: usize,
    packets_a_second: u32,
    /// Before the first SIGHUP.
    pub(super) before: EchoCounters,
    pub(super) steps: Vec<Measured>,
    /// Clients that were connected at the end, and that gave up.
    pub(super) connected: [u64; 2],
    /// While the way back was cut on purpose.
    pub(super) control: EchoCounters,
}

impl Report {
    pub(super) fn new(machine: Vec<String>, clients: usize, packets_a_second: u32) -> Report {
        let (before, control) = (EchoCounters::default(), EchoCounters::default());
        Report { machine, clients, packets_a_second, before, steps: Vec::new(), connected: [0; 2], control }
    }

    /// All that was counted until the last SIGHUP.
    fn all(&self) -> impl Iterator<Item = &EchoCounters> {
        std::iter::once(&self.before).chain(self.steps.iter().map(|step| &step.counted))
    }

    /// Whether no packet was lost, all clients stayed, and lost packets would have been seen.
    pub(super) fn is_good(&self) -> bool {
        !self.steps.is_empty()
            && self.all().all(|counted| counted.sent > 0 && counted.lost == 0 && counted.repeated == 0)
            && self.connected == [self.clients as u64, 0]
            && self.control.lost > 0
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = self.machine.join("; ") + "\n\n";
        text += &format!(
            "{} clients, {} numbered packets a second from each, answered by the server's end\n\n",
            self.clients, self.packets_a_second
        );
        let row = |name: &str, said: &str, counted: &EchoCounters| {
            let EchoCounters { sent, lost, repeated, .. } = counted;
            let figures = [sent, lost, repeated].map(u64::to_string);
            [name.to_owned(), said.replace('|', "\\|")].into_iter().chain(figures).collect::<Vec<String>>()
        };
        let mut rows = vec![row("before the first", "", &self.before)];
        rows.extend(self.steps.iter().map(|step| row(&step.name, &step.said, &step.counted)));
        let total = self.all().fold(EchoCounters::default(), |sum, one| sum + *one);
        rows.push(row("**all**", "", &total));
        rows.push(row("control: the way back cut for 300 ms", "", &self.control));
        text += &table(&["SIGHUP with", "the log", "sent", "lost", "answered twice or late"], &rows);
        let [connected, ended] = self.connected;
        let verdict = if self.is_good() { "pass" } else { "**FAIL**" };
        text + &format!(
            "\n{connected} of {} clients connected at the end, {ended} gave up; {verdict}\n",
            self.clients
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new(vec!["here".to_owned()], 3, 10);
        let counted = EchoCounters { sent: 100, answered: 95, lost: 0, repeated: 0 };
        report.before = counted;
        report.steps.push(Measured { name: "push".to_owned(), said: "was read again".to_owned(), counted });
        report.connected = [3, 0];
        report.control = EchoCounters { lost: 9, ..counted };
        report
    }

    #[test]
    fn one_lost_packet_fails() {
        assert!(report().is_good());
        let text = report().markdown();
        assert!(text.contains("| **all** |  | 200 | 0 | 0 |") && text.contains("; pass"), "{text}");
        let mut lossy = report();
        lossy.steps[0].counted.lost = 1;
        assert!(!lossy.is_good() && lossy.markdown().contains("| push | was read again | 100 | 1 | 0 |"));
        assert!(lossy.markdown().contains("**FAIL**"));
    }

    #[test]
    fn what_shows_nothing_fails() {
        let mut blind = report();
        blind.control.lost = 0;
        assert!(!blind.is_good(), "the count does not see losses");
        let mut silent = report();
        silent.steps[0].counted.sent = 0;
        assert!(!silent.is_good());
        let mut gone = report();
        gone.connected = [2, 1];
        assert!(!gone.is_good());
        let mut empty = report();
        empty.steps.clear();
        assert!(!empty.is_good());
    }
}

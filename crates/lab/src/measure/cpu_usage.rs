//! The cost of a load: processor time of the whole machine and of each end's programs, and their memory.

use std::time::Instant;

use adit_testbed::{TestbedError, Usage, processor_seconds};

use super::note;
use crate::record::Outcome;
use crate::testbed::Testbed;

/// Runs from before a load to behind it.
pub(super) struct Clock {
    /// The server's programs and the client's, as they were before the load's own were started.
    processes: [Vec<u32>; 2],
    before: [Usage; 2],
    machine: f64,
    start: Instant,
}

impl Clock {
    /// Begins with the processes that are in the namespaces now, which are the subject's.
    pub(super) fn start(testbed: &Testbed) -> Result<Clock, TestbedError> {
        let processes = [testbed.server.processes()?, testbed.client.processes()?];
        let before = [Usage::of(&processes[0]), Usage::of(&processes[1])];
        Ok(Clock { processes, before, machine: processor_seconds()?, start: Instant::now() })
    }

    /// Notes the share of all processors that was busy, and for so many bytes the processor time for a gigabyte
    /// of the subject's two ends; `prefix` ends with an underscore.
    pub(super) fn note_for(&self, outcome: &mut Outcome, prefix: &str, bytes: f64) {
        let elapsed = self.start.elapsed().as_secs_f64();
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        if let Ok(machine) = processor_seconds() {
            let share = (machine - self.machine) / (elapsed * processors);
            note(outcome, &format!("{prefix}busy_percent"), 100.0 * share.min(1.0));
        }
        for (end, name) in ["server", "client"].into_iter().enumerate() {
            if let Some(seconds) = self.seconds(end) {
                note(outcome, &format!("{prefix}{name}_cpu_s_per_gb"), seconds / (bytes / 1e9));
                // Of one processor: a program with several threads may have more than a hundred.
                note(outcome, &format!("{prefix}{name}_cpu_percent"), 100.0 * seconds / elapsed);
            }
        }
    }

    /// Notes the memory of each end now.
    pub(super) fn note_memory(&self, outcome: &mut Outcome) {
        for (processes, name) in self.processes.iter().zip(["server", "client"]) {
            if !processes.is_empty() {
                let usage = Usage::of(processes);
                note(outcome, &format!("{name}_rss_kib"), usage.resident_kib);
                note(outcome, &format!("{name}_pss_kib"), usage.proportional_kib);
            }
        }
    }

    /// Notes the share of a processor that each end's programs took while little happened.
    pub(super) fn note_seconds(&self, outcome: &mut Outcome, when: &str) {
        let elapsed = self.start.elapsed().as_secs_f64();
        for (end, name) in ["server", "client"].into_iter().enumerate() {
            if let Some(seconds) = self.seconds(end) {
                note(outcome, &format!("{when}_{name}_cpu_percent"), 100.0 * seconds / elapsed);
            }
        }
    }

    /// Processor seconds of one end's programs so far; nothing if it has none, as a kernel's tunnel.
    fn seconds(&self, end: usize) -> Option<f64> {
        let (processes, before) = (self.processes.get(end)?, self.before.get(end)?);
        let now = Usage::of(processes).processor_seconds;
        (!processes.is_empty()).then_some((now - before.processor_seconds).max(0.0))
    }
}

//! The processor time and memory of processes.

use std::fs;

/// proc(5) counts in these: `sysconf(_SC_CLK_TCK)` is 100 on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The use of some processes, all together. Those that have ended count nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The seconds of processors, in user space and in the kernel, since each process started.
    pub processor_seconds: f64,
    /// KiB of memory that is there now (RSS); memory that several share counts for each.
    pub resident_kib: f64,
    /// KiB of memory, where memory that several processes share is divided among them (PSS).
    pub proportional_kib: f64,
}

impl Usage {
    /// The use of these processes.
    pub fn of(processes: &[u32]) -> Usage {
        let mut usage = Usage::default();
        for process in processes {
            let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
            let memory = read("smaps_rollup");
            let ticks = processor_seconds(&read("stat")).unwrap_or(0.0);
            // Finer, but of those threads only that are there: the larger one is nearer.
            usage.processor_seconds += ticks.max(scheduled_seconds(*process));
            usage.resident_kib += kib(&memory, "Rss:").unwrap_or(0.0);
            usage.proportional_kib += kib(&memory, "Pss:").unwrap_or(0.0);
        }
        usage
    }
}

/// The time that the threads that a process has now ran, in seconds (from the kernel's sched-stats in
/// nanoseconds: the first of three numbers); 0 where the kernel has none.
fn scheduled_seconds(process: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e9
}

/// proc_pid_stat(5): utime and stime are the 14th and 15th word; the second is in parentheses and may hold blanks.
fn processor_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11).map(|word| word.parse::<f64>().ok());
    Some((words.next()?? + words.next()??) / TICKS_PER_SECOND)
}

/// A line of proc_pid_smaps_rollup(5).
fn kib(text: &str, key: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 3 4 20 0 1 0 5 6 7";
        assert_eq!(processor_seconds(stat), Some(2.0));
        assert_eq!(processor_seconds(""), None);
    }

    #[test]
    fn work_takes_time_and_memory() {
        let own = [std::process::id()];
        let (before, start) = (Usage::of(&own), Instant::now());
        let mut sum = 0_u64;
        while start.elapsed() < Duration::from_millis(200) {
            sum = std::hint::black_box(sum + 1);
        }
        let after = Usage::of(&own);
        assert!(after.processor_seconds > before.processor_seconds, "{before:?} {after:?}");
        assert!(after.resident_kib >= after.proportional_kib && after.proportional_kib > 100.0, "{after:?}");
        assert_eq!(Usage::of(&[0]), Usage::default());
    }
}

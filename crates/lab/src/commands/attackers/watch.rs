//! Observations of a server and of a client that is connected while something else happens.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adit_testbed::{Namespace, Ping, PingReport, TestbedError};

/// Pings of one series.
const COUNT: u16 = 10;
const INTERVAL: Duration = Duration::from_millis(50);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How often a ping that was lost is repeated before it is lost for good.
const REPEATS: usize = 5;

/// The counts of an observation.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::commands) struct Noticed {
    pub(in crate::commands) pings: u32,
    /// Pings without an answer.
    pub(in crate::commands) lost: u32,
    /// Pings whose repetitions had no answer either.
    pub(in crate::commands) lost_for_good: u32,
    /// The server's greatest resident memory in KiB.
    pub(in crate::commands) memory: i64,
}

/// Pings `target` from `namespace`, and looks at the memory of `process`, while `work` is done.
pub(in crate::commands) fn watch<T: Send>(
    namespace: &Namespace,
    target: IpAddr,
    process: u32,
    work: impl FnOnce() -> Result<T, TestbedError> + Send,
) -> Result<(T, Noticed), TestbedError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| -> Result<Noticed, TestbedError> {
            let mut noticed = Noticed { memory: memory(process)?, ..Noticed::default() };
            while !stop.load(Ordering::Relaxed) {
                noticed.ping(namespace, target)?;
                noticed.memory = noticed.memory.max(memory(process)?);
            }
            Ok(noticed)
        });
        let outcome = work();
        stop.store(true, Ordering::Relaxed);
        let noticed = watcher.join().map_err(|_| TestbedError::Worker("the pings"))?;
        Ok((outcome?, noticed?))
    })
}

impl Noticed {
    fn ping(&mut self, namespace: &Namespace, target: IpAddr) -> Result<(), TestbedError> {
        let series = Ping { timeout: TIMEOUT, ..Ping::new(COUNT, INTERVAL) };
        let PingReport { sent, missing, .. } = series.run(namespace, target)?;
        self.pings += sent;
        for number in 0..missing.len() {
            self.lost += 1;
            if !is_answered(namespace, target)? {
                // The tunnel is gone: no other would be answered.
                let rest = (missing.len() - number) as u32;
                self.lost += rest - 1;
                self.lost_for_good += rest;
                return Ok(());
            }
        }
        Ok(())
    }
}

fn is_answered(namespace: &Namespace, target: IpAddr) -> Result<bool, TestbedError> {
    let once = Ping { timeout: TIMEOUT, ..Ping::new(1, Duration::ZERO) };
    for _ in 0..REPEATS {
        if once.run(namespace, target)?.received > 0 {
            return Ok(true);
        }
        // A request that the system refuses fails at once.
        std::thread::sleep(INTERVAL);
    }
    Ok(false)
}

/// Resident memory of a process in KiB.
pub(in crate::commands) fn memory(process: u32) -> Result<i64, TestbedError> {
    let path = format!("/proc/{process}/status");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| TestbedError::File { path: path.clone().into(), source })?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or(TestbedError::Output { command: path, output: text })
}

/// Datagrams that found receive buffers full in this namespace.
pub(in crate::commands) fn dropped_datagrams(server: &Namespace) -> Result<i64, TestbedError> {
    let [v4, v6] = ["snmp", "snmp6"].map(|file| {
        let path = format!("/proc/thread-self/net/{file}");
        server.enter(|| std::fs::read_to_string(path))
    });
    let (v4, v6) = (v4?.unwrap_or_default(), v6?.unwrap_or_default());
    Ok(column(&v4, "Udp:", "RcvbufErrors") + named(&v6, "Udp6RcvbufErrors"))
}

/// A number in /proc/net/snmp: one line has the names, the next the numbers.
fn column(text: &str, group: &str, name: &str) -> i64 {
    let mut lines = text.lines().filter(|line| line.starts_with(group)).map(str::split_whitespace);
    let (Some(names), Some(mut numbers)) = (lines.next(), lines.next()) else { return 0 };
    let index = names.into_iter().position(|word| word == name);
    index.and_then(|index| numbers.nth(index)?.parse().ok()).unwrap_or(0)
}

/// A number in /proc/net/snmp6: each line has a name and its number.
fn named(text: &str, name: &str) -> i64 {
    let mut lines = text.lines().map(str::split_whitespace);
    let line = lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()));
    line.flatten().and_then(|word| word.parse().ok()).unwrap_or(0)
}

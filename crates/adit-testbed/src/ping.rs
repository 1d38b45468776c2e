use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::programs::program;
use crate::{Namespace, TestbedError};

/// A series of echo requests.
#[derive(Clone, Copy, Debug)]
pub struct Ping {
    /// How many.
    pub count: u32,
    /// One every so often. Less than 2 ms is not exact.
    pub interval: Duration,
    /// Bytes of payload in each.
    pub size: u16,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PingReport {
    /// Requests sent.
    pub sent: u32,
    /// Requests answered.
    pub received: u32,
    /// Answers beyond the first to a request.
    pub duplicates: u32,
    /// Round trips in milliseconds: least, mean, most. Absent if nothing came back.
    pub round_trip_ms: Option<[f64; 3]>,
    /// Sequence numbers (from 1) that were never answered.
    pub missing: Vec<u32>,
}

impl PingReport {
    /// Requests that were not answered.
    pub fn lost(&self) -> u32 {
        self.sent.saturating_sub(self.received)
    }
}

impl Ping {
    /// `count` requests of 56 bytes, `interval` apart.
    pub fn new(count: u32, interval: Duration) -> Self {
        Self { count, interval, size: 56 }
    }

    /// Sends them from `namespace` to `target` and waits for the answers; for the last of them, two seconds.
    /// That none is answered is not an error.
    pub fn run(&self, namespace: &Namespace, target: IpAddr) -> Result<PingReport, TestbedError> {
        let mut command = program("ping")?;
        command.args(["-n", "-W", "2", "-c", &self.count.to_string(), "-s", &self.size.to_string()]).args([
            "-i",
            &format!("{:.3}", self.interval.as_secs_f64()),
            &target.to_string(),
        ]);
        let label = format!("ping {target}");
        let mut process = namespace.spawn(&label, command)?;
        let patience = self.interval * self.count * 2 + Duration::from_secs(10);
        // Exit code 1 says that not all were answered, which the report says better.
        process.wait(patience)?;
        let log = process.log();
        parse(&log).ok_or(TestbedError::Output { command: label, output: log })
    }
}

/// Pings `target` until an answer comes, and returns how long that took.
pub fn wait_until_reachable(
    namespace: &Namespace,
    target: IpAddr,
    timeout: Duration,
) -> Result<Duration, TestbedError> {
    let start = Instant::now();
    while start.elapsed() < timeout {
        let mut command = program("ping")?;
        command.args(["-n", "-q", "-c", "1", "-W", "0.2", &target.to_string()]);
        if namespace.run(command).is_ok() {
            return Ok(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(TestbedError::TimedOut {
        what: format!("an answer from {target} in {}", namespace.name()),
        waited: timeout,
    })
}

/// Reads what iputils' ping writes.
fn parse(log: &str) -> Option<PingReport> {
    let summary = log.lines().find(|line| line.contains("packets transmitted"))?;
    let mut report = PingReport::default();
    for part in summary.split(',') {
        let part = part.trim();
        let number = part.split_whitespace().next()?.trim_start_matches('+').parse::<u32>();
        match part {
            _ if part.ends_with("packets transmitted") => report.sent = number.ok()?,
            _ if part.ends_with("received") => report.received = number.ok()?,
            _ if part.ends_with("duplicates") => report.duplicates = number.ok()?,
            _ => {}
        }
    }
    let times = log.lines().find_map(|line| line.strip_prefix("rtt min/avg/max/mdev = "));
    if let Some(times) = times {
        let mut values = times.split('/').map(|value| value.parse::<f64>().ok());
        report.round_trip_ms = Some([values.next()??, values.next()??, values.next()??]);
    }
    let mut answered = vec![false; usize::try_from(report.sent).ok()?];
    for line in log.lines().filter(|line| line.contains("bytes from")) {
        let number = line.split("icmp_seq=").nth(1).and_then(|rest| rest.split(' ').next());
        let slot = number
            .and_then(|text| text.parse::<usize>().ok())
            .and_then(|number| answered.get_mut(number.wrapping_sub(1)));
        if let Some(slot) = slot {
            *slot = true;
        }
    }
    let unanswered = (1u32..).zip(answered).filter(|(_, answered)| !answered);
    report.missing = unanswered.map(|(number, _)| number).collect();
    Some(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_run_is_read() {
        let log = "PING 10.8.0.1 (10.8.0.1) 56(84) bytes of data.\n\
            64 bytes from 10.8.0.1: icmp_seq=1 ttl=64 time=0.261 ms\n\
            64 bytes from 10.8.0.1: icmp_seq=2 ttl=64 time=0.361 ms\n\n\
            --- 10.8.0.1 ping statistics ---\n\
            2 packets transmitted, 2 received, 0% packet loss, time 1002ms\n\
            rtt min/avg/max/mdev = 0.261/0.311/0.361/0.050 ms\n";
        let report = parse(log).unwrap();
        assert_eq!((report.sent, report.received, report.lost()), (2, 2, 0));
        assert_eq!(report.round_trip_ms, Some([0.261, 0.311, 0.361]));
        assert!(report.missing.is_empty());
    }

    #[test]
    fn losses_duplicates_and_errors_are_read() {
        let log = "PING fd00::1(fd00::1) 56 data bytes\n\
            64 bytes from fd00::1: icmp_seq=1 ttl=64 time=0.261 ms\n\
            64 bytes from fd00::1: icmp_seq=1 ttl=64 time=0.263 ms (DUP!)\n\
            From fd00::2 icmp_seq=2 Destination unreachable: No route\n\n\
            --- fd00::1 ping statistics ---\n\
            3 packets transmitted, 1 received, +1 duplicates, +1 errors, 66% packet loss, time 30ms\n\
            rtt min/avg/max/mdev = 0.261/0.262/0.263/0.001 ms\n";
        let report = parse(log).unwrap();
        assert_eq!((report.lost(), report.duplicates), (2, 1));
        assert_eq!(report.missing, [2, 3]);
    }

    #[test]
    fn nothing_but_an_error_is_no_report() {
        assert_eq!(parse("ping: connect: Network is unreachable\n"), None);
    }
}

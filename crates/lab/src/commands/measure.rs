//! The measuring harness: adit and other tunnels between two namespaces of this machine, in random order,
//! round after round.
//!
//! Both ends, the load and its sink share the machine, so nothing else should run on it.

pub(crate) mod builds;
mod clients;
mod report;
mod subject;
mod testbed;

use std::path::PathBuf;
use std::time::Duration;

use adit_testbed::{
    Flood, KeyKind, PingReport, TcpLoad, TestbedError, find_saturation, round_trips, tcp_flow, while_busy,
};

use self::clients::Setup;
use self::report::Results;
use self::subject::Subject;
use self::testbed::{Programs, Testbed};
use super::load;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::{say, tell};

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 4] = ["ip", "iperf3", "openvpn", "openssl"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often every subject is measured
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How long each load runs
    #[arg(long, default_value_t = 5)]
    seconds: u16,
    /// Which subjects
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Subject::DEFAULT)]
    subjects: Vec<Subject>,
    /// Which measurements
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    only: Vec<Kind>,
    /// How many clients a server with many clients has
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// Make the outer link cut large UDP sends before they cross, as most real links do
    #[arg(long)]
    no_udp_segmentation: bool,
    /// Send the floods of UDP packets as QUIC programs do, a batch as one large packet that the kernel cuts
    #[arg(long)]
    segmented_floods: bool,
    /// Chooses the order of subjects
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A group of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// One TCP flow each way, and the processor time it takes
    Goodput,
    /// Small and large UDP packets at and beyond saturation
    Pps,
    /// Round trips, idle and under load
    Rtt,
    /// From the start of the client's process to the first reply
    Start,
    /// A server with many clients
    Clients,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Goodput, Kind::Pps, Kind::Rtt, Kind::Start, Kind::Clients];
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Goodput => "goodput",
            Kind::Pps => "pps",
            Kind::Rtt => "rtt",
            Kind::Start => "start",
            Kind::Clients => "clients",
        })
    }
}

/// Servers that get many clients: adit and OpenVPN, each with a client of adit that moves data meanwhile.
const WITH_CLIENTS: [Subject; 2] = [Subject::AditUdp, Subject::AditToOpenvpn];

/// Payload lengths of the UDP floods.
const SIZES: [usize; 2] = [64, 1300];

/// Measures, and writes the tables. False if something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    if args.only.contains(&Kind::Clients) {
        load::check(&tools.load_openvpn())?;
    }
    let programs = Programs::find(args, tools)?;
    let results = measure(args, &programs);
    say(results.markdown());
    if let Some(path) = &args.json {
        let written = std::fs::write(path, results.json().to_string());
        written.map_err(|source| LabError::File { path: path.clone(), source })?;
    }
    Ok(results.complete())
}

fn measure(args: &Args, programs: &Programs<'_>) -> Results {
    let alone = args.only.iter().any(|kind| *kind != Kind::Clients);
    let subjects = if alone { args.subjects.clone() } else { Vec::new() };
    let servers = if args.only.contains(&Kind::Clients) { WITH_CLIENTS.to_vec() } else { Vec::new() };
    let mut shown = subjects.clone();
    shown.extend(servers.iter().filter(|subject| !subjects.contains(subject)));
    let mut results = Results::new(&shown, programs.describe());
    let mut random = Random(args.seed);
    for round in 0..args.rounds {
        let mut order: Vec<(Subject, bool)> = subjects.iter().map(|subject| (*subject, false)).collect();
        order.extend(servers.iter().map(|subject| (*subject, true)));
        random.shuffle(&mut order);
        for (subject, many) in order {
            let with = if many { " with many clients" } else { "" };
            tell(format_args!("round {} of {}: {subject}{with}", round + 1, args.rounds));
            let mut run = Run { args, subject, round, results: &mut results };
            let outcome = if many { run.many_clients(programs) } else { run.all(programs) };
            if let Err(error) = outcome {
                tell(format_args!("{subject}: {error}"));
                results.failed(subject, round, &error.to_string());
            }
        }
    }
    results
}

/// One subject in one round.
struct Run<'a> {
    args: &'a Args,
    subject: Subject,
    round: u32,
    results: &'a mut Results,
}

impl Run<'_> {
    fn all(&mut self, programs: &Programs<'_>) -> Result<(), TestbedError> {
        let testbed = Testbed::build(self.subject, programs, !self.args.no_udp_segmentation)?;
        if self.wants(Kind::Start)
            && let Some(time) = testbed.first_reply
        {
            self.note("start_ms", time.as_secs_f64() * 1e3);
        }
        if self.wants(Kind::Rtt) {
            self.round_trips(&testbed)?;
        }
        if self.wants(Kind::Goodput) {
            self.goodput(&testbed)?;
        }
        if self.wants(Kind::Pps) {
            for size in SIZES {
                self.flood(&testbed, size)?;
            }
        }
        Ok(())
    }

    fn many_clients(&mut self, programs: &Programs<'_>) -> Result<(), TestbedError> {
        let segmentation = !self.args.no_udp_segmentation;
        // OpenSSL 3.0 has no ML-KEM, so the same work for both is X25519; adit's own choice comes last.
        for (kind, groups) in
            [(KeyKind::Ecdsa, Some("X25519")), (KeyKind::Rsa, Some("X25519")), (KeyKind::Ecdsa, None)]
        {
            let setup = Setup::new(kind, groups)?;
            let testbed = Testbed::build_with(self.subject, programs, &setup.configs, segmentation)?;
            let connect = || setup.connect(&testbed, &programs.tools.load_openvpn(), self.args.clients);
            if kind == KeyKind::Rsa {
                let (_clients, cost) = connect()?;
                self.note("rsa_handshakes", cost.per_core);
                self.note("rsa_handshakes_wall", cost.wall);
                continue;
            }
            if groups.is_none() {
                let (_clients, cost) = connect()?;
                self.note("hybrid_handshakes", cost.per_core);
                continue;
            }
            let alone = clients::goodput(&testbed, self.time())?;
            let (_clients, cost) = connect()?;
            self.note("ecdsa_handshakes", cost.per_core);
            self.note("ecdsa_handshakes_wall", cost.wall);
            self.note("client_rss_kib", cost.memory[0]);
            self.note("client_pss_kib", cost.memory[1]);
            let among = clients::goodput(&testbed, self.time())?;
            self.note("alone_up_mbit", alone[0]);
            self.note("among_clients_up_mbit", among[0]);
            self.note("among_clients_up_kept", among[0] / alone[0]);
            self.note("alone_down_mbit", alone[1]);
            self.note("among_clients_down_mbit", among[1]);
            self.note("among_clients_down_kept", among[1] / alone[1]);
        }
        Ok(())
    }

    fn wants(&self, kind: Kind) -> bool {
        self.args.only.contains(&kind)
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.args.seconds.into())
    }

    fn note(&mut self, metric: &'static str, value: f64) {
        self.results.note(self.subject, self.round, metric, value);
    }

    fn goodput(&mut self, testbed: &Testbed) -> Result<(), TestbedError> {
        let up = tcp_flow(
            &testbed.ends(),
            TcpLoad { time: self.time(), back: false, write: None, compressible: false },
        )?;
        let down = tcp_flow(
            &testbed.ends(),
            TcpLoad { time: self.time(), back: true, write: None, compressible: false },
        )?;
        self.note("up_mbit", up.megabits);
        self.note("down_mbit", down.megabits);
        self.note("up_cpu_s_per_gb", up.processor_seconds / up.gigabytes);
        self.note("down_cpu_s_per_gb", down.processor_seconds / down.gigabytes);
        Ok(())
    }

    fn round_trips(&mut self, testbed: &Testbed) -> Result<(), TestbedError> {
        let idle = round_trips(&testbed.ends(), echoes(self.time()))?;
        self.note_round_trips(["idle_p50_us", "idle_p99_us", "idle_lost"], &idle);
        let loaded = while_busy(&testbed.ends(), self.time(), || {
            // The flow has found its speed by then.
            std::thread::sleep(Duration::from_millis(500));
            round_trips(&testbed.ends(), echoes(self.time()))
        })?;
        self.note_round_trips(["loaded_p50_us", "loaded_p99_us", "loaded_lost"], &loaded);
        Ok(())
    }

    fn note_round_trips(&mut self, [p50, p99, lost]: [&'static str; 3], report: &PingReport) {
        for (name, share) in [(p50, 0.5), (p99, 0.99)] {
            let time = report.percentile(share).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
            self.note(name, time);
        }
        self.note(lost, report.lost().into());
    }

    fn flood(&mut self, testbed: &Testbed, size: usize) -> Result<(), TestbedError> {
        let segmented = self.args.segmented_floods;
        let rate = find_saturation(&testbed.ends(), size, segmented)?;
        let flood = |rate| Flood { size, rate, time: self.time(), segmented }.run(&testbed.ends());
        let (once, twice) = (flood(rate)?, flood(rate.saturating_mul(2))?);
        let names = match size {
            64 => ["udp64_pps", "udp64_double_pps", "udp64_kept", "udp64_offered", "udp64_double_offered"],
            _ => [
                "udp1300_pps",
                "udp1300_double_pps",
                "udp1300_kept",
                "udp1300_offered",
                "udp1300_double_offered",
            ],
        };
        let kept = twice.received / once.received;
        for (name, value) in
            names.into_iter().zip([once.received, twice.received, kept, once.sent, twice.sent])
        {
            self.note(name, value);
        }
        Ok(())
    }
}

/// As many as are sent meanwhile, a thousand a second.
fn echoes(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// SplitMix64 (Steele, Lea and Flood 2014): good enough to shuffle.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = (self.next() % (last as u64 + 1)) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffling_loses_nothing_and_changes_the_order() {
        let mut random = Random(1);
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            let mut sorted = items;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            orders.insert(items);
        }
        assert!(orders.len() > 10);
    }

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("measure"));
        command.clone().debug_assert();
        let line = ["measure", "--subjects", "adit-udp,nulltun", "--only", "rtt"];
        let args = Args::from_arg_matches(&command.get_matches_from(line)).unwrap();
        assert_eq!(args.subjects, [Subject::AditUdp, Subject::Nulltun]);
        assert_eq!(args.only, [Kind::Rtt]);
    }
}

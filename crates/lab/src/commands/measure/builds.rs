//! Two builds of adit in turns: whether the later one is slower, or takes more memory.

mod metrics;
mod report;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Flood, KeyKind, TcpLoad, TestbedError, find_saturation, round_trips, tcp_flow};
use clap::ValueEnum;

use self::metrics::{BENCH_OPEN, BENCH_SEAL, bench_rows, geometric_mean};
use self::report::{BUILDS, Comparison};
use super::clients::Setup;
use super::subject::Subject;
use super::testbed::{Programs, Testbed, configurations};
use crate::commands::{load, output};
use crate::error::LabError;
use crate::subjects::Tools;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 3] = ["ip", "iperf3", "openssl"];

/// Bytes of payload of a small packet.
const SMALL: usize = 64;
/// Round trips of one sample, a thousand a second.
const ECHOES: u32 = 500;
/// The arguments of `adit bench` for each of its rows: some 2 s in all.
const BENCH_ROUNDS: &str = "5";
const BENCH_MILLISECONDS: &str = "15";

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The earlier build of adit
    #[arg(long)]
    before: PathBuf,
    /// The later one
    #[arg(long)]
    after: PathBuf,
    /// How often everything is set up and measured
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How often the tunnels of both builds, set up side by side, take turns in each round
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Seconds of each flow and flood
    #[arg(long, default_value_t = 1)]
    seconds: u16,
    /// How many clients a server with many clients has
    #[arg(long, default_value_t = 500)]
    clients: usize,
    /// Packets of 64 bytes offered a second [default: half as much again as saturates the earlier build]
    #[arg(long)]
    rate: Option<u32>,
    /// Only these measurements
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Group::ALL)]
    only: Vec<Group>,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measurements that are made together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Over UDP: round trips, one TCP flow each way, small packets
    Udp,
    /// Over TCP: round trips, one TCP flow each way
    Tcp,
    /// `adit bench`
    Bench,
    /// A server with many clients: handshakes, memory
    Clients,
}

impl Group {
    const ALL: [Group; 4] = [Group::Udp, Group::Tcp, Group::Bench, Group::Clients];
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Group::Udp => "udp",
            Group::Tcp => "tcp",
            Group::Bench => "bench",
            Group::Clients => "clients",
        })
    }
}

/// Compares, and writes the table. False if a figure is beyond its limit or could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    let builds = [&args.before, &args.after].map(|path| Tools { adit: path.clone(), ..tools.clone() });
    builds.iter().try_for_each(output::check_adit)?;
    if args.only.contains(&Group::Clients) {
        load::check(&tools.load_openvpn())?;
    }
    let programs = BUILDS.into_iter().zip(&builds).map(|(name, tools)| (name, Command::new(&tools.adit)));
    let mut comparison = Comparison::new(output::describe(programs.collect()), args.rounds);
    let configs = configurations()?;
    let setup = Setup::new(KeyKind::Ecdsa, Some("X25519"))?;
    let rate = rate(args, &builds[0], &configs)?;
    let bed = Bed { args, configs, setup, rate };
    for round in 0..args.rounds {
        for group in &args.only {
            tell(format_args!("round {} of {}: {group}", round + 1, args.rounds));
            bed.measure(*group, &builds, &mut Round { number: round, comparison: &mut comparison });
        }
    }
    output::finish(&comparison.markdown(), args.json.as_deref(), &comparison)?;
    Ok(comparison.is_good())
}

/// How many small packets a second both builds are offered: the same number, beyond the one that the earlier
/// build carries.
fn rate(args: &Args, tools: &Tools, configs: &[String; 2]) -> Result<u32, LabError> {
    if let Some(rate) = args.rate.or_else(|| (!args.only.contains(&Group::Udp)).then_some(0)) {
        return Ok(rate);
    }
    tell("looking for the rate that saturates the earlier build");
    let testbed = Testbed::build(Subject::AditUdp, &Programs::of_adit(tools, configs), true)?;
    Ok(find_saturation(&testbed.ends(), SMALL, false)? / 2 * 3)
}

/// Takes down the figures of one build in one pair.
type Note<'a> = &'a mut dyn FnMut(Name<'_>, f64);

/// A figure, or a row of `adit bench`.
enum Name<'a> {
    Figure(&'static str),
    Bench(&'a str),
}

/// One round of the comparison.
struct Round<'a> {
    number: u32,
    comparison: &'a mut Comparison,
}

impl Round<'_> {
    /// Measures both builds in turns, and takes down their figures as the pair number `pair`. Which is first
    /// alternates, so that a machine that becomes slower favours neither. False if one could not be measured.
    fn pair<E: std::fmt::Display>(
        &mut self,
        pair: u32,
        group: Group,
        mut measure: impl FnMut(usize, Note<'_>) -> Result<(), E>,
    ) -> bool {
        let first = (self.number + pair) as usize % 2;
        for build in [first, 1 - first] {
            let outcome = measure(build, &mut |name, value| match name {
                Name::Figure(name) => self.comparison.note(name, pair, build, value),
                Name::Bench(name) => self.comparison.note_bench(name, pair, build, value),
            });
            if let Err(error) = outcome {
                self.fail(build, group, &error);
                return false;
            }
        }
        true
    }

    fn fail(&mut self, build: usize, group: Group, error: &dyn std::fmt::Display) {
        tell(error);
        self.comparison.fail(self.number, build, &group.to_string(), &error.to_string());
    }
}

/// The state that all measurements share.
struct Bed<'a> {
    args: &'a Args,
    configs: [String; 2],
    setup: Setup,
    rate: u32,
}

impl Bed<'_> {
    fn measure(&self, group: Group, builds: &[Tools; 2], round: &mut Round<'_>) {
        let number = round.number;
        match group {
            Group::Udp => self.tunnels(group, builds, round),
            Group::Tcp => self.tunnels(group, builds, round),
            Group::Bench => {
                round.pair(number, group, |build, note| bench(&builds[build], note));
            }
            Group::Clients => {
                round.pair(number, group, |build, note| self.clients(&builds[build], note));
            }
        }
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.args.seconds.into())
    }

    /// The tunnels of both builds stand side by side, so that little time passes between the two sides of a pair. The one
    /// whose turn it is not is idle.
    fn tunnels(&self, group: Group, builds: &[Tools; 2], round: &mut Round<'_>) {
        let subject = if group == Group::Tcp { Subject::AditTcp } else { Subject::AditUdp };
        let mut testbeds = Vec::new();
        for (build, tools) in builds.iter().enumerate() {
            match Testbed::build(subject, &Programs::of_adit(tools, &self.configs), true) {
                Ok(testbed) => testbeds.push(testbed),
                Err(error) => return round.fail(build, group, &error),
            }
        }
        for pair in 0..self.args.pairs {
            let pair = round.number * self.args.pairs + pair;
            let measured = round.pair(pair, group, |build, note| match group {
                Group::Tcp => self.tcp(&testbeds[build], note),
                _ => self.udp(&testbeds[build], note),
            });
            if !measured {
                return;
            }
        }
    }

    fn udp(&self, testbed: &Testbed, note: Note<'_>) -> Result<(), TestbedError> {
        round_trip(testbed, "udp_idle_p50_us", note)?;
        self.goodput(testbed, ["udp_up_mbit", "udp_down_mbit"], note)?;
        let flood = Flood { size: SMALL, rate: self.rate, time: self.time(), segmented: false };
        note(Name::Figure("udp64_pps"), flood.run(&testbed.ends())?.received);
        Ok(())
    }

    fn tcp(&self, testbed: &Testbed, note: Note<'_>) -> Result<(), TestbedError> {
        round_trip(testbed, "tcp_idle_p50_us", note)?;
        self.goodput(testbed, ["tcp_up_mbit", "tcp_down_mbit"], note)
    }

    fn goodput(
        &self,
        testbed: &Testbed,
        names: [&'static str; 2],
        note: Note<'_>,
    ) -> Result<(), TestbedError> {
        for (name, back) in names.into_iter().zip([false, true]) {
            let load = TcpLoad { time: self.time(), back, write: None, compressible: false };
            note(Name::Figure(name), tcp_flow(&testbed.ends(), load)?.megabits);
        }
        Ok(())
    }

    fn clients(&self, tools: &Tools, note: Note<'_>) -> Result<(), TestbedError> {
        let programs = Programs::of_adit(tools, &self.setup.configs);
        let testbed = Testbed::build(Subject::AditUdp, &programs, true)?;
        let (_clients, cost) = self.setup.connect(&testbed, &tools.load_openvpn(), self.args.clients)?;
        note(Name::Figure("handshakes"), cost.per_core);
        note(Name::Figure("client_rss_kib"), cost.memory[0]);
        Ok(())
    }
}

fn round_trip(testbed: &Testbed, name: &'static str, note: Note<'_>) -> Result<(), TestbedError> {
    let report = round_trips(&testbed.ends(), ECHOES)?;
    let median = report.percentile(0.5).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
    note(Name::Figure(name), median);
    Ok(())
}

fn bench(tools: &Tools, note: Note<'_>) -> Result<(), LabError> {
    let failed = |what: &str| LabError::Usage(format!("adit bench --json: {what}"));
    let mut command = Command::new(&tools.adit);
    command.args(["bench", "--json", "--rounds", BENCH_ROUNDS, "--milliseconds", BENCH_MILLISECONDS]);
    let output = command.output().map_err(|error| failed(&error.to_string()))?;
    let json = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed(String::from_utf8_lossy(&output.stderr).trim()))?;
    let rows = bench_rows(&json);
    for (index, (mean, work)) in [(BENCH_SEAL, "seal"), (BENCH_OPEN, "open")].into_iter().enumerate() {
        let values = rows.iter().filter_map(|(_, values)| values.get(index).copied());
        let value = geometric_mean(values).ok_or_else(|| failed("it has no row"))?;
        note(Name::Figure(mean), value);
        for (name, values) in &rows {
            note(Name::Bench(&format!("{name} {work}")), values.get(index).copied().unwrap_or(f64::NAN));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("compare-builds"));
        command.clone().debug_assert();
        let line = ["compare-builds", "--before", "a", "--after", "b", "--only", "bench,clients"];
        let args = Args::from_arg_matches(&command.get_matches_from(line)).unwrap();
        assert_eq!((args.rounds, args.only), (5, vec![Group::Bench, Group::Clients]));
    }
}

//! The cost of handshakes to a responder of IKEv2, adit's and strongSwan's: many initiators connect, one soon after the other, and stay.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{Namespace, Process, Scratch, TestbedError, Usage, connect, wait_until};

use super::attackers::keys::said;
use super::wireguard::figures::{Figure, Figures, Limit};
use super::{load, output};
use crate::error::LabError;
use crate::subjects::strongswan::{self, Daemon, Place};
use crate::subjects::{Availability, Tools, adit};
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 2] = ["ip", "unshare"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many initiators connect and stay
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    initiators: u32,
    /// How often each responder is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure adit alone
    #[arg(long)]
    alone: bool,
    /// A connection for each initiator, in place of one for all that has a pattern of identities and a pool of addresses
    #[arg(long)]
    each: bool,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The responder's addresses: outside, and in the tunnels, as `adit-load-ike` has it.
const OUTER: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const INNER: &str = "10.8.0.1/32";
/// How long a responder may take to listen.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a handshake may take, with all that wait before it.
const EACH: Duration = Duration::from_millis(50);
/// The line of adit's log when it listens.
const READY: &str = "tunnel up";

const FIGURES: &[Figure] = &[
    ("psk_cpu_us", "PSK: processor time of a handshake, µs", 0, Limit::None),
    ("psk_ratio", "PSK: that, of charon's in the same round", 2, Limit::AtMost(1.0)),
    ("psk_per_s", "PSK: handshakes a second", 0, Limit::None),
    ("psk_kib", "PSK: memory of an IKE SA with its child SA, RSS, KiB", 1, Limit::AtMost(12.0)),
    ("certificates_cpu_us", "certificates (P-256): processor time of a handshake, µs", 0, Limit::None),
    ("certificates_ratio", "certificates: that, of charon's in the same round", 2, Limit::AtMost(1.0)),
    ("certificates_per_s", "certificates: handshakes a second", 0, Limit::None),
    (
        "certificates_kib",
        "certificates: memory of an IKE SA with its child SA, RSS, KiB",
        1,
        Limit::AtMost(16.0),
    ),
];

/// The proof of the ends' identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    SharedKey,
    Certificates,
}

impl Proof {
    /// The names of the figures: processor time, ratio, handshakes a second, memory.
    const fn figures(self) -> [&'static str; 4] {
        match self {
            Proof::SharedKey => ["psk_cpu_us", "psk_ratio", "psk_per_s", "psk_kib"],
            Proof::Certificates => {
                ["certificates_cpu_us", "certificates_ratio", "certificates_per_s", "certificates_kib"]
            }
        }
    }
}

/// The responder's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Responder {
    Adit,
    StrongSwan,
}

impl fmt::Display for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Responder::Adit => "adit",
            Responder::StrongSwan => "strongswan",
        })
    }
}

/// The costs of a responder's handshakes.
struct Cost {
    cpu_us: f64,
    per_second: f64,
    kib: f64,
}

/// Measures, and writes the table. False if adit breaks a limit, or something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    output::check_adit(tools)?;
    load::check(&tools.load_ike())?;
    let mut machine = output::describe(vec![("adit", Command::new(&tools.adit))]);
    let mut responders = vec![Responder::Adit];
    if !args.alone {
        match strongswan::availability(Place::UserSpace) {
            Availability::Installed(version) => machine.push(version),
            other => return Err(LabError::Usage(format!("strongswan: {other}; or give --alone"))),
        }
        responders.push(Responder::StrongSwan);
    }
    let subjects: Vec<String> = responders.iter().map(ToString::to_string).collect();
    let mut figures = Figures::new(machine, &subjects, FIGURES);
    for round in 0..args.rounds {
        for proof in [Proof::SharedKey, Proof::Certificates] {
            let mut times = BTreeMap::new();
            for responder in &responders {
                let name = responder.to_string();
                tell(format_args!("round {} of {}: {name}, {proof:?}", round + 1, args.rounds));
                match measure(args, tools, *responder, proof) {
                    Ok(cost) => {
                        let [cpu_us, _, per_second, kib] = proof.figures();
                        figures.note(&name, round, cpu_us, cost.cpu_us);
                        figures.note(&name, round, per_second, cost.per_second);
                        figures.note(&name, round, kib, cost.kib);
                        times.insert(name, cost.cpu_us);
                    }
                    Err(error) => {
                        tell(&error);
                        figures.fail(&name, round, &error.to_string());
                    }
                }
            }
            if let (Some(own), Some(other)) = (times.get("adit"), times.get("strongswan")) {
                figures.note("adit", round, proof.figures()[1], own / other);
            }
        }
        // The next round begins with another responder.
        responders.rotate_left(1);
    }
    output::finish(&figures.markdown(), args.json.as_deref(), &figures)?;
    Ok(figures.is_good())
}

/// A responder that listens, and a place for initiators.
struct Testbed {
    process: Process,
    initiators: Namespace,
    /// Gone after the programs in it.
    _server: Namespace,
    directory: Scratch,
}

impl Testbed {
    fn build(
        args: &Args,
        tools: &Tools,
        responder: Responder,
        proof: Proof,
    ) -> Result<Testbed, TestbedError> {
        let directory = Scratch::create("ike")?;
        let (server, initiators) = (Namespace::create("server")?, Namespace::create("initiators")?);
        let [left, right] = OUTER.map(|address| format!("{address}/24"));
        connect(&server, &[&left], &initiators, &[&right], "wire")?;
        server.ip(&["address", "add", INNER, "dev", "lo"])?;
        let file = files(args, tools, proof, directory.path())?;
        let process = match responder {
            Responder::Adit => {
                let mut process = server.spawn("adit", adit::command(tools, &file))?;
                process.wait_for_line(0, READY, TIMEOUT)?;
                process
            }
            Responder::StrongSwan => {
                let daemon = Daemon { directory: &directory, name: "server" };
                let process = server.spawn("charon", daemon.command(Place::UserSpace)?)?;
                daemon.load(&server, &file)?;
                process
            }
        };
        Ok(Testbed { process, initiators, _server: server, directory })
    }
}

/// Writes the responder's files, which are the same for each program, and gives the path of its connections.
fn files(args: &Args, tools: &Tools, proof: Proof, directory: &Path) -> Result<PathBuf, TestbedError> {
    let mut command = Command::new(tools.load_ike());
    command.arg("files").arg(directory);
    match args.each {
        true => command.arg(format!("--count={}", args.initiators)),
        false => command.arg("--pattern"),
    };
    command.args((proof == Proof::Certificates).then_some("--certificates"));
    said("adit-load-ike files", command)?;
    Ok(directory.join("swanctl.conf"))
}

fn measure(args: &Args, tools: &Tools, responder: Responder, proof: Proof) -> Result<Cost, TestbedError> {
    let testbed = Testbed::build(args, tools, responder, proof)?;
    let usage = || Usage::of(&[testbed.process.id()]);
    let mut arguments = vec![OUTER[0].to_owned(), format!("--count={}", args.initiators)];
    arguments.extend((!args.each).then(|| "--pool".to_owned()));
    if proof == Proof::Certificates {
        arguments.push(format!("--certificates={}", testbed.directory.path().display()));
    }
    let (before, start) = (usage(), Instant::now());
    let load = load::Load::attackers(&testbed.initiators, &tools.load_ike(), "initiators", &arguments)?;
    let all = || load.counters()[1] >= u64::from(args.initiators);
    if let Err(error) = wait_until("all initiators", TIMEOUT + EACH * args.initiators, all) {
        let [begun, done] = load.counters();
        let output = format!("{error}: {done} of {begun}\n{}", testbed.process.log_tail());
        return Err(TestbedError::Output { command: responder.to_string(), output });
    }
    let (seconds, after) = (start.elapsed().as_secs_f64(), usage());
    load.stop()?;
    let count = f64::from(args.initiators);
    Ok(Cost {
        cpu_us: (after.processor_seconds - before.processor_seconds) / count * 1e6,
        per_second: count / seconds,
        kib: (after.resident_kib - before.resident_kib) / count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_a_proof_is_in_the_table() {
        let known: Vec<&str> = FIGURES.iter().map(|(name, ..)| *name).collect();
        let all = [Proof::SharedKey, Proof::Certificates].map(Proof::figures).concat();
        assert_eq!(known, all);
    }

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("ike-handshakes"));
        command.clone().debug_assert();
        let line = ["ike-handshakes", "--initiators", "50", "--alone", "--each"];
        let args = Args::from_arg_matches(&command.get_matches_from(line)).unwrap();
        assert_eq!((args.initiators, args.rounds, args.alone, args.each), (50, 5, true, true));
    }
}

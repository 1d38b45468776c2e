//! Measures VPNs on the reader's machine, as the published studies did.
#![forbid(unsafe_code)]

mod check;
mod commands;
mod compare;
mod configuration;
mod environment;
mod error;
mod findings;
mod guest;
mod layout;
mod limit;
mod limits;
mod link;
mod measure;
mod null;
mod number;
mod plan;
mod progress;
mod published;
mod ratios;
mod record;
mod report;
mod results;
mod run;
mod setup;
mod shipped;
mod stats;
mod subjects;
mod testbed;
mod wire;
mod wire_cost;
mod workload;

use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_testbed::{Guest, Kernel};
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::commands::measure::builds;
use crate::commands::wireguard::{
    attackers as wireguard_attackers, handshakes as wireguard_handshakes, peers as wireguard_peers,
};
use crate::commands::{
    attackers, demo, endpoints, ike_handshakes, measure as comparison, narrow_path, reload, shared_port,
    tunnels,
};
use crate::compare::Verdict;
use crate::error::LabError;
use crate::plan::Plan;
use crate::results::Results;
use crate::subjects::Tools;

/// Measure VPNs on this machine, as the published studies did
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Where peers are that no package manager puts into PATH [default: lab-tools beside the program]
    #[arg(long, global = true)]
    tools: Option<PathBuf>,
    /// The measured adit [default: beside this program]
    #[arg(long, global = true)]
    adit: Option<PathBuf>,
    /// The folder of the load generators adit-load-ike, adit-load-openvpn and adit-load-wireguard [default: that of this program]
    #[arg(long, global = true)]
    load: Option<PathBuf>,
    /// A folder with subjects of your own [default: lab-subjects beside the program]
    #[arg(long, global = true)]
    own: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Show a tunnel of adit at work on this machine: two network namespaces, a server, a client, measured and removed
    Demo(demo::Args),
    /// Show what can be measured here, and the plans
    List,
    /// Get the peers that are not installed, by package name
    Setup {
        /// Only these
        #[arg(long, value_delimiter = ',')]
        subjects: Option<Vec<String>>,
    },
    /// See whether the lab measures what is there; exit status 1 if it does not
    Check,
    /// Run a plan; exit status 1 if something could not be measured, or if a limit of the plan is broken
    Run {
        /// The name of a plan that `list` shows, or a TOML file
        plan: String,
        /// Measure only these
        #[arg(long, value_delimiter = ',')]
        subjects: Option<Vec<String>>,
        /// How often everything is measured
        #[arg(long)]
        rounds: Option<u32>,
        /// How long each load runs, in seconds
        #[arg(long)]
        seconds: Option<u32>,
        /// Do only this share of the starts, echoes and seconds, such as 0.1
        #[arg(long, value_parser = share)]
        fraction: Option<f64>,
        /// Where results are kept; a run that is there goes on [default: lab-PLAN]
        #[arg(long)]
        out: Option<PathBuf>,
        /// In a run that is there, measure again what failed
        #[arg(long)]
        again: bool,
        /// Run it in a virtual machine with the kernel of this suite of Debian (bookworm, trixie or sid), for subjects that this
        /// kernel cannot run. Where an emulator runs the processor, figures are multiples of each other only
        #[arg(long, value_parser = guest::kernel, conflicts_with = "again")]
        guest: Option<Kernel>,
    },
    /// Write report.html, results.json and results.csv of a run
    Report {
        /// What `run` filled
        directory: PathBuf,
    },
    /// Be one end of the null tunnel
    #[command(hide = true)]
    Null {
        /// What to call the TUN device
        device: String,
        /// The own address and port
        local: SocketAddr,
        /// The other end's
        remote: SocketAddr,
    },
    /// Measure adit beside other tunnels, round after round, also as a server with many clients
    Measure(comparison::Args),
    /// Attack a server in each of many ways, and let clients connect meanwhile; exit status 1 if adit does not withstand one
    Attackers(attackers::Args),
    /// Measure a server with a client behind a narrow path; exit status 1 if the others become slower, or if UDP_SEGMENT
    /// does not stay in use for them or does not come back for that client
    NarrowPath(narrow_path::Args),
    /// Measure two builds of adit in turns; exit status 1 if the later one is slower or takes more memory
    CompareBuilds(builds::Args),
    /// Measure many tunnels in one process; exit status 1 if one of them notices another's reload or end
    Tunnels(tunnels::Args),
    /// Measure a client over UDP while clients over TCP load the same tunnel; exit status 1 if it becomes slower
    Endpoints(endpoints::Args),
    /// Measure clients of OpenVPN and WireGuard at one port; exit status 1 if either becomes slower than alone
    SharedPort(shared_port::Args),
    /// Reload a server with many clients (SIGHUP); exit status 1 if a packet is lost
    Reload(reload::Args),
    /// Measure a WireGuard server with many configured peers; exit status 1 if one of adit's limits is broken
    WireguardPeers(wireguard_peers::Args),
    /// Measure what handshakes cost a WireGuard server
    WireguardHandshakes(wireguard_handshakes::Args),
    /// Flood a WireGuard server with forged initiations, and let clients connect meanwhile
    WireguardAttackers(wireguard_attackers::Args),
    /// Measure what handshakes cost a responder of IKEv2, beside strongSwan; exit status 1 if adit breaks a limit
    IkeHandshakes(ike_handshakes::Args),
    /// Write the figures and findings of runs as Markdown
    Results {
        /// What `run` filled
        #[arg(conflicts_with = "redraw")]
        directories: Vec<PathBuf>,
        /// The folder for an index, a page for each run and their drawings [default: pages on standard output]
        #[arg(long, conflicts_with = "redraw")]
        out: Option<PathBuf>,
        /// Draw the pages of this folder again, from the tables that they have
        #[arg(long)]
        redraw: Option<PathBuf>,
    },
    /// Compare two runs; exit status 1 if something became worse
    Compare {
        /// The earlier one
        before: PathBuf,
        /// The later one
        after: PathBuf,
        /// What share may be lost before it counts
        #[arg(long, default_value_t = 0.1)]
        threshold: f64,
        /// Look only at these figures, such as up_mbit,down_mbit
        #[arg(long, value_delimiter = ',')]
        figures: Option<Vec<String>>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match act(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tell(&error);
            ExitCode::from(2)
        }
    }
}

/// Writes a line to the standard error. On a terminal it takes the place of a progress bar.
fn tell(what: impl fmt::Display) {
    let mut stream = std::io::stderr();
    let clear = if progress::is_terminal() { progress::CLEAR } else { "" };
    let _ = writeln!(stream, "{clear}adit-lab: {what}");
}

fn say(what: impl fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{what}");
}

/// False: it was done, and what it says is not good.
fn act(arguments: Arguments) -> Result<bool, LabError> {
    let tools = tools(&arguments);
    match arguments.command {
        Command::Demo(args) => demo::run(&args, &tools),
        Command::List => {
            list(&tools)?;
            Ok(true)
        }
        Command::Setup { subjects: wanted } => {
            let mut all = subjects::with_external(&tools)?;
            if let Some(wanted) = wanted {
                run::check_subjects(&wanted, &all)?;
                all.retain(|name, _| wanted.contains(name));
            }
            Ok(setup::setup(&all, &tools))
        }
        Command::Check => {
            prepare(&NEEDED, RESUMES)?;
            let right = check::check(&tools, |check| say(check))?;
            say(if right {
                "the lab measures what is there"
            } else {
                "do not trust what this machine measures"
            });
            Ok(right)
        }
        Command::Run { plan: name, subjects, rounds, seconds, fraction, out, again, guest } => {
            let mut plan = shipped::find(&name)?;
            let all = subjects::with_external(&tools)?;
            plan.subjects = subjects.unwrap_or(plan.subjects);
            if plan.subjects == [plan::ALL] {
                plan.subjects = all.keys().cloned().collect();
            }
            plan.limits.retain(|limit| limit.is_among(&plan.subjects));
            if let Some(share) = fraction {
                plan = plan.scaled(share);
            }
            plan.rounds = rounds.unwrap_or(plan.rounds);
            plan.seconds = seconds.unwrap_or(plan.seconds);
            plan.check(&name)?;
            let out = out.unwrap_or_else(|| PathBuf::from(format!("lab-{}", shipped::stem(&name))));
            if let Some(kernel) = guest {
                prepare(&Guest::NEEDED, ENDED)?;
                return guest::run(&plan, kernel, &out, &all, &tools);
            }
            prepare(&NEEDED, RESUMES)?;
            let failures = run::run(&plan, &out, &all, &tools, again)?;
            report::write(&out)?;
            let verdicts = limits::verdicts(&Results::read(&out)?);
            verdicts.iter().for_each(say);
            say(format_args!("{}", out.join(report::HTML).display()));
            Ok(failures == 0 && verdicts.iter().all(|verdict| verdict.is_kept))
        }
        Command::Report { directory } => {
            report::write(&directory)?;
            say(format_args!("{}", directory.join(report::HTML).display()));
            Ok(true)
        }
        Command::Null { device, local, remote } => {
            let failed = |error| LabError::Usage(format!("the null tunnel: {error}"));
            null::run(&device, local, remote).map_err(failed)?;
            Ok(true)
        }
        Command::Measure(args) => {
            prepare(&comparison::NEEDED, ENDED)?;
            comparison::run(&args, &tools)
        }
        Command::Attackers(args) => {
            prepare(&attackers::NEEDED, ENDED)?;
            attackers::run(&args, &tools)
        }
        Command::NarrowPath(args) => {
            prepare(&narrow_path::NEEDED, ENDED)?;
            narrow_path::run(&args, &tools)
        }
        Command::CompareBuilds(args) => {
            prepare(&builds::NEEDED, ENDED)?;
            builds::run(&args, &tools)
        }
        Command::Tunnels(args) => {
            prepare(&tunnels::NEEDED, ENDED)?;
            tunnels::run(&args, &tools)
        }
        Command::Endpoints(args) => {
            prepare(&endpoints::NEEDED, ENDED)?;
            endpoints::run(&args, &tools)
        }
        Command::SharedPort(args) => {
            prepare(&shared_port::NEEDED, ENDED)?;
            shared_port::run(&args, &tools)
        }
        Command::Reload(args) => {
            prepare(&reload::NEEDED, ENDED)?;
            reload::run(&args, &tools)
        }
        Command::WireguardPeers(args) => {
            prepare(&wireguard_peers::NEEDED, ENDED)?;
            wireguard_peers::run(&args, &tools)
        }
        Command::WireguardHandshakes(args) => {
            prepare(&wireguard_handshakes::NEEDED, ENDED)?;
            wireguard_handshakes::run(&args, &tools)
        }
        Command::WireguardAttackers(args) => {
            prepare(&wireguard_attackers::NEEDED, ENDED)?;
            wireguard_attackers::run(&args, &tools)
        }
        Command::IkeHandshakes(args) => {
            prepare(&ike_handshakes::NEEDED, ENDED)?;
            ike_handshakes::run(&args, &tools)
        }
        Command::Results { redraw: Some(folder), .. } => report::redraw(&folder).map(|()| true),
        Command::Results { directories, out, redraw: None } => {
            let pages = report::markdown(&directories)?;
            match out {
                Some(folder) => report::write_pages(&pages, &folder)?,
                None => pages.iter().for_each(|page| say(&page.text)),
            }
            Ok(true)
        }
        Command::Compare { before, after, threshold, figures } => {
            let (before, after) = (Results::read(&before)?, Results::read(&after)?);
            if before.environment.emulated != after.environment.emulated {
                let why =
                    "an emulator ran the processor of one of the runs: its figures stand beside no others"
                        .to_owned();
                return Err(LabError::Usage(why));
            }
            compare_runs(&before, &after, threshold, figures.as_deref())
        }
    }
}

/// False: something became worse.
fn compare_runs(
    before: &Results,
    after: &Results,
    threshold: f64,
    figures: Option<&[String]>,
) -> Result<bool, LabError> {
    let mut changes = compare::compare(before, after, threshold);
    changes.retain(|change| figures.is_none_or(|names| names.contains(&change.place.figure)));
    let gone = compare::gone(before, after);
    if changes.is_empty() && gone.is_empty() {
        return Err(LabError::Usage("the two runs have no figure in common".to_owned()));
    }
    changes.iter().for_each(say);
    gone.iter().for_each(say);
    let count = |verdict| changes.iter().filter(|change| change.verdict == verdict).count();
    let worse = count(Verdict::Worse) + gone.len();
    say(format_args!(
        "{} figures: {worse} worse, {} better",
        changes.len() + gone.len(),
        count(Verdict::Better)
    ));
    Ok(worse == 0)
}

/// Programs that every run of a plan needs.
const NEEDED: [&str; 5] = ["ip", "tc", "ethtool", "iperf3", "openssl"];

/// The message of a run that is ended early, if the same command goes on with it.
const RESUMES: &str = "ended early; the same command goes on where it stopped";
/// The message of a run that is ended early, if no command goes on with it.
const ENDED: &str = "ended early";

/// Before anything is measured.
fn prepare(needed: &[&str], note: &'static str) -> Result<(), LabError> {
    let missing = adit_testbed::missing_prerequisites(needed);
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(LabError::Usage(format!(
            "cannot measure without {missing}; `adit-lab setup` gets programs"
        )));
    }
    clean_up_on_signals(note)
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().map_err(|error| error.to_string())?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err("more than 0, and no more than 1".to_owned()) }
}

/// Waits for SIGINT, SIGTERM and SIGHUP: then says this, removes each namespace, process and device, and ends the
/// program.
fn clean_up_on_signals(note: &'static str) -> Result<(), LabError> {
    let failed = |error| LabError::Usage(format!("cannot wait for signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            record::add_no_more();
            tell(note);
            adit_testbed::remove_everything();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

fn tools(arguments: &Arguments) -> Tools {
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().unwrap_or(Path::new(".")).to_owned();
    Tools {
        directory: arguments.tools.clone().unwrap_or_else(|| beside.join("lab-tools")),
        adit: arguments.adit.clone().unwrap_or_else(|| beside.join("adit")),
        load: arguments.load.clone().unwrap_or_else(|| beside.clone()),
        lab: own.clone(),
        external: arguments.own.clone().unwrap_or_else(|| beside.join("lab-subjects")),
        miragevpn: std::env::var_os(subjects::miragevpn::VARIABLE).map(PathBuf::from),
    }
}

fn list(tools: &Tools) -> Result<(), LabError> {
    say("subjects:");
    for (name, subject) in subjects::with_external(tools)? {
        say(format_args!("  {name:<26} {}; {}", subject.about(), subject.availability(tools)));
    }
    say("known from studies only:");
    for (study, system) in published::systems() {
        say(format_args!("  {:<26} {} ({study})", system.name, system.about));
    }
    say("plans:");
    for (name, text) in shipped::PLANS {
        let title = Plan::parse(name, text).map(|plan| plan.title).unwrap_or_default();
        say(format_args!("  {name:<26} {title}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}

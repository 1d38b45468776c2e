//! The cost of clients over TCP to a client over UDP of the same tunnel.
//!
//! One server has an endpoint on UDP and one on TCP. A TCP flow of a client over UDP is measured while so many clients
//! over TCP, connected throughout, send little or nothing. Load that runs on the same processors costs the flow what it
//! costs, whichever process it is for. So the same load is given, in turns, to clients of another process with a tunnel
//! of its own, and the ratio of both is judged: the remainder is the cost of the parts that the endpoints of one tunnel
//! share. The load must be light: where it takes the processors that the flow needs, both sides of the ratio measure
//! the scheduler.

mod report;
mod testbed;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{TcpLoad, TestbedError, Usage, tcp_flow};
use serde::Serialize;

use self::report::Report;
use self::testbed::Testbed;
use super::output;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 3] = ["ip", "iperf3", "openssl"];

/// The load begins so long before the flow, and lasts so long after it.
const MARGIN: Duration = Duration::from_millis(500);

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Clients over TCP of each server
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=250))]
    clients: u16,
    /// Packets a second that each of them sends
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// Bytes of payload in each
    #[arg(long, default_value_t = 1000)]
    size: usize,
    /// How often everything is measured
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each flow
    #[arg(long, default_value_t = 4)]
    seconds: u16,
    /// Two tunnels in one process, each with a device and a network, in place of one tunnel with two endpoints
    #[arg(long)]
    two_tunnels: bool,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The tunnel or process whose clients over TCP send meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Load {
    /// No client: all are connected and silent.
    None,
    /// The clients of the same tunnel.
    Own,
    /// The clients of the other process.
    Other,
}

impl Load {
    const ALL: [Load; 3] = [Load::None, Load::Own, Load::Other];
}

/// One flow and its load.
#[derive(Clone, Copy, Debug, Serialize)]
struct Sample {
    round: u32,
    load: Load,
    /// Whether the flow is from the server to the client.
    down: bool,
    megabits: f64,
    /// The share of the load's packets that arrived; absent without a load.
    delivered: Option<f64>,
    /// Seconds on a processor a second of the measured server's process.
    server_processors: f64,
}

/// Measures, and writes the table. False if the flow became slower, or something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    output::check_adit(tools)?;
    let machine = output::describe(vec![("adit", Command::new(&tools.adit))]);
    let mut report = Report::new(machine, args);
    for round in 0..args.rounds {
        tell(format_args!("round {} of {}", round + 1, args.rounds));
        if let Err(error) = measure(args, tools, round, &mut report) {
            tell(&error);
            report.fail(round, &error.to_string());
        }
    }
    output::finish(&report.markdown(), args.json.as_deref(), &report)?;
    Ok(report.is_good())
}

/// A round has fresh processes and measures each load in both directions, each time in another order.
fn measure(args: &Args, tools: &Tools, round: u32, report: &mut Report) -> Result<(), TestbedError> {
    let testbed = Testbed::build(args, tools)?;
    let mut order = Load::ALL;
    order.rotate_left(round as usize % Load::ALL.len());
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    for down in [false, true] {
        for load in order {
            report.note(sample(args, &testbed, (round, load, down))?);
        }
    }
    Ok(())
}

fn sample(
    args: &Args,
    testbed: &Testbed,
    (round, load, down): (u32, Load, bool),
) -> Result<Sample, TestbedError> {
    let time = Duration::from_secs(args.seconds.into());
    let flow = TcpLoad { time, back: down, write: None, compressible: false };
    std::thread::scope(|scope| {
        let sending =
            (load != Load::None).then(|| scope.spawn(move || testbed.send(load, args, time + 2 * MARGIN)));
        std::thread::sleep(MARGIN);
        let server: Vec<u32> = testbed.servers().into_iter().take(1).collect();
        let before = Usage::of(&server).processor_seconds;
        let megabits = tcp_flow(&testbed.ends(), flow)?.megabits;
        let server_processors = (Usage::of(&server).processor_seconds - before) / time.as_secs_f64();
        let rates = match sending {
            Some(thread) => Some(thread.join().map_err(|_| TestbedError::Worker("sending load"))??),
            None => None,
        };
        let delivered = rates.map(|rates| 1.0 - rates.lost());
        Ok(Sample { round, load, down, megabits, delivered, server_processors })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("endpoints"));
        command.clone().debug_assert();
        let args = Args::from_arg_matches(&command.get_matches_from(["endpoints"])).unwrap();
        assert_eq!((args.clients, args.two_tunnels), (50, false));
    }
}

//! SIGHUP at a server with many clients that send numbered packets: settings that can change while it runs must lose
//! none.

mod report;
mod steps;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Namespace, Process, TestbedError, connect, wait_until};

use self::report::{Measured, Report};
use self::steps::{STEPS, Step};
use super::identities::Identities;
use super::load::{self, EchoCounters, Load};
use super::output;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 2] = ["ip", "openssl"];

/// Documentation addresses (RFC 5737).
const OUTER: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const PORT: u16 = 1194;
/// How long the server may take to listen or to read its file, and all clients to connect.
const TIMEOUT: Duration = Duration::from_secs(60);
/// `adit-load-openvpn` counts packets that had no answer for two seconds as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2300);
/// The time for which packets are lost on purpose.
const CONTROL: Duration = Duration::from_millis(300);
/// Half of the clients' network; the server's own address has a route of its own.
const CLIENTS: &str = "10.8.0.0/17";

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many clients
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// Numbered packets a second from each, which the server's end answers
    #[arg(long, default_value_t = 10)]
    rate: u32,
    /// Seconds after each SIGHUP, besides the two in which answers may come
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only changes whose names contain this, such as "mistake"; may be given again
    #[arg(long)]
    only: Vec<String>,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures, and writes the table. False if a packet was lost.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    output::check_adit(tools)?;
    load::check(&tools.load_openvpn())?;
    let programs =
        vec![("adit", Command::new(&tools.adit)), ("adit-load-openvpn", Command::new(tools.load_openvpn()))];
    let mut report = Report::new(output::describe(programs), args.clients, args.rate);
    let mut testbed = Testbed::build(args, tools)?;
    tell(format_args!("{} clients are connected", args.clients));
    let is_wanted =
        |step: &&Step| args.only.is_empty() || args.only.iter().any(|only| step.name.contains(only));
    testbed.settle(args);
    report.before = testbed.load.echoes();
    for step in STEPS.iter().filter(is_wanted) {
        tell(step.name);
        let measured = testbed.reload(step, args)?;
        report.steps.push(measured);
    }
    report.connected = testbed.load.counters();
    report.control = testbed.control(args)?;
    testbed.load.stop()?;
    output::finish(&report.markdown(), args.json.as_deref(), &report)?;
    Ok(report.is_good())
}

/// A server and its clients.
struct Testbed {
    // Dropped in this order: clients before the server, and both before the namespaces.
    load: Load,
    process: Process,
    server: Namespace,
    _client: Namespace,
    identities: Identities,
}

impl Testbed {
    fn build(args: &Args, tools: &Tools) -> Result<Testbed, LabError> {
        let identities = Identities::create("reload")?;
        let (server, client) = (Namespace::create("server")?, Namespace::create("clients")?);
        let [left, right] = OUTER.map(|address| format!("{address}/24"));
        connect(&server, &[&left], &client, &[&right], "wire")?;
        let mut command = Command::new(&tools.adit);
        command.arg("up").arg(identities.server("server.conf", &steps::lines(args.clients, ""))?);
        let mut process = server.spawn("the server", command)?;
        process.wait_for_line(0, "listening on", TIMEOUT)?;
        let mut arguments = vec![
            format!("{}:{PORT}", OUTER[0]),
            "--count".to_owned(),
            args.clients.to_string(),
            "--echoes".to_owned(),
            args.rate.to_string(),
        ];
        arguments.extend(identities.load_arguments());
        let load = Load::clients(&client, &tools.load_openvpn(), &arguments)?;
        let all = || load.counters().iter().sum::<u64>() >= args.clients as u64;
        if let Err(error) = wait_until("all clients to connect", TIMEOUT, all) {
            tell(format_args!("the server's log:\n{}", process.log_tail()));
            return Err(error.into());
        }
        Ok(Testbed { load, process, server, _client: client, identities })
    }

    /// Waits until the packets that were sent before are answered or lost.
    fn settle(&self, args: &Args) {
        std::thread::sleep(Duration::try_from_secs_f64(args.seconds).unwrap_or_default() + ANSWER_TIMEOUT);
    }

    /// Changes the file, sends SIGHUP, and counts the packets meanwhile.
    fn reload(&mut self, step: &Step, args: &Args) -> Result<Measured, TestbedError> {
        let before = self.load.echoes();
        let lines = steps::lines(args.clients, step.lines);
        match step.has_another_certificate {
            true => self.identities.write("server.conf", &lines, &self.identities.another_server()?)?,
            false => self.identities.server("server.conf", &lines)?,
        };
        let mark = self.process.mark();
        self.process.hang_up();
        let line = self.process.wait_for_line(mark, step.said, TIMEOUT)?;
        self.settle(args);
        let said = line.split_once("server.conf").map_or(line.as_str(), |(_, said)| said);
        Ok(Measured {
            name: step.name.to_owned(),
            said: said.trim_start_matches([':', ' ']).to_owned(),
            counted: self.load.echoes() - before,
        })
    }

    /// Cuts the way back to the clients for a while: the count must show the packets that are lost.
    fn control(&mut self, args: &Args) -> Result<EchoCounters, TestbedError> {
        let before = self.load.echoes();
        self.server.ip(&["route", "add", "blackhole", CLIENTS])?;
        std::thread::sleep(CONTROL);
        self.server.ip(&["route", "delete", "blackhole", CLIENTS])?;
        self.settle(args);
        Ok(self.load.echoes() - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("reload"));
        command.clone().debug_assert();
        let args = Args::from_arg_matches(&command.get_matches_from(["reload", "--only", "push"])).unwrap();
        assert_eq!((args.clients, args.rate, args.only), (200, 10, vec!["push".to_owned()]));
    }
}

//! A server and a client in two network namespaces, from nothing, measured and removed again.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{
    Namespace, Ping, PingReport, Process, Scratch, TestbedError, Transfer, connect, missing_prerequisites,
    transfer, wait_until, wait_until_reachable,
};

use crate::error::LabError;
use crate::subjects::{Tools, adit as subject};
use crate::{clean_up_on_signals, say, tell};

/// The outer addresses of the server and the client: documentation addresses (RFC 5737, RFC 3849).
const OUTER: [[&str; 2]; 2] = [["192.0.2.1/24", "2001:db8::1/64"], ["192.0.2.2/24", "2001:db8::2/64"]];
/// The server's address in the client's configuration.
const ENDPOINT: &str = "192.0.2.1";
const PORT: u16 = 1194;
/// The renegotiation comes this many seconds after the connection, instead of after an hour.
const RENEGOTIATE_AFTER: u64 = 10;
/// Both ends send under the new key this many seconds after a renegotiation started, instead of a minute.
const SWITCH_AFTER: u64 = 5;
/// Between two pings.
const INTERVAL: Duration = Duration::from_millis(10);
/// How long the tunnel may take to come up.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What carries the tunnel's datagrams
    #[arg(long, value_name = "udp|tcp", value_parser = ["udp", "tcp"], default_value = "udp")]
    proto: String,
    /// Size of the file that is moved each way, in megabytes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=2000), default_value_t = 200)]
    megabytes: u16,
}

/// What was measured.
struct Measured {
    first_packet: Duration,
    to_server: Transfer,
    to_client: Transfer,
    quiet: PingReport,
    loaded: PingReport,
    renegotiations: usize,
}

/// Why the demo could not go on.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    #[error("'{command}' failed: {output}")]
    Adit { command: String, output: String },
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Tunnel(String),
}

/// Runs the demo. False if the tunnel did not do all that it should, or could not be built.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    let missing = missing_prerequisites(&["ip"]);
    if !missing.is_empty() {
        tell(what_is_missing(&tools.lab, &missing));
        return Ok(false);
    }
    if !tools.adit.is_file() {
        tell(subject::unbuilt(tools));
        return Ok(false);
    }
    clean_up_on_signals("interrupted; removing the tunnel and its namespaces")?;
    let outcome = Testbed::build(&tools.adit, &args.proto)
        .and_then(|testbed| show_all(testbed, usize::from(args.megabytes) * 1_000_000));
    Ok(match outcome {
        Ok(()) => true,
        Err(error) => {
            tell(error);
            false
        }
    })
}

/// One sentence, and the command that would work.
fn what_is_missing(program: &Path, missing: &[String]) -> String {
    let way_out = if !adit_testbed::is_root() {
        format!("; run this instead: sudo {} demo", program.display())
    } else if missing.iter().any(|what| what.contains("'ip'")) {
        "; run this first: apt install iproute2".to_owned()
    } else {
        String::new()
    };
    format!("the demo makes two network namespaces and needs {}{way_out}", missing.join(" and "))
}

/// Measures, removes the testbed, and prints the table.
fn show_all(mut testbed: Testbed, file: usize) -> Result<(), DemoError> {
    let measured =
        testbed.measure(file).map_err(|error| DemoError::Tunnel(format!("{error}\n{}", testbed.logs())))?;
    let ended = testbed.end();
    print_table(&measured);
    judge(&measured).map_err(DemoError::Tunnel)?;
    ended
}

/// What must hold for the demo to have succeeded.
fn judge(measured: &Measured) -> Result<(), String> {
    if !(measured.to_server.intact && measured.to_client.intact) {
        return Err("a file was changed on its way through the tunnel".to_owned());
    }
    if measured.renegotiations == 0 {
        return Err("no renegotiation took place".to_owned());
    }
    match measured.loaded.lost() + measured.quiet.lost() {
        0 => Ok(()),
        lost => Err(format!("{lost} pings were lost")),
    }
}

/// The namespaces, the configuration files and the two ends.
struct Testbed {
    start: Instant,
    program: PathBuf,
    tcp: bool,
    server: Option<Process>,
    client: Option<Process>,
    left: Namespace,
    right: Namespace,
    directory: Scratch,
}

impl Testbed {
    fn build(program: &Path, proto: &str) -> Result<Self, DemoError> {
        let start = Instant::now();
        let directory = Scratch::create("demo")?;
        let home = directory.path().join("vpn");
        adit(program, &[&"init", &home.display(), &"--endpoint", &ENDPOINT, &"--proto", &proto])?;
        adit(program, &[&"add-client", &home.display(), &"laptop"])?;
        let (left, right) = (Namespace::create("server")?, Namespace::create("client")?);
        connect(&left, &OUTER[0], &right, &OUTER[1], "wire")?;
        let testbed = Self {
            start,
            program: program.to_owned(),
            tcp: proto == "tcp",
            server: None,
            client: None,
            left,
            right,
            directory,
        };
        testbed
            .say(format_args!("a certificate authority, a server and a client made in {}", home.display()));
        testbed.say(format_args!("namespaces {} and {} joined", testbed.left.name(), testbed.right.name()));
        Ok(testbed)
    }

    /// A line of progress.
    fn say(&self, what: impl Display) {
        say_at(self.start, what);
    }

    fn measure(&mut self, file: usize) -> Result<Measured, DemoError> {
        let home = self.directory.path().join("vpn");
        let server_file = quicken(&home.join("server.conf"), RENEGOTIATE_AFTER)?;
        let client_file = quicken(&home.join("clients").join("laptop.ovpn"), 0)?;

        self.server = Some(self.left.spawn("server", self.up(&server_file))?);
        let listens = || self.left.is_bound(self.tcp, PORT).unwrap_or(false);
        wait_until("the server listening", TIMEOUT, listens)?;
        let inner = inner_address(&self.left)?;
        self.say(format_args!("server up, {inner} inside the tunnel"));

        let client = self.right.spawn("client", self.up(&client_file))?;
        self.client = Some(client);
        let first_packet = wait_until_reachable(&self.right, inner, TIMEOUT)?;
        let connected = Instant::now();
        let client = inner_address(&self.right)?;
        self.say(format_args!("tunnel up, client is {client}; first packet after {}", show(first_packet)));

        let quiet = Ping::new(100, INTERVAL).run(&self.right, inner)?;
        self.say(format_args!("100 pings, {} lost", quiet.lost()));
        self.say("pinging 100 times a second, in both directions, across a renegotiation ...");
        let loaded = self.across_a_renegotiation(connected, inner, client)?;
        let renegotiations = self.renegotiations();
        let lost = loaded.lost();
        self.say(format_args!("{} pings, {lost} lost, renegotiations: {renegotiations}", loaded.sent));
        let to_server = self.file(file, &self.right, &self.left, inner, "to the server")?;
        let to_client = self.file(file, &self.left, &self.right, client, "to the client")?;

        Ok(Measured { first_packet, to_server, to_client, quiet, loaded, renegotiations })
    }

    /// `adit up FILE`.
    fn up(&self, file: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("up").arg(file);
        command
    }

    fn file(
        &self,
        length: usize,
        from: &Namespace,
        to: &Namespace,
        address: IpAddr,
        whither: &str,
    ) -> Result<Transfer, DemoError> {
        let moved = transfer(from, to, address, length)?;
        let verdict = if moved.intact { "SHA-256 equal" } else { "SHA-256 DIFFERENT" };
        let (megabytes, rate) = (moved.bytes / 1_000_000, moved.megabits_per_second());
        self.say(format_args!("{megabytes} MB {whither}, {rate:.0} Mbit/s, {verdict}"));
        Ok(moved)
    }

    /// Pings both ways until both ends must have switched to the new keys. Both directions in one report.
    fn across_a_renegotiation(
        &self,
        connected: Instant,
        server: IpAddr,
        client: IpAddr,
    ) -> Result<PingReport, DemoError> {
        let end = connected + Duration::from_secs(RENEGOTIATE_AFTER + SWITCH_AFTER + 2);
        let left = end.saturating_duration_since(Instant::now());
        let count = u16::try_from(left.as_millis() / INTERVAL.as_millis()).unwrap_or(u16::MAX);
        let ping = Ping::new(count, INTERVAL);
        let (there, back) = std::thread::scope(|scope| {
            let back = scope.spawn(|| ping.run(&self.left, client));
            let there = ping.run(&self.right, server);
            (there, back.join())
        });
        let back = back.map_err(|_| TestbedError::Worker("pinging the client"))??;
        let mut both = there?;
        both.sent += back.sent;
        both.received += back.received;
        Ok(both)
    }

    /// How often the ends renegotiated, as the server's log says.
    fn renegotiations(&self) -> usize {
        self.server.as_ref().map_or(0, |server| server.count_lines(0, "renegotiated"))
    }

    /// What the two ends wrote.
    fn logs(&self) -> String {
        let log = |name, process: &Option<Process>| {
            let text = process.as_ref().map(Process::log_tail).unwrap_or_default();
            format!("---- {name}\n{text}\n")
        };
        log("server", &self.server) + &log("client", &self.client)
    }

    /// Stops both ends, as a user would, and removes the rest.
    fn end(mut self) -> Result<(), DemoError> {
        for (namespace, process) in [(&self.right, &mut self.client), (&self.left, &mut self.server)] {
            let Some(process) = process else { continue };
            let status = process.terminate(TIMEOUT)?;
            let devices = namespace.devices()?;
            if !status.success() || devices != ["wire"] {
                let complaint = format!("an end did not stop cleanly: {status}, devices left: {devices:?}");
                return Err(DemoError::Tunnel(complaint));
            }
        }
        let start = self.start;
        drop(self);
        say_at(start, "both ends stopped; namespaces, devices and files removed");
        Ok(())
    }
}

/// A line of progress, with the seconds since the start.
fn say_at(start: Instant, what: impl Display) {
    say(format_args!("{:6.1} s  {what}", start.elapsed().as_secs_f64()));
}

/// Runs adit with these arguments, to its end.
fn adit(program: &Path, arguments: &[&dyn Display]) -> Result<(), DemoError> {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let command = format!("adit {}", arguments.join(" "));
    let output = Command::new(program)
        .args(&arguments)
        .output()
        .map_err(|source| DemoError::File { path: program.to_owned(), source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(DemoError::Adit { command, output: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

/// Has a configuration file renegotiate soon instead of after an hour (0: leave that to the other end), and
/// switch keys soon after.
fn quicken(path: &Path, renegotiate_after: u64) -> Result<PathBuf, DemoError> {
    let failed = |source| DemoError::File { path: path.to_owned(), source };
    let mut text = std::fs::read_to_string(path).map_err(failed)?;
    text.push_str(&format!("\nreneg-sec {renegotiate_after}\nhand-window {SWITCH_AFTER}\n"));
    std::fs::write(path, text).map_err(failed)?;
    Ok(path.to_owned())
}

/// The IPv4 address of the tunnel device in a namespace, as soon as it has one: a server's port may be bound
/// before its device is there.
fn inner_address(namespace: &Namespace) -> Result<IpAddr, DemoError> {
    let mut address = None;
    wait_until(&format!("an address inside the tunnel in {}", namespace.name()), TIMEOUT, || {
        address = tunnel_address(namespace);
        address.is_some()
    })?;
    address.ok_or_else(|| DemoError::Tunnel(format!("no tunnel address in {}", namespace.name())))
}

/// The IPv4 address of the tunnel device in a namespace, if it has one by now.
fn tunnel_address(namespace: &Namespace) -> Option<IpAddr> {
    let listing = namespace.ip(&["-4", "-oneline", "address", "show", "scope", "global"]).ok()?;
    first_address_but_of(&listing, "wire")
}

/// The first address in a listing of `ip -oneline address show` that is not one of this device.
fn first_address_but_of(listing: &str, device: &str) -> Option<IpAddr> {
    let is_of_another = |line: &&str| line.split_whitespace().nth(1).is_some_and(|name| name != device);
    let line = listing.lines().find(is_of_another)?;
    line.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// A duration in milliseconds, as precise as it is long.
fn show(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1e3;
    if milliseconds < 10.0 { format!("{milliseconds:.2} ms") } else { format!("{milliseconds:.0} ms") }
}

fn print_table(measured: &Measured) {
    let trip = |report: &PingReport| match report.round_trip {
        Some([least, mean, most]) => format!("{} / {} / {}", show(least), show(mean), show(most)),
        None => "no answer".to_owned(),
    };
    let loss = |report: &PingReport| format!("{} of {} pings", report.lost(), report.sent);
    let rate = |moved: &Transfer| format!("{:.0} Mbit/s", moved.megabits_per_second());
    let rows = [
        ("time to first packet", show(measured.first_packet)),
        ("goodput to the server", rate(&measured.to_server)),
        ("goodput to the client", rate(&measured.to_client)),
        ("round trip (least / mean / most)", trip(&measured.quiet)),
        ("  across the renegotiation", trip(&measured.loaded)),
        ("loss", loss(&measured.quiet)),
        ("  across the renegotiation", loss(&measured.loaded)),
    ];
    say("");
    for (name, value) in rows {
        say(format_args!("  {name:<34}{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_the_tunnel_is_found() {
        let listing = "2: wire    inet 192.0.2.1/24 scope global wire\\       valid_lft forever\n\
                       3: tun0    inet 10.8.0.1/24 scope global tun0\\       valid_lft forever\n";
        assert_eq!(first_address_but_of(listing, "wire"), Some(IpAddr::from([10, 8, 0, 1])));
        assert_eq!(first_address_but_of(listing.lines().next().unwrap_or_default(), "wire"), None);
        assert_eq!(first_address_but_of("", "wire"), None);
    }
}

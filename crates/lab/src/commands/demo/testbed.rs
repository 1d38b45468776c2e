//! Two network namespaces, the ends of a tunnel in them, a host beyond the server, and the steps that can be taken with
//! them.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{
    Namespace, Ping, PingReport, Process, Scratch, TestbedError, Transfer, connect, transfer, wait_until,
    wait_until_reachable,
};

use super::DemoError;
use crate::say;

/// The outer addresses of the server and the client: documentation addresses (RFC 5737, RFC 3849).
const OUTER: [[&str; 2]; 2] = [["192.0.2.1/24", "2001:db8::1/64"], ["192.0.2.2/24", "2001:db8::2/64"]];
/// The server and a host beyond it: other documentation addresses. The host has no route back to the tunnel.
const BEYOND: [[&str; 2]; 2] =
    [["203.0.113.1/24", "2001:db8:77::1/64"], ["203.0.113.80/24", "2001:db8:77::80/64"]];
/// The devices that join the namespaces: client and server, server and host.
const WIRES: [&str; 2] = ["wire", "uplink"];
/// The server's address outside of the tunnel.
pub(super) const ENDPOINT: &str = "192.0.2.1";
/// Between two pings.
const INTERVAL: Duration = Duration::from_millis(10);
/// The name server that the server pushes to the client. No program answers there: the demo shows the push alone.
pub(super) const NAME_SERVER: &str = "203.0.113.53";
/// How long the tunnel may take to come up.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// The namespaces, the files and the two ends.
pub(super) struct Testbed {
    start: Instant,
    pub(super) program: PathBuf,
    pub(super) server: Option<Process>,
    pub(super) client: Option<Process>,
    pub(super) left: Namespace,
    pub(super) right: Namespace,
    beyond: Namespace,
    /// Files outside the directory that the programs remove themselves, unless they are killed.
    pub(super) leftovers: Vec<PathBuf>,
    directory: Scratch,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for path in &self.leftovers {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Testbed {
    /// Joins the namespaces of the server and the client.
    pub(super) fn build(program: &Path) -> Result<Self, DemoError> {
        let start = Instant::now();
        let directory = Scratch::create("demo")?;
        let (left, right) = (Namespace::create("server")?, Namespace::create("client")?);
        let beyond = Namespace::create("beyond")?;
        connect(&left, &OUTER[0], &right, &OUTER[1], WIRES[0])?;
        connect(&left, &BEYOND[0], &beyond, &BEYOND[1], WIRES[1])?;
        for host in BEYOND[1] {
            let host = host.split('/').next().unwrap_or_default();
            left.ip(&[if host.contains(':') { "-6" } else { "-4" }, "route", "add", "default", "via", host])?;
        }
        let (program, server, client) = (program.to_owned(), None, None);
        let leftovers = Vec::new();
        let testbed = Self { start, program, server, client, left, right, beyond, leftovers, directory };
        let (left, right) = (testbed.left.name(), testbed.right.name());
        testbed.say(format_args!("namespaces {left} and {right} joined, and a host beyond the server"));
        Ok(testbed)
    }

    /// Where files may be put.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A line of progress.
    pub(super) fn say(&self, what: impl Display) {
        say_at(self.start, what);
    }

    /// Runs adit with these arguments, to its end.
    pub(super) fn adit(&self, arguments: &[&dyn Display]) -> Result<(), DemoError> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let command = format!("adit {}", arguments.join(" "));
        let output = Command::new(&self.program)
            .args(&arguments)
            .output()
            .map_err(|source| DemoError::File { path: self.program.clone(), source })?;
        if output.status.success() {
            return Ok(());
        }
        Err(DemoError::Adit { command, output: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
    }

    /// `adit up FILE`. State that outlasts the process is kept where the demo's files are, and so are the name servers
    /// of the client.
    pub(super) fn up(&self, file: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("up").arg("--resolv-conf").arg(self.directory().join("resolv.conf")).arg(file);
        command.env("STATE_DIRECTORY", self.directory());
        command
    }

    /// Has the server forward, and the host beyond it answer to this network by the server.
    pub(super) fn join_networks(&self, network: &str) -> Result<(), DemoError> {
        let gateway = BEYOND[0][0].split('/').next().unwrap_or_default();
        self.beyond.ip(&["route", "add", network, "via", gateway])?;
        let mut forward = Command::new("sh");
        forward.args(["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]);
        self.left.run(forward)?;
        Ok(())
    }

    /// The client reaches the host beyond the server, by both families.
    pub(super) fn beyond(&self) -> Result<(), DemoError> {
        let hosts = BEYOND[1].map(|host| host.split('/').next().unwrap_or_default());
        for host in hosts {
            let host: IpAddr = host.parse().map_err(|error| DemoError::Tunnel(format!("{host}: {error}")))?;
            wait_until_reachable(&self.right, host, TIMEOUT)?;
        }
        let hosts = hosts.join(" and ");
        self.say(format_args!("the client reaches {hosts} beyond the server, which forwards and translates"));
        Ok(())
    }

    /// A hundred pings through a tunnel that has nothing else to do.
    pub(super) fn quiet(&self, server: IpAddr) -> Result<PingReport, DemoError> {
        let quiet = Ping::new(100, INTERVAL).run(&self.right, server)?;
        self.say(format_args!("100 pings, {} lost", quiet.lost()));
        Ok(quiet)
    }

    /// Pings both ways for so long, while something else is done. Both directions in one report.
    pub(super) fn both_ways(
        &self,
        time: Duration,
        server: IpAddr,
        client: IpAddr,
        meanwhile: impl FnOnce() -> Result<(), TestbedError> + Send,
    ) -> Result<PingReport, DemoError> {
        let count = u16::try_from(time.as_millis() / INTERVAL.as_millis()).unwrap_or(u16::MAX);
        let ping = Ping::new(count, INTERVAL);
        let (there, back, done) = std::thread::scope(|scope| {
            let back = scope.spawn(|| ping.run(&self.left, client));
            let done = scope.spawn(meanwhile);
            (ping.run(&self.right, server), back.join(), done.join())
        });
        let back = back.map_err(|_| TestbedError::Worker("pinging the client"))??;
        done.map_err(|_| TestbedError::Worker("changing the tunnel"))??;
        let mut both = there?;
        both.sent += back.sent;
        both.received += back.received;
        Ok(both)
    }

    /// A file to the server, and one to the client.
    pub(super) fn files(
        &self,
        length: usize,
        server: IpAddr,
        client: IpAddr,
    ) -> Result<[Transfer; 2], DemoError> {
        let to_server = self.file(length, &self.right, &self.left, server, "to the server")?;
        Ok([to_server, self.file(length, &self.left, &self.right, client, "to the client")?])
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

    /// The logs of the two ends.
    pub(super) fn logs(&self) -> String {
        let log = |name, process: &Option<Process>| {
            let text = process.as_ref().map(Process::log_tail).unwrap_or_default();
            format!("---- {name}\n{text}\n")
        };
        log("server", &self.server) + &log("client", &self.client)
    }

    /// Stops both ends, as a user would, and removes the rest.
    pub(super) fn end(mut self) -> Result<(), DemoError> {
        for (namespace, process) in [(&self.right, &mut self.client), (&self.left, &mut self.server)] {
            let Some(process) = process else { continue };
            let status = process.terminate(TIMEOUT)?;
            let devices = namespace.devices()?;
            if !status.success() || devices.iter().any(|device| !WIRES.contains(&device.as_str())) {
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

/// The IPv4 address of the tunnel device in a namespace, as soon as it has one: a server's port may be bound
/// before its device is there.
pub(super) fn inner_address(namespace: &Namespace) -> Result<IpAddr, DemoError> {
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
    first_address_but_of(&listing, &WIRES)
}

/// The first address in a listing of `ip -oneline address show` that is not one of these devices.
fn first_address_but_of(listing: &str, devices: &[&str]) -> Option<IpAddr> {
    let is_of_another =
        |line: &&str| line.split_whitespace().nth(1).is_some_and(|name| !devices.contains(&name));
    let line = listing.lines().find(is_of_another)?;
    line.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_the_tunnel_is_found() {
        let listing = "2: wire    inet 192.0.2.1/24 scope global wire\\       valid_lft forever\n\
                       3: tun0    inet 10.8.0.1/24 scope global tun0\\       valid_lft forever\n";
        assert_eq!(first_address_but_of(listing, &["wire"]), Some(IpAddr::from([10, 8, 0, 1])));
        assert_eq!(first_address_but_of(listing.lines().next().unwrap_or_default(), &["wire"]), None);
        assert_eq!(first_address_but_of("", &["wire"]), None);
    }
}

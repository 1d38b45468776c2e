//! Servers in one namespace and their clients in another: a process for each, or one for all.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{
    Namespace, Process, TestbedError, Usage, connect, first_answers, openvpn_command, wait_until,
};

use crate::commands::identities::Identities;
use crate::subjects::Tools;
use crate::tell;

/// Documentation addresses (RFC 5737).
const OUTER: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// The first tunnel's; the others' follow.
const FIRST_PORT: u16 = 1201;
/// All may take so long to listen, or to answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often each client that has not answered is asked: the times to the first packet are exact to this.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// The pause after which memory of the start is given back.
const SETTLE: Duration = Duration::from_secs(1);

/// Which program runs the tunnels, and in how many processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Arrangement {
    AditTogether,
    AditApart,
    OpenVpnApart,
}

impl Arrangement {
    pub(super) const ALL: [Arrangement; 3] =
        [Arrangement::AditTogether, Arrangement::AditApart, Arrangement::OpenVpnApart];

    /// The row's name, for so many tunnels.
    pub(super) fn name(self, count: u16) -> String {
        match self {
            Arrangement::AditTogether => "adit, one process".to_owned(),
            Arrangement::AditApart => format!("adit, {count} processes"),
            Arrangement::OpenVpnApart => format!("OpenVPN, {count} processes"),
        }
    }

    /// The commands that run these files.
    fn commands(self, tools: &Tools, files: &[PathBuf]) -> Result<Vec<Command>, TestbedError> {
        let adit = |files: &[PathBuf]| {
            let mut command = Command::new(&tools.adit);
            command.arg("up").args(files);
            command
        };
        match self {
            Arrangement::AditTogether => Ok(vec![adit(files)]),
            Arrangement::AditApart => Ok(files.iter().map(|file| adit(std::slice::from_ref(file))).collect()),
            Arrangement::OpenVpnApart => files.iter().map(|file| openvpn(file)).collect(),
        }
    }
}

fn openvpn(file: &Path) -> Result<Command, TestbedError> {
    let mut command = openvpn_command(file)?;
    command.arg("--disable-dco");
    Ok(command)
}

/// The times that the start of all tunnels took.
pub(super) struct Start {
    /// The time from the start of the first server's process until all listen.
    pub(super) listening: Duration,
    /// The times from the start of the first client's process to the first answer through each tunnel.
    pub(super) first_packets: Vec<Duration>,
    /// The use of all processes of the servers' end.
    pub(super) servers: Usage,
    pub(super) clients: Usage,
}

/// Tunnels that carry packets.
pub(super) struct Testbed {
    pub(super) servers: Vec<Process>,
    clients: Vec<Process>,
    pub(super) server: Namespace,
    pub(super) client: Namespace,
    pub(super) targets: Vec<IpAddr>,
}

/// The server's address in the tunnel of that number (from 1).
fn target(number: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 80, number as u8, 1)
}

/// The network of the clients of that tunnel, which leaves the server's address out if it is a route to nowhere.
pub(super) fn clients_of(number: u16) -> String {
    format!("10.80.{number}.0/25")
}

/// The management socket of that tunnel.
pub(super) fn socket(identities: &Identities, number: u16) -> PathBuf {
    identities.directory().join(format!("s{number}.sock"))
}

/// Writes the server's file of that number, with these lines besides.
pub(super) fn server_file(
    identities: &Identities,
    number: u16,
    lines: &str,
) -> Result<PathBuf, TestbedError> {
    let text = format!(
        "dev tun{number}\nproto udp4\nlocal {}\nport {}\nserver 10.80.{number}.0 255.255.255.0\ntopology subnet\ndh none\n\
         keepalive 10 60\nexplicit-exit-notify 1\ndata-ciphers AES-256-GCM\nverb 3\nmanagement {} unix\n{lines}",
        OUTER[0],
        FIRST_PORT + number - 1,
        socket(identities, number).display(),
    );
    identities.server(&format!("s{number}.conf"), &text)
}

fn client_file(identities: &Identities, number: u16) -> Result<PathBuf, TestbedError> {
    let text = format!(
        "client\ndev tun{number}\nproto udp4\nnobind\nremote {} {}\nremote-cert-tls server\ndata-ciphers AES-256-GCM\nverb 3\n",
        OUTER[0],
        FIRST_PORT + number - 1,
    );
    identities.client(&format!("c{number}.conf"), &text)
}

impl Testbed {
    /// Brings up so many tunnels, and measures their start. An error if one of them does not answer.
    pub(super) fn build(
        arrangement: Arrangement,
        tools: &Tools,
        identities: &Identities,
        count: u16,
    ) -> Result<(Testbed, Start), TestbedError> {
        let (server, client) = (Namespace::create("servers")?, Namespace::create("clients")?);
        let [left, right] = OUTER.map(|address| format!("{address}/24"));
        connect(&server, &[&left], &client, &[&right], "wire")?;
        let files = |file: &dyn Fn(u16) -> Result<PathBuf, TestbedError>| (1..=count).map(file).collect();
        let servers: Result<Vec<PathBuf>, TestbedError> =
            files(&|number| server_file(identities, number, ""));
        let clients: Result<Vec<PathBuf>, TestbedError> = files(&|number| client_file(identities, number));
        let (servers, clients) = (servers?, clients?);
        let targets = (1..=count).map(|number| IpAddr::V4(target(number))).collect();
        let mut testbed = Testbed { servers: Vec::new(), clients: Vec::new(), server, client, targets };

        let start = Instant::now();
        testbed.servers = spawn(&testbed.server, "servers", arrangement.commands(tools, &servers)?)?;
        testbed.wait_until_listening(count)?;
        let listening = start.elapsed();
        let first_packets = testbed.start_clients(arrangement.commands(tools, &clients)?)?;
        std::thread::sleep(SETTLE);
        let usage = |namespace: &Namespace| namespace.processes().map(|processes| Usage::of(&processes));
        let (servers, clients) = (usage(&testbed.server)?, usage(&testbed.client)?);
        Ok((testbed, Start { listening, first_packets, servers, clients }))
    }

    fn wait_until_listening(&self, count: u16) -> Result<(), TestbedError> {
        // One after the other: it asks for few at a time, and is done when the last one listens.
        let mut port = FIRST_PORT;
        let listening = || {
            while port < FIRST_PORT + count && self.server.is_bound(false, port).unwrap_or(false) {
                port += 1;
            }
            port == FIRST_PORT + count
        };
        self.or_show_logs(wait_until("all servers to listen", TIMEOUT, listening))
    }

    /// Starts the clients, and waits for an answer through each tunnel.
    fn start_clients(&mut self, commands: Vec<Command>) -> Result<Vec<Duration>, TestbedError> {
        let start = Instant::now();
        let (server, client, targets) = (&self.server, &self.client, &self.targets);
        let (answers, clients) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| first_answers(client, server, targets, start, [ASK_EVERY, TIMEOUT]));
            let clients = spawn(client, "clients", commands);
            (asking.join().map_err(|_| TestbedError::Worker("waiting for first packets")), clients)
        });
        self.clients = clients?;
        let answers = answers??;
        let missing = answers.iter().filter(|answer| answer.is_none()).count();
        if missing > 0 {
            let what = format!("an answer through each tunnel ({missing} of {} gave none)", answers.len());
            return self.or_show_logs(Err(TestbedError::TimedOut { what, waited: TIMEOUT }));
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn or_show_logs<T>(&self, outcome: Result<T, TestbedError>) -> Result<T, TestbedError> {
        if outcome.is_err() {
            for process in self.servers.first().into_iter().chain(self.clients.first()) {
                tell(format_args!("the log of {}:\n{}", process.label(), process.log_tail()));
            }
        }
        outcome
    }
}

impl Drop for Testbed {
    /// Lets all end at once, clients before servers; processes that stay are killed.
    fn drop(&mut self) {
        for processes in [&mut self.clients, &mut self.servers] {
            processes.iter_mut().for_each(Process::send_terminate);
            for process in processes {
                let _ = process.wait(Duration::from_secs(5));
            }
        }
    }
}

fn spawn(namespace: &Namespace, label: &str, commands: Vec<Command>) -> Result<Vec<Process>, TestbedError> {
    commands.into_iter().map(|command| namespace.spawn(label, command)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_have_addresses_of_their_own() {
        assert_eq!(target(1).to_string(), "10.80.1.1");
        assert_eq!(target(250).to_string(), "10.80.250.1");
    }
}

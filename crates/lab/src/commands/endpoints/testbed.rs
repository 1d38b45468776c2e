//! A server with an endpoint on UDP and one on TCP, another server on TCP beside it, and the clients of all three.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Ends, Flood, Namespace, Process, Rates, TestbedError, connect, wait_until, wait_until_reachable,
};

use super::{Args, Load};
use crate::commands::identities::Identities;
use crate::subjects::Tools;
use crate::tell;

/// Documentation addresses (RFC 5737): the server's and the client's on each of both links.
const UDP_LINK: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const LOAD_LINK: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
/// The measured server's, on both protocols, and that of the server beside it.
const PORT: u16 = 1194;
const OTHER_PORT: u16 = 1195;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Clients over TCP of one server, all in one process.
struct LoadClients {
    _process: Process,
    devices: Vec<String>,
    /// The server's inner address.
    target: IpAddr,
}

/// All of them, connected.
pub(super) struct Testbed {
    // Dropped in this order: clients before servers, and all before the namespaces.
    own: LoadClients,
    other: LoadClients,
    _client: Process,
    servers: Vec<Process>,
    server: Namespace,
    client: Namespace,
    load: Namespace,
    _identities: Identities,
}

/// The networks of the measured server's clients over UDP and over TCP, and of the other server's.
struct Networks([u8; 3]);

impl Networks {
    fn of(args: &Args) -> Networks {
        // One tunnel has one network, for clients of all its endpoints.
        Networks(if args.two_tunnels { [8, 9, 10] } else { [8, 8, 10] })
    }

    /// The servers' inner addresses.
    fn targets(&self) -> [IpAddr; 3] {
        self.0.map(|number| IpAddr::V4(Ipv4Addr::new(10, number, 0, 1)))
    }
}

impl Testbed {
    /// Starts both servers, the client over UDP, and so many clients over TCP for each server.
    pub(super) fn build(args: &Args, tools: &Tools) -> Result<Testbed, TestbedError> {
        let identities = Identities::create("endpoints")?;
        let [server, client, load] = ["server", "udp", "tcp"].map(Namespace::create);
        let (server, client, load) = (server?, client?, load?);
        join(&server, &client, UDP_LINK, "wire")?;
        join(&server, &load, LOAD_LINK, "load")?;
        allow_any_way_back(&load)?;
        let networks = Networks::of(args);
        let servers = start_servers(&server, &identities, &networks, tools)?;
        let [udp, own, other] = networks.targets();
        let file = client_file(&identities, "client.conf", "tun0", "udp4", (UDP_LINK[0], PORT))?;
        let udp_client = up(&client, "the client over UDP", tools, &[file])?;
        let outcome = wait_until_reachable(&client, udp, TIMEOUT);
        if outcome.is_err() {
            servers
                .iter()
                .for_each(|process| tell(format_args!("{}:\n{}", process.label(), process.log_tail())));
        }
        outcome?;
        let connected = |port: u16, first: u16, target: IpAddr| {
            LoadClients::start(&load, &identities, tools, (args.clients, first, port), target)
        };
        Ok(Testbed {
            own: connected(PORT, 100, own)?,
            other: connected(OTHER_PORT, 500, other)?,
            _client: udp_client,
            servers,
            server,
            client,
            load,
            _identities: identities,
        })
    }

    /// The ends of the client over UDP.
    pub(super) fn ends(&self) -> Ends<'_> {
        let target = Networks([8; 3]).targets()[0];
        Ends { server: &self.server, client: &self.client, target }
    }

    /// Lets the TCP clients of one server send for so long.
    pub(super) fn send(&self, load: Load, args: &Args, time: Duration) -> Result<Rates, TestbedError> {
        let clients = match load {
            Load::Other => &self.other,
            Load::Own | Load::None => &self.own,
        };
        let rate = args.rate.saturating_mul(args.clients.into());
        let flood = Flood { size: args.size, rate, time, segmented: false };
        let ends = Ends { server: &self.server, client: &self.load, target: clients.target };
        flood.run_from(&ends, &clients.devices)
    }

    /// Both servers' processes, the measured one first.
    pub(super) fn servers(&self) -> Vec<u32> {
        self.servers.iter().map(Process::id).collect()
    }
}

fn join(one: &Namespace, other: &Namespace, link: [&str; 2], device: &str) -> Result<(), TestbedError> {
    let [near, far] = link.map(|address| format!("{address}/24"));
    connect(one, &[&near], other, &[&far], device)
}

/// All clients have addresses of one network: an answer may come by another device than the kernel would choose.
fn allow_any_way_back(namespace: &Namespace) -> Result<(), TestbedError> {
    for filter in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv4/conf/{filter}/rp_filter");
        let written = namespace.enter(|| std::fs::write(&path, "0"))?;
        written.map_err(|source| TestbedError::File { path: path.into(), source })?;
    }
    Ok(())
}

/// The measured process, with an endpoint on UDP and one on TCP, and the process beside it.
fn start_servers(
    namespace: &Namespace,
    identities: &Identities,
    networks: &Networks,
    tools: &Tools,
) -> Result<Vec<Process>, TestbedError> {
    let [udp, tcp, other] = networks.0;
    let file = |name: &str, network: u8, proto: &str, port: u16| {
        let lines = format!(
            "dev tun{network}\nserver 10.{network}.0.0 255.255.252.0\ntopology subnet\nproto {proto}\nport {port}\ndh none\n\
             duplicate-cn\nmax-clients 1000\nkeepalive 10 60\ndata-ciphers AES-256-GCM\nverb 3\n"
        );
        identities.server(name, &lines)
    };
    let measured = [file("udp.conf", udp, "udp4", PORT)?, file("tcp.conf", tcp, "tcp4-server", PORT)?];
    let beside = [file("other.conf", other, "tcp4-server", OTHER_PORT)?];
    let mut processes = vec![up(namespace, "the measured server", tools, &measured)?];
    processes.push(up(namespace, "the other server", tools, &beside)?);
    let bound = |tcp, port| namespace.is_bound(tcp, port).unwrap_or(false);
    let listening = || bound(false, PORT) && bound(true, PORT) && bound(true, OTHER_PORT);
    let outcome = wait_until("the servers to listen", TIMEOUT, listening);
    if outcome.is_err() {
        processes
            .iter()
            .for_each(|process| tell(format_args!("{}:\n{}", process.label(), process.log_tail())));
    }
    outcome.map(|()| processes)
}

fn up(namespace: &Namespace, label: &str, tools: &Tools, files: &[PathBuf]) -> Result<Process, TestbedError> {
    let mut command = Command::new(&tools.adit);
    command.arg("up").args(files);
    namespace.spawn(label, command)
}

fn client_file(
    identities: &Identities,
    name: &str,
    device: &str,
    proto: &str,
    (server, port): (&str, u16),
) -> Result<PathBuf, TestbedError> {
    let lines = format!(
        "client\ndev {device}\nproto {proto}\nremote {server} {port}\nnobind\nremote-cert-tls server\n\
         data-ciphers AES-256-GCM\nverb 3\n"
    );
    identities.client(name, &lines)
}

impl LoadClients {
    /// Connects so many clients to a port; their devices' numbers begin with `first`.
    fn start(
        namespace: &Namespace,
        identities: &Identities,
        tools: &Tools,
        (count, first, port): (u16, u16, u16),
        target: IpAddr,
    ) -> Result<LoadClients, TestbedError> {
        let devices: Vec<String> = (first..first + count).map(|number| format!("tun{number}")).collect();
        let file = |device: &String| {
            client_file(identities, &format!("{device}.conf"), device, "tcp4-client", (LOAD_LINK[0], port))
        };
        let files: Result<Vec<PathBuf>, TestbedError> = devices.iter().map(file).collect();
        let process = up(namespace, "the clients over TCP", tools, &files?)?;
        let all = || process.count_lines(0, "tunnel up: ") >= usize::from(count);
        let outcome = wait_until("all clients over TCP to connect", TIMEOUT, all);
        if outcome.is_err() {
            tell(format_args!("{}:\n{}", process.label(), process.log_tail()));
        }
        outcome?;
        Ok(LoadClients { _process: process, devices, target })
    }
}

//! A server, the clients, and the attackers, each in a namespace of their own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{
    Authority, KeyKind, Namespace, Priority, Process, Purpose, Scratch, SpoofedFlood, TestbedError, Validity,
    connect, openvpn_command, wait_until, wait_until_reachable,
};

use super::Program;
use super::report::{Attempts, Measured};
use super::rows::{Attacker, NETWORK, Row, Setup, Threat, Work};
use super::watch::{dropped_datagrams, memory, watch};
use crate::commands::load::Load;
use crate::subjects::Tools;

const PORT: u16 = 1194;
/// The server's address in the tunnel.
const INNER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 8, 0, 1));
/// The server as the attackers see it.
const SERVER4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 1);
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client tries.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a client tries where a script takes part.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts without a flood, where a script takes part: all of them take as long.
const IDLE_WITH_SCRIPT: usize = 3;
/// After so many clients in a row that did not get in, no other tries.
const SHUT_OUT: usize = 3;
/// Source addresses of forged datagrams.
const SPOOFED: u32 = 1_000_000_000;

/// The server, the clients and the attackers of a row.
pub(super) struct Testbed<'a> {
    tools: &'a Tools,
    row: &'a Row<'a>,
    directory: Scratch,
    process: Process,
    /// A client that is connected all the while.
    _connected: Process,
    attacker: Attacker,
    server: Namespace,
    client: Namespace,
    resident: Namespace,
    attackers: Namespace,
}

impl<'a> Testbed<'a> {
    pub(super) fn build(tools: &'a Tools, program: Program, row: &'a Row<'a>) -> Result<Self, TestbedError> {
        let directory = Scratch::create("attackers")?;
        let [server, client, resident, attackers] =
            ["server", "client", "resident", "attackers"].map(Namespace::create);
        let (server, client, resident, attackers) = (server?, client?, resident?, attackers?);
        let join = |network: &str, number: u8, other: &Namespace, device: &str| {
            let address = |host: u8| [format!("{network}.{host}/24"), format!("fd00:{number}::{host}/64")];
            let [left, right] = [address(1), address(2)];
            connect(&server, &[&left[0], &left[1]], other, &[&right[0], &right[1]], device)
        };
        join("192.0.2", 1, &client, "wire")?;
        join("198.51.100", 2, &attackers, "attack")?;
        join("203.0.113", 3, &resident, "resident")?;
        SpoofedFlood::route(&attackers, &server)?;
        server.ip(&["-6", "route", "add", "default", "via", "fd00:2::2"])?;
        own_network(&attackers, NETWORK, 61)?;
        let authority = Authority::create(KeyKind::Ecdsa)?;
        let configs = Configs { directory: &directory, authority: &authority, setup: row.setup };
        let file = configs.server()?;
        let mut command = match program {
            Program::Adit => Command::new(&tools.adit),
            Program::Openvpn => openvpn_command(&file)?,
        };
        if program == Program::Adit {
            command.arg("up").arg(file);
        }
        let process = server.spawn("the server", command)?;
        let listens = || server.is_bound(row.setup.is_tcp(), PORT).unwrap_or(false);
        wait_until("the server to listen", TIMEOUT, listens)?;
        configs.client("client", [Ipv4Addr::new(192, 0, 2, 1).into(), numbered(1).into()])?;
        let file = configs.client("resident", [Ipv4Addr::new(203, 0, 113, 1).into(), numbered(3).into()])?;
        let attacker = attacker(&authority, &directory)?;
        let mut command = Command::new(&tools.adit);
        command.arg("up").arg(file);
        let connected = resident.spawn("the connected client", command)?;
        wait_until_reachable(&resident, INNER, TIMEOUT)?;
        Ok(Testbed {
            tools,
            row,
            process,
            _connected: connected,
            attacker,
            server,
            client,
            resident,
            attackers,
            directory,
        })
    }

    /// Lets clients connect without an attack and during it.
    pub(super) fn measure(&self, clients: usize) -> Result<Measured, TestbedError> {
        let process = self.process.id();
        let with_script = self.row.setup.asks_passwords();
        let count = if with_script { clients.min(IDLE_WITH_SCRIPT) } else { clients };
        let (mark, idle_memory) = (self.process.mark(), memory(process)?);
        let (idle, before) = watch(&self.resident, INNER, process, || self.connect_clients(count))?;
        let lines_of_client = (self.process.mark() - mark) as f64 / idle.tried().max(1) as f64;
        let (mark, work, dropped) =
            (self.process.mark(), self.processor_seconds()?, dropped_datagrams(&self.server)?);
        let start = Instant::now();
        let attack = self.attack()?;
        let ((lead, attacked), during) = watch(&self.resident, INNER, process, || {
            std::thread::sleep(self.row.lead);
            let lead = attack.numbers();
            Ok((lead, self.connect_clients(clients)?))
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let numbers = attack.numbers();
        let lines = (self.process.mark() - mark) as f64 - lines_of_client * attacked.tried() as f64;
        let work = self.processor_seconds()? - work;
        attack.stop()?;
        Ok(Measured {
            idle,
            attacked,
            begun: numbers.begun,
            done: numbers.done,
            wanted: self.row.wanted(),
            let_in: self.row.let_in(numbers),
            begun_at_first: self.row.under_way(lead),
            seconds,
            pings: [before, during],
            memory: during.memory - before.memory.max(idle_memory),
            lines: lines.max(0.0),
            processor_seconds: work,
            dropped: dropped_datagrams(&self.server)? - dropped,
        })
    }

    fn attack(&self) -> Result<Running, TestbedError> {
        if let Threat::Forged { datagrams, rate } = &self.row.threat {
            let target = SocketAddrV4::new(SERVER4, PORT);
            let flood = SpoofedFlood::start(&self.attackers, target, *rate, SPOOFED, datagrams)?;
            return Ok(Running::Forged(flood));
        }
        let target = match self.row.setup.is_v6() {
            true => SocketAddr::new(SERVER6.into(), PORT),
            false => SocketAddr::new(SERVER4.into(), PORT),
        };
        let arguments = self.row.arguments(target, &self.attacker);
        let (kind, arguments) = arguments.ok_or(TestbedError::Worker("an attack without attackers"))?;
        let load = Load::attackers(&self.attackers, &self.tools.load_openvpn(), kind, &arguments)?;
        Ok(Running::Load(load))
    }

    /// How long clients need from the start of their process until they are up.
    fn connect_clients(&self, count: usize) -> Result<Attempts, TestbedError> {
        let timeout = if self.row.setup.asks_passwords() { SCRIPT_TIMEOUT } else { CLIENT_TIMEOUT };
        let _priority = Priority::raised();
        let mut attempts = Attempts::new(count);
        while attempts.tried() < count && !attempts.last_failed(SHUT_OUT) {
            let mut command = Command::new(&self.tools.adit);
            command.arg("up").arg(self.directory.path().join("client.conf"));
            let start = Instant::now();
            let mut client = self.client.spawn("a client", command)?;
            let came_up = client.wait_for_line(0, "tunnel up: ", timeout).is_ok();
            attempts.add(came_up.then(|| start.elapsed()));
            client.terminate(TIMEOUT)?;
        }
        Ok(attempts)
    }

    /// Seconds on a processor of all threads of the server.
    fn processor_seconds(&self) -> Result<f64, TestbedError> {
        Ok(adit_testbed::Usage::of(&[self.process.id()]).processor_seconds)
    }
}

/// An attack that goes on.
enum Running {
    Forged(SpoofedFlood),
    Load(Load),
}

impl Running {
    /// Control channels, connections or datagrams that began, and those that came as far as they should.
    fn numbers(&self) -> Work {
        match self {
            Running::Forged(flood) => Work { begun: flood.sent(), done: flood.sent() },
            Running::Load(load) => {
                let [begun, done] = load.counters();
                Work { begun, done }
            }
        }
    }

    fn stop(self) -> Result<(), TestbedError> {
        match self {
            Running::Forged(_) => Ok(()),
            Running::Load(load) => load.stop(),
        }
    }
}

fn numbered(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, number, 0, 0, 0, 0, 0, 1)
}

fn attacker(authority: &Authority, directory: &Scratch) -> Result<Attacker, TestbedError> {
    let identity = authority.issue("attacker", Purpose::Client, Validity::Now)?;
    Ok(Attacker {
        ca: directory.write("ca.pem", &authority.certificate)?,
        certificate: directory.write("attacker.pem", &identity.certificate)?,
        key: directory.write("attacker.key", &identity.key)?,
    })
}

/// Makes all addresses of that network the namespace's own.
fn own_network(namespace: &Namespace, network: Ipv6Addr, length: u8) -> Result<(), TestbedError> {
    let network = format!("{network}/{length}");
    namespace.ip(&["-6", "route", "add", "local", &network, "dev", "lo"])?;
    // A socket may bind such an address only with this (Linux ip-sysctl, ip_nonlocal_bind).
    let path = "/proc/sys/net/ipv6/ip_nonlocal_bind";
    let written = namespace.enter(|| std::fs::write(path, "1"))?;
    written.map_err(|source| TestbedError::File { path: path.into(), source })
}

/// Writes the configuration files.
struct Configs<'a> {
    directory: &'a Scratch,
    authority: &'a Authority,
    setup: Setup<'a>,
}

impl Configs<'_> {
    fn server(&self) -> Result<PathBuf, TestbedError> {
        let mut text = format!(
            "dev tun\ntopology subnet\nserver 10.8.0.0 255.255.0.0\nproto {}\nport {PORT}\ndh none\n\
             keepalive 10 60\nverb 3\nscript-security 2\n{}",
            self.setup.protocol, self.setup.wrapping.lines[0]
        );
        if let Some((directive, script)) = self.setup.script() {
            let path = self.directory.write("script.sh", &script)?;
            text += &format!("{directive} \"/bin/sh {}\"", path.display());
            let by_file = "via-file\nverify-client-cert optional";
            text += &format!(" {}\n", if self.setup.asks_passwords() { by_file } else { "" });
        }
        self.write("server", Purpose::Server, text)
    }

    fn client(&self, name: &str, servers: [IpAddr; 2]) -> Result<PathBuf, TestbedError> {
        let [v4, v6] = servers;
        let server = if self.setup.is_v6() { v6 } else { v4 };
        let mut text = format!(
            "client\ndev tun\nverb 3\nnobind\nremote {server} {PORT} {}\nremote-cert-tls server\n\
             explicit-exit-notify\n{}",
            self.setup.protocol, self.setup.wrapping.lines[1]
        );
        if self.setup.is_tcp() {
            text = text.replace("explicit-exit-notify\n", "");
        }
        if self.setup.asks_passwords() {
            let path = self.directory.write(&format!("{name}.login"), &format!("{name}\nsecret\n"))?;
            text += &format!("auth-user-pass {}\n", path.display());
        }
        self.write(name, Purpose::Client, text)
    }

    fn write(&self, name: &str, purpose: Purpose, text: String) -> Result<PathBuf, TestbedError> {
        let identity = self.authority.issue(name, purpose, Validity::Now)?;
        let text = format!(
            "{text}<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
            self.authority.certificate, identity.certificate, identity.key
        );
        self.directory.write(&format!("{name}.conf"), &text)
    }
}

//! Two namespaces with a tunnel between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, Ends, KeyKind, Namespace, Probe, Process, Purpose, Scratch, TestbedError, Validity,
    configure_wireguard, connect, openvpn_command, program, wait_until, wireguard_keys, wireguard_socket,
};

use super::subject::{Speaker, Subject};
use super::{Args, Kind};
use crate::commands::output;
use crate::error::LabError;
use crate::subjects::Tools;
use crate::subjects::wireguard::{self, Program};
use crate::tell;

/// Documentation addresses (RFC 5737).
pub(super) const OUTER: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const INNER: [&str; 2] = ["10.8.0.1", "10.8.0.2"];
const WIRE: &str = "wire";
pub(super) const PORT: u16 = 1194;
const TIMEOUT: Duration = Duration::from_secs(60);
/// The null tunnel's MTU; it has no overhead to leave room for.
const NULL_MTU: &str = "1500";

/// Where the measured programs are, and the certificates they use.
pub(super) struct Programs<'a> {
    pub(super) tools: &'a Tools,
    /// The programs that speak WireGuard, of the chosen subjects; with the reason if one cannot be had.
    wireguard: BTreeMap<Subject, Result<Program, String>>,
    /// The server's configuration and the client's, without the lines that name the transport.
    configs: [String; 2],
}

impl Programs<'_> {
    /// Finds or installs the programs that the chosen subjects need.
    pub(super) fn find<'a>(args: &Args, tools: &'a Tools) -> Result<Programs<'a>, LabError> {
        let uses_adit = |subject: &Subject| {
            *subject == Subject::AditWireguard
                || subject
                    .openvpn()
                    .is_some_and(|(server, client, _)| [server, client].contains(&Speaker::Adit))
        };
        let is_needed = args.only.contains(&Kind::Clients) || args.subjects.iter().any(uses_adit);
        if is_needed {
            output::check_adit(tools)?;
        }
        let wireguard = args.subjects.iter().filter(|subject| subject.is_wireguard());
        let wireguard =
            wireguard.map(|subject| (*subject, wireguard::get(&subject.to_string(), tools))).collect();
        Ok(Programs { tools, wireguard, configs: configurations()? })
    }

    /// The programs for subjects that need adit alone. All builds that are compared get the same files.
    pub(super) fn of_adit<'a>(tools: &'a Tools, configs: &[String; 2]) -> Programs<'a> {
        Programs { tools, wireguard: BTreeMap::new(), configs: configs.clone() }
    }

    /// The programs of each subject, one line each.
    pub(super) fn describe(&self) -> Vec<String> {
        let programs = [("adit", Ok(Command::new(&self.tools.adit))), ("openvpn", program("openvpn"))];
        let programs = programs.into_iter().filter_map(|(name, command)| Some((name, command.ok()?)));
        let mut lines = output::describe(programs.collect());
        lines.extend(self.wireguard.iter().map(|(subject, program)| match program {
            Ok(program) => {
                let version = program.version(self.tools).unwrap_or("of unknown version".to_owned());
                format!("{subject} {version}")
            }
            Err(why) => format!("**NO {subject}: {why}**"),
        }));
        lines
    }
}

/// A tunnel that carries packets.
pub(super) struct Testbed {
    processes: Vec<Process>,
    /// Files outside the directory that the programs leave behind.
    leftovers: Vec<PathBuf>,
    directory: Scratch,
    pub(super) server: Namespace,
    pub(super) client: Namespace,
    /// The server's address inside the tunnel.
    pub(super) target: IpAddr,
    /// The time from the start of the client's process to the first reply; nothing without a tunnel.
    pub(super) first_reply: Option<Duration>,
}

impl Testbed {
    /// Builds the namespaces and brings up the tunnel.
    pub(super) fn build(
        subject: Subject,
        programs: &Programs<'_>,
        udp_segmentation: bool,
    ) -> Result<Testbed, TestbedError> {
        Testbed::build_with(subject, programs, &programs.configs, udp_segmentation)
    }

    /// Builds the test bed with other configurations for a server and a client that speak OpenVPN.
    pub(super) fn build_with(
        subject: Subject,
        programs: &Programs<'_>,
        configs: &[String; 2],
        udp_segmentation: bool,
    ) -> Result<Testbed, TestbedError> {
        let directory = Scratch::create("measure")?;
        let (server, client) = (Namespace::create("server")?, Namespace::create("client")?);
        let [left, right] = OUTER.map(|address| format!("{address}/24"));
        connect(&server, &[&left], &client, &[&right], WIRE)?;
        if !udp_segmentation {
            for namespace in [&server, &client] {
                let mut ethtool = program("ethtool")?;
                ethtool.args(["-K", WIRE, "tx-udp-segmentation", "off"]);
                namespace.run(ethtool)?;
            }
        }
        let inner = if subject == Subject::Veth { OUTER[0] } else { INNER[0] };
        let target = IpAddr::V4(inner.parse::<Ipv4Addr>().unwrap_or(Ipv4Addr::LOCALHOST));
        let mut testbed = Testbed {
            processes: Vec::new(),
            leftovers: Vec::new(),
            directory,
            server,
            client,
            target,
            first_reply: None,
        };
        match subject {
            Subject::Veth => {}
            Subject::Nulltun => testbed.nulltun(&programs.tools.lab)?,
            subject if subject.is_wireguard() => testbed.wireguard(subject, programs)?,
            _ => testbed.openvpn(subject, programs, configs)?,
        }
        Ok(testbed)
    }

    /// Where load runs between.
    pub(super) fn ends(&self) -> Ends<'_> {
        Ends { server: &self.server, client: &self.client, target: self.target }
    }

    /// The process of the server, if the tunnel has one.
    pub(super) fn server_process(&self) -> Option<u32> {
        self.processes.first().map(Process::id)
    }

    fn openvpn(
        &mut self,
        subject: Subject,
        programs: &Programs<'_>,
        [server_config, client_config]: &[String; 2],
    ) -> Result<(), TestbedError> {
        let Some((server, client, tcp)) = subject.openvpn() else { return Ok(()) };
        let protos = if tcp { ["tcp4-server", "tcp4-client"] } else { ["udp4", "udp4"] };
        let config = |name: &str, proto: &str, text: &str| {
            self.directory.write(name, &format!("proto {proto}\n{text}"))
        };
        let files = [
            config("server.conf", protos[0], server_config)?,
            config("client.conf", protos[1], client_config)?,
        ];
        let command = |speaker: Speaker, file: &Path| match speaker {
            Speaker::OpenVpn => openvpn_command(file).map(|mut command| {
                command.arg("--disable-dco");
                command
            }),
            Speaker::Adit => {
                let mut command = Command::new(&programs.tools.adit);
                command.arg("up").arg(file);
                Ok(command)
            }
        };
        let mut server_command = command(server, &files[0])?;
        if server == Speaker::OpenVpn {
            // Its default lets 100 clients begin within 10 seconds.
            server_command.args(["--connect-freq-initial", "1000000", "1"]);
        }
        let process = self.server.spawn("server", server_command)?;
        self.processes.push(process);
        let up = || {
            self.server.is_bound(tcp, PORT).unwrap_or(false)
                && self.server.devices().is_ok_and(|devices| devices.len() > 1)
        };
        wait_until("the server to listen", TIMEOUT, up)?;
        let client = command(client, &files[1])?;
        self.start_client(client, |_| Ok(()))
    }

    fn nulltun(&mut self, lab: &Path) -> Result<(), TestbedError> {
        let command = |own: usize| {
            let mut command = Command::new(lab);
            let address = |end: usize| format!("{}:{PORT}", OUTER[end]);
            command.args(["null".to_owned(), "null0".to_owned(), address(own), address(1 - own)]);
            command
        };
        let process = self.server.spawn("nulltun", command(0))?;
        self.processes.push(process);
        bring_up(&self.server, "null0", INNER[0], NULL_MTU)?;
        self.start_client(command(1), |client| bring_up(client, "null0", INNER[1], NULL_MTU))
    }

    fn wireguard(&mut self, subject: Subject, programs: &Programs<'_>) -> Result<(), TestbedError> {
        let program = match programs.wireguard.get(&subject) {
            Some(Ok(program)) => program,
            Some(Err(why)) => return Err(TestbedError::NoProgram(why.clone())),
            None => return Err(TestbedError::NoProgram(subject.to_string())),
        };
        let keys = wireguard_keys(self.directory.path())?;
        let devices = ["s", "c"].map(|end| format!("wg{}{end}", std::process::id()));
        self.leftovers = devices.iter().map(|device| wireguard_socket(device)).collect();
        let command = |device: &str| program.command(programs.tools, device, self.directory.path());
        let [server, client] = [command(&devices[0]), command(&devices[1])];
        let process = self.server.spawn("the server", server)?;
        self.processes.push(process);
        configure_wireguard(&devices[0], &keys[0], Some(PORT), &keys[1], None, INNER[1])?;
        bring_up(&self.server, &devices[0], INNER[0], &wireguard::MTU.to_string())?;
        let endpoint = format!("{}:{PORT}", OUTER[0]);
        self.start_client(client, |client| {
            wireguard::wait_for_socket(&devices[1])?;
            configure_wireguard(&devices[1], &keys[1], None, &keys[0], Some(&endpoint), INNER[0])?;
            bring_up(client, &devices[1], INNER[1], &wireguard::MTU.to_string())
        })
    }

    /// Starts the client, makes the settings that it does not make itself, and waits for the first reply.
    fn start_client(
        &mut self,
        command: Command,
        set_up: impl FnOnce(&Namespace) -> Result<(), TestbedError> + Send,
    ) -> Result<(), TestbedError> {
        let target = self.target;
        let client = &self.client;
        let started =
            client.enter(|| -> Result<(Process, Result<Duration, TestbedError>), TestbedError> {
                let probe = Probe::open(target)?;
                let start = std::time::Instant::now();
                let process = Process::spawn("client", command)?;
                let reply = set_up(client).and_then(|()| probe.first_reply(start, TIMEOUT));
                Ok((process, reply))
            })?;
        let (process, reply) = started?;
        if reply.is_err() {
            tell(format_args!("the client's log:\n{}", process.log_tail()));
            for server in &self.processes {
                tell(format_args!("the server's log:\n{}", server.log_tail()));
            }
        }
        self.processes.push(process);
        self.first_reply = Some(reply?);
        Ok(())
    }
}

impl Drop for Testbed {
    /// Lets the programs clean up after themselves, the client first; programs that stay are killed.
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.terminate(Duration::from_secs(3));
        }
        for path in &self.leftovers {
            // Most remove it themselves.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Gives a device its address as soon as it is there.
fn bring_up(namespace: &Namespace, device: &str, address: &str, mtu: &str) -> Result<(), TestbedError> {
    let there = || namespace.ip(&["link", "show", "dev", device]).is_ok();
    wait_until("the TUN device to appear", TIMEOUT, there)?;
    namespace.ip(&["address", "add", &format!("{address}/24"), "dev", device])?;
    namespace.ip(&["link", "set", device, "mtu", mtu, "up"]).map(drop)
}

/// The configurations of a server and a client, one for OpenVPN and adit alike.
pub(super) fn configurations() -> Result<[String; 2], TestbedError> {
    let authority = Authority::create(KeyKind::Ecdsa)?;
    let inline = |name, purpose| -> Result<String, TestbedError> {
        let identity = authority.issue(name, purpose, Validity::Now)?;
        Ok(format!(
            "<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
            authority.certificate, identity.certificate, identity.key
        ))
    };
    let server = inline("server", Purpose::Server)?;
    let client = inline("client", Purpose::Client)?;
    let [address, _] = OUTER;
    Ok([
        format!(
            "dev tun\ntopology subnet\nserver 10.8.0.0 255.255.255.0\nlocal {address}\nport {PORT}\ndh none\n\
             data-ciphers AES-256-GCM\nverb 1\n{server}"
        ),
        format!(
            "client\ndev tun\nremote {address} {PORT}\nnobind\nremote-cert-tls server\n\
             data-ciphers AES-256-GCM\nverb 1\n{client}"
        ),
    ])
}

//! A server and its clients, each in a namespace of its own.

use std::net::IpAddr;
use std::process::Command;

use adit_testbed::{
    Authority, MAX_WAIT, Namespace, Process, Purpose, Scratch, Terminal, TestbedError, Validity, connect,
    program, static_key, tls_crypt_v2_keys, wait_until,
};

use crate::options::{Options, Part, Program, Wrap};

/// The programs that the tests drive besides `ip`.
pub(crate) const PROGRAMS: [&str; 2] = ["openvpn", "openssl"];
/// The device that joins a client to the server.
const WIRE: &str = "wire";

/// A testbed: a server and its clients, not yet started.
pub(crate) struct Bed {
    pub server: Host,
    pub clients: Vec<Host>,
}

/// A namespace, the program that runs in it, and the configuration file it runs with.
pub(crate) struct Host {
    pub namespace: Namespace,
    part: Part,
    program: Program,
    tcp: bool,
    config: std::path::PathBuf,
    label: String,
    arguments: Vec<String>,
    openssl_config: Option<std::path::PathBuf>,
    environment: Vec<(String, std::path::PathBuf)>,
    process: Option<Process>,
    directory: Scratch,
}

impl Bed {
    /// Builds the namespaces, the links, the certificates and the configuration files. Starts nothing.
    pub(crate) fn build(
        options: &Options,
        server: Program,
        clients: &[Program],
    ) -> Result<Self, TestbedError> {
        Self::build_with(options, server, clients, |_, _| {})
    }

    /// Builds a bed; `change` may alter the server's configuration and each client's before they are written.
    pub(crate) fn build_with(
        options: &Options,
        server: Program,
        clients: &[Program],
        change: impl Fn(&Authority, &mut [String; 2]),
    ) -> Result<Self, TestbedError> {
        let authority = Authority::create(options.keys)?;
        let keys = match options.wrap {
            Wrap::TlsCryptV2 => tls_crypt_v2_keys()?,
            Wrap::Plain => Default::default(),
            Wrap::TlsAuth(_) | Wrap::TlsCrypt => {
                let key = static_key()?;
                [key.clone(), key]
            }
        };
        let identity = authority.issue("server", Purpose::Server, Validity::Now)?;
        let mut texts = [options.server(&authority.certificate, &identity, &keys[0]), String::new()];
        let tcp = options.transport.is_tcp();
        let mut parts = Vec::new();
        for (number, program) in (1..).zip(clients) {
            let name = format!("client{number}");
            let identity = authority.issue(&name, Purpose::Client, Validity::Now)?;
            let [address4, address6] = [format!("10.9.{number}.1"), format!("fd00:9:{number}::1")];
            let address = if options.transport.is_v6() { address6 } else { address4 };
            texts[1] = options.client(&authority.certificate, &identity, &keys[1], &address);
            change(&authority, &mut texts);
            parts.push(Host::create(&name, Part::Client, *program, tcp, &texts[1])?);
        }
        let server = Host::create("server", Part::Server, server, tcp, &texts[0])?;
        for (number, client) in (1..).zip(&parts) {
            connect(
                &server.namespace,
                &[&format!("10.9.{number}.1/24"), &format!("fd00:9:{number}::1/64")],
                &client.namespace,
                &[&format!("10.9.{number}.2/24"), &format!("fd00:9:{number}::2/64")],
                &format!("{WIRE}{number}"),
            )?;
        }
        Ok(Self { server, clients: parts })
    }

    /// An error if an end that is to leave its data channel to the kernel keeps it in the program.
    pub(crate) fn check_kernel_data_channels(&self) -> Result<(), String> {
        let hosts = std::iter::once(&self.server).chain(&self.clients);
        for host in hosts.filter(|host| host.program == Program::OpenVpnDco) {
            let made = |process: &Process| process.count_lines(0, "type ovpn") > 0;
            if !host.process.as_ref().is_some_and(made) {
                return Err(format!("{} did not give its data channel to the kernel", host.label));
            }
        }
        Ok(())
    }

    /// The logs of all programs, for the message of a test that fails.
    pub(crate) fn logs(&self) -> String {
        let hosts = std::iter::once(&self.server).chain(&self.clients);
        let log = |host: &Host| {
            let text = host.process.as_ref().map(Process::log_tail).unwrap_or_default();
            format!("==== {}\n{text}\n", host.label)
        };
        hosts.map(log).collect()
    }
}

impl Host {
    fn create(
        name: &str,
        part: Part,
        program: Program,
        tcp: bool,
        config: &str,
    ) -> Result<Self, TestbedError> {
        let directory = Scratch::create(name)?;
        Ok(Self {
            namespace: Namespace::create(name)?,
            part,
            program,
            tcp,
            config: directory.write(&format!("{name}.{}", program.extension()), config)?,
            label: format!("{name} ({program:?})"),
            arguments: Vec::new(),
            openssl_config: None,
            environment: Vec::new(),
            process: None,
            directory,
        })
    }

    /// The configuration file.
    pub(crate) fn config(&self) -> &std::path::Path {
        &self.config
    }

    /// Arguments of `adit up` besides the file.
    pub(crate) fn arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    }

    /// Configures OpenSSL by this text, where the program has it.
    pub(crate) fn configure_openssl(&mut self, text: &str) -> Result<(), TestbedError> {
        self.openssl_config = Some(self.directory.write("openssl.cnf", text)?);
        Ok(())
    }

    /// An environment variable of the program that names a file.
    pub(crate) fn set_environment(&mut self, name: &str, file: &std::path::Path) {
        self.environment.push((name.to_owned(), file.to_owned()));
    }

    fn command(&self) -> Result<Command, TestbedError> {
        let mut command = self.program.command(self.part, &self.config)?;
        command.envs(self.environment.iter().map(|(name, file)| (name, file)));
        command.envs(self.openssl_config.iter().map(|file| ("OPENSSL_CONF", file)));
        if self.program == Program::Adit {
            command.args(&self.arguments);
        }
        Ok(command)
    }

    /// Starts the program with a terminal.
    pub(crate) fn start_at_terminal(&mut self) -> Result<Terminal, TestbedError> {
        let (terminal, process) = Terminal::spawn(&self.namespace, &self.label, &self.command()?)?;
        self.process = Some(process);
        Ok(terminal)
    }

    /// Starts the program as a service manager does: without a terminal.
    pub(crate) fn start_without_terminal(&mut self) -> Result<(), TestbedError> {
        let (mut alone, command) = (program("setsid")?, self.command()?);
        alone.arg(command.get_program()).args(command.get_args());
        self.process = Some(self.namespace.spawn(&self.label, alone)?);
        Ok(())
    }

    /// Starts the program; for a server, waits until it listens.
    pub(crate) fn start(&mut self) -> Result<(), TestbedError> {
        let command = self.command()?;
        self.start_command(command)
    }

    /// Starts the program with its standard error going to a file.
    pub(crate) fn start_with_errors_to(&mut self, file: &std::path::Path) -> Result<(), TestbedError> {
        let (mut shell, command) = (program("sh")?, self.command()?);
        shell.args(["-c", "exec \"$@\" 2>>\"$0\""]).arg(file);
        shell.arg(command.get_program()).args(command.get_args());
        self.start_command(shell)
    }

    /// Starts the program with this directory in the place of `/etc/pam.d`.
    pub(crate) fn start_with_services(&mut self, directory: &std::path::Path) -> Result<(), TestbedError> {
        let (mut unshare, command) = (program("unshare")?, self.command()?);
        unshare.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/pam.d && exec \"$@\""]).arg(directory);
        unshare.arg(command.get_program()).args(command.get_args());
        self.start_command(unshare)
    }

    fn start_command(&mut self, command: Command) -> Result<(), TestbedError> {
        self.process = Some(self.namespace.spawn(&self.label, command)?);
        if self.part == Part::Server {
            let listens = || self.namespace.is_bound(self.tcp, 1194).unwrap_or(false);
            wait_until("the server to listen", MAX_WAIT, listens)?;
        }
        Ok(())
    }

    /// The running program.
    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    /// Sends SIGTERM. The program must end by itself, say that all went well, and leave no device.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        let status = self.process().terminate(MAX_WAIT).map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("{} ended with {status} after SIGTERM", self.label));
        }
        self.no_device_left()
    }

    /// Nothing but the wire may be left in the namespace.
    pub(crate) fn no_device_left(&self) -> Result<(), String> {
        let others = || -> Vec<String> {
            let devices = self.namespace.devices().unwrap_or_else(|error| vec![error.to_string()]);
            devices.into_iter().filter(|device| !device.starts_with(WIRE)).collect()
        };
        wait_until("devices to go", MAX_WAIT, || others().is_empty())
            .map_err(|_| format!("{} left {:?}", self.label, others()))
    }

    /// The addresses of the tunnel device: IPv4 first, then IPv6 without the link-local.
    pub(crate) fn inner_addresses(&self) -> Result<Vec<IpAddr>, TestbedError> {
        let listing = self.namespace.ip(&["-oneline", "address", "show", "scope", "global"])?;
        let mut addresses: Vec<IpAddr> = listing
            .lines()
            .filter(|line| !line.contains(WIRE))
            .filter_map(|line| line.split_whitespace().nth(3)?.split('/').next()?.parse().ok())
            .collect();
        addresses.sort();
        Ok(addresses)
    }

    /// How many renegotiations its log tells of.
    pub(crate) fn renegotiations(&self) -> usize {
        let pattern = match self.program {
            Program::OpenVpn | Program::NewerOpenVpn | Program::OpenVpnDco => "TLS: soft reset",
            Program::Adit => "renegotiated",
            // It does not say.
            Program::OpenVpn3 | Program::MirageVpn => return 0,
        };
        self.process.as_ref().map_or(0, |process| process.count_lines(0, pattern))
    }
}

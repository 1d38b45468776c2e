//! Two ends of a connection, each in a namespace of its own.

mod filter;
mod libreswan;
mod openiked;
mod program;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use adit_testbed::{
    MAX_WAIT, Namespace, Ping, Process, Root, Scratch, TestbedError, connect, program, wait_until,
    wait_until_reachable,
};

pub(super) use self::filter::{ALL, NONE, one};
pub(super) use self::program::{
    CHARON, NEWER, Program, ROLES, are_others_ready, is_linux_ready, is_newer_ready, is_ready, roles, row,
    row_of,
};

/// How long anything may take.
pub(super) const WAIT: Duration = MAX_WAIT;
/// The device that joins the namespaces.
const WIRE: &str = "wire";

/// The settings of both ends.
#[derive(Clone)]
pub(super) struct Settings {
    /// `proposals` of the responder and of the initiator.
    pub(super) proposals: [&'static str; 2],
    /// `esp_proposals`.
    pub(super) esp: [&'static str; 2],
    /// Further lines of the connection.
    pub(super) connection: [String; 2],
    /// Further lines of the child.
    pub(super) child: [String; 2],
    /// The pre-shared keys.
    pub(super) secrets: [&'static str; 2],
    /// The certificates, in place of the pre-shared keys.
    pub(super) certificates: Option<[Certified; 2]>,
    /// Whether the outer addresses are of IPv6.
    pub(super) is_v6: bool,
    /// `start_action` of the initiator's child.
    pub(super) start: &'static str,
    /// Whether there is a second child, for the networks of [`End::second`].
    pub(super) has_second: bool,
    /// The keys beside the key exchange; empty: none.
    pub(super) ppks: [&'static str; 2],
    /// Further lines of strongSwan's own file.
    pub(super) daemon: &'static str,
    /// Further lines there, of the plugin `kernel-libipsec`.
    pub(super) libipsec: &'static str,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            proposals: ["aes256gcm16-prfsha384-x25519"; 2],
            esp: ["aes256gcm16"; 2],
            connection: Default::default(),
            child: Default::default(),
            secrets: ["a long secret of both ends"; 2],
            certificates: None,
            is_v6: false,
            start: "start",
            has_second: false,
            ppks: [""; 2],
            daemon: "",
            libipsec: "",
        }
    }
}

/// The certificate of an end with its key, and the authority of the other end's certificate, in PEM.
#[derive(Clone)]
pub(super) struct Certified {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// An end of the connection. The first responds, the second initiates.
pub(super) struct End {
    pub(super) namespace: Namespace,
    pub(super) program: Program,
    number: usize,
    scratch: Scratch,
    process: Option<Process>,
}

impl End {
    /// An end without a link and without files.
    pub(super) fn create(number: usize, program: Program) -> Self {
        let namespace = Namespace::create(&format!("ipsec{number}")).unwrap();
        let scratch = Scratch::create("ipsec").unwrap();
        let end = End { namespace, program, number, scratch, process: None };
        let addresses = [end.inner(), end.inner_v6(), end.second()];
        end.namespace.ip_lines(&addresses.map(|address| format!("address add {address} dev lo"))).unwrap();
        end
    }

    /// Its number, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Its address within the tunnel.
    pub(super) fn inner(&self) -> IpAddr {
        format!("10.77.{}.1", self.number).parse().unwrap()
    }

    pub(super) fn inner_v6(&self) -> IpAddr {
        format!("fd00:77:{}::1", self.number).parse().unwrap()
    }

    /// Its address in the networks of the second child.
    pub(super) fn second(&self) -> IpAddr {
        format!("10.78.{}.1", self.number).parse().unwrap()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes its files. `outer` are the addresses of the responder and of the initiator, as this end sees them.
    pub(super) fn write(&self, settings: &Settings, outer: [&str; 2]) {
        match self.program {
            Program::Libreswan => return self.write_libreswan(settings, outer),
            Program::OpenIked => return self.write_openiked(settings, outer),
            Program::Adit | Program::StrongSwan | Program::NewerStrongSwan | Program::LinuxStrongSwan => (),
        }
        let (own, other) = (self.number - 1, 2 - self.number);
        let networks = |number: usize| format!("10.77.{number}.0/24, fd00:77:{number}::/64");
        let start = if own == 1 { settings.start } else { "none" };
        let second = format!(
            "d {{\n local_ts = 10.78.{}.0/24\n remote_ts = 10.78.{}.0/24\n start_action = {start}\n }}\n",
            own + 1,
            other + 1
        );
        let second = if settings.has_second { second } else { String::new() };
        let [local, remote] = match &settings.certificates {
            Some(certificates) => {
                self.write_certificates(&certificates[own]);
                ["auth = pubkey\n certs = own.pem", "auth = pubkey"]
            }
            None => ["auth = psk"; 2],
        };
        let ppk = match settings.ppks[own] {
            "" => String::new(),
            key => format!("ppk-1 {{\n secret = {key}\n }}\n"),
        };
        let text = format!(
            "connections {{\n t {{\n version = 2\n local_addrs = {}\n remote_addrs = {}\n proposals = {}\n {}\n \
             local {{\n {local}\n id = end{}.example\n }}\n remote {{\n {remote}\n id = end{}.example\n }}\n \
             children {{\n c {{\n local_ts = {}\n remote_ts = {}\n esp_proposals = {}\n start_action = {start}\n {}\n }}\n {second} }}\n \
             }}\n}}\nsecrets {{\n ike-1 {{\n secret = \"{}\"\n }}\n {ppk} }}\n",
            outer[own],
            outer[other],
            settings.proposals[own],
            settings.connection[own],
            own + 1,
            other + 1,
            networks(own + 1),
            networks(other + 1),
            settings.esp[own],
            settings.child[own],
            settings.secrets[own],
        );
        self.write_text(&text, settings.daemon, settings.libipsec);
    }

    /// Writes its files with that text of connections, and further lines of strongSwan's own file and of its plugin
    /// `kernel-libipsec` there.
    pub(super) fn write_text(&self, text: &str, daemon: &str, libipsec: &str) {
        self.scratch.write(&self.file_name(), text).unwrap();
        let section = match self.program {
            Program::NewerStrongSwan | Program::LinuxStrongSwan => "charon-systemd",
            _ => "charon",
        };
        // Without the plugin the kernel has the child SAs.
        let esp = if self.program == Program::LinuxStrongSwan { "" } else { "kernel-libipsec" };
        let daemon = format!(
            "{section} {{\n load = random nonce openssl kdf pem pkcs1 pkcs8 x509 pubkey constraints revocation {esp} kernel-netlink socket-default vici\n \
             install_virtual_ip = no\n {}\n plugins {{\n vici {{\n socket = {}\n }}\n kernel-libipsec {{\n allow_peer_ts = yes\n {libipsec}\n \
             }}\n }}\n filelog {{\n stderr {{\n default = 1\n flush_line = yes\n }}\n }}\n}}\n",
            daemon,
            self.socket(),
        );
        self.scratch.write("strongswan.conf", &daemon).unwrap();
    }

    /// Its kernel forwards packets.
    pub(super) fn forwards(&self) {
        for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            let mut command = program("sysctl").unwrap();
            command.args(["-qw", setting]);
            self.namespace.run(command).unwrap();
        }
    }

    pub(super) fn write_certificates(&self, certified: &Certified) {
        let Certified { authority, certificate, key } = certified;
        self.put("x509ca/ca.pem", authority);
        self.put("x509/own.pem", certificate);
        self.put("private/own.pem", key);
    }

    /// Writes a file in a folder beside its own.
    pub(super) fn put(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        self.scratch.write(name, text).unwrap();
    }

    /// The tunnel has the name of its file in `adit status`.
    pub(super) fn file_name(&self) -> String {
        format!("ipsec-{}-{}.conf", std::process::id(), self.namespace.name())
    }

    /// The address of its socket of VICI.
    pub(super) fn socket(&self) -> String {
        match (self.program, &self.process) {
            (Program::Adit, Some(_)) => format!("unix://{}", self.vici().display()),
            _ => format!("unix://{}", self.path("vici").display()),
        }
    }

    /// The socket of VICI of adit, which was started with a /run of its own.
    pub(super) fn vici(&self) -> PathBuf {
        let adit = self.process.as_ref().map(Process::id).unwrap_or_default();
        PathBuf::from(format!("/proc/{adit}/root/run/charon.vici"))
    }

    /// Starts the program with its file; adit with a /run of its own, in which it has the socket of VICI.
    pub(super) fn start_with_vici(&mut self) {
        if self.program != Program::Adit {
            return self.start();
        }
        let (adit, file) = (env!("CARGO_BIN_EXE_adit"), self.path(&self.file_name()));
        let script = format!("mount -t tmpfs none /run && exec {adit} up {}", file.display());
        let mut command = program("unshare").unwrap();
        command.args(["-m", "sh", "-c", &script]);
        let mut process = self.namespace.spawn("adit", command).unwrap();
        process.wait_for_line(0, "tunnel up", WAIT).unwrap();
        self.process = Some(process);
    }

    /// Starts the program with its file.
    pub(super) fn start(&mut self) {
        match self.program {
            Program::Adit => self.start_adit(&[]),
            Program::StrongSwan | Program::NewerStrongSwan | Program::LinuxStrongSwan => {
                let mut command = self.charon();
                command.env("STRONGSWAN_CONF", self.path("strongswan.conf"));
                self.process = Some(self.namespace.spawn("charon", command).unwrap());
                let socket = self.path("vici");
                wait_until("charon's socket", WAIT, || socket.exists()).unwrap();
                self.load();
            }
            Program::Libreswan => self.start_libreswan(),
            Program::OpenIked => self.start_openiked(),
        }
    }

    /// Starts adit with its file and with further options.
    pub(super) fn start_adit(&mut self, options: &[&str]) {
        let mut command = program(env!("CARGO_BIN_EXE_adit")).unwrap();
        command.arg("up").args(options).arg(self.path(&self.file_name()));
        let mut process = self.namespace.spawn("adit", command).unwrap();
        process.wait_for_line(0, "tunnel up", WAIT).unwrap();
        self.process = Some(process);
    }

    /// Starts adit with its file, and with that file in the place of `/etc/hosts`.
    pub(super) fn start_with_hosts(&mut self, hosts: &Path) {
        let (adit, file) = (env!("CARGO_BIN_EXE_adit"), self.path(&self.file_name()));
        let script =
            format!("mount --bind {} /etc/hosts && exec {adit} up {}", hosts.display(), file.display());
        let mut command = program("unshare").unwrap();
        command.args(["-m", "sh", "-c", &script]);
        let mut process = self.namespace.spawn("adit", command).unwrap();
        process.wait_for_line(0, "tunnel up", WAIT).unwrap();
        self.process = Some(process);
    }

    fn charon(&self) -> Command {
        if self.program == Program::NewerStrongSwan {
            return Root::named(NEWER).and_then(|root| root.command("charon-systemd")).unwrap();
        }
        let daemon = if self.program == Program::LinuxStrongSwan { "charon-systemd" } else { CHARON };
        let mut command = program("unshare").unwrap();
        // It keeps its process id below /run.
        command.args(["-m", "sh", "-c", &format!("mount -t tmpfs none /run && exec {daemon}")]);
        command
    }

    /// strongSwan reads its file. Adit has read it at the start.
    pub(super) fn load(&self) {
        let file = self.path(&self.file_name());
        wait_until("strongSwan's connections", WAIT, || {
            // It fails where the initiation of a child fails.
            let _ = self.control(&["--load-all", "--file", file.to_str().unwrap()]);
            self.control(&["--list-conns", "--raw"]).is_ok_and(|list| list.contains("list-conn event"))
        })
        .unwrap();
    }

    /// Removes what a process that was killed has left behind.
    pub(super) fn forget(&self) {
        let _ = std::fs::remove_file(self.path("vici"));
    }

    /// Runs `swanctl`.
    pub(super) fn control(&self, arguments: &[&str]) -> Result<String, TestbedError> {
        let mut command = program("swanctl").unwrap();
        command.args(arguments).args(["--uri", &self.socket()]);
        command.env("STRONGSWAN_CONF", self.path("strongswan.conf")).env("SWANCTL_DIR", self.scratch.path());
        self.namespace.run(command)
    }

    /// The SAs of strongSwan, in its raw form.
    pub(super) fn sas(&self) -> String {
        self.control(&["--list-sas", "--raw"]).unwrap()
    }

    /// The SPIs of strongSwan's IKE SAs that are established.
    pub(super) fn ike_sas(&self) -> Vec<String> {
        let (all, mut found) = (self.sas(), Vec::new());
        for sa in all.split(" version=").skip(1) {
            let (before, after) = sa.split_once("initiator-spi=").unwrap_or_default();
            found.extend(after.get(..16).filter(|_| before.contains("state=ESTABLISHED")).map(str::to_owned));
        }
        found
    }

    /// The SPIs of packets that strongSwan's child SAs of that name receive.
    pub(super) fn child_sas(&self, name: &str) -> Vec<String> {
        let (all, name, mut found) = (self.sas(), format!("name={name} "), Vec::new());
        for sa in all.split(&name).skip(1) {
            let (before, after) = sa.split_once("spi-in=").unwrap_or_default();
            found.extend(after.get(..8).filter(|_| before.contains("state=INSTALLED")).map(str::to_owned));
        }
        found
    }

    pub(super) fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    pub(super) fn log(&self) -> String {
        self.process.as_ref().map(Process::log_tail).unwrap_or_default()
    }

    /// The report of `adit status`.
    pub(super) fn status(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.args(["status", "--json"]);
        let all = self.namespace.run(command).unwrap();
        let name = self.file_name().replace(".conf", "");
        all.split("\n  }").find(|tunnel| tunnel.contains(&name)).map(str::to_owned).unwrap_or(all)
    }

    /// Runs `adit check` with its file.
    pub(super) fn check(&self) -> Result<String, TestbedError> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.arg("check").arg(self.path(&self.file_name()));
        self.namespace.run(command)
    }

    /// Waits until strongSwan has one IKE SA with one child SA, none of which is of `before`.
    pub(super) fn settles(&self, before: &[String]) {
        let is_settled = || {
            let (ike, child) = (self.ike_sas(), self.child_sas("c"));
            ike.len() == 1
                && child.len() == 1
                && !before.iter().any(|spi| ike.contains(spi) || child.contains(spi))
        };
        if let Err(error) = wait_until("one IKE SA with one child SA", WAIT, is_settled) {
            panic!("{error}\n{}\n{}", self.sas(), self.log());
        }
    }

    /// Both inner addresses of the other end answer.
    pub(super) fn reaches(&self, other: &End) {
        for target in [other.inner(), other.inner_v6()] {
            self.reaches_at(other, target);
        }
    }

    /// That inner address of the other end answers.
    pub(super) fn reaches_at(&self, other: &End, target: IpAddr) {
        if let Err(error) = wait_until_reachable(&self.namespace, target, WAIT) {
            panic!("{target}: {error}\n{}\n====\n{}", self.log(), other.log());
        }
        let report = Ping::new(10, Duration::from_millis(20)).run(&self.namespace, target).unwrap();
        assert!(report.is_clean(), "{target}: {report:?}");
    }

    /// Whether the other end answers within a second.
    pub(super) fn is_answered(&self, other: &End) -> bool {
        self.is_answered_by(&other.inner().to_string())
    }

    /// Whether that address answers within a second.
    pub(super) fn is_answered_by(&self, address: &str) -> bool {
        let ping = Ping { timeout: Duration::from_millis(500), ..Ping::new(3, Duration::from_millis(100)) };
        ping.run(&self.namespace, address.parse().unwrap()).unwrap().received > 0
    }
}

/// Runs the rows at once. Rows that wait need no processor.
pub(super) fn at_once<T: Send>(rows: impl IntoIterator<Item = T>, run: impl Fn(T) + Sync) {
    thread::scope(|scope| rows.into_iter().for_each(|row| drop(scope.spawn(|| run(row)))));
}

/// Two ends on one link, up: the second has initiated.
pub(super) fn pair(programs: [Program; 2], settings: &Settings) -> [End; 2] {
    let mut ends = joined(programs, settings);
    ends.iter_mut().for_each(End::start);
    ends
}

/// Two ends on one link, with their files. Nothing runs.
pub(super) fn joined(programs: [Program; 2], settings: &Settings) -> [End; 2] {
    let ends = linked(programs);
    let outer = if settings.is_v6 { ["fd00:9::1", "fd00:9::2"] } else { ["10.9.0.1", "10.9.0.2"] };
    ends.iter().for_each(|end| end.write(settings, outer));
    ends
}

/// Two ends on one link, without files.
pub(super) fn linked(programs: [Program; 2]) -> [End; 2] {
    let ends = [End::create(1, programs[0]), End::create(2, programs[1])];
    connect(
        &ends[0].namespace,
        &["10.9.0.1/24", "fd00:9::1/64"],
        &ends[1].namespace,
        &["10.9.0.2/24", "fd00:9::2/64"],
        WIRE,
    )
    .unwrap();
    ends
}

/// Two ends without a link.
pub(super) fn apart(programs: [Program; 2]) -> [End; 2] {
    [End::create(1, programs[0]), End::create(2, programs[1])]
}

//! An eduVPN node: the files that it writes for the processes of a profile, and the values that its scripts read. Run
//! by eight processes of OpenVPN, by eight of adit, and by one of adit.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use adit_testbed::{
    Authority, Identity, KeyKind, Namespace, Process, Purpose, Scratch, Validity, can_run, connect, program,
    static_key, wait_until, wait_until_reachable,
};

use super::{COMPLETED, WAIT};
use crate::authentication::passwords::script;
use crate::bed::PROGRAMS;
use crate::command_line::tunnels::blocks;
use crate::management::commands::Talk;
use crate::options::Program;

/// Processes of a profile: one a port.
const PROCESSES: u16 = 8;
const FIRST_PORT: u16 = 1194;

/// The processes that run the files of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A process for each.
    Processes(Program),
    /// One process of adit.
    One,
}

/// The variables that eduVPN's scripts read, and that are equal whichever program calls them.
const READ: [&str; 6] = [
    "PROFILE_ID",
    "common_name",
    "trusted_ip",
    "ifconfig_pool_remote_ip",
    "ifconfig_pool_remote_ip6",
    "X509_0_CN",
];
/// The variables that eduVPN's scripts read and that are numbers of this run.
const NUMBERS: [&str; 5] = ["trusted_port", "time_unix", "time_duration", "bytes_received", "bytes_sent"];

type Environment = BTreeMap<String, String>;

struct Node {
    form: Form,
    hub: Namespace,
    user: Namespace,
    scratch: Scratch,
    authority: Authority,
    server: Identity,
    client: Identity,
    tls_crypt: String,
}

impl Node {
    fn build(form: Form) -> Self {
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        let server = authority.issue("server", Purpose::Server, Validity::Now).unwrap();
        let client = authority.issue("client1", Purpose::Client, Validity::Now).unwrap();
        let [hub, user] = ["node", "user"].map(|name| Namespace::create(name).unwrap());
        connect(&hub, &["10.9.1.1/24"], &user, &["10.9.1.2/24"], "wire").unwrap();
        let scratch = Scratch::create("eduvpn").unwrap();
        // Its scripts run as the service's user, and write here.
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o777)).unwrap();
        for event in ["client-connect", "client-disconnect"] {
            let body = "env >\"$HERE/part-$PROFILE_ID-$script_type\"\n\
                        mv \"$HERE/part-$PROFILE_ID-$script_type\" \"$HERE/env-$PROFILE_ID-$script_type\"\n";
            script(&scratch, event, body);
        }
        let tls_crypt = format!("<tls-crypt>\n{}</tls-crypt>\n", static_key().unwrap());
        Node { form, hub, user, scratch, authority, server, client, tls_crypt }
    }

    /// The file of that process.
    fn file(&self, number: u16) -> PathBuf {
        let (here, port) = (self.scratch.path().display(), FIRST_PORT + number);
        let text = format!(
            "verb 3\ndev-type tun\nuser nobody\ngroup nogroup\ntopology subnet\npersist-key\npersist-tun\n\
             remote-cert-tls client\ndh none\ntls-version-min 1.3\ndata-ciphers AES-256-GCM:CHACHA20-POLY1305\n\
             reneg-sec 36000\nclient-connect {here}/client-connect\nclient-disconnect {here}/client-disconnect\n\
             server 10.8{number}.0.0 255.255.255.0\nserver-ipv6 fd00:8{number}::/64\nmax-clients 61\nkeepalive 10 60\n\
             script-security 2\ndev tun{number}\nport {port}\nmanagement {here}/office-{number}.sock unix\n\
             setenv PROFILE_ID office-{number}\nproto udp\nlocal 10.9.1.1\nlog /dev/null\nexplicit-exit-notify 1\n\
             push \"explicit-exit-notify 1\"\npush \"dhcp-option DNS 10.8{number}.0.1\"\n{}{}",
            blocks(&self.authority, &self.server),
            self.tls_crypt
        );
        self.scratch.write(&format!("office-{number}.conf"), &text).unwrap()
    }

    fn start(&self) -> Vec<Process> {
        let files: Vec<PathBuf> = (0..PROCESSES).map(|number| self.file(number)).collect();
        let processes = match self.form {
            Form::Processes(program) => {
                let start = |file: &PathBuf| {
                    let mut command = program.called_as("openvpn", &self.scratch);
                    command.args(["--suppress-timestamps", "--config"]).arg(file);
                    self.hub.spawn("office", command).unwrap()
                };
                files.iter().map(start).collect()
            }
            Form::One => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
                command.arg("up").args(&files);
                vec![self.hub.spawn("all of office", command).unwrap()]
            }
        };
        let listen = || {
            let mut ports = FIRST_PORT..FIRST_PORT + PROCESSES;
            ports.all(|port| self.hub.is_bound(false, port).unwrap_or(false))
        };
        if let Err(error) = wait_until("all ports to be bound", WAIT, listen) {
            let logs: Vec<String> = processes.iter().map(Process::log_tail).collect();
            panic!("{:?}: {error}\n{}", self.form, logs.join("\n"));
        }
        processes
    }

    /// An eduVPN client of the process of that number.
    fn connect(&self, number: u16) -> Process {
        let port = FIRST_PORT + number;
        let text = format!(
            "client\ndev tun{number}\nproto udp\nremote 10.9.1.1 {port}\nnobind\nremote-cert-tls server\n\
             server-poll-timeout 10\nreneg-sec 0\nverb 3\n{}{}",
            blocks(&self.authority, &self.client),
            self.tls_crypt
        );
        let file = self.scratch.write(&format!("client-{number}.conf"), &text).unwrap();
        let mut command = program("openvpn").unwrap();
        command.arg("--config").arg(file);
        self.user.spawn(&format!("client {number} ({:?})", self.form), command).unwrap()
    }

    /// The environment of a script of the process of that number, once it has run.
    fn told(&self, number: u16, event: &str) -> Environment {
        let file = self.scratch.path().join(format!("env-office-{number}-{event}"));
        let ran = wait_until(event, WAIT, || file.exists());
        ran.unwrap_or_else(|error| panic!("{:?}, {number}: {error}", self.form));
        let text = fs::read_to_string(&file).unwrap();
        let all: Environment = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut told = Environment::new();
        for name in READ {
            told.extend(all.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        for name in NUMBERS {
            let is_number = |value: &String| value.parse::<u64>().is_ok();
            told.extend(all.get(name).map(|value| (name.to_owned(), is_number(value).to_string())));
        }
        told
    }

    /// vpn-daemon asks each socket for its clients.
    fn lists_its_client(&self, number: u16) -> bool {
        let socket = self.scratch.path().join(format!("office-{number}.sock"));
        let lines = Talk::within(&socket, WAIT).answer("status 2");
        lines.iter().any(|line| line.starts_with("CLIENT_LIST,client1,"))
    }
}

/// A client of each process comes and goes. Gives the scripts' environments, by process.
fn session(form: Form) -> Vec<[Environment; 2]> {
    let node = Node::build(form);
    let mut processes = node.start();
    let mut clients: Vec<Process> = (0..PROCESSES).map(|number| node.connect(number)).collect();
    for (number, client) in (0..).zip(&mut clients) {
        client.wait_for_line(0, COMPLETED, WAIT).unwrap();
        let server = format!("10.8{number}.0.1").parse().unwrap();
        wait_until_reachable(&node.user, server, WAIT).unwrap();
        assert!(node.lists_its_client(number), "{form:?}, {number}");
    }
    end(form, &mut clients);
    let events = ["client-connect", "client-disconnect"];
    let told = (0..PROCESSES).map(|number| events.map(|event| node.told(number, event))).collect();
    end(form, &mut processes);
    told
}

/// Ends them all at the same time.
fn end(form: Form, processes: &mut [Process]) {
    processes.iter_mut().for_each(Process::send_terminate);
    for process in processes {
        assert!(process.wait(WAIT).unwrap().success(), "{form:?}: {}", process.log());
    }
}

#[test]
fn a_node_of_eduvpn_runs_by_eight_processes_and_by_one() {
    if !can_run("eduVPN", &PROGRAMS) {
        return;
    }
    let forms = [Form::Processes(Program::OpenVpn), Form::Processes(Program::Adit), Form::One];
    let [openvpn, eight, one] = std::thread::scope(|scope| {
        forms.map(|form| scope.spawn(move || session(form))).map(|thread| thread.join().unwrap())
    });
    let [connected, left] = &openvpn[0];
    assert!(READ.iter().all(|name| connected.contains_key(*name)), "{connected:?}");
    assert!(left.contains_key("bytes_received") && left.contains_key("bytes_sent"), "{left:?}");
    assert_eq!(eight, openvpn, "eight processes");
    assert_eq!(one, openvpn, "one process");
}

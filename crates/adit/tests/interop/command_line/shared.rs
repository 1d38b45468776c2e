//! The resources of the machine that several tunnels of one process share: `/etc/resolv.conf` and the kill
//! switch.

use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{Process, can_run, wait_until, wait_until_reachable};

use super::tunnels::{Hub, WAIT, inner};
use crate::bed::PROGRAMS;

/// Two servers in namespaces of their own, and the files of a client of each, which run in the hub.
struct Clients {
    hub: Hub,
    servers: Vec<Process>,
    files: Vec<PathBuf>,
}

impl Clients {
    /// Each server pushes its own address as a name server.
    fn build() -> Self {
        let hub = Hub::build(2);
        let (mut servers, mut files) = (Vec::new(), Vec::new());
        for number in 1..=2 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
            let push = format!("push \"dhcp-option DNS 10.80.{number}.1\"\n");
            command.arg("up").arg(hub.server(number, &push));
            let mut server = hub.clients[number - 1].spawn(&format!("server {number}"), command).unwrap();
            server.wait_for_line(0, "listening on", WAIT).unwrap();
            servers.push(server);
            let text = fs::read_to_string(hub.client(number)).unwrap();
            let (near, far) = (format!("10.9.{number}.1 "), format!("10.9.{number}.2 "));
            let socket = Self::socket(&hub, number);
            let text = format!("management {} unix\n{}", socket.display(), text.replace(&near, &far));
            files.push(hub.scratch.write(&format!("c{number}.conf"), &text).unwrap());
        }
        Clients { hub, servers, files }
    }

    fn socket(hub: &Hub, number: usize) -> PathBuf {
        hub.scratch.path().join(format!("c{number}.sock"))
    }

    /// Starts both, and waits until they are up.
    fn start(&self, arguments: &[&str]) -> Process {
        let mut process = self.hub.up(arguments, &self.files);
        for number in 1..=2 {
            process.wait_for_line(0, &format!("c{number}: tunnel up: "), WAIT).unwrap();
            wait_until_reachable(&self.hub.namespace, inner(number), WAIT).unwrap();
        }
        process
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
        }
    }
}

/// The name servers that the file names.
fn name_servers(file: &Path) -> Vec<usize> {
    let text = fs::read_to_string(file).unwrap_or_default();
    (1..=2).filter(|number| text.contains(&format!("nameserver 10.80.{number}.1\n"))).collect()
}

#[test]
fn name_servers_are_those_of_the_tunnel_that_is_left() {
    if !can_run("resolv.conf of several tunnels", &PROGRAMS) {
        return;
    }
    const BEFORE: &str = "nameserver 192.0.2.53\noptions edns0\n";
    let clients = Clients::build();
    let directory = clients.hub.scratch.path().join("etc");
    fs::create_dir(&directory).unwrap();
    let file = directory.join("resolv.conf");
    fs::write(&file, BEFORE).unwrap();
    let is_back = || {
        let left = fs::read_dir(&directory).unwrap().count();
        left == 1 && fs::read_to_string(&file).unwrap() == BEFORE
    };
    let arguments = ["--resolv-conf", file.to_str().unwrap()];

    let mut process = clients.start(&arguments);
    process.wait_for_line(0, "name servers are not set yet", WAIT).unwrap();
    let [first] = name_servers(&file)[..] else { panic!("{}", fs::read_to_string(&file).unwrap()) };
    let mut management = UnixStream::connect(Clients::socket(&clients.hub, first)).unwrap();
    management.write_all(b"signal SIGTERM\n").unwrap();
    wait_until("the other's name servers", WAIT, || name_servers(&file) == [3 - first])
        .unwrap_or_else(|error| panic!("{error}\n{}", process.log()));
    assert!(process.is_running());
    assert!(process.terminate(WAIT).unwrap().success(), "{}", process.log());
    wait_until("the file to come back", WAIT, is_back).unwrap();

    // Helpers outlive a process that is killed, and put the file back one after another.
    let mut process = clients.start(&arguments);
    process.wait_for_line(0, "name servers are not set yet", WAIT).unwrap();
    process.kill().unwrap();
    wait_until("the file to come back after a kill", WAIT, is_back).unwrap();
}

fn kill_switch(clients: &Clients, arguments: &[&str], files: &[&Path]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("kill-switch").args(arguments).args(files);
    clients.hub.namespace.run(command).unwrap()
}

#[test]
fn one_kill_switch_is_for_all_tunnels_of_a_process() {
    if !can_run("the kill switch of several tunnels", &[&PROGRAMS[..], &["nft"]].concat()) {
        return;
    }
    let clients = Clients::build();
    // Beside the tunnels, to a machine that both could reach.
    let leaves = || {
        let send = || UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", "10.9.1.2:9"));
        clients.hub.namespace.enter(send).unwrap().is_ok()
    };
    assert!(leaves());
    let mut process = clients.start(&["--kill-switch"]);
    process.wait_for_line(0, "kill switch on: only these tunnels' packets leave", WAIT).unwrap();
    assert!(!leaves());
    process.kill().unwrap();
    assert!(!leaves(), "whatever becomes of adit");
    let mut process = clients.start(&["--kill-switch"]);
    assert!(process.terminate(WAIT).unwrap().success(), "{}", process.log());
    let [first, second] = [&*clients.files[0], &*clients.files[1]];
    let said = kill_switch(&clients, &["off"], &[first]);
    assert!(said.contains("name all that `adit up` was given") && !leaves(), "{said}");
    let said = kill_switch(&clients, &["off"], &[second, first]);
    assert!(said.contains("_and_1_") && said.contains("is off") && leaves(), "{said}");
    assert_eq!(kill_switch(&clients, &["list"], &[]).trim(), "no kill switch is on");

    // A server's answers are no datagrams of a client.
    let server = clients.hub.server(3, "");
    let mut process = clients.hub.up(&["--kill-switch"], &[first.to_owned(), server]);
    assert_eq!(process.wait(WAIT).unwrap().code(), Some(2), "{}", process.log());
    assert!(process.log().contains("s3.conf: --kill-switch is for clients"), "{}", process.log());
    assert!(leaves());
}

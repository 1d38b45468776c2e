//! The small protocol of the tests in the program: its files in `adit check` and `adit up`, its peers in `adit status`, a file that is
//! read again, and clients that reach the server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

use adit_testbed::{
    MAX_WAIT, Namespace, Ping, Process, Scratch, can_run, connect, wait_until, wait_until_reachable,
};
use serde_json::Value;

/// The inner address of the server.
const SERVER: &str = "10.89.0.1";

/// A server and its clients, each in a namespace.
struct Bed {
    server: Namespace,
    clients: Vec<Namespace>,
    scratch: Scratch,
}

impl Bed {
    fn build(clients: u8) -> Self {
        let server = Namespace::create("toy").unwrap();
        let client = |number: u8| {
            let client = Namespace::create(&format!("toy{number}")).unwrap();
            let [near, far] = [1, 2].map(|last| format!("10.9.{number}.{last}/24"));
            connect(&server, &[&near], &client, &[&far], &format!("wire{number}")).unwrap();
            client
        };
        let clients = (1..=clients).map(client).collect();
        Bed { server, clients, scratch: Scratch::create("toy").unwrap() }
    }

    /// Writes the file of the server, with so many clients.
    fn server(&self, clients: u8) -> PathBuf {
        let peers: String = (1..=clients).map(|number| peer(number, number + 1)).collect();
        self.scratch.write("server.conf", &file(SERVER, &format!("listen 0.0.0.0:4500\n{peers}"))).unwrap()
    }

    /// Starts the client of that number.
    fn connect(&self, number: u8) -> Process {
        let peer = format!("{} 10.9.{number}.1:4500\n", peer(number, 1).trim_end());
        let text = file(&format!("10.89.0.{}", number + 1), &peer);
        let path = self.scratch.write(&format!("client{number}.conf"), &text).unwrap();
        let namespace = &self.clients[usize::from(number) - 1];
        let process = namespace.spawn("client", up(&path)).unwrap();
        if let Err(error) = wait_until_reachable(namespace, SERVER.parse().unwrap(), MAX_WAIT) {
            panic!("{error}\n{}", process.log());
        }
        process
    }
}

/// A file with that address. The device has the name of the process, as `adit status` shows all tunnels of the machine.
fn file(address: &str, lines: &str) -> String {
    format!("# adit toy\ndevice toy{}\naddress {address}/24\n{lines}", std::process::id())
}

fn peer(number: u8, inner: u8) -> String {
    format!("peer {number} {} 10.89.0.{inner}/32\n", format!("{number:02x}").repeat(32))
}

fn up(file: &PathBuf) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(file);
    command
}

/// The report of the tunnel of that process.
fn report(process: &Process) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_adit")).args(["status", "--json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let own = all.as_array().unwrap().iter().find(|tunnel| tunnel["pid"] == process.id());
    own.unwrap_or_else(|| panic!("{all}\n{}", process.log())).clone()
}

#[test]
fn the_program_runs_a_protocol_that_it_has_by_one_line() {
    if !can_run("the toy in the program", &[]) {
        return;
    }
    let bed = Bed::build(2);
    let mut process = bed.server.spawn("server", up(&bed.server(1))).unwrap();
    process.wait_for_line(0, "tunnel up on toy", MAX_WAIT).unwrap();
    let mut first = bed.connect(1);
    let found = report(&process);
    assert_eq!((&found["role"], &found["name"]), (&"toy".into(), &"server".into()), "{found}");
    assert_eq!(found["peers"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["peers"][0]["tls"], "a pre-shared key");
    assert_eq!(found["sandbox"]["seccomp"]["state"], "on");

    // A second client is in the file from now on.
    bed.server(2);
    let mark = process.mark();
    process.hang_up();
    process.wait_for_line(mark, "SIGHUP: 1 peers were added", MAX_WAIT).unwrap();
    let mut second = bed.connect(2);
    let ping = Ping::new(50, std::time::Duration::from_millis(2));
    let far: IpAddr = SERVER.parse().unwrap();
    assert!(ping.run(&bed.clients[0], far).unwrap().is_clean(), "{}", process.log());
    wait_until("both clients", MAX_WAIT, || report(&process)["peers"].as_array().unwrap().len() == 2)
        .unwrap();

    for process in [&mut first, &mut second, &mut process] {
        assert!(process.terminate(MAX_WAIT).unwrap().success(), "{}", process.log());
    }
    wait_until("the device to go", MAX_WAIT, || {
        bed.server.devices().unwrap().iter().all(|device| device.starts_with("wire"))
    })
    .unwrap();
}

/// A file of access rules with these rules, for clients that the toy names by eight digits.
fn rules(names: &[&str]) -> String {
    format!("default = \"deny\"\n[[rule]]\nwho = {names:?}\nmay-reach = \"lan\"\n")
}

#[test]
fn access_rules_hold_from_the_start_and_change_by_sighup() {
    if !can_run("access rules in the program", &[]) {
        return;
    }
    let bed = Bed::build(2);
    // The rules hold for all files of their directory, and clients have none.
    let folder = bed.scratch.path().join("guarded");
    fs::create_dir(&folder).unwrap();
    let (server_file, rules_file) = (folder.join("server.conf"), folder.join("access.toml"));
    fs::copy(bed.server(2), &server_file).unwrap();
    fs::write(&rules_file, rules(&["00000001"])).unwrap();
    let mut process = bed.server.spawn("server", up(&server_file)).unwrap();
    process
        .wait_for_line(0, "access.toml: 1 rules and 0 groups; what none of them matches is refused", MAX_WAIT)
        .unwrap();
    process.wait_for_line(0, "tunnel up on toy", MAX_WAIT).unwrap();
    let first = bed.connect(1);
    let client = &bed.clients[1];
    let text = file("10.89.0.3", &format!("{} 10.9.2.1:4500\n", peer(2, 1).trim_end()));
    let second = client.spawn("client", up(&bed.scratch.write("client2.conf", &text).unwrap())).unwrap();
    let own: IpAddr = SERVER.parse().unwrap();
    let ping = Ping::new(1, std::time::Duration::from_millis(2));
    let is_refused = || {
        let _ = ping.run(client, own);
        report(&process).to_string().contains("access rules")
    };
    wait_until("a packet of the second client to be refused", MAX_WAIT, is_refused).unwrap();

    fs::write(&rules_file, rules(&["00000001", "00000002"])).unwrap();
    let mark = process.mark();
    process.hang_up();
    process.wait_for_line(mark, "access.toml holds: 1 rules", MAX_WAIT).unwrap();
    wait_until_reachable(client, own, MAX_WAIT).unwrap();

    // A mistake, and no file at all, leave the rules as they are.
    let check = || {
        Command::new(env!("CARGO_BIN_EXE_adit")).args(["access", "check"]).arg(&rules_file).output().unwrap()
    };
    assert!(String::from_utf8(check().stdout).unwrap().contains("access.toml: can be used: 1 rules"));
    fs::write(&rules_file, "default = \"no\"").unwrap();
    let output = check();
    assert!(String::from_utf8(output.stderr).unwrap().contains("access.toml:1: default = `\"no\"`"));
    assert_eq!(output.status.code(), Some(2));
    for reason in ["access.toml:1: default", "access.toml: it is gone"] {
        let mark = process.mark();
        process.hang_up();
        process.wait_for_line(mark, reason, MAX_WAIT).unwrap();
        process.wait_for_line(mark, "changes nothing: the access rules of before hold", MAX_WAIT).unwrap();
        let _ = fs::remove_file(&rules_file);
    }
    assert!(ping.run(client, own).unwrap().is_clean(), "{}", process.log());
    drop((first, second));
    assert!(process.terminate(MAX_WAIT).unwrap().success(), "{}", process.log());
}

#[test]
fn a_mistake_in_a_file_is_named_as_in_any_other() {
    let scratch = Scratch::create("toy-mistake").unwrap();
    let path = scratch.write("wrong.conf", "# adit toy\ndevice toy0\naddress ten\n").unwrap();
    let check = || Command::new(env!("CARGO_BIN_EXE_adit")).arg("check").arg(&path).output().unwrap();
    let output = check();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("wrong.conf:3: `ten` is no such value"), "{text}");
    assert_eq!(output.status.code(), Some(2));
    fs::write(&path, file("10.89.0.1", "")).unwrap();
    let output = check();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("wrong.conf: can be used") && output.status.success(), "{text}");
}

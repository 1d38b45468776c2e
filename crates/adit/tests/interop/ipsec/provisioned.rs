//! The files that `adit init --ikev2` and `adit add-client --ikev2` make.

use std::path::PathBuf;
use std::process::Command;

use adit_testbed::{Namespace, Process, Scratch, connect, program, wait_until, wait_until_reachable};

use super::bed::{End, Program, WAIT, is_ready, row_of};

/// Where clients reach the server, and hosts beyond it.
const ENDPOINT: &str = "10.99.0.1";
const BEYOND: [&str; 2] = ["203.0.113.80", "2001:db8:77::80"];

/// Lines of strongSwan's own file. It takes an inner address for its own alone, and its messages do not go into a full tunnel.
const STRONGSWAN: &str = "install_virtual_ip = yes\n plugins {\n kernel-netlink {\n fwmark = !0x42\n }\n socket-default {\n fwmark = \
     0x42\n }\n }";

/// A server's directory, and the server in a namespace. A host beyond it has no route to its clients.
struct Server {
    scratch: Scratch,
    namespace: Namespace,
    _beyond: Namespace,
    process: Option<Process>,
}

impl Server {
    fn create() -> Self {
        let scratch = Scratch::create("ikev2-provisioned").unwrap();
        let [namespace, beyond] = ["server", "beyond"].map(|name| Namespace::create(name).unwrap());
        namespace.ip(&["address", "add", &format!("{ENDPOINT}/32"), "dev", "lo"]).unwrap();
        let far = [format!("{}/24", BEYOND[0]), format!("{}/64", BEYOND[1])];
        let far = far.each_ref().map(String::as_str);
        connect(&namespace, &["203.0.113.1/24", "2001:db8:77::1/64"], &beyond, &far, "uplink").unwrap();
        namespace.ip(&["route", "add", "default", "via", BEYOND[0]]).unwrap();
        namespace.ip(&["-6", "route", "add", "default", "via", BEYOND[1]]).unwrap();
        let server = Server { scratch, namespace, _beyond: beyond, process: None };
        server.adit(&format!("init DIR --endpoint {ENDPOINT} --ikev2 --full-tunnel --dns {}", BEYOND[0]));
        server
    }

    fn dir(&self) -> PathBuf {
        self.scratch.path().join("vpn")
    }

    fn command(&self, words: &str) -> Command {
        let (mut command, dir) = (program(env!("CARGO_BIN_EXE_adit")).unwrap(), self.dir());
        let dir = dir.to_str().unwrap();
        command.args(words.split(' ').map(|word| word.replace("DIR", dir)));
        command.env("STATE_DIRECTORY", self.scratch.path());
        command
    }

    /// Runs `adit` outside of the namespaces: the sockets of a tunnel are in the file system.
    fn adit(&self, words: &str) {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn start(&mut self) {
        let mut process =
            self.namespace.spawn("adit", self.command("up DIR/server.conf DIR/swanctl.conf")).unwrap();
        process.wait_for_line(0, "swanctl: tunnel up", WAIT).unwrap();
        process.wait_for_line(0, "server: listening on", WAIT).unwrap();
        self.process = Some(process);
    }

    fn log(&self) -> String {
        self.process.as_ref().map(Process::log_tail).unwrap_or_default()
    }

    /// Gives an end a wire to the server, and the files that were made for the client of that name.
    fn give(&self, end: &End, name: &str) {
        let (number, made) = (end.number(), self.dir().join(format!("clients/{name}.swanctl")));
        let (near, far) = (format!("10.9.{number}.1/24"), format!("10.9.{number}.2/24"));
        connect(&self.namespace, &[&near], &end.namespace, &[&far], &format!("wire{number}")).unwrap();
        end.namespace.ip(&["route", "add", ENDPOINT, "via", &format!("10.9.{number}.1")]).unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        end.write_text(&read(made.join(format!("{name}.conf"))), STRONGSWAN, "");
        for folder in ["x509", "x509ca", "private"].map(|folder| (folder, made.join(folder))) {
            for file in std::fs::read_dir(folder.1).into_iter().flatten() {
                let file = file.unwrap();
                end.put(&format!("{}/{}", folder.0, file.file_name().to_str().unwrap()), &read(file.path()));
            }
        }
    }
}

fn reaches(server: &Server, end: &End, address: &str) {
    if let Err(error) = wait_until_reachable(&end.namespace, address.parse().unwrap(), WAIT) {
        panic!("{}: {address}: {error}\n{}\n====\n{}", end.program, end.log(), server.log());
    }
}

#[test]
fn clients_of_files_that_adit_made_reach_the_internet_through_its_server_until_they_are_revoked() {
    if !is_ready("ipsec files of adit init") {
        return;
    }
    row_of("files of adit init", [Program::Adit, Program::StrongSwan], |_| {
        let mut server = Server::create();
        server.adit("add-client DIR laptop --ikev2");
        server.adit("add-client DIR phone --ikev2 --password");
        server.start();
        let mut ends = [End::create(2, Program::StrongSwan), End::create(3, Program::Adit)];
        for (end, name) in ends.iter_mut().zip(["laptop", "phone"]) {
            server.give(end, name);
        }
        let resolv_conf = ends[1].path("resolv.conf");
        std::fs::write(&resolv_conf, "nameserver 192.0.2.53\n").unwrap();
        ends[0].start();
        ends[1].start_adit(&["--resolv-conf", resolv_conf.to_str().unwrap()]);
        for end in &ends {
            reaches(&server, end, BEYOND[0]);
        }
        reaches(&server, &ends[1], BEYOND[1]);
        let servers = || std::fs::read_to_string(&resolv_conf).unwrap_or_default();
        wait_until("the name server", WAIT, || servers().contains(BEYOND[0])).unwrap();

        for name in ["laptop", "phone"] {
            server.adit(&format!("revoke DIR {name}"));
        }
        for end in &ends {
            let is_out = wait_until("the client to be out", WAIT, || !end.is_answered_by(BEYOND[0]));
            assert!(is_out.is_ok(), "{}", server.log());
        }
    });
}

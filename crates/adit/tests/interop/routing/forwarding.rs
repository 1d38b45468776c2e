//! Tests of forwarding: clients reach a host beyond a server, by name and by both families, with the files of `adit init` and
//! `adit add-client`. The system is as before when the server has ended, or was killed and started again.

use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_testbed::{
    MAX_WAIT, Namespace, Ping, Process, Scratch, can_run, connect, program, wait_until, wait_until_reachable,
};
use rustix::process::{Pid, Signal, kill_process};

/// The programs that the tests run besides `ip`.
const PROGRAMS: [&str; 6] = ["nft", "iptables", "ip6tables", "iptables-save", "getent", "unshare"];
/// The addresses of the host beyond the server, which has no route back.
const HOST: [&str; 2] = ["198.51.100.80", "2001:db8:51::80"];
/// The address of the name server, which is on the host.
const NAME_SERVER: &str = "198.51.100.53";
/// Another network behind the server, and the host's address in it.
const LAN: [&str; 2] = ["192.168.77.0/24", "192.168.77.80"];
const NAME: &str = "beyond.test";
/// The commands of the shell that leave the chain FORWARD as Docker does.
const DOCKER: &str = "for t in iptables ip6tables; do $t -N DOCKER-USER; $t -A DOCKER-USER -j RETURN; \
                      $t -A FORWARD -j DOCKER-USER; $t -A FORWARD -o docker0 -j DROP; $t -P FORWARD DROP; done";

/// A client, a server, and a host beyond it, in namespaces.
struct World {
    scratch: Scratch,
    client: Namespace,
    server: Namespace,
    _host: Namespace,
    _names: NameServer,
    process: Option<Process>,
}

impl World {
    /// Creates the namespaces, with a server that `adit init` made with these words.
    fn create(words: &str) -> Self {
        let scratch = Scratch::create("forwarding").unwrap();
        let [client, server, host] =
            ["client", "server", "host"].map(|name| Namespace::create(name).unwrap());
        connect(&server, &["10.9.1.1/24", "fd00:9::1/64"], &client, &["10.9.1.2/24", "fd00:9::2/64"], "wire")
            .unwrap();
        let of_host: Vec<String> =
            [HOST[0], NAME_SERVER, LAN[1]].map(|address| format!("{address}/24")).to_vec();
        let of_host: Vec<&str> = of_host.iter().map(String::as_str).chain(["2001:db8:51::80/64"]).collect();
        let of_server = ["198.51.100.1/24", "192.168.77.1/24", "2001:db8:51::1/64"];
        connect(&server, &of_server, &host, &of_host, "uplink").unwrap();
        for (family, gateway) in [("-4", HOST[0]), ("-6", HOST[1])] {
            server.ip(&[family, "route", "add", "default", "via", gateway]).unwrap();
        }
        let names = NameServer::start(&host);
        let world = World { scratch, client, server, _host: host, _names: names, process: None };
        world.adit(&format!("init DIR --endpoint 10.9.1.1 {words}"));
        world
    }

    fn dir(&self) -> PathBuf {
        self.scratch.path().join("vpn")
    }

    fn adit(&self, words: &str) -> String {
        let dir = self.dir().display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.args(words.split_whitespace().map(|word| if word == "DIR" { &dir } else { word }));
        self.server.run(command).unwrap()
    }

    /// Runs a command of the shell where the server is.
    fn shell(&self, text: &str) -> String {
        let mut shell = program("sh").unwrap();
        shell.args(["-ec", text]);
        self.server.run(shell).unwrap()
    }

    fn start(&mut self, files: &[&str], ready: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.env("STATE_DIRECTORY", self.scratch.path()).arg("up");
        command.args(files.iter().map(|file| self.dir().join(file)));
        let process = self.process.insert(self.server.spawn("server", command).unwrap());
        process.wait_for_line(0, ready, MAX_WAIT).unwrap();
    }

    /// The rules of nftables and iptables, and the parameters of the network, without those of a tunnel's device.
    fn state(&self) -> String {
        // Counters and values that the kernel chooses at random are no settings.
        self.shell(
            "nft --stateless list ruleset; for save in iptables-save ip6tables-save; do $save | sed '/^#/d; s/ \\[[0-9:]*\\]$//'; done; \
             sysctl -a 2>/dev/null | grep -E '^net\\.ipv[46]\\.(conf|ip_forward)' | grep -vE \
             'stable_secret|\\.(tun|wgf)[^.]*\\.'",
        )
    }

    fn stop(&mut self) {
        let status = self.process.as_mut().unwrap().terminate(MAX_WAIT).unwrap();
        assert!(status.success(), "{status}");
        self.process = None;
    }

    /// Kills the server and its helpers, none of which can clean up.
    fn kill_all(&mut self) {
        let is_adit = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path.ends_with("adit"))
        };
        let listing = || self.server.processes().unwrap().into_iter().filter(is_adit).collect::<Vec<u32>>();
        let pids = listing();
        assert!(pids.len() >= 3, "the server and two helpers: {pids:?}");
        // Helpers are killed first: when the server is gone, they take back their changes.
        for pid in pids.into_iter().rev() {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
        wait_until("all to be gone", MAX_WAIT, || listing().is_empty()).unwrap();
        self.process.as_mut().unwrap().kill().unwrap();
        self.process = None;
    }

    /// Starts a client by a file that `adit add-client` made. The client has the name servers of the tunnel.
    fn client(&self, file: &str, up: &str) -> Client<'_> {
        let names = self.scratch.write("resolv.conf", "nameserver 192.0.2.1\n").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.env("STATE_DIRECTORY", self.scratch.path()).arg("up").arg("--resolv-conf").arg(&names);
        command.arg(self.dir().join("clients").join(file));
        let process = self.client.spawn("client", command).unwrap();
        let mut client = Client { world: self, process, names };
        if client.process.wait_for_line(0, up, MAX_WAIT).is_err() {
            panic!("{}", client.logs());
        }
        client
    }
}

struct Client<'a> {
    world: &'a World,
    process: Process,
    names: PathBuf,
}

impl Client<'_> {
    fn logs(&self) -> String {
        let server = self.world.process.as_ref().map(Process::log_tail).unwrap_or_default();
        format!("{}\n{server}\n{}", self.process.log_tail(), self.world.shell("nft list ruleset"))
    }

    /// Checks that the client finds both addresses of the host by its name, and that the host answers at both.
    fn reaches_by_name(&self) {
        for (database, address) in [("ahostsv4", HOST[0]), ("ahostsv6", HOST[1])] {
            let found = resolve(&self.world.client, &self.names, database);
            assert!(found.contains(address), "{database}: {found}\n{}", self.logs());
            self.reaches(address);
        }
    }

    fn reaches(&self, address: &str) {
        let reached = wait_until_reachable(&self.world.client, address.parse().unwrap(), MAX_WAIT);
        assert!(reached.is_ok(), "{address}: {}", self.logs());
    }

    fn does_not_reach(&self, address: &str) {
        let ping = Ping { timeout: Duration::from_millis(300), ..Ping::new(2, Duration::from_millis(50)) };
        let report = ping.run(&self.world.client, address.parse::<IpAddr>().unwrap()).unwrap();
        assert_eq!(report.received, 0, "{address}: {}", self.logs());
    }

    fn stop(mut self) {
        self.process.terminate(MAX_WAIT).unwrap();
    }
}

/// The addresses of [`NAME`] that the C library finds with the file `names` in the place of /etc/resolv.conf.
fn resolve(namespace: &Namespace, names: &Path, database: &str) -> String {
    let mut unshare = program("unshare").unwrap();
    let script = "mount --bind \"$0\" \"$(readlink -f /etc/resolv.conf)\" && getent \"$1\" \"$2\" || true";
    unshare.args(["--mount", "sh", "-c", script]).arg(names).args([database, NAME]);
    namespace.run(unshare).unwrap()
}

/// A name server that answers for every name with the addresses of the host (RFC 1035, RFC 3596).
struct NameServer {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    fn start(namespace: &Namespace) -> Self {
        let socket = namespace.enter(|| UdpSocket::bind((NAME_SERVER, 53)).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let work = move || {
            let mut query = [0; 512];
            while !until.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
                if let Some(answer) = answer(&query[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        };
        NameServer { ended, thread: Some(thread::spawn(work)) }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The answer to a question about any name: the host's address of the type that is asked for.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let labels = query.get(12..)?;
    let end = 12 + labels.iter().position(|byte| *byte == 0)? + 5;
    let kind = *query.get(end - 3)?;
    let data: Vec<u8> = match (kind, HOST.map(|address| address.parse().unwrap())) {
        (1, [IpAddr::V4(address), _]) => address.octets().to_vec(),
        (28, [_, IpAddr::V6(address)]) => address.octets().to_vec(),
        _ => Vec::new(),
    };
    let count = u8::from(!data.is_empty());
    let mut answer = [&query[..2], &[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0], query.get(12..end)?].concat();
    if count > 0 {
        answer.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        answer.extend(data);
    }
    Some(answer)
}

/// The name of a WireGuard interface that no other test has.
fn interface(end: char) -> String {
    format!("wgf{}{end}", std::process::id())
}

#[test]
fn clients_of_openvpn_reach_a_host_beyond_the_server_by_name() {
    if !can_run("clients_of_openvpn_reach_a_host_beyond_the_server_by_name", &PROGRAMS) {
        return;
    }
    let mut world = World::create(&format!("--full-tunnel --dns {NAME_SERVER}"));
    world.adit("add-client DIR laptop");
    let before = world.state();
    world.start(&["server.conf"], "forwards 10.");
    let client = world.client("laptop.ovpn", "tunnel up");
    client.reaches_by_name();
    client.stop();
    assert_ne!(world.state(), before);
    world.stop();
    assert_eq!(world.state(), before);
    // A killed server leaves its changes in place. The next server takes them back, although it forwards nothing itself.
    world.start(&["server.conf"], "forwards 10.");
    world.kill_all();
    assert!(world.state().contains("adit_forward_"), "{}", world.state());
    let file = world.dir().join("server.conf");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("#adit: forward = internet\n", "")).unwrap();
    world.start(&["server.conf"], "listening on");
    assert_eq!(world.state(), before);
    world.stop();
    assert_eq!(world.state(), before);
}

/// The chain FORWARD drops packets that no rule accepts, as Docker leaves it.
#[test]
fn clients_of_both_protocols_reach_beyond_a_server_with_docker() {
    if !can_run(
        "clients_of_both_protocols_reach_beyond_a_server_with_docker",
        &[&PROGRAMS[..], &["wg"]].concat(),
    ) {
        return;
    }
    let [device, name] = ['s', 'c'].map(interface);
    let words = format!("--full-tunnel --lan {} --dns {NAME_SERVER} --wireguard --dev {device}", LAN[0]);
    let mut world = World::create(&words);
    world.adit(&format!("add-client DIR {name} --openvpn --wireguard"));
    world.shell(DOCKER);
    let before = world.state();
    let files = ["server.conf", &format!("{device}.conf")];
    let check =
        world.adit("check DIR/server.conf".replace("DIR", &world.dir().display().to_string()).as_str());
    for what in [
        "to the internet through uplink, translated",
        "iptables-nft's chain FORWARD drops",
        "to 192.168.77.0/24",
    ] {
        assert!(check.contains(what), "{what}: {check}");
    }
    for (file, up) in [(format!("{name}.ovpn"), "tunnel up"), (format!("{name}.conf"), "interface up")] {
        world.start(&files, "server: forwards 10.");
        let client = world.client(&file, up);
        client.reaches_by_name();
        client.reaches(LAN[1]);
        client.stop();
        world.stop();
        assert_eq!(world.state(), before, "{file}");
    }
    world.start(&files, "server: forwards 10.");
    world.kill_all();
    assert_ne!(world.state(), before);
    // The next server runs the WireGuard file alone.
    world.start(&files[1..], "forwards 10.");
    let client = world.client(&format!("{name}.conf"), "interface up");
    client.reaches_by_name();
    client.reaches(LAN[1]);
    client.stop();
    world.stop();
    assert_eq!(world.state(), before);
}

/// One line in an existing file gives clients one network; they do not reach the rest.
#[test]
fn one_line_gives_a_network_behind_the_server() {
    if !can_run("one_line_gives_a_network_behind_the_server", &PROGRAMS) {
        return;
    }
    let mut world = World::create("");
    world.adit("add-client DIR laptop");
    let file = world.dir().join("server.conf");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("#adit: forward = {}\n{text}", LAN[0])).unwrap();
    world.start(&["server.conf"], "to 192.168.77.0/24, translated");
    world.client.ip(&["route", "add", "default", "via", "10.9.1.1"]).unwrap();
    let client = world.client("laptop.ovpn", "tunnel up");
    client.reaches(LAN[1]);
    let device = world.client.devices().unwrap().into_iter().find(|name| name.starts_with("tun")).unwrap();
    world.client.ip(&["route", "add", &format!("{}/32", HOST[0]), "dev", &device]).unwrap();
    client.does_not_reach(HOST[0]);
    client.stop();
    world.stop();
}

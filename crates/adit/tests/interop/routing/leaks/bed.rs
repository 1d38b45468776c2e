//! A client behind a router that captures all it sends, and a server at two addresses beyond.
//!
//! ```text
//! client ──wire 192.168.1.0/24──┐
//!    └────wifi 192.168.2.0/24───┴ router ──isp 203.0.113.0/24── server
//!                                  │ capture                   .10 and .20: servers, .53: name server
//! ```

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_testbed::{
    Authority, Capture, Namespace, PacketHeader, Process, Purpose, Scratch, TrafficSource, Validity, connect,
    program, wait_until,
};

use crate::options::{Options, Part, Program, Transport};

/// The server's addresses, and its names.
const SERVERS: [(&str, Ipv4Addr); 2] =
    [("one", Ipv4Addr::new(203, 0, 113, 10)), ("two", Ipv4Addr::new(203, 0, 113, 20))];
/// The server's IPv6 address.
const SERVER6: &str = "2001:db8:1::10";
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 53);
/// Where programs of the client send to, all the time.
pub(crate) const TARGETS: [&str; 4] = ["45.0.0.5:9", "198.51.100.7:9", "[2600::5]:9", "[2001:db8:5::5]:9"];
/// Behind a route to this address alone.
pub(super) const HOST_TARGET: &str = "198.18.0.5:9";
/// The server's own address, at another port.
pub(super) const SERVER_TARGET: &str = "203.0.113.10:7";
pub(crate) const WAIT: Duration = Duration::from_secs(40);

pub(super) struct Bed {
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    _router: Namespace,
    pub(super) capture: Capture,
    pub(super) traffic: TrafficSource,
    pub(super) program: Program,
    process: Option<Process>,
    server_process: Process,
    _names: NameServer,
    scratch: Scratch,
}

impl Bed {
    /// Builds it, with these lines pushed, and starts the server.
    pub(super) fn new(program: Program, pushed: &[&str]) -> Self {
        Bed::over(Transport::Udp4, program, pushed)
    }

    /// Builds it over that transport, with these lines pushed, and starts the server. Of IPv6 there is one
    /// server, without a name.
    pub(super) fn over(transport: Transport, program: Program, pushed: &[&str]) -> Self {
        let options = Options { transport, ..Options::BASE };
        let authority = Authority::create(Options::BASE.keys).unwrap();
        let scratch = Scratch::create("leaks").unwrap();
        let identity = authority.issue("server", Purpose::Server, Validity::Now).unwrap();
        let mut text = options.server(&authority.certificate, &identity, "");
        for line in pushed {
            text.push_str(&format!("push \"{line}\"\n"));
        }
        if !transport.is_v6() {
            SERVERS.iter().for_each(|(_, address)| text.push_str(&format!("local {address}\n")));
        }
        let server_file = scratch.write("server.conf", &text).unwrap();
        let identity = authority.issue("client", Purpose::Client, Validity::Now).unwrap();
        let remote = if transport.is_v6() { SERVER6 } else { "one.example" };
        let mut text = options.client(&authority.certificate, &identity, "", remote);
        text.push_str("persist-tun\nserver-poll-timeout 2\nconnect-retry 1 1\n");
        if !transport.is_v6() {
            text.push_str("remote two.example 1194\n");
        }
        if program == Program::Adit {
            // The right to set up networks is all that it keeps.
            text.push_str("user nobody\n");
        }
        scratch.write("client.conf", &text).unwrap();
        // The directory that the client takes for /etc, and that its user may read.
        let allow = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let etc = scratch.path().join("etc");
        std::fs::create_dir(&etc).unwrap();
        allow(scratch.path(), 0o711);
        allow(&etc, 0o755);
        for (name, text) in [
            ("resolv.conf", format!("nameserver {NAME_SERVER}\n")),
            ("nsswitch.conf", "hosts: files dns\n".to_owned()),
            ("hosts", "127.0.0.1 localhost\n".to_owned()),
            ("passwd", "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n".to_owned()),
            ("group", "root:x:0:\nnogroup:x:65534:\n".to_owned()),
        ] {
            allow(&scratch.write(&format!("etc/{name}"), &text).unwrap(), 0o644);
        }

        let [client, router, server] =
            ["client", "router", "server"].map(|name| Namespace::create(name).unwrap());
        connect(
            &router,
            &["192.168.1.1/24", "fd00:1::1/64"],
            &client,
            &["192.168.1.2/24", "fd00:1::2/64"],
            "wire",
        )
        .unwrap();
        connect(
            &router,
            &["192.168.2.1/24", "fd00:2::1/64"],
            &client,
            &["192.168.2.2/24", "fd00:2::2/64"],
            "wifi",
        )
        .unwrap();
        connect(
            &router,
            &["203.0.113.1/24", "2001:db8:1::1/64"],
            &server,
            &["203.0.113.10/24", "2001:db8:1::10/64"],
            "isp",
        )
        .unwrap();
        for address in ["203.0.113.20/24", "203.0.113.53/24"] {
            server.ip(&["address", "add", address, "dev", "isp"]).unwrap();
        }
        server.ip(&["route", "add", "192.168.0.0/16", "via", "203.0.113.1"]).unwrap();
        client.ip(&["route", "add", "default", "via", "192.168.1.1"]).unwrap();
        client.ip(&["-6", "route", "add", "default", "via", "fd00:1::1"]).unwrap();
        server.ip(&["-6", "route", "add", "fd00::/16", "via", "2001:db8:1::1"]).unwrap();
        set(&router, &["ipv4/ip_forward", "ipv6/conf/all/forwarding"]);
        // As Fedora and others have it: answers whose way back is another are dropped.
        set(&client, &["ipv4/conf/wire/rp_filter", "ipv4/conf/wifi/rp_filter"]);
        let names = NameServer::start(&server);
        let command = Program::Adit.command(Part::Server, &server_file).unwrap();
        let server_process = server.spawn("server", command).unwrap();
        let listens = || server.is_bound(transport.is_tcp(), 1194).unwrap_or(false);
        wait_until("the server to listen", WAIT, listens).unwrap();
        let capture = Capture::start(&router, &["wire", "wifi"], is_expected).unwrap();
        let targets = TARGETS.map(|target| target.parse().unwrap());
        let traffic = TrafficSource::start(&client, &targets).unwrap();
        let bed = Bed {
            client,
            server,
            _router: router,
            capture,
            traffic,
            program,
            process: None,
            server_process,
            _names: names,
            scratch,
        };
        // The capture works for both families.
        wait_until("packets on the wire", WAIT, || {
            let seen = bed.capture.take();
            [true, false].iter().all(|v4| seen.iter().any(|(packet, _)| packet.destination.is_ipv4() == *v4))
        })
        .unwrap();
        bed
    }

    pub(super) fn config(&self) -> std::path::PathBuf {
        self.scratch.path().join("client.conf")
    }

    /// Starts the client, with an `/etc` of its own.
    pub(super) fn start(&mut self, arguments: &[&str]) {
        let etc = self.scratch.path().join("etc");
        let mut command = program("unshare").unwrap();
        command.args(["--mount", "sh", "-c", "mount --bind \"$1\" /etc && shift && exec \"$@\"", "sh"]);
        command.arg(&etc);
        let own = self.program.command(Part::Client, &self.config()).unwrap();
        command.arg(own.get_program()).args(own.get_args()).args(arguments);
        self.process = Some(self.client.spawn("client", command).unwrap());
    }

    /// The first server's address is gone.
    pub(super) fn lose_first_server(&self) {
        // With the first address of a network the kernel removes the others of it, and then routes by it.
        let add = |address| self.server.ip(&["address", "add", address, "dev", "isp"]);
        add("203.0.113.254/24").unwrap();
        self.server.ip(&["address", "delete", "203.0.113.10/24", "dev", "isp"]).unwrap();
        for address in ["203.0.113.20/24", "203.0.113.53/24"] {
            let _ = add(address);
        }
        let _ = self.server.ip(&["route", "replace", "192.168.0.0/16", "via", "203.0.113.1"]);
    }

    pub(super) fn process(&mut self) -> &mut Process {
        self.process.as_mut().unwrap()
    }

    /// Waits until it says that it is up, behind `mark` of its log, and that the tunnel carries packets.
    pub(super) fn wait_until_up(&mut self, mark: usize) -> Result<(), String> {
        let line = self.program.up_line();
        // Of OpenVPN it is known that it may not.
        let again = mark > 0 && self.program == Program::OpenVpn;
        let timeout = if again { Duration::from_secs(8) } else { WAIT };
        self.process().wait_for_line(mark, line, timeout).map_err(|error| self.said(&error))?;
        self.wait_until_carries(timeout)
    }

    pub(super) fn wait_until_carries(&self, timeout: Duration) -> Result<(), String> {
        let inner = "10.8.0.1".parse().unwrap();
        let answer = adit_testbed::wait_until_reachable(&self.client, inner, timeout);
        answer.map(drop).map_err(|error| self.said(&error))
    }

    fn said(&self, what: &dyn std::fmt::Display) -> String {
        let log = self.process.as_ref().map(Process::log_tail).unwrap_or_default();
        format!("{what}\n==== client\n{log}\n==== server\n{}", self.server_process.log_tail())
    }

    /// All that left beside the tunnel since this was last asked, while programs went on to send for a while.
    pub(super) fn leaked(&self) -> Leaks {
        leaked(&self.capture)
    }

    pub(super) fn aim(&self, more: &[&str]) {
        let targets: Vec<SocketAddr> =
            TARGETS.iter().chain(more).map(|target| target.parse().unwrap()).collect();
        self.traffic.aim(&targets);
    }
}

/// All that a capture has seen since it was last asked, while programs went on to send for a while.
pub(crate) fn leaked(capture: &Capture) -> Leaks {
    let until = Instant::now() + Duration::from_millis(500);
    let mut found = Vec::new();
    while Instant::now() < until {
        found.extend(capture.take());
    }
    let count = |v4: bool| {
        found.iter().filter(|(packet, _)| packet.destination.is_ipv4() == v4).map(|(_, count)| count).sum()
    };
    let example = found.first().map(|(packet, _)| packet.to_string());
    Leaks { v4: count(true), v6: count(false), example }
}

/// Sets these to 1.
pub(crate) fn set(namespace: &Namespace, names: &[&str]) {
    let set = |name: &&str| std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
    namespace.enter(|| names.iter().for_each(set)).unwrap();
}

/// Packets that left beside the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaks {
    pub(crate) v4: u64,
    pub(crate) v6: u64,
    pub(crate) example: Option<String>,
}

/// The tunnel's own datagrams, the questions for the server's names, and the packets that a link needs.
fn is_expected(packet: &PacketHeader) -> bool {
    let to_server = SERVERS.iter().any(|(_, address)| packet.destination == *address);
    match (packet.protocol, packet.port) {
        (6 | 17, 1194) => to_server || Ok(packet.destination) == SERVER6.parse(),
        (17, 53) => packet.destination == NAME_SERVER,
        // Errors, of the tunnel's datagrams.
        (1, _) => to_server || packet.destination == NAME_SERVER,
        // Neighbours, routers, multicast groups.
        (58 | 0, _) => is_of_the_link(packet),
        _ => false,
    }
}

pub(crate) fn is_of_the_link(packet: &PacketHeader) -> bool {
    let routers = ["fd00:1::1", "fd00:2::1"].map(|router| Ok(packet.destination) == router.parse());
    match packet.destination {
        std::net::IpAddr::V6(to) => {
            to.is_multicast() || to.is_unicast_link_local() || routers.contains(&true)
        }
        std::net::IpAddr::V4(_) => false,
    }
}

/// Answers questions for the server's names.
pub(crate) struct NameServer {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    pub(crate) fn start(namespace: &Namespace) -> Self {
        let socket = namespace.enter(|| UdpSocket::bind((NAME_SERVER, 53))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let serve = move || {
            let mut buffer = [0; 512];
            while !over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer)
                    && let Some(answer) = answer(&buffer[..length])
                {
                    let _ = socket.send_to(&answer, from);
                }
            }
        };
        NameServer { ended, thread: Some(std::thread::spawn(serve)) }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// RFC 1035 §4.1: the question is repeated, and behind it stands an address for a question of type A.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let label = usize::from(*query.get(12)?);
    let name = query.get(13..13 + label)?;
    let (_, address) = SERVERS.iter().find(|(server, _)| server.as_bytes() == name)?;
    let end = query.iter().skip(12).position(|byte| *byte == 0)? + 12 + 5;
    let mut answer = query.get(..end)?.to_vec();
    let is_a = answer.get(end - 4..end - 2)? == [0, 1];
    answer.get_mut(2..12)?.copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    if is_a {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    Some(answer)
}

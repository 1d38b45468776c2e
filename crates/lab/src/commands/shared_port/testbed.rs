//! Three servers: one with both protocols at one port, one with OpenVPN, one with WireGuard; and their clients.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Ends, Namespace, Process, TestbedError, connect, program, wait_until, wait_until_reachable,
};

use crate::commands::identities::Identities;
use crate::subjects::Tools;
use crate::tell;

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    OpenVpn,
    WireGuard,
}

/// A server: the third byte of its inner network, and its port.
#[derive(Clone, Copy)]
struct Server {
    network: u8,
    port: u16,
}

const SHARED: Server = Server { network: 8, port: 1194 };
const OPENVPN: Server = Server { network: 12, port: 1195 };
const WIREGUARD: Server = Server { network: 16, port: 1196 };

/// Documentation networks (RFC 5737): the server is .1, the clients .2.
const LINKS: [&str; 3] = ["192.0.2", "198.51.100", "203.0.113"];
const TIMEOUT: Duration = Duration::from_secs(60);

/// A key pair in base64.
struct Keys {
    private: String,
    public: String,
}

/// All of them, connected.
pub(super) struct Testbed {
    // Dropped in this order: clients before servers, and all before the namespaces.
    _clients: Vec<Process>,
    _servers: Vec<Process>,
    server: Namespace,
    /// The client of OpenVPN whose flow is measured, that of WireGuard, and all others.
    spaces: [Namespace; 3],
    _identities: Identities,
}

/// The sources of the files of servers and clients.
struct Files<'a> {
    identities: &'a Identities,
    tools: &'a Tools,
    /// The keys of the server with both, and of that with WireGuard.
    keys: [Keys; 2],
    /// The keys of the measured client and the others, at each of both.
    clients: [Vec<Keys>; 2],
}

impl Server {
    /// The inner address.
    fn inner(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, self.network, 0, 1))
    }

    /// Its device: the name is in the file system, where the sockets of all interfaces are.
    fn device(self) -> String {
        format!("wg{}s{}", std::process::id(), self.network)
    }

    /// The inner address of WireGuard client `number`, beyond the addresses that OpenVPN's pool leases to so
    /// few.
    fn address(self, number: usize) -> String {
        format!("10.{}.3.{}", self.network, number + 1)
    }
}

impl Testbed {
    /// Starts the servers, and connects the measured clients and so many others of each protocol to each.
    pub(super) fn build(others: u16, tools: &Tools) -> Result<Testbed, TestbedError> {
        let identities = Identities::create("shared-port")?;
        let server = Namespace::create("server")?;
        let [openvpn, wireguard, rest] = ["openvpn", "wireguard", "others"].map(Namespace::create);
        let spaces = [openvpn?, wireguard?, rest?];
        for (space, link) in spaces.iter().zip(LINKS) {
            let [near, far] = [1, 2].map(|host| format!("{link}.{host}/24"));
            connect(&server, &[&near], space, &[&far], &format!("wire{}", &link[..3]))?;
        }
        let all = usize::from(others) + 1;
        let clients = [keys(&server, all)?, keys(&server, all)?];
        let [Some(both), Some(alone)] = [(); 2].map(|()| keys(&server, 1).ok()?.pop()) else {
            let output = "no key".to_owned();
            return Err(TestbedError::Output { command: "wg genkey".to_owned(), output });
        };
        let files = Files { identities: &identities, tools, keys: [both, alone], clients };
        let servers = files.start_servers(&server)?;
        let clients = files.start_clients(&spaces, others)?;
        for (space, targets) in [(&spaces[0], [SHARED, OPENVPN]), (&spaces[1], [SHARED, WIREGUARD])] {
            for target in targets {
                let reached = wait_until_reachable(space, target.inner(), TIMEOUT);
                reached.inspect_err(|_| show(servers.iter().chain(&clients)))?;
            }
        }
        let connected = || {
            let openvpn = clients.iter().map(|it| it.count_lines(0, "tunnel up: ")).sum::<usize>();
            let wireguard = servers.iter().map(|it| it.count_lines(0, "= connected")).sum::<usize>();
            openvpn >= 2 * all && wireguard >= 2 * all
        };
        let outcome = wait_until("all clients to connect", TIMEOUT, connected);
        outcome.inspect_err(|_| show(servers.iter().chain(&clients)))?;
        Ok(Testbed { _clients: clients, _servers: servers, server, spaces, _identities: identities })
    }

    /// The ends of a measured client, at the server with both protocols or at its own.
    pub(super) fn ends(&self, protocol: Protocol, shared: bool) -> Ends<'_> {
        let [openvpn, wireguard, _] = &self.spaces;
        let (client, alone) = match protocol {
            Protocol::OpenVpn => (openvpn, OPENVPN),
            Protocol::WireGuard => (wireguard, WIREGUARD),
        };
        let target = if shared { SHARED } else { alone };
        Ends { server: &self.server, client, target: target.inner() }
    }
}

fn show<'a>(processes: impl Iterator<Item = &'a Process>) {
    processes.for_each(|process| tell(format_args!("{}:\n{}", process.label(), process.log_tail())));
}

/// Makes so many pairs of keys.
fn keys(namespace: &Namespace, count: usize) -> Result<Vec<Keys>, TestbedError> {
    let mut shell = program("sh")?;
    let script =
        "for _ in $(seq \"$0\"); do key=$(wg genkey); echo \"$key $(echo \"$key\" | wg pubkey)\"; done";
    shell.args(["-c", script, &count.to_string()]);
    let text = namespace.run(shell)?;
    let pair = |line: &str| {
        let (private, public) = line.split_once(' ')?;
        Some(Keys { private: private.to_owned(), public: public.to_owned() })
    };
    Ok(text.lines().filter_map(pair).collect())
}

impl Files<'_> {
    fn up(&self, namespace: &Namespace, label: &str, files: &[PathBuf]) -> Result<Process, TestbedError> {
        let mut command = Command::new(&self.tools.adit);
        command.env("STATE_DIRECTORY", self.identities.directory()).arg("up").args(files);
        namespace.spawn(label, command)
    }

    fn start_servers(&self, namespace: &Namespace) -> Result<Vec<Process>, TestbedError> {
        let [both, alone] = &self.keys;
        let [of_both, of_alone] = &self.clients;
        let shared = [self.openvpn_server(SHARED)?, self.wireguard_server(SHARED, both, of_both)?];
        let mut servers = vec![self.up(namespace, "the server of both", &shared)?];
        servers.push(self.up(namespace, "OpenVPN's server", &[self.openvpn_server(OPENVPN)?])?);
        let file = self.wireguard_server(WIREGUARD, alone, of_alone)?;
        servers.push(self.up(namespace, "WireGuard's server", &[file])?);
        let bound = |server: Server| namespace.is_bound(false, server.port).unwrap_or(false);
        let listening = || [SHARED, OPENVPN, WIREGUARD].into_iter().all(bound);
        wait_until("the servers to listen", TIMEOUT, listening).inspect_err(|_| show(servers.iter()))?;
        Ok(servers)
    }

    fn openvpn_server(&self, server: Server) -> Result<PathBuf, TestbedError> {
        let Server { network, port } = server;
        let lines = format!(
            "dev {}\ndev-type tun\nserver 10.{network}.0.0 255.255.252.0\ntopology subnet\nproto udp4\nport {port}\ndh none\n\
             duplicate-cn\nmax-clients 1000\nkeepalive 10 60\ndata-ciphers AES-256-GCM\nverb 3\n",
            server.device()
        );
        self.identities.server(&format!("openvpn-{network}.conf"), &lines)
    }

    fn wireguard_server(&self, server: Server, own: &Keys, peers: &[Keys]) -> Result<PathBuf, TestbedError> {
        let inner = server.inner();
        let mut text = format!(
            "[Interface]\nPrivateKey = {}\nAddress = {inner}/22\nListenPort = {}\n",
            own.private, server.port
        );
        for (number, peer) in peers.iter().enumerate() {
            text +=
                &format!("[Peer]\nPublicKey = {}\nAllowedIPs = {}/32\n", peer.public, server.address(number));
        }
        self.identities.write(&format!("{}.conf", server.device()), &text, "")
    }

    /// The measured client of each protocol, and the others, one process for each protocol.
    fn start_clients(&self, spaces: &[Namespace; 3], others: u16) -> Result<Vec<Process>, TestbedError> {
        let [openvpn, wireguard, rest] = spaces;
        let mut clients = Vec::new();
        let measured =
            [(SHARED, 0), (OPENVPN, 0)].map(|(server, number)| self.openvpn_client(server, number, 0));
        let [first, second] = measured;
        clients.push(self.up(openvpn, "OpenVPN's client", &[first?, second?])?);
        let measured = [SHARED, WIREGUARD].map(|server| self.wireguard_client(server, 0, 1));
        let [first, second] = measured;
        clients.push(self.up(wireguard, "WireGuard's client", &[first?, second?])?);
        let numbers = || 1..=usize::from(others);
        let files =
            [SHARED, OPENVPN].into_iter().flat_map(|server| numbers().map(move |number| (server, number)));
        let files = files.map(|(server, number)| self.openvpn_client(server, number, 2));
        let files: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
        let of_wireguard =
            [SHARED, WIREGUARD].into_iter().flat_map(|server| numbers().map(move |number| (server, number)));
        let of_wireguard = of_wireguard.map(|(server, number)| self.wireguard_client(server, number, 2));
        let of_wireguard: Vec<PathBuf> = of_wireguard.collect::<Result<_, _>>()?;
        for (label, files) in
            [("OpenVPN's other clients", files), ("WireGuard's other clients", of_wireguard)]
        {
            if !files.is_empty() {
                clients.push(self.up(rest, label, &files)?);
            }
        }
        Ok(clients)
    }

    fn openvpn_client(&self, server: Server, number: usize, link: usize) -> Result<PathBuf, TestbedError> {
        let Server { network, port } = server;
        let device = format!("tun{}", usize::from(network) * 1000 + number);
        let lines = format!(
            "client\ndev {device}\nproto udp4\nremote {}.1 {port}\nnobind\nremote-cert-tls server\n\
             data-ciphers AES-256-GCM\nverb 3\n",
            LINKS[link]
        );
        self.identities.client(&format!("{device}.ovpn"), &lines)
    }

    fn wireguard_client(&self, server: Server, number: usize, link: usize) -> Result<PathBuf, TestbedError> {
        let index = usize::from(server.network != SHARED.network);
        let (keys, public) = (&self.clients[index][number], &self.keys[index].public);
        let table = if number == 0 { "auto" } else { "off" };
        let text = format!(
            "[Interface]\nPrivateKey = {}\nAddress = {}/32\nTable = {table}\n[Peer]\nPublicKey = {public}\n\
             AllowedIPs = {}/32\nEndpoint = {}.1:{}\nPersistentKeepalive = 25\n",
            keys.private,
            server.address(number),
            server.inner(),
            LINKS[link],
            server.port
        );
        let name = format!("wg{}c{}n{number}.conf", std::process::id(), server.network);
        self.identities.write(&name, &text, "")
    }
}

//! A server, a router and eight clients.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, KeyKind, Namespace, Process, Purpose, Scratch, TestbedError, Validity, connect, wait_until,
    wait_until_reachable,
};
/// The last of them is the one whose path becomes narrow.
const CLIENTS: usize = 8;
const USUAL: &str = "1500";
/// The device that joins the server to the router.
const UPLINK: &str = "uplink";
const SERVER: &str = "10.77.100.1";
const PORT: u16 = 1194;
/// Columns of /proc/net/dev.
const RECEIVED: usize = 0;
const SENT: usize = 8;
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// All of it, with the tunnels up.
pub(super) struct Testbed {
    adit: PathBuf,
    server: Namespace,
    router: Namespace,
    clients: Vec<Client>,
    _processes: Vec<Process>,
    _directory: Scratch,
}

/// A client's namespace and its end of the tunnel.
pub(super) struct Client {
    pub(super) namespace: Namespace,
    /// Its address in the tunnel.
    pub(super) address: IpAddr,
    device: String,
}

impl Client {
    /// Bytes of packets that came to it by the tunnel.
    pub(super) fn received(&self) -> Result<f64, TestbedError> {
        let devices = self.namespace.enter(devices)?;
        device_bytes(&devices, &self.device, RECEIVED).ok_or_else(no_counters)
    }
}

/// The numbers of sends and bytes of the server's namespace so far.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    sends: f64,
    bytes: f64,
}

impl Testbed {
    /// Builds it and starts the server and the clients.
    pub(super) fn build(adit: &Path) -> Result<Testbed, TestbedError> {
        let directory = Scratch::create("narrow-path")?;
        let (server, router) = (Namespace::create("server")?, Namespace::create("router")?);
        connect(&server, &[&format!("{SERVER}/24")], &router, &["10.77.100.254/24"], UPLINK)?;
        server.ip(&["route", "add", "10.77.0.0/16", "via", "10.77.100.254"])?;
        let path = "/proc/sys/net/ipv4/ip_forward";
        let written = router.enter(|| std::fs::write(path, "1"))?;
        written.map_err(|source| TestbedError::File { path: path.into(), source })?;
        let authority = Authority::create(KeyKind::Ecdsa)?;
        let start =
            |name: &str, purpose, text: &str, namespace: &Namespace| -> Result<Process, TestbedError> {
                let identity = authority.issue(name, purpose, Validity::Now)?;
                let text = format!(
                    "dev tun\nproto udp4\nverb 3\n{text}<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
                    authority.certificate, identity.certificate, identity.key
                );
                let mut command = Command::new(adit);
                command.arg("up").arg(directory.write(&format!("{name}.conf"), &text)?);
                namespace.spawn(name, command)
            };
        let text = format!(
            "topology subnet\nserver 10.8.0.0 255.255.255.0\nport {PORT}\ndh none\nkeepalive 10 60\n"
        );
        let mut processes = vec![start("server", Purpose::Server, &text, &server)?];
        wait_until("the server to listen", TIMEOUT, || server.is_bound(false, PORT).unwrap_or(false))?;
        let mut clients = Vec::new();
        for number in 1..=CLIENTS {
            let client = Namespace::create("client")?;
            let [near, far] = [1, 2].map(|host| format!("10.77.{number}.{host}/24"));
            connect(&router, &[&near], &client, &[&far], &link(number))?;
            client.ip(&["route", "add", "default", "via", &format!("10.77.{number}.1")])?;
            let text = format!("client\nremote {SERVER} {PORT}\nnobind\nremote-cert-tls server\n");
            let name = format!("client{number}");
            let mut process = start(&name, Purpose::Client, &text, &client)?;
            process.wait_for_line(0, "tunnel up: ", TIMEOUT)?;
            let (device, address) = tunnel_end(&client)?;
            wait_until_reachable(&server, address, TIMEOUT)?;
            processes.push(process);
            clients.push(Client { namespace: client, address, device });
        }
        Ok(Testbed {
            adit: adit.into(),
            server,
            router,
            clients,
            _processes: processes,
            _directory: directory,
        })
    }

    /// The router's link to the last client gets this MTU.
    pub(super) fn narrow(&self, mtu: u16) -> Result<(), TestbedError> {
        self.set_mtu(&mtu.to_string())
    }

    /// Gives the link its usual MTU again. The server's system forgets at once the MTU that ICMP messages named, which
    /// would take ten minutes otherwise (`net.ipv4.route.mtu_expires`).
    pub(super) fn widen(&self) -> Result<(), TestbedError> {
        self.set_mtu(USUAL)?;
        self.server.ip(&["route", "flush", "cache"]).map(drop)
    }

    fn set_mtu(&self, mtu: &str) -> Result<(), TestbedError> {
        self.router.ip(&["link", "set", "dev", &link(CLIENTS), "mtu", mtu]).map(drop)
    }

    /// The namespaces of the seven others, with their ends of the tunnel.
    pub(super) fn seven(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().take(CLIENTS - 1)
    }

    /// The client whose path becomes narrow.
    pub(super) fn eighth(&self) -> Option<&Client> {
        self.clients.get(CLIENTS - 1)
    }

    /// The namespace of the server.
    pub(super) fn server(&self) -> &Namespace {
        &self.server
    }

    /// The numbers of sends and bytes of the server's namespace so far.
    pub(super) fn sent(&self) -> Result<Sent, TestbedError> {
        let read = || (std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default(), devices());
        let (snmp, devices) = self.server.enter(read)?;
        let sent = sends(&snmp).zip(device_bytes(&devices, UPLINK, SENT));
        sent.map(|(sends, bytes)| Sent { sends, bytes }).ok_or_else(no_counters)
    }

    /// The number of destinations with a limit in the server's status.
    pub(super) fn limited(&self) -> Result<Option<u64>, TestbedError> {
        let mut command = Command::new(&self.adit);
        command.args(["status", "--json", "server"]);
        let text = self.server.run(command)?;
        let status: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        Ok(status.pointer("/0/gso_limited_destinations").and_then(serde_json::Value::as_u64))
    }
}

impl Sent {
    /// Bytes for each send since then.
    pub(super) fn since(self, earlier: Sent) -> f64 {
        (self.bytes - earlier.bytes) / (self.sends - earlier.sends)
    }
}

fn link(number: usize) -> String {
    format!("link{number}")
}

/// The one device that has an address below 10.8.0.0/24, and that address.
fn tunnel_end(client: &Namespace) -> Result<(String, IpAddr), TestbedError> {
    let text = client.ip(&["-oneline", "-4", "address", "show"])?;
    let end = text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let device = words.next()?;
        let address = words.nth(1)?.split('/').next()?;
        let end = (device.to_owned(), address.parse().ok()?);
        address.starts_with("10.8.0.").then_some(end)
    });
    end.ok_or(TestbedError::Output { command: "ip address".to_owned(), output: text })
}

/// The counters of the devices of this thread's namespace.
fn devices() -> String {
    std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default()
}

fn no_counters() -> TestbedError {
    TestbedError::Output { command: "/proc/net".into(), output: "no such counters".into() }
}

/// Sends over UDP, of any size (/proc/net/snmp: the names are in one line, the numbers in the next).
fn sends(text: &str) -> Option<f64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:")).map(str::split_whitespace);
    let index = lines.next()?.position(|word| word == "OutDatagrams")?;
    lines.next()?.nth(index)?.parse().ok()
}

/// A column of a device's line (/proc/net/dev: eight columns of received traffic, then eight of sent traffic, bytes
/// first).
fn device_bytes(text: &str, device: &str, column: usize) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_the_kernel_are_found() {
        let snmp = "Tcp: A\nTcp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams\nUdp: 1 2 3 44\n";
        assert_eq!(sends(snmp), Some(44.0));
        assert_eq!(sends("Udp: a\n"), None);
        let devices = "face |bytes\n    lo: 1 2\n  uplink: 1 2 3 4 5 6 7 8 900 10 11\n";
        assert_eq!(device_bytes(devices, "uplink", SENT), Some(900.0));
        assert_eq!(device_bytes(devices, "lo", RECEIVED), Some(1.0));
        assert_eq!(device_bytes(devices, "up", SENT), None);
    }
}

//! A server, a router and eight clients.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, KeyKind, Namespace, Process, Purpose, Scratch, TestbedError, Validity, connect, program,
    wait_until, wait_until_reachable,
};
use serde::Serialize;

/// The last of them is the one whose path becomes narrow.
const CLIENTS: usize = 8;
const NARROW: &str = "1300";
const USUAL: &str = "1500";
/// The device that joins the server to the router.
const UPLINK: &str = "uplink";
const SERVER: &str = "10.77.100.1";
const PORT: u16 = 1194;
const IPERF_PORT: u16 = 5201;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The loads of one phase. Goodput is from the server to the clients, in Mbit/s.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    /// To the eighth client when no other client has a flow.
    pub(super) one: f64,
    /// Bytes of a send of the server meanwhile: beyond 1500 it gives the kernel several datagrams at once (UDP_SEGMENT).
    pub(super) bytes_a_send_one: f64,
    /// To the seven with a usual path, all together, when the eighth has no flow.
    pub(super) seven: f64,
    /// Bytes of a send of the server meanwhile.
    pub(super) bytes_a_send_seven: f64,
    /// To the seven, while the eighth has a flow of limited rate, too.
    pub(super) seven_beside: f64,
    /// To the eighth meanwhile.
    pub(super) one_beside: f64,
    /// Destinations to which the server does not use UDP_SEGMENT, by its status; `None` if that does not tell.
    pub(super) limited: Option<u64>,
}

/// All of it, with the tunnels up.
pub(super) struct Testbed {
    adit: PathBuf,
    server: Namespace,
    router: Namespace,
    clients: Vec<Namespace>,
    /// The clients' addresses in the tunnel.
    inner: Vec<IpAddr>,
    _processes: Vec<Process>,
    _directory: Scratch,
}

/// What the server's namespace has sent so far.
#[derive(Clone, Copy)]
struct Sent {
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
        let (mut clients, mut inner) = (Vec::new(), Vec::new());
        for number in 1..=CLIENTS {
            let client = Namespace::create("client")?;
            let [near, far] = [1, 2].map(|host| format!("10.77.{number}.{host}/24"));
            connect(&router, &[&near], &client, &[&far], &link(number))?;
            client.ip(&["route", "add", "default", "via", &format!("10.77.{number}.1")])?;
            let text = format!("client\nremote {SERVER} {PORT}\nnobind\nremote-cert-tls server\n");
            let name = format!("client{number}");
            let mut process = start(&name, Purpose::Client, &text, &client)?;
            process.wait_for_line(0, "tunnel up: ", TIMEOUT)?;
            let address = tunnel_address(&client)?;
            wait_until_reachable(&server, address, TIMEOUT)?;
            inner.push(address);
            processes.push(process);
            clients.push(client);
        }
        Ok(Testbed {
            adit: adit.into(),
            server,
            router,
            clients,
            inner,
            _processes: processes,
            _directory: directory,
        })
    }

    /// The router's link to the last client becomes narrow.
    pub(super) fn narrow(&self) -> Result<(), TestbedError> {
        self.set_mtu(NARROW)
    }

    /// The same link becomes what it was. The server's system forgets at once what ICMP said, which would take ten
    /// minutes otherwise (`net.ipv4.route.mtu_expires`).
    pub(super) fn widen(&self) -> Result<(), TestbedError> {
        self.set_mtu(USUAL)?;
        self.server.ip(&["route", "flush", "cache"]).map(drop)
    }

    fn set_mtu(&self, mtu: &str) -> Result<(), TestbedError> {
        self.router.ip(&["link", "set", "dev", &link(CLIENTS), "mtu", mtu]).map(drop)
    }

    /// TCP flows of that time from the server to the eighth client, to the seven others, and to all. In the last, the
    /// eighth's has at most `rate` Mbit/s.
    pub(super) fn sample(&self, time: Duration, rate: u32) -> Result<Sample, TestbedError> {
        let last = CLIENTS - 1;
        let before = self.sent()?;
        let one = self.flows(last..CLIENTS, time, None)?;
        let between = self.sent()?;
        let seven = self.flows(0..last, time, None)?;
        let after = self.sent()?;
        let limited = self.limited()?;
        let all = self.flows(0..CLIENTS, time, Some(rate))?;
        let (one_beside, seven_beside) = all.split_last().unwrap_or((&f64::NAN, &[]));
        Ok(Sample {
            one: one.iter().sum(),
            bytes_a_send_one: between.since(before),
            seven: seven.iter().sum(),
            bytes_a_send_seven: after.since(between),
            seven_beside: seven_beside.iter().sum(),
            one_beside: *one_beside,
            limited,
        })
    }

    /// Goodput of TCP flows to these clients at the same time, in Mbit/s; the eighth's may be limited.
    fn flows(
        &self,
        clients: std::ops::Range<usize>,
        time: Duration,
        limit: Option<u32>,
    ) -> Result<Vec<f64>, TestbedError> {
        let ends: Vec<(usize, &Namespace, IpAddr)> = clients
            .filter_map(|number| Some((number, self.clients.get(number)?, *self.inner.get(number)?)))
            .collect();
        let mut sinks = Vec::new();
        for (_, namespace, address) in &ends {
            let mut command = program("iperf3")?;
            command.args(["--server", "--one-off", "--bind", &address.to_string()]);
            sinks.push(namespace.spawn("an iperf3 server", command)?);
            let listens = || namespace.is_bound(true, IPERF_PORT).unwrap_or(false);
            wait_until("iperf3 to listen", TIMEOUT, listens)?;
        }
        let mut sources = Vec::new();
        for (number, _, address) in &ends {
            let mut command = program("iperf3")?;
            command.args(["--client", &address.to_string(), "--json", "--time"]);
            command.arg(time.as_secs().max(1).to_string());
            if let Some(rate) = limit.filter(|_| *number == CLIENTS - 1) {
                command.arg("--bitrate").arg(format!("{rate}M"));
            }
            sources.push(self.server.spawn("an iperf3 client", command)?);
        }
        sources
            .into_iter()
            .map(|mut source| {
                source.wait(time + TIMEOUT)?;
                goodput(&source.log())
            })
            .collect()
    }

    fn sent(&self) -> Result<Sent, TestbedError> {
        let read = || {
            let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
            let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
            (sends(&snmp), device_bytes(&devices))
        };
        match self.server.enter(read)? {
            (Some(sends), Some(bytes)) => Ok(Sent { sends, bytes }),
            _ => Err(TestbedError::Output { command: "/proc/net".into(), output: "no such counters".into() }),
        }
    }

    /// What the server's status says of destinations.
    fn limited(&self) -> Result<Option<u64>, TestbedError> {
        let mut command = Command::new(&self.adit);
        command.args(["status", "--json", "server"]);
        let text = self.server.run(command)?;
        let status: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        Ok(status.pointer("/0/gso_limited_destinations").and_then(serde_json::Value::as_u64))
    }
}

impl Sent {
    /// Bytes for each send since then.
    fn since(self, earlier: Sent) -> f64 {
        (self.bytes - earlier.bytes) / (self.sends - earlier.sends)
    }
}

fn link(number: usize) -> String {
    format!("link{number}")
}

/// The address of the one device that has one below 10.8.0.0/24.
fn tunnel_address(client: &Namespace) -> Result<IpAddr, TestbedError> {
    let text = client.ip(&["-oneline", "-4", "address", "show"])?;
    let mut words = text.split_whitespace().filter_map(|word| word.split('/').next()?.parse::<IpAddr>().ok());
    let address = words.find(|address| address.to_string().starts_with("10.8.0."));
    address.ok_or(TestbedError::Output { command: "ip address".to_owned(), output: text })
}

/// Sends over UDP, of whatever size (/proc/net/snmp: the names are in one line, the numbers in the next).
fn sends(text: &str) -> Option<f64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:")).map(str::split_whitespace);
    let index = lines.next()?.position(|word| word == "OutDatagrams")?;
    lines.next()?.nth(index)?.parse().ok()
}

/// Bytes that the uplink sent (/proc/net/dev: eight columns of what came, then eight of what went).
fn device_bytes(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(UPLINK)?.strip_prefix(':'))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

fn goodput(text: &str) -> Result<f64, TestbedError> {
    // Both streams are in it: a warning may stand around the report.
    let report = text.find('{').zip(text.rfind('}')).and_then(|(start, end)| text.get(start..=end));
    let json: serde_json::Value = serde_json::from_str(report.unwrap_or_default()).unwrap_or_default();
    let bits = json.pointer("/end/sum_received/bits_per_second").and_then(serde_json::Value::as_f64);
    let output = || TestbedError::Output { command: "iperf3".to_owned(), output: text.to_owned() };
    Ok(bits.ok_or_else(output)? / 1e6)
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
        assert_eq!(device_bytes(devices), Some(900.0));
    }
}

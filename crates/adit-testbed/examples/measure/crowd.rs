//! A server with many clients: what a handshake costs it, what a client costs it, and what one of them notices.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use adit_openvpn::credentials::Credentials;
use adit_testbed::{Authority, KeyKind, Purpose, TcpLoad, TestbedError, Validity, tcp_flow, wait_until};
use zeroize::Zeroizing;

use crate::stage::{OUTER, PORT, Stage};
use crate::swarm::Swarm;

/// How long all may take to connect.
const PATIENCE: Duration = Duration::from_secs(180);
/// So that the last handshake's memory is in use, or given back.
const SETTLE: Duration = Duration::from_secs(2);

/// Configurations for a server and a client, and what other clients need.
pub(crate) struct Gathering {
    pub(crate) configs: [String; 2],
    credentials: Credentials,
}

/// What a crowd costs.
pub(crate) struct Storm {
    /// Handshakes for each second that the server's process was on a processor.
    pub(crate) per_core: f64,
    /// Handshakes a second, the clients on the same machine included.
    pub(crate) wall: f64,
    /// The server's memory beyond what it had before, for each client, in KiB: resident and proportional.
    pub(crate) memory: [f64; 2],
}

impl Gathering {
    /// All clients show one certificate; `duplicate-cn` allows that. `groups` is what the server may exchange
    /// keys by; without it, each takes what it likes best.
    pub(crate) fn new(kind: KeyKind, groups: Option<&str>) -> Result<Gathering, TestbedError> {
        let authority = Authority::create(kind)?;
        let server = authority.issue("server", Purpose::Server, Validity::Now)?;
        let client = authority.issue("client", Purpose::Client, Validity::Now)?;
        let inline = |identity: &adit_testbed::Identity| {
            format!(
                "<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
                authority.certificate, identity.certificate, identity.key
            )
        };
        let [address, _] = OUTER;
        let groups = groups.map_or(String::new(), |groups| format!("tls-groups {groups}\n"));
        let configs = [
            format!(
                "dev tun\ntopology subnet\nserver 10.8.0.0 255.255.240.0\nlocal {address}\nport {PORT}\ndh none\n\
                 data-ciphers AES-256-GCM\nduplicate-cn\nmax-clients 4000\nkeepalive 10 60\nverb 1\n{groups}{}",
                inline(&server)
            ),
            format!(
                "client\ndev tun\nremote {address} {PORT}\nnobind\nremote-cert-tls server\n\
                 data-ciphers AES-256-GCM\nverb 1\n{}",
                inline(&client)
            ),
        ];
        let credentials = Credentials {
            ca: authority.certificate.clone().into_bytes(),
            certificate: client.certificate.into_bytes(),
            private_key: Zeroizing::new(client.key.into_bytes()),
        };
        Ok(Gathering { configs, credentials })
    }

    /// Lets so many clients connect as fast as the server allows. They stay while the swarm does.
    pub(crate) fn storm(&self, stage: &Stage, count: usize) -> Result<(Swarm, Storm), TestbedError> {
        let Some(server) = stage.server_process() else {
            return Err(TestbedError::NoProgram("a server".to_owned()));
        };
        let [address, _] = OUTER;
        let address = IpAddr::V4(address.parse::<Ipv4Addr>().unwrap_or(Ipv4Addr::LOCALHOST));
        let (memory, work) = (memory(server)?, processor_seconds(server)?);
        let start = Instant::now();
        let swarm = Swarm::start(&stage.client, &self.credentials, SocketAddr::new(address, PORT), count)?;
        let all =
            wait_until("all clients to connect", PATIENCE, || swarm.connected() + swarm.ended() >= count);
        let elapsed = start.elapsed().as_secs_f64();
        let work = processor_seconds(server)? - work;
        let connected = swarm.connected();
        if connected < count {
            let output = format!("{connected} of {count} clients are connected, {} gave up", swarm.ended());
            return Err(all
                .err()
                .unwrap_or(TestbedError::Output { command: "the swarm".to_owned(), output }));
        }
        std::thread::sleep(SETTLE);
        let after = self::memory(server)?;
        let each = |index: usize| (after[index] - memory[index]) / count as f64;
        let count = count as f64;
        let storm = Storm { per_core: count / work, wall: count / elapsed, memory: [each(0), each(1)] };
        Ok((swarm, storm))
    }
}

/// Goodput of the stage's client, to the server and back, in Mbit/s.
pub(crate) fn goodput(stage: &Stage, time: Duration) -> Result<[f64; 2], TestbedError> {
    let flow = |back| {
        let load = TcpLoad { time, back, write: None, compressible: false };
        tcp_flow(&stage.ends(), load).map(|flow| flow.megabits)
    };
    Ok([flow(false)?, flow(true)?])
}

fn read(path: String) -> Result<String, TestbedError> {
    std::fs::read_to_string(&path).map_err(|source| TestbedError::File { path: path.into(), source })
}

fn senseless(what: &str, text: &str) -> TestbedError {
    TestbedError::Output { command: what.to_owned(), output: text.to_owned() }
}

/// Seconds on a processor of all threads of a process (proc(5): utime and stime, in hundredths of a second).
fn processor_seconds(process: u32) -> Result<f64, TestbedError> {
    let text = read(format!("/proc/{process}/stat"))?;
    ticks(&text).map(|ticks| ticks / 100.0).ok_or_else(|| senseless("/proc/PID/stat", &text))
}

fn ticks(stat: &str) -> Option<f64> {
    // The name, in parentheses, may hold spaces; after it the state is the third field.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some(user + system)
}

/// Resident and proportional memory of a process, in KiB.
fn memory(process: u32) -> Result<[f64; 2], TestbedError> {
    let text = read(format!("/proc/{process}/smaps_rollup"))?;
    let line = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    match (line("Rss:"), line("Pss:")) {
        (Some(resident), Some(proportional)) => Ok([resident, proportional]),
        _ => Err(senseless("/proc/PID/smaps_rollup", &text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_process_are_found() {
        let stat = "7 (a name) with) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 1 1 1";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(ticks("nothing"), None);
    }
}

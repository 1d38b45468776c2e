//! A server with many clients: its cost of a handshake and of a client, and the delay that one of them notices.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_testbed::{
    Authority, KeyKind, Purpose, Scratch, TcpLoad, TestbedError, Usage, Validity, tcp_flow, wait_until,
};

use super::testbed::{OUTER, PORT, Testbed};
use crate::commands::load::Load;

/// How long all may take to connect.
const TIMEOUT: Duration = Duration::from_secs(180);
/// The pause after which the last handshake's memory is in use, or given back.
const SETTLE: Duration = Duration::from_secs(2);

/// Configurations for a server and a client, and the files that other clients need.
pub(super) struct Setup {
    pub(super) configs: [String; 2],
    /// The authority's certificate, and the clients' certificate and key.
    files: [PathBuf; 3],
    _directory: Scratch,
}

/// The cost of many clients.
pub(super) struct Cost {
    /// Handshakes for each second that the server's process was on a processor.
    pub(super) per_core: f64,
    /// Handshakes a second, the clients on the same machine included.
    pub(super) wall: f64,
    /// The growth of the server's memory for each client, in KiB: resident and proportional.
    pub(super) memory: [f64; 2],
}

impl Setup {
    /// All clients show one certificate; `duplicate-cn` allows that. `groups` are the groups by which the
    /// server may exchange keys; without it, each program takes those that it likes best.
    pub(super) fn new(kind: KeyKind, groups: Option<&str>) -> Result<Setup, TestbedError> {
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
        let directory = Scratch::create("clients")?;
        let files = [
            directory.write("ca.pem", &authority.certificate)?,
            directory.write("client.pem", &client.certificate)?,
            directory.write("client.key", &client.key)?,
        ];
        Ok(Setup { configs, files, _directory: directory })
    }

    /// Lets so many clients connect as fast as the server allows. They stay while the load does.
    pub(super) fn connect(
        &self,
        testbed: &Testbed,
        load: &Path,
        count: usize,
    ) -> Result<(Load, Cost), TestbedError> {
        let Some(server) = testbed.server_process() else {
            return Err(TestbedError::NoProgram("a server".to_owned()));
        };
        let before = Usage::of(&[server]);
        let start = Instant::now();
        let clients = Load::clients(&testbed.client, load, &self.arguments(count))?;
        let all = wait_until("all clients to connect", TIMEOUT, || {
            clients.counters().iter().sum::<u64>() >= count as u64
        });
        let elapsed = start.elapsed().as_secs_f64();
        let work = Usage::of(&[server]).processor_seconds - before.processor_seconds;
        let [connected, ended] = clients.counters();
        if connected < count as u64 {
            let output = format!("{connected} of {count} clients are connected, {ended} gave up");
            clients.stop()?;
            let gave_up = TestbedError::Output { command: "adit-load-openvpn clients".to_owned(), output };
            return Err(all.err().unwrap_or(gave_up));
        }
        std::thread::sleep(SETTLE);
        let after = Usage::of(&[server]);
        let count = count as f64;
        let memory = [
            (after.resident_kib - before.resident_kib) / count,
            (after.proportional_kib - before.proportional_kib) / count,
        ];
        Ok((clients, Cost { per_core: count / work, wall: count / elapsed, memory }))
    }

    /// The arguments that give `adit-load-openvpn` its server and the identities of its clients.
    fn arguments(&self, count: usize) -> Vec<String> {
        let [address, _] = OUTER;
        let [ca, certificate, key] = self.files.each_ref().map(|path| path.display().to_string());
        let count = count.to_string();
        let server = format!("{address}:{PORT}");
        [&server, "--count", &count, "--ca", &ca, "--certificate", &certificate, "--key", &key]
            .map(str::to_owned)
            .into()
    }
}

/// Goodput of the testbed's client, to the server and back, in Mbit/s.
pub(super) fn goodput(testbed: &Testbed, time: Duration) -> Result<[f64; 2], TestbedError> {
    let flow = |back| {
        let load = TcpLoad { time, back, write: None, compressible: false };
        tcp_flow(&testbed.ends(), load).map(|flow| flow.megabits)
    };
    Ok([flow(false)?, flow(true)?])
}

//! What strangers cost a server of adit's, or OpenVPN's beside it: datagrams of every kind, 100,000 a second from 250
//! addresses, while clients connect.
//!
//! ```text
//! cargo build --release -p adit
//! cargo build --release -p adit-testbed --example strangers
//! sudo target/release/examples/strangers
//! ```
#![forbid(unsafe_code)]

mod kinds;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use adit_testbed::{
    Authority, KeyKind, Namespace, Process, Purpose, Scratch, Strangers, TestbedError, Validity, connect,
    missing_prerequisites, wait_until,
};
use clap::{Parser, ValueEnum};

use crate::kinds::{Kind, Wrapping, wrappings};

/// Flood a server with what strangers can send, and let clients connect meanwhile
#[derive(Parser)]
struct Args {
    /// Datagrams a second
    #[arg(long, default_value_t = 100_000)]
    rate: u32,
    /// How many clients connect, one after the other, without a flood and during each
    #[arg(long, default_value_t = 7)]
    clients: usize,
    /// Only the rows whose wrapping and kind, as they stand in the table, begin so: `tls-crypt-v2 replayed`
    #[arg(long, default_value = "")]
    only: String,
    /// The server that strangers flood; the clients are adit's
    #[arg(long, value_enum, default_value_t)]
    server: Program,
    /// adit's release build [default: beside this program's directory]
    #[arg(long)]
    adit: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Program {
    #[default]
    Adit,
    /// For comparison
    Openvpn,
}

const PATIENCE: Duration = Duration::from_secs(30);
/// How long a client tries.
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// How long a flood runs before the first client comes.
const ALONE: Duration = Duration::from_secs(2);
/// The server as strangers and as clients see it.
const SERVER: [&str; 2] = ["192.0.2.1", "198.51.100.1"];

fn main() -> ExitCode {
    let args = Args::parse();
    let missing = missing_prerequisites(&["ip", "openvpn", "openssl"]);
    let outcome = match missing.as_slice() {
        [] => measure(&args),
        _ => Err(TestbedError::NoProgram(missing.join(", "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "strangers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<(), TestbedError> {
    let own = std::env::current_exe().unwrap_or_default();
    let release = own.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let adit = args.adit.clone().unwrap_or_else(|| release.join("adit"));
    let mut out = std::io::stdout().lock();
    let _ = writeln!(
        out,
        "| wrapping | strangers send | a second | idle, ms | flooded, ms (worst) | server's CPU | memory, KiB | \
         log lines | answered, % of bytes |\n|---|---|---|---|---|---|---|---|---|"
    );
    for wrapping in wrappings()? {
        for kind in wrapping.kinds() {
            if !format!("{} {}", wrapping.name, kind.name).starts_with(&args.only) {
                continue;
            }
            let stage = Stage::build(&adit, args.server, &wrapping)?;
            let _ = writeln!(out, "{}", stage.measure(args, &wrapping, &kind)?);
        }
    }
    Ok(())
}

/// A server, a place for clients, and a place for strangers.
struct Stage {
    adit: PathBuf,
    directory: Scratch,
    process: Process,
    server: Namespace,
    client: Namespace,
    strangers: Namespace,
}

impl Stage {
    fn build(adit: &Path, program: Program, wrapping: &Wrapping) -> Result<Stage, TestbedError> {
        let directory = Scratch::create("strangers")?;
        let [server, client, strangers] = ["server", "client", "strangers"].map(Namespace::create);
        let (server, client, strangers) = (server?, client?, strangers?);
        connect(&server, &["192.0.2.1/24"], &client, &["192.0.2.2/24"], "wire")?;
        connect(&server, &["198.51.100.1/24"], &strangers, &["198.51.100.2/24"], "street")?;
        Strangers::settle(&strangers, &server, "198.51.100.2")?;
        let authority = Authority::create(KeyKind::Ecdsa)?;
        let config = |name: &str, purpose, text: &str, wrap: &str| -> Result<PathBuf, TestbedError> {
            let identity = authority.issue(name, purpose, Validity::Now)?;
            let text = format!(
                "dev tun\nverb 3\n{text}{wrap}<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
                authority.certificate, identity.certificate, identity.key
            );
            directory.write(&format!("{name}.conf"), &text)
        };
        let [for_server, for_client] = &wrapping.lines;
        let server_text =
            "topology subnet\nserver 10.8.0.0 255.255.255.0\nproto udp4\ndh none\nkeepalive 10 60\n";
        let file = config("server", Purpose::Server, server_text, for_server)?;
        let client_text = format!(
            "client\nremote {} 1194 udp4\nnobind\nremote-cert-tls server\nexplicit-exit-notify\n",
            SERVER[0]
        );
        config("client", Purpose::Client, &client_text, for_client)?;
        let mut command = match program {
            Program::Adit => Command::new(adit),
            Program::Openvpn => Command::new("openvpn"),
        };
        command.arg(if let Program::Adit = program { "up" } else { "--config" }).arg(file);
        let process = server.spawn("server", command)?;
        wait_until("the server to listen", PATIENCE, || server.is_bound(false, 1194).unwrap_or(false))?;
        Ok(Stage { adit: adit.into(), directory, process, server, client, strangers })
    }

    /// One row of the table.
    fn measure(&self, args: &Args, wrapping: &Wrapping, kind: &Kind) -> Result<String, TestbedError> {
        let idle = self.clients(args.clients)?;
        let before = (self.memory()?, self.process.mark(), self.processor_seconds()?, self.traffic()?);
        let target = SocketAddr::new(SERVER[1].parse().unwrap_or([127, 0, 0, 1].into()), 1194);
        let flood = Strangers::start(&self.strangers, target, args.rate, &kind.datagrams)?;
        let start = Instant::now();
        std::thread::sleep(ALONE);
        let lines = self.process.mark() - before.1;
        let flooded = self.clients(args.clients)?;
        let (sent, time) = (flood.sent(), start.elapsed().as_secs_f64());
        let (memory, work) = (self.memory()?, self.processor_seconds()?);
        drop(flood);
        let traffic = self.traffic()?;
        Ok(format!(
            "| {} | {} | {:.0} | {:.1} | {:.1} ({:.1}) | {:.0} % | {} | {lines} | {:.0} |",
            wrapping.name,
            kind.name,
            sent as f64 / time,
            median(&idle),
            median(&flooded),
            flooded.iter().copied().fold(0.0, f64::max),
            (work - before.2) / time * 100.0,
            memory - before.0,
            (traffic[1] - before.3[1]) / (traffic[0] - before.3[0]) * 100.0,
        ))
    }

    /// How long clients need from the start of their process until they are up, in milliseconds: without end if they
    /// were not within [`CLIENT_PATIENCE`].
    fn clients(&self, count: usize) -> Result<Vec<f64>, TestbedError> {
        let mut times = Vec::new();
        for _ in 0..count {
            let mut command = Command::new(&self.adit);
            command.arg("up").arg(self.directory.path().join("client.conf"));
            let start = Instant::now();
            let mut client = self.client.spawn("client", command)?;
            let came_up = client.wait_for_line(0, "tunnel up: ", CLIENT_PATIENCE).is_ok();
            times.push(if came_up { start.elapsed().as_secs_f64() * 1e3 } else { f64::INFINITY });
            client.terminate(PATIENCE)?;
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    fn read(&self, path: &str) -> Result<String, TestbedError> {
        std::fs::read_to_string(path).map_err(|source| TestbedError::File { path: path.into(), source })
    }

    /// Resident memory of the server in KiB.
    fn memory(&self) -> Result<i64, TestbedError> {
        let text = self.read(&format!("/proc/{}/status", self.process.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or(TestbedError::Output { command: "/proc/PID/status".to_owned(), output: text })
    }

    /// Seconds on a processor of all threads of the server.
    fn processor_seconds(&self) -> Result<f64, TestbedError> {
        let text = self.read(&format!("/proc/{}/stat", self.process.id()))?;
        let ticks = text.rsplit_once(')').map(|(_, rest)| {
            rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum::<f64>()
        });
        Ok(ticks.unwrap_or(0.0) / 100.0)
    }

    /// Bytes that came from the strangers and went to them.
    fn traffic(&self) -> Result<[f64; 2], TestbedError> {
        let text = self.server.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("street:"));
        // proc(5): eight columns of what came, eight of what went; bytes are the first.
        let words: Vec<f64> =
            line.into_iter().flat_map(str::split_whitespace).filter_map(|w| w.parse().ok()).collect();
        match words[..] {
            [received, _, _, _, _, _, _, _, sent, ..] => Ok([received, sent]),
            _ => Err(TestbedError::Output { command: "/proc/net/dev".to_owned(), output: text }),
        }
    }
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

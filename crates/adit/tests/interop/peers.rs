//! Renegotiation with programs that share no code with adit or OpenVPN 2: OpenVPN 3's client.
//!
//! They are in no package. Rows with them run where an environment variable names the program
//! (`ADIT_OPENVPN3=/path/to/ovpncli`), and say that they did not run elsewhere. What these peers taught runs everywhere, as
//! behaviours in `adit-sim`.
//!
//! A row takes minutes, as OpenVPN 3 keeps keys for at least a minute; many rows run at once. `ADIT_PEER_RUNS=5` runs each
//! row five times.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use adit_testbed::{Namespace, Ping, PingReport, can_run, transfer};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{OPENVPN3, Options, Program, SERVER_INNER, Transport, Wrap};
use crate::relay::{Impairment, Relay};

const PATIENCE: Duration = Duration::from_secs(20);
/// Tunnels that are up at once.
const AT_ONCE: usize = 24;
/// After `reneg-sec`: the handshake, and the time until both ends seal with the new keys.
const SWITCHED: u64 = 65;

/// From one ping to the next, and how long one series of them is.
const PING_EVERY: Duration = Duration::from_millis(10);
const PART: Duration = Duration::from_secs(300);

/// Who starts renegotiations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starts {
    Server,
    Client,
    /// The server's jitter takes up to a tenth off, so that either may be first.
    Both,
}

/// What passes the tunnel beside pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    None,
    Transfer,
}

/// One tunnel.
#[derive(Clone, Copy, Debug)]
struct Row {
    server: Program,
    client: Program,
    starts: Starts,
    /// `reneg-sec`.
    every: u64,
    /// How many renegotiations there are in a run.
    times: u64,
    transport: Transport,
    wrap: Wrap,
    tls: &'static str,
    cipher: &'static str,
    /// The server does without the epoch data format.
    before_2_7: bool,
    impairment: Option<Impairment>,
    load: Load,
}

impl Row {
    /// An OpenVPN 3 client at an adit server.
    const OPENVPN3: Row = Row {
        server: Program::Adit,
        client: Program::OpenVpn3,
        starts: Starts::Server,
        every: 80,
        times: 2,
        transport: Transport::Udp4,
        wrap: Wrap::TlsCrypt,
        tls: "1.3",
        cipher: "AES-256-GCM",
        before_2_7: false,
        impairment: None,
        load: Load::None,
    };
}

/// Whether the program is named; says so if it is not.
fn is_named(test: &str, variable: &str) -> bool {
    let named = std::env::var_os(variable).is_some();
    if !named {
        let note = format!("\n**** NOT RUN {test}: {variable} names no program.\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes());
    }
    named && can_run(test, &PROGRAMS)
}

/// Runs the rows, many at once; tells of all that failed.
fn check(test: &str, rows: &[Row], at_once: usize) {
    if !is_named(test, OPENVPN3) {
        return;
    }
    let runs: usize = std::env::var("ADIT_PEER_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1);
    let all: Vec<&Row> = (0..runs).flat_map(|_| rows).collect();
    let (left, outcomes) = (Mutex::new(all.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some(row) = left.lock().unwrap().next() else { return };
                    let outcome = row.live();
                    eprintln!("{test}: {row:?}: {}", outcome.as_ref().map_or("FAILED", |text| text));
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    let failures: Vec<String> = outcomes.into_inner().unwrap().into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{} of {} runs:\n{}", failures.len(), all.len(), failures.join("\n\n"));
}

impl Row {
    fn bed(&self) -> Result<Bed, String> {
        let options = Options {
            transport: self.transport,
            wrap: self.wrap,
            cipher: self.cipher,
            tls_version_max: self.tls,
            ..Options::BASE
        };
        let [server, client] = match self.starts {
            Starts::Server => [self.every, 0],
            Starts::Client => [0, self.every],
            Starts::Both => [self.every + self.every / 10, self.every],
        };
        Bed::build_with(&options, self.server, &[self.client], |_, texts| {
            for (text, after) in texts.iter_mut().zip([server, client]) {
                *text = text
                    .replace("hand-window 5\n", "")
                    .replace("reneg-sec 10\n", "")
                    .replace("reneg-sec 0\n", "")
                    .replace("keepalive 1 5\n", "keepalive 5 30\n");
                *text += &format!("reneg-sec {after}\n");
            }
            if self.before_2_7 {
                texts[0] += "compat-mode 2.6.0\n";
            }
            if self.impairment.is_some() {
                texts[1] = texts[1]
                    .replace("remote 10.9.1.1 1194\n", &format!("remote 127.0.0.1 {}\n", Relay::PORT));
            }
        })
        .map_err(text)
    }

    fn live(&self) -> Result<String, String> {
        let mut bed = self.bed()?;
        self.play(&mut bed).map_err(|why| format!("{self:?}: {why}\n{}", bed.logs()))
    }

    fn play(&self, bed: &mut Bed) -> Result<String, String> {
        bed.server.start().map_err(text)?;
        let server_at = SocketAddr::from(([10, 9, 1, 1], 1194));
        let relay = self
            .impairment
            .map(|impairment| Relay::start(&bed.clients[0].namespace, server_at, impairment).map_err(text));
        let relay = relay.transpose()?;
        bed.clients[0].start().map_err(text)?;
        let target: IpAddr = SERVER_INNER[0].parse().unwrap();
        reach(&bed.clients[0].namespace, target)?;
        let back = bed.clients[0].inner_addresses().map_err(text)?;
        let back = *back.first().ok_or("the client has no address in the tunnel")?;
        let before = relay.as_ref().map_or(0, Relay::lost_data);
        let reports = self.traffic(bed, target, back)?;
        let lost_on_link = relay.as_ref().map_or(0, |relay| relay.lost_data() - before);
        let lost: u32 = reports.iter().map(PingReport::lost).sum();
        let odd = reports.iter().any(|report| report.duplicates + report.changed > 0);
        let renegotiations = bed.server.renegotiations() + bed.clients[0].renegotiations();
        let connections = bed.clients[0].process().count_lines(0, self.client.up_line());
        let summary = format!(
            "{lost} of {} pings lost ({lost_on_link} data datagrams on the link), {renegotiations} renegotiations, {connections} connection(s)",
            reports.iter().map(|report| report.sent).sum::<u32>()
        );
        if lost > lost_on_link || odd || connections != 1 || renegotiations < self.times as usize {
            let missing: Vec<_> =
                reports.iter().map(|report| (report.missing.first(), report.missing.last())).collect();
            return Err(format!("{summary}; first and last lost, per direction: {missing:?}"));
        }
        bed.clients[0].stop()?;
        bed.server.stop()?;
        Ok(summary)
    }

    /// 100 pings a second each way, until all renegotiations are over.
    fn traffic(&self, bed: &Bed, target: IpAddr, back: IpAddr) -> Result<Vec<PingReport>, String> {
        let time = Duration::from_secs(self.every * self.times + SWITCHED);
        let (inside, outside) = (&bed.clients[0].namespace, &bed.server.namespace);
        let end = Instant::now() + time;
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (from, target) in [(inside, target), (outside, back)] {
                // Requests of one series have 16 bits to be told apart by.
                for part in 0..time.as_secs().div_ceil(PART.as_secs()) {
                    let start = PART * u32::try_from(part).unwrap();
                    let count = (time - start).min(PART).as_millis() / PING_EVERY.as_millis();
                    let ping = Ping::new(u16::try_from(count).unwrap(), PING_EVERY);
                    running.push(scope.spawn(move || {
                        std::thread::sleep(start);
                        ping.run(from, target)
                    }));
                }
            }
            while self.load == Load::Transfer && Instant::now() + Duration::from_secs(5) < end {
                let moved = transfer(outside, inside, back, 2_000_000).map_err(text)?;
                if !moved.intact {
                    return Err(format!("the file was changed: {moved:?}"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            running.into_iter().map(|thread| thread.join().unwrap().map_err(text)).collect()
        })
    }
}

/// Waits until an answer comes from `target`, which may be far away.
fn reach(from: &Namespace, target: IpAddr) -> Result<(), String> {
    let once = Ping { patience: Duration::from_millis(500), ..Ping::new(1, Duration::ZERO) };
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if once.run(from, target).map_err(text)?.received > 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("no answer from {target} within {PATIENCE:?}"))
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

const WRAPS: [Wrap; 4] = [Wrap::Plain, Wrap::TlsAuth("SHA256"), Wrap::TlsCrypt, Wrap::TlsCryptV2];
const TRANSPORTS: [Transport; 2] = [Transport::Udp4, Transport::Tcp4];
const STARTS: [Starts; 3] = [Starts::Server, Starts::Client, Starts::Both];

/// Each of who starts, transport and wrapping with each other; TLS, cipher and data format change from row to row, so that
/// each of their combinations meets each of who starts.
fn every_row() -> Vec<Row> {
    let mut rows = Vec::new();
    for (start, starts) in STARTS.into_iter().enumerate() {
        for (way, transport) in TRANSPORTS.into_iter().enumerate() {
            for (number, wrap) in WRAPS.into_iter().enumerate() {
                let mix = number * 2 + way + start * 3;
                rows.push(Row {
                    starts,
                    transport,
                    wrap,
                    tls: ["1.2", "1.3"][mix % 2],
                    cipher: ["AES-256-GCM", "CHACHA20-POLY1305"][mix / 2 % 2],
                    before_2_7: mix / 4 % 2 == 1,
                    ..Row::OPENVPN3
                });
            }
        }
    }
    rows
}

#[test]
fn openvpn3_renegotiates() {
    check("openvpn3_renegotiates", &every_row(), AT_ONCE);
}

#[test]
fn openvpn3_renegotiates_seldom() {
    let rows: Vec<Row> = [(130, 2), (600, 1)]
        .into_iter()
        .flat_map(|(every, times)| STARTS.map(|starts| Row { every, times, starts, ..Row::OPENVPN3 }))
        .flat_map(|row| TRANSPORTS.map(|transport| Row { transport, ..row }))
        .collect();
    check("openvpn3_renegotiates_seldom", &rows, AT_ONCE);
}

#[test]
fn openvpn3_renegotiates_under_a_transfer() {
    let row = Row { load: Load::Transfer, ..Row::OPENVPN3 };
    let rows: Vec<Row> = STARTS
        .into_iter()
        .flat_map(|starts| TRANSPORTS.map(|transport| Row { starts, transport, ..row }))
        .collect();
    check("openvpn3_renegotiates_under_a_transfer", &rows, 3);
}

#[test]
fn openvpn3_renegotiates_over_a_lossy_link() {
    let impairment = Some(Impairment { delay: Duration::from_millis(50), loss: 10 });
    let rows: Vec<Row> = STARTS
        .into_iter()
        .flat_map(|starts| WRAPS.map(|wrap| Row { starts, wrap, impairment, ..Row::OPENVPN3 }))
        .collect();
    check("openvpn3_renegotiates_over_a_lossy_link", &rows, AT_ONCE);
}

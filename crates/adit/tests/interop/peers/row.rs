//! One tunnel, its traffic, and the conditions that must hold.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use adit_testbed::{Namespace, Ping, PingReport, transfer};

use super::miragevpn;
use crate::bed::{Bed, Host};
use crate::options::{Options, Part, Program, SERVER_INNER, Transport, Wrap};
use crate::relay::{Impairment, Relay};

const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest series of pings.
const SERIES: Duration = Duration::from_secs(300);

/// The end that starts renegotiations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starts {
    Server,
    Client,
    /// The server's jitter takes up to a tenth off, so that either may be first.
    Both,
}

/// The load in the tunnel beside pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    None,
    Transfer,
}

/// One tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) server: Program,
    pub(super) client: Program,
    pub(super) starts: Starts,
    /// `reneg-sec`.
    pub(super) every: u64,
    /// How many renegotiations there are in a run.
    pub(super) times: u64,
    /// Seconds after `reneg-sec` until both ends seal with the new keys.
    pub(super) switched: u64,
    pub(super) transport: Transport,
    pub(super) wrap: Wrap,
    pub(super) tls: &'static str,
    pub(super) cipher: &'static str,
    /// The server does without the epoch data format.
    pub(super) before_2_7: bool,
    pub(super) impairment: Option<Impairment>,
    pub(super) load: Load,
    pub(super) pings: Pings,
}

/// The echo requests that pass in the tunnel all the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pings {
    /// From one to the next.
    pub(super) every: Duration,
    /// The server sends requests, too.
    pub(super) both_ways: bool,
}

/// 100 a second each way.
pub(super) const PINGS: Pings = Pings { every: Duration::from_millis(10), both_ways: true };

/// The failure of a row.
pub(super) struct Failure {
    pub(super) summary: String,
    pub(super) logs: String,
}

/// Bytes transferred at once, and the pause that follows: about 30 Mbit/s, in bursts that fit the queues of all
/// programs, so that bytes that are lost are lost by a renegotiation.
const BURST: usize = 100_000;
const PAUSE: Duration = Duration::from_millis(20);

impl Row {
    /// Whether adit is at an end; the other rows are the reference.
    pub(super) fn has_adit(&self) -> bool {
        [self.server, self.client].contains(&Program::Adit)
    }

    /// Builds the tunnel, sends its traffic, and gives the figures.
    pub(super) fn live(&self) -> Result<String, Failure> {
        let mut bed = self.bed().map_err(|summary| Failure { summary, logs: String::new() })?;
        self.play(&mut bed).map_err(|summary| Failure { summary, logs: bed.logs() })
    }

    /// Builds the tunnel; starts nothing.
    pub(super) fn bed(&self) -> Result<Bed, String> {
        let options = Options {
            transport: self.transport,
            wrap: self.wrap,
            cipher: self.cipher,
            tls_version_max: self.tls,
            ..Options::BASE
        };
        Bed::build_with(&options, self.server, &[self.client], |_, texts| self.change(texts)).map_err(text)
    }

    /// Changes the two configurations, server first, to those of this row.
    fn change(&self, texts: &mut [String; 2]) {
        let times = match self.starts {
            Starts::Server => [self.every, 0],
            Starts::Client => [0, self.every],
            Starts::Both => [self.every + self.every / 10, self.every],
        };
        for (text, after) in texts.iter_mut().zip(times) {
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
            texts[1] =
                texts[1].replace("remote 10.9.1.1 1194\n", &format!("remote 127.0.0.1 {}\n", Relay::PORT));
        }
        let parts = [(self.server, Part::Server), (self.client, Part::Client)];
        for (text, (program, part)) in texts.iter_mut().zip(parts) {
            if program == Program::MirageVpn {
                *text = miragevpn::configuration(text, part, self.cipher);
            }
        }
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
        let before = relay.as_ref().map_or(0, Relay::lost_data);
        let reports = self.traffic(bed, target)?;
        let lost_on_link = relay.as_ref().map_or(0, |relay| relay.lost_data() - before);
        let lost: u32 = reports.iter().map(PingReport::lost).sum();
        let odd = reports.iter().any(|report| report.duplicates + report.changed > 0);
        let renegotiations = self.renegotiations(bed);
        let connections = self.connections(bed);
        let summary = format!(
            "{lost} of {} pings lost ({lost_on_link} data datagrams on the link), {renegotiations} renegotiations, {connections} connection(s)",
            reports.iter().map(|report| report.sent).sum::<u32>()
        );
        if lost > lost_on_link || odd || connections != 1 || renegotiations < self.times as usize {
            let missing: Vec<_> =
                reports.iter().map(|report| (report.missing.first(), report.missing.last())).collect();
            return Err(format!("{summary}; first and last lost, per direction: {missing:?}"));
        }
        bed.check_kernel_data_channels()?;
        end(&mut bed.clients[0], self.client)?;
        end(&mut bed.server, self.server)?;
        Ok(summary)
    }

    /// How many renegotiations the ends tell of. OpenVPN does not say so of those that its peer started; it tells of each
    /// handshake, the first among them.
    fn renegotiations(&self, bed: &mut Bed) -> usize {
        let reported = |program: Program, host: &mut Host| {
            if program.is_openvpn() {
                host.process().count_lines(0, "Control Channel: TLS").saturating_sub(1)
            } else {
                host.renegotiations()
            }
        };
        reported(self.server, &mut bed.server) + reported(self.client, &mut bed.clients[0])
    }

    /// How many connections there were, by the log of adit, or of OpenVPN in its place.
    fn connections(&self, bed: &mut Bed) -> usize {
        match self.server {
            Program::Adit => bed.server.process().count_lines(0, " connected ("),
            program if program.is_openvpn() => {
                bed.server.process().count_lines(0, "MULTI: primary virtual IP for")
            }
            _ => bed.clients[0].process().count_lines(0, self.client.up_line()),
        }
    }

    /// Pings until all renegotiations are over.
    fn traffic(&self, bed: &Bed, target: IpAddr) -> Result<Vec<PingReport>, String> {
        let time = Duration::from_secs(self.every * self.times + self.switched);
        let (inside, outside) = (&bed.clients[0].namespace, &bed.server.namespace);
        let mut ways = vec![(inside, target)];
        // MirageVPN's server has no device from which the other way could begin.
        if self.pings.both_ways && self.server != Program::MirageVpn {
            let back = bed.clients[0].inner_addresses().map_err(text)?;
            ways.push((outside, *back.first().ok_or("the client has no address in the tunnel")?));
        }
        let end = Instant::now() + time;
        std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (from, target) in &ways {
                // Requests of one series are distinguished by 16 bits.
                for series in 0..time.as_secs().div_ceil(SERIES.as_secs()) {
                    let start = SERIES * u32::try_from(series).unwrap();
                    let count = (time - start).min(SERIES).as_millis() / self.pings.every.as_millis();
                    let ping = Ping::new(u16::try_from(count).unwrap(), self.pings.every);
                    running.push(scope.spawn(move || {
                        std::thread::sleep(start);
                        ping.run(from, *target)
                    }));
                }
            }
            while self.load == Load::Transfer && Instant::now() + Duration::from_secs(5) < end {
                let back = ways.get(1).ok_or("nothing is transferred one way")?.1;
                let moved = transfer(outside, inside, back, BURST).map_err(text)?;
                if !moved.intact {
                    return Err(format!("the file was changed: {moved:?}"));
                }
                std::thread::sleep(PAUSE);
            }
            running.into_iter().map(|thread| thread.join().unwrap().map_err(text)).collect()
        })
    }
}

/// Ends a program as it likes to be ended: MirageVPN does not handle SIGTERM.
fn end(host: &mut Host, program: Program) -> Result<(), String> {
    match program {
        Program::MirageVpn => host.process().kill().map(drop).map_err(text),
        _ => host.stop(),
    }
}

/// Waits until an answer comes from `target`, which may be far away.
fn reach(from: &Namespace, target: IpAddr) -> Result<(), String> {
    let once = Ping { timeout: Duration::from_millis(500), ..Ping::new(1, Duration::ZERO) };
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        if once.run(from, target).map_err(text)?.received > 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(format!("no answer from {target} within {TIMEOUT:?}"))
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

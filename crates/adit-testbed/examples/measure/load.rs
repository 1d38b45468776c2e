//! TCP flows and floods of UDP packets, and the processor time they take.

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_testbed::{Process, TestbedError, program};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::stage::Stage;

/// Packets a system call.
const BATCH: usize = 64;
/// The sink's buffer: what it does not receive shall be the tunnel's loss.
const SINK_BUFFER: usize = 16 << 20;
/// The sink gives up after this long without a packet.
const SILENCE: Duration = Duration::from_millis(200);
const PORT: u16 = 5001;

/// The search for the load at which most packets arrive: from here, by this factor, so long each.
const FIRST_RATE: u32 = 20_000;
const STEP_TIME: Duration = Duration::from_millis(700);
const LAST_RATE: u32 = 4_000_000;

fn network(what: &str) -> impl FnOnce(std::io::Error) -> TestbedError {
    let what = what.to_owned();
    move |source| TestbedError::Network { what, source }
}

/// How a TCP flow went.
pub(crate) struct TcpFlow {
    pub(crate) megabits: f64,
    /// 10^9 bytes of payload.
    pub(crate) gigabytes: f64,
    /// Of all processors, for all that ran meanwhile.
    pub(crate) processor_seconds: f64,
}

fn iperf(stage: &Stage, time: Duration) -> Result<std::process::Command, TestbedError> {
    let mut command = program("iperf3")?;
    command.args(["--client", &stage.target.to_string(), "--json", "--time"]);
    command.arg(time.as_secs().max(1).to_string());
    Ok(command)
}

/// One TCP flow from the client to the server, or back.
pub(crate) fn tcp(stage: &Stage, time: Duration, back: bool) -> Result<TcpFlow, TestbedError> {
    let mut command = iperf(stage, time)?;
    if back {
        command.arg("--reverse");
    }
    let before = processor_seconds()?;
    let text = stage.client.run(command)?;
    let processor_seconds = processor_seconds()? - before;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let received = &json["end"]["sum_received"];
    match (received["bits_per_second"].as_f64(), received["bytes"].as_f64()) {
        (Some(bits), Some(bytes)) if bytes > 0.0 => {
            Ok(TcpFlow { megabits: bits / 1e6, gigabytes: bytes / 1e9, processor_seconds })
        }
        _ => Err(TestbedError::Output { command: "iperf3".to_owned(), output: text }),
    }
}

/// Does something while a TCP flow from the client to the server is under way.
pub(crate) fn while_busy<T>(
    stage: &Stage,
    time: Duration,
    work: impl FnOnce() -> Result<T, TestbedError>,
) -> Result<T, TestbedError> {
    let command = iperf(stage, time + Duration::from_secs(4))?;
    let mut flow: Process = stage.client.spawn("iperf3", command)?;
    let outcome = work();
    if !flow.is_running() {
        return Err(TestbedError::Output { command: "iperf3 (ended early)".to_owned(), output: flow.log() });
    }
    flow.terminate(Duration::from_secs(5))?;
    // The iperf3 server takes a moment until it serves again.
    std::thread::sleep(Duration::from_millis(300));
    outcome
}

/// What all processors have worked since the machine started (proc(5): user, nice, system, irq, softirq, in
/// hundredths of a second).
fn processor_seconds() -> Result<f64, TestbedError> {
    let path = "/proc/stat";
    let text =
        std::fs::read_to_string(path).map_err(|source| TestbedError::File { path: path.into(), source })?;
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    match ticks[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, ..] => {
            Ok((user + nice + system + irq + softirq) / 100.0)
        }
        _ => Err(TestbedError::Output { command: path.to_owned(), output: first.to_owned() }),
    }
}

/// UDP packets from the client to the server, as many a second as asked for or as the sender can.
#[derive(Clone, Copy)]
pub(crate) struct Flood {
    /// Bytes of payload.
    pub(crate) size: usize,
    /// Packets a second.
    pub(crate) rate: u32,
    pub(crate) time: Duration,
}

/// Packets a second.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) sent: f64,
    pub(crate) received: f64,
}

impl Flood {
    /// Sends and counts.
    pub(crate) fn run(self, stage: &Stage) -> Result<Rates, TestbedError> {
        let target = SocketAddr::new(stage.target, PORT);
        let sink =
            stage.server.enter(|| UdpSocket::bind(target))?.map_err(network("cannot bind the sink"))?;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&sink, SINK_BUFFER)
            .map_err(|error| network("cannot enlarge the sink's buffer")(error.into()))?;
        sink.set_read_timeout(Some(SILENCE)).map_err(network("cannot set up the sink"))?;
        let source = stage.client.enter(|| -> std::io::Result<UdpSocket> {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(target)?;
            Ok(socket)
        })?;
        let source = source.map_err(network("cannot open the source"))?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sink = scope.spawn(|| drain(&sink, &done));
            let sent = self.send(&source);
            done.store(true, Ordering::Relaxed);
            let (packets, time) = sink.join().map_err(|_| TestbedError::Worker("counting packets"))?;
            let (sent, sending) = sent.map_err(network("cannot send"))?;
            let seconds = time.max(sending).as_secs_f64();
            Ok(Rates { sent: sent as f64 / sending.as_secs_f64(), received: packets as f64 / seconds })
        })
    }

    /// Open loop: what is late is made up for, up to a batch at a time. Says how many left in what time.
    fn send(self, socket: &UdpSocket) -> std::io::Result<(u64, Duration)> {
        let payload = vec![0x2a; self.size];
        let slices = [IoSlice::new(&payload)];
        let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
            std::iter::repeat_with(SendAncillaryBuffer::default).take(BATCH).collect();
        let mut messages: Vec<MMsgHdr<'_>> =
            controls.iter_mut().map(|control| MMsgHdr::new(&slices, control)).collect();
        let start = Instant::now();
        let (mut sent, mut tried) = (0, 0);
        loop {
            let elapsed = start.elapsed();
            if elapsed >= self.time {
                return Ok((sent, elapsed));
            }
            let due = (elapsed.as_secs_f64() * f64::from(self.rate)) as u64;
            let count = due.saturating_sub(tried).min(BATCH as u64) as usize;
            if count == 0 {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            }
            match sendmmsg(socket, messages.get_mut(..count).unwrap_or_default(), SendFlags::empty()) {
                Ok(count) => {
                    sent += count as u64;
                    tried += count as u64;
                }
                // The device's queue is full, or ICMP's word on an earlier packet: as lost as the others.
                Err(
                    rustix::io::Errno::NOBUFS | rustix::io::Errno::AGAIN | rustix::io::Errno::CONNREFUSED,
                ) => {
                    tried += count as u64;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Receives until nothing comes any more. Says how many came, and between the first and the last the time.
fn drain(socket: &UdpSocket, done: &AtomicBool) -> (u64, Duration) {
    let mut buffer = [0; 2048];
    let mut count = 0;
    let mut first = None;
    let mut last = Instant::now();
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => {
                count += 1;
                // The clock is read now and then only: the sink shall be cheap.
                if count % 64 == 1 {
                    last = Instant::now();
                    first.get_or_insert(last);
                }
            }
            Err(_) if done.load(Ordering::Relaxed) => {
                return (count, first.map_or(Duration::ZERO, |first| last - first));
            }
            Err(_) => {}
        }
    }
}

/// The offered load at which most packets arrive. Ends when twice in a row less than two thirds did, or the
/// sender could not send as many.
pub(crate) fn find_saturation(stage: &Stage, size: usize) -> Result<u32, TestbedError> {
    let (mut rate, mut best, mut most) = (FIRST_RATE, FIRST_RATE, 0.0);
    let mut beyond = 0;
    while rate < LAST_RATE && beyond < 2 {
        let rates = Flood { size, rate, time: STEP_TIME }.run(stage)?;
        if rates.received > most {
            (best, most) = (rate, rates.received);
        }
        let lossy = rates.received < 0.66 * rates.sent;
        let exhausted = rates.sent < 0.9 * f64::from(rate);
        beyond = if lossy || exhausted { beyond + 1 } else { 0 };
        rate = rate.saturating_add(rate / 4);
    }
    Ok(best)
}

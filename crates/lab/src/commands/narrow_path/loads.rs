//! TCP flows from the server to its clients.

use std::time::{Duration, Instant};

use adit_testbed::{Process, TestbedError, program, wait_until};
use serde::Serialize;

use super::testbed::{Client, TIMEOUT, Testbed};

const IPERF_PORT: u16 = 5201;
/// The time from the moment that a flow begins or a path changes until the measurement counts.
const SETTLE: Duration = Duration::from_secs(1);
/// How long the first flow to the eighth lasts, before the one that is measured: the measured flow begins
/// when the server knows the path.
const FIRST_FLOW: Duration = Duration::from_secs(3);
/// More than a flow takes to begin.
const BEGIN: Duration = Duration::from_secs(2);

/// A flow to the eighth client while no other client has one.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Alone {
    /// Mbit/s.
    pub(super) goodput: f64,
    /// Bytes of a send of the server: beyond 1500 it gives the kernel several datagrams at once (UDP_SEGMENT).
    pub(super) bytes_a_send: f64,
    /// Destinations to which the server does not use UDP_SEGMENT, by its status; `None` if that does not tell.
    pub(super) limited: Option<u64>,
}

/// The goodput of the first seven, whose flows run all the time, in Mbit/s of inner packets.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Seven {
    /// While the eighth has a flow of limited rate, too.
    pub(super) beside: f64,
    /// The goodput of the eighth meanwhile.
    pub(super) eighth: f64,
    /// While the eighth has no flow.
    pub(super) alone: f64,
    /// Bytes of a send of the server, while the eighth has no flow.
    pub(super) bytes_a_send: f64,
}

impl Seven {
    /// How long it takes to measure it, each load for `time`.
    pub(super) fn longest(time: Duration) -> Duration {
        FIRST_FLOW + 2 * (SETTLE + time) + 2 * BEGIN
    }
}

/// A flow to the eighth client for that time.
pub(super) fn alone(testbed: &Testbed, time: Duration) -> Result<Alone, TestbedError> {
    let eighth = testbed.eighth().ok_or_else(no_client)?;
    let before = testbed.sent()?;
    let mut flow = Flow::start(testbed, eighth, time, None)?;
    let goodput = flow.goodput(time)?;
    Ok(Alone { goodput, bytes_a_send: testbed.sent()?.since(before), limited: testbed.limited()? })
}

/// Flows to the seven others, which run until this is dropped or their time is over.
pub(super) struct Flows<'testbed> {
    testbed: &'testbed Testbed,
    flows: Vec<Flow>,
}

impl<'testbed> Flows<'testbed> {
    /// Begins them; they run for that time at most.
    pub(super) fn start(testbed: &'testbed Testbed, longest: Duration) -> Result<Self, TestbedError> {
        let flows = testbed.seven().map(|client| Flow::start(testbed, client, longest, None));
        Ok(Flows { flows: flows.collect::<Result<_, _>>()?, testbed })
    }

    /// The goodput of the flows: beside a flow to the eighth of at most `rate` Mbit/s, then without it, each for
    /// `time`.
    pub(super) fn sample(&mut self, time: Duration, rate: u32) -> Result<Seven, TestbedError> {
        let eighth = self.testbed.eighth().ok_or_else(no_client)?;
        let first = Flow::start(self.testbed, eighth, FIRST_FLOW + SETTLE, Some(rate))?;
        std::thread::sleep(FIRST_FLOW);
        drop(first);
        let limited = Flow::start(self.testbed, eighth, 2 * SETTLE + time, Some(rate))?;
        let beside = self.measure(eighth, time)?;
        drop(limited);
        let before = self.testbed.sent()?;
        let alone = self.measure(eighth, time)?;
        let bytes_a_send = self.testbed.sent()?.since(before);
        self.check()?;
        Ok(Seven { beside: beside.seven, eighth: beside.eighth, alone: alone.seven, bytes_a_send })
    }

    fn measure(&self, eighth: &Client, time: Duration) -> Result<Rates, TestbedError> {
        std::thread::sleep(SETTLE);
        let read = || -> Result<[f64; 2], TestbedError> {
            let seven = self.testbed.seven().map(Client::received).sum::<Result<f64, _>>()?;
            Ok([seven, eighth.received()?])
        };
        let (start, before) = (Instant::now(), read()?);
        std::thread::sleep(time);
        let (passed, after) = (start.elapsed().as_secs_f64(), read()?);
        let rate = |before: f64, after: f64| (after - before) * 8.0 / passed / 1e6;
        Ok(Rates { seven: rate(before[0], after[0]), eighth: rate(before[1], after[1]) })
    }

    /// An error if a flow has ended.
    fn check(&mut self) -> Result<(), TestbedError> {
        let ended =
            self.flows.iter_mut().find_map(|flow| (!flow.source.is_running()).then(|| flow.source.log()));
        ended.map_or(Ok(()), |output| Err(TestbedError::Output { command: "iperf3".to_owned(), output }))
    }
}

/// Mbit/s that came to the seven and to the eighth.
struct Rates {
    seven: f64,
    eighth: f64,
}

/// A TCP flow of iperf3 from the server to a client, which ends with this value.
struct Flow {
    source: Process,
    _sink: Process,
}

impl Flow {
    fn start(
        testbed: &Testbed,
        client: &Client,
        time: Duration,
        rate: Option<u32>,
    ) -> Result<Flow, TestbedError> {
        let address = client.address.to_string();
        let mut sink = program("iperf3")?;
        sink.args(["--server", "--one-off", "--bind", &address]);
        let sink = client.namespace.spawn("an iperf3 server", sink)?;
        let listens = || client.namespace.is_bound(true, IPERF_PORT).unwrap_or(false);
        wait_until("iperf3 to listen", TIMEOUT, listens)?;
        let mut source = program("iperf3")?;
        source.args(["--client", &address, "--json", "--time", &time.as_secs().max(1).to_string()]);
        if let Some(rate) = rate {
            source.arg("--bitrate").arg(format!("{rate}M"));
        }
        Ok(Flow { source: testbed.server().spawn("an iperf3 client", source)?, _sink: sink })
    }

    /// Mbit/s, when it has ended.
    fn goodput(&mut self, time: Duration) -> Result<f64, TestbedError> {
        self.source.wait(time + TIMEOUT)?;
        let text = self.source.log();
        // Both streams are in it: a warning may stand around the report.
        let report = text.find('{').zip(text.rfind('}')).and_then(|(start, end)| text.get(start..=end));
        let json: serde_json::Value = serde_json::from_str(report.unwrap_or_default()).unwrap_or_default();
        let bits = json.pointer("/end/sum_received/bits_per_second").and_then(serde_json::Value::as_f64);
        Ok(bits.ok_or(TestbedError::Output { command: "iperf3".to_owned(), output: text })? / 1e6)
    }
}

fn no_client() -> TestbedError {
    TestbedError::Output { command: "the testbed".to_owned(), output: "no eighth client".to_owned() }
}

//! Effects on the tunnels of one process when another is reloaded or ends.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use adit_testbed::{Losses, StreamLoad, Streams, TestbedError, transfer};
use serde::Serialize;

use super::testbed::{Testbed, clients_of, server_file, socket};
use crate::commands::identities::Identities;

/// How long a tunnel may take to read its file, or to end.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The time for which packets are lost on purpose.
const CONTROL: Duration = Duration::from_millis(300);

/// How the tunnels are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Through each tunnel, before the streams.
    pub(super) transfer_bytes: usize,
    pub(super) load: StreamLoad,
    /// Between two events.
    pub(super) pause: Duration,
}

/// The result of the measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Lifetime {
    /// Files that arrived whole, one through each tunnel.
    pub(super) transfers: usize,
    /// Tunnels that were ended one after another while the others carried packets.
    pub(super) ended: usize,
    /// The log's line about the file that was read again.
    pub(super) reload: String,
    /// The fate of each tunnel's packets until it was ended itself.
    pub(super) tunnels: Vec<Counted>,
    /// Packets of a tunnel whose way back was cut on purpose: the count must show them.
    pub(super) control: Counted,
}

/// [`Losses`], for the file of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counted {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) longest_gap: u64,
}

impl From<Losses> for Counted {
    fn from(losses: Losses) -> Counted {
        let Losses { sent, repeated, longest_gap, .. } = losses;
        Counted { sent, lost: losses.lost(), repeated, longest_gap }
    }
}

impl Lifetime {
    /// Whether no tunnel lost a packet, and lost packets would have been seen.
    pub(super) fn is_good(&self) -> bool {
        self.transfers == self.tunnels.len()
            && self.tunnels.iter().all(|tunnel| tunnel.sent > 0 && tunnel.lost == 0 && tunnel.repeated == 0)
            && self.control.lost > 0
    }
}

/// Transfers a file through each tunnel, then keeps a stream in each; the last tunnel reads a changed file, and then one
/// after another is ended at its management socket. A tunnel's stream is closed before its end.
pub(super) fn observe(
    testbed: &mut Testbed,
    identities: &Identities,
    usage: Usage,
) -> Result<Lifetime, TestbedError> {
    let mut lifetime =
        Lifetime { transfers: transfers(testbed, usage.transfer_bytes)?, ..Lifetime::default() };
    let streams = Streams::start(&testbed.client, &testbed.server, &testbed.targets, usage.load)?;
    std::thread::sleep(usage.pause);
    lifetime.reload = reload_last(testbed, identities)?;
    std::thread::sleep(usage.pause);
    let last = testbed.targets.len().saturating_sub(1);
    for index in 0..last {
        lifetime.tunnels.push(streams.close(index, ANSWER_TIMEOUT).into());
        end(testbed, identities, index)?;
        lifetime.ended += 1;
        std::thread::sleep(usage.pause / 10);
    }
    std::thread::sleep(usage.pause);
    lifetime.tunnels.push(streams.close(last, ANSWER_TIMEOUT).into());
    drop(streams);
    lifetime.control = control(testbed, usage.load)?.into();
    Ok(lifetime)
}

fn number(index: usize) -> u16 {
    u16::try_from(index + 1).unwrap_or(u16::MAX)
}

fn transfers(testbed: &Testbed, bytes: usize) -> Result<usize, TestbedError> {
    let mut intact = 0;
    for target in &testbed.targets {
        intact += usize::from(transfer(&testbed.client, &testbed.server, *target, bytes)?.intact);
    }
    Ok(intact)
}

/// Changes the last tunnel's file and lets the process read all again; gives the log's line about that file.
fn reload_last(testbed: &mut Testbed, identities: &Identities) -> Result<String, TestbedError> {
    let last = number(testbed.targets.len().saturating_sub(1));
    server_file(identities, last, "push \"route 10.77.0.0 255.255.0.0\"\n")?;
    let process = testbed.servers.first_mut().ok_or(TestbedError::Worker("no server"))?;
    let mark = process.mark();
    process.hang_up();
    let line = process.wait_for_line(
        mark,
        &format!("s{last}.conf was read again, and what changed holds"),
        TIMEOUT,
    )?;
    // Without the time and the directory.
    let said = line.split_once("SIGHUP: ").map_or(line.as_str(), |(_, said)| said);
    Ok(said.rsplit('/').next().unwrap_or_default().to_owned())
}

/// Ends one tunnel at its management socket.
fn end(testbed: &mut Testbed, identities: &Identities, index: usize) -> Result<(), TestbedError> {
    let path = socket(identities, number(index));
    let process = testbed.servers.first_mut().ok_or(TestbedError::Worker("no server"))?;
    let mark = process.mark();
    let sent = UnixStream::connect(&path).and_then(|mut stream| {
        stream.write_all(b"signal SIGTERM\n")?;
        Ok(stream)
    });
    let _open = sent.map_err(|source| TestbedError::File { path, source })?;
    process.wait_for_line(mark, &format!("s{}: ended on request", number(index)), TIMEOUT).map(drop)
}

/// Cuts the way back to the last tunnel's client for a while. The count must show the packets that its stream loses.
fn control(testbed: &Testbed, load: StreamLoad) -> Result<Losses, TestbedError> {
    let Some(target) = testbed.targets.last() else { return Ok(Losses::default()) };
    let clients = clients_of(number(testbed.targets.len().saturating_sub(1)));
    let streams = Streams::start(&testbed.client, &testbed.server, &[*target], load)?;
    std::thread::sleep(CONTROL);
    testbed.server.ip(&["route", "add", "blackhole", &clients])?;
    std::thread::sleep(CONTROL);
    testbed.server.ip(&["route", "delete", "blackhole", &clients])?;
    std::thread::sleep(CONTROL);
    Ok(streams.close(0, ANSWER_TIMEOUT / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Lifetime {
        let tunnel = Counted { sent: 100, ..Counted::default() };
        Lifetime {
            transfers: 2,
            ended: 1,
            tunnels: vec![tunnel; 2],
            control: Counted { sent: 90, lost: 30, ..Counted::default() },
            ..Lifetime::default()
        }
    }

    #[test]
    fn one_lost_packet_is_not_good() {
        assert!(observed().is_good());
        let mut lossy = observed();
        lossy.tunnels[1].lost = 1;
        assert!(!lossy.is_good());
        let mut silent = observed();
        silent.tunnels[0].sent = 0;
        assert!(!silent.is_good(), "a tunnel without packets shows nothing");
        let mut broken = observed();
        broken.transfers = 1;
        assert!(!broken.is_good());
    }

    #[test]
    fn without_a_control_nothing_is_shown() {
        let mut blind = observed();
        blind.control.lost = 0;
        assert!(!blind.is_good());
    }
}

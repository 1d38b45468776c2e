//! A wire in user space: two TAP devices and a thread for each direction between them.
//!
//! It delays, loses, reorders and repeats frames, which the kernel can only where it has netem. It also costs: a thread
//! that copies each frame twice. A run that lays one measures first its cost.

mod schedule;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_testbed::{Namespace, TestbedError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use self::schedule::Schedule;
pub(crate) use self::schedule::{Counts, FRAMING};
use crate::layout::{OUTER, WIRE};
use crate::link::Link;

/// A frame of an MTU of 1500, with room.
const FRAME: usize = 2048;
/// How long nothing may happen before a thread looks whether it should end.
const IDLE: Duration = Duration::from_millis(100);

/// A wire between two namespaces. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    stop: Arc<AtomicBool>,
    /// The counts of either direction.
    counts: [Arc<Mutex<Counts>>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// A frame under way: when it arrives, the how-manieth it is, and its bytes.
type UnderWay = Reverse<(Duration, u64, Vec<u8>)>;

impl Wire {
    /// Lays the wire and gives both ends their addresses.
    pub(crate) fn lay(server: &Namespace, client: &Namespace, link: &Link) -> Result<Wire, TestbedError> {
        let left = Arc::new(tap(server, OUTER[0])?);
        let right = Arc::new(tap(client, OUTER[1])?);
        let stop = Arc::new(AtomicBool::new(false));
        let counts: [Arc<Mutex<Counts>>; 2] = Default::default();
        let ways = [(Arc::clone(&left), Arc::clone(&right), 1), (right, left, 2)];
        let threads = ways.into_iter().zip(&counts).map(|((from, to, seed), counts)| {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(counts));
            let schedule = Schedule::new(link, seed);
            std::thread::spawn(move || carry(&from, &to, schedule, &stop, &counts))
        });
        Ok(Wire { threads: threads.collect(), stop, counts })
    }

    /// The counts of the frames of both directions so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counts in &self.counts {
            sum += *counts.lock().unwrap_or_else(PoisonError::into_inner);
        }
        sum
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// An Ethernet device in a namespace, with its address and without offloads.
fn tap(namespace: &Namespace, address: &str) -> Result<SyncDevice, TestbedError> {
    let build = || -> io::Result<SyncDevice> {
        let device = DeviceBuilder::new().name(WIRE).layer(Layer::L2).build_sync()?;
        device.set_nonblocking(true)?;
        Ok(device)
    };
    let device = namespace.enter(build)?;
    let device = device
        .map_err(|source| TestbedError::Network { what: "cannot make a TAP device".to_owned(), source })?;
    namespace.ip(&["address", "replace", &format!("{address}/24"), "dev", WIRE])?;
    namespace.ip(&["link", "set", WIRE, "txqueuelen", "1000", "up"])?;
    Ok(device)
}

/// Carries frames one way until `stop` is set or until a device is gone.
fn carry(
    from: &SyncDevice,
    to: &SyncDevice,
    mut schedule: Schedule,
    stop: &AtomicBool,
    counts: &Mutex<Counts>,
) {
    let start = Instant::now();
    let mut under_way: BinaryHeap<UnderWay> = BinaryHeap::new();
    let mut frame = vec![0; FRAME];
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let next = under_way.peek().map(|Reverse((arrival, ..))| *arrival);
        let wait = next.map_or(IDLE, |arrival| arrival.saturating_sub(start.elapsed()));
        let timeout = Timespec::try_from(wait.min(IDLE)).unwrap_or_default();
        let _ = poll(&mut [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)], Some(&timeout));
        loop {
            match from.recv(&mut frame) {
                Ok(length) => {
                    let bytes = frame.get(..length).unwrap_or_default();
                    for arrival in schedule.arrivals(start.elapsed(), length).into_iter().flatten() {
                        number += 1;
                        under_way.push(Reverse((arrival, number, bytes.to_vec())));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
            if is_due(&under_way, start.elapsed()) {
                break;
            }
        }
        *counts.lock().unwrap_or_else(PoisonError::into_inner) = schedule.counts();
        while is_due(&under_way, start.elapsed()) {
            if let Some(Reverse((_, _, bytes))) = under_way.pop() {
                // A device that is full drops it, as a real one would.
                let _ = to.send(&bytes);
            }
        }
    }
}

fn is_due(under_way: &BinaryHeap<UnderWay>, now: Duration) -> bool {
    under_way.peek().is_some_and(|Reverse((arrival, ..))| *arrival <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_testbed::{Ping, can_run};
    use std::net::IpAddr;

    #[test]
    fn a_round_trip_takes_both_delays_and_loss_is_lost() {
        if !can_run("a_round_trip_takes_both_delays_and_loss_is_lost", &["ip"]) {
            return;
        }
        let (server, client) = (Namespace::create("server").unwrap(), Namespace::create("client").unwrap());
        let link = Link { delay_ms: 10.0, loss: 0.05, ..Link::plain("x") };
        let wire = Wire::lay(&server, &client, &link).unwrap();
        let target: IpAddr = OUTER[0].parse().unwrap();
        let ping = Ping { timeout: Duration::from_secs(2), ..Ping::new(400, Duration::from_millis(2)) };
        let report = ping.run(&client, target).unwrap();
        // The fastest: of the others the machine may make more.
        let [least, ..] = report.round_trip.unwrap();
        assert!(least >= Duration::from_millis(20) && least < Duration::from_millis(30), "{least:?}");
        // Of 400 pairs, 9.75 % lose one or both.
        assert!((15..=70).contains(&report.lost()), "{}", report.lost());
        // A request that is lost has no answer that could be lost; the rest are the neighbours' questions.
        let counts = wire.counts();
        assert!(counts.handed >= 800 - u64::from(report.lost()), "{counts:?}");
        assert!(counts.lost >= u64::from(report.lost()), "{counts:?}");
    }

    #[test]
    fn what_arrives_twice_is_answered_twice() {
        if !can_run("what_arrives_twice_is_answered_twice", &["ip"]) {
            return;
        }
        let (server, client) = (Namespace::create("server").unwrap(), Namespace::create("client").unwrap());
        let link = Link { duplicate: 0.2, ..Link::plain("x") };
        let _wire = Wire::lay(&server, &client, &link).unwrap();
        let target: IpAddr = OUTER[0].parse().unwrap();
        let report = Ping::new(200, Duration::from_millis(1)).run(&client, target).unwrap();
        assert_eq!(report.lost(), 0);
        // The last answers' second copies come after the receiver has left.
        assert!(report.duplicates >= 40, "{}", report.duplicates);
    }
}

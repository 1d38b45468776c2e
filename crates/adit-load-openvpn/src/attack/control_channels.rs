//! Many attackers' control channels over UDP in one thread.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use adit_load::Counters;
use rustix::event::{Timespec, epoll};

use super::control_channel::{Behaviour, ControlChannel, Plan, Progress};
use super::sources::Sources;

/// A control channel that has not come to its end by then is given up.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Datagrams taken from one socket in a row.
const BATCH: usize = 16;
/// How long the thread waits for an event before it looks at the time.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// How many control channels there are.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// At once.
    pub at_once: usize,
    /// That begin in a second.
    pub per_second: u32,
}

struct Slot {
    socket: UdpSocket,
    channel: ControlChannel,
    since: Instant,
}

/// Begins control channels and replaces those that end until `counters` say stop.
struct ControlChannels<'a> {
    counters: &'a Counters,
    plan: Arc<Plan>,
    target: SocketAddr,
    sources: Sources,
    poll: OwnedFd,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    begun: u64,
}

/// Runs them in the calling thread.
pub(super) fn run(
    counters: &Counters,
    plan: Plan,
    target: SocketAddr,
    sources: Sources,
    pace: Pace,
) -> std::io::Result<()> {
    let mut channels = ControlChannels {
        counters,
        plan: Arc::new(plan),
        target,
        sources,
        poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        slots: std::iter::repeat_with(|| None).take(pace.at_once).collect(),
        free: (0..pace.at_once).rev().collect(),
        begun: 0,
    };
    let start = Instant::now();
    let mut next_sweep = start + TIMEOUT / 5;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
    while !counters.is_stopped() {
        let due = (start.elapsed().as_secs_f64() * f64::from(pace.per_second)) as u64;
        // What could not begin in its time is not made up for.
        channels.begin(due.saturating_sub(channels.begun).min(64) as usize);
        channels.begun = channels.begun.max(due.saturating_sub(64));
        events.clear();
        epoll::wait(&channels.poll, rustix::buffer::spare_capacity(&mut events), Some(&TICK))?;
        for event in &events {
            channels.receive(event.data.u64() as usize);
        }
        if Instant::now() >= next_sweep {
            next_sweep += TIMEOUT / 5;
            channels.give_up();
        }
    }
    Ok(())
}

impl ControlChannels<'_> {
    fn begin(&mut self, count: usize) {
        let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        for _ in 0..count {
            let Some(index) = self.free.pop() else { return };
            let channel = ControlChannel::new(&self.plan, self.begun, wall);
            self.begun += 1;
            let slot = self.sources.bind(self.begun, self.target).ok().and_then(|socket| {
                let data = epoll::EventData::new_u64(index as u64);
                epoll::add(&self.poll, &socket, data, epoll::EventFlags::IN).ok()?;
                Some(Slot { socket, channel, since: Instant::now() })
            });
            let Some(mut slot) = slot else {
                self.free.push(index);
                return;
            };
            self.counters.add_begun(1);
            slot.send();
            if let Some(place) = self.slots.get_mut(index) {
                *place = Some(slot);
            }
        }
    }

    fn receive(&mut self, index: usize) {
        let Some(Some(slot)) = self.slots.get_mut(index) else { return };
        let mut buffer = [0; 2048];
        for _ in 0..BATCH {
            let Some(datagram) = slot.socket.recv(&mut buffer).ok().and_then(|length| buffer.get(..length))
            else {
                return;
            };
            let before = slot.channel.rounds();
            let progress = slot.channel.handle(datagram);
            let rounds = slot.channel.rounds() - before;
            self.counters.add_done(rounds);
            slot.send();
            match progress {
                Progress::Open => {}
                Progress::Done => {
                    self.counters.add_done(1);
                    return self.leave(index);
                }
                Progress::Failed => return self.leave(index),
            }
        }
    }

    /// Its socket closes. The server hears nothing of it.
    fn leave(&mut self, index: usize) {
        if self.slots.get_mut(index).and_then(Option::take).is_some() {
            self.free.push(index);
        }
    }

    fn give_up(&mut self) {
        let endless = self.plan.behaviour == Behaviour::SoftResets;
        for index in 0..self.slots.len() {
            let late =
                |slot: &Slot| slot.since.elapsed() > TIMEOUT && !(endless && slot.channel.rounds() > 0);
            if self.slots.get(index).and_then(Option::as_ref).is_some_and(late) {
                self.leave(index);
            }
        }
    }
}

impl Slot {
    fn send(&mut self) {
        for datagram in self.channel.take_output() {
            // What the way does not take is lost.
            let _ = self.socket.send(&datagram);
        }
    }
}

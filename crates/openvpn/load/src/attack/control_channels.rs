//! Many attackers' control channels over UDP in one thread.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use adit_load::Counters;
use rustix::event::{Timespec, epoll};

use super::control_channel::{ControlChannel, Plan, Progress};
use super::sources::Sources;

/// How long a control channel is kept whose server does no more of its part.
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
    /// Control channels that begin in a second.
    pub per_second: u32,
}

struct Slot {
    socket: UdpSocket,
    channel: ControlChannel,
    /// When it began; of one that repeats its last step without end, when the server last did its part.
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
    let mut channels = ControlChannels::new(counters, plan, target, sources, pace)?;
    let start = Instant::now();
    let mut next_sweep = start + TIMEOUT / 5;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
    while !counters.is_stopped() {
        let due = (start.elapsed().as_secs_f64() * f64::from(pace.per_second)) as u64;
        // Control channels that could not begin in their time are not made up for.
        channels.begin(due.saturating_sub(channels.begun).min(64) as usize);
        channels.begun = channels.begun.max(due.saturating_sub(64));
        events.clear();
        epoll::wait(&channels.poll, rustix::buffer::spare_capacity(&mut events), Some(&TICK))?;
        for event in &events {
            channels.receive(event.data.u64() as usize);
        }
        if Instant::now() >= next_sweep {
            next_sweep += TIMEOUT / 5;
            channels.give_up(Instant::now());
        }
    }
    Ok(())
}

impl<'a> ControlChannels<'a> {
    fn new(
        counters: &'a Counters,
        plan: Plan,
        target: SocketAddr,
        sources: Sources,
        pace: Pace,
    ) -> std::io::Result<ControlChannels<'a>> {
        Ok(ControlChannels {
            counters,
            plan: Arc::new(plan),
            target,
            sources,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots: std::iter::repeat_with(|| None).take(pace.at_once).collect(),
            free: (0..pace.at_once).rev().collect(),
            begun: 0,
        })
    }

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
            slot.counted(rounds, Instant::now());
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

    /// Its socket closes. The server gets no message of it.
    fn leave(&mut self, index: usize) {
        if self.slots.get_mut(index).and_then(Option::take).is_some() {
            self.free.push(index);
        }
    }

    fn give_up(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            let is_late = |slot: &Slot| now.saturating_duration_since(slot.since) > TIMEOUT;
            if self.slots.get(index).and_then(Option::as_ref).is_some_and(is_late) {
                self.leave(index);
            }
        }
    }
}

impl Slot {
    /// The server did its part so often since the last call.
    fn counted(&mut self, rounds: u64, now: Instant) {
        if rounds > 0 {
            self.since = now;
        }
    }

    fn send(&mut self) {
        for datagram in self.channel.take_output() {
            // A datagram that the way does not take is lost.
            let _ = self.socket.send(&datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::{Behaviour, tls};
    use adit_openvpn::testing::Authority;
    use adit_openvpn::wrap::WrapConfig;
    use rcgen::ExtendedKeyUsagePurpose::ClientAuth;

    #[test]
    fn a_control_channel_is_given_up_when_the_server_does_no_more_for_it() {
        let credentials = Authority::new().issue("attacker", ClientAuth);
        let plan = Plan::new(Behaviour::SoftResets, WrapConfig::Plain, tls(&credentials).unwrap()).unwrap();
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (target, counters) = (silent.local_addr().unwrap(), Counters::default());
        let pace = Pace { at_once: 1, per_second: 1 };
        let mut channels = ControlChannels::new(&counters, plan, target, Sources::One, pace).unwrap();
        channels.begin(1);
        let later = |seconds: u64| Instant::now() + Duration::from_secs(seconds);
        channels.give_up(later(4));
        channels.slots[0].as_mut().unwrap().counted(0, later(4));
        channels.slots[0].as_mut().unwrap().counted(1, later(4));
        channels.give_up(later(8));
        assert!(channels.free.is_empty(), "it is at work");
        channels.slots[0].as_mut().unwrap().counted(0, later(8));
        channels.give_up(later(10));
        assert_eq!(channels.free, [0], "another may begin");
    }
}

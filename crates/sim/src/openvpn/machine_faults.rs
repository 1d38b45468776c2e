//! Faults of clocks and machines, smaller path MTUs, and clients that move to another network.

use crate::openvpn::event::Event;
use crate::openvpn::net::Transit;
use crate::openvpn::world::{START, World};
use crate::violation::Violation;

/// A wall clock is wrong by at most so many seconds: certificates stay valid.
const MAX_SKEW: u64 = 300 * 86_400;
/// The smallest path MTU: an IP packet of that size passes.
const MIN_MTU: u64 = 600;

impl World {
    pub(crate) fn schedule_machine_fault(&mut self) {
        // With many clients, faults are frequent.
        let (least, most) = if self.scenario.has_many_clients() { (1, 4) } else { (10, 200) };
        let pause = self.rng.faults.secs(least, most);
        self.schedule(self.now + pause, Event::MachineFault);
    }

    /// Whether an end's machine sleeps now.
    pub(crate) fn is_asleep(&self, end: usize) -> bool {
        self.hosts.get(end).is_some_and(|host| host.asleep_until > self.now)
    }

    /// Injects a fault, as long as the net is faulty.
    pub(crate) fn machine_fault(&mut self) -> Result<(), Violation> {
        if !self.net.faulty {
            return Ok(());
        }
        self.schedule_machine_fault();
        let end = self.rng.faults.between(0, self.scenario.clients as u64) as usize;
        match self.rng.faults.below(4) {
            0 | 1 if !self.scenario.clock_faults => {}
            0 => self.set_wall_clock(end),
            1 => self.fall_asleep(end),
            2 if end > 0 => {
                let until = self.now + self.rng.faults.secs(5, 60);
                let mtu = self.rng.faults.between(MIN_MTU, 1400) as usize;
                self.log(format_args!(
                    "no packet above {mtu} bytes passes to and from client {end} until {until:?}"
                ));
                self.net.limit_mtu(end, mtu, until);
            }
            _ if end > 0 => {
                self.log(format_args!("client {end} moves to another network"));
                let host = self.rng.faults.between(1, 250) as u8;
                let transits = self.net.move_to(self.now, end, [100, 64, end as u8, host]);
                self.schedule_transits(transits);
            }
            _ => {}
        }
        Ok(())
    }

    /// An end's wall clock is set to another time.
    fn set_wall_clock(&mut self, end: usize) {
        let most = if self.rng.faults.chance(500) { 3600 } else { MAX_SKEW };
        let skew = self.rng.faults.below(2 * most + 1) as i64 - most as i64;
        self.log(format_args!("end {end}'s clock is {skew} s wrong"));
        self.hosts[end].skew = skew;
        if let Some(end) = self.hosts[end].end.as_mut() {
            end.skew = skew;
        }
    }

    /// An end's machine sleeps: time passes without it.
    fn fall_asleep(&mut self, end: usize) {
        let phases = &self.scenario.phases;
        let last = START + phases.start + phases.faults;
        let until = (self.now + self.rng.faults.secs(1, 90)).min(last);
        self.log(format_args!("end {end} sleeps until {until:?}"));
        self.hosts[end].asleep_until = until;
        self.model.awake[end] = until;
    }

    /// Postpones an event of a machine that sleeps until it is awake; datagrams to it are lost.
    pub(crate) fn postpone(&mut self, event: Event) -> Option<Event> {
        let concerned = match &event {
            Event::Arrival(Transit::ToServer { .. }) => Some(crate::openvpn::model::SERVER),
            Event::Arrival(Transit::ToClient { to, .. }) => self.net.owner(*to).map(|(client, _)| client),
            Event::Arrival(
                Transit::Stream { connection, direction, .. } | Transit::Closed { connection, direction, .. },
            ) => self.net.connection_end(*connection, *direction).map(|(end, _)| end),
            Event::OpenCompleted { client, .. } => Some(*client),
            Event::Traffic(end)
            | Event::Input { end, .. }
            | Event::Order { end, .. }
            | Event::Reply { end, .. } => Some(*end),
            _ => None,
        };
        let Some(end) = concerned.filter(|end| self.is_asleep(*end)) else { return Some(event) };
        if !matches!(event, Event::Arrival(Transit::ToServer { .. } | Transit::ToClient { .. })) {
            self.schedule(self.hosts[end].asleep_until, event);
        }
        None
    }
}

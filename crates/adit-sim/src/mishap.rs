//! What goes wrong with clocks, with whole machines and with the width of ways.

use crate::model::Violation;
use crate::net::Transit;
use crate::world::{Happening, START, World};

/// A wall clock is wrong by at most so many seconds: certificates stay valid.
const MAX_SKEW: u64 = 300 * 86_400;
/// The narrowest that a way becomes: an IP packet of that size passes.
const NARROWEST: u64 = 600;

impl World {
    pub(crate) fn schedule_mishap(&mut self) {
        // In a crowd something is always wrong with somebody.
        let pause = if self.scenario.is_crowd() { self.more.secs(1, 4) } else { self.more.secs(10, 200) };
        self.schedule(self.now + pause, Happening::Mishap);
    }

    /// Whether an end's machine sleeps now.
    pub(crate) fn is_asleep(&self, end: usize) -> bool {
        self.asleep.get(end).is_some_and(|until| *until > self.now)
    }

    /// Something goes wrong, as long as the net is faulty.
    pub(crate) fn mishap(&mut self) -> Result<(), Violation> {
        if !self.net.faulty {
            return Ok(());
        }
        self.schedule_mishap();
        let end = self.more.between(0, self.scenario.clients as u64) as usize;
        match self.more.below(4) {
            0 | 1 if !self.scenario.bad_clocks => {}
            0 => self.jump(end),
            1 => self.fall_asleep(end),
            2 if end > 0 => {
                let until = self.now + self.more.secs(5, 60);
                let mtu = self.more.between(NARROWEST, 1400) as usize;
                self.log(format_args!(
                    "no packet above {mtu} bytes passes to and from client {end} until {until:?}"
                ));
                self.net.narrow(end, mtu, until);
            }
            _ if end > 0 => {
                self.log(format_args!("client {end} moves to another network"));
                let host = self.more.between(1, 250) as u8;
                let news = self.net.move_to(self.now, end, [100, 64, end as u8, host]);
                self.send_off(news);
            }
            _ => {}
        }
        Ok(())
    }

    /// An end's wall clock is set to another time.
    fn jump(&mut self, end: usize) {
        let most = if self.more.chance(500) { 3600 } else { MAX_SKEW };
        let skew = self.more.below(2 * most + 1) as i64 - most as i64;
        self.log(format_args!("end {end}'s clock is {skew} s wrong"));
        self.skews[end] = skew;
        if let Some(end) = self.ends[end].as_mut() {
            end.skew = skew;
        }
    }

    /// An end's machine sleeps: time passes without it.
    fn fall_asleep(&mut self, end: usize) {
        let phases = &self.scenario.phases;
        let last = START + phases.start + phases.faults;
        let until = (self.now + self.more.secs(1, 90)).min(last);
        self.log(format_args!("end {end} sleeps until {until:?}"));
        self.asleep[end] = until;
        self.model.awake[end] = until;
    }

    /// What concerns a machine that sleeps waits until it is awake; datagrams to it are lost.
    pub(crate) fn put_off(&mut self, happening: Happening) -> Option<Happening> {
        let concerned = match &happening {
            Happening::Arrival(Transit::ToServer { .. }) => Some(crate::model::SERVER),
            Happening::Arrival(Transit::ToClient { to, .. }) => self.net.owner(*to).map(|(client, _)| client),
            Happening::Arrival(
                Transit::Stream { connection, way, .. } | Transit::Closed { connection, way, .. },
            ) => self.net.connection_end(*connection, *way).map(|(end, _)| end),
            Happening::Opening { client, .. } => Some(*client),
            Happening::Traffic(end)
            | Happening::Mail { end, .. }
            | Happening::Order { end, .. }
            | Happening::Answer { end, .. } => Some(*end),
            _ => None,
        };
        let Some(end) = concerned.filter(|end| self.is_asleep(*end)) else { return Some(happening) };
        if !matches!(happening, Happening::Arrival(Transit::ToServer { .. } | Transit::ToClient { .. })) {
            self.schedule(self.asleep[end], happening);
        }
        None
    }
}

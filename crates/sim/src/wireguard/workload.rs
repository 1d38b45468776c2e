//! Packets and handshakes that are ordered.

use std::time::Duration;

use adit_core::{Command, Instant};

use super::model::REJECT_AFTER;
use super::scenario::HANDSHAKE;
use super::settings::inner;
use super::world::{START, Scheduled, World};
use crate::packet::NUMBER_LEN;
use crate::packets::Fate;
use crate::violation::{MAX_TRANSIT, Violation};

/// The largest payload of a packet: with IPv6 and UDP in front, it fits the smallest MTU.
const MAX_PAYLOAD: u64 = 1280 - 48;
/// A session younger than this has not ended before a packet arrives.
const USABLE: Duration = Duration::from_secs(178);
/// How often packets go to all while all are to reach each other.
const URGENT: Duration = Duration::from_secs(1);

impl World {
    /// Whether packets go to all, so that all reach each other.
    fn is_urgent(&self) -> bool {
        let [_, clean, calm, ..] = self.parts();
        self.now < START + super::scenario::RECOVERY || (clean..calm).contains(&self.now)
    }

    /// Whether nothing may be lost that is sent now.
    pub(crate) fn is_calm(&self) -> bool {
        let [faulty, _, calm, ..] = self.parts();
        let settled = START + super::scenario::RECOVERY;
        (settled..faulty).contains(&self.now) || self.now >= calm
    }

    /// An end sends packets.
    pub(crate) fn send(&mut self, end: usize) -> Result<(), Violation> {
        let [.., silent, again, over] = self.parts();
        let mean = if self.is_urgent() { URGENT } else { self.scenario.intervals.packet };
        self.schedule_around(mean, Scheduled::Send(end));
        if (silent..again).contains(&self.now) || self.now >= over || self.is_asleep(end) {
            return Ok(());
        }
        let pairs = self.scenario.pairs.iter().filter(|pair| pair.ends.contains(&end));
        let mut others: Vec<usize> = pairs.map(|pair| pair.ends[usize::from(pair.ends[0] == end)]).collect();
        if !self.is_urgent() && !others.is_empty() {
            others = vec![self.rng.pick(&others)];
        }
        for other in others {
            self.send_to(end, other)?;
        }
        Ok(())
    }

    fn send_to(&mut self, end: usize, other: usize) -> Result<(), Violation> {
        let family = self.rng.below(2) as usize;
        let most = if self.rng.chance(200) { MAX_PAYLOAD } else { 100 };
        let len = self.rng.between(NUMBER_LEN as u64, most) as usize;
        // Now and then the source is an address of neither.
        let forged = self.rng.chance(30).then(|| inner(self.hosts.len())[family]);
        let fate = if forged.is_some() { Fate::Refused } else { self.fate(end, other) };
        if self.hosts[end].end.is_none() {
            return Ok(());
        }
        let (source, destination) = (forged.unwrap_or(inner(end)[family]), inner(other)[family]);
        let packet = self.model.packets.send(self.now, (end, source), (other, destination), len, fate);
        self.log(format_args!("end {end} sends to {other}: {fate:?}"));
        self.with(end, |end, _| end.send(packet))
    }

    /// The fate that a packet must have that is sent now. Without a session, it waits for one.
    fn fate(&self, end: usize, other: usize) -> Fate {
        if !self.is_calm() || !self.knows(end, other) {
            return Fate::MayBeLost;
        }
        let age = self.age(end, other);
        // The session may end at the other end while a packet is on its way.
        if age.is_some_and(|age| (USABLE..REJECT_AFTER).contains(&age)) {
            return Fate::MayBeLost;
        }
        let usable = age.is_some_and(|age| age < USABLE);
        // While a packet waits, the other end may move.
        if !usable && self.scenario.ends[other].mobile {
            return Fate::MayBeLost;
        }
        let wait = if usable { MAX_TRANSIT } else { HANDSHAKE };
        let by = self.now + wait;
        // The faults begin again before it must have arrived.
        let [faulty, clean, ..] = self.parts();
        if (faulty..clean).contains(&by) { Fate::MayBeLost } else { Fate::ArrivesBy(by) }
    }

    /// Whether an end knows where another one is.
    pub(crate) fn knows(&self, end: usize, other: usize) -> bool {
        let address = self.net.address(other);
        let Some(running) = &self.hosts[end].end else { return false };
        match self.peer(end, other).and_then(|id| running.path(id)) {
            Some(path) => path.remote() == address,
            None => false,
        }
    }

    /// A handshake is ordered at one end of a pair, or at both.
    pub(crate) fn rekey(&mut self) -> Result<(), Violation> {
        self.schedule_around(self.scenario.intervals.rekey, Scheduled::Rekey);
        let at = self.rng.below(self.scenario.pairs.len() as u64) as usize;
        let Some([one, other]) = self.scenario.pairs.get(at).map(|pair| pair.ends) else { return Ok(()) };
        let chosen = self.rng.pick(&[(true, false), (false, true), (true, true)]);
        for (end, other, ordered) in [(one, other, chosen.0), (other, one, chosen.1)] {
            if let Some(peer) = self.peer(end, other).filter(|_| ordered && !self.is_asleep(end)) {
                self.with(end, |end, now| end.command(now, Command::Rekey { peer }))?;
            }
        }
        Ok(())
    }

    /// An end that moves gets another address where nothing may be lost.
    pub(crate) fn roam(&mut self) -> Result<(), Violation> {
        self.schedule_around(Duration::from_secs(30), Scheduled::Roam);
        if self.now < self.parts()[5] {
            self.move_one();
        }
        Ok(())
    }

    pub(crate) fn move_one(&mut self) {
        let mobile: Vec<usize> =
            (0..self.hosts.len()).filter(|end| self.scenario.ends[*end].mobile).collect();
        if !mobile.is_empty() {
            let end = self.rng.pick(&mobile);
            self.net.move_end(self.now, end);
            self.log(format_args!("end {end} is at {} now", self.net.address(end)));
        }
    }

    /// The last moment that counts.
    pub(crate) fn ends_at(&self) -> Instant {
        self.parts()[5]
    }
}

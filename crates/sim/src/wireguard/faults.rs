//! Faults of processes, machines, clocks and the network, and an attacker.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use adit_core::Command;
use adit_wireguard::{Changes, PeerChange, Reply};

use super::settings;
use super::world::{Scheduled, World};
use crate::violation::Violation;

/// The attacker's own address.
pub(crate) const ATTACKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), 9);
const YEAR: i64 = 365 * 86_400;

impl World {
    /// Injects a fault, as long as the net is faulty.
    pub(crate) fn fault(&mut self) -> Result<(), Violation> {
        if !self.net.faulty {
            return Ok(());
        }
        self.schedule_around(self.scenario.intervals.fault, Scheduled::Fault);
        let pairs = self.scenario.pairs.len() as u64;
        let Some([one, other]) =
            self.scenario.pairs.get(self.rng.below(pairs) as usize).map(|pair| pair.ends)
        else {
            return Ok(());
        };
        let (one, other) = if self.rng.chance(500) { (one, other) } else { (other, one) };
        match self.rng.below(16) {
            0 | 1 => self.crash(one),
            2 => {
                self.crash(one);
                self.crash(other);
            }
            3 => self.fall_asleep(one),
            4 => return self.jump(one),
            5 => {
                let until = self.now + self.rng.secs(1, 300);
                self.log(format_args!("nothing passes to and from end {one} until {until:?}"));
                self.net.cut_off(one, until);
            }
            6 => {
                self.log(format_args!("end {one} starts over"));
                self.model.forget_initiations(one);
                return self.order(one, Command::Restart);
            }
            7 => {
                let Some(peer) = self.peer(one, other) else { return Ok(()) };
                self.log(format_args!("end {one} disconnects {other}"));
                return self.order(one, Command::Disconnect { peer });
            }
            8 | 9 => {
                let loaded = self.rng.chance(600);
                self.log(format_args!("end {one} is under load: {loaded}"));
                return self.with(one, |end, now| end.reply(now, Reply::UnderLoad(loaded)));
            }
            10 => return self.add_anew(one, other),
            11 => self.swap(),
            _ => self.move_one(),
        }
        Ok(())
    }

    fn order(&mut self, end: usize, command: Command) -> Result<(), Violation> {
        if self.is_asleep(end) { Ok(()) } else { self.with(end, |end, now| end.command(now, command)) }
    }

    /// An end's process is killed, and starts again. Its clock may start in 1970, and be set later.
    fn crash(&mut self, end: usize) {
        if self.hosts[end].end.is_none() {
            return;
        }
        self.stop(end);
        if self.rng.chance(300) {
            self.hosts[end].skew = settings::skew_of_1970(self.now);
            let set = self.now + self.rng.secs(5, 200);
            self.schedule(set, Scheduled::ClockSet(end));
        }
        let pause = self.rng.millis(0, 3000);
        let at = (self.now + pause).max(self.hosts[end].asleep_until);
        self.schedule(at, Scheduled::Start(end));
    }

    /// An end's machine sleeps, for ten minutes or more now and then: time passes without it, and is counted.
    fn fall_asleep(&mut self, end: usize) {
        let time = if self.rng.chance(300) { self.rng.secs(600, 700) } else { self.rng.secs(1, 90) };
        let [_, clean, ..] = self.parts();
        let until = (self.now + time).min(clean).max(self.hosts[end].asleep_until);
        self.log(format_args!("end {end} sleeps until {until:?}"));
        self.hosts[end].asleep_until = until;
    }

    /// An end's clock is set, by an hour at most or by a year.
    fn jump(&mut self, end: usize) -> Result<(), Violation> {
        let skew = match self.rng.below(4) {
            0 => -YEAR,
            1 => YEAR,
            _ => self.rng.below(7200) as i64 - 3600,
        };
        self.set_clock(end, skew)
    }

    pub(crate) fn set_clock(&mut self, end: usize, skew: i64) -> Result<(), Violation> {
        self.log(format_args!("end {end}'s clock is {skew} s wrong"));
        self.hosts[end].skew = skew;
        self.with(end, |end, now| end.reply(now, Reply::Clock(settings::clock(now, skew))))
    }

    /// A peer is removed and added again, as `wg set` does it.
    fn add_anew(&mut self, end: usize, other: usize) -> Result<(), Violation> {
        let address = self.net.address(other);
        let Some(added) = settings::peer(&self.scenario, end, other, Some(address)) else { return Ok(()) };
        if self.is_asleep(end) {
            return Ok(());
        }
        self.log(format_args!("end {end} removes {other} and adds it again"));
        self.model.forget_initiations(end);
        self.model.lost_keys(other);
        let removed = PeerChange { remove: true, ..PeerChange::new(added.public_key) };
        let changes = Changes { peers: vec![removed, added], ..Changes::default() };
        let changes = Box::new(changes);
        self.with(end, |end, now| end.reply(now, Reply::Configure { id: 1, changes }))
    }

    /// Two ends that move get each other's addresses.
    fn swap(&mut self) {
        let mobile: Vec<usize> =
            (0..self.hosts.len()).filter(|end| self.scenario.ends[*end].mobile).collect();
        let [one, other, ..] = mobile.as_slice() else { return };
        self.log(format_args!("ends {one} and {other} get each other's addresses"));
        self.net.swap(*one, *other);
        self.model.ignore_initiations();
    }

    /// A datagram that arrived comes again, perhaps changed, perhaps from elsewhere.
    pub(crate) fn attack(&mut self) {
        let Some(mean) = self.scenario.intervals.attack else { return };
        if self.now < self.ends_at() {
            let mean = mean.as_millis() as u64;
            let pause = self.attacker.millis(mean / 2, mean * 3 / 2);
            self.schedule(self.now + pause.max(Duration::from_millis(1)), Scheduled::Attack);
        }
        if self.captured.is_empty() {
            return;
        }
        let at = self.attacker.below(self.captured.len() as u64) as usize;
        let Some((from, to, mut datagram)) = self.captured.get(at).cloned() else { return };
        if self.attacker.chance(400) {
            let len = datagram.len() as u64;
            if let Some(byte) = datagram.get_mut(self.attacker.below(len) as usize) {
                *byte ^= 1 << self.attacker.below(8);
            }
        }
        let from = if self.attacker.chance(500) { from } else { ATTACKER };
        self.schedule(self.now, Scheduled::Arrival { from, to, datagram });
    }
}

//! What is looked at again and again: limits, losses, and whether everybody is up.

use std::time::Duration;

use adit_dataplane::DropReason;

use crate::end::{End, Machine};
use crate::identity::client_name;
use crate::model::{SERVER, Tunnel, Violation};
use crate::world::{Happening, World};

/// After the packet that begins its session, a client stays half-open no longer than its window and this.
const REFUSAL_TIME: Duration = Duration::from_secs(6);
/// All that judge one client, one after the other, each at once or later.
const SCRIPTS_TAKE: Duration = Duration::from_secs(20);

impl World {
    /// A second passed: ends hear of their traffic, and the model looks around.
    pub(crate) fn second(&mut self) -> Result<(), Violation> {
        self.schedule(self.now + Duration::from_secs(1), Happening::Second);
        for number in 0..self.ends.len() {
            if self.is_asleep(number) {
                continue;
            }
            if let Some(end) = self.ends[number].as_mut() {
                end.second(self.now)?;
                self.rejected += std::mem::take(&mut end.rejected);
                self.settle(number)?;
            }
        }
        if self.net.faulty {
            let settled = |tunnel: &&Tunnel| tunnel.is_settled(self.now, Duration::ZERO);
            self.up.0 += self.model.tunnels.iter().filter(settled).count() as u64;
            self.up.1 += self.scenario.clients as u64;
        }
        self.model.check_nothing_lost(self.now)?;
        self.check_limits()?;
        self.check_learned()?;
        self.check_questions()?;
        self.check_program()?;
        self.check_strangers()?;
        self.check_drops()?;
        self.check_half_open()
    }

    /// The server closes connections of which nothing comes.
    fn check_strangers(&mut self) -> Result<(), Violation> {
        let life = self.scenario.timing[SERVER].hand_window + REFUSAL_TIME;
        let awake = self.model.awake[SERVER] + REFUSAL_TIME;
        while let Some((since, path)) = self.strangers.front()
            && (*since + life).max(awake) < self.now
        {
            if self.net.server_has(*path) {
                return Err(Violation::new(format!("the server keeps {path}, though nothing came of it")));
            }
            self.strangers.pop_front();
        }
        Ok(())
    }

    /// No more half-open clients than resets that could have made them.
    fn check_half_open(&mut self) -> Result<(), Violation> {
        // The answer to a reset may come back for one and a half windows; then a window begins.
        let window = self.scenario.timing[SERVER].hand_window;
        let scripts = if self.scenario.scripts { SCRIPTS_TAKE } else { Duration::ZERO };
        // Who says nothing is waited for.
        let program = if self.scenario.program { window } else { Duration::ZERO };
        let life = window * 5 / 2 + REFUSAL_TIME + scripts + program;
        let awake = self.model.awake[SERVER] + REFUSAL_TIME;
        while self.resets.front().is_some_and(|at| (*at + life).max(awake) < self.now) {
            self.resets.pop_front();
        }
        let Some(End { machine: Machine::Server(server), .. }) = &self.ends[SERVER] else { return Ok(()) };
        if server.half_open() > self.resets.len() {
            return Err(Violation::new(format!(
                "the server has {} half-open clients of {} recent resets",
                server.half_open(),
                self.resets.len()
            )));
        }
        Ok(())
    }

    /// Without an attacker, a clean net brings nothing that must be dropped, except the packets with forged
    /// sources; nor has anybody something to send and no keys.
    fn check_drops(&mut self) -> Result<(), Violation> {
        // A client that the server dropped without a word goes on for a while.
        let ends_early = self.scenario.limits.length.is_some();
        if self.scenario.attack_every.is_some() || ends_early || self.now < self.calm_at_end().0 {
            return Ok(());
        }
        let count = |end: &Option<End>| {
            let Some(end) = end else { return 0 };
            let snapshot = end.counters.snapshot();
            let all: u64 = snapshot.ingress.drops.iter().chain(&snapshot.egress.drops).sum();
            all - snapshot.ingress.dropped(DropReason::BadSource)
        };
        let drops: Vec<u64> = self.ends.iter().map(count).collect();
        if self.drops.is_empty() {
            self.drops.clone_from(&drops);
        }
        if self.drops != drops {
            return Err(Violation::new(format!("drops on a clean net: {:?}, then {drops:?}", self.drops)));
        }
        Ok(())
    }

    /// All tunnels are up at both ends, and the ends agree.
    pub(crate) fn check_all_up(&mut self) -> Result<(), Violation> {
        self.log(format_args!("all must be up"));
        // Whose session was over lately may still be on the way back.
        let bound = self.scenario.phases.recovery;
        let (over, here): (Vec<usize>, Vec<usize>) =
            (1..=self.scenario.clients).partition(|client| self.limits.was_over(*client, self.now, bound));
        let Some(server) = &self.ends[SERVER] else {
            return if over.is_empty() { Err(Violation::new("the server is not there")) } else { Ok(()) };
        };
        let peers = server.machine.peers();
        for number in here {
            let name = client_name(number);
            let ours = self.ends[number].as_ref().map(|end| end.machine.peers()).unwrap_or_default();
            let theirs: Vec<_> = peers.iter().filter(|(_, info)| info.name == name).collect();
            let agree = match (ours.as_slice(), theirs.as_slice()) {
                // The server knows one address of a point-to-point tunnel's other end.
                ([(_, ours)], [(_, theirs)]) if self.scenario.point.is_some() => {
                    ours.addresses.first() == theirs.addresses.first()
                }
                ([(_, ours)], [(_, theirs)]) => ours.addresses == theirs.addresses,
                _ => false,
            };
            if !agree {
                return Err(Violation::new(format!(
                    "{name} is not up again in time: up {} times at its own end, {} times at the server's",
                    ours.len(),
                    theirs.len()
                )));
            }
        }
        if !over.is_empty() {
            return Ok(());
        }
        if peers.len() != self.scenario.clients {
            return Err(Violation::new(format!("the server has {} clients up", peers.len())));
        }
        for (number, end) in self.ends.iter().enumerate() {
            let known = end.as_ref().map_or(0, |end| end.counters.snapshot().peers.len());
            let expected = if number == SERVER { self.scenario.clients } else { 1 };
            if known != expected {
                return Err(Violation::new(format!("end {number}'s data plane has {known} peers")));
            }
        }
        Ok(())
    }
}

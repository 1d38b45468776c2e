//! Checks that run every second (limits, losses, drops, half-open clients), that an end does not end too early, and that all
//! tunnels are up.

use std::time::Duration;

use adit_core::{Ended, Protocol as _};
use adit_dataplane::DropReason;
use adit_openvpn::request::PeerInfo;

use crate::openvpn::end::{End, Machine};
use crate::openvpn::event::Event;
use crate::openvpn::identity::client_name;
use crate::openvpn::limits::CLIENT;
use crate::openvpn::model::{SERVER, Tunnel};
use crate::openvpn::world::{Host, World};
use crate::violation::Violation;

/// After the packet that begins its control channel, a client stays half-open no longer than its window and this.
const REFUSAL_TIME: Duration = Duration::from_secs(6);
/// The longest time of all scripts that authenticate one client, one after the other, deferred or not.
const SCRIPTS_TAKE: Duration = Duration::from_secs(20);

impl World {
    /// A second passed: machines get counters of their traffic, and all checks run.
    pub(crate) fn second(&mut self) -> Result<(), Violation> {
        self.schedule(self.now + Duration::from_secs(1), Event::Second);
        for number in 0..self.hosts.len() {
            if self.is_asleep(number) {
                continue;
            }
            if let Some(end) = self.hosts[number].end.as_mut() {
                end.second(self.now)?;
                self.stats.rejected += std::mem::take(&mut end.rejected);
                self.settle(number)?;
            }
        }
        if self.net.faulty {
            let settled = |tunnel: &&Tunnel| tunnel.is_settled(self.now, Duration::ZERO);
            self.stats.up_seconds += self.model.tunnels.iter().filter(settled).count() as u64;
            self.stats.faulty_seconds += self.scenario.clients as u64;
        }
        self.model.packets.check_nothing_lost(self.now)?;
        self.check_limits()?;
        self.check_learned()?;
        self.check_challenges()?;
        self.check_management()?;
        self.check_unauthenticated()?;
        self.check_drops()?;
        self.check_half_open()
    }

    /// The server closes connections that never authenticate.
    fn check_unauthenticated(&mut self) -> Result<(), Violation> {
        let lifetime = self.scenario.control.timing[SERVER].hand_window + REFUSAL_TIME;
        let awake = self.model.awake[SERVER] + REFUSAL_TIME;
        while let Some((since, path)) = self.checks.unauthenticated.front()
            && (*since + lifetime).max(awake) < self.now
        {
            if self.net.server_has(*path) {
                return Err(Violation::new(format!(
                    "the server keeps {path}, though its peer did not authenticate"
                )));
            }
            self.checks.unauthenticated.pop_front();
        }
        Ok(())
    }

    /// No more half-open clients than resets that could have made them.
    fn check_half_open(&mut self) -> Result<(), Violation> {
        // The answer to a reset may come back for one and a half windows; then a window begins.
        let window = self.scenario.control.timing[SERVER].hand_window;
        let scripts = if self.scenario.auth.scripts { SCRIPTS_TAKE } else { Duration::ZERO };
        // The server waits a window for a management client that does not answer.
        let management = if self.scenario.auth.management { window } else { Duration::ZERO };
        let lifetime = window * 5 / 2 + REFUSAL_TIME + scripts + management;
        let awake = self.model.awake[SERVER] + REFUSAL_TIME;
        while self.checks.resets.front().is_some_and(|at| (*at + lifetime).max(awake) < self.now) {
            self.checks.resets.pop_front();
        }
        let Some(End { machine: Machine::Server(server), .. }) = &self.hosts[SERVER].end else {
            return Ok(());
        };
        if server.half_open() > self.checks.resets.len() {
            return Err(Violation::new(format!(
                "the server has {} half-open clients of {} recent resets",
                server.half_open(),
                self.checks.resets.len()
            )));
        }
        Ok(())
    }

    /// Without an attacker, an end on a clean net drops nothing but packets with forged sources, and never lacks the
    /// keys to send.
    fn check_drops(&mut self) -> Result<(), Violation> {
        // A client that the server dropped without a word goes on for a while.
        let ends_early = self.scenario.limits.length.is_some();
        if self.scenario.intervals.attack.is_some() || ends_early || self.now < self.calm_at_end().0 {
            return Ok(());
        }
        let count = |host: &Host| {
            let Some(end) = &host.end else { return 0 };
            let snapshot = end.counters.snapshot();
            let all: u64 = snapshot.ingress.drops.iter().chain(&snapshot.egress.drops).sum();
            all - snapshot.ingress.dropped(DropReason::BadSource)
        };
        let drops: Vec<u64> = self.hosts.iter().map(count).collect();
        if self.checks.drops.is_empty() {
            self.checks.drops.clone_from(&drops);
        }
        if self.checks.drops != drops {
            return Err(Violation::new(format!(
                "drops on a clean net: {:?}, then {drops:?}",
                self.checks.drops
            )));
        }
        Ok(())
    }

    /// All tunnels are up at both ends, and the ends agree.
    pub(crate) fn check_all_up(&mut self) -> Result<(), Violation> {
        self.log(format_args!("all must be up"));
        // A client whose time was over lately may still be connecting.
        let bound = self.scenario.phases.recovery;
        let (over, expected): (Vec<usize>, Vec<usize>) = (1..=self.scenario.clients)
            .partition(|client| self.checks.limits.was_over(*client, self.now, bound));
        let Some(server) = &self.hosts[SERVER].end else {
            return if over.is_empty() { Err(Violation::new("the server is not running")) } else { Ok(()) };
        };
        let peers = server.machine.peers();
        for number in expected {
            let name = client_name(number);
            let ours = self.hosts[number].end.as_ref().map(|end| end.machine.peers()).unwrap_or_default();
            let theirs: Vec<_> = peers.iter().filter(|(_, info)| info.name == name).collect();
            let agree = match (ours.as_slice(), theirs.as_slice()) {
                // The server knows one address of a point-to-point tunnel's other end.
                ([(_, ours)], [(_, theirs)]) if self.scenario.point_to_point.is_some() => {
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
        for (number, host) in self.hosts.iter().enumerate() {
            let known = host.end.as_ref().map_or(0, |end| end.counters.snapshot().peers.len());
            let expected = if number == SERVER { self.scenario.clients } else { 1 };
            if known != expected {
                return Err(Violation::new(format!("end {number}'s data plane has {known} peers")));
            }
        }
        Ok(())
    }

    /// Challenges arrive while the tunnel is up.
    pub(crate) fn check_challenges(&self) -> Result<(), Violation> {
        self.checks.challenges.check(self.now, &self.model.tunnels)
    }

    /// No connection goes on whose time is over.
    pub(crate) fn check_limits(&self) -> Result<(), Violation> {
        for client in 1..=self.scenario.clients {
            let tunnel = &self.model.tunnels[client - 1];
            for (side, end, up) in
                [(SERVER, SERVER, tunnel.server.is_some()), (CLIENT, client, tunnel.client.is_some())]
            {
                if up && !self.is_asleep(end) {
                    self.checks.limits.check(self.now, client, side, self.model.awake[end])?;
                }
            }
        }
        Ok(())
    }

    /// No process ends of itself, unless a connection is over or (with `ping-exit`) the other end is silent.
    pub(crate) fn check_end(&mut self, number: usize, ended: &Ended) -> Result<(), Violation> {
        let exits = self.scenario.point_to_point.is_some_and(|point| point.ping_exit);
        if *ended != Ended::Shutdown || self.hosts[number].shutdown_ordered || (exits && !self.is_calm()) {
            return Ok(());
        }
        let (client, side) = if number == SERVER { (1, SERVER) } else { (number, CLIENT) };
        self.checks.limits.end(self.now, client, side, self.model.awake[number])
    }

    /// The script knows the clients that are up, and no others.
    pub(crate) fn check_learned(&self) -> Result<(), Violation> {
        let Some(Machine::Server(server)) = self.hosts[SERVER].end.as_ref().map(|end| &end.machine) else {
            return Ok(());
        };
        if !self.scenario.auth.learn_address {
            return Ok(());
        }
        let mut up = Vec::new();
        for (index, tunnel) in self.model.tunnels.iter().enumerate() {
            if let Some((_, addresses)) = &tunnel.server {
                let name = client_name(index + 1);
                self.checks.learned.check_client(&name, addresses)?;
                up.push(name);
            }
        }
        // The script knows the addresses of a half-open client before it is up.
        match self.checks.learned.0.iter().find(|(_, name)| !up.contains(name)) {
            Some((network, name)) if server.half_open() == 0 => {
                Err(Violation::new(format!("learn-address still knows {network} of {name}, which is gone")))
            }
            _ => Ok(()),
        }
    }

    /// Checks the clients that are up and half-open against the management client's.
    pub(crate) fn check_management(&self) -> Result<(), Violation> {
        let Some(Machine::Server(server)) = self.hosts[SERVER].end.as_ref().map(|end| &end.machine) else {
            return Ok(());
        };
        if !self.scenario.auth.management {
            return Ok(());
        }
        let identity = |(_, info): (_, PeerInfo)| (info.detail.number, info.name);
        let up: Vec<_> = server.peers().into_iter().map(identity).collect();
        self.checks.management.check_up(&up, server.half_open())
    }
}

//! The workload: inner packets, ordered renegotiations, and faults of processes and the network.

use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Command, PeerId};

use crate::openvpn::event::Event;
use crate::openvpn::limits::CLIENT;
use crate::openvpn::model::SERVER;
use crate::openvpn::settings::network_behind;
use crate::openvpn::third_party::Implementation;
use crate::openvpn::world::{START, World};
use crate::packet::NUMBER_LEN;
use crate::rng::Rng;
use crate::violation::Violation;

/// Packets of one sender that leave together, at most.
const MAX_BURST: u64 = 4;
/// The largest payload of an inner packet.
const MAX_PAYLOAD: u64 = 1400;
/// Bytes before the payload at most: IPv6 and UDP.
const INNER_HEADERS: usize = 48;
/// The longest that OpenVPN 3 takes to complete an exchange on its side, with moderate faults.
const PROMOTED: Duration = Duration::from_secs(10);
/// Both ends of a tunnel know that it is up after this time.
const SETTLED: Duration = Duration::from_secs(2);

impl World {
    /// A time near `mean`: half to one and a half of it.
    pub(crate) fn near(&mut self, mean: Duration) -> Duration {
        let mean = mean.as_millis() as u64;
        self.rng.workload.millis(mean / 2, mean + mean / 2)
    }

    /// An end sends a burst of packets, if it has a tunnel.
    pub(crate) fn traffic(&mut self, end: usize) -> Result<(), Violation> {
        let pause = self.near(self.scenario.intervals.packet);
        self.schedule(self.now + pause, Event::Traffic(end));
        self.trace.note(
            self.now,
            &[],
            format_args!("end {end} sends, from packet {}", self.model.packets.sent()),
        );
        if self.now >= self.calm_at_end().1 {
            return Ok(());
        }
        let mut packets = Vec::new();
        for _ in 0..self.rng.workload.between(1, MAX_BURST) {
            packets.extend(if end == SERVER { self.packet_down() } else { self.packet_up(end) });
        }
        if let Some(machine) = self.hosts[end].end.as_mut() {
            machine.send_packets(&packets);
        }
        self.settle(end)
    }

    fn payload(&mut self) -> usize {
        let most = if self.rng.workload.chance(300) { MAX_PAYLOAD } else { 100 };
        self.rng.workload.between(NUMBER_LEN as u64, most) as usize
    }

    /// Whether a packet between the server and that client must arrive.
    pub(crate) fn must_arrive(&self, client: usize) -> bool {
        let settled = self.model.tunnels[client - 1].is_settled(self.now, SETTLED);
        self.is_calm() && settled && self.checks.limits.lasts(self.now, client)
    }

    fn packet_down(&mut self) -> Option<Vec<u8>> {
        let client = self.rng.workload.between(1, self.scenario.clients as u64) as usize;
        let family = self.rng.workload.below(2) as usize;
        let len = self.payload();
        if self.is_idle_period(client) {
            return None;
        }
        let source = *self.model.server_addresses.get(family)?;
        let destination = *self.model.tunnels[client - 1].server.as_ref()?.1.get(family)?;
        // Some packets are for the network behind the client.
        let destination =
            if family == 0 { self.behind(client, 300).unwrap_or(destination) } else { destination };
        let expected = self.must_arrive(client) && self.fits(len);
        self.checks.limits.record_packet(self.now, client, SERVER);
        Some(self.model.send(self.now, (SERVER, source), (client, destination), len, (false, expected)))
    }

    /// An address behind a client that has a network there, in so many of 1,000 cases.
    fn behind(&mut self, client: usize, per_mille: u64) -> Option<IpAddr> {
        let network = self.scenario.has_client_config(client).then(|| network_behind(client))?;
        self.rng.faults.chance(per_mille).then(|| network.hosts().nth(4)).flatten()
    }

    /// Whether a packet with a payload of that length fits through the net.
    fn fits(&self, len: usize) -> bool {
        len + INNER_HEADERS <= self.scenario.largest_inner()
    }

    fn packet_up(&mut self, client: usize) -> Option<Vec<u8>> {
        let family = self.rng.workload.below(2) as usize;
        let len = self.payload();
        let to = self.rng.workload.between(0, self.scenario.clients as u64) as usize;
        // Either end of a point-to-point tunnel may send from any address; and a packet that is dropped after it was
        // opened counts as activity for `inactive`, which the model cannot see.
        let honest = self.scenario.point_to_point.is_some() || self.scenario.limits.idle.is_some();
        let forged = self.rng.workload.chance(50) && !honest;
        let other = self.rng.workload.between(1, self.scenario.clients as u64) as usize;
        if self.is_idle_period(client) {
            return None;
        }
        let own = *self.model.tunnels[client - 1].client.as_ref()?.1.get(family)?;
        let routed = if family == 0 { self.behind(client, 300) } else { None };
        let source = if forged { self.forged_source(other, family, own)? } else { routed.unwrap_or(own) };
        let server = *self.model.server_addresses.get(family)?;
        let mut expected = self.must_arrive(client) && self.fits(len);
        let target = match self.model.tunnels.get(to.wrapping_sub(1)) {
            Some(tunnel) if to != client => tunnel.server.as_ref().map(|(_, addresses)| addresses.clone()),
            _ => None,
        };
        let (to, destination) = match target {
            None => (SERVER, server),
            Some(addresses) => {
                expected = expected && self.must_arrive(to);
                let receiver = if self.scenario.server.client_to_client { to } else { SERVER };
                (receiver, *addresses.get(family)?)
            }
        };
        self.checks.limits.record_packet(self.now, client, CLIENT);
        Some(self.model.send(self.now, (client, source), (to, destination), len, (forged, expected)))
    }

    /// An address that is not `own`: another client's, or one that no client has.
    fn forged_source(&self, client: usize, family: usize, own: IpAddr) -> Option<IpAddr> {
        let other = self.model.tunnels[client - 1].server.as_ref().and_then(|(_, all)| all.get(family));
        match other {
            Some(other) if *other != own => Some(*other),
            _ => ["203.0.113.9", "2001:db8::9"].get(family)?.parse().ok(),
        }
    }

    /// Orders one end of a tunnel, or both, to renegotiate.
    pub(crate) fn rekey(&mut self) -> Result<(), Violation> {
        let pause = self.near(self.scenario.intervals.rekey);
        // Now and then orders come in quick succession.
        let pause = if self.rng.workload.chance(200) { self.rng.workload.millis(50, 2000) } else { pause };
        self.schedule(self.now + pause, Event::Rekey);
        let client = self.rng.workload.between(1, self.scenario.clients as u64) as usize;
        let (at_client, at_server) = self.rng.workload.pick(&[(true, false), (false, true), (true, true)]);
        if at_client {
            self.command(client, Command::Rekey { peer: PeerId::SERVER })?;
        }
        match self.model.tunnels[client - 1].peer {
            Some(peer) if at_server && self.may_rekey(client, peer) => {
                self.command(SERVER, Command::Rekey { peer })
            }
            _ => Ok(()),
        }
    }

    /// OpenVPN 3 drops a key that is not its primary one yet when the next is made, with any server.
    fn may_rekey(&self, client: usize, peer: PeerId) -> bool {
        let last = self.model.last_keys(SERVER, peer).unwrap_or_default();
        let promotion = self.scenario.control.timing[1].hand_window + PROMOTED;
        self.scenario.implementation(client) != Some(Implementation::OpenVpn3) || self.now >= last + promotion
    }

    pub(crate) fn schedule_process_fault(&mut self) {
        let pause = self.near(self.scenario.intervals.fault);
        self.schedule(self.now + pause, Event::ProcessFault);
    }

    /// Injects a fault, as long as the net is faulty.
    pub(crate) fn process_fault(&mut self) -> Result<(), Violation> {
        if !self.net.faulty {
            return Ok(());
        }
        self.schedule_process_fault();
        let client = self.rng.workload.between(1, self.scenario.clients as u64) as usize;
        match self.rng.workload.below(12) {
            0 => self.command(client, Command::Restart),
            1 => self.command(client, Command::Shutdown),
            2 => self.kill(client),
            3 => self.kill(SERVER),
            4 => self.command(SERVER, Command::Shutdown),
            5 => match self.model.tunnels[client - 1].peer {
                Some(peer) => self.command(SERVER, Command::Disconnect { peer }),
                None => Ok(()),
            },
            6 => {
                self.log(format_args!("client {client}'s connections break"));
                let transits = self.net.break_connections(self.now, client);
                self.schedule_transits(transits);
                Ok(())
            }
            7 => {
                let until = self.now + self.rng.workload.secs(1, 90);
                self.log(format_args!("nothing passes to and from client {client} until {until:?}"));
                self.net.blackhole(client, until);
                Ok(())
            }
            8 => self.command(SERVER, Command::Restart),
            9 if client > 1 => {
                self.log(format_args!("clients 1 and {client} get each other's addresses"));
                self.net.swap(1, client);
                Ok(())
            }
            _ => {
                self.log(format_args!("client {client} gets a new address"));
                self.net.rebind(client);
                Ok(())
            }
        }
    }

    fn kill(&mut self, end: usize) -> Result<(), Violation> {
        if self.hosts[end].end.is_none() {
            return Ok(());
        }
        self.crash(end);
        let back = self.now + restart_pause(&mut self.rng.workload);
        self.schedule(back, Event::Start(end));
        Ok(())
    }

    /// Whether no packets are sent through that client's tunnel now, so that `inactive` may end it.
    fn is_idle_period(&self, client: usize) -> bool {
        let Some(idle) = self.scenario.limits.idle.filter(|_| self.net.faulty) else { return false };
        let spell = (self.now - START).as_secs() / (2 * idle.after.as_secs()).max(1);
        spell % 3 == client as u64 % 3
    }
}

/// How long a process is not running after it was killed.
fn restart_pause(rng: &mut Rng) -> Duration {
    rng.millis(100, 1000)
}

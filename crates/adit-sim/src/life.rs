//! What people and machines around the tunnels do: send packets, order renegotiations, fail.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Command, PeerId, Transport};

use crate::dice::Dice;
use crate::model::{SERVER, Violation};
use crate::net::Transit;
use crate::packet::NUMBER_LEN;
use crate::scenario::Wrapping;
use crate::world::{Happening, World};

/// Packets of one sender that leave together, at most.
const MAX_BURST: u64 = 4;
/// The largest payload of an inner packet.
const MAX_PAYLOAD: u64 = 1400;
/// Both ends of a tunnel know that it is up after this time.
const SETTLED: Duration = Duration::from_secs(2);
/// Ports from which an attacker sends.
const ATTACKER: ([u8; 4], u16) = ([203, 0, 113, 66], 40_000);

impl World {
    /// A time around `mean`: half to one and a half of it.
    fn around(&mut self, mean: Duration) -> Duration {
        let mean = mean.as_millis() as u64;
        self.dice.millis(mean / 2, mean + mean / 2)
    }

    /// An end sends a burst of packets, if it has a tunnel.
    pub(crate) fn traffic(&mut self, end: usize) -> Result<(), Violation> {
        let pause = self.around(self.scenario.packet_every);
        self.schedule(self.now + pause, Happening::Traffic(end));
        self.trace.note(self.now, &[], format_args!("end {end} sends, from packet {}", self.model.sent()));
        if self.now >= self.calm_at_end().1 {
            return Ok(());
        }
        let mut packets = Vec::new();
        for _ in 0..self.dice.between(1, MAX_BURST) {
            packets.extend(if end == SERVER { self.packet_down() } else { self.packet_up(end) });
        }
        if let Some(machine) = self.ends[end].as_mut() {
            machine.send_packets(&packets);
        }
        self.settle(end)
    }

    fn payload(&mut self) -> usize {
        let most = if self.dice.chance(300) { MAX_PAYLOAD } else { 100 };
        self.dice.between(NUMBER_LEN as u64, most) as usize
    }

    /// Whether a packet between the server and that client must arrive.
    fn is_sure(&self, client: usize) -> bool {
        self.is_calm() && self.model.tunnels[client - 1].is_settled(self.now, SETTLED)
    }

    fn packet_down(&mut self) -> Option<Vec<u8>> {
        let client = self.dice.between(1, self.scenario.clients as u64) as usize;
        let family = self.dice.below(2) as usize;
        let len = self.payload();
        let source = *self.model.server_addresses.get(family)?;
        let destination = *self.model.tunnels[client - 1].server.as_ref()?.1.get(family)?;
        let expected = self.is_sure(client);
        Some(self.model.send(self.now, (SERVER, source), (client, destination), len, (false, expected)))
    }

    fn packet_up(&mut self, client: usize) -> Option<Vec<u8>> {
        let family = self.dice.below(2) as usize;
        let len = self.payload();
        let to = self.dice.between(0, self.scenario.clients as u64) as usize;
        let forged = self.dice.chance(50);
        let stranger = self.dice.between(1, self.scenario.clients as u64) as usize;
        let own = *self.model.tunnels[client - 1].client.as_ref()?.1.get(family)?;
        let source = if forged { self.stranger(stranger, family, own)? } else { own };
        let server = *self.model.server_addresses.get(family)?;
        let mut expected = self.is_sure(client);
        let target = match self.model.tunnels.get(to.wrapping_sub(1)) {
            Some(tunnel) if to != client => tunnel.server.as_ref().map(|(_, addresses)| addresses.clone()),
            _ => None,
        };
        let (to, destination) = match target {
            None => (SERVER, server),
            Some(addresses) => {
                expected = expected && self.is_sure(to);
                let receiver = if self.scenario.client_to_client { to } else { SERVER };
                (receiver, *addresses.get(family)?)
            }
        };
        Some(self.model.send(self.now, (client, source), (to, destination), len, (forged, expected)))
    }

    /// An address that is not `own`: another client's, or nobody's.
    fn stranger(&self, client: usize, family: usize, own: IpAddr) -> Option<IpAddr> {
        let other = self.model.tunnels[client - 1].server.as_ref().and_then(|(_, all)| all.get(family));
        match other {
            Some(other) if *other != own => Some(*other),
            _ => ["203.0.113.9", "2001:db8::9"].get(family)?.parse().ok(),
        }
    }

    /// Somebody orders a renegotiation, or several.
    pub(crate) fn rekey(&mut self) -> Result<(), Violation> {
        let pause = self.around(self.scenario.rekey_every);
        // Now and then orders come in quick succession.
        let pause = if self.dice.chance(200) { self.dice.millis(50, 2000) } else { pause };
        self.schedule(self.now + pause, Happening::Rekey);
        let client = self.dice.between(1, self.scenario.clients as u64) as usize;
        let (at_client, at_server) = self.dice.pick(&[(true, false), (false, true), (true, true)]);
        if at_client {
            self.command(client, Command::Rekey { peer: PeerId::SERVER })?;
        }
        match self.model.tunnels[client - 1].peer {
            Some(peer) if at_server => self.command(SERVER, Command::Rekey { peer }),
            _ => Ok(()),
        }
    }

    /// An attacker sends what the net carried before: again, elsewhere, from elsewhere, or with a bit changed.
    pub(crate) fn attack(&mut self) -> Result<(), Violation> {
        let Some(mean) = self.scenario.attack_every else { return Ok(()) };
        let pause = self.around(mean);
        self.schedule(self.now + pause, Happening::Attack);
        // Without wrapping, whoever knows the session ids can end a session.
        if self.scenario.wrapping == Wrapping::Plain && !self.net.faulty {
            return Ok(());
        }
        let Some(seen) = self.net.seen(&mut self.dice) else { return Ok(()) };
        if self.scenario.remotes.contains(&Transport::Tcp) && self.dice.chance(100) {
            return self.attack_by_stream(&seen);
        }
        let own = SocketAddr::from((ATTACKER.0, ATTACKER.1 + self.dice.below(8) as u16));
        let (client, mut datagram, upward) = match seen {
            Transit::ToServer { from, datagram } => (from, datagram, true),
            Transit::ToClient { to, datagram } => (to, datagram, false),
            _ => return Ok(()),
        };
        if self.dice.chance(200) {
            let at = self.dice.below(datagram.len() as u64) as usize;
            if let Some(byte) = datagram.get_mut(at) {
                *byte ^= 1 << self.dice.below(8);
            }
        }
        let from = if self.dice.chance(500) { own } else { client };
        // One in five goes back where it came from.
        let upward = upward != self.dice.chance(200);
        let transit = match upward {
            true => Transit::ToServer { from, datagram },
            false => Transit::ToClient { to: client, datagram },
        };
        self.log(format_args!("the attacker sends: {transit:?}"));
        self.schedule(self.now, Happening::Arrival(transit));
        Ok(())
    }

    /// The attacker connects and says nothing, or one record.
    fn attack_by_stream(&mut self, seen: &Transit) -> Result<(), Violation> {
        if self.ends[SERVER].is_none() {
            return Ok(());
        }
        let stranger = self.ends.len();
        let (own, path) = self.net.open_connection(self.now, stranger);
        self.strangers.push_back((self.now, path));
        self.command(SERVER, Command::Opened { path })?;
        if let (Transit::ToServer { datagram, .. }, true) = (seen, self.dice.chance(500)) {
            let news = self.net.send(self.now, stranger, own, datagram);
            self.send_off(news);
        }
        Ok(())
    }

    pub(crate) fn schedule_trouble(&mut self) {
        let pause = self.around(self.scenario.trouble_every);
        self.schedule(self.now + pause, Happening::Trouble);
    }

    /// Something goes wrong, as long as the net is faulty.
    pub(crate) fn trouble(&mut self) -> Result<(), Violation> {
        if !self.net.faulty {
            return Ok(());
        }
        self.schedule_trouble();
        let client = self.dice.between(1, self.scenario.clients as u64) as usize;
        match self.dice.below(12) {
            0 => self.command(client, Command::Restart),
            1 => self.command(client, Command::Shutdown),
            2 => self.die(client),
            3 => self.die(SERVER),
            4 => self.command(SERVER, Command::Shutdown),
            5 => match self.model.tunnels[client - 1].peer {
                Some(peer) => self.command(SERVER, Command::Disconnect { peer }),
                None => Ok(()),
            },
            6 => {
                self.log(format_args!("client {client}'s connections break"));
                let news = self.net.break_connections(self.now, client);
                self.send_off(news);
                Ok(())
            }
            7 => {
                let until = self.now + self.dice.secs(1, 90);
                self.log(format_args!("nothing passes to and from client {client} until {until:?}"));
                self.net.silence(client, until);
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

    fn die(&mut self, end: usize) -> Result<(), Violation> {
        if self.ends[end].is_none() {
            return Ok(());
        }
        self.crash(end);
        let back = self.now + pause(&mut self.dice);
        self.schedule(back, Happening::Start(end));
        Ok(())
    }
}

/// How long a process is gone.
fn pause(dice: &mut Dice) -> Duration {
    dice.millis(100, 1000)
}

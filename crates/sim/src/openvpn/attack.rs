//! An attacker on the path: it captures all datagrams, and sends any datagram from any address.

use std::net::SocketAddr;

use adit_core::{Command, Transport};

use crate::openvpn::event::Event;
use crate::openvpn::model::SERVER;
use crate::openvpn::net::Transit;
use crate::openvpn::scenario::Wrapping;
use crate::openvpn::world::World;
use crate::violation::Violation;

/// The address from which the attacker sends, and the first of its ports.
const ATTACKER: ([u8; 4], u16) = ([203, 0, 113, 66], 40_000);

/// Opcodes of data.
const DATA: [u8; 2] = [6, 9];
/// Opcode of a packet that only acknowledges.
const ACK: u8 = 5;

impl World {
    /// Sends a captured datagram again: to the same end or the other, from any address, perhaps with a bit changed.
    pub(crate) fn attack(&mut self) -> Result<(), Violation> {
        let Some(mean) = self.scenario.intervals.attack else { return Ok(()) };
        let pause = self.near(mean);
        self.schedule(self.now + pause, Event::Attack);
        // Without wrapping, an attacker that knows the session ids can end a tunnel.
        if self.scenario.control.wrapping == Wrapping::Plain && !self.net.faulty {
            return Ok(());
        }
        if self.is_asleep(SERVER) {
            return Ok(());
        }
        let Some(captured) = self.net.captured(&mut self.rng.workload) else { return Ok(()) };
        if self.scenario.remotes.contains(&Transport::Tcp) && self.rng.workload.chance(100) {
            return self.attack_by_stream(&captured);
        }
        let own = SocketAddr::from((ATTACKER.0, ATTACKER.1 + self.rng.workload.below(8) as u16));
        let (client, mut datagram, upward) = match captured {
            Transit::ToServer { from, datagram } => (from, datagram, true),
            Transit::ToClient { to, datagram } => (to, datagram, false),
            _ => return Ok(()),
        };
        if self.rng.workload.chance(200) {
            let at = self.rng.workload.below(datagram.len() as u64) as usize;
            if let Some(byte) = datagram.get_mut(at) {
                *byte ^= 1 << self.rng.workload.below(8);
            }
        }
        let from = if self.rng.workload.chance(500) { own } else { client };
        // One in five goes back to its sender.
        let upward = upward != self.rng.workload.chance(200);
        let transit = match upward {
            true => Transit::ToServer { from, datagram },
            false => Transit::ToClient { to: client, datagram },
        };
        self.log(format_args!("the attacker sends: {transit:?}"));
        self.schedule(self.now, Event::Arrival(transit));
        Ok(())
    }

    /// The attacker connects by TCP and sends nothing, or one record.
    fn attack_by_stream(&mut self, captured: &Transit) -> Result<(), Violation> {
        if self.hosts[SERVER].end.is_none() {
            return Ok(());
        }
        let attacker = self.hosts.len();
        let (own, path) = self.net.open_connection(self.now, attacker);
        self.checks.unauthenticated.push_back((self.now, path));
        self.command(SERVER, Command::Opened { path })?;
        if let (Transit::ToServer { datagram, .. }, true) = (captured, self.rng.workload.chance(500)) {
            let transits = self.net.send(self.now, attacker, own, datagram);
            self.schedule_transits(transits);
        }
        Ok(())
    }

    /// Sends a made-up datagram, with or without parts of a captured one.
    pub(crate) fn forge(&mut self) -> Result<(), Violation> {
        let Some(mean) = self.scenario.intervals.attack else { return Ok(()) };
        let pause = self.rng.faults.millis(mean.as_millis() as u64 / 2, mean.as_millis() as u64 * 2);
        self.schedule(self.now + pause, Event::Forgery);
        let Some(captured) = self.net.captured(&mut self.rng.faults) else { return Ok(()) };
        let (client, captured, upward) = match captured {
            Transit::ToServer { from, datagram } => (from, datagram, true),
            Transit::ToClient { to, datagram } => (to, datagram, false),
            _ => return Ok(()),
        };
        // Without wrapping, an attacker that knows the session ids can end a tunnel.
        let may_end_it = self.scenario.control.wrapping != Wrapping::Plain || self.net.faulty;
        let Some(datagram) = self.made_up(&captured, may_end_it) else { return Ok(()) };
        let own = SocketAddr::from((ATTACKER.0, ATTACKER.1 + self.rng.faults.below(8) as u16));
        let from = if self.rng.faults.chance(300) { own } else { client };
        let transit = match upward != self.rng.faults.chance(200) {
            true => Transit::ToServer { from, datagram },
            false => Transit::ToClient { to: client, datagram },
        };
        self.log(format_args!("the attacker makes up: {transit:?}"));
        self.schedule(self.now, Event::Arrival(transit));
        Ok(())
    }

    fn made_up(&mut self, captured: &[u8], may_end_it: bool) -> Option<Vec<u8>> {
        let (&first, rest) = captured.split_first()?;
        let is_data = DATA.contains(&(first >> 3));
        let head = rest.get(..8)?;
        Some(match self.rng.faults.below(if may_end_it { 7 } else { 3 }) {
            // Data of a session, with another packet id perhaps.
            0 if is_data => {
                let mut datagram = captured.to_vec();
                let at = 4 + self.rng.faults.below(datagram.len() as u64 - 4) as usize;
                let random = self.noise(datagram.len() - at);
                datagram.splice(at.., random);
                datagram
            }
            // An initial packet, of a client or a server, of a control channel that does not exist.
            1 => {
                let sid = self.noise(8);
                let opcode = self.rng.faults.pick(&[7, 8, 10]);
                [&[opcode << 3][..], &sid, &[0; 5]].concat()
            }
            // Noise.
            0 | 2 => {
                let len = self.rng.faults.between(1, 1400) as usize;
                self.noise(len)
            }
            // A packet of that control channel: an acknowledgement of packets that were not sent, an alert, a reset,
            // ...
            3 | 4 => {
                let opcode = self.rng.faults.pick(&[3, 4, 4, 5, 5, 7, 8, 10, 11]);
                let body = self.control_body(opcode, head);
                let key_id =
                    if self.rng.faults.chance(500) { first & 7 } else { self.rng.faults.below(8) as u8 };
                [&[opcode << 3 | key_id], head, &body].concat()
            }
            // Its wrapping, with another header in front.
            5 => {
                [&[(self.rng.faults.pick(&[3, 4, 5, 6, 7, 8, 9, 10, 11]) << 3) | (first & 7)], rest].concat()
            }
            // Cut short, or longer.
            _ => {
                let mut datagram = captured.to_vec();
                if self.rng.faults.chance(500) {
                    datagram.truncate(self.rng.faults.between(1, captured.len() as u64) as usize);
                } else {
                    let len = self.rng.faults.between(1, 40) as usize;
                    datagram.extend(self.noise(len));
                }
                datagram
            }
        })
    }

    /// Bytes that could follow the sender's session id in a packet without wrapping.
    fn control_body(&mut self, opcode: u8, sid: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        let acks = self.rng.faults.below(10) as u8;
        body.push(acks);
        for _ in 0..acks {
            body.extend((self.rng.faults.below(40) as u32).to_be_bytes());
        }
        if acks > 0 {
            body.extend(sid);
        }
        if opcode != ACK {
            body.extend((self.rng.faults.below(20) as u32).to_be_bytes());
            // A TLS alert: handshake failure.
            body.extend([21, 3, 3, 0, 2, 2, 40]);
        }
        if self.rng.faults.chance(300) {
            body.extend(self.noise(60));
        }
        body
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.faults.below(256) as u8).collect()
    }
}

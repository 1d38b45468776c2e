//! An attacker who sees all that passes, and sends what it likes from whatever address it likes.

use std::net::SocketAddr;

use adit_core::{Command, Transport};

use crate::model::{SERVER, Violation};
use crate::net::Transit;
use crate::scenario::Wrapping;
use crate::world::{Happening, World};

/// Ports from which an attacker sends.
const ATTACKER: ([u8; 4], u16) = ([203, 0, 113, 66], 40_000);

/// Opcodes of data.
const DATA: [u8; 2] = [6, 9];
/// Opcode of a packet that only acknowledges.
const ACK: u8 = 5;

impl World {
    /// An attacker sends what the net carried before: again, elsewhere, from elsewhere, or with a bit changed.
    pub(crate) fn attack(&mut self) -> Result<(), Violation> {
        let Some(mean) = self.scenario.attack_every else { return Ok(()) };
        let pause = self.around(mean);
        self.schedule(self.now + pause, Happening::Attack);
        // Without wrapping, whoever knows the session ids can end a session.
        if self.scenario.wrapping == Wrapping::Plain && !self.net.faulty {
            return Ok(());
        }
        if self.is_asleep(SERVER) {
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
    /// An attacker makes up a datagram, with or without what it saw of a tunnel.
    pub(crate) fn forge(&mut self) -> Result<(), Violation> {
        let Some(mean) = self.scenario.attack_every else { return Ok(()) };
        let pause = self.more.millis(mean.as_millis() as u64 / 2, mean.as_millis() as u64 * 2);
        self.schedule(self.now + pause, Happening::Forgery);
        let Some(seen) = self.net.seen(&mut self.more) else { return Ok(()) };
        let (client, seen, upward) = match seen {
            Transit::ToServer { from, datagram } => (from, datagram, true),
            Transit::ToClient { to, datagram } => (to, datagram, false),
            _ => return Ok(()),
        };
        // Without wrapping, whoever knows the session ids can end a session.
        let may_end_it = self.scenario.wrapping != Wrapping::Plain || self.net.faulty;
        let Some(datagram) = self.made_up(&seen, may_end_it) else { return Ok(()) };
        let own = SocketAddr::from((ATTACKER.0, ATTACKER.1 + self.more.below(8) as u16));
        let from = if self.more.chance(300) { own } else { client };
        let transit = match upward != self.more.chance(200) {
            true => Transit::ToServer { from, datagram },
            false => Transit::ToClient { to: client, datagram },
        };
        self.log(format_args!("the attacker makes up: {transit:?}"));
        self.schedule(self.now, Happening::Arrival(transit));
        Ok(())
    }

    fn made_up(&mut self, seen: &[u8], may_end_it: bool) -> Option<Vec<u8>> {
        let (&first, rest) = seen.split_first()?;
        let is_data = DATA.contains(&(first >> 3));
        let head = rest.get(..8)?;
        Some(match self.more.below(if may_end_it { 7 } else { 3 }) {
            // Data of a session, with another packet id perhaps.
            0 if is_data => {
                let mut datagram = seen.to_vec();
                let at = 4 + self.more.below(datagram.len() as u64 - 4) as usize;
                let random = self.noise(datagram.len() - at);
                datagram.splice(at.., random);
                datagram
            }
            // A first packet, a server's too, of nobody's session.
            1 => {
                let sid = self.noise(8);
                let opcode = self.more.pick(&[7, 8, 10]);
                [&[opcode << 3][..], &sid, &[0; 5]].concat()
            }
            // Noise.
            0 | 2 => {
                let len = self.more.between(1, 1400) as usize;
                self.noise(len)
            }
            // A packet of that session: an acknowledgement of what was not sent, an alert, a reset, ...
            3 | 4 => {
                let opcode = self.more.pick(&[3, 4, 4, 5, 5, 7, 8, 10, 11]);
                let body = self.control_body(opcode, head);
                let key_id = if self.more.chance(500) { first & 7 } else { self.more.below(8) as u8 };
                [&[opcode << 3 | key_id], head, &body].concat()
            }
            // Its wrapping, with another header in front.
            5 => [&[(self.more.pick(&[3, 4, 5, 6, 7, 8, 9, 10, 11]) << 3) | (first & 7)], rest].concat(),
            // Cut short, or longer.
            _ => {
                let mut datagram = seen.to_vec();
                if self.more.chance(500) {
                    datagram.truncate(self.more.between(1, seen.len() as u64) as usize);
                } else {
                    let len = self.more.between(1, 40) as usize;
                    datagram.extend(self.noise(len));
                }
                datagram
            }
        })
    }

    /// What could follow the sender's session id in a packet without wrapping.
    fn control_body(&mut self, opcode: u8, sid: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        let acks = self.more.below(10) as u8;
        body.push(acks);
        for _ in 0..acks {
            body.extend((self.more.below(40) as u32).to_be_bytes());
        }
        if acks > 0 {
            body.extend(sid);
        }
        if opcode != ACK {
            body.extend((self.more.below(20) as u32).to_be_bytes());
            // A TLS alert: handshake failure.
            body.extend([21, 3, 3, 0, 2, 2, 40]);
        }
        if self.more.chance(300) {
            body.extend(self.noise(60));
        }
        body
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.more.below(256) as u8).collect()
    }
}

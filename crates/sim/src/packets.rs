//! Inner packets, whichever protocol carries them: each arrives once at most, unchanged, and in time where nothing
//! excuses its loss.

use std::net::IpAddr;

use adit_core::Instant;

use crate::packet;
use crate::violation::{Violation, ensure};

/// The fate that a packet must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its source address is not its sender's: it must never arrive.
    Refused,
    /// The packet may be lost.
    MayBeLost,
    /// The packet must arrive by then.
    ArrivesBy(Instant),
}

/// A packet that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) source: IpAddr,
    pub(crate) at: Instant,
    destination: IpAddr,
    len: usize,
    fate: Fate,
    delivered: bool,
}

/// All packets of a run. The number of a packet is its place.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    sent: Vec<Sent>,
    /// How many of them were checked for loss.
    checked: usize,
    /// How many arrived.
    pub(crate) delivered: u64,
}

impl Packets {
    /// How many were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.len() as u64
    }

    /// A packet is about to be sent.
    pub(crate) fn send(
        &mut self,
        at: Instant,
        (from, source): (usize, IpAddr),
        (to, destination): (usize, IpAddr),
        len: usize,
        fate: Fate,
    ) -> Vec<u8> {
        let number = self.sent();
        self.sent.push(Sent { from, to, source, at, destination, len, fate, delivered: false });
        packet::build(number, source, destination, len)
    }

    /// The packet that an end is about to give to its device, and its name for messages. It was not delivered before.
    pub(crate) fn find(&self, end: usize, bytes: &[u8]) -> Result<(&Sent, String), Violation> {
        let number = packet::number(bytes);
        let found = number.and_then(|number| self.sent.get(usize::try_from(number).ok()?));
        let Some(sent) = found else {
            return Err(Violation::new(format!("end {end} got a packet that no end sent")));
        };
        let number = number.unwrap_or_default();
        let name = format!("packet {number} from end {} to end {}", sent.from, sent.to);
        let whole = packet::build(number, sent.source, sent.destination, sent.len);
        ensure(whole == bytes, || format!("{name} arrived changed"))?;
        ensure(!sent.delivered, || format!("{name} arrived twice"))?;
        ensure(sent.fate != Fate::Refused, || {
            format!("{name} arrived with the forged source {}", sent.source)
        })?;
        Ok((sent, name))
    }

    /// A packet that [`Packets::find`] found arrived.
    pub(crate) fn deliver(&mut self, bytes: &[u8]) {
        let number = packet::number(bytes).and_then(|number| usize::try_from(number).ok());
        if let Some(sent) = number.and_then(|number| self.sent.get_mut(number)) {
            sent.delivered = true;
            self.delivered += 1;
        }
    }

    /// Every packet that had to arrive by now did.
    pub(crate) fn check_nothing_lost(&mut self, now: Instant) -> Result<(), Violation> {
        while let Some(sent) = self.sent.get(self.checked) {
            match sent.fate {
                Fate::ArrivesBy(due) if !sent.delivered => {
                    if due > now {
                        return Ok(());
                    }
                    return Err(Violation::new(format!(
                        "packet {} from end {} to end {}, sent at {:.3} s, was lost on a clean net",
                        self.checked,
                        sent.from,
                        sent.to,
                        (sent.at - Instant::ORIGIN).as_secs_f64()
                    )));
                }
                _ => self.checked += 1,
            }
        }
        Ok(())
    }
}

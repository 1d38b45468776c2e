//! The faults of a network, whichever protocol its datagrams are of.

use std::time::Duration;

use adit_core::Instant;

use crate::rng::Rng;

/// The faults of one direction of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Datagrams lost, of 1,000. TCP: segments that come late.
    pub loss: u64,
    /// Datagrams that are duplicated, of 1,000.
    pub duplication: u64,
    /// Datagrams with some bits flipped, of 1,000.
    pub corruption: u64,
    /// Datagrams held back, so that later ones overtake them, of 1,000.
    pub reordering: u64,
    /// How long at most they are held back.
    pub hold: Duration,
}

/// How long a datagram is in transit, without faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// At least.
    pub least: Duration,
    /// The greatest addition, in whole milliseconds.
    pub jitter: Duration,
}

impl Delay {
    /// Draws the delay of one datagram.
    pub fn draw(&self, rng: &mut Rng) -> Duration {
        self.least + rng.millis(0, self.jitter.as_millis() as u64)
    }
}

/// The arrivals of a datagram that is sent now, each with its time and its content: none, one or two. Without `faults`,
/// it arrives once and unchanged.
pub fn transmit(
    rng: &mut Rng,
    now: Instant,
    delay: Delay,
    faults: Option<Faults>,
    datagram: &[u8],
) -> Vec<(Instant, Vec<u8>)> {
    let Some(faults) = faults else { return vec![(now + delay.draw(rng), datagram.to_vec())] };
    if rng.chance(faults.loss) {
        return Vec::new();
    }
    let copies = 1 + usize::from(rng.chance(faults.duplication));
    let mut arrivals = Vec::with_capacity(copies);
    for _ in 0..copies {
        let mut time = delay.draw(rng);
        if rng.chance(faults.reordering) {
            time += rng.millis(1, faults.hold.as_millis() as u64);
        }
        let mut bytes = datagram.to_vec();
        if rng.chance(faults.corruption) {
            flip_bits(rng, &mut bytes);
        }
        arrivals.push((now + time, bytes));
    }
    arrivals
}

fn flip_bits(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if rng.chance(100) {
        let keep = rng.below(bytes.len() as u64) as usize;
        bytes.truncate(keep);
        return;
    }
    for _ in 0..rng.between(1, 4) {
        // Headers are short, but parsers read them first: half of all corruption is in them.
        let reach = if rng.chance(500) { bytes.len().min(40) } else { bytes.len() };
        let at = rng.below(reach as u64) as usize;
        let bit = rng.below(8);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }
}

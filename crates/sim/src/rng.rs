//! Random numbers from a seed.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The source of all random decisions. A seed and a stream give the same draws on every machine.
#[derive(Clone, Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// Independent draws for each `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Rng(rng)
    }

    /// One of `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the remainder is too small for a simulation to notice.
        self.0.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// One of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in so many of 1,000 draws.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// Whole milliseconds, both ends included.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// Whole seconds, both ends included.
    pub fn secs(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_secs(self.between(low, high))
    }

    /// One of them; they must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A seed for a protocol machine.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.0.fill_bytes(&mut seed);
        seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let draw = |seed, stream| Rng::new(seed, stream).seed();
        assert_eq!(draw(7, 0), draw(7, 0));
        assert_ne!(draw(7, 0), draw(7, 1));
        assert_ne!(draw(7, 0), draw(8, 0));
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1, 1);
        let draws: Vec<u64> = (0..1000).map(|_| rng.between(3, 5)).collect();
        assert!((3..=5).all(|number| draws.contains(&number)));
        assert!(draws.iter().all(|number| (3..=5).contains(number)));
        assert!((0..1000).all(|_| !rng.chance(0) && rng.chance(1000)));
    }
}

//! The trace of a run, as one number to compare runs by, and (when asked for) as text to read.

use std::collections::VecDeque;
use std::fmt::Arguments;

use adit_core::Instant;

/// Lines that are kept.
const TAIL: usize = 400;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A record of a run.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    lines: VecDeque<String>,
    keep_lines: bool,
}

impl Trace {
    /// A trace; with `keep_lines` the last lines are kept as text.
    pub fn new(keep_lines: bool) -> Self {
        Trace { hash: FNV_OFFSET, lines: VecDeque::new(), keep_lines }
    }

    /// Something happened. `bytes` go into the hash, `text` into the lines.
    pub fn note(&mut self, now: Instant, bytes: &[u8], text: Arguments<'_>) {
        for byte in now.as_nanos().to_le_bytes().iter().chain(bytes) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
        if self.keep_lines {
            if self.lines.len() == TAIL {
                self.lines.pop_front();
            }
            let millis = now.as_nanos() / 1_000_000;
            self.lines.push_back(format!("{:6}.{:03} {text}", millis / 1000, millis % 1000));
        }
    }

    /// The hash (FNV-1a) of all that happened, in order.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

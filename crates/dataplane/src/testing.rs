//! For the tests of the data plane and of the codecs: ends of tunnels in memory, inner packets, and a provider of AEADs that
//! gains from batches. Built for tests and with the feature `testing` alone.

pub mod batches;
pub mod packets;
pub mod world;

/// The bytes of a hexadecimal text.
///
/// # Panics
/// It is none.
pub fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

//! What must hold for packets, keys and counters.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::Instant;
use adit_sim::packet;
use adit_toy::Codec;

/// A packet that was sent.
struct Sent {
    to: usize,
    bytes: Vec<u8>,
    /// The selectors do not have its port.
    refused: bool,
    /// It must arrive.
    expected: bool,
    arrived: bool,
}

/// A key to seal with.
struct SealKey {
    owner: usize,
    next_counter: u64,
    expires: Instant,
}

/// Knows all packets, keys and counters.
#[derive(Default)]
pub(crate) struct Model {
    packets: BTreeMap<u64, Sent>,
    /// By the index in front of what they seal.
    keys: BTreeMap<u32, SealKey>,
    /// All keys that ever sealed.
    used: BTreeSet<[u8; 32]>,
    pub(crate) delivered: u64,
    pub(crate) beyond_32_bits: u64,
}

impl Model {
    /// Notes a packet that is about to be sent, with the number that it has.
    pub(crate) fn send(&mut self, number: u64, to: usize, bytes: &[u8], refused: bool, expected: bool) {
        let sent = Sent { to, bytes: bytes.to_vec(), refused, expected, arrived: false };
        assert!(self.packets.insert(number, sent).is_none());
    }

    /// A packet left the data plane of that end.
    pub(crate) fn deliver(&mut self, at: usize, bytes: &[u8]) {
        let number = packet::number(bytes).expect("it has a number");
        let sent = self.packets.get_mut(&number).expect("it was sent");
        assert_eq!(bytes, sent.bytes, "packet {number} was changed");
        assert_eq!(at, sent.to, "packet {number} is at another end");
        assert!(!sent.refused, "packet {number} has a port that is not selected");
        assert!(!sent.arrived, "packet {number} came twice");
        sent.arrived = true;
        self.delivered += 1;
    }

    pub(crate) fn install(&mut self, owner: usize, codec: &Codec) {
        assert!(self.used.insert(*codec.seal_key), "end {owner} seals with a key that was used before");
        assert_ne!(codec.seal_key, codec.open_key);
        let key = SealKey { owner, next_counter: codec.first_counter, expires: codec.expires };
        self.keys.insert(codec.remote_index, key);
    }

    /// A datagram was sealed: its counter is the next one of its key.
    pub(crate) fn seal(&mut self, now: Instant, by: usize, datagram: &[u8]) {
        let word = |at: usize| u32::from_be_bytes(*datagram[at..].first_chunk().unwrap());
        let key = self.keys.get_mut(&word(0)).expect("a key was installed");
        assert_eq!(by, key.owner, "sealed with another end's key");
        assert!(now < key.expires, "sealed after the session's end");
        assert_eq!(word(4), key.next_counter as u32, "counters rise one by one");
        self.beyond_32_bits += u64::from(key.next_counter > u32::MAX.into());
        key.next_counter += 1;
    }

    /// How many packets had to arrive; all of them did.
    pub(crate) fn check_expected(&self) -> u64 {
        let expected = self.packets.iter().filter(|(_, sent)| sent.expected);
        let mut count = 0;
        for (number, sent) in expected {
            assert!(sent.arrived, "packet {number} to end {} was lost on a clean network", sent.to);
            count += 1;
        }
        count
    }
}

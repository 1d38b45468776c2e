//! Answers for packets of late: a table with a place for each of a few keys.

use crate::headers::Address;

/// Keys that [`Recent`] holds at most.
const PLACES: usize = 64;

/// A part of a packet on which an answer depends.
pub(crate) trait Key: PartialEq {
    /// A number that differs for most keys that differ.
    fn number(&self) -> u64;
}

impl Key for Address {
    #[inline]
    fn number(&self) -> u64 {
        match *self {
            Address::V4(bits) => u64::from(bits),
            Address::V6(bits) => (bits >> 64) as u64 ^ bits as u64,
        }
    }
}

/// Answers for keys of late, a key in each place. A key without an answer is looked up as if there were no table, which is
/// slower. It is cleared when anything changes on which answers depend.
pub(crate) struct Recent<K, V> {
    /// None, or [`PLACES`].
    entries: Vec<Option<(K, V)>>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Recent { entries: Vec::new() }
    }
}

impl<K: Key, V> Recent<K, V> {
    /// Whether there are no answers, so that no key need be made.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The answer for a key.
    #[inline]
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (of, value) = self.entries.get(place(key))?.as_ref()?;
        (of == key).then_some(value)
    }

    /// Notes the answer for a key.
    pub(crate) fn note(&mut self, key: K, value: V) {
        if self.entries.is_empty() {
            self.entries.resize_with(PLACES, || None);
        }
        let place = place(&key);
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = Some((key, value));
        }
    }

    /// Forgets all answers.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// The place of a key.
#[inline]
fn place(key: &impl Key) -> usize {
    // The upper bits of a product with the golden ratio depend on all bits (Knuth, The Art of Computer Programming 3, 6.4).
    (key.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_answer() {
        let mut recent = Recent::default();
        let v4 = (0..1000).map(Address::V4);
        let keys: Vec<Address> = v4.chain((0..1000).map(|low| Address::V6(0xfd00 << 112 | low))).collect();
        assert!(recent.is_empty());
        for key in &keys {
            assert_eq!(recent.get(key), None);
            recent.note(*key, *key);
            assert_eq!(recent.get(key), Some(key));
        }
        let known = keys.iter().filter(|key| recent.get(key).is_some_and(|answer| answer == *key));
        assert!((1..=PLACES).contains(&known.count()));
        recent.clear();
        assert!(keys.iter().all(|key| recent.get(key).is_none()));
    }
}

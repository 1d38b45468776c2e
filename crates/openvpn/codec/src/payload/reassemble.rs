//! Payloads whose parts come one after the other.

use std::time::Duration;

use adit_core::Instant;
use adit_dataplane::DropReason;

use super::fragment::{HEADER, Part};

/// Payloads that parts may be kept of at a time. Their numbers follow each other, and one has a place by its number, so
/// that no payload mixes with one that has the same number 256 payloads later. OpenVPN keeps 25; its parts leave one
/// after the other, so that only parts that the network reorders mix at all.
const PLACES: usize = 16;
/// How long a payload waits for its next part (OpenVPN fragment.h, `FRAG_TTL_SEC`).
const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The content of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A whole payload, behind the header.
    Whole,
    /// A part; others are missing.
    Incomplete,
    /// The part that completes a payload of that length, which is in that place.
    Complete { place: usize, len: usize },
}

/// A payload of which parts came.
struct Partial {
    /// Whether parts are missing. If not, the place is free.
    is_open: bool,
    sequence: u8,
    /// Bytes of each part but the last.
    size: usize,
    /// A bit for each part that came.
    came: u32,
    /// How many parts there are and the bytes of all; 0 until the last one came.
    count: usize,
    len: usize,
    /// When a part came last. `None`: before the time was known.
    heard: Option<Instant>,
    bytes: Box<[u8]>,
}

impl Partial {
    fn new(longest: usize) -> Self {
        Partial {
            is_open: false,
            sequence: 0,
            size: 0,
            came: 0,
            count: 0,
            len: 0,
            heard: None,
            bytes: vec![0; longest].into_boxed_slice(),
        }
    }

    /// Whether the payload was sent after the one of that number. Numbers go round.
    fn is_newer_than(&self, sequence: u8) -> bool {
        (1..0x80).contains(&self.sequence.wrapping_sub(sequence))
    }

    /// Whether the part can be one that is missing.
    fn misses(&self, part: &Part) -> bool {
        self.sequence == part.sequence && self.size == part.size && self.came >> part.index & 1 == 0
    }

    /// The part is the first of another payload.
    fn begin(&mut self, part: &Part) {
        (self.is_open, self.sequence, self.size) = (true, part.sequence, part.size);
        (self.came, self.count, self.len) = (0, 0, 0);
    }

    /// Puts a part in. `None` if it does not fit those that came, or the payload is too long.
    fn put(&mut self, part: &Part, bytes: &[u8]) -> Option<()> {
        let bit = 1u32.checked_shl(part.index as u32)?;
        let start = part.index * part.size;
        let end = start + bytes.len();
        if part.is_last {
            // Nothing follows the last one, and there is one.
            if self.count > 0 || self.came > bit {
                return None;
            }
            (self.count, self.len) = (part.index + 1, end);
        } else if self.count > 0 && part.index + 1 >= self.count {
            return None;
        }
        self.bytes.get_mut(start..end)?.copy_from_slice(bytes);
        self.came |= bit;
        Some(())
    }

    /// Whether all parts came.
    fn is_whole(&self) -> bool {
        self.count > 0 && self.came.count_ones() as usize == self.count
    }
}

/// The parts of a session's payloads.
pub(super) struct Reassembly {
    places: Vec<Partial>,
    /// Payloads that were given up and are not yet counted.
    lost: u32,
    /// `None` until the first tick: a session is there for a moment before it.
    now: Option<Instant>,
}

impl Reassembly {
    /// A reassembly for payloads of at most that many bytes, framing included.
    pub(super) fn new(longest: usize) -> Self {
        let places = (0..PLACES).map(|_| Partial::new(longest)).collect();
        Reassembly { places, lost: 0, now: None }
    }

    /// Takes in the content of a datagram: a header, and the bytes after it.
    ///
    /// # Errors
    /// Why it is dropped. [`DropReason::Incomplete`] also stands for an earlier payload that was given up.
    pub(super) fn take(&mut self, header: [u8; HEADER], bytes: &[u8]) -> Result<Taken, DropReason> {
        let Some(part) = Part::read(header, bytes.len())? else { return Ok(Taken::Whole) };
        let place = usize::from(part.sequence) % PLACES;
        let partial = self.places.get_mut(place).ok_or(DropReason::Malformed)?;
        if partial.is_open && partial.is_newer_than(part.sequence) {
            return Err(DropReason::Incomplete);
        }
        if !partial.is_open || !partial.misses(&part) {
            self.lost = self.lost.saturating_add(u32::from(partial.is_open));
            partial.begin(&part);
        }
        partial.heard = self.now;
        if partial.put(&part, bytes).is_none() {
            partial.is_open = false;
            return Err(DropReason::Malformed);
        }
        if partial.is_whole() {
            partial.is_open = false;
            return Ok(Taken::Complete { place, len: partial.len });
        }
        if self.lost > 0 {
            self.lost -= 1;
            return Err(DropReason::Incomplete);
        }
        Ok(Taken::Incomplete)
    }

    /// The bytes in a place.
    pub(super) fn bytes(&mut self, place: usize) -> &mut [u8] {
        match self.places.get_mut(place) {
            Some(partial) => &mut partial.bytes,
            None => &mut [],
        }
    }

    /// The time goes on. Payloads that waited too long are given up.
    pub(super) fn tick(&mut self, now: Instant) {
        self.now = Some(now);
        for partial in self.places.iter_mut().filter(|partial| partial.is_open) {
            if now - *partial.heard.get_or_insert(now) >= REASSEMBLY_TIMEOUT {
                partial.is_open = false;
                self.lost = self.lost.saturating_add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fragment::part_size;
    use super::*;

    const LONGEST: usize = 1602;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn payload(len: usize, seed: u8) -> Vec<u8> {
        (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
    }

    /// The parts of a payload, in order.
    fn cut(payload: &[u8], sequence: u8, most: usize) -> Vec<([u8; HEADER], Vec<u8>)> {
        let size = part_size(payload.len(), most).expect("few enough");
        let last = payload.len().div_ceil(size) - 1;
        let parts = payload.chunks(size).enumerate();
        parts
            .map(|(index, bytes)| {
                (Part { sequence, index, is_last: index == last, size }.header(), bytes.to_vec())
            })
            .collect()
    }

    /// The payloads that these parts completed.
    fn take_all(
        reassembly: &mut Reassembly,
        parts: impl IntoIterator<Item = ([u8; HEADER], Vec<u8>)>,
    ) -> Vec<Result<Vec<u8>, DropReason>> {
        let mut found = Vec::new();
        for (header, bytes) in parts {
            match reassembly.take(header, &bytes) {
                Ok(Taken::Whole) => found.push(Ok(bytes)),
                Ok(Taken::Incomplete) => {}
                Ok(Taken::Complete { place, len }) => found.push(Ok(reassembly.bytes(place)[..len].to_vec())),
                Err(reason) => found.push(Err(reason)),
            }
        }
        found
    }

    #[test]
    fn parts_come_in_any_order() {
        let mut reassembly = Reassembly::new(LONGEST);
        let whole = payload(1501, 3);
        for sequence in 0..=255 {
            let mut parts = cut(&whole, sequence, 500);
            assert_eq!(parts.len(), 4);
            parts.rotate_left(usize::from(sequence) % 4);
            assert_eq!(take_all(&mut reassembly, parts), [Ok(whole.clone())]);
        }
        let mut mixed: Vec<_> = (0..PLACES as u8)
            .flat_map(|number| cut(&payload(900, number), 250u8.wrapping_add(number), 400).into_iter())
            .collect();
        mixed.sort_by_key(|(header, _)| header[2] >> 2);
        let found = take_all(&mut reassembly, mixed);
        assert_eq!(found.iter().filter(|payload| payload.is_ok()).count(), PLACES, "{found:?}");
    }

    #[test]
    fn a_payload_without_a_part_is_given_up_and_counted() {
        let mut reassembly = Reassembly::new(LONGEST);
        let parts = |sequence, seed| cut(&payload(1200, seed), sequence, 700);
        // By the next payload that has its place.
        assert!(take_all(&mut reassembly, parts(7, 1).drain(..1)).is_empty());
        let found = take_all(&mut reassembly, parts(7 + PLACES as u8, 2));
        assert_eq!(found, [Err(DropReason::Incomplete), Ok(payload(1200, 2))]);
        // By one of the same number, 256 payloads later.
        assert!(take_all(&mut reassembly, parts(7, 3).drain(..1)).is_empty());
        let found = take_all(&mut reassembly, parts(7, 4));
        assert_eq!(found, [Err(DropReason::Incomplete), Ok(payload(1200, 4))]);
        // By time, which is counted when the next part comes.
        reassembly.tick(at(0));
        assert!(take_all(&mut reassembly, parts(9, 5).drain(..1)).is_empty());
        reassembly.tick(at(9));
        reassembly.tick(at(10));
        let found = take_all(&mut reassembly, parts(9, 5).drain(1..));
        assert_eq!(found, [Err(DropReason::Incomplete)], "only the last part is there now");
        reassembly.tick(at(19));
        assert_eq!(take_all(&mut reassembly, parts(9, 5).drain(..1)), [Ok(payload(1200, 5))]);
        // A late part does not end a payload that came later.
        let mut late = parts(20, 6);
        assert!(take_all(&mut reassembly, parts(20 + PLACES as u8, 7).drain(..1)).is_empty());
        assert_eq!(take_all(&mut reassembly, late.drain(..1)), [Err(DropReason::Incomplete)]);
        let rest = parts(20 + PLACES as u8, 7).split_off(1);
        assert_eq!(take_all(&mut reassembly, rest), [Ok(payload(1200, 7))]);
    }

    /// A session begins at any time, and its first parts may come before the time is said.
    #[test]
    fn parts_before_the_first_tick_wait_as_others_do() {
        for (seconds, expected) in [(9, Ok(payload(1200, 1))), (10, Err(DropReason::Incomplete))] {
            let mut reassembly = Reassembly::new(LONGEST);
            let mut parts = cut(&payload(1200, 1), 3, 700);
            assert!(take_all(&mut reassembly, parts.drain(..1)).is_empty());
            reassembly.tick(at(100_000));
            reassembly.tick(at(100_000 + seconds));
            assert_eq!(take_all(&mut reassembly, parts), [expected]);
        }
    }

    #[test]
    fn parts_that_do_not_fit_each_other_are_malformed() {
        let part = |index, is_last, len: usize, size| {
            (Part { sequence: 1, index, is_last, size }.header(), payload(len, index as u8))
        };
        let malformed: [Result<Vec<u8>, DropReason>; 1] = [Err(DropReason::Malformed)];
        for parts in [
            // Behind the last one, and in its place.
            [part(1, true, 8, 8), part(2, false, 8, 8)],
            [part(2, false, 8, 8), part(1, true, 8, 8)],
            [part(2, true, 8, 8), part(1, true, 8, 8)],
        ] {
            let mut reassembly = Reassembly::new(LONGEST);
            assert_eq!(take_all(&mut reassembly, parts), malformed);
        }
        let mut reassembly = Reassembly::new(LONGEST);
        assert_eq!(take_all(&mut reassembly, [part(31, true, 4, 1400)]), malformed, "it is too long");
        assert_eq!(
            take_all(&mut reassembly, [part(0, true, 3, 8)]),
            [Ok(payload(3, 0))],
            "a last part alone"
        );
    }

    proptest! {
        /// Whatever parts come, a complete payload is no longer than it may be, and parts that come afterwards are put
        /// together.
        #[test]
        fn any_parts_are_taken(
            parts in proptest::collection::vec((any::<[u8; 4]>(), 0usize..80, any::<bool>()), 0..60),
        ) {
            let mut reassembly = Reassembly::new(LONGEST);
            for (index, (header, len, tick)) in parts.into_iter().enumerate() {
                // Few numbers, so that parts meet.
                let header = u32::from_be_bytes(header) & !0xf0;
                let len = if tick { len / 4 * 4 } else { len };
                if let Ok(Taken::Complete { len, .. }) = reassembly.take(header.to_be_bytes(), &payload(len, 0)) {
                    prop_assert!(len <= LONGEST);
                }
                if index % 7 == 0 {
                    reassembly.tick(at(index as u64));
                }
            }
            reassembly.tick(at(1000));
            let found = take_all(&mut reassembly, cut(&payload(1000, 9), 77, 300));
            prop_assert_eq!(found.last(), Some(&Ok(payload(1000, 9))));
        }
    }
}

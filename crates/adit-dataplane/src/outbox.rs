//! Sealed datagrams on their way out, in trains that one system call can send.

use adit_core::{Path, Transport};

/// The largest datagram, and the largest train: UDP's limit over IPv4.
pub const MAX_DATAGRAM: usize = 65_507;
/// The most datagrams in a train (`UDP_MAX_SEGMENTS` of older kernels).
pub const MAX_SEGMENTS: usize = 64;

/// How many of the last trains are looked at for one that a datagram may join.
const LOOK_BACK: usize = 16;
/// Bytes in front of each record on a stream.
const RECORD_HEADER: usize = 2;
/// Bytes a train can hold: a largest record with its length.
const TRAIN_BYTES: usize = MAX_DATAGRAM + RECORD_HEADER;

/// Datagrams for one path that can leave in one system call.
///
/// UDP: all are `segment` bytes long, the last may be shorter; at most [`MAX_SEGMENTS`] of them and
/// [`MAX_DATAGRAM`] bytes. TCP: whole records with their 16-bit lengths, one after the other, of any sizes;
/// `segment` means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train<'a> {
    /// Where to.
    pub path: Path,
    /// Bytes of each datagram (UDP).
    pub segment: usize,
    /// The datagrams.
    pub bytes: &'a [u8],
}

/// A train under construction. Its buffer is kept from batch to batch.
struct Slot {
    path: Path,
    buffer: Vec<u8>,
    used: usize,
    segment: usize,
    count: usize,
    /// A shorter datagram ended it.
    closed: bool,
}

impl Slot {
    fn admits(&self, path: &Path, len: usize) -> bool {
        match path.transport() {
            Transport::Udp => {
                !self.closed
                    && len <= self.segment
                    && self.count < MAX_SEGMENTS
                    && self.used + len <= MAX_DATAGRAM
            }
            Transport::Tcp => self.used + RECORD_HEADER + len <= TRAIN_BYTES,
        }
    }
}

/// Trains of sealed datagrams. Owned by the driver, filled by [`crate::Egress`]; datagrams for one path
/// leave in the order they were sealed.
#[derive(Default)]
pub struct Outbox {
    slots: Vec<Slot>,
    /// Slots in use; the others keep their buffers for later.
    used: usize,
    /// The place that [`Outbox::reserve`] gave and [`Outbox::commit`] has not yet taken.
    reserved: Option<(usize, usize)>,
}

impl Outbox {
    /// An empty outbox. Buffers of 64 KB are allocated as trains need them and kept.
    pub fn new() -> Self {
        Outbox::default()
    }

    /// The trains, in the order to send them.
    pub fn iter(&self) -> impl Iterator<Item = Train<'_>> {
        self.slots.iter().take(self.used).map(|slot| Train {
            path: slot.path,
            segment: slot.segment,
            bytes: slot.buffer.get(..slot.used).unwrap_or_default(),
        })
    }

    /// How many trains there are.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Forgets all trains and keeps their buffers.
    pub fn clear(&mut self) {
        self.used = 0;
        self.reserved = None;
    }

    /// A place for a datagram of `len` bytes. It is sent if [`Outbox::commit`] follows, and forgotten if
    /// not. `None` if `len` is 0 or more than [`MAX_DATAGRAM`].
    #[inline]
    pub(crate) fn reserve(&mut self, path: &Path, len: usize) -> Option<&mut [u8]> {
        if len == 0 || len > MAX_DATAGRAM {
            return None;
        }
        let index = match self.find(path, len) {
            Some(index) => index,
            None => self.start(path, len),
        };
        self.reserved = Some((index, len));
        let slot = self.slots.get_mut(index)?;
        let start = slot.used + header_len(path);
        slot.buffer.get_mut(start..start + len)
    }

    /// Takes the datagram that was written where [`Outbox::reserve`] said.
    #[inline]
    pub(crate) fn commit(&mut self) {
        let Some((index, len)) = self.reserved.take() else { return };
        let Some(slot) = self.slots.get_mut(index) else { return };
        if slot.path.transport() == Transport::Tcp {
            let prefix = (len as u16).to_be_bytes();
            if let Some(place) = slot.buffer.get_mut(slot.used..slot.used + RECORD_HEADER) {
                place.copy_from_slice(&prefix);
            }
        }
        slot.used += header_len(&slot.path) + len;
        slot.count += 1;
        slot.closed = len < slot.segment;
        self.used = self.used.max(index + 1);
    }

    /// The newest train to that path, if it admits the datagram. An older one never does: the datagram
    /// would overtake others.
    #[inline]
    fn find(&self, path: &Path, len: usize) -> Option<usize> {
        let oldest = self.used.saturating_sub(LOOK_BACK);
        let recent = self.slots.get(oldest..self.used)?;
        let newest = recent.iter().rposition(|slot| slot.path == *path)?;
        recent[newest].admits(path, len).then_some(oldest + newest)
    }

    fn start(&mut self, path: &Path, len: usize) -> usize {
        let index = self.used;
        if self.slots.len() <= index {
            // Zeroed memory comes untouched from the system: only pages that are written cost anything.
            let buffer = vec![0; TRAIN_BYTES];
            self.slots.push(Slot { path: *path, buffer, used: 0, segment: 0, count: 0, closed: false });
        }
        let slot = &mut self.slots[index];
        slot.path = *path;
        slot.used = 0;
        slot.segment = len;
        slot.count = 0;
        slot.closed = false;
        index
    }
}

#[inline]
fn header_len(path: &Path) -> usize {
    match path.transport() {
        Transport::Udp => 0,
        Transport::Tcp => RECORD_HEADER,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::world::{tcp, udp};

    fn put(out: &mut Outbox, path: Path, bytes: &[u8]) {
        out.reserve(&path, bytes.len()).expect("fits").copy_from_slice(bytes);
        out.commit();
    }

    fn cut<'a>(train: &Train<'a>) -> Vec<&'a [u8]> {
        if train.path.transport() == Transport::Udp {
            return train.bytes.chunks(train.segment).collect();
        }
        let (mut rest, mut records) = (train.bytes, Vec::new());
        while let Some((prefix, tail)) = rest.split_first_chunk() {
            let (record, tail) = tail.split_at(usize::from(u16::from_be_bytes(*prefix)));
            records.push(record);
            rest = tail;
        }
        records
    }

    #[test]
    fn full_segments_fill_a_train() {
        let mut out = Outbox::new();
        for _ in 0..46 {
            put(&mut out, udp(1), &[7; 1472]);
        }
        put(&mut out, udp(1), &[7; 100]);
        put(&mut out, udp(1), &[7; 1472]);
        let lens: Vec<usize> = out.iter().map(|train| train.bytes.len()).collect();
        assert_eq!(lens, [44 * 1472, 2 * 1472 + 100, 1472], "a shorter one ends a train");
    }

    #[test]
    fn what_is_not_committed_is_forgotten() {
        let mut out = Outbox::new();
        out.reserve(&udp(1), 10).expect("fits");
        assert!(out.is_empty());
        put(&mut out, udp(2), b"sent");
        out.reserve(&udp(2), 4).expect("fits").copy_from_slice(b"lost");
        out.commit();
        out.commit();
        assert_eq!(out.iter().map(|train| train.bytes.to_vec()).collect::<Vec<_>>(), [b"sentlost"]);
        assert!(out.reserve(&udp(1), 0).is_none() && out.reserve(&udp(1), MAX_DATAGRAM + 1).is_none());
        out.clear();
        assert_eq!(out.len(), 0);
        put(&mut out, tcp(1), &[1; MAX_DATAGRAM]);
        assert_eq!(out.iter().next().expect("one").bytes.len(), MAX_DATAGRAM + 2);
    }

    proptest! {
        #[test]
        fn order_and_limits_hold(
            datagrams in proptest::collection::vec(
                (0u8..14, any::<bool>(), prop_oneof![Just(1400usize), 1..50usize, 1..20_000usize]), 1..120),
        ) {
            let mut out = Outbox::new();
            put(&mut out, udp(99), b"an earlier batch");
            out.clear();
            let mut expected: Vec<(Path, Vec<u8>)> = Vec::new();
            for (index, (last, stream, len)) in datagrams.into_iter().enumerate() {
                let path = if stream { tcp(last) } else { udp(last) };
                let bytes = vec![index as u8; len];
                put(&mut out, path, &bytes);
                expected.push((path, bytes));
            }
            let mut found: Vec<(Path, Vec<u8>)> = Vec::new();
            for train in out.iter() {
                prop_assert!(train.bytes.len() <= TRAIN_BYTES);
                let datagrams = cut(&train);
                if train.path.transport() == Transport::Udp {
                    prop_assert!(train.bytes.len() <= MAX_DATAGRAM && datagrams.len() <= MAX_SEGMENTS);
                }
                found.extend(datagrams.into_iter().map(|bytes| (train.path, bytes.to_vec())));
            }
            // A stable sort keeps each path's own order.
            expected.sort_by_key(|(path, _)| *path);
            found.sort_by_key(|(path, _)| *path);
            prop_assert_eq!(found, expected);
        }
    }
}

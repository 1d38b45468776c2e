//! Sealed datagrams on their way out, in GSO batches that one system call can send.

use adit_core::{Path, Transport};

use crate::outer::OuterHeader;

/// The largest datagram, and the largest GSO batch: UDP's limit over IPv4.
pub const MAX_DATAGRAM: usize = 65_507;
/// The most datagrams in a GSO batch (`UDP_MAX_SEGMENTS` of older kernels).
pub const MAX_SEGMENTS: usize = 64;

/// How many of the last GSO batches are looked at for one that a datagram may join.
const LOOK_BACK: usize = 16;
/// Bytes in front of each record on a stream.
const RECORD_HEADER: usize = 2;
/// Bytes after which a GSO batch of records need not wait for more.
const STREAM_FULL: usize = 60 * 1024;
/// Bytes a GSO batch can hold: a largest record with its length.
const GSO_BATCH_BYTES: usize = MAX_DATAGRAM + RECORD_HEADER;

/// Datagrams for one path, with one outer header, that can leave in one system call.
///
/// UDP, and IP of a protocol: all are `segment` bytes long, the last may be shorter; at most [`MAX_SEGMENTS`] of them and
/// [`MAX_DATAGRAM`] bytes. TCP: whole records with their 16-bit lengths, one after the other, of any sizes;
/// `segment` means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GsoBatch<'a> {
    /// Where to.
    pub path: Path,
    /// The fields of the IP header around each datagram (not TCP).
    pub outer: OuterHeader,
    /// Bytes of each datagram (not TCP).
    pub segment: usize,
    /// The datagrams.
    pub bytes: &'a [u8],
}

/// A GSO batch under construction. Its buffer is kept from batch to batch.
struct Slot {
    path: Path,
    outer: OuterHeader,
    buffer: Vec<u8>,
    used: usize,
    segment: usize,
    limits: Limits,
    /// Nothing can join it: it is full, a shorter datagram ended it, or a newer GSO batch took its place.
    closed: bool,
}

/// The limits within which datagrams join a GSO batch.
#[derive(Clone, Copy)]
struct Limits {
    /// Bytes in front of each datagram.
    prefix: usize,
    /// A shorter datagram ends the GSO batch, ...
    shortest: usize,
    /// ... and a longer one cannot join.
    longest: usize,
    /// Bytes it can hold.
    room: usize,
    /// Bytes from which on it is full.
    full: usize,
}

impl Limits {
    /// The limits of a GSO batch whose first datagram has that length.
    fn of(transport: Transport, len: usize) -> Limits {
        match transport {
            Transport::Udp | Transport::Ip(_) => {
                let room = (MAX_SEGMENTS * len).min(MAX_DATAGRAM);
                Limits { prefix: 0, shortest: len, longest: len, room, full: room - len + 1 }
            }
            Transport::Tcp => Limits {
                prefix: RECORD_HEADER,
                shortest: 0,
                longest: MAX_DATAGRAM,
                room: GSO_BATCH_BYTES,
                full: STREAM_FULL,
            },
        }
    }
}

impl Slot {
    #[inline]
    fn admits(&self, outer: OuterHeader, len: usize) -> bool {
        // The header around a stream's records is the system's own.
        let same = self.outer == outer || self.limits.prefix > 0;
        same && self.has_room(len)
    }

    /// Whether it admits a datagram with its own outer header.
    #[inline]
    fn has_room(&self, len: usize) -> bool {
        let limits = &self.limits;
        !self.closed && len <= limits.longest && self.used + limits.prefix + len <= limits.room
    }

    /// The place of the next datagram, of `len` bytes.
    #[inline]
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = self.used + self.limits.prefix;
        self.buffer.get_mut(start..start + len)
    }

    fn gso_batch(&self) -> GsoBatch<'_> {
        GsoBatch {
            path: self.path,
            outer: self.outer,
            segment: self.segment,
            bytes: self.buffer.get(..self.used).unwrap_or_default(),
        }
    }
}

/// Whether both are one path of UDP. Without a call for the other kinds: a function with none of them saves no registers.
#[inline]
fn are_one_by_udp(one: &Path, other: &Path) -> bool {
    match (one, other) {
        (Path::Udp { socket, remote }, Path::Udp { socket: other, remote: address }) => {
            socket == other && remote == address
        }
        _ => false,
    }
}

/// GSO batches of sealed datagrams. Owned by the driver, filled by [`crate::Egress`]; datagrams for one path
/// leave in the order they were sealed.
#[derive(Default)]
pub struct TransmitBatch {
    slots: Vec<Slot>,
    /// Slots in use; the others keep their buffers for later.
    used: usize,
    /// How many of those in use are closed.
    closed: usize,
    /// The slot and length of the place that [`TransmitBatch::reserve`] gave and [`TransmitBatch::commit`] has not yet
    /// taken; without one, the length is 0.
    reserved: (usize, usize),
}

impl TransmitBatch {
    /// An empty transmit batch. Buffers of 64 KB are allocated as GSO batches need them and kept.
    pub fn new() -> Self {
        TransmitBatch::default()
    }

    /// The GSO batches, in the order to send them.
    pub fn iter(&self) -> impl Iterator<Item = GsoBatch<'_>> {
        self.slots.iter().take(self.used).map(Slot::gso_batch)
    }

    /// The GSO batches that nothing can join any more, in the order to send them. While packets keep coming only
    /// these need to leave: the others fill up.
    pub fn complete(&self) -> impl Iterator<Item = GsoBatch<'_>> {
        self.slots.iter().take(self.used).filter(|slot| slot.closed).map(Slot::gso_batch)
    }

    /// Whether there are complete GSO batches.
    #[inline]
    pub fn has_complete(&self) -> bool {
        self.closed > 0
    }

    /// Forgets the complete GSO batches and keeps their buffers.
    pub fn clear_complete(&mut self) {
        let mut kept = 0;
        for index in 0..self.used {
            if !self.slots[index].closed {
                self.slots.swap(index, kept);
                kept += 1;
            }
        }
        self.used = kept;
        self.closed = 0;
        self.reserved = (0, 0);
    }

    /// How many GSO batches there are.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Forgets all GSO batches and keeps their buffers.
    pub fn clear(&mut self) {
        self.used = 0;
        self.closed = 0;
        self.reserved = (0, 0);
    }

    /// A place for a datagram of `len` bytes. It is sent if [`TransmitBatch::commit`] follows, and forgotten if
    /// not. `None` if `len` is 0 or more than [`MAX_DATAGRAM`].
    #[inline(never)]
    pub(crate) fn reserve(&mut self, path: &Path, outer: OuterHeader, len: usize) -> Option<&mut [u8]> {
        if len == 0 || len > MAX_DATAGRAM {
            return None;
        }
        let index = match self.find(path, outer, len) {
            Some(index) => index,
            None => self.start(path, outer, len),
        };
        self.reserved = (index, len);
        self.slots.get_mut(index)?.room(len)
    }

    /// [`TransmitBatch::reserve`], faster where the datagram joins the newest GSO batch of UDP. `last`: the slot of the datagram that
    /// was taken last, if it had that path and outer header.
    #[inline]
    pub(crate) fn reserve_behind(
        &mut self,
        last: Option<usize>,
        path: &Path,
        outer: OuterHeader,
        len: usize,
    ) -> Option<&mut [u8]> {
        let index = last.unwrap_or(self.used.wrapping_sub(1));
        let joins = len > 0
            && self.slots.get(index).is_some_and(|slot| {
                slot.has_room(len)
                    && (last.is_some() || slot.outer == outer && are_one_by_udp(&slot.path, path))
            });
        if !joins || index >= self.used {
            return self.reserve(path, outer, len);
        }
        self.reserved = (index, len);
        self.slots.get_mut(index)?.room(len)
    }

    /// Places for datagrams of `len` bytes that follow each other: at least one, at most `most`, as many as one GSO
    /// batch has room for. [`TransmitBatch::commit_run`] says how many of them are sent. `None` as for one.
    #[inline]
    pub(crate) fn reserve_run(
        &mut self,
        last: Option<usize>,
        path: &Path,
        outer: OuterHeader,
        (len, most): (usize, usize),
    ) -> Option<impl Iterator<Item = &mut [u8]>> {
        self.reserve_behind(last, path, outer, len)?;
        let slot = self.slots.get_mut(self.reserved.0)?;
        let stride = slot.limits.prefix + len;
        let room = slot.limits.room.saturating_sub(slot.used) / stride;
        // One more than this would come after the one that fills it.
        let until_full = slot.limits.full.saturating_sub(slot.used).div_ceil(stride);
        // A shorter one ends the GSO batch.
        let until_end = if len < slot.limits.shortest { 1 } else { most };
        let count = room.min(until_full).min(until_end);
        let places = slot.buffer.get_mut(slot.used..slot.used + count * stride)?;
        let prefix = slot.limits.prefix;
        Some(places.chunks_exact_mut(stride).filter_map(move |place| place.get_mut(prefix..)))
    }

    /// Takes the first `count` of the datagrams that were written where [`TransmitBatch::reserve_run`] said. Gives the slot
    /// of the last one.
    #[inline]
    pub(crate) fn commit_run(&mut self, count: usize) -> Option<usize> {
        let reserved = self.reserved;
        let mut slot = None;
        for _ in 0..count {
            self.reserved = reserved;
            slot = self.commit();
        }
        slot
    }

    /// Takes the datagram that was written where [`TransmitBatch::reserve`] said. Gives its slot.
    #[inline]
    pub(crate) fn commit(&mut self) -> Option<usize> {
        let (index, len) = std::mem::take(&mut self.reserved);
        if len == 0 {
            return None;
        }
        let slot = self.slots.get_mut(index)?;
        let limits = slot.limits;
        if limits.prefix == RECORD_HEADER
            && let Some(place) = slot.buffer.get_mut(slot.used..).and_then(<[u8]>::first_chunk_mut)
        {
            *place = (len as u16).to_be_bytes();
        }
        slot.used += limits.prefix + len;
        if len < limits.shortest || slot.used >= limits.full {
            slot.closed = true;
            self.closed += 1;
        }
        if self.used <= index {
            self.supersede(index);
            self.used = index + 1;
        }
        Some(index)
    }

    /// Closes the GSO batch to the same path that slot number `newest` follows.
    fn supersede(&mut self, newest: usize) {
        let Some((slot, older)) = self.slots.get_mut(..=newest).and_then(<[Slot]>::split_last_mut) else {
            return;
        };
        let before = older.iter_mut().rev().find(|other| other.path == slot.path);
        if let Some(before) = before.filter(|before| !before.closed) {
            before.closed = true;
            self.closed += 1;
        }
    }

    /// The newest GSO batch to that path, if it admits the datagram. An older one never does: the datagram
    /// would overtake others.
    #[inline]
    fn find(&self, path: &Path, outer: OuterHeader, len: usize) -> Option<usize> {
        let (last, older) = self.slots.get(..self.used)?.split_last()?;
        if last.path.is_path(path) {
            return last.admits(outer, len).then_some(self.used - 1);
        }
        let oldest = older.len().saturating_sub(LOOK_BACK);
        let recent = older.get(oldest..)?;
        let newest = recent.iter().rposition(|slot| slot.path == *path)?;
        recent[newest].admits(outer, len).then_some(oldest + newest)
    }

    fn start(&mut self, path: &Path, outer: OuterHeader, len: usize) -> usize {
        let index = self.used;
        let limits = Limits::of(path.transport(), len);
        if self.slots.len() <= index {
            // Zeroed memory comes untouched from the system: only pages that are written cost anything.
            let buffer = vec![0; GSO_BATCH_BYTES];
            self.slots.push(Slot {
                path: *path,
                outer,
                buffer,
                used: 0,
                segment: len,
                limits,
                closed: false,
            });
        }
        let slot = &mut self.slots[index];
        slot.path = *path;
        slot.outer = outer;
        slot.used = 0;
        slot.segment = len;
        slot.limits = limits;
        slot.closed = false;
        index
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::world::{tcp, udp};

    const PLAIN: OuterHeader = OuterHeader { traffic_class: 0, hop_limit: 0 };

    fn put(out: &mut TransmitBatch, path: Path, bytes: &[u8]) {
        out.reserve(&path, PLAIN, bytes.len()).expect("fits").copy_from_slice(bytes);
        out.commit();
    }

    fn cut<'a>(gso_batch: &GsoBatch<'a>) -> Vec<&'a [u8]> {
        if gso_batch.path.transport() == Transport::Udp {
            return gso_batch.bytes.chunks(gso_batch.segment).collect();
        }
        let (mut rest, mut records) = (gso_batch.bytes, Vec::new());
        while let Some((prefix, tail)) = rest.split_first_chunk() {
            let (record, tail) = tail.split_at(usize::from(u16::from_be_bytes(*prefix)));
            records.push(record);
            rest = tail;
        }
        records
    }

    #[test]
    fn full_segments_fill_a_gso_batch() {
        let mut out = TransmitBatch::new();
        for _ in 0..46 {
            put(&mut out, udp(1), &[7; 1472]);
        }
        put(&mut out, udp(1), &[7; 100]);
        put(&mut out, udp(1), &[7; 1472]);
        let lens: Vec<usize> = out.iter().map(|gso_batch| gso_batch.bytes.len()).collect();
        assert_eq!(lens, [44 * 1472, 2 * 1472 + 100, 1472], "a shorter one ends a gso_batch");
    }

    #[test]
    fn a_run_of_shorter_datagrams_ends_a_gso_batch() {
        let mut out = TransmitBatch::new();
        put(&mut out, udp(1), &[7; 1472]);
        for expected in [1, 2] {
            let path = udp(1);
            let run = out.reserve_run(None, &path, PLAIN, (700, 2)).expect("fits");
            let count = run.map(|place| place.fill(8)).count();
            assert_eq!(count, expected);
            out.commit_run(count);
        }
        let datagrams: Vec<Vec<usize>> =
            out.iter().map(|gso_batch| cut(&gso_batch).iter().map(|bytes| bytes.len()).collect()).collect();
        assert_eq!(datagrams, [[1472, 700], [700, 700]]);
    }

    #[test]
    fn open_gso_batches_stay_while_complete_ones_leave() {
        let mut out = TransmitBatch::new();
        for _ in 0..46 {
            put(&mut out, udp(1), &[7; 1472]);
        }
        put(&mut out, udp(2), &[8; 100]);
        assert_eq!(out.complete().map(|gso_batch| gso_batch.bytes.len()).collect::<Vec<_>>(), [44 * 1472]);
        out.clear_complete();
        assert!(!out.has_complete());
        put(&mut out, udp(1), &[7; 1472]);
        let lens: Vec<usize> = out.iter().map(|gso_batch| gso_batch.bytes.len()).collect();
        assert_eq!(lens, [3 * 1472, 100], "the rest of the first gso_batch was joined");
    }

    #[test]
    fn what_is_not_committed_is_forgotten() {
        let mut out = TransmitBatch::new();
        out.reserve(&udp(1), PLAIN, 10).expect("fits");
        assert!(out.is_empty());
        put(&mut out, udp(2), b"sent");
        out.reserve(&udp(2), PLAIN, 4).expect("fits").copy_from_slice(b"lost");
        out.commit();
        out.commit();
        assert_eq!(out.iter().map(|gso_batch| gso_batch.bytes.to_vec()).collect::<Vec<_>>(), [b"sentlost"]);
        assert!(out.reserve(&udp(1), PLAIN, 0).is_none());
        assert!(out.reserve(&udp(1), PLAIN, MAX_DATAGRAM + 1).is_none());
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
            early in 1usize..200,
        ) {
            let mut out = TransmitBatch::new();
            put(&mut out, udp(99), b"an earlier batch");
            out.clear();
            let mut expected: Vec<(Path, Vec<u8>)> = Vec::new();
            // The path and the slot of the datagram before, if no batch left since.
            let mut before: Option<(Path, usize)> = None;
            let mut found: Vec<(Path, Vec<u8>)> = Vec::new();
            let mut send = |gso_batch: GsoBatch<'_>| {
                assert!(gso_batch.bytes.len() <= GSO_BATCH_BYTES);
                let datagrams = cut(&gso_batch);
                if gso_batch.path.transport() == Transport::Udp {
                    assert!(gso_batch.bytes.len() <= MAX_DATAGRAM && datagrams.len() <= MAX_SEGMENTS);
                }
                found.extend(datagrams.into_iter().map(|bytes| (gso_batch.path, bytes.to_vec())));
            };
            for (index, (last, stream, len)) in datagrams.into_iter().enumerate() {
                let path = if stream { tcp(last) } else { udp(last) };
                let bytes = vec![index as u8; len];
                let last = before.filter(|(other, _)| *other == path).map(|(_, slot)| slot);
                out.reserve_behind(last, &path, PLAIN, len).expect("fits").copy_from_slice(&bytes);
                before = out.commit().map(|slot| (path, slot));
                expected.push((path, bytes));
                if index % early == 0 {
                    assert_eq!(out.has_complete(), out.complete().next().is_some());
                    out.complete().for_each(&mut send);
                    out.clear_complete();
                    before = None;
                }
            }
            out.iter().for_each(&mut send);
            // A stable sort keeps each path's own order.
            expected.sort_by_key(|(path, _)| *path);
            found.sort_by_key(|(path, _)| *path);
            prop_assert_eq!(found, expected);
        }
    }
}

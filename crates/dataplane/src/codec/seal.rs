//! The sealing side of a codec.

use adit_core::{Cipher, Path};

use super::{GCM_MAX, GCM_WARN, blocks};
use crate::aead::{Aead, BATCH, Message, TAG_LEN};
use crate::counters::DropReason;
use crate::outer::OuterHeader;
use crate::segment::Segments;
use crate::transmit::TransmitBatch;

/// Where sealed datagrams of one peer go. A codec asks for room once for each datagram and fills all of it.
pub struct Place<'a> {
    transmit_batch: &'a mut TransmitBatch,
    path: &'a Path,
    outer: OuterHeader,
    len: usize,
    /// The slot of the datagram that was taken last.
    last: Option<usize>,
    datagrams: u64,
    bytes: u64,
    limit_near: bool,
}

impl<'a> Place<'a> {
    pub(crate) fn new(transmit_batch: &'a mut TransmitBatch, path: &'a Path, outer: OuterHeader) -> Self {
        Place { transmit_batch, path, outer, len: 0, last: None, datagrams: 0, bytes: 0, limit_near: false }
    }

    /// Room for a datagram of `len` bytes. Its content is the bytes that lay there before. It is sent if the
    /// codec then succeeds.
    ///
    /// # Errors
    /// [`DropReason::TooBig`] if no datagram can be as long, or `len` is 0.
    #[inline]
    pub fn datagram(&mut self, len: usize) -> Result<&mut [u8], DropReason> {
        self.len = len;
        self.transmit_batch.reserve_behind(self.last, self.path, self.outer, len).ok_or(DropReason::TooBig)
    }

    /// Notes that new keys are due. Called once in the life of a session's keys.
    #[inline]
    pub fn note_limit(&mut self) {
        self.limit_near = true;
    }

    /// Whether new keys are due.
    #[inline]
    pub(crate) fn is_limit_near(&self) -> bool {
        self.limit_near
    }

    /// Takes the datagram that was filled. The caller of [`Sealer::seal`] takes the last one of a payload.
    #[inline]
    pub fn commit(&mut self) {
        self.last = self.transmit_batch.commit();
        self.datagrams += 1;
        self.bytes += self.len as u64;
    }

    /// Room for datagrams of `len` bytes that follow each other: at least one, at most `most`.
    #[inline]
    fn datagrams(&mut self, len: usize, most: usize) -> Result<impl Iterator<Item = &mut [u8]>, DropReason> {
        self.len = len;
        let run = (len, most);
        self.transmit_batch.reserve_run(self.last, self.path, self.outer, run).ok_or(DropReason::TooBig)
    }

    /// Takes the first `count` datagrams that were filled.
    #[inline]
    fn commit_run(&mut self, count: usize) {
        self.last = self.transmit_batch.commit_run(count);
        self.datagrams += count as u64;
        self.bytes += (count * self.len) as u64;
    }

    /// Datagrams taken, and their bytes.
    #[inline]
    pub(crate) fn taken(&self) -> (u64, u64) {
        (self.datagrams, self.bytes)
    }
}

/// The packets of one super-packet, in order.
pub struct Run<'a> {
    pub(crate) segments: &'a Segments,
    pub(crate) template: &'a [u8],
    pub(crate) packet: &'a mut [u8],
    pub(crate) next: usize,
}

impl Run<'_> {
    /// The next packet, ready to be sealed. `Ok(None)` after the last.
    ///
    /// # Errors
    /// The super-packet's headers do not fit it.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<&[u8]>, DropReason> {
        if self.next >= self.segments.count() {
            return Ok(None);
        }
        let packet = self.segments.take(self.next, self.template, self.packet);
        self.next += 1;
        packet.map(|packet| Some(&*packet)).ok_or(DropReason::Malformed)
    }

    /// How many of the next packets have the same length, and that length.
    #[inline]
    fn equal(&self) -> (usize, usize) {
        let (whole, len) = self.segments.whole();
        (whole.saturating_sub(self.next), len)
    }
}

/// The sealing half of a session's codec.
pub trait Sealer: Send {
    /// Seals a payload into the last datagram of `place`. A format that cuts payloads takes the datagrams before it itself.
    /// Called once a packet. When new keys become due, it says so by [`Place::note_limit`].
    ///
    /// # Errors
    /// Why not all of it was sealed: [`DropReason::Exhausted`] where the key may not be used any more. The datagram that was
    /// asked for last is not sent; those that were taken before are, and count as sent.
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason>;

    /// Seals the packets of a super-packet, up to the first that cannot be. One call for all of them; the default
    /// seals one after the other.
    ///
    /// # Errors
    /// As [`Sealer::seal`]: the packets before are sent.
    fn seal_run(&mut self, run: &mut Run<'_>, place: &mut Place<'_>) -> Result<(), DropReason> {
        while let Some(packet) = run.next_packet()? {
            self.seal(packet, place)?;
            place.commit();
        }
        Ok(())
    }

    /// The MTU of the tunnel's device, in bytes, from now on. The default is for formats that do not depend on it.
    fn set_mtu(&mut self, mtu: u16) {
        let _ = mtu;
    }
}

/// Where things go in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where the payload starts, in bytes.
    pub payload: usize,
    /// Length of the datagram in bytes.
    pub datagram: usize,
}

/// A format with one key and one counter: the part that differs from format to format.
pub trait Encode: Send {
    /// Where a payload of that length goes. `first` is its first byte, on which some formats depend.
    fn layout(&self, first: Option<u8>, payload_len: usize) -> Layout;

    /// Seals the payload with that counter into a datagram of the length that [`Encode::layout`] gave. `None` if the
    /// length is another, or the cipher refuses.
    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], layout: Layout) -> Option<()>;

    /// As [`Sealer::set_mtu`].
    fn set_mtu(&mut self, mtu: u16) {
        let _ = mtu;
    }

    /// The AEAD, if it gains from batches and [`Encode::lay_out`] is there for it. A layout then does not depend on a
    /// payload's first byte.
    fn batching(&self) -> Option<&dyn Aead> {
        None
    }

    /// Does all that [`Encode::encode`] does but to seal: the message to be sealed, and the place of its tag.
    fn lay_out<'d>(
        &self,
        counter: u64,
        payload: &[u8],
        datagram: &'d mut [u8],
    ) -> Option<(Message<'d>, &'d mut [u8; TAG_LEN])> {
        let _ = (counter, payload, datagram);
        None
    }
}

/// How far a key may be used. Each number is the last that may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageLimits {
    /// The first counter.
    pub first: u64,
    /// The counter at which new keys are due.
    pub counter_warn: u64,
    /// The last counter.
    pub counter_max: u64,
    /// Blocks of 16 bytes and packets at which new keys are due.
    pub blocks_warn: u64,
    /// The most blocks of 16 bytes and packets.
    pub blocks_max: u64,
}

impl UsageLimits {
    /// The limits of a cipher. Those that are no GCM have none of their own that counters do not reach first.
    pub fn of(cipher: Cipher, first: u64, counter_warn: u64, counter_max: u64) -> Self {
        let (blocks_warn, blocks_max) = match cipher {
            Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm => (GCM_WARN, GCM_MAX),
            Cipher::ChaCha20Poly1305 | Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => {
                (u64::MAX, u64::MAX)
            }
        };
        UsageLimits { first, counter_warn, counter_max, blocks_warn, blocks_max }
    }
}

/// A [`Sealer`] that counts: no counter is used twice, and no key beyond its limits.
#[derive(Debug)]
pub struct CountingSealer<E> {
    encoder: E,
    /// The counter of the next packet.
    counter: u64,
    /// Blocks and packets so far.
    used: u64,
    limits: UsageLimits,
    /// Counters below this one are far from all limits, ...
    counter_free: u64,
    /// ... and so are fewer blocks and packets.
    used_free: u64,
    warned: bool,
}

impl<E: Encode> CountingSealer<E> {
    /// A sealer with a fresh key.
    pub fn new(encoder: E, limits: UsageLimits) -> Self {
        let counter_free = limits.counter_warn.min(limits.counter_max).saturating_sub(1);
        let used_free = limits.blocks_warn.min(limits.blocks_max);
        CountingSealer {
            encoder,
            counter: limits.first,
            used: 0,
            limits,
            counter_free,
            used_free,
            warned: false,
        }
    }

    /// Pretends that as many packets and blocks were sealed.
    #[cfg(any(test, feature = "testing"))]
    pub fn wear(&mut self, counter: u64, used: u64) {
        (self.counter, self.used) = (counter, used);
    }
}

impl<E: Encode> CountingSealer<E> {
    /// Notes, once, that new keys are due.
    #[cold]
    fn warn(&mut self, place: &mut Place<'_>) {
        let UsageLimits { counter_warn, blocks_warn, .. } = self.limits;
        if !self.warned && (self.counter >= counter_warn || self.used >= blocks_warn) {
            self.warned = true;
            place.note_limit();
        }
    }

    /// Seals a few packets at once, where at least two follow that have the same length. Says whether it did.
    fn seal_some(&mut self, run: &mut Run<'_>, place: &mut Place<'_>) -> Result<bool, DropReason> {
        let Some(aead) = self.encoder.batching() else { return Ok(false) };
        let (count, payload_len) = run.equal();
        let count = count.min(BATCH);
        let layout = self.encoder.layout(None, payload_len);
        let left = self.limits.counter_max.saturating_sub(self.counter);
        let used = self.used.saturating_add(blocks(layout.datagram).saturating_mul(count as u64));
        if count < 2 || left < count as u64 || used > self.limits.blocks_max {
            return Ok(false);
        }
        let mut messages: [Message<'_>; BATCH] = Default::default();
        let mut tags = [const { None }; BATCH];
        let mut taken = 0;
        let places = place.datagrams(layout.datagram, count)?;
        for (datagram, (message, tag)) in places.zip(messages.iter_mut().zip(&mut tags)) {
            let Some(packet) = run.next_packet()? else { break };
            let laid_out = self.encoder.lay_out(self.counter, packet, datagram);
            let (laid_out, tag_place) = laid_out.ok_or(DropReason::Exhausted)?;
            (*message, *tag) = (laid_out, Some(tag_place));
            self.counter += 1;
            self.used = self.used.saturating_add(blocks(layout.datagram));
            taken += 1;
        }
        let messages = messages.get_mut(..taken).unwrap_or_default();
        aead.seal_batch(messages).map_err(|_| DropReason::Exhausted)?;
        for (tag, message) in tags.into_iter().flatten().zip(messages) {
            *tag = message.tag;
        }
        place.commit_run(taken);
        if self.counter > self.counter_free || self.used >= self.used_free {
            self.warn(place);
        }
        Ok(taken > 0)
    }
}

impl<E: Encode> Sealer for CountingSealer<E> {
    #[inline]
    fn seal_run(&mut self, run: &mut Run<'_>, place: &mut Place<'_>) -> Result<(), DropReason> {
        while self.seal_some(run, place)? {}
        while let Some(packet) = run.next_packet()? {
            self.seal(packet, place)?;
            place.commit();
        }
        Ok(())
    }

    #[inline]
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason> {
        let layout = self.encoder.layout(payload.first().copied(), payload.len());
        let datagram = place.datagram(layout.datagram)?;
        let used = self.used.saturating_add(blocks(layout.datagram));
        let counter = self.counter;
        let is_near = counter >= self.counter_free || used >= self.used_free;
        if is_near && (counter > self.limits.counter_max || used > self.limits.blocks_max) {
            self.warn(place);
            return Err(DropReason::Exhausted);
        }
        self.counter = counter + 1;
        self.used = used;
        let sealed = self.encoder.encode(counter, payload, datagram, layout).ok_or(DropReason::Exhausted);
        if is_near {
            self.warn(place);
        }
        sealed
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.encoder.set_mtu(mtu);
    }
}

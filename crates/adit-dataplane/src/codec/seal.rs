//! The sealing side of a codec.

use adit_core::{Cipher, Path};

use super::{GCM_MAX, GCM_WARN, blocks};
use crate::counters::DropReason;
use crate::segment::Segments;
use crate::transmit::TransmitBatch;

/// Where sealed datagrams of one peer go. A codec asks for room once for each datagram and fills all of it.
pub struct Place<'a> {
    transmit_batch: &'a mut TransmitBatch,
    path: &'a Path,
    len: usize,
    datagrams: u64,
    bytes: u64,
}

impl<'a> Place<'a> {
    pub(crate) fn new(transmit_batch: &'a mut TransmitBatch, path: &'a Path) -> Self {
        Place { transmit_batch, path, len: 0, datagrams: 0, bytes: 0 }
    }

    /// Room for a datagram of `len` bytes. Its content is what lay there before. It is sent if the codec then
    /// succeeds.
    ///
    /// # Errors
    /// [`DropReason::TooBig`] if no datagram can be as long, or `len` is 0.
    #[inline]
    pub fn datagram(&mut self, len: usize) -> Result<&mut [u8], DropReason> {
        self.len = len;
        self.transmit_batch.reserve(self.path, len).ok_or(DropReason::TooBig)
    }

    /// Takes the datagram that was filled.
    #[inline]
    pub(crate) fn commit(&mut self) {
        self.transmit_batch.commit();
        self.datagrams += 1;
        self.bytes += self.len as u64;
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
}

/// The sealing half of a session's codec.
pub trait Sealer: Send {
    /// Seals a payload into one datagram of `place`. Called once a packet.
    ///
    /// # Errors
    /// Why nothing was sealed: [`DropReason::Exhausted`] where the key may not be used any more.
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason>;

    /// Seals the packets of a super-packet, up to the first that cannot be. One call for all of them; the default
    /// seals one after the other.
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    fn seal_run(&mut self, run: &mut Run<'_>, place: &mut Place<'_>) -> Result<(), DropReason> {
        while let Some(packet) = run.next_packet()? {
            self.seal(packet, place)?;
            place.commit();
        }
        Ok(())
    }

    /// Whether new keys are due; true once.
    fn take_limit_near(&mut self) -> bool;
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
    /// With the limits of a cipher. Those that are no GCM have none of their own that counters do not reach first.
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
    warned: bool,
}

impl<E: Encode> CountingSealer<E> {
    /// With a fresh key.
    pub fn new(encoder: E, limits: UsageLimits) -> Self {
        CountingSealer { encoder, counter: limits.first, used: 0, limits, warned: false }
    }

    /// Pretends that as many packets and blocks were sealed.
    #[cfg(test)]
    pub(crate) fn wear(&mut self, counter: u64, used: u64) {
        (self.counter, self.used) = (counter, used);
    }
}

impl<E: Encode> Sealer for CountingSealer<E> {
    #[inline]
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason> {
        let layout = self.encoder.layout(payload.first().copied(), payload.len());
        let datagram = place.datagram(layout.datagram)?;
        let used = self.used.saturating_add(blocks(layout.datagram));
        if self.counter > self.limits.counter_max || used > self.limits.blocks_max {
            return Err(DropReason::Exhausted);
        }
        let counter = self.counter;
        self.counter += 1;
        self.used = used;
        self.encoder.encode(counter, payload, datagram, layout).ok_or(DropReason::Exhausted)
    }

    #[inline]
    fn take_limit_near(&mut self) -> bool {
        let near = !self.warned
            && (self.counter >= self.limits.counter_warn || self.used >= self.limits.blocks_warn);
        self.warned |= near;
        near
    }
}

//! OpenVPN's epoch data format (OpenVPN 2.7: crypto.c, crypto_epoch.c): `DATA_V2` whose packet ids never end.
//!
//! Opcode and key id (1), peer-id (3), epoch (2), counter (6), ciphertext, tag (16); all in front of the
//! ciphertext is authenticated. Epoch and counter, XORed into the epoch's IV, are the nonce. A sender goes to the
//! next epoch before a key was used more than it may be; a receiver has the keys of some epochs to come, and of
//! the one before.

mod keys;
mod opener;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use adit_core::Cipher;
use adit_dataplane::DropReason;
use adit_dataplane::aead::{AeadError, TAG_LEN};
use adit_dataplane::codec::{GCM_MAX, Layout, Place, Sealer as SealerTrait, blocks};
use adit_openvpn::codec::{Compression, DataFraming, DirectionKey};

use self::keys::{Epoch, EpochKey};
pub(super) use self::opener::Opener;
use crate::aead::{Header, V2_HEADER};
use crate::compression;

/// Epoch and counter.
const PACKET_ID: usize = 8;
/// Bytes in front of the ciphertext.
const FRONT: usize = V2_HEADER + PACKET_ID;
/// Bits of the counter.
const COUNTER_BITS: u32 = 48;
/// The last counter of an epoch.
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;
/// The epoch at which new keys are due (OpenVPN ssl.c, `should_trigger_renegotiation`).
const EPOCH_WARN: u16 = 0xf000;

/// How much may be sealed in one epoch, in blocks and packets. OpenVPN knows no limit for ChaCha20-Poly1305.
fn usage_max(cipher: Cipher) -> u64 {
    if cipher == Cipher::ChaCha20Poly1305 { u64::MAX } else { GCM_MAX }
}

/// The epoch that the opening half of a session wants its sealing half to be in, or beyond.
#[derive(Clone, Default)]
pub(super) struct Wanted(Arc<AtomicU16>);

impl Wanted {
    /// Epochs only rise.
    fn raise(&self, epoch: u16) {
        self.0.fetch_max(epoch, Ordering::Relaxed);
    }

    #[inline]
    fn get(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) struct Sealer {
    cipher: Cipher,
    header: [u8; V2_HEADER],
    compression: Compression,
    epoch: Epoch,
    key: EpochKey,
    /// The counter of the next packet.
    counter: u64,
    /// Blocks and packets sealed in this epoch, ...
    used: u64,
    /// ... and how many may be.
    used_max: u64,
    wanted: Wanted,
    warned: bool,
}

impl Sealer {
    /// # Errors
    /// The key is no epoch's secret, the cipher is no AEAD, or the framing is not `DATA_V2`.
    pub(super) fn new(framing: DataFraming, cipher: Cipher, key: &DirectionKey) -> Result<Self, AeadError> {
        let epoch = Epoch::first(cipher, &key.key)?;
        Ok(Sealer {
            cipher,
            header: Header::new(framing).v2().ok_or(AeadError::Refused)?,
            compression: framing.compression,
            key: epoch.key(cipher)?,
            epoch,
            counter: 1,
            used: 0,
            used_max: usage_max(cipher),
            wanted: Wanted::default(),
            warned: false,
        })
    }

    /// Goes from now on where that opening half goes.
    pub(super) fn follow(&mut self, opener: &Opener) {
        self.wanted = opener.wanted();
    }

    #[inline]
    fn layout(&self, first: Option<u8>, payload_len: usize) -> Layout {
        let (before, after) = compression::room(self.compression, first);
        let payload = FRONT + before;
        Layout { payload, datagram: payload + payload_len + after + TAG_LEN }
    }

    /// Whether epochs are running out, and new keys are due.
    #[inline]
    fn is_near_end(&self) -> bool {
        self.epoch.number >= EPOCH_WARN
    }

    /// Seals a payload, which goes to `at`. `None` if the datagram has not the length that `layout` gave, the
    /// AEAD refuses, or there are no more epochs.
    #[inline]
    fn seal_at(&mut self, payload: &[u8], datagram: &mut [u8], at: usize) -> Option<()> {
        let id = self.next_id(blocks(datagram.len()))?;
        let nonce = self.key.nonce(id);
        let (front, rest) = datagram.split_first_chunk_mut::<FRONT>()?;
        let (header, packet_id) = front.split_at_mut(V2_HEADER);
        header.copy_from_slice(&self.header);
        packet_id.copy_from_slice(&id.to_be_bytes());
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        if self.compression == Compression::None {
            return self.key.aead.seal_from(nonce, front, payload, body, tag).ok();
        }
        // The bytes around the payload must be sealed with it: that is done in place.
        let start = at.checked_sub(FRONT)?;
        body.get_mut(start..start.checked_add(payload.len())?)?.copy_from_slice(payload);
        compression::frame(self.compression, body, payload.len())?;
        *tag = self.key.aead.seal(nonce, front, body).ok()?;
        Some(())
    }

    /// Takes the next packet id, in the next epoch if it is time for that; `cost` is the packet's use of the key.
    /// `None` if there is no next epoch.
    #[inline]
    fn next_id(&mut self, cost: u64) -> Option<u64> {
        let wanted = self.wanted.get();
        let used = self.used.saturating_add(cost);
        if used > self.used_max || self.counter > COUNTER_MAX || wanted > self.epoch.number {
            self.turn(wanted)?;
            self.used = cost;
        } else {
            self.used = used;
        }
        let id = u64::from(self.epoch.number) << COUNTER_BITS | self.counter;
        self.counter += 1;
        Some(id)
    }

    /// Goes to the next epoch, or to the one that is wanted if it is further. Epochs only rise, so that no key
    /// comes again with counters that begin anew.
    #[cold]
    fn turn(&mut self, wanted: u16) -> Option<()> {
        let mut epoch = self.epoch.next()?;
        while epoch.number < wanted {
            epoch = epoch.next()?;
        }
        self.key = epoch.key(self.cipher).ok()?;
        self.epoch = epoch;
        (self.counter, self.used) = (1, 0);
        Some(())
    }

    /// Pretends that as many packets and blocks were sealed in an epoch, which is not before the present one.
    #[cfg(test)]
    pub(super) fn wear(&mut self, epoch: u16, counter: u64, used: u64) {
        if epoch > self.epoch.number {
            self.turn(epoch).expect("there are as many");
        }
        (self.counter, self.used) = (counter, used);
    }
}

impl SealerTrait for Sealer {
    #[inline]
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason> {
        let layout = self.layout(payload.first().copied(), payload.len());
        let datagram = place.datagram(layout.datagram)?;
        let sealed = self.seal_at(payload, datagram, layout.payload).ok_or(DropReason::Exhausted);
        if self.is_near_end() && !self.warned {
            self.warned = true;
            place.note_limit();
        }
        sealed
    }
}

#[cfg(test)]
mod tests;

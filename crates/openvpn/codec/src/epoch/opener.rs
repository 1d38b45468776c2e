//! The receiving half: the epochs that may be opened, and their counters that were seen.

use std::collections::VecDeque;

use adit_core::{Cipher, Instant, ReplayWindow};
use adit_dataplane::DropReason;
use adit_dataplane::aead::{AeadError, TAG_LEN};
use adit_dataplane::codec::{
    FAILED_TAGS_MAX, FAILED_TAGS_WARN, Freshness, NotInPlace, Opened, Opener as OpenerTrait, Window, blocks,
};
use adit_openvpn::codec::{Compression, DataFraming, DirectionKey};

use super::keys::{Epoch, EpochKey};
use super::{COUNTER_BITS, COUNTER_MAX, FRONT, PACKET_ID, Wanted, usage_max};
use crate::aead::{V2_HEADER, header_len};
use crate::compression;

/// How many epochs after the current one a receiver takes packets of (OpenVPN ssl.c, `init_epoch_keys`).
pub(super) const FUTURE: u16 = 4;
/// The last epoch that a receiver goes to: those that it takes beyond it must exist (crypto_epoch.c,
/// `epoch_lookup_decrypt_key`).
pub(super) const LAST_EPOCH: u16 = u16::MAX - FUTURE - 1;

/// A key, and how many datagrams did not verify with it.
pub(super) struct OpenKey {
    key: EpochKey,
    failed_tags: u64,
}

/// An epoch that packets came in.
struct Met {
    key: OpenKey,
    window: Window,
}

pub(crate) struct Opener {
    cipher: Cipher,
    compression: Compression,
    replay: ReplayWindow,
    /// The epoch that packets came in before the current one.
    retiring: Option<Met>,
    current: Met,
    /// Blocks and packets opened in the current epoch, ...
    used: u64,
    /// ... and how many the peer should have sealed at most.
    used_max: u64,
    /// The epochs after the current one that a packet named, and those before it, without a gap. Few sessions see
    /// any, and each key costs time in the handshake and memory for ever.
    future: VecDeque<OpenKey>,
    /// The last of them, or the current one.
    newest: Epoch,
    wanted: Wanted,
}

impl Opener {
    /// # Errors
    /// The key is no epoch's secret, or the cipher is no AEAD.
    pub(crate) fn new(
        framing: DataFraming,
        cipher: Cipher,
        key: &DirectionKey,
        replay: ReplayWindow,
    ) -> Result<Self, AeadError> {
        let newest = Epoch::first(cipher, &key.key)?;
        let key = OpenKey { key: newest.key(cipher)?, failed_tags: 0 };
        Ok(Opener {
            cipher,
            compression: framing.compression,
            replay,
            retiring: None,
            current: Met { key, window: Window::new(replay) },
            used: 0,
            used_max: usage_max(cipher),
            future: VecDeque::new(),
            newest,
            wanted: Wanted::default(),
        })
    }

    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.clone()
    }

    /// Makes the keys up to that epoch that are missing.
    fn look_ahead(&mut self, epoch: u16) {
        while self.newest.number < epoch {
            let Some(next) = self.newest.next() else { return };
            let Ok(key) = next.key(self.cipher) else { return };
            self.future.push_back(OpenKey { key, failed_tags: 0 });
            self.newest = next;
        }
    }

    /// The key of an epoch that may be opened.
    #[inline]
    pub(super) fn find(&mut self, epoch: u16) -> Option<&mut OpenKey> {
        if epoch == self.current.key.key.number {
            return Some(&mut self.current.key);
        }
        self.find_other(epoch)
    }

    /// The key of an epoch that is not the current one. A sender that is not the peer can name coming epochs, too: that
    /// makes each key once, and no more of them than the peer could.
    #[cold]
    fn find_other(&mut self, epoch: u16) -> Option<&mut OpenKey> {
        let Some(ahead) = epoch.checked_sub(self.current.key.key.number) else {
            return self.retiring.as_mut().map(|met| &mut met.key).filter(|key| key.key.number == epoch);
        };
        if ahead > FUTURE || epoch > LAST_EPOCH {
            return None;
        }
        self.look_ahead(epoch);
        self.future.iter_mut().find(|key| key.key.number == epoch)
    }

    /// Verifies, decrypts in place and judges freshness. `Err` says why not.
    #[inline]
    fn open_framed(&mut self, datagram: &mut [u8]) -> Result<Opened, DropReason> {
        let end = datagram.len();
        if header_len(datagram) != V2_HEADER {
            return Err(DropReason::Malformed);
        }
        let (front, rest) = datagram.split_first_chunk_mut::<FRONT>().ok_or(DropReason::Malformed)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(DropReason::Malformed)?;
        let id: [u8; PACKET_ID] = *front.last_chunk().ok_or(DropReason::Malformed)?;
        let id = u64::from_be_bytes(id);
        let epoch = (id >> COUNTER_BITS) as u16;
        let found = self.find(epoch).ok_or(DropReason::NoSession)?;
        if found.failed_tags >= FAILED_TAGS_MAX {
            return Err(DropReason::Exhausted);
        }
        if found.key.aead.open(found.key.nonce(id), front, tag, body).is_err() {
            found.failed_tags += 1;
            self.note_failure(epoch);
            return Err(DropReason::BadTag);
        }
        match self.accept(epoch, id & COUNTER_MAX, blocks(end)) {
            Freshness::Replayed => Err(DropReason::Replay),
            freshness => {
                let payload = compression::unframe(self.compression, datagram, FRONT..end - TAG_LEN);
                let payload = payload.map_err(NotInPlace::Dropped);
                Ok(Opened { payload, newest: freshness == Freshness::Newest })
            }
        }
    }

    /// Judges the freshness of a packet that was authenticated, and used so much of its key. One of a coming epoch
    /// makes that the current one, and the sealing half follows.
    #[inline]
    fn accept(&mut self, epoch: u16, counter: u64, cost: u64) -> Freshness {
        if epoch != self.current.key.key.number {
            if let Some(freshness) = self.accept_late(epoch, counter) {
                return freshness;
            }
            if self.go_to(epoch).is_none() {
                return Freshness::Replayed;
            }
        }
        self.used = self.used.saturating_add(cost);
        if self.used > self.used_max {
            self.ask_for_next();
        }
        self.current.window.accept(counter)
    }

    /// Judges a packet of the epoch before the current one, if it is of that.
    #[cold]
    fn accept_late(&mut self, epoch: u16, counter: u64) -> Option<Freshness> {
        let met = self.retiring.as_mut().filter(|met| met.key.key.number == epoch)?;
        Some(match met.window.accept(counter) {
            // However new within its epoch, it is older than packets of the current one.
            Freshness::Newest => Freshness::Late,
            other => other,
        })
    }

    /// Makes a coming epoch the current one. All keys up to it are given up, but the current one, which retires.
    /// `None` if there is no such epoch.
    #[cold]
    fn go_to(&mut self, epoch: u16) -> Option<()> {
        let index = self.future.iter().position(|key| key.key.number == epoch)?;
        let key = self.future.drain(..=index).next_back()?;
        let now = Met { key, window: Window::new(self.replay) };
        self.retiring = Some(std::mem::replace(&mut self.current, now));
        self.used = 0;
        self.wanted.raise(epoch);
        Some(())
    }

    /// A datagram of that epoch did not verify. When that happened too often, the peer shall go on to another key.
    #[cold]
    fn note_failure(&mut self, epoch: u16) {
        let current = &self.current.key;
        if epoch == current.key.number && current.failed_tags == FAILED_TAGS_WARN {
            self.ask_for_next();
        }
    }

    /// The peer goes to the next epoch when we do (crypto_epoch.c, `epoch_check_send_iterate`).
    #[cold]
    fn ask_for_next(&self) {
        self.wanted.raise(self.current.key.key.number.saturating_add(1));
    }

    /// The current epoch, and those after it that keys were made for.
    #[cfg(test)]
    pub(super) fn epochs(&self) -> (u16, Vec<u16>) {
        (self.current.key.key.number, self.future.iter().map(|key| key.key.number).collect())
    }

    /// Pretends that as much was opened, and as many tags failed, in the current epoch.
    #[cfg(test)]
    pub(super) fn wear(&mut self, used: u64, failed_tags: u64) {
        self.used = used;
        self.current.key.failed_tags = failed_tags;
    }
}

impl OpenerTrait for Opener {
    #[inline]
    fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, DropReason> {
        self.open_framed(datagram)
    }

    fn tick(&mut self, now: Instant) {
        let retiring = self.retiring.iter_mut();
        retiring.chain([&mut self.current]).for_each(|met| met.window.tick(now));
    }

    /// Another epoch's key takes over from one whose tags failed too often; no new session is needed.
    fn limit_near(&self) -> bool {
        false
    }
}

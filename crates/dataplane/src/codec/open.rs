//! The opening side of a codec.

use std::ops::Range;

use adit_core::{Instant, ReplayWindow};

use super::{FAILED_TAGS_MAX, FAILED_TAGS_WARN};
use crate::aead::{Aead, BATCH, Message};
use crate::counters::DropReason;
use crate::replay::{Freshness, Window};

/// The content of an authentic datagram that was not received before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The payload's place in the datagram.
    pub payload: Result<Range<usize>, NotInPlace>,
    /// Whether it was sent after all others that were opened.
    pub newest: bool,
}

/// Why the payload of an authentic datagram does not lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInPlace {
    /// The payload is dropped.
    Dropped(DropReason),
    /// The datagram held a part of it, and other parts have not come yet.
    Incomplete,
    /// The payload is elsewhere: [`Opener::rebuilt`] gives it.
    Rebuilt,
}

impl From<DropReason> for NotInPlace {
    fn from(reason: DropReason) -> Self {
        NotInPlace::Dropped(reason)
    }
}

/// The opening half of a session's codec.
pub trait Opener: Send {
    /// Verifies, decrypts in place and judges freshness. Called once a datagram.
    ///
    /// # Errors
    /// Why it is dropped. It then says nothing about the peer.
    fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, DropReason>;

    /// Whether several datagrams take less time in one call of [`Opener::decrypt`] than in one each of
    /// [`Opener::open`].
    fn gains_from_batches(&self) -> bool {
        false
    }

    /// Verifies at most [`BATCH`] datagrams and decrypts them in place. Each of them is then given to
    /// [`Opener::accept`], in this order; nothing else of the session changes before.
    fn decrypt(&self, datagrams: &mut [&mut [u8]]) -> [Result<Plain, DropReason>; BATCH] {
        let _ = datagrams;
        NOTHING
    }

    /// Judges the freshness of a datagram that [`Opener::decrypt`] decrypted.
    ///
    /// # Errors
    /// As [`Opener::open`].
    fn accept(
        &mut self,
        datagram: &mut [u8],
        plain: Result<Plain, DropReason>,
    ) -> Result<Opened, DropReason> {
        let _ = plain;
        self.open(datagram)
    }

    /// The payload of the datagram that was opened last, after [`NotInPlace::Rebuilt`]. The default is for formats whose
    /// payloads always lie in their datagrams.
    fn rebuilt(&mut self) -> &mut [u8] {
        &mut []
    }

    /// The time goes on; called about once a second. Datagrams that are late by more than the window's time
    /// are refused from now on.
    fn tick(&mut self, now: Instant);

    /// Whether, with the tag that failed last, new keys became due. Asked after [`DropReason::BadTag`].
    fn limit_near(&self) -> bool;

    /// The window of the counters that were seen, for a session of the same id that takes this one's place,
    /// if it has the same key.
    fn take_window(&mut self) -> Option<Window> {
        None
    }

    /// Goes on with the counters that the session before it had seen.
    fn adopt_window(&mut self, window: Window) {
        let _ = window;
    }
}

/// The result for each datagram of a batch without any.
const NOTHING: [Result<Plain, DropReason>; BATCH] = [const { Err(DropReason::Malformed) }; BATCH];

/// A datagram that was decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Its counter in full, at least 1.
    pub counter: u64,
    /// The payload with the bytes around it inside the encryption.
    pub payload: Range<usize>,
}

/// A format with one key and one counter: the part that differs from format to format.
pub trait Decode: Send {
    /// Whether sessions that follow each other have the same key. Then a session takes over the window of the one
    /// before it, and no number of forged datagrams ends it, as there are no other keys to go on to.
    const KEY_STAYS: bool = false;

    /// Verifies and decrypts in place. `seen` are the counters received before: a format whose wire has fewer bits than
    /// its counters infers the rest from them ([`Window::infer`]).
    ///
    /// # Errors
    /// Why it is dropped; [`DropReason::BadTag`] if it is not authentic.
    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason>;

    /// The AEAD, if it gains from batches and [`Decode::take_apart`] is there for it.
    fn batching(&self) -> Option<&dyn Aead> {
        None
    }

    /// Does all that [`Decode::decode`] does but to open: gives the message to be opened, and the result that follows
    /// then. `seen` are the counters received before the first datagram of the batch.
    ///
    /// # Errors
    /// Why the datagram is dropped.
    fn take_apart<'d>(
        &self,
        datagram: &'d mut [u8],
        seen: &Window,
    ) -> Result<(Message<'d>, Plain), DropReason> {
        let _ = (datagram, seen);
        Err(DropReason::Malformed)
    }

    /// Takes the payload out of the bytes around it inside the encryption.
    ///
    /// # Errors
    /// Why the payload is dropped.
    #[inline]
    fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, DropReason> {
        let _ = datagram;
        Ok(payload)
    }
}

/// An [`Opener`] with a replay window, and a limit for tags that fail.
#[derive(Debug)]
pub struct WindowedOpener<D> {
    decoder: D,
    window: Window,
    failed_tags: u64,
}

impl<D: Decode> WindowedOpener<D> {
    /// An opener with a fresh key and an empty window.
    pub fn new(decoder: D, replay: ReplayWindow) -> Self {
        WindowedOpener { decoder, window: Window::new(replay), failed_tags: 0 }
    }

    /// Pretends that as many tags failed.
    #[cfg(any(test, feature = "testing"))]
    pub fn wear(&mut self, failed_tags: u64) {
        self.failed_tags = failed_tags;
    }

    /// Judges the freshness of a datagram that was decrypted, or counts its tag that failed.
    #[inline(always)]
    fn judge(&mut self, datagram: &mut [u8], plain: Result<Plain, DropReason>) -> Result<Opened, DropReason> {
        let plain = plain.inspect_err(|reason| {
            self.failed_tags += u64::from(*reason == DropReason::BadTag && !D::KEY_STAYS);
        })?;
        match self.window.accept(plain.counter) {
            Freshness::Replayed => Err(DropReason::Replay),
            freshness => Ok(Opened {
                payload: self.decoder.unframe(datagram, plain.payload).map_err(NotInPlace::Dropped),
                newest: freshness == Freshness::Newest,
            }),
        }
    }
}

impl<D: Decode> Opener for WindowedOpener<D> {
    #[inline]
    fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, DropReason> {
        if self.failed_tags >= FAILED_TAGS_MAX {
            return Err(DropReason::Exhausted);
        }
        let plain = self.decoder.decode(datagram, &self.window);
        self.judge(datagram, plain)
    }

    fn gains_from_batches(&self) -> bool {
        self.failed_tags < FAILED_TAGS_MAX && self.decoder.batching().is_some()
    }

    fn decrypt(&self, datagrams: &mut [&mut [u8]]) -> [Result<Plain, DropReason>; BATCH] {
        let mut plains = NOTHING;
        let Some(aead) = self.decoder.batching() else { return plains };
        let mut messages: [Message<'_>; BATCH] = Default::default();
        let (mut places, mut used) = ([0; BATCH], 0);
        for (place, (datagram, plain)) in datagrams.iter_mut().zip(&mut plains).enumerate() {
            *plain = self.decoder.take_apart(datagram, &self.window).map(|(message, plain)| {
                (messages[used], places[used]) = (message, place);
                used += 1;
                plain
            });
        }
        let authentic = aead.open_batch(messages.get_mut(..used).unwrap_or_default());
        for (index, place) in places.into_iter().take(used).enumerate() {
            if authentic >> index & 1 == 0 {
                plains[place] = Err(DropReason::BadTag);
            }
        }
        plains
    }

    #[inline]
    fn accept(
        &mut self,
        datagram: &mut [u8],
        plain: Result<Plain, DropReason>,
    ) -> Result<Opened, DropReason> {
        self.judge(datagram, plain)
    }

    fn tick(&mut self, now: Instant) {
        self.window.tick(now);
    }

    fn limit_near(&self) -> bool {
        self.failed_tags == FAILED_TAGS_WARN
    }

    fn take_window(&mut self) -> Option<Window> {
        D::KEY_STAYS.then(|| self.window.clone())
    }

    fn adopt_window(&mut self, window: Window) {
        if D::KEY_STAYS {
            self.window = window;
        }
    }
}

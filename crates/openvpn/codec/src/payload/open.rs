//! Payloads that came: put together, and decompressed.

use std::ops::Range;

use adit_core::Instant;
use adit_dataplane::DropReason;
use adit_dataplane::aead::BATCH;
use adit_dataplane::codec::{NotInPlace, Opened, Opener as OpenerTrait, Plain, Window};
use adit_openvpn::codec::{Compression, Payloads};

use super::decompress::{Unframed, Unframing};
use super::fragment::HEADER;
use super::reassemble::{Reassembly, Taken};
use super::seal::FRAMING;

/// Where the payload of the datagram that was opened last is.
enum Rebuilt {
    /// The payload is in the datagram, or nowhere.
    No,
    /// Among the reassembled ones, in that place.
    Reassembled { place: usize, range: Range<usize> },
    /// The first so many decompressed bytes.
    Decompressed(usize),
}

pub(super) struct Opener {
    inner: Box<dyn OpenerTrait>,
    unframing: Unframing,
    /// `None`: payloads do not come in parts.
    reassembly: Option<Reassembly>,
    rebuilt: Rebuilt,
}

impl Opener {
    pub(super) fn new(inner: Box<dyn OpenerTrait>, compression: Compression, payloads: Payloads) -> Self {
        let longest = usize::from(payloads.longest);
        Opener {
            inner,
            unframing: Unframing::new(compression, payloads.decompress.then_some(longest)),
            reassembly: payloads.fragment.map(|_| Reassembly::new(longest + FRAMING)),
            rebuilt: Rebuilt::No,
        }
    }

    fn take_out(&mut self, datagram: &mut [u8], opened: Opened) -> Opened {
        self.rebuilt = Rebuilt::No;
        let payload = opened.payload.and_then(|payload| self.payload(datagram, payload));
        Opened { payload, ..opened }
    }

    /// The payload of the bytes that lie there in the datagram.
    fn payload(&mut self, datagram: &mut [u8], sealed: Range<usize>) -> Result<Range<usize>, NotInPlace> {
        let mut framed = sealed;
        if let Some(reassembly) = &mut self.reassembly
            && !framed.is_empty()
        {
            let bytes = datagram.get(framed.clone()).unwrap_or_default();
            let (header, part) = bytes.split_first_chunk::<HEADER>().ok_or(DropReason::Malformed)?;
            match reassembly.take(*header, part)? {
                Taken::Whole => framed.start += HEADER,
                Taken::Incomplete => return Err(NotInPlace::Incomplete),
                Taken::Complete { place, len } => {
                    self.rebuilt = match self.unframing.take(reassembly.bytes(place), 0..len)? {
                        Unframed::InPlace(range) => Rebuilt::Reassembled { place, range },
                        Unframed::Decompressed(len) => Rebuilt::Decompressed(len),
                    };
                    return Err(NotInPlace::Rebuilt);
                }
            }
        }
        match self.unframing.take(datagram, framed)? {
            Unframed::InPlace(range) => Ok(range),
            Unframed::Decompressed(len) => {
                self.rebuilt = Rebuilt::Decompressed(len);
                Err(NotInPlace::Rebuilt)
            }
        }
    }
}

impl OpenerTrait for Opener {
    fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, DropReason> {
        let opened = self.inner.open(datagram)?;
        Ok(self.take_out(datagram, opened))
    }

    fn gains_from_batches(&self) -> bool {
        self.inner.gains_from_batches()
    }

    fn decrypt(&self, datagrams: &mut [&mut [u8]]) -> [Result<Plain, DropReason>; BATCH] {
        self.inner.decrypt(datagrams)
    }

    fn accept(
        &mut self,
        datagram: &mut [u8],
        plain: Result<Plain, DropReason>,
    ) -> Result<Opened, DropReason> {
        let opened = self.inner.accept(datagram, plain)?;
        Ok(self.take_out(datagram, opened))
    }

    fn rebuilt(&mut self) -> &mut [u8] {
        let bytes = match (&self.rebuilt, &mut self.reassembly) {
            (Rebuilt::Reassembled { place, range }, Some(reassembly)) => {
                reassembly.bytes(*place).get_mut(range.clone())
            }
            (Rebuilt::Decompressed(len), _) => self.unframing.buffer.get_mut(..*len),
            _ => None,
        };
        bytes.unwrap_or_default()
    }

    fn tick(&mut self, now: Instant) {
        self.inner.tick(now);
        if let Some(reassembly) = &mut self.reassembly {
            reassembly.tick(now);
        }
    }

    fn limit_near(&self) -> bool {
        self.inner.limit_near()
    }

    fn take_window(&mut self) -> Option<Window> {
        self.inner.take_window()
    }

    fn adopt_window(&mut self, window: Window) {
        self.inner.adopt_window(window);
    }
}

//! The format with an index. Its outer headers depend on the packets inside, and its counters begin with 0.

use adit_core::{Cipher, ReplayWindow, SessionId};

use crate::aead::{Aead, NONCE_LEN, TAG_LEN, aws_lc};
use crate::codec::{
    Class, CountingSealer, Decode, Demultiplexer, Encode, Layout, Plain, SessionCodec, UsageLimits, Window,
    WindowedOpener,
};
use crate::{DropReason, OuterPolicy, TrafficClass};

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;
const HEADER: usize = 16;
const DATA: [u8; 4] = [4, 0, 0, 0];

/// The demultiplexer.
#[derive(Debug)]
pub(crate) struct Indexed;

impl Demultiplexer for Indexed {
    fn classify(&self, datagram: &[u8]) -> Class {
        match datagram {
            [4, 0, 0, 0, a, b, c, d, ..] => {
                Class::Session(SessionId(u32::from_le_bytes([*a, *b, *c, *d]).into()))
            }
            [1..=3, 0, 0, 0, ..] => Class::Control,
            _ => Class::Malformed,
        }
    }

    fn follows_streams(&self) -> bool {
        true
    }
}

/// The codec of a session under that index. Both directions have one key.
pub(crate) fn with_outer_headers(index: u32) -> SessionCodec {
    let key = || aws_lc(CIPHER, &[1; 32]).expect("the key fits");
    let limits = UsageLimits::of(CIPHER, 0, u64::MAX, u64::MAX);
    let sealer = CountingSealer::new(Sealer { aead: key(), index }, limits);
    let opener = WindowedOpener::new(Opener(key()), ReplayWindow::default());
    let nested = |payload: &[u8]| payload.starts_with(&DATA);
    let outer = OuterPolicy { traffic_class: TrafficClass::Ecn, nested: Some(nested) };
    SessionCodec { outer, ..SessionCodec::new(Box::new(sealer), Box::new(opener)) }
}

fn nonce(counter: [u8; 8]) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[4..].copy_from_slice(&counter);
    nonce
}

struct Sealer {
    aead: Box<dyn Aead>,
    index: u32,
}

impl Encode for Sealer {
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        Layout { payload: HEADER, datagram: HEADER + payload_len + TAG_LEN }
    }

    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let counter = counter.to_le_bytes();
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header[..4].copy_from_slice(&DATA);
        header[4..8].copy_from_slice(&self.index.to_le_bytes());
        header[8..].copy_from_slice(&counter);
        self.aead.seal_from(nonce(counter), header, payload, body, tag).ok()
    }
}

struct Opener(Box<dyn Aead>);

impl Decode for Opener {
    fn decode(&self, datagram: &mut [u8], _seen: &Window) -> Result<Plain, DropReason> {
        let end = datagram.len().saturating_sub(TAG_LEN);
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>().ok_or(DropReason::Malformed)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(DropReason::Malformed)?;
        let counter = *header.last_chunk::<8>().ok_or(DropReason::Malformed)?;
        self.0.open(nonce(counter), header, tag, body).map_err(|_| DropReason::BadTag)?;
        Ok(Plain { counter: u64::from_le_bytes(counter).saturating_add(1), payload: HEADER..end })
    }
}

//! A wire format of the tests' own, as the driver depends on none.
//!
//! Data is kind (1), perhaps the peer's number (4), counter (8), ciphertext, tag (16). The rest begins with [`CONTROL`].

use adit_core::{Cipher, Install, PeerId, ReplayWindow, SessionId};
use adit_dataplane::DropReason;
use adit_dataplane::aead::{Aead, AeadError, NONCE_LEN, TAG_LEN, aws_lc};
use adit_dataplane::codec::{
    Class, CountingSealer, Decode, Demultiplexer, Encode, Layout, Plain, SessionCodec, Steering,
    StreamAdvice, UsageLimits, Window, WindowedOpener,
};

use super::Role;

/// The first byte of a control datagram.
pub(super) const CONTROL: u8 = b'c';
/// Data with a number.
const NUMBERED: u8 = 1;
/// Data without a number.
const BARE: u8 = 2;
/// The number that says nothing: look at the path.
const NO_NUMBER: u32 = u32::MAX;
const COUNTER_LEN: usize = 8;
const CIPHER: Cipher = Cipher::Aes256Gcm;

/// The bytes in front of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// The peer's number at the server.
    Number(u32),
    /// A number, but one that says nothing.
    NoNumber,
    /// No number at all: the kernel cannot steer such datagrams.
    Bare,
}

/// A session's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codec {
    pub(super) header: Header,
    /// The byte that the key for sent datagrams is made of.
    pub(super) seal: u8,
    /// The byte that the key for received datagrams is made of.
    pub(super) open: u8,
}

/// The session of a peer.
pub(super) fn session_id(peer: PeerId) -> SessionId {
    SessionId(peer.0.into())
}

pub(super) fn make_codec(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    let Codec { header, seal, open } = install.codec;
    let header = match header {
        Header::Number(number) => [&[NUMBERED][..], &number.to_be_bytes()].concat(),
        Header::NoNumber => [&[NUMBERED][..], &NO_NUMBER.to_be_bytes()].concat(),
        Header::Bare => vec![BARE],
    };
    let steered = header[0] == NUMBERED;
    let sealer = Sealer { aead: aws_lc(CIPHER, &[seal; 32])?, header };
    let limits = UsageLimits::of(CIPHER, 1, u64::MAX, u64::MAX);
    let opener = WindowedOpener::new(Opener(aws_lc(CIPHER, &[open; 32])?), ReplayWindow::default());
    let codec = SessionCodec::new(Box::new(CountingSealer::new(sealer, limits)), Box::new(opener));
    Ok(SessionCodec { steered, ..codec })
}

fn nonce(counter: [u8; COUNTER_LEN]) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - COUNTER_LEN..].copy_from_slice(&counter);
    nonce
}

struct Sealer {
    aead: Box<dyn Aead>,
    header: Vec<u8>,
}

impl Encode for Sealer {
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        let payload = self.header.len() + COUNTER_LEN;
        Layout { payload, datagram: payload + payload_len + TAG_LEN }
    }

    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let counter = counter.to_be_bytes();
        let (header, rest) = datagram.split_at_mut_checked(self.header.len())?;
        let (place, rest) = rest.split_first_chunk_mut::<COUNTER_LEN>()?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header.copy_from_slice(&self.header);
        *place = counter;
        self.aead.seal_from(nonce(counter), header, payload, body, tag).ok()
    }
}

struct Opener(Box<dyn Aead>);

impl Decode for Opener {
    fn decode(&self, datagram: &mut [u8], _seen: &Window) -> Result<Plain, DropReason> {
        let header_len = if datagram.first() == Some(&NUMBERED) { 5 } else { 1 };
        let payload = header_len + COUNTER_LEN..datagram.len().saturating_sub(TAG_LEN);
        let (header, rest) = datagram.split_at_mut_checked(header_len).ok_or(DropReason::Malformed)?;
        let (counter, rest) = rest.split_first_chunk_mut().ok_or(DropReason::Malformed)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(DropReason::Malformed)?;
        self.0.open(nonce(*counter), header, tag, body).map_err(|_| DropReason::BadTag)?;
        Ok(Plain { counter: u64::from_be_bytes(*counter), payload })
    }
}

/// Tells apart the datagrams that arrive at the sockets of an end. A client's data is of its one peer.
#[derive(Debug)]
pub(super) struct Sockets(pub(super) Role);

impl Demultiplexer for Sockets {
    fn classify(&self, datagram: &[u8]) -> Class {
        match (self.0, datagram) {
            (_, [CONTROL, ..]) => Class::Control,
            (Role::Client, [NUMBERED | BARE, ..]) => Class::Session(session_id(PeerId::SERVER)),
            (Role::Server, [NUMBERED, a, b, c, d, ..]) => match u32::from_be_bytes([*a, *b, *c, *d]) {
                NO_NUMBER => Class::Path,
                number => Class::Session(session_id(PeerId(number))),
            },
            (Role::Server, [BARE, ..]) => Class::Path,
            _ => Class::Malformed,
        }
    }

    fn session_of(&self, peer: PeerId, _datagram: &[u8]) -> Option<SessionId> {
        Some(session_id(peer))
    }

    fn longest_first_record(&self) -> Option<usize> {
        (self.0 == Role::Server).then_some(4096)
    }

    /// First records have at most 255 bytes.
    fn begins_stream(&self, first: &[u8]) -> bool {
        first.len() == 3 && first.starts_with(&[0])
    }

    fn stream_advice(&self) -> StreamAdvice {
        StreamAdvice { lost_step: "it lost its step", too_long: "it leaves out the lengths" }
    }

    fn steering(&self) -> Option<Steering> {
        let word = Steering { kind_mask: 0xff, kind: NUMBERED, offset: 1, mask: u32::MAX };
        (self.0 == Role::Server).then_some(word)
    }
}

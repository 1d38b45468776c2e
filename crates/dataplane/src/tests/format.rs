//! Two formats that no protocol has, for the tests of the data plane.
//!
//! One names its sender's session by 3 bits and its sender by a number or by the path: kind (5 bits) and session (3 bits),
//! the sender (3 bytes, where the kind says so), counter (4), tag (16), ciphertext. The other names a session by an index:
//! kind (4, little-endian), index (4), counter (8), ciphertext, tag (16). All in front of the ciphertext is authenticated.

mod indexed;

use crate::testing::batches::Keys;
use std::sync::Arc;

use adit_core::{Cipher, PeerId, ReplayWindow, SessionId};

pub(crate) use self::indexed::{Indexed, with_outer_headers};
use crate::aead::{Aead, Message, NONCE_LEN, Provider, TAG_LEN, aws_lc};
use crate::codec::{
    Class, CountingSealer, Decode, Demultiplexer, Encode, Layout, Plain, SessionCodec, UsageLimits, Window,
    WindowedOpener,
};
use crate::{DropReason, OpenSession, SealSession};

const DATA_BY_PATH: u8 = 6;
const DATA: u8 = 9;
/// The longest control datagram.
const MAX_CONTROL: usize = 4096;
const COUNTER: usize = 4;

/// The header of the data datagrams of a session.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    bytes: [u8; 4],
    len: usize,
}

/// The header that names its sender.
pub(crate) fn named(sender: u32, number: u8) -> Header {
    let [_, a, b, c] = sender.to_be_bytes();
    Header { bytes: [DATA << 3 | number, a, b, c], len: 4 }
}

/// The header of a sender that its path names.
pub(crate) fn by_path(number: u8) -> Header {
    Header { bytes: [DATA_BY_PATH << 3 | number, 0, 0, 0], len: 1 }
}

/// The session of that number with a peer.
pub(crate) const fn session_id(peer: PeerId, number: u8) -> SessionId {
    SessionId(((peer.0 as u64) << 3) | number as u64)
}

/// The demultiplexer of an end with one peer.
pub(crate) fn client() -> Arc<dyn Demultiplexer> {
    Arc::new(Named { has_one_peer: true })
}

/// The demultiplexer of an end with many peers.
pub(crate) fn server() -> Arc<dyn Demultiplexer> {
    Arc::new(Named { has_one_peer: false })
}

/// The demultiplexer of the format with an index.
pub(crate) fn indexed() -> Arc<dyn Demultiplexer> {
    Arc::new(Indexed)
}

/// A demultiplexer for which all is data of one session.
pub(crate) fn all_data() -> Arc<dyn Demultiplexer> {
    Arc::new(AllData)
}

#[derive(Debug)]
struct Named {
    has_one_peer: bool,
}

impl Demultiplexer for Named {
    fn classify(&self, datagram: &[u8]) -> Class {
        let Some(&first) = datagram.first() else { return Class::Malformed };
        let number = first & 7;
        match (first >> 3, datagram) {
            (DATA | DATA_BY_PATH, _) if self.has_one_peer => {
                Class::Session(session_id(PeerId::SERVER, number))
            }
            (DATA, [_, a, b, c, ..]) => {
                Class::Session(session_id(PeerId(u32::from_be_bytes([0, *a, *b, *c])), number))
            }
            (DATA, _) => Class::Malformed,
            (DATA_BY_PATH, _) => Class::Path,
            _ if datagram.len() > MAX_CONTROL => Class::Malformed,
            _ => Class::Control,
        }
    }

    fn session_of(&self, peer: PeerId, datagram: &[u8]) -> Option<SessionId> {
        Some(session_id(peer, datagram.first()? & 7))
    }

    fn longest_first_record(&self) -> Option<usize> {
        (!self.has_one_peer).then_some(MAX_CONTROL)
    }
}

#[derive(Debug)]
struct AllData;

impl Demultiplexer for AllData {
    fn classify(&self, _datagram: &[u8]) -> Class {
        Class::Session(session_id(PeerId::SERVER, 0))
    }

    fn follows_streams(&self) -> bool {
        true
    }
}

/// The codec of a session that seals and opens with keys made of one byte each.
pub(crate) fn session(header: Header, cipher: Cipher, keys: Keys, replay: ReplayWindow) -> SessionCodec {
    let opener = WindowedOpener::new(Opener(key(aws_lc, cipher, keys.open)), replay);
    SessionCodec::new(Box::new(sealer(aws_lc, header, cipher, keys.seal)), Box::new(opener))
}

/// The codec of a session with AEADs of that provider.
pub(crate) fn session_with(provider: Provider, header: Header, keys: Keys) -> SessionCodec {
    let cipher = Cipher::ChaCha20Poly1305;
    let opener = WindowedOpener::new(Opener(key(provider, cipher, keys.open)), ReplayWindow::default());
    SessionCodec::new(Box::new(sealer(provider, header, cipher, keys.seal)), Box::new(opener))
}

/// Seals with [`named`]`(1, 0)` and key 1, as if as many packets and blocks had been sealed.
pub(crate) fn worn_sealer(counter: u64, used: u64) -> SealSession {
    let mut sealer = sealer(aws_lc, named(1, 0), Cipher::Aes256Gcm, 1);
    sealer.wear(counter, used);
    halves(Box::new(sealer), Box::new(opener(1))).0
}

/// Opens datagrams with [`named`]`(1, 0)` and key 1, as if as many tags had failed.
pub(crate) fn worn_opener(failed_tags: u64) -> OpenSession {
    let mut opener = opener(1);
    opener.wear(failed_tags);
    halves(Box::new(sealer(aws_lc, named(1, 0), Cipher::Aes256Gcm, 1)), Box::new(opener)).1
}

fn halves(
    seal: Box<CountingSealer<Sealer>>,
    open: Box<WindowedOpener<Opener>>,
) -> (SealSession, OpenSession) {
    SessionCodec::new(seal, open).halves()
}

fn opener(seed: u8) -> WindowedOpener<Opener> {
    WindowedOpener::new(Opener(key(aws_lc, Cipher::Aes256Gcm, seed)), ReplayWindow::default())
}

fn sealer(provider: Provider, header: Header, cipher: Cipher, seed: u8) -> CountingSealer<Sealer> {
    let limits = UsageLimits::of(cipher, 1, 0xff00_0000, 0xffff_ffff);
    CountingSealer::new(Sealer { aead: key(provider, cipher, seed), header }, limits)
}

fn key(provider: Provider, cipher: Cipher, seed: u8) -> Box<dyn Aead> {
    provider(cipher, &vec![seed; cipher.key_len()]).expect("an AEAD, and its key fits")
}

fn nonce(counter: [u8; COUNTER]) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[..COUNTER].copy_from_slice(&counter);
    nonce
}

struct Sealer {
    aead: Box<dyn Aead>,
    header: Header,
}

impl Sealer {
    /// Length of the authenticated bytes.
    fn front(&self) -> usize {
        self.header.len + COUNTER
    }
}

impl Encode for Sealer {
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        let payload = self.front() + TAG_LEN;
        Layout { payload, datagram: payload + payload_len }
    }

    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let (message, tag) = self.lay_out(counter, payload, datagram)?;
        *tag = self.aead.seal(message.nonce, message.aad, message.text).ok()?;
        Some(())
    }

    fn batching(&self) -> Option<&dyn Aead> {
        self.aead.gains_from_batches().then_some(&*self.aead)
    }

    fn lay_out<'d>(
        &self,
        counter: u64,
        payload: &[u8],
        datagram: &'d mut [u8],
    ) -> Option<(Message<'d>, &'d mut [u8; TAG_LEN])> {
        let counter = u32::try_from(counter).ok()?.to_be_bytes();
        let (front, rest) = datagram.split_at_mut_checked(self.front())?;
        let (tag, text) = rest.split_first_chunk_mut::<TAG_LEN>()?;
        front[..self.header.len].copy_from_slice(&self.header.bytes[..self.header.len]);
        front[self.header.len..].copy_from_slice(&counter);
        text.copy_from_slice(payload);
        Some((Message { nonce: nonce(counter), aad: front, text, tag: [0; TAG_LEN] }, tag))
    }
}

struct Opener(Box<dyn Aead>);

impl Decode for Opener {
    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason> {
        let (message, plain) = self.take_apart(datagram, seen)?;
        let opened = self.0.open(message.nonce, message.aad, &message.tag, message.text);
        opened.map(|()| plain).map_err(|_| DropReason::BadTag)
    }

    fn batching(&self) -> Option<&dyn Aead> {
        self.0.gains_from_batches().then_some(&*self.0)
    }

    fn take_apart<'d>(
        &self,
        datagram: &'d mut [u8],
        _seen: &Window,
    ) -> Result<(Message<'d>, Plain), DropReason> {
        let is_by_path = datagram.first().is_some_and(|first| first >> 3 == DATA_BY_PATH);
        let front = COUNTER + if is_by_path { 1 } else { 4 };
        let end = datagram.len();
        let (front, rest) = datagram.split_at_mut_checked(front).ok_or(DropReason::Malformed)?;
        let (tag, text) = rest.split_first_chunk_mut::<TAG_LEN>().ok_or(DropReason::Malformed)?;
        let counter = *front.last_chunk::<COUNTER>().ok_or(DropReason::Malformed)?;
        if counter == [0; COUNTER] {
            return Err(DropReason::Malformed);
        }
        let plain =
            Plain { counter: u32::from_be_bytes(counter).into(), payload: front.len() + TAG_LEN..end };
        Ok((Message { nonce: nonce(counter), aad: front, text, tag: *tag }, plain))
    }
}

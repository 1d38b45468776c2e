//! How the data of `adit-toy` looks on the wire, and how its two sockets tell datagrams apart: the part of the protocol
//! that the data plane runs.
//!
//! A crate of its own beside the machine's, as protocols do not import the data plane; the compiler sees to it.
#![forbid(unsafe_code)]

use adit_core::{Cipher, Install, ReplayWindow, SessionId};
use adit_dataplane::DropReason;
use adit_dataplane::aead::{Aead, AeadError, Message, NONCE_LEN, Provider, TAG_LEN, aws_lc};
use adit_dataplane::codec::{
    Class, CountingSealer, Decode, Demultiplexer, Encode, Layout, Plain, SessionCodec, Steering, UsageLimits,
    Window, WindowedOpener,
};
use adit_toy::Codec;
use adit_toy::wire::{DATA_HEADER, MARKER, is_control};

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;

/// The codec of a session.
///
/// # Errors
/// None: keys of 32 bytes fit the cipher.
pub fn session(install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    session_with(aws_lc, install)
}

/// The codec of a session, whose AEADs come from that provider.
///
/// # Errors
/// That of the provider.
pub fn session_with(provider: Provider, install: &Install<Codec>) -> Result<SessionCodec, AeadError> {
    let Codec { remote_index, seal_key, open_key, first_counter, .. } = &install.codec;
    let sealer = Sealer { aead: provider(CIPHER, seal_key.as_slice())?, remote_index: *remote_index };
    let opener = Opener(provider(CIPHER, open_key.as_slice())?);
    let warn = first_counter.saturating_add(install.codec.rekey_after_datagrams);
    let limits = UsageLimits::of(CIPHER, *first_counter, warn, u64::MAX - 1);
    let sealer = CountingSealer::new(sealer, limits);
    let opener = WindowedOpener::new(opener, ReplayWindow::default());
    let mut codec = SessionCodec::new(Box::new(sealer), Box::new(opener));
    codec.expires = Some(install.codec.expires);
    let selectors = install.codec.selectors.clone();
    Ok(if selectors.is_empty() { codec } else { codec.with_selectors(selectors) })
}

/// The demultiplexer of a socket that takes control messages alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlSocket;

impl Demultiplexer for ControlSocket {
    fn classify(&self, datagram: &[u8]) -> Class {
        if is_control(datagram) { Class::Control } else { Class::Malformed }
    }
}

/// The demultiplexer of a socket that takes data, and control messages behind a marker.
#[derive(Clone, Copy, Debug, Default)]
pub struct DataSocket;

impl Demultiplexer for DataSocket {
    #[inline]
    fn classify(&self, datagram: &[u8]) -> Class {
        match datagram.split_first_chunk() {
            Some((&MARKER, message)) if is_control(message) => Class::Control,
            Some((index, _)) if *index != MARKER => {
                Class::Session(SessionId(u32::from_be_bytes(*index).into()))
            }
            _ => Class::Malformed,
        }
    }

    /// A marker, or the highest bit of an index, which is always set.
    fn recognises(&self) -> Option<fn(&[u8]) -> bool> {
        Some(|datagram| matches!(datagram, [0 | 0x80.., ..]))
    }

    /// The lowest byte of an index is the number of the peer.
    fn steering(&self) -> Option<Steering> {
        Some(Steering { kind_mask: 0x80, kind: 0x80, offset: 0, mask: 0xff })
    }
}

/// The whole counter, although the wire has only a part of it: a wrong guess of the rest does not verify.
fn nonce(counter: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

struct Sealer {
    aead: Box<dyn Aead>,
    remote_index: u32,
}

impl Encode for Sealer {
    #[inline]
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        Layout { payload: DATA_HEADER, datagram: DATA_HEADER + payload_len + TAG_LEN }
    }

    #[inline]
    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let (header, rest) = datagram.split_first_chunk_mut::<DATA_HEADER>()?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header[..4].copy_from_slice(&self.remote_index.to_be_bytes());
        header[4..].copy_from_slice(&(counter as u32).to_be_bytes());
        self.aead.seal_from(nonce(counter), header, payload, body, tag).ok()
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.aead.gains_from_batches().then_some(&*self.aead)
    }

    #[inline]
    fn lay_out<'d>(
        &self,
        counter: u64,
        payload: &[u8],
        datagram: &'d mut [u8],
    ) -> Option<(Message<'d>, &'d mut [u8; TAG_LEN])> {
        let (header, rest) = datagram.split_first_chunk_mut::<DATA_HEADER>()?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header[..4].copy_from_slice(&self.remote_index.to_be_bytes());
        header[4..].copy_from_slice(&(counter as u32).to_be_bytes());
        (body.len() == payload.len()).then(|| body.copy_from_slice(payload))?;
        Some((Message { nonce: nonce(counter), aad: header, text: body, tag: [0; TAG_LEN] }, tag))
    }
}

struct Opener(Box<dyn Aead>);

impl Decode for Opener {
    #[inline]
    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason> {
        let (message, plain) = self.take_apart(datagram, seen)?;
        let opened = self.0.open(message.nonce, message.aad, &message.tag, message.text);
        opened.map(|()| plain).map_err(|_| DropReason::BadTag)
    }

    #[inline]
    fn batching(&self) -> Option<&dyn Aead> {
        self.0.gains_from_batches().then_some(&*self.0)
    }

    #[inline]
    fn take_apart<'d>(
        &self,
        datagram: &'d mut [u8],
        seen: &Window,
    ) -> Result<(Message<'d>, Plain), DropReason> {
        let (header, rest) = datagram.split_first_chunk_mut::<DATA_HEADER>().ok_or(DropReason::Malformed)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(DropReason::Malformed)?;
        let [.., a, b, c, d] = *header;
        let counter = seen.infer(u32::from_be_bytes([a, b, c, d]));
        let plain = Plain { counter, payload: DATA_HEADER..DATA_HEADER + body.len() };
        Ok((Message { nonce: nonce(counter), aad: header, text: body, tag: *tag }, plain))
    }
}

#[cfg(test)]
mod tests;

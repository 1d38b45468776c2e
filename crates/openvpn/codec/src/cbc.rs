//! OpenVPN's data channel with a block cipher and an HMAC (OpenVPN crypto.c, `openvpn_encrypt_v1` and
//! `openvpn_decrypt_v1`), for peers that know no AEAD.
//!
//! Header as with an AEAD (opcode, perhaps peer-id), HMAC, IV (16), ciphertext. The HMAC covers IV and
//! ciphertext, and not the header. The plaintext is the packet id (4), the payload in its compression
//! framing, and padding to whole blocks (PKCS#7).
//!
//! With a static key there is no header, and the packet id is long: a number (4), and the time at which the
//! numbers began (4).

use std::ops::Range;

use adit_core::Cipher;
use adit_dataplane::DropReason;
use adit_dataplane::aead::AeadError;
use adit_dataplane::cbc::{BLOCK, Decryptor, Encryptor, Ivs};
use adit_dataplane::codec::{Decode, Encode, Layout, Plain, Window};
use adit_dataplane::mac::Mac;
use adit_openvpn::codec::{Compression, DataFraming, DirectionKey, MacKey, StaticFraming};

use crate::aead::{Header, PACKET_ID, header_len};
use crate::compression;

/// A packet id with its time.
const LONG_PACKET_ID: usize = 8;

/// The fields in front of the payload, besides HMAC and IV.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// A header, and a short packet id.
    Short(DataFraming),
    /// A long packet id.
    Long(StaticFraming),
}

impl From<DataFraming> for Form {
    fn from(framing: DataFraming) -> Self {
        Form::Short(framing)
    }
}

impl From<StaticFraming> for Form {
    fn from(framing: StaticFraming) -> Self {
        Form::Long(framing)
    }
}

impl Form {
    fn header(self) -> Header {
        match self {
            Form::Short(framing) => Header::new(framing),
            Form::Long(_) => Header::NONE,
        }
    }

    fn packet_id(self) -> usize {
        match self {
            Form::Short(_) => PACKET_ID,
            Form::Long(_) => LONG_PACKET_ID,
        }
    }

    fn compression(self) -> Compression {
        match self {
            Form::Short(framing) => framing.compression,
            Form::Long(framing) => framing.compression,
        }
    }

    fn began(self) -> u32 {
        match self {
            Form::Short(_) => 0,
            Form::Long(framing) => framing.began,
        }
    }
}

/// The number of a packet among all that are sealed with the same key for IVs.
fn number(began: u32, counter: u32) -> u64 {
    u64::from(began) << 32 | u64::from(counter)
}

pub(super) struct Sealer {
    cipher: Encryptor,
    mac: Mac,
    ivs: Ivs,
    header: Header,
    form: Form,
}

impl Sealer {
    pub(super) fn new(form: impl Into<Form>, cipher: Cipher, key: &DirectionKey) -> Result<Self, AeadError> {
        let mac = mac_key(cipher, key)?;
        let form = form.into();
        Ok(Sealer {
            cipher: Encryptor::new(cipher, &key.key)?,
            mac: Mac::new(mac.digest, &mac.key),
            ivs: Ivs::new(&mac.iv_key)?,
            header: form.header(),
            form,
        })
    }

    /// Where the plaintext starts.
    fn body(&self) -> usize {
        self.header.len + self.mac.sent_len() + BLOCK
    }

    /// Seals a payload that lies in its place. `None` if the datagram has not the length that `layout` gave, or the
    /// library refuses.
    fn seal(&self, counter: u64, datagram: &mut [u8], payload: Range<usize>) -> Option<()> {
        let (counter, began) = (u32::try_from(counter).ok()?, self.form.began());
        let compression = self.form.compression();
        let framing = payload.start.checked_sub(self.body() + self.form.packet_id())?;
        let (header, rest) = datagram.split_at_mut_checked(self.header.len)?;
        header.copy_from_slice(self.header.bytes()?);
        let (mac, sealed) = rest.split_at_mut_checked(self.mac.sent_len())?;
        let (iv, body) = sealed.split_first_chunk_mut::<BLOCK>()?;

        let (id, framed) = body.split_at_mut_checked(self.form.packet_id())?;
        let (short, time) = id.split_first_chunk_mut::<PACKET_ID>()?;
        *short = counter.to_be_bytes();
        time.copy_from_slice(began.to_be_bytes().get(..time.len())?);
        let (_, tail) = compression::room(compression, None);
        let (framed, padding) = framed.split_at_mut_checked(framing + payload.len() + tail)?;
        compression::frame(compression, framed, payload.len())?;
        padding.fill(u8::try_from(padding.len()).ok()?);

        *iv = self.ivs.iv(number(began, counter))?;
        self.cipher.encrypt(*iv, body).ok()?;
        self.mac.sign([sealed, &[]], mac)
    }
}

impl Encode for Sealer {
    fn layout(&self, first: Option<u8>, payload_len: usize) -> Layout {
        let (before, after) = compression::room(self.form.compression(), first);
        let packet_id = self.form.packet_id();
        let plain = packet_id + before + payload_len + after;
        let padding = BLOCK - plain % BLOCK;
        Layout { payload: self.body() + packet_id + before, datagram: self.body() + plain + padding }
    }

    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], layout: Layout) -> Option<()> {
        let place = layout.payload..layout.payload.checked_add(payload.len())?;
        datagram.get_mut(place.clone())?.copy_from_slice(payload);
        self.seal(counter, datagram, place)
    }
}

pub(super) struct Opener {
    cipher: Decryptor,
    mac: Mac,
    compression: Compression,
    /// The key of our own IVs, in the long form.
    own_ivs: Option<Ivs>,
}

impl Opener {
    pub(super) fn new(form: impl Into<Form>, cipher: Cipher, key: &DirectionKey) -> Result<Self, AeadError> {
        let mac = mac_key(cipher, key)?;
        let form = form.into();
        Ok(Opener {
            cipher: Decryptor::new(cipher, &key.key)?,
            mac: Mac::new(mac.digest, &mac.key),
            compression: form.compression(),
            own_ivs: match form {
                Form::Short(_) => None,
                Form::Long(_) => Some(Ivs::new(&mac.iv_key)?),
            },
        })
    }

    /// Whether it opens the long form.
    fn is_static(&self) -> bool {
        self.own_ivs.is_some()
    }

    /// Opens the long form; or either version of the short one, as the datagram's opcode says.
    fn open(&self, datagram: &mut [u8]) -> Result<Plain, DropReason> {
        let header_len = if self.is_static() { 0 } else { header_len(datagram) };
        self.open_with(datagram, header_len).unwrap_or(Err(DropReason::Malformed))
    }

    /// `None` if the datagram is too short, or no whole blocks. Nothing is decrypted before the HMAC was
    /// verified, so that bad padding can only come from a holder of the keys; it counts as a bad tag all the
    /// same.
    fn open_with(&self, datagram: &mut [u8], header_len: usize) -> Option<Result<Plain, DropReason>> {
        let end = datagram.len();
        let (mac, sealed) = datagram.get_mut(header_len..)?.split_at_mut_checked(self.mac.sent_len())?;
        if sealed.len() < 2 * BLOCK || sealed.len() % BLOCK != 0 {
            return None;
        }
        if self.mac.verify([sealed, &[]], mac).is_err() {
            return Some(Err(DropReason::BadTag));
        }
        let (iv, plain) = sealed.split_first_chunk_mut::<BLOCK>()?;
        self.cipher.decrypt(*iv, plain).ok()?;
        let Some(padding) = padding(plain) else { return Some(Err(DropReason::BadTag)) };
        let (id, rest) = plain.split_first_chunk::<PACKET_ID>()?;
        let counter = u32::from_be_bytes(*id);
        if counter == 0 {
            return None;
        }
        let (number, packet_id) = match &self.own_ivs {
            None => (u64::from(counter), PACKET_ID),
            Some(own) => {
                let number = number(u32::from_be_bytes(*rest.first_chunk()?), counter);
                // Where both directions have one key, datagrams that we sent can be sent back to us.
                if own.iv(number)? == *iv {
                    return Some(Err(DropReason::Replay));
                }
                (number, LONG_PACKET_ID)
            }
        };
        let payload = header_len + self.mac.sent_len() + BLOCK + packet_id..end.checked_sub(padding)?;
        (payload.start <= payload.end).then_some(Ok(Plain { counter: number, payload }))
    }
}

impl Decode for Opener {
    fn decode(&self, datagram: &mut [u8], _seen: &Window) -> Result<Plain, DropReason> {
        self.open(datagram)
    }

    fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, DropReason> {
        compression::unframe(self.compression, datagram, payload)
    }
}

/// The opener under a static key.
pub(super) struct StaticOpener(pub(super) Opener);

impl Decode for StaticOpener {
    const KEY_STAYS: bool = true;

    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason> {
        self.0.decode(datagram, seen)
    }

    fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, DropReason> {
        self.0.unframe(datagram, payload)
    }
}

/// How many bytes of padding end the plaintext; `None` if they are none.
fn padding(plain: &[u8]) -> Option<usize> {
    let last = *plain.last()?;
    let len = usize::from(last);
    let padding = plain.get(plain.len().checked_sub(len)?..)?;
    ((1..=BLOCK).contains(&len) && padding.iter().all(|byte| *byte == last)).then_some(len)
}

/// The part of a key that a cipher without authentication needs.
fn mac_key(cipher: Cipher, key: &DirectionKey) -> Result<&MacKey, AeadError> {
    let mac = key.mac.as_ref().filter(|mac| mac.key.len() == mac.digest.output_len());
    mac.ok_or(AeadError::MacKey { cipher })
}

#[cfg(test)]
mod tests;

//! OpenVPN's data channel with a block cipher and an HMAC (OpenVPN crypto.c, `openvpn_encrypt_v1` and
//! `openvpn_decrypt_v1`), for peers that know no AEAD.
//!
//! Header as with an AEAD (opcode, perhaps peer-id), HMAC, IV (16), ciphertext. The HMAC covers IV and
//! ciphertext, and not the header. The plaintext is the packet id (4), the payload in its compression
//! framing, and padding to whole blocks (PKCS#7).

use std::ops::Range;

use adit_core::{Cipher, CompressionFraming, Digest, DirectionKey, MacKey, OpenVpnFraming};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;

use super::openvpn::{Header, PACKET_ID, header_len};
use super::{Layout, Plain, compression};
use crate::aead::AeadError;
use crate::counters::Drop;

const BLOCK: usize = 16;

pub(super) struct Sealer {
    cipher: EncryptingKey,
    mac: hmac::Key,
    mac_len: usize,
    /// Makes IVs of counters.
    ivs: EncryptingKey,
    header: Header,
    compression: CompressionFraming,
}

impl Sealer {
    pub(super) fn new(
        framing: OpenVpnFraming,
        cipher: Cipher,
        key: &DirectionKey,
    ) -> Result<Self, AeadError> {
        let (mac, parts) = mac_key(cipher, key)?;
        let ivs = UnboundCipherKey::new(&AES_128, &*parts.iv_key).and_then(EncryptingKey::ecb);
        Ok(Sealer {
            cipher: EncryptingKey::cbc(cipher_key(cipher, key)?).map_err(|_| AeadError::Refused)?,
            mac,
            mac_len: parts.digest.output_len(),
            ivs: ivs.map_err(|_| AeadError::Refused)?,
            header: Header::new(framing),
            compression: framing.compression,
        })
    }

    /// Where the plaintext starts.
    fn body(&self) -> usize {
        self.header.len + self.mac_len + BLOCK
    }

    pub(super) fn layout(&self, first: Option<u8>, payload_len: usize) -> Layout {
        let (before, after) = compression::room(self.compression, first);
        let plain = PACKET_ID + before + payload_len + after;
        let padding = BLOCK - plain % BLOCK;
        Layout { payload: self.body() + PACKET_ID + before, datagram: self.body() + plain + padding }
    }

    /// `None` if the datagram has not the length that `layout` gave, or the library refuses.
    pub(super) fn seal(&self, counter: u64, datagram: &mut [u8], payload: Range<usize>) -> Option<()> {
        let packet_id = u32::try_from(counter).ok()?.to_be_bytes();
        let framing = payload.start.checked_sub(self.body() + PACKET_ID)?;
        let (header, rest) = datagram.split_at_mut_checked(self.header.len)?;
        header.copy_from_slice(self.header.bytes()?);
        let (mac, sealed) = rest.split_at_mut_checked(self.mac_len)?;
        let (iv, body) = sealed.split_first_chunk_mut::<BLOCK>()?;

        let (id, framed) = body.split_first_chunk_mut::<PACKET_ID>()?;
        *id = packet_id;
        let (_, tail) = compression::room(self.compression, None);
        let (framed, padding) = framed.split_at_mut_checked(framing + payload.len() + tail)?;
        compression::frame(self.compression, framed, payload.len())?;
        padding.fill(u8::try_from(padding.len()).ok()?);

        *iv = self.iv(counter)?;
        let context = EncryptionContext::Iv128(FixedLength::from(&*iv));
        self.cipher.less_safe_encrypt(body, context).ok()?;
        hmac::sign_to_buffer(&self.mac, sealed, mac).ok()?;
        Some(())
    }

    /// A packet's IV: the number of the packet, encrypted with a key that serves for nothing else. Nobody
    /// without that key can foretell it, and it is another for each packet (NIST SP 800-38A, appendix C).
    fn iv(&self, counter: u64) -> Option<[u8; BLOCK]> {
        let mut iv = u128::from(counter).to_be_bytes();
        self.ivs.less_safe_encrypt(&mut iv, EncryptionContext::None).ok()?;
        Some(iv)
    }
}

pub(super) struct Opener {
    cipher: DecryptingKey,
    mac: hmac::Key,
    mac_len: usize,
    pub(super) compression: CompressionFraming,
}

impl Opener {
    pub(super) fn new(
        framing: OpenVpnFraming,
        cipher: Cipher,
        key: &DirectionKey,
    ) -> Result<Self, AeadError> {
        let (mac, parts) = mac_key(cipher, key)?;
        Ok(Opener {
            cipher: DecryptingKey::cbc(cipher_key(cipher, key)?).map_err(|_| AeadError::Refused)?,
            mac,
            mac_len: parts.digest.output_len(),
            compression: framing.compression,
        })
    }

    /// Opens either version, as the datagram's opcode says.
    pub(super) fn open(&self, datagram: &mut [u8]) -> Result<Plain, Drop> {
        let header_len = header_len(datagram);
        self.open_with(datagram, header_len).unwrap_or(Err(Drop::Malformed))
    }

    /// `None` if the datagram is too short, or no whole blocks. Nothing is decrypted before the HMAC was
    /// verified, so that bad padding can only come from who has the keys; it counts as a bad tag all the
    /// same.
    fn open_with(&self, datagram: &mut [u8], header_len: usize) -> Option<Result<Plain, Drop>> {
        let end = datagram.len();
        let (mac, sealed) = datagram.get_mut(header_len..)?.split_at_mut_checked(self.mac_len)?;
        if sealed.len() < 2 * BLOCK || sealed.len() % BLOCK != 0 {
            return None;
        }
        if hmac::verify(&self.mac, sealed, mac).is_err() {
            return Some(Err(Drop::BadTag));
        }
        let (iv, body) = sealed.split_first_chunk_mut::<BLOCK>()?;
        let context = DecryptionContext::Iv128(FixedLength::from(&*iv));
        let plain = self.cipher.decrypt(body, context).ok()?;
        let Some(padding) = padding(plain) else { return Some(Err(Drop::BadTag)) };
        let counter = u32::from_be_bytes(*plain.first_chunk::<PACKET_ID>()?);
        if counter == 0 {
            return None;
        }
        let payload = header_len + self.mac_len + BLOCK + PACKET_ID..end.checked_sub(padding)?;
        (payload.start <= payload.end).then_some(Ok(Plain { counter: u64::from(counter), payload }))
    }
}

/// How many bytes of padding end the plaintext; `None` if they are none.
fn padding(plain: &[u8]) -> Option<usize> {
    let last = *plain.last()?;
    let len = usize::from(last);
    let padding = plain.get(plain.len().checked_sub(len)?..)?;
    ((1..=BLOCK).contains(&len) && padding.iter().all(|byte| *byte == last)).then_some(len)
}

fn cipher_key(cipher: Cipher, key: &DirectionKey) -> Result<UnboundCipherKey, AeadError> {
    let algorithm = match cipher {
        Cipher::Aes128Cbc => &AES_128,
        Cipher::Aes192Cbc => &AES_192,
        Cipher::Aes256Cbc => &AES_256,
        Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => {
            return Err(AeadError::Refused);
        }
    };
    UnboundCipherKey::new(algorithm, &key.key)
        .map_err(|_| AeadError::KeyLength { cipher, found: key.key.len() })
}

fn mac_key(cipher: Cipher, key: &DirectionKey) -> Result<(hmac::Key, &MacKey), AeadError> {
    let parts = key.mac.as_ref().filter(|mac| mac.key.len() == mac.digest.output_len());
    let parts = parts.ok_or(AeadError::MacKey { cipher })?;
    let algorithm = match parts.digest {
        Digest::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Digest::Sha224 => hmac::HMAC_SHA224,
        Digest::Sha256 => hmac::HMAC_SHA256,
        Digest::Sha384 => hmac::HMAC_SHA384,
        Digest::Sha512 => hmac::HMAC_SHA512,
    };
    Ok((hmac::Key::new(algorithm, &parts.key), parts))
}

#[cfg(test)]
mod tests {
    use adit_core::OpenVpnHeader;
    use proptest::prelude::*;

    use super::*;

    const CBC: [Cipher; 3] = [Cipher::Aes128Cbc, Cipher::Aes192Cbc, Cipher::Aes256Cbc];
    const V2: OpenVpnHeader = OpenVpnHeader::V2 { peer_id: 9 };

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    }

    fn counting(from: u8, len: usize) -> Vec<u8> {
        (from..).take(len).collect()
    }

    fn key(cipher: Cipher, digest: Digest) -> DirectionKey {
        let iv_key = counting(0xc0, 16).try_into().expect("16 bytes");
        DirectionKey {
            key: counting(0, cipher.key_len()).into(),
            implicit_iv: [0; 8],
            mac: Some(MacKey {
                digest,
                key: counting(0x40, digest.output_len()).into(),
                iv_key: zeroed(iv_key),
            }),
        }
    }

    fn zeroed(bytes: [u8; 16]) -> zeroize::Zeroizing<[u8; 16]> {
        bytes.into()
    }

    fn pair(cipher: Cipher, digest: Digest, framing: OpenVpnFraming) -> (Sealer, Opener) {
        let key = key(cipher, digest);
        let sealer = Sealer::new(framing, cipher, &key).expect("the key fits");
        (sealer, Opener::new(framing, cipher, &key).expect("the key fits"))
    }

    fn framing(header: OpenVpnHeader, key_id: u8) -> OpenVpnFraming {
        OpenVpnFraming { header, key_id, compression: CompressionFraming::None }
    }

    fn sealed(sealer: &Sealer, counter: u64, payload: &[u8]) -> Vec<u8> {
        let layout = sealer.layout(payload.first().copied(), payload.len());
        // What lay in the buffer before must not matter.
        let mut datagram = vec![0x50; layout.datagram];
        let place = layout.payload..layout.payload + payload.len();
        datagram[place.clone()].copy_from_slice(payload);
        sealer.seal(counter, &mut datagram, place).expect("seals");
        datagram
    }

    // Computed with the `openssl` program and Python's hmac from the description above. That OpenVPN agrees
    // is shown by the interoperability tests.
    #[test]
    fn known_vectors() {
        let cases = [
            (
                Cipher::Aes128Cbc,
                Digest::Sha1,
                framing(OpenVpnHeader::V1, 5),
                &b"hello, old world"[..],
                "35d0f842db74fc52ed42c4b0b05be16dc9419762919b38b101a6650561aa875050e296961deedbcc4a1f85d01164\
                 6643a202e94b616a41df758615f7cd8a3b77d4a253e98e",
            ),
            (
                Cipher::Aes192Cbc,
                Digest::Sha384,
                framing(OpenVpnHeader::V2 { peer_id: 0x12_3456 }, 1),
                b"12bytes fits",
                "49123456564a02800459d88a614c88be11b33ee5999a5b322f711e705d208de1e592377112ddd0cc012869396001\
                 65be36d0d08d9b38b101a6650561aa875050e296961dcf2064b0bdbe0ba5dc691b0bc46ffa1758afa91d98f3dcd9\
                 ac255a9655aac090",
            ),
            (
                Cipher::Aes256Cbc,
                Digest::Sha256,
                framing(V2, 7),
                b"",
                "4f000009054f51766ce9a758e85e5442a052f8db3a5fb35d9efc154b972fc92186db99409b38b101a6650561aa87\
                 5050e296961d93e1610039304ba00d3f9b208114e29c",
            ),
        ];
        for (cipher, digest, framing, payload, expected) in cases {
            let (sealer, opener) = pair(cipher, digest, framing);
            let mut datagram = sealed(&sealer, 258, payload);
            assert_eq!(datagram, hex(expected), "{cipher}");
            let plain = opener.open(&mut datagram).expect("opens");
            assert_eq!((plain.counter, &datagram[plain.payload]), (258, payload));
        }
    }

    #[test]
    fn ivs_do_not_repeat() {
        let (sealer, _) = pair(Cipher::Aes256Cbc, Digest::Sha1, framing(V2, 0));
        let ivs: std::collections::BTreeSet<_> = (1..1000).map(|counter| sealer.iv(counter)).collect();
        assert_eq!(ivs.len(), 999);
    }

    /// A datagram with a right HMAC around any plaintext.
    fn authentic(plain: &[u8]) -> Vec<u8> {
        let (cipher, digest) = (Cipher::Aes128Cbc, Digest::Sha1);
        let (sealer, _) = pair(cipher, digest, framing(V2, 0));
        let mut datagram = vec![0; 4 + 20 + BLOCK];
        datagram[..4].copy_from_slice(&[0x48, 0, 0, 9]);
        datagram.extend_from_slice(plain);
        let iv = EncryptionContext::Iv128(FixedLength::from([0; BLOCK]));
        sealer.cipher.less_safe_encrypt(&mut datagram[40..], iv).expect("whole blocks");
        let mac = hmac::sign(&sealer.mac, &datagram[24..]);
        datagram[4..24].copy_from_slice(mac.as_ref());
        datagram
    }

    #[test]
    fn what_only_the_peer_can_get_wrong() {
        let (_, opener) = pair(Cipher::Aes128Cbc, Digest::Sha1, framing(V2, 0));
        let open = |plain: &[u8]| opener.open(&mut authentic(plain)).map(|plain| plain.payload.len());
        let block = |id: u8, padding: u8, last: u8| {
            let mut block = [padding; BLOCK];
            block[..4].copy_from_slice(&[0, 0, 0, id]);
            block[BLOCK - 1] = last;
            block
        };
        assert_eq!(open(&block(1, 12, 12)), Ok(0));
        assert_eq!(open(&block(1, 1, 1)), Ok(11));
        assert_eq!(open(&block(0, 12, 12)), Err(Drop::Malformed), "packet id 0");
        assert_eq!(open(&block(1, 13, 13)), Err(Drop::BadTag), "padding over the packet id");
        for (padding, last) in [(0, 0), (17, 17), (11, 12), (255, 255)] {
            assert_eq!(open(&block(1, padding, last)), Err(Drop::BadTag), "{padding} {last}");
        }
        assert_eq!(open(&[16; BLOCK]), Err(Drop::Malformed), "no room for a packet id");
        assert_eq!(open(&[]), Err(Drop::Malformed));
    }

    #[test]
    fn the_hmac_key_must_fit() {
        for cipher in CBC {
            let mut key = key(cipher, Digest::Sha256);
            if let Some(mac) = &mut key.mac {
                mac.digest = Digest::Sha1;
            }
            let error = Sealer::new(framing(V2, 0), cipher, &key).err().expect("refused");
            assert_eq!(error, AeadError::MacKey { cipher });
            key.mac = None;
            assert_eq!(Opener::new(framing(V2, 0), cipher, &key).err(), Some(AeadError::MacKey { cipher }));
        }
    }

    proptest! {
        #[test]
        fn opens_what_was_sealed_and_nothing_else(
            cipher in prop::sample::select(&CBC[..]),
            digest in prop::sample::select(&Digest::ALL[..]),
            v1: bool,
            compression in prop::sample::select(&[
                CompressionFraming::None, CompressionFraming::LzoNo, CompressionFraming::Stub,
                CompressionFraming::StubV2,
            ][..]),
            counter in 1u32..,
            first in prop_oneof![Just(0x50u8), Just(0x45), any::<u8>()],
            payload in proptest::collection::vec(any::<u8>(), 0..100),
            flip: prop::sample::Index,
        ) {
            let header = if v1 { OpenVpnHeader::V1 } else { V2 };
            let (sealer, opener) = pair(cipher, digest, OpenVpnFraming { header, key_id: 0, compression });
            let payload: Vec<u8> = [first].into_iter().chain(payload).collect();
            let datagram = sealed(&sealer, counter.into(), &payload);
            let mut bytes = datagram.clone();
            let plain = opener.open(&mut bytes).expect("opens");
            prop_assert_eq!(plain.counter, u64::from(counter));
            let range = compression::unframe(compression, &mut bytes, plain.payload).expect("unframes");
            prop_assert_eq!(&bytes[range], &payload[..]);

            let mut forged = datagram.clone();
            let at = sealer.header.len + flip.index(datagram.len() - sealer.header.len);
            forged[at] ^= 1;
            prop_assert_eq!(opener.open(&mut forged).err(), Some(Drop::BadTag));
            let mut cut = datagram[..flip.index(datagram.len())].to_vec();
            prop_assert!(opener.open(&mut cut).is_err());
        }
    }
}

//! tls-crypt's key of one direction, which wraps control packets and the keys of tls-crypt-v2's clients alike.

use aes::Aes256Enc;
use ctr::cipher::{InnerIvInit, StreamCipher, StreamCipherCoreWrapper};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::TAG_LEN;

/// Bytes of the cipher's key and of the HMAC's key.
const KEY_LEN: usize = 32;

pub(super) struct CryptKey {
    cipher: Zeroizing<[u8; KEY_LEN]>,
    hmac: Zeroizing<[u8; KEY_LEN]>,
    ready: Option<Box<Ready>>,
}

/// The prepared ciphers that each use of the keys needs. To make them, and to wipe them, takes longer than to
/// unwrap a short packet.
struct Ready {
    cipher: Aes256Enc,
    mac: Hmac<Sha256>,
}

impl CryptKey {
    /// The key at the start of a cipher slot and an HMAC slot, which have 64 bytes each.
    pub(super) fn new(cipher_slot: &[u8], hmac_slot: &[u8]) -> Self {
        let part = |slot: &[u8]| Zeroizing::new(slot.first_chunk().copied().unwrap_or_default());
        CryptKey { cipher: part(cipher_slot), hmac: part(hmac_slot), ready: None }
    }

    /// The key, quicker to use, for 1.3 KiB more: for the keys that every unauthenticated packet is tried with.
    #[must_use]
    pub(super) fn made_ready(mut self) -> Self {
        self.ready = Some(Box::new(Ready { cipher: self.new_cipher(), mac: self.new_mac() }));
        self
    }

    /// HMAC-SHA256 of the parts, one after the other.
    pub(super) fn tag(&self, parts: [&[u8]; 3]) -> [u8; TAG_LEN] {
        let mut mac = self.ready.as_ref().map_or_else(|| self.new_mac(), |ready| ready.mac.clone());
        parts.into_iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    /// AES-256-CTR; the counter starts at the first half of the tag.
    pub(super) fn apply_keystream(&self, tag: &[u8; TAG_LEN], data: &mut [u8]) {
        let apply = |cipher: &Aes256Enc, data: &mut [u8]| {
            let (iv, _) = tag.split_at(TAG_LEN / 2);
            let Ok(core) =
                ctr::CtrCore::<&Aes256Enc, ctr::flavors::Ctr128BE>::inner_iv_slice_init(cipher, iv)
            else {
                unreachable!("a block of AES has 16 bytes");
            };
            StreamCipherCoreWrapper::from_core(core).apply_keystream(data);
        };
        match &self.ready {
            Some(ready) => apply(&ready.cipher, data),
            None => apply(&self.new_cipher(), data),
        }
    }

    fn new_cipher(&self) -> Aes256Enc {
        Aes256Enc::new((&*self.cipher).into())
    }

    fn new_mac(&self) -> Hmac<Sha256> {
        let Ok(mac) = Hmac::new_from_slice(self.hmac.as_slice()) else {
            unreachable!("HMAC takes keys of any length");
        };
        mac
    }
}

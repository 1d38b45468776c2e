//! The key schedule of the epoch data format: each epoch's keys come from its secret, and the next secret too.

use adit_core::Cipher;
use adit_dataplane::aead::{self, Aead, AeadError, NONCE_LEN};
use adit_dataplane::mac::hkdf_expand;
use zeroize::Zeroizing;

/// Length in bytes of an epoch's secret.
pub(super) const SECRET_LEN: usize = 32;
/// The prefix of every label (OpenVPN crypto_epoch.c, `ovpn_expand_label`).
const LABEL_PREFIX: &[u8] = b"ovpn ";

/// HKDF-Expand-Label as TLS 1.3 has it (RFC 8446 §7.1), with OpenVPN's prefix and no context.
fn expand_label(secret: &[u8], label: &[u8], out: &mut [u8]) -> Option<()> {
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_len = u8::try_from(LABEL_PREFIX.len() + label.len()).ok()?;
    hkdf_expand(secret, &[&length, &[label_len], LABEL_PREFIX, label, &[0]], out)
}

/// An epoch's secret.
#[derive(Clone)]
pub(super) struct Epoch {
    pub(super) number: u16,
    secret: Zeroizing<[u8; SECRET_LEN]>,
}

/// The key and the cipher that seal the packets of an epoch.
pub(super) struct EpochKey {
    pub(super) number: u16,
    pub(super) aead: Box<dyn Aead>,
    /// The part of the IV that epoch and counter are XORed into, ...
    iv_first: u64,
    /// ... and the rest of it.
    iv_rest: [u8; 4],
}

impl Epoch {
    /// Epoch 1.
    pub(super) fn first(cipher: Cipher, secret: &[u8]) -> Result<Self, AeadError> {
        let found = secret.len();
        let secret: [u8; SECRET_LEN] =
            secret.try_into().map_err(|_| AeadError::KeyLength { cipher, found })?;
        Ok(Epoch { number: 1, secret: Zeroizing::new(secret) })
    }

    /// The epoch after this one; `None` after the last.
    pub(super) fn next(&self) -> Option<Self> {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        expand_label(self.secret.as_slice(), b"datakey upd", secret.as_mut_slice())?;
        Some(Epoch { number: self.number.checked_add(1)?, secret })
    }

    /// The epoch's keys.
    pub(super) fn key(&self, cipher: Cipher) -> Result<EpochKey, AeadError> {
        let mut key = Zeroizing::new(vec![0; cipher.key_len()]);
        let mut iv = [0; NONCE_LEN];
        expand_label(self.secret.as_slice(), b"data_key", &mut key).ok_or(AeadError::Refused)?;
        expand_label(self.secret.as_slice(), b"data_iv", &mut iv).ok_or(AeadError::Refused)?;
        let [a, b, c, d, e, f, g, h, iv_rest @ ..] = iv;
        let iv_first = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Ok(EpochKey { number: self.number, aead: aead::aws_lc(cipher, &key)?, iv_first, iv_rest })
    }
}

impl EpochKey {
    /// The nonce of a packet. `id`: its epoch, in the first 16 bits, and its counter.
    #[inline]
    pub(super) fn nonce(&self, id: u64) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        let (first, rest) = nonce.split_at_mut(8);
        first.copy_from_slice(&(self.iv_first ^ id).to_be_bytes());
        rest.copy_from_slice(&self.iv_rest);
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRK: [u8; 32] = [
        0x07, 0x77, 0x09, 0x36, 0x2c, 0x2e, 0x32, 0xdf, 0x0d, 0xdc, 0x3f, 0x0d, 0xc4, 0x7b, 0xba,
        0x63, //
        0x90, 0xb6, 0xc7, 0x3b, 0xb5, 0x0f, 0x9c, 0x31, 0x22, 0xec, 0x84, 0x4a, 0xd7, 0xc2, 0xb3, 0xe5,
    ];

    /// OpenVPN's tests/unit_tests/openvpn/test_crypto.c, `crypto_test_hkdf_expand_test_ovpn` and
    /// `crypto_test_ovpn_label_expand`.
    #[test]
    fn openvpn_label_vectors() {
        let mut out = [0; 27];
        expand_label(&PRK, b"unit test", &mut out).expect("short enough");
        let expected = [
            0x87, 0x5a, 0x8e, 0xec, 0x18, 0x55, 0x63, 0x80, 0xb8, 0xd9, 0x33, 0xed, 0x32, 0x3c, 0x2d, 0xf8,
            0xe8, 0xec, 0xcf, 0x49, 0x72, 0xe6, 0x83, 0xf0, 0x6a, 0x83, 0xac,
        ];
        assert_eq!(out, expected);
        let mut out = [0; 16];
        expand_label(&PRK, b"unit test", &mut out).expect("short enough");
        let expected =
            [0x18, 0x5e, 0xaa, 0x1c, 0x7f, 0x22, 0x8a, 0xb8, 0xeb, 0x29, 0x77, 0x32, 0x14, 0xd9, 0x20, 0x46];
        assert_eq!(out, expected);
    }

    /// The vector of `epoch_test_derive_data_key`, from the same file of OpenVPN.
    #[test]
    fn openvpn_data_key_vector() {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        (secret[0], secret[1]) = (19, 12);
        let mut key = [0; 24];
        expand_label(secret.as_slice(), b"data_key", &mut key).expect("short enough");
        let expected = [
            0xed, 0x85, 0x33, 0xdb, 0x1c, 0x28, 0xac, 0xe4, 0x18, 0xe9, 0x00, 0x6a, 0xb2, 0x9c, 0x17, 0x41,
            0x7d, 0x60, 0xeb, 0xe6, 0xcd, 0x90, 0xbf, 0x0a,
        ];
        assert_eq!(key, expected);
        let epoch = Epoch { number: 17, secret };
        let expected = [0x86, 0x89, 0x0a, 0xab, 0xf0, 0x32, 0xcb, 0x59, 0xf4, 0xcf, 0xa3, 0x4e];
        let key = epoch.key(Cipher::Aes192Gcm).expect("fits");
        assert_eq!(key.nonce(0), expected);
        // Epoch and counter go into the first 8 of the 12 bytes.
        let expected = [0x86, 0x98, 0x0a, 0xab, 0xf0, 0x32, 0xcb, 0x58, 0xf4, 0xcf, 0xa3, 0x4e];
        assert_eq!(key.nonce(17 << 48 | 1), expected);
    }

    #[test]
    fn epochs_end() {
        let last = Epoch { number: u16::MAX, secret: Zeroizing::new([1; SECRET_LEN]) };
        assert!(last.next().is_none());
        assert!(Epoch::first(Cipher::Aes256Gcm, &[0; 16]).is_err());
    }
}

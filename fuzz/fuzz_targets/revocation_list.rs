//! Revocation lists in PEM, the same bytes as DER in PEM, and names of revoked serial numbers.
#![no_main]

use adit_core::is_unprintable;
use adit_pki::Revocations;
use libfuzzer_sys::fuzz_target;

/// `data` as a list in PEM.
fn armour(data: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = b"-----BEGIN X509 CRL-----\n".to_vec();
    for (index, chunk) in data.chunks(3).enumerate() {
        if index > 0 && index % 16 == 0 {
            text.push(b'\n');
        }
        let word = chunk.iter().chain(&[0; 3]).take(3).fold(0, |word, byte| word << 8 | usize::from(*byte));
        for place in 0..4 {
            let digit = ALPHABET[word >> (18 - 6 * place) & 63];
            text.push(if place <= chunk.len() { digit } else { b'=' });
        }
    }
    text.extend_from_slice(b"\n-----END X509 CRL-----\n");
    text
}

fuzz_target!(|data: &[u8]| {
    let armoured = armour(data);
    for text in [data, &armoured] {
        match Revocations::from_lists(text) {
            Ok(lists) => {
                assert_eq!(lists.update(text), Ok(()));
                for warning in lists.current().warnings() {
                    assert!(!warning.to_string().contains(is_unprintable), "{warning}");
                }
            }
            Err(error) => assert!(!error.to_string().contains(is_unprintable), "{error}"),
        }
    }
    assert_eq!(Revocations::from_serials(data).update(data), Ok(()));
});

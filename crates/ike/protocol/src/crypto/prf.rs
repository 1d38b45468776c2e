//! The pseudorandom functions (RFC 7296 section 2.13): HMAC with SHA-1 and SHA-2.

use adit_core::Digest;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use zeroize::{Zeroize as _, Zeroizing};

/// Secret bytes, which are wiped when they are dropped.
pub type Secret = Zeroizing<Vec<u8>>;

/// `prf(key, parts)`, the parts one after the other: as many bytes as the digest has.
pub fn prf(digest: Digest, key: &[u8], parts: &[&[u8]]) -> Secret {
    match digest {
        Digest::Sha1 => run::<Hmac<Sha1>>(key, parts),
        Digest::Sha224 => run::<Hmac<Sha224>>(key, parts),
        Digest::Sha256 => run::<Hmac<Sha256>>(key, parts),
        Digest::Sha384 => run::<Hmac<Sha384>>(key, parts),
        Digest::Sha512 => run::<Hmac<Sha512>>(key, parts),
    }
}

fn run<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Secret {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
        unreachable!("HMAC takes keys of any length")
    };
    parts.iter().for_each(|part| mac.update(part));
    let mut output = mac.finalize().into_bytes();
    let secret = Zeroizing::new(output.to_vec());
    output.as_mut_slice().zeroize();
    secret
}

/// `prf+(key, seed)`, its first `length` bytes. `None`: more than 255 outputs of the PRF, which it cannot give.
pub fn prf_plus(digest: Digest, key: &[u8], seed: &[&[u8]], length: usize) -> Option<Secret> {
    let mut stream = Zeroizing::new(Vec::with_capacity(length + digest.output_len()));
    let mut last = Secret::default();
    let mut count: u8 = 0;
    while stream.len() < length {
        count = count.checked_add(1)?;
        let counter = [count];
        let parts: Vec<&[u8]> =
            [last.as_slice()].into_iter().chain(seed.iter().copied()).chain([counter.as_slice()]).collect();
        last = prf(digest, key, &parts);
        stream.extend_from_slice(&last);
    }
    if let Some(rest) = stream.get_mut(length..) {
        rest.zeroize();
    }
    stream.truncate(length);
    Some(stream)
}

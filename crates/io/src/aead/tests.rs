use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;

use adit_dataplane::aead::BATCH;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit as _, StreamCipher as _};

use super::*;

const KEY: [u8; 32] = [
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0x90,
    0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f,
];

/// A message that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    nonce: [u8; NONCE_LEN],
    aad: Vec<u8>,
    text: Vec<u8>,
    tag: [u8; TAG_LEN],
}

impl Owned {
    /// A message with bytes that depend on `seed`. Every other one is of ones: with them all limbs of Poly1305 are
    /// full.
    fn new(seed: usize, len: usize, aad_len: usize) -> Self {
        let byte = |at: usize| if seed % 2 == 1 { 0xff } else { (at * 31 + at / 251 + seed * 7) as u8 };
        let nonce = std::array::from_fn(|at| (seed >> (8 * (at % 4))) as u8 ^ at as u8);
        Owned {
            nonce,
            aad: (0..aad_len).map(byte).collect(),
            text: (0..len).map(byte).collect(),
            tag: [0; TAG_LEN],
        }
    }

    fn message(&mut self) -> Message<'_> {
        Message { nonce: self.nonce, aad: &self.aad, text: &mut self.text, tag: self.tag }
    }
}

/// One for each kind of instructions that this processor has. If it has none, the test says so.
fn all_vectors() -> Vec<Batches> {
    let single = || AwsLc::new(Cipher::ChaCha20Poly1305, &KEY).expect("the key fits");
    let batches = |vectors| Batches { single: single(), key: Key::new(&KEY), vectors };
    let all: Vec<Batches> = Vectors::detect().map(batches).collect();
    if all.is_empty() {
        eprintln!("nothing to compare: this processor has neither AVX-512 with IFMA nor AVX2 with BMI2");
    }
    all
}

/// Seals the batch, also one of fewer messages than the AEAD itself would seal so.
fn seal(aead: &Batches, batch: &mut [Owned]) {
    let mut messages: Vec<Message<'_>> = batch.iter_mut().map(Owned::message).collect();
    aead.vectors.seal(&aead.key, &mut messages);
    let tags: Vec<_> = messages.into_iter().map(|message| message.tag).collect();
    batch.iter_mut().zip(tags).for_each(|(owned, tag)| owned.tag = tag);
}

/// Opens each message of the batch; gives whether each was authentic.
fn open(aead: &Batches, batch: &mut [Owned]) -> Vec<bool> {
    let mut opened = Vec::new();
    for part in batch.chunks_mut(BATCH) {
        let mut messages: Vec<Message<'_>> = part.iter_mut().map(Owned::message).collect();
        let bits = aead.vectors.open(&aead.key, &mut messages);
        assert_eq!(u64::from(bits) >> messages.len(), 0, "a bit for each message, and no more");
        opened.extend((0..messages.len()).map(|index| bits >> index & 1 == 1));
    }
    opened
}

/// Seals and opens a batch, with forged messages in it, and compares with AWS-LC.
fn compare(plain: &[Owned]) {
    all_vectors().iter().for_each(|aead| compare_with(aead, plain));
}

fn compare_with(aead: &Batches, plain: &[Owned]) {
    let mut expected = plain.to_vec();
    for owned in &mut expected {
        owned.tag = aead.seal(owned.nonce, &owned.aad, &mut owned.text).expect("seals");
    }
    let mut sealed = plain.to_vec();
    seal(aead, &mut sealed);
    for (found, expected) in sealed.iter().zip(&expected) {
        let lengths = (expected.text.len(), expected.aad.len());
        assert_eq!(found, expected, "{lengths:?}, {} at once", plain.len());
    }
    // Every third is forged: its tag, its text, or the part that is only authenticated.
    let mut forged = sealed;
    for (index, owned) in forged.iter_mut().enumerate().filter(|(index, _)| index % 3 == 1) {
        let place = match index % 9 {
            4 => owned.text.last_mut(),
            7 => owned.aad.first_mut(),
            _ => None,
        };
        *place.unwrap_or(&mut owned.tag[index % TAG_LEN]) ^= 1 << (index % 8);
    }
    let before = forged.clone();
    for (index, opened) in open(aead, &mut forged).into_iter().enumerate() {
        assert_eq!(opened, index % 3 != 1, "number {index}");
        let expected = if opened { &plain[index].text } else { &before[index].text };
        assert_eq!(&forged[index].text, expected, "number {index}");
    }
}

#[test]
fn lengths_up_to_2048_are_as_with_aws_lc() {
    for first in (0..=2048).step_by(BATCH) {
        let last = (first + BATCH).min(2049);
        compare(&(first..last).map(|len| Owned::new(len, len, len % 33)).collect::<Vec<_>>());
    }
}

#[test]
fn long_texts_are_as_with_aws_lc() {
    for lens in [[4095, 4096], [9000, 16_383], [16_384, 32_767], [65_535, 1], [65_520, 65_535]] {
        compare(&lens.map(|len| Owned::new(len, len, 8)));
    }
}

#[test]
fn what_is_only_authenticated_may_have_any_length() {
    for text in [0, 1, 64, 100] {
        compare(&(0..=32).map(|aad| Owned::new(aad, text, aad)).collect::<Vec<_>>());
        compare(&[Owned::new(1, text, 200), Owned::new(2, text, 0), Owned::new(3, text, 1000)]);
    }
}

#[test]
fn batches_of_1_to_64_of_mixed_lengths() {
    for count in 1..=64 {
        let len = |index: usize| match index % 4 {
            0 => 1400,
            1 => (index * 997 + count * 13) % 1500,
            2 => 64 * (index % 24),
            _ => index % 7,
        };
        compare(&(0..count).map(|index| Owned::new(index + count, len(index), 8)).collect::<Vec<_>>());
        compare(&(0..count).map(|index| Owned::new(index + count, 1400, 0)).collect::<Vec<_>>());
    }
}

/// RFC 8439 §2.8.2.
#[test]
fn published_vector() {
    let text =
        *b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let tag =
        [0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a, 0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06, 0x91];
    let sealed_first = [0xd3, 0x1a, 0x8d, 0x34, 0x64, 0x8e, 0x60, 0xdb];
    let sealed_last = [0xce, 0xc6, 0x4b, 0x61, 0x16];
    for aead in all_vectors() {
        let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
        let aad = vec![0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let mut batch = vec![Owned { nonce, aad, text: text.to_vec(), tag: [0; TAG_LEN] }; 2];
        seal(&aead, &mut batch);
        for sealed in &batch {
            assert_eq!(sealed.tag, tag);
            assert!(sealed.text.starts_with(&sealed_first) && sealed.text.ends_with(&sealed_last));
        }
    }
}

/// Few messages are sealed by AWS-LC, more of them in vectors: with the same result.
#[test]
fn the_provider_seals_few_and_many_alike() {
    let aead = provider(Cipher::ChaCha20Poly1305, &KEY).expect("the key fits");
    for count in 0..2 * LEAST {
        let mut batch: Vec<Owned> = (0..count).map(|index| Owned::new(index, 100, 8)).collect();
        let mut expected = batch.clone();
        let mut messages: Vec<Message<'_>> = batch.iter_mut().map(Owned::message).collect();
        aead.seal_batch(&mut messages).expect("none is too long");
        for (message, expected) in messages.iter().zip(&mut expected) {
            let tag = aead.seal(expected.nonce, &expected.aad, &mut expected.text).expect("seals");
            assert_eq!((&*message.text, message.tag), (&expected.text[..], tag));
        }
        assert_eq!(aead.open_batch(&mut messages), (1 << count) - 1);
    }
    assert!(provider(Cipher::ChaCha20Poly1305, &KEY[1..]).is_err());
    assert!(!provider(Cipher::Aes256Gcm, &KEY).expect("the key fits").gains_from_batches());
}

#[test]
fn batches_allocate_nothing() {
    let aead = provider(Cipher::ChaCha20Poly1305, &KEY).expect("the key fits");
    let mut batch: Vec<Owned> = (0..BATCH).map(|index| Owned::new(index, 1400, 8)).collect();
    let mut messages: Vec<Message<'_>> = batch.iter_mut().map(Owned::message).collect();
    let counted = allocation_counter::measure(|| {
        aead.seal_batch(&mut messages).expect("none is too long");
        assert_eq!(aead.open_batch(&mut messages), 0xffff);
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

/// The keystream of a message of `len` bytes: block 0, whose first half is the key of Poly1305, and the blocks that
/// encrypt the text.
fn keystream(nonce: [u8; NONCE_LEN], len: usize) -> Vec<u32> {
    let mut stream = vec![0; 64 + len.next_multiple_of(64)];
    ChaCha20::new(&KEY.into(), &nonce.into()).apply_keystream(&mut stream);
    stream.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The stack below this function's frame, where frames of functions were that have returned.
#[inline(never)]
fn stack_below() -> Vec<u32> {
    const LEN: usize = 64 * 1024;
    let here = 0u8;
    let end = std::ptr::from_ref(&here).addr() as u64 & !63;
    let mut bytes = vec![0; LEN];
    let memory = std::fs::File::open("/proc/self/mem").expect("a process may read its memory");
    memory.read_exact_at(&mut bytes, end - LEN as u64).expect("the stack is mapped");
    bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

/// Calls `batch` below a frame of 8 KiB, so that the function that reads the stack afterwards does not write over its
/// frames.
#[inline(never)]
fn below_a_frame(batch: &mut dyn FnMut()) {
    let mut room = [0u8; 8 * 1024];
    std::hint::black_box(&mut room);
    batch();
    std::hint::black_box(&mut room);
}

/// Two words of the keystream beside each other, as a block has them, or as a vector has one word of two blocks.
fn pairs(streams: &[Vec<u32>]) -> BTreeSet<[u32; 2]> {
    let words = |at: usize| {
        move |stream: &Vec<u32>| {
            (0..stream.len() - at).map(|n| [stream[n], stream[n + at]]).collect::<Vec<_>>()
        }
    };
    let mut pairs: BTreeSet<_> = streams.iter().flat_map(words(1)).collect();
    pairs.extend(streams.iter().flat_map(words(16)));
    let first = streams.iter().zip(&streams[1..]);
    pairs.extend(first.flat_map(|(one, next)| (0..16).map(|n| [one[n], next[n]])));
    pairs
}

#[test]
fn no_keystream_stays_on_the_stack() {
    let mut batch: Vec<Owned> = (0..BATCH).map(|index| Owned::new(index, 1410, 8)).collect();
    let streams: Vec<_> = batch.iter().map(|owned| keystream(owned.nonce, owned.text.len())).collect();
    let known = pairs(&streams);
    for aead in all_vectors() {
        for open in [false, true] {
            let mut messages: Vec<Message<'_>> = batch.iter_mut().map(Owned::message).collect();
            below_a_frame(&mut || match open {
                true => assert_eq!(aead.vectors.open(&aead.key, &mut messages), 0xffff),
                false => aead.vectors.seal(&aead.key, &mut messages),
            });
            let found = stack_below().windows(2).filter(|two| known.contains(*two)).count();
            assert_eq!(found, 0, "{:?}, {}", aead.vectors, if open { "opened" } else { "sealed" });
            let tags: Vec<_> = messages.into_iter().map(|message| message.tag).collect();
            batch.iter_mut().zip(tags).for_each(|(owned, tag)| owned.tag = tag);
        }
    }
}

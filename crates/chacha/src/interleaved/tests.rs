//! Tests with an engine in plain Rust.

use super::*;
use crate::TAG_LEN;

/// Panics where a pass is not as [`Engine`] promises.
struct Plain;

impl Engine for Plain {
    fn pass(&self, work: &mut Work, groups: &[Group], texts: Texts<'_>) {
        assert!(groups.len() <= DOUBLE_ROUNDS, "{}", groups.len());
        for (lane, text) in texts.into_iter().enumerate() {
            let words = block(std::array::from_fn(|word| work.state[word][lane]));
            for (byte, key) in text.iter_mut().zip(words.map(u32::to_le_bytes).as_flattened()) {
                *byte ^= key;
            }
        }
        for block in groups.as_flattened() {
            work.hash.absorb(u128::from_le_bytes(*block));
        }
    }
}

/// The block function (RFC 8439 §2.3).
fn block(start: [u32; 16]) -> [u32; 16] {
    let mut words = start;
    let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
        for (first, second) in [(16, 12), (8, 7)] {
            words[a] = words[a].wrapping_add(words[b]);
            words[d] = (words[d] ^ words[a]).rotate_left(first);
            words[c] = words[c].wrapping_add(words[d]);
            words[b] = (words[b] ^ words[c]).rotate_left(second);
        }
    };
    for _ in 0..10 {
        (0..4).for_each(|n| quarter(n, 4 + n, 8 + n, 12 + n));
        (0..4).for_each(|n| quarter(n, 4 + (n + 1) % 4, 8 + (n + 2) % 4, 12 + (n + 3) % 4));
    }
    std::array::from_fn(|word| words[word].wrapping_add(start[word]))
}

const KEY: [u8; 32] = [
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0x90,
    0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f,
];
const AAD: [u8; 12] = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
const TEXT: &[u8] =
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
    sunscreen would be it.";
const TAG: [u8; TAG_LEN] =
    [0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a, 0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60, 0x06, 0x91];

fn message<'a>(text: &'a mut [u8], aad: &'a [u8]) -> Message<'a> {
    let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
    Message { nonce, aad, text, tag: [0; TAG_LEN] }
}

/// RFC 8439 §2.8.2.
#[test]
fn published_vector() {
    for count in 1..=BATCH + 3 {
        let mut texts = vec![TEXT.to_vec(); count];
        let mut messages: Vec<_> = texts.iter_mut().map(|text| message(text, &AAD)).collect();
        seal(&Plain, &Key::new(&KEY), &mut messages);
        assert!(
            messages
                .iter()
                .all(|message| message.tag == TAG && message.text[..4] == [0xd3, 0x1a, 0x8d, 0x34])
        );
        messages.truncate(BATCH);
        assert_eq!(open(&Plain, &Key::new(&KEY), &mut messages), u32::MAX >> (32 - count.min(BATCH)));
        assert!(messages.iter().all(|message| *message.text == *TEXT));
    }
}

/// Whatever other messages are in a batch, the result for a message is the one that it has alone; and a forged message
/// stays as it is.
#[test]
fn messages_of_all_lengths_beside_each_other() {
    let key = Key::new(&KEY);
    let lens = [0, 1, 15, 16, 47, 48, 63, 64, 65, 479, 480, 481, 511, 512, 513, 1472, 1424, 1425, 3000];
    for first in 0..lens.len() {
        let lens = || (0..BATCH).map(|n| lens[(first + n * n) % lens.len()]);
        let plain: Vec<Vec<u8>> =
            lens().map(|len| (0..len).map(|at| (at * 7 + len) as u8).collect()).collect();
        let mut sealed = plain.clone();
        let mut messages: Vec<_> = sealed.iter_mut().map(|text| message(text, &AAD[..first % 12])).collect();
        seal(&Plain, &key, &mut messages);
        for (together, text) in messages.iter().zip(&plain) {
            let mut text = text.clone();
            let mut alone = [message(&mut text, &AAD[..first % 12])];
            seal(&Plain, &key, &mut alone);
            assert_eq!((&together.text, together.tag), (&alone[0].text, alone[0].tag));
        }
        messages[first % BATCH].tag[first % TAG_LEN] ^= 4;
        let forged = messages[first % BATCH].text.to_vec();
        assert_eq!(open(&Plain, &key, &mut messages), 0xffff ^ 1 << (first % BATCH));
        for (index, (message, plain)) in messages.iter().zip(&plain).enumerate() {
            assert_eq!(&*message.text, if index == first % BATCH { &forged } else { plain });
        }
    }
}

/// Word 12 of the state is the counter, words 13 to 15 are the nonce. One message has passes of its own, the other is short.
#[test]
fn counters_go_on_within_a_message() {
    let mut texts = [vec![0; 64 * 20], vec![0; 64 * 3]];
    let mut messages: Vec<_> = texts.iter_mut().map(|text| message(text, &[])).collect();
    messages[1].nonce[0] = 9;
    seal(&Plain, &Key::new(&KEY), &mut messages);
    let key = Key::new(&KEY);
    for message in &messages {
        let nonce = message.nonce_words();
        for (number, found) in message.text.as_chunks::<64>().0.iter().enumerate() {
            let mut state = [0; 16];
            state[..4].copy_from_slice(&crate::SIGMA);
            state[4..12].copy_from_slice(&key.0);
            state[12..].copy_from_slice(&[number as u32 + 1, nonce[0], nonce[1], nonce[2]]);
            assert_eq!(found.as_slice(), block(state).map(u32::to_le_bytes).as_flattened());
        }
    }
}

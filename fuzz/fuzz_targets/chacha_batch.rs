//! ChaCha20-Poly1305 of batches, in vectors where the processor has them: the same as AWS-LC's of single messages, and
//! what was forged does not open.
#![no_main]

use adit_core::Cipher;
use adit_dataplane::aead::{BATCH, Message, aws_lc};
use libfuzzer_sys::fuzz_target;

/// A key, a nonce, and messages: for each a byte that says what is forged, lengths, and the bytes.
fn messages(mut data: &[u8]) -> Option<([u8; 32], Vec<(u8, Vec<u8>, Vec<u8>)>)> {
    let (key, rest) = data.split_first_chunk::<32>()?;
    data = rest;
    let mut found = Vec::new();
    while found.len() < BATCH
        && let Some((&[forge, aad, repeat, len], rest)) = data.split_first_chunk::<4>()
    {
        let (aad, rest) = rest.split_at(usize::from(aad).min(rest.len()));
        let (text, rest) = rest.split_at(usize::from(len).min(rest.len()));
        // A short input makes long texts, too.
        found.push((forge, aad.to_vec(), text.repeat(1 + usize::from(repeat) % 16)));
        data = rest;
    }
    Some((*key, found))
}

fuzz_target!(|data: &[u8]| {
    let Some((key, mut plain)) = messages(data) else { return };
    let single = aws_lc(Cipher::ChaCha20Poly1305, &key).expect("the key fits");
    let batches = adit_io::aead::provider(Cipher::ChaCha20Poly1305, &key).expect("the key fits");
    let before = plain.clone();
    let nonce = |index: usize| [index as u8; 12];
    let mut batch: Vec<Message<'_>> = Vec::new();
    for (index, (_, aad, text)) in plain.iter_mut().enumerate() {
        batch.push(Message { nonce: nonce(index), aad, text, tag: [0; 16] });
    }
    batches.seal_batch(&mut batch).expect("none is too long");
    for (index, (message, (forge, aad, text))) in batch.iter_mut().zip(&before).enumerate() {
        let mut expected = text.clone();
        let tag = single.seal(nonce(index), aad, &mut expected).expect("seals");
        assert!(message.text == expected && message.tag == tag, "message {index}");
        message.tag[usize::from(forge % 16)] ^= forge >> 4;
    }
    let opened = batches.open_batch(&mut batch);
    for (index, (message, (forge, _, text))) in batch.iter().zip(&before).enumerate() {
        let is_open = opened >> index & 1 == 1;
        assert_eq!(is_open, forge >> 4 == 0, "message {index}");
        assert!(!is_open || message.text == text, "message {index}");
    }
});

//! How much longer ChaCha20-Poly1305 takes message by message, by AWS-LC, than in batches. Prints nanoseconds for a
//! message by AWS-LC, and the median of the ratios of rounds in which both take turns:
//! `cargo run --release -p adit-io --example aead_batches`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use adit_core::Cipher;
use adit_dataplane::aead::{Aead, AeadError, BATCH, Message, aws_lc};

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;
const ROUNDS: usize = 301;
/// Bytes that are sealed, or opened, in a round.
const BYTES: usize = 400_000;

fn main() -> ExitCode {
    println!("bytes at once |  seal ns  ratio |  open ns  ratio");
    for (bytes, count) in [
        (64, 4),
        (64, 16),
        (512, 4),
        (512, 16),
        (1400, 4),
        (1400, 6),
        (1400, 8),
        (1400, 12),
        (1400, 16),
        (1400, 44),
    ] {
        match compare(bytes, count) {
            Ok([seal, seal_ratio, open, open_ratio]) => {
                println!("{bytes:5} {count:7} | {seal:8.0} {seal_ratio:6.2} | {open:8.0} {open_ratio:6.2}")
            }
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Medians of the times of AWS-LC and of the ratios.
fn compare(bytes: usize, count: usize) -> Result<[f64; 4], AeadError> {
    let (single, batches) = (aws_lc(CIPHER, &[9; 32])?, adit_io::aead::provider(CIPHER, &[9; 32])?);
    let mut texts = vec![vec![7; bytes]; count];
    let aad = [1; 8];
    let messages = texts.iter_mut().enumerate();
    let mut messages: Vec<Message<'_>> = messages
        .map(|(index, text)| Message { nonce: [index as u8; 12], aad: &aad, text, tag: [0; 16] })
        .collect();
    let mut rows = Vec::new();
    for _ in 0..ROUNDS {
        let [seal, open] = round(&*single, &mut messages)?;
        let [seal_batches, open_batches] = round(&*batches, &mut messages)?;
        rows.push([seal, seal / seal_batches, open, open / open_batches]);
    }
    Ok(std::array::from_fn(|column| {
        let mut values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }))
}

/// Nanoseconds for a message: sealing, opening.
fn round(aead: &dyn Aead, messages: &mut [Message<'_>]) -> Result<[f64; 2], AeadError> {
    let mut times_taken = [0.0; 2];
    let bytes: usize = messages.iter().map(|message| message.text.len()).sum();
    let times = (BYTES / bytes).max(1);
    for _ in 0..times {
        let start = Instant::now();
        for batch in messages.chunks_mut(BATCH) {
            aead.seal_batch(black_box(batch))?;
        }
        let sealed = Instant::now();
        for batch in messages.chunks_mut(BATCH) {
            if aead.open_batch(black_box(batch)) != u32::MAX >> (32 - batch.len()) {
                return Err(AeadError::Refused);
            }
        }
        times_taken[0] += (sealed - start).as_nanos() as f64;
        times_taken[1] += sealed.elapsed().as_nanos() as f64;
    }
    Ok(times_taken.map(|nanoseconds| nanoseconds / (times * messages.len()) as f64))
}

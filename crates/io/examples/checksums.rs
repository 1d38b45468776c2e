//! How long the sum of a packet's checksum takes: as all processors have it, and by this processor's fastest way. Prints
//! nanoseconds for a sum, medians of rounds in which both take turns, and the median of their ratios:
//! `cargo run --release -p adit-io --example checksums`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use adit_checksum::{WordSum, portable};

const ROUNDS: usize = 301;
/// Bytes that are summed up in a round.
const BYTES: usize = 2_000_000;

fn main() {
    let fastest = adit_io::checksum::words();
    println!("bytes | portable ns  fastest ns  ratio");
    for len in [20, 64, 576, 1400, 1448, 9000, 65_000] {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at * 7) as u8).collect();
        let mut rows: Vec<[f64; 3]> = (0..ROUNDS)
            .map(|_| {
                let (before, after) = (round(portable, &bytes), round(fastest, &bytes));
                [before, after, before / after]
            })
            .collect();
        let [before, after, ratio] = std::array::from_fn(|column| {
            rows.sort_by(|a, b| a[column].total_cmp(&b[column]));
            rows[ROUNDS / 2][column]
        });
        println!("{len:5} | {before:11.1} {after:11.1} {ratio:6.2}");
    }
}

/// Nanoseconds for a sum.
fn round(sum: WordSum, bytes: &[u8]) -> f64 {
    let count = BYTES / bytes.len();
    let start = Instant::now();
    for _ in 0..count {
        black_box(sum(black_box(bytes)));
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

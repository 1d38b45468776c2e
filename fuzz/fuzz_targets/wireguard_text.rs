//! The input of people and of `wg` for WireGuard: wg-quick's files, and operations at the socket, in pieces of any
//! length. Operations are cut the same however they arrive; the error of a refused one names a line.
#![no_main]

use adit_core::is_unprintable;
use adit_wireguard::uapi::{Operation, Reader, Refusal};
use adit_wireguard_config as wireguard;
use libfuzzer_sys::fuzz_target;

/// The operations of a connection. The error is of a connection that cannot go on: a line of it ends in CR LF.
fn operations(bytes: &[u8], piece: usize) -> Result<Vec<Result<Operation, Refusal>>, Refusal> {
    let (mut reader, mut found) = (Reader::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        reader.push(piece)?;
        found.extend(std::iter::from_fn(|| reader.next_operation(&|zone| zone.parse().ok())));
    }
    Ok(found)
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, text)) = data.split_first() else { return };
    match wireguard::parse(text, "wg0.conf") {
        Ok(parsed) => assert!(parsed.warnings.iter().all(|warning| !warning.text.contains(is_unprintable))),
        Err(failure) => {
            assert!(!failure.problems.is_empty());
            let text = |text: &str| !text.contains(is_unprintable);
            assert!(failure.problems.iter().all(|problem| text(&problem.text)), "{failure}");
        }
    }
    let found = operations(text, usize::from(piece).max(1));
    let at_once = operations(text, text.len().max(1));
    let (found, at_once) = match (found, at_once) {
        (Ok(found), Ok(at_once)) => (found, at_once),
        (found, at_once) => {
            assert!(found.is_err() && at_once.is_err() && text.windows(2).any(|pair| pair == b"\r\n"));
            return;
        }
    };
    assert_eq!(found, at_once);
    for refusal in found.into_iter().filter_map(Result::err) {
        assert!(refusal.line >= 1 && !refusal.text.contains(is_unprintable), "{refusal}");
    }
});

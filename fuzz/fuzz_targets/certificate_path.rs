//! Certificate paths: four bytes describe a root, an intermediate, a leaf, the place of each and the requirements, and
//! the verdict is the one that the description demands. The bytes after them take the place of some of the leaf's
//! bytes, for which there is no signature, and stand besides as a further certificate of the peer, of `ca` and of the
//! revocation lists.
#![no_main]

#[path = "../../crates/pki/tests/support/paths.rs"]
mod paths;

use libfuzzer_sys::fuzz_target;
use paths::{Case, case, verdict};

fuzz_target!(|data: &[u8]| {
    let Some((&bytes, rest)) = data.split_first_chunk() else { return };
    let Case { ca, mut shown, requirements, good } = case(bytes);
    assert_eq!(verdict(&ca, &shown, requirements.clone()), Some(good), "{bytes:02x?}");
    let Some((&[high, low, cut], rest)) = rest.split_first_chunk() else { return };
    let leaf = shown[0].clone();
    let at = usize::from(u16::from_be_bytes([high, low])) % leaf.len();
    let behind = leaf.get(at + usize::from(cut)..).unwrap_or_default();
    shown[0] = [&leaf[..at], rest, behind].concat();
    let found = verdict(&ca, &shown, requirements.clone());
    assert!(shown[0] == leaf || found != Some(true), "a changed certificate: {bytes:02x?}");
    // A certificate more at the peer changes nothing; one more in `ca` may not be readable.
    shown[0] = leaf;
    shown.push(rest.to_vec());
    assert_eq!(verdict(&ca, &shown, requirements.clone()), Some(good), "{bytes:02x?}");
    let more = [ca, vec![rest.to_vec()]].concat();
    assert!(verdict(&more, &shown, requirements).is_none_or(|verdict| verdict == good), "{bytes:02x?}");
});

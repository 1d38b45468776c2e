//! Certificate paths with faults: the verdict is the one that the faults call for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/paths.rs"]
mod paths;

use paths::{Case, case, verdict};
use proptest::prelude::*;

fn is_judged_rightly(bytes: [u8; 4]) {
    let Case { ca, shown, requirements, good } = case(bytes);
    assert_eq!(verdict(&ca, &shown, requirements), Some(good), "{bytes:02x?}");
}

/// Each fault by itself, in each layout.
#[test]
fn paths_with_one_fault() {
    for layout in 0..=255 {
        is_judged_rightly([0, 0, 0, layout]);
        for (place, bit) in (0..3).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut bytes = [0, 0, 0, layout];
            bytes[place] = 1 << bit;
            is_judged_rightly(bytes);
        }
    }
}

proptest! {
    #[test]
    fn paths_with_many_faults(bytes: [u8; 4]) {
        is_judged_rightly(bytes);
    }
}

//! The messages between a tunnel without rights and the process that helps it, both ways.
#![no_main]

use adit_guard::fuzzing::helper_message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    helper_message(data);
});

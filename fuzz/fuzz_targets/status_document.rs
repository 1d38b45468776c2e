//! The answer of a tunnel to `adit status`: read, printed for people, and as JSON again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    adit::fuzzing::status_document(data);
});

//! Heads of answers of HTTP proxies: what answers a challenge stands on one line, and holds no password but as Basic has it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    adit_io::fuzzing::proxy_answer(data);
});

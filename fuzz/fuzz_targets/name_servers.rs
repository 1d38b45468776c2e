//! What goes between a tunnel without rights and the process that sets name servers for it, both ways.
#![no_main]

use adit_io::fuzzing::{name_server_answers, name_server_requests};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    name_server_requests(data);
    name_server_answers(data);
});

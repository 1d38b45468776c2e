//! Datagrams in answer to the question for a server's addresses: as many addresses as there is room for, at most.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    adit_system::fuzzing::address_answer(data);
});

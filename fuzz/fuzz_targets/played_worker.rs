//! A tunnel's process that was taken over sends its helper any messages, and any state for its file (`SaveConfig`): nothing outside
//! the policy is opened or written, and no command comes into the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    adit_guard::fuzzing::played_worker(data);
    adit_wireguard_adapter::fuzzing::saved_state(data);
});

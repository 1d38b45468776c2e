//! Certificates and revocation lists, read for the warnings before they expire: their names command no terminal.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    adit_openvpn_adapter::fuzzing::expiring(data);
});

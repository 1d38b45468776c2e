//! A client at the management socket: its lines, in pieces, to a server and to another tunnel, with a password and
//! without. The answers to it, and the lines of the log about it, command no terminal and make no lines of their own.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&how, input)) = data.split_first() else { return };
    adit_openvpn_adapter::fuzzing::management(input, usize::from(how >> 2) + 1, how & 1 == 0, how & 2 != 0);
});

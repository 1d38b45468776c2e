//! The program `adit-wireguard`: a name of one word, which `wg-quick` wants (`WG_QUICK_USERSPACE_IMPLEMENTATION`).
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    adit::main_of_wireguard()
}

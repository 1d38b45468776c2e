//! This program by the name of another one, which the manifest gives it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    adit::main_of(env!("CARGO_BIN_NAME"))
}

//! The output of the programs: their counters while a load goes on, keys and datagrams in hexadecimal digits.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use crate::{Kind, Load, LoadError};

/// How often the counters are written while they change.
const INTERVAL: Duration = Duration::from_millis(10);

/// The exit status of the program `name`, whose error goes to the standard error output.
pub fn exit(name: &str, outcome: Result<(), LoadError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Shows the counts of a load, as `begun N done N`, until the process is killed or the load ends by itself.
///
/// # Errors
/// Why the load ended.
pub fn show_load(load: Load) -> Result<(), LoadError> {
    show(|| load.is_running().then(|| format!("begun {} done {}", load.begun(), load.done())));
    load.stop()
}

/// Writes the line whenever it has changed, until there is none, or the output's reader is gone.
pub fn show(line: impl Fn() -> Option<String>) {
    let mut shown = String::new();
    while let Some(line) = line() {
        if line != shown {
            if writeln!(std::io::stdout(), "{line}").is_err() {
                return;
            }
            shown = line;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Writes each datagram as `KIND: HEXADECIMAL`.
///
/// # Errors
/// The output's reader is gone.
pub fn write_datagrams(kinds: &[Kind]) -> Result<(), LoadError> {
    let mut lines = kinds.iter().flat_map(|kind| kind.datagrams.iter().map(|bytes| (kind.name, bytes)));
    lines.try_for_each(|(name, bytes)| write_line(&format!("{name}: {}", hexadecimal(bytes))))
}

/// Writes one line.
///
/// # Errors
/// The output's reader is gone.
pub fn write_line(line: &str) -> Result<(), LoadError> {
    writeln!(std::io::stdout(), "{line}").map_err(LoadError::system("the standard output"))
}

/// Two digits a byte.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_have_two_digits_each() {
        assert_eq!(super::hexadecimal(&[0, 10, 255]), "000aff");
    }
}

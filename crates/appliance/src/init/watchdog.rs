//! The machine's watchdog, which starts the machine anew when this process no longer runs.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::thread;
use std::time::Duration;

/// The environment variable by which a test asks that this process does nothing more when it is to end. Builds without debug
/// assertions pass over it.
const STALL: &str = "ADIT_TEST_STALL";

/// How often the watchdog is fed: the shortest time of a watchdog's driver is 30 s (i6300esb, iTCO_wdt).
pub(super) const PERIOD: Duration = Duration::from_secs(5);

/// The watchdog, if the machine has one.
#[derive(Debug)]
pub(super) struct Watchdog(Option<File>);

impl Watchdog {
    /// Starts the watchdog.
    pub(super) fn open() -> Self {
        Watchdog(OpenOptions::new().write(true).open("/dev/watchdog").ok())
    }

    /// Says that this process runs.
    pub(super) fn feed(&mut self) {
        self.write(b"\0");
    }

    /// Stops the watchdog (Linux, Documentation/watchdog/watchdog-api.rst, "magic close").
    pub(super) fn release(&mut self) {
        self.write(b"V");
        self.0 = None;
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.0 {
            let _ = file.write_all(bytes);
        }
    }
}

/// Does nothing for good, if a test asks for that: the watchdog is no longer fed.
pub(super) fn stall_if_asked() {
    while cfg!(debug_assertions) && std::env::var_os(STALL).is_some() {
        thread::park();
    }
}

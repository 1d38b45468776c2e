//! The variables that wireguard-go knows too.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use adit_sys::inherited;

/// The settings of the environment.
pub(super) struct Environment {
    /// `WG_TUN_FD`.
    pub(super) tun: Option<OwnedFd>,
    /// `WG_UAPI_FD`.
    pub(super) uapi: Option<OwnedFd>,
    /// `LOG_LEVEL`.
    pub(super) log_level: LogLevel,
}

/// The lines that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogLevel {
    /// All.
    Verbose,
    /// Errors. They can be seen in the background if this was asked for.
    Error {
        /// Errors can be seen in the background, as was asked for.
        wanted: bool,
    },
    /// Nothing.
    Silent,
}

impl LogLevel {
    fn of(value: Option<OsString>) -> Self {
        let value = value.unwrap_or_default();
        match value.to_str() {
            Some("verbose" | "debug") => LogLevel::Verbose,
            Some("silent") => LogLevel::Silent,
            _ => LogLevel::Error { wanted: !value.is_empty() },
        }
    }

    /// Whether lines go to the standard error that the program was called with.
    pub(super) fn is_seen(self) -> bool {
        matches!(self, LogLevel::Verbose | LogLevel::Error { wanted: true })
    }
}

impl Environment {
    /// `WG_PROCESS_FOREGROUND`.
    pub(super) fn foreground() -> bool {
        std::env::var_os("WG_PROCESS_FOREGROUND").is_some_and(|value| value == "1")
    }

    /// Reads it and takes the descriptors over.
    ///
    /// # Errors
    /// A descriptor is not there.
    pub(super) fn read() -> Result<Self, String> {
        Ok(Environment {
            tun: descriptor("WG_TUN_FD")?,
            uapi: descriptor("WG_UAPI_FD")?,
            log_level: LogLevel::of(std::env::var_os("LOG_LEVEL")),
        })
    }
}

fn descriptor(variable: &str) -> Result<Option<OwnedFd>, String> {
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.to_str().and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| format!("{variable} is to be the number of an open descriptor"))?;
    inherited(number).map(Some).map_err(|error| format!("{variable}={number}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_logged_where_nothing_else_is_asked_for() {
        let of = |value: &str| LogLevel::of(Some(value.into()));
        assert_eq!(LogLevel::of(None), LogLevel::Error { wanted: false });
        assert_eq!([of("verbose"), of("debug")], [LogLevel::Verbose; 2]);
        assert_eq!([of("error"), of("loud")], [LogLevel::Error { wanted: true }; 2]);
        let seen =
            [LogLevel::of(None), of(""), of("silent"), of("error"), of("debug")].map(LogLevel::is_seen);
        assert_eq!(seen, [false, false, false, true, true]);
    }
}

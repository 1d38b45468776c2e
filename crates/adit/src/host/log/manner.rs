//! How the lines of a log look.

use adit_core::Severity;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How lines look, and where they go if the configuration does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    /// adit's: the standard error, the time in UTC.
    #[default]
    Adit,
    /// OpenVPN's (error.c): the standard output, the time of this place, and further lines that programs look for.
    OpenVpn {
        /// `machine-readable-output`: the time in microseconds and the message's flags, in place of the time.
        machine_readable: bool,
        /// `errors-to-stderr`: errors go to the standard error.
        errors_apart: bool,
    },
}

impl Manner {
    /// What the program is called.
    pub(super) fn program(self) -> &'static str {
        match self {
            Manner::Adit => "adit",
            Manner::OpenVpn { .. } => "openvpn",
        }
    }

    /// What stands before the text of a line: the time if it is wanted, and how much it matters.
    pub(super) fn start(self, severity: Severity, stamped: bool) -> String {
        let mark = self.mark(severity);
        match self {
            Manner::OpenVpn { machine_readable: true, .. } => format!("{} {mark}", machine_stamp(severity)),
            _ if !stamped => mark.to_owned(),
            Manner::Adit => format!("{} {mark}", stamp()),
            Manner::OpenVpn { .. } => format!("{} {mark}", adit_io::local_time(adit_io::unix_now())),
        }
    }

    fn mark(self, severity: Severity) -> &'static str {
        match (self, severity) {
            (_, Severity::Info) | (Manner::OpenVpn { .. }, Severity::Debug) => "",
            (Manner::Adit, Severity::Debug) => "debug: ",
            (Manner::Adit, Severity::Warning) => "warning: ",
            (Manner::Adit, Severity::Error) => "error: ",
            (Manner::OpenVpn { .. }, Severity::Warning) => "WARNING: ",
            (Manner::OpenVpn { .. }, Severity::Error) => "ERROR: ",
        }
    }
}

/// The time with microseconds, and the flags of OpenVPN's error.h in hexadecimal digits.
fn machine_stamp(severity: Severity) -> String {
    let now = OffsetDateTime::now_utc();
    let flags = match severity {
        Severity::Debug => 0x80,
        Severity::Info => 0x1,
        Severity::Warning => 0x40,
        Severity::Error => 0x20,
    };
    format!("{}.{:06} {flags:x}", now.unix_timestamp(), now.microsecond())
}

/// The time in UTC, to the second.
fn stamp() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_as_openvpns() {
        let openvpn = |machine_readable| Manner::OpenVpn { machine_readable, errors_apart: false };
        let severities = [Severity::Debug, Severity::Info, Severity::Warning, Severity::Error];
        let bare = severities.map(|severity| openvpn(false).start(severity, false));
        assert_eq!(bare, ["", "", "WARNING: ", "ERROR: "]);
        let stamped = openvpn(false).start(Severity::Info, true);
        let form: String = stamped.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(form, "0000-00-00 00:00:00 ");
        // Of OpenVPN 2.6.14: `1795475547.958492 1 DCO version: N/A`, also with `--suppress-timestamps`.
        for stamped in [true, false] {
            let line = openvpn(true).start(Severity::Info, stamped);
            let (seconds, rest) = line.split_once('.').unwrap_or_default();
            assert!(seconds.parse().is_ok_and(|seconds: u64| seconds > 1_700_000_000), "{line}");
            assert!(rest.len() == 9 && rest.ends_with(" 1 "), "{line}");
        }
    }
}

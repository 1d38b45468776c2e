//! The lines of OpenVPN's log (its error.c): the standard output, and the time of this place.

use adit_core::Severity;
use time::OffsetDateTime;

use adit_host::log::{Manner, Stream};

/// The manner of OpenVPN. `machine_readable` (`machine-readable-output`): the time in microseconds and the message's flags stand in
/// place of the time. `errors_apart` (`errors-to-stderr`): errors go to the standard error.
pub(crate) fn manner(machine_readable: bool, errors_apart: bool) -> Manner {
    Manner {
        program: super::NAME,
        start: if machine_readable { start_for_machines } else { start },
        stream: Stream::Output { errors_apart },
        stamps_in_journal: true,
    }
}

fn start(severity: Severity, stamped: bool) -> String {
    let mark = mark(severity);
    if stamped { format!("{} {mark}", adit_io::local_time(adit_io::unix_now())) } else { mark.to_owned() }
}

fn start_for_machines(severity: Severity, _stamped: bool) -> String {
    format!("{} {}", machine_stamp(severity), mark(severity))
}

fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Debug | Severity::Info => "",
        Severity::Warning => "WARNING: ",
        Severity::Error => "ERROR: ",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_as_openvpns() {
        let openvpn = |machine_readable| manner(machine_readable, false).start;
        let severities = [Severity::Debug, Severity::Info, Severity::Warning, Severity::Error];
        let bare = severities.map(|severity| openvpn(false)(severity, false));
        assert_eq!(bare, ["", "", "WARNING: ", "ERROR: "]);
        let stamped = openvpn(false)(Severity::Info, true);
        let form: String = stamped.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(form, "0000-00-00 00:00:00 ");
        // Of OpenVPN 2.6.14: `1795475547.958492 1 DCO version: N/A`, also with `--suppress-timestamps`.
        for stamped in [true, false] {
            let line = openvpn(true)(Severity::Info, stamped);
            let (seconds, rest) = line.split_once('.').unwrap_or_default();
            assert!(seconds.parse().is_ok_and(|seconds: u64| seconds > 1_700_000_000), "{line}");
            assert!(rest.len() == 9 && rest.ends_with(" 1 "), "{line}");
        }
    }
}

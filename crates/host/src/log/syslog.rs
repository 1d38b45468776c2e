//! The system's log, as the C library's `syslog` writes to it.

use std::io;
use std::os::unix::net::UnixDatagram;

use adit_core::Severity;

/// Where the system's log listens.
const SOCKET: &str = "/dev/log";
/// The facility of daemons (syslog.h `LOG_DAEMON`).
const DAEMON: u8 = 3 << 3;

/// A connection to the system's log. It is made anew when the log was restarted.
pub(super) struct Syslog {
    name: String,
    path: &'static str,
    socket: Option<UnixDatagram>,
}

impl Syslog {
    /// Writes under that name.
    pub(super) fn new(name: &str) -> Self {
        Syslog::at(SOCKET, name)
    }

    fn at(path: &'static str, name: &str) -> Self {
        let name = name.chars().filter(|c| !c.is_control()).collect();
        Syslog { name, path, socket: connect(path).ok() }
    }

    /// One message.
    pub(super) fn write(&mut self, severity: Severity, text: &str) -> io::Result<()> {
        let level = match severity {
            Severity::Debug => 7,
            Severity::Info => 6,
            Severity::Warning => 4,
            Severity::Error => 3,
        };
        let time = time_of_day(&adit_io::local_time(adit_io::unix_now()));
        let message = format!("<{}>{time} {}[{}]: {text}", DAEMON | level, self.name, std::process::id());
        if self.socket.as_ref().is_some_and(|socket| socket.send(message.as_bytes()).is_ok()) {
            return Ok(());
        }
        let socket = connect(self.path)?;
        socket.send(message.as_bytes())?;
        self.socket = Some(socket);
        Ok(())
    }
}

/// A full log makes us wait no more than it makes others, but not for ever.
fn connect(path: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(std::time::Duration::from_millis(100)))?;
    Ok(socket)
}

/// `Jan  2 03:04:05` (RFC 3164 §4.1.2) from `2026-01-02 03:04:05`.
fn time_of_day(local: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let part = |range: std::ops::Range<usize>| local.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    let day = part(8..10).trim_start_matches('0');
    format!("{} {day:>2} {}", month.unwrap_or(&"Jan"), part(11..19))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_priority_time_name_and_process() {
        let path = std::env::temp_dir().join(format!("adit-syslog-{}", std::process::id()));
        let path: &'static str = path.display().to_string().leak();
        let listen = || UnixDatagram::bind(path).expect("a socket");
        let receiver = listen();
        let mut log = Syslog::at(path, "ovpn-office");
        let mut expect = |receiver: &UnixDatagram, severity, priority: &str| {
            log.write(severity, "tunnel up").expect("the log is there");
            let mut buf = [0; 200];
            let len = receiver.recv(&mut buf).expect("a message");
            let text = String::from_utf8_lossy(&buf[..len]).into_owned();
            let tail = format!(" ovpn-office[{}]: tunnel up", std::process::id());
            assert!(text.starts_with(priority) && text.ends_with(&tail), "{text}");
            assert_eq!(text.len(), priority.len() + 15 + tail.len(), "{text}");
        };
        expect(&receiver, Severity::Info, "<30>");
        expect(&receiver, Severity::Error, "<27>");
        // The log is restarted.
        drop(receiver);
        std::fs::remove_file(path).expect("the socket");
        let receiver = listen();
        expect(&receiver, Severity::Warning, "<28>");
        std::fs::remove_file(path).expect("the socket");
    }

    #[test]
    fn days_are_padded_with_a_space() {
        assert_eq!(time_of_day("2026-11-02 03:04:05"), "Nov  2 03:04:05");
        assert_eq!(time_of_day("2026-01-31 23:04:05"), "Jan 31 23:04:05");
        assert_eq!(time_of_day("nonsense").len(), 7);
    }
}

//! What is asked of systemd, by its own programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::service;

/// systemd's programs, and its directories of units.
pub(super) struct Systemd {
    /// Runs a program with arguments, and gives what it writes; the error is what it says.
    run: Box<Run>,
    /// Where an administrator's drop-ins are.
    pub(super) lasting: PathBuf,
    /// Where drop-ins are that the machine's next start does away with.
    pub(super) runtime: PathBuf,
}

type Run = dyn Fn(&str, &[&str]) -> Result<String, String>;

/// What a unit starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The program.
    pub(super) program: PathBuf,
    /// Its arguments, with variables (`$NAME`) as the unit has them.
    pub(super) words: Vec<String>,
}

impl Systemd {
    /// That of this system.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn of_system() -> Result<Self, String> {
        if !service::is_there() {
            return Err("systemd does not run here: end OpenVPN, and start `adit openvpn` with its options"
                .to_owned());
        }
        let run = |program: &str, arguments: &[&str]| service::output_of(Path::new(program), arguments);
        Ok(Systemd::new(Box::new(run), "/etc/systemd/system".into(), "/run/systemd/system".into()))
    }

    /// One whose programs `run` stands for.
    pub(super) fn new(run: Box<Run>, lasting: PathBuf, runtime: PathBuf) -> Self {
        Systemd { run, lasting, runtime }
    }

    /// A property of a unit, as `systemctl show` prints it.
    pub(super) fn property(&self, unit: &str, name: &str) -> Result<String, String> {
        let text = (self.run)("systemctl", &["show", "--property", name, "--value", "--", unit])?;
        Ok(text.trim().to_owned())
    }

    /// The main process of a unit, if it runs.
    pub(super) fn main_process(&self, unit: &str) -> Result<Option<u32>, String> {
        Ok(self.property(unit, "MainPID")?.parse::<u32>().ok().filter(|pid| *pid != 0))
    }

    /// What a unit starts. `systemctl show` does not tell where a word ends, D-Bus does.
    pub(super) fn command(&self, unit: &str) -> Result<Command, String> {
        let object = object(unit);
        let arguments = [
            "--json=short",
            "get-property",
            "org.freedesktop.systemd1",
            object.as_str(),
            "org.freedesktop.systemd1.Service",
            "ExecStart",
        ];
        let text = (self.run)("busctl", &arguments)?;
        command_of(&text).ok_or_else(|| format!("{unit}: its command cannot be read: {}", text.trim()))
    }

    /// Has all units read again.
    pub(super) fn reload(&self) -> Result<(), String> {
        (self.run)("systemctl", &["daemon-reload"]).map(drop)
    }

    /// Ends what a unit runs, starts it anew, and waits until it is up.
    pub(super) fn restart(&self, unit: &str) -> Result<(), String> {
        (self.run)("systemctl", &["restart", "--", unit]).map(drop)
    }

    /// Has a unit that failed too often start again.
    pub(super) fn forget_failures(&self, unit: &str) {
        // It says that there are none.
        let _ = (self.run)("systemctl", &["reset-failed", "--", unit]);
    }

    /// The last lines of a unit's log. Empty if there are none, or the log goes to a file.
    pub(super) fn last_lines(&self, unit: &str) -> String {
        let arguments = ["--unit", unit, "--lines", "8", "--output", "cat", "--no-pager", "--quiet"];
        (self.run)("journalctl", &arguments).unwrap_or_default().trim_end().to_owned()
    }
}

/// The D-Bus object of a unit (sd_bus_path_encode(3)).
fn object(unit: &str) -> String {
    let mut path = "/org/freedesktop/systemd1/unit/".to_owned();
    for (index, byte) in unit.bytes().enumerate() {
        if byte.is_ascii_alphabetic() || (index > 0 && byte.is_ascii_digit()) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "_{byte:02x}");
        }
    }
    path
}

/// Reads `a(sasbttttuii)` (org.freedesktop.systemd1(5), `ExecStart`): path, words, and what became of it.
fn command_of(json: &str) -> Option<Command> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let first = &value["data"][0];
    let words = first[1].as_array()?.iter().skip(1);
    Some(Command {
        program: first[0].as_str()?.into(),
        words: words.map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_unit_is_read() {
        let shown = r#"{"type":"a(sasbttttuii)","data":[["/usr/sbin/openvpn",["/usr/sbin/openvpn","--setenv","A","b c","--config","a.conf"],false,0,0,0,0,0,0,0]]}"#;
        let command = command_of(shown).expect("a command");
        assert_eq!(command.program, Path::new("/usr/sbin/openvpn"));
        assert_eq!(command.words, ["--setenv", "A", "b c", "--config", "a.conf"]);
        for other in
            ["", "{}", r#"{"type":"a(sasbttttuii)","data":[]}"#, r#"{"data":[["/bin/x",["x",1]]]}"#, "3"]
        {
            assert_eq!(command_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_unit_has_an_object() {
        assert_eq!(
            object("openvpn-server@office.service"),
            "/org/freedesktop/systemd1/unit/openvpn_2dserver_40office_2eservice"
        );
        assert_eq!(object("1a1"), "/org/freedesktop/systemd1/unit/_31a1");
    }
}

//! Questions and orders to systemd, by its own programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::systemd as manager;

/// systemd's programs, and its directories of units.
pub struct Systemd {
    /// Runs a program with arguments, and gives its output; the error is its message.
    run: Box<Run>,
    /// The directory of an administrator's drop-ins.
    pub(super) lasting: PathBuf,
    /// The directory of drop-ins that the machine's next start removes.
    pub(super) runtime: PathBuf,
}

type Run = dyn Fn(&str, &[&str]) -> Result<String, String>;

/// The command that a unit starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, with variables (`$NAME`) as the unit has them.
    pub words: Vec<String>,
    /// The characters before the program in the unit, without `@`, which concerns the program's name (systemd.service(5),
    /// "Command lines").
    pub(super) prefixes: String,
}

impl Command {
    /// Whether `$` in its arguments is a plain character and begins no variable.
    pub(super) fn is_literal(&self) -> bool {
        self.prefixes.contains(':')
    }

    /// Whether it runs with root's rights, whatever the unit's `User=` says.
    pub(super) fn is_privileged(&self) -> bool {
        self.prefixes.contains(['+', '!'])
    }
}

impl Systemd {
    /// The systemd of this system.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn of_system() -> Result<Self, String> {
        if !manager::is_there() {
            return Err(
                "systemd does not run here: end the other program, and start adit with its files".to_owned()
            );
        }
        let run = |program: &str, arguments: &[&str]| manager::output_of(Path::new(program), arguments);
        Ok(Systemd::new(Box::new(run), "/etc/systemd/system".into(), "/run/systemd/system".into()))
    }

    /// One that calls `run` in the place of systemd's programs.
    pub(super) fn new(run: Box<Run>, lasting: PathBuf, runtime: PathBuf) -> Self {
        Systemd { run, lasting, runtime }
    }

    /// A property of a unit, as `systemctl show` prints it.
    ///
    /// # Errors
    /// systemctl's message, when it fails.
    pub fn property(&self, unit: &str, name: &str) -> Result<String, String> {
        let text = (self.run)("systemctl", &["show", "--property", name, "--value", "--", unit])?;
        Ok(text.trim().to_owned())
    }

    /// The main process of a unit, if it runs.
    ///
    /// # Errors
    /// systemctl's message, when it fails.
    pub fn main_process(&self, unit: &str) -> Result<Option<u32>, String> {
        Ok(self.property(unit, "MainPID")?.parse::<u32>().ok().filter(|pid| *pid != 0))
    }

    /// Whether a unit has ended, and systemd starts it again after a time (`RestartSec=`).
    pub(super) fn restarts(&self, unit: &str) -> Result<bool, String> {
        // Since systemd 254 also `auto-restart-queued`.
        Ok(self.property(unit, "SubState")?.starts_with("auto-restart"))
    }

    /// The user that a unit's processes run as, if the unit names one that is not root.
    pub(super) fn user(&self, unit: &str) -> Result<Option<String>, String> {
        if self.property(unit, "DynamicUser")? == "yes" {
            return Ok(Some("of DynamicUser=".to_owned()));
        }
        Ok(Some(self.property(unit, "User")?).filter(|user| !matches!(user.as_str(), "" | "root" | "0")))
    }

    /// The command that a unit starts. It is read from D-Bus, as the output of `systemctl show` does not separate words.
    ///
    /// # Errors
    /// busctl's message, when it fails, or that the command cannot be read.
    pub fn command(&self, unit: &str) -> Result<Command, String> {
        let object = object(unit);
        let property = |name: &str| {
            let arguments = [
                "--json=short",
                "get-property",
                "org.freedesktop.systemd1",
                object.as_str(),
                "org.freedesktop.systemd1.Service",
                name,
            ];
            (self.run)("busctl", &arguments)
        };
        // `ExecStartEx`, which systemd has since version 243, has all prefixes.
        let text = property("ExecStartEx").or_else(|_| property("ExecStart"))?;
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
        // It fails where the unit has not failed.
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

/// Reads `a(sasasttttuii)` or `a(sasbttttuii)` (org.freedesktop.systemd1(5), `ExecStartEx` and `ExecStart`): path, words, how it is
/// run, and what became of it.
fn command_of(json: &str) -> Option<Command> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let first = &value["data"][0];
    let words = first[1].as_array()?.iter().skip(1);
    Some(Command {
        program: first[0].as_str()?.into(),
        words: words.map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?,
        prefixes: prefixes(&first[2])?,
    })
}

/// The prefixes that stand for the flags of a command; of `ExecStart`, whether its failure is ignored.
fn prefixes(flags: &serde_json::Value) -> Option<String> {
    if let Some(is_failure_ignored) = flags.as_bool() {
        return Some(String::from(if is_failure_ignored { "-" } else { "" }));
    }
    let prefix = |flag: &serde_json::Value| match flag.as_str()? {
        "ignore-failure" => Some("-"),
        "no-env-expand" => Some(":"),
        "privileged" => Some("+"),
        "no-setuid" => Some("!"),
        "ambient" => Some("!!"),
        _ => None,
    };
    flags.as_array()?.iter().map(prefix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_unit_is_read() {
        let shown = r#"{"type":"a(sasbttttuii)","data":[["/usr/sbin/other",["/usr/sbin/other","--setenv","A","b c","--config","a.conf"],false,0,0,0,0,0,0,0]]}"#;
        let command = command_of(shown).expect("a command");
        assert_eq!(command.program, Path::new("/usr/sbin/other"));
        assert_eq!(command.words, ["--setenv", "A", "b c", "--config", "a.conf"]);
        assert_eq!(command.prefixes, "");
        for other in
            ["", "{}", r#"{"type":"a(sasbttttuii)","data":[]}"#, r#"{"data":[["/bin/x",["x",1]]]}"#, "3"]
        {
            assert_eq!(command_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_prefixes_of_a_command_are_read() {
        let of = |flags: &str| {
            let shown =
                format!(r#"{{"data":[["/usr/sbin/other",["other","a.conf"],{flags},0,0,0,0,0,0,0]]}}"#);
            command_of(&shown)
                .map(|command| (command.prefixes.clone(), command.is_literal(), command.is_privileged()))
        };
        assert_eq!(of("true"), Some(("-".to_owned(), false, false)));
        assert_eq!(of("[]"), Some((String::new(), false, false)));
        let both = of(r#"["ignore-failure","no-env-expand"]"#);
        assert_eq!(both, Some(("-:".to_owned(), true, false)));
        for (flag, prefix) in [("privileged", "+"), ("no-setuid", "!"), ("ambient", "!!")] {
            assert_eq!(of(&format!(r#"["{flag}"]"#)), Some((prefix.to_owned(), false, true)));
        }
        assert_eq!(of(r#"["via-shell"]"#), None);
    }

    #[test]
    fn a_unit_has_an_object() {
        assert_eq!(
            object("vpn-server@office.service"),
            "/org/freedesktop/systemd1/unit/vpn_2dserver_40office_2eservice"
        );
        assert_eq!(object("1a1"), "/org/freedesktop/systemd1/unit/_31a1");
    }
}

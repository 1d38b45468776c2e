//! The drop-in by which a unit of OpenVPN runs adit.

use std::path::Path;

use super::systemd::Systemd;
use crate::command as openvpn;
use adit_host::systemd::quoted;

/// Its file name, which sorts after an administrator's `override.conf`: systemd takes the last of several commands.
pub(super) const NAME: &str = "zz-adit.conf";

/// Its first words, by which a later command knows that `adit adopt` made it.
pub(super) const MARK: &str = "# Made by `adit adopt`";

/// The number of processes and threads that a unit must allow: packaging/systemd/10-adit.conf.
const TASKS: u64 = 64;

/// The capability that adit needs and upstream's and Debian's units lack: with it, a server that runs as its `user` reads its
/// files again (SIGHUP).
///
/// CAP_KILL is left out, as in the units of servers in packaging/systemd: with it their exposure is above 3.0 (`systemd-analyze
/// security`).
const CAPABILITY: &str = "CAP_DAC_READ_SEARCH";

/// The limits of a unit that are too low for adit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    tasks: bool,
    processes: bool,
    /// [`CAPABILITY`] is not in its bounding set.
    capability: bool,
}

impl Lacks {
    /// The limits of a unit that are too low.
    ///
    /// # Errors
    /// When systemd does not say.
    pub(super) fn of(systemd: &Systemd, unit: &str) -> Result<Self, String> {
        let is_low = |name: &str| -> Result<bool, String> {
            // `infinity` is no number.
            Ok(systemd.property(unit, name)?.parse::<u64>().is_ok_and(|limit| limit < TASKS))
        };
        let bounding_set = systemd.property(unit, "CapabilityBoundingSet")?;
        let has = bounding_set.split_whitespace().any(|name| name.eq_ignore_ascii_case(CAPABILITY));
        Ok(Lacks { tasks: is_low("TasksMax")?, processes: is_low("LimitNPROC")?, capability: !has })
    }
}

/// Its text: the unit runs that program with OpenVPN's arguments and the prefixes of its command, and has the limits that it
/// lacks.
///
/// # Errors
/// When an argument cannot stand in a unit.
pub(super) fn text(
    program: &Path,
    (prefixes, words): (&str, &[String]),
    lacks: &Lacks,
) -> Result<String, String> {
    let program = program.to_str().ok_or_else(|| format!("{} is not UTF-8 text", program.display()))?;
    let mut line = format!("ExecStart={prefixes}{} {}", quoted(program)?, openvpn::NAME);
    for word in words {
        line.push(' ');
        line.push_str(&quoted(word)?);
    }
    let more = [
        (lacks.tasks, format!("TasksMax={TASKS}\n")),
        (lacks.processes, "LimitNPROC=infinity\n".to_owned()),
        // systemd adds it to the capabilities that the unit names.
        (lacks.capability, format!("CapabilityBoundingSet={CAPABILITY}\n")),
    ];
    let more: String = more.into_iter().filter(|(is_lacking, _)| *is_lacking).map(|(_, line)| line).collect();
    Ok(format!(
        "{MARK}: adit runs this unit's tunnel. `adit adopt --back` has OpenVPN run it again.\n\
         [Service]\nExecStart=\n{line}\n{more}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_the_words_as_they_are() {
        let words = ["--setenv", "a b", "100% \"$HOME\" \\"].map(str::to_owned);
        let said = text(Path::new("/usr/bin/adit"), ("-+", words.as_slice()), &Lacks::default())
            .expect("good words");
        let line = "ExecStart=-+\"/usr/bin/adit\" openvpn \"--setenv\" \"a b\" \"100%% \\\"$HOME\\\" \\\\\"";
        assert!(
            said.starts_with(MARK) && said.ends_with(&format!("[Service]\nExecStart=\n{line}\n")),
            "{said}"
        );
        let words = ["a\nUser=x".to_owned()];
        assert!(text(Path::new("/usr/bin/adit"), ("", words.as_slice()), &Lacks::default()).is_err());
    }

    #[test]
    fn it_gives_what_the_unit_lacks() {
        let of = |tasks: &str, processes: &str, capabilities: &str| {
            let values =
                [("TasksMax", tasks), ("LimitNPROC", processes), ("CapabilityBoundingSet", capabilities)]
                    .map(|(name, value)| (name, value.to_owned()));
            let run = move |_: &str, arguments: &[&str]| {
                let value = values.iter().find(|(name, _)| arguments.contains(name));
                value.map(|(_, value)| value.clone()).ok_or_else(String::new)
            };
            let systemd = Systemd::new(Box::new(run), "/nonexistent".into(), "/nonexistent".into());
            Lacks::of(&systemd, "a.service").expect("properties")
        };
        assert_eq!(of("infinity", "63000", "cap_chown cap_dac_read_search"), Lacks::default());
        let one = of("infinity", "63000", "cap_kill");
        assert_eq!(one, Lacks { capability: true, ..Lacks::default() });
        let no_words: [String; 0] = [];
        let all = of("20", "10", "cap_net_admin cap_setuid");
        assert_eq!(all, Lacks { tasks: true, processes: true, capability: true });
        let said = text(Path::new("/usr/bin/adit"), ("", no_words.as_slice()), &all).expect("good words");
        let more = "TasksMax=64\nLimitNPROC=infinity\nCapabilityBoundingSet=CAP_DAC_READ_SEARCH\n";
        assert!(said.ends_with(more), "{said}");
    }
}

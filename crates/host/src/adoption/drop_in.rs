//! The drop-in by which a unit of another program runs adit.

use std::path::Path;

use super::systemd::Systemd;
use crate::systemd::quoted;

/// Its file name, which sorts after an administrator's `override.conf`: systemd takes the last of several commands.
pub(super) const NAME: &str = "zz-adit.conf";

/// Its first words, by which a later command knows that `adit adopt` made it.
pub(super) const MARK: &str = "# Made by `adit adopt`";

/// The number of processes and threads that a unit must allow: packaging/systemd/10-adit.conf.
const TASKS: u64 = 64;

/// The capability that adit needs and units of other programs lack: with it, a server that runs as its `user` reads its
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

/// The contents of a drop-in.
pub(super) struct Contents<'a> {
    /// The name of the other program, for people.
    pub(super) title: &'a str,
    /// This program.
    pub(super) program: &'a Path,
    /// The prefixes of the unit's command.
    pub(super) prefixes: &'a str,
    /// The command of this program that runs the tunnels.
    pub(super) command: &'a str,
    /// Its arguments, in which `$NAME` is a variable of the unit.
    pub(super) arguments: &'a [String],
    pub(super) lacks: &'a Lacks,
}

/// Its text: the unit runs this program with those arguments and the prefixes of its command, and has the limits that it lacks.
///
/// # Errors
/// When an argument cannot stand in a unit.
pub(super) fn text(contents: &Contents<'_>) -> Result<String, String> {
    let Contents { title, program, prefixes, command, arguments, lacks } = contents;
    let program = program.to_str().ok_or_else(|| format!("{} is not UTF-8 text", program.display()))?;
    let mut line = format!("ExecStart={prefixes}{} {command}", quoted(program)?);
    for word in *arguments {
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
        "{MARK}: adit runs this unit's tunnel. `adit adopt --back` has {title} run it again.\n\
         [Service]\nExecStart=\n{line}\n{more}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(prefixes: &str, arguments: &[String], lacks: &Lacks) -> Result<String, String> {
        let program = Path::new("/usr/bin/adit");
        text(&Contents { title: "Other", program, prefixes, command: "other", arguments, lacks })
    }

    #[test]
    fn it_says_the_words_as_they_are() {
        let words = ["--setenv", "a b", "100% \"$HOME\" \\"].map(str::to_owned);
        let text = said("-+", &words, &Lacks::default()).expect("good words");
        let line = "ExecStart=-+\"/usr/bin/adit\" other \"--setenv\" \"a b\" \"100%% \\\"$HOME\\\" \\\\\"";
        assert!(
            text.starts_with(MARK) && text.ends_with(&format!("[Service]\nExecStart=\n{line}\n")),
            "{text}"
        );
        assert!(text.contains("`adit adopt --back` has Other run it again"), "{text}");
        assert!(said("", &["a\nUser=x".to_owned()], &Lacks::default()).is_err());
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
        let all = of("20", "10", "cap_net_admin cap_setuid");
        assert_eq!(all, Lacks { tasks: true, processes: true, capability: true });
        let text = said("", &[], &all).expect("good words");
        let more = "TasksMax=64\nLimitNPROC=infinity\nCapabilityBoundingSet=CAP_DAC_READ_SEARCH\n";
        assert!(text.ends_with(more), "{text}");
    }
}

//! A scenario: `test.conf`, `pretest.dat`, `evaltest.dat` and `posttest.dat`, as `testing/do-tests` of strongSwan reads them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::topology;

/// A scenario of strongSwan's tests.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Its folder below `tests`, such as `ikev2/net2net-psk`.
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Before the checks, in this order.
    pub(crate) before: Vec<Step>,
    pub(crate) checks: Vec<Check>,
    /// After the checks, in this order.
    pub(crate) after: Vec<Step>,
}

/// The settings of `test.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The hosts that the scenario needs (`VIRTHOSTS`).
    pub(crate) hosts: Vec<String>,
    /// The hosts that run an IKE daemon (`IPSECHOSTS`).
    pub(crate) daemons: Vec<String>,
    /// The hosts on which `tcpdump` looks at `eth0`, or at the device that `HOST-DEVICE` names (`TCPDUMPHOSTS`).
    pub(crate) captures: Vec<String>,
    /// Whether a host runs FreeRADIUS (`RADIUSHOSTS`).
    pub(crate) has_radius: bool,
    /// Whether a host needs a database (`DBHOSTS`).
    pub(crate) has_database: bool,
    /// Whether `swanctl` drives the daemons (`SWANCTL`), and not `ipsec`.
    pub(crate) has_swanctl: bool,
}

/// A command on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) host: String,
    pub(crate) command: String,
}

/// A line of `evaltest.dat`: a command, and what `grep` finds in its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) step: Step,
    /// A basic regular expression.
    pub(crate) pattern: String,
    pub(crate) expected: Expected,
}

/// The lines that a pattern must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Some,
    None,
    /// As many. `do-tests` counts no line as one.
    Count(usize),
    /// Neither `YES`, `NO` nor a number stands there: the command is run, and nothing is judged.
    Anything,
}

impl Expected {
    /// Whether that number of lines is as expected.
    pub(crate) fn is_met(self, lines: usize) -> bool {
        match self {
            Expected::Some => lines > 0,
            Expected::None => lines == 0,
            Expected::Count(count) => lines.max(1) == count,
            Expected::Anything => true,
        }
    }
}

impl Scenario {
    /// Reads the scenario of that name below the folder `testing` of strongSwan's sources.
    pub(crate) fn read(testing: &Path, name: &str) -> io::Result<Self> {
        let folder = testing.join("tests").join(name);
        let text = |file: &str| fs::read_to_string(folder.join(file)).map(|text| topology::addressed(&text));
        Ok(Scenario {
            name: name.to_owned(),
            settings: settings(&text("test.conf")?),
            before: steps(&text("pretest.dat")?),
            checks: checks(&text("evaltest.dat")?),
            after: steps(&text("posttest.dat")?),
        })
    }
}

/// The settings of the text of a `test.conf`: lines `NAME="WORD …"` of a shell.
pub(crate) fn settings(text: &str) -> Settings {
    let assignments = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let values: BTreeMap<&str, Vec<String>> = assignments
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| {
            let words = value.trim().trim_matches('"').split_whitespace();
            (name.trim(), words.map(str::to_owned).collect())
        })
        .collect();
    let list = |name: &str| values.get(name).cloned().unwrap_or_default();
    Settings {
        hosts: list("VIRTHOSTS"),
        daemons: list("IPSECHOSTS"),
        captures: list("TCPDUMPHOSTS"),
        has_radius: !list("RADIUSHOSTS").is_empty(),
        has_database: !list("DBHOSTS").is_empty(),
        has_swanctl: !list("SWANCTL").is_empty(),
    }
}

/// The steps of the text of a `pretest.dat` or `posttest.dat`: lines `HOST::COMMAND`.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    lines(text).filter_map(|fields| step(&fields)).collect()
}

/// The checks of the text of an `evaltest.dat`: lines `HOST::COMMAND::PATTERN::EXPECTED`.
pub(crate) fn checks(text: &str) -> Vec<Check> {
    let check = |fields: Vec<&str>| {
        let expected = match fields.get(3).map(|word| word.trim()).unwrap_or_default() {
            "YES" => Expected::Some,
            "NO" => Expected::None,
            word => word.parse().map_or(Expected::Anything, Expected::Count),
        };
        let pattern = unescaped(fields.get(2).unwrap_or(&""));
        Some(Check { step: step(&fields)?, pattern, expected })
    };
    lines(text).filter_map(check).collect()
}

/// The fields of each line that is no comment.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split("::").collect())
}

/// The step of a line's first two fields, if it has a command.
fn step(fields: &[&str]) -> Option<Step> {
    let command = fields.get(1)?.trim();
    // `do-tests` gives the command to a shell that removes these quotes, and its output to the shell of the host.
    let command = command.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(command);
    let host = fields.first()?.trim().to_owned();
    (!command.is_empty()).then(|| Step { host, command: command.to_owned() })
}

/// The pattern as a shell makes it of a text in double quotes.
fn unescaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_escape = character == '\\' && characters.peek().is_some_and(|next| "\"\\$`".contains(*next));
        if !is_escape {
            pattern.push(character);
        } else if let Some(next) = characters.next() {
            pattern.push(next);
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_without_comments() {
        let text = "#!/bin/bash\n# VIRTHOSTS=\"none\"\nVIRTHOSTS=\"north east\"\nTCPDUMPHOSTS=\"east\"\nIPSECHOSTS=\"north\"\n\
                    RADIUSHOSTS=\"\"\nSWANCTL=1\n";
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = Settings {
            hosts: words(&["north", "east"]),
            daemons: words(&["north"]),
            captures: words(&["east"]),
            has_swanctl: true,
            ..Settings::default()
        };
        assert_eq!(settings(text), expected);
        assert!(settings("DBHOSTS=\"north\"\nRADIUSHOSTS=east").has_radius);
    }

    #[test]
    fn steps_have_a_host_and_a_command() {
        let text =
            "# a comment::of two fields\nnorth::begin now\n\neast ::\"ip route add fd00:\\:/16\"\nwest::\n";
        let found: Vec<(String, String)> =
            steps(text).into_iter().map(|step| (step.host, step.command)).collect();
        let expected =
            [("north", "begin now"), ("east", "ip route add fd00:\\:/16")].map(|(a, b)| (a.into(), b.into()));
        assert_eq!(found, expected);
    }

    #[test]
    fn checks_have_a_pattern_and_what_is_expected() {
        let text = "north:: list 2> /dev/null::ts=\\[10.0.0.0/8] \\\"a\\\"::YES\neast::list::x::NO\neast::list::x::3\neast::list::x::odd\n";
        let found = checks(text);
        assert_eq!(found[0].step, Step { host: "north".into(), command: "list 2> /dev/null".into() });
        assert_eq!(found[0].pattern, "ts=\\[10.0.0.0/8] \"a\"");
        let expected: Vec<Expected> = found.iter().map(|check| check.expected).collect();
        assert_eq!(expected, [Expected::Some, Expected::None, Expected::Count(3), Expected::Anything]);
    }

    #[test]
    fn no_line_counts_as_one() {
        assert!(
            Expected::Count(1).is_met(0) && Expected::Count(1).is_met(1) && !Expected::Count(1).is_met(2)
        );
        assert!(Expected::Some.is_met(1) && !Expected::Some.is_met(0));
        assert!(Expected::None.is_met(0) && !Expected::None.is_met(1));
        assert!(Expected::Anything.is_met(0));
    }
}

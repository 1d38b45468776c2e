//! The reader's own subjects: executables in a folder, each called with one word that names the step.
//! docs/measure/LAB.md, "Adding a subject", is their contract.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Process, TestbedError};

use super::{Availability, Subject, Tools, Tunnel};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, TIMEOUT, Testbed};

/// How long "describe" may take.
const DESCRIBING: Duration = Duration::from_secs(10);
/// How long "prepare" may take: key pairs of long numbers need seconds.
const PREPARING: Duration = Duration::from_secs(60);
/// Exit codes of "describe".
const INSTALLABLE: i32 = 3;
const IMPOSSIBLE: i32 = 4;
/// The line that the server writes when a client may come.
const READY: &str = "ready";

/// An executable.
#[derive(Debug)]
struct External {
    name: String,
    path: PathBuf,
    description: Description,
}

/// The description that it prints of itself.
#[derive(Clone, Debug, Default, PartialEq)]
struct Description {
    about: String,
    stand_in: Option<String>,
    availability: Option<Availability>,
}

/// All in a folder. One that is not there has none.
pub(super) fn all(directory: &Path) -> Vec<Box<dyn Subject>> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_executable(path)).collect();
    paths.sort();
    let subject = |path: PathBuf| -> Option<Box<dyn Subject>> {
        let name = name(&path)?;
        let description = describe(&path);
        Some(Box::new(External { name, path, description }))
    };
    paths.into_iter().filter_map(subject).collect()
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The file's name without its ending, if a plan can hold it.
fn name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    let plain = stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    (plain && !stem.is_empty()).then(|| stem.to_owned())
}

fn describe(path: &Path) -> Description {
    let mut command = Command::new(path);
    command.arg("describe");
    let told = || -> Result<(Option<i32>, String), TestbedError> {
        let mut process = Process::spawn(&path.display().to_string(), command)?;
        let status = process.wait(DESCRIBING)?;
        Ok((status.code(), process.log()))
    };
    match told() {
        Ok((code, text)) => description(code, &text),
        Err(error) => Description {
            availability: Some(Availability::Impossible(error.to_string())),
            ..Description::default()
        },
    }
}

/// The answer to "describe": an exit code, and lines of `key=value`.
fn description(code: Option<i32>, text: &str) -> Description {
    let values: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let value = |key: &str| values.get(key).map(|value| (*value).to_owned());
    let why = value("why").unwrap_or_else(|| "it does not say why".to_owned());
    let availability = match code {
        Some(0) => {
            Availability::Installed(value("version").unwrap_or_else(|| "of unknown version".to_owned()))
        }
        Some(INSTALLABLE) => Availability::Installable(why),
        Some(IMPOSSIBLE) => Availability::Impossible(why),
        Some(code) => Availability::Impossible(format!("\"describe\" ended with {code}: {}", text.trim())),
        None => Availability::Impossible("\"describe\" was ended by a signal".to_owned()),
    };
    Description {
        about: value("about").unwrap_or_else(|| "a subject of the reader's own".to_owned()),
        stand_in: value("stand-in"),
        availability: Some(availability),
    }
}

impl External {
    fn command(&self, testbed: &Testbed, word: &str, end: usize) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(word).current_dir(testbed.directory.path());
        command.env("ADIT_LAB_DIRECTORY", testbed.directory.path()).env("ADIT_LAB_PORT", PORT.to_string());
        for (key, addresses) in [("OUTER", OUTER), ("INNER", INNER)] {
            let [own, peer] = [end, 1 - end].map(|end| addresses.get(end).copied().unwrap_or_default());
            command.env(format!("ADIT_LAB_{key}"), own).env(format!("ADIT_LAB_{key}_PEER"), peer);
        }
        command
    }
}

impl Subject for External {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn about(&self) -> String {
        self.description.about.clone()
    }

    fn stand_in(&self) -> Option<String> {
        self.description.stand_in.clone()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        match &self.description.availability {
            // How is its own matter; the lab only calls it.
            Some(Availability::Installable(_)) => {
                Availability::Installable(format!("'{}' setup", self.path.display()))
            }
            Some(availability) => availability.clone(),
            None => Availability::Impossible("it was not described".to_owned()),
        }
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        let mut prepare = testbed.server.spawn("\"prepare\"", self.command(testbed, "prepare", 0))?;
        let status = prepare.wait(PREPARING)?;
        if !status.success() {
            let why = format!("\"prepare\" of {}: {status}\n{}", self.name, prepare.log_tail());
            return Err(LabError::Usage(why));
        }
        let mut server = testbed.server.spawn("\"server\"", self.command(testbed, "server", 0))?;
        server.wait_for_line(0, READY, TIMEOUT)?;
        testbed.processes.push(server);
        let client = self.command(testbed, "client", 1);
        Ok(Tunnel::up(testbed.start_client(client, |_| Ok(()))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_understood() {
        let said = description(Some(0), "about=A tunnel\nversion = 1.2\nstand-in=another\nnoise\n");
        assert_eq!(said.about, "A tunnel");
        assert_eq!(said.stand_in.as_deref(), Some("another"));
        assert_eq!(said.availability, Some(Availability::Installed("1.2".to_owned())));
        let said = description(Some(IMPOSSIBLE), "why=no such kernel\n");
        assert_eq!(said.availability, Some(Availability::Impossible("no such kernel".to_owned())));
        let said = description(Some(1), "oh dear\n").availability.unwrap().to_string();
        assert!(said.contains("ended with 1: oh dear"), "{said}");
    }

    #[test]
    fn only_names_that_plans_can_hold_are_taken() {
        assert_eq!(name(Path::new("/x/my-vpn2.sh")).as_deref(), Some("my-vpn2"));
        assert_eq!(name(Path::new("/x/my-vpn")).as_deref(), Some("my-vpn"));
        for bad in ["/x/My", "/x/a b", "/x/.hidden~", "/x/ä"] {
            assert_eq!(name(Path::new(bad)), None, "{bad}");
        }
    }
}

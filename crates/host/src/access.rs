//! The access rules of a tunnel: the file beside its configuration, read at the start and again by SIGHUP.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use adit_access::{AccessFile, Action, Rules};
use adit_core::{Protocol, Severity};
use adit_guard::{ACCESS_FILE, HelperFiles};
use adit_io::{Driver, Handle};

use super::failure::Failure;
use super::log::Logger;

/// The rules of a file, with a sentence about them.
pub struct ReadRules {
    /// The rules.
    pub rules: Arc<Rules>,
    /// How many there are, and what becomes of the rest.
    pub summary: String,
}

/// The place of the access rules of a configuration.
pub fn file_of(configuration: &Path) -> PathBuf {
    configuration.with_file_name(ACCESS_FILE)
}

/// Reads a file of access rules. `None`: there is no such file, and all may reach all.
///
/// # Errors
/// All mistakes of the file, with their lines; or why it cannot be read.
pub fn read(file: &Path) -> Result<Option<ReadRules>, Failure> {
    match fs::read(file) {
        Ok(text) => parse(file, &text).map(Some).map_err(Failure::Configuration),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::World(format!("{}: it cannot be read: {error}", file.display()))),
    }
}

fn parse(file: &Path, text: &[u8]) -> Result<ReadRules, String> {
    let name = file.display().to_string();
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = text.iter().take(error.valid_up_to());
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        format!("{name}:{line}: the text is not UTF-8: save it as UTF-8")
    })?;
    let parsed = AccessFile::parse(&name, text).map_err(|error| error.to_string())?;
    let rest = match parsed.default {
        Action::Allow => "what none of them matches passes",
        Action::Deny => "what none of them matches is refused",
    };
    let (rules, groups) = (parsed.rules.len(), parsed.groups.len());
    let summary = format!("{rules} rules and {groups} groups; {rest}");
    Ok(ReadRules { rules: Arc::new(Rules::new(&parsed)), summary })
}

/// The access rules of a tunnel that runs.
#[derive(Clone, Debug)]
pub struct AccessRules {
    file: PathBuf,
    /// Whether there are rules in force.
    in_force: bool,
}

impl AccessRules {
    /// Reads the rules beside a configuration, and has a driver that does not run yet judge packets by them. Without a file, all may
    /// reach all.
    ///
    /// # Errors
    /// All mistakes of the file, with their lines; or why it cannot be read.
    pub fn begin<P: Protocol>(
        configuration: &Path,
        driver: &mut Driver<P>,
        log: &mut Logger,
    ) -> Result<Self, Failure> {
        let file = file_of(configuration);
        let found = read(&file)?;
        let in_force = found.is_some();
        if let Some(found) = found {
            log.log(Severity::Info, format_args!("{}: {}", file.display(), found.summary));
            driver.set_rules(found.rules);
        }
        Ok(AccessRules { file, in_force })
    }

    /// Reads the file again by the helper, and has the driver judge packets by what it says now. A file with a mistake, and one that is
    /// gone, change nothing, and the log says so.
    pub fn reload<P: Protocol>(&mut self, files: &HelperFiles, handle: &Handle<P>, log: &mut Logger) {
        let file = self.file.display();
        let found = match files.access_rules() {
            Ok(Some(text)) => parse(&self.file, &text),
            Ok(None) if !self.in_force => return,
            Ok(None) => {
                Err(format!("{file}: it is gone: write default = \"allow\" into it if all may reach all"))
            }
            Err(error) => Err(format!("{file}: it cannot be read: {error}")),
        };
        match found {
            Ok(found) => {
                self.in_force = true;
                handle.set_rules(found.rules);
                log.log(Severity::Info, format_args!("SIGHUP: {file} holds: {}", found.summary));
            }
            Err(why) => {
                why.lines().for_each(|line| log.log(Severity::Error, line));
                let left = if self.in_force {
                    "the access rules of before hold"
                } else {
                    "there are no access rules"
                };
                log.log(Severity::Error, format_args!("SIGHUP: {file} changes nothing: {left}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lies_beside_the_configuration() {
        assert_eq!(file_of(Path::new("/etc/adit/office.conf")), Path::new("/etc/adit/access.toml"));
        assert_eq!(file_of(Path::new("office.conf")), Path::new("access.toml"));
    }

    #[test]
    fn a_mistake_has_its_line_and_no_file_is_no_mistake() {
        let wrong =
            parse(Path::new("access.toml"), b"default = \"deny\"\nrules = 1\n").map(drop).unwrap_err();
        assert!(wrong.starts_with("access.toml:2: "), "{wrong}");
        let wrong = parse(Path::new("access.toml"), b"default = \"deny\"\n# \xff\n").map(drop).unwrap_err();
        assert!(wrong.starts_with("access.toml:2: the text is not UTF-8"), "{wrong}");
        assert!(read(Path::new("/nonexistent/access.toml")).unwrap().is_none());
    }
}

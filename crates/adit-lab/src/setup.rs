//! Gets peers that are not installed.

use std::collections::BTreeMap;
use std::process::Command;

use crate::say;
use crate::subjects::{Availability, Subject, Tools};

/// Runs each command that a missing subject names, once. False if one failed.
pub(crate) fn setup(subjects: &BTreeMap<String, Box<dyn Subject>>, tools: &Tools) -> bool {
    let mut tried = BTreeMap::new();
    for (name, subject) in subjects {
        if let Availability::Installable(how) = subject.availability(tools) {
            say(format_args!("{name}: {how}"));
            tried.entry(how.clone()).or_insert_with(|| install(&how, tools));
        }
    }
    for (name, subject) in subjects {
        say(format_args!("{name}: {}", subject.availability(tools)));
    }
    tried.values().all(|outcome| *outcome)
}

/// Go and Cargo put what they build into the folder of tools; apt-get must not ask.
fn install(how: &str, tools: &Tools) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", how]).env("GOBIN", &tools.directory).env("CARGO_INSTALL_ROOT", &tools.directory);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    match command.status() {
        Ok(status) if status.success() => true,
        Ok(status) => {
            say(format_args!("{how}: {status}"));
            false
        }
        Err(error) => {
            say(format_args!("{how}: {error}"));
            false
        }
    }
}

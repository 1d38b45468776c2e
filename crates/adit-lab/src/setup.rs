//! Gets peers that are not installed.

use std::collections::BTreeMap;
use std::process::Command;

use adit_testbed::program;

use crate::say;
use crate::subjects::{Availability, Subject, Tools};

/// What the lab itself drives, and Debian's packages of it.
const NEEDED: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("iperf3", "iperf3"),
    ("ethtool", "ethtool"),
    ("openssl", "openssl"),
    ("unshare", "util-linux"),
];
const INSTALL: &str = "apt-get install --yes";

/// Runs each command that a missing subject names, once. False if one failed.
pub(crate) fn setup(subjects: &BTreeMap<String, Box<dyn Subject>>, tools: &Tools) -> bool {
    let mut tried = BTreeMap::new();
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(name, _)| program(name).is_err()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        let how = format!("{INSTALL} {}", missing.join(" "));
        say(format_args!("the lab itself: {how}"));
        tried.insert(how.clone(), install(&how, tools));
    }
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
    // The lists may be absent, or so old that they name packages that are gone.
    let how = if how.starts_with("apt-get ") { format!("apt-get update && {how}") } else { how.to_owned() };
    command.args(["-c", &how]).env("GOBIN", &tools.directory).env("CARGO_INSTALL_ROOT", &tools.directory);
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

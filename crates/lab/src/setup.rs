//! Gets peers that are not installed.

use std::collections::{BTreeMap, BTreeSet};

use adit_testbed::{is_root, program};

use crate::say;
use crate::subjects::installing::run;
use crate::subjects::{Availability, Subject, Tools};

/// The programs that the lab itself drives, and Debian's packages of them.
const NEEDED: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("iperf3", "iperf3"),
    ("ethtool", "ethtool"),
    ("openssl", "openssl"),
    ("unshare", "util-linux"),
];
/// How every command of Debian's packages begins.
pub(crate) const APT: &str = "apt-get ";
const INSTALL: &str = "apt-get install --yes";
/// The lists may be absent, or so old that they name packages that are gone.
const UPDATE: &str = "apt-get update";

/// Runs each command that a missing subject names, once. False if one failed.
pub(crate) fn setup(subjects: &BTreeMap<String, Box<dyn Subject>>, tools: &Tools) -> bool {
    let mut done = Done::default();
    let missing: BTreeSet<&str> =
        NEEDED.iter().filter(|(name, _)| program(name).is_err()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        let packages = missing.into_iter().collect::<Vec<_>>().join(" ");
        done.install("the lab itself", &format!("{INSTALL} {packages}"), tools);
    }
    for (name, subject) in subjects {
        if let Availability::Installable(how) = subject.availability(tools) {
            done.install(name, &how, tools);
        }
    }
    for (name, subject) in subjects {
        say(format_args!("{name}: {}", subject.availability(tools)));
    }
    done.tried.values().all(|went_well| *went_well)
}

/// The steps that were done already.
#[derive(Default)]
struct Done {
    /// Each command, and whether it went well.
    tried: BTreeMap<String, bool>,
}

impl Done {
    fn install(&mut self, who: &str, how: &str, tools: &Tools) {
        if how.starts_with(APT) && !self.tried.contains_key(UPDATE) {
            let ready = can_install() && run(UPDATE, tools);
            self.tried.insert(UPDATE.to_owned(), ready);
        }
        say(format_args!("{who}: {how}"));
        let is_hopeless = how.starts_with(APT) && program("apt-get").is_err();
        if !is_hopeless && !self.tried.contains_key(how) {
            let went_well = run(how, tools);
            self.tried.insert(how.to_owned(), went_well);
        }
    }
}

/// Says so if packages cannot be installed here at all.
fn can_install() -> bool {
    let there = program("apt-get").is_ok();
    if !there {
        say("this system has no apt-get: install what follows by its own means, and start again");
    } else if !is_root() {
        say("packages need the rights of root; the following will fail");
    }
    there
}

//! The things that several configurations of one process cannot have together, found before anything starts.

mod agreement;
mod networks;

use std::path::Path;

use adit_core::Transport;

use super::adapter::Configuration;
use super::endpoints::LedDevices;
use super::facts::{Facts, ResourceKind};

/// A configuration with its facts.
#[derive(Clone, Copy)]
struct Party<'a> {
    configuration: &'a dyn Configuration,
    facts: &'a Facts,
}

impl Party<'_> {
    /// The place of the first of these directives that the configuration has.
    fn place(&self, directives: &[&str]) -> String {
        self.configuration.place(directives)
    }
}

/// Finds the contradictions between configurations: one problem a line, each with the places in both files.
///
/// # Errors
/// When there is any.
pub fn check(all: &[&dyn Configuration]) -> Result<(), String> {
    let mut problems = Vec::new();
    let facts: Vec<Facts> = all.iter().map(|configuration| configuration.facts()).collect();
    let parties = || {
        all.iter().zip(&facts).map(|(configuration, facts)| Party { configuration: *configuration, facts })
    };
    let led = LedDevices::of(facts.iter());
    for (number, one) in parties().enumerate() {
        for other in parties().take(number) {
            compare(one, other, led.join(one.facts, other.facts), &mut problems);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn compare(one: Party<'_>, other: Party<'_>, one_tunnel: bool, problems: &mut Vec<String>) {
    let file = one.configuration.file();
    if same_file(file, other.configuration.file()) {
        problems.push(format!("{}: the same file is named twice", file.display()));
        return;
    }
    compare_resources(one, other, one_tunnel, problems);
    if one_tunnel {
        problems.extend(agreement::contradictions(one, other));
    } else if one.facts.excludes_networks || other.facts.excludes_networks {
        networks::compare(one, other, problems);
    }
    compare_process_settings(one, other, problems);
}

fn compare_resources(one: Party<'_>, other: Party<'_>, one_tunnel: bool, problems: &mut Vec<String>) {
    // A socket tells the datagrams of different protocols apart, and not the datagrams of two endpoints of one protocol.
    let share_sockets = one_tunnel && one.facts.protocol != other.facts.protocol;
    for stated in &one.facts.resources {
        let resource = &stated.value;
        let is_udp = matches!(resource.kind, ResourceKind::Address(Transport::Udp, ..));
        let theirs = other.facts.resources.iter().find(|theirs| {
            let together = resource.shared_by_endpoints && theirs.value.shared_by_endpoints;
            let shared = (one_tunnel && together) || (share_sockets && is_udp);
            resource.kind.excludes(&theirs.value.kind) && !shared
        });
        let Some(theirs) = theirs else { continue };
        let (here, there) = (one.place(stated.directives), other.place(theirs.directives));
        let kind = &resource.kind;
        problems.push(format!("{here}: {kind} is that of {there} too: each tunnel needs its own"));
    }
}

fn compare_process_settings(one: Party<'_>, other: Party<'_>, problems: &mut Vec<String>) {
    for ours in &one.facts.process_settings {
        let theirs = other.facts.process_settings.iter().find(|theirs| theirs.directives == ours.directives);
        if let Some(theirs) = theirs.filter(|theirs| theirs.value != ours.value) {
            let (here, there) = (one.place(ours.directives), other.place(theirs.directives));
            let name = ours.directives.first().copied().unwrap_or_default();
            let (value, of_other) = (&ours.value, &theirs.value);
            problems.push(format!(
                "{here}: `{name} {value}` contradicts `{name} {of_other}` at {there}: the tunnels are one process"
            ));
        }
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

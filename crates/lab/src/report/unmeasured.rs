//! The subjects that a plan got after the run of a page.

use std::collections::BTreeSet;

use super::bars::Label;
use super::table::Table;
use crate::plan::{ALL, Plan};
use crate::shipped;

/// The command of a run, as a page shows it, up to the plan's name.
const RUN: &str = "`adit-lab run ";
/// The option of a run that has fewer or other subjects than its plan.
const OTHERS: &str = "--subjects";

/// The subjects of the page's plan that its run did not have, in the order of the plan: none where the plan did not come with the
/// program, or the run had subjects of its own.
pub(super) fn subjects(page: &str) -> Vec<String> {
    let Some(command) = page.split_once(RUN).and_then(|(_, rest)| rest.split('`').next()) else {
        return Vec::new();
    };
    let name = command.split(' ').next().unwrap_or_default();
    let shipped = shipped::PLANS.iter().find(|(known, _)| *known == name && !command.contains(OTHERS));
    let Some(plan) = shipped.and_then(|(name, text)| Plan::parse(name, text).ok()) else { return Vec::new() };
    let had = subjects_of_run(page);
    plan.subjects.into_iter().filter(|subject| subject != ALL && !had.contains(subject)).collect()
}

/// The subjects that a page has figures of, and those that could not be measured.
fn subjects_of_run(page: &str) -> BTreeSet<String> {
    let mut had = BTreeSet::new();
    let lines: Vec<&str> = page.lines().collect();
    for table in lines.split(|line| !line.starts_with('|')).filter_map(|lines| Table::parse("", lines)) {
        let measured = table.rows.into_iter().filter(|row| row.label != Label::NotYet);
        had.extend(measured.map(|row| row.subject));
    }
    let failed = lines.iter().filter_map(|line| line.strip_prefix("- ")?.split_once(", "));
    had.extend(failed.map(|(subject, _)| subject.to_owned()));
    had
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(command: &str, rows: &str) -> String {
        format!("# A\n\n`{command}`, 2026-11-26\n\n## One TCP flow\n\n| subject | a |\n|---|---:|\n{rows}")
    }

    #[test]
    fn a_subject_that_the_plan_got_after_the_run_is_not_measured_yet() {
        let (_, text) = shipped::PLANS.iter().find(|(name, _)| *name == "dekker-2020").unwrap();
        let all = Plan::parse("", text).unwrap().subjects;
        assert_eq!(subjects(&page("adit-lab run dekker-2020 --rounds 3", "")), all);
        // In a table, in a row that says that it has no figure, and among the failures.
        let rows = "| veth | 1 |\n| strongswan (stand-in) | 2 |\n| adit-ipsec (not measured on this machine yet) | – |\n\n\
                    - libreswan, everything (42×): not possible here\n";
        let left = subjects(&page("adit-lab run dekker-2020 --rounds 3", rows));
        let had = ["veth", "strongswan", "libreswan"];
        assert_eq!(left, all.into_iter().filter(|name| !had.contains(&name.as_str())).collect::<Vec<_>>());
        assert!(left.iter().any(|name| name == "adit-ipsec"));
    }

    #[test]
    fn runs_with_subjects_or_plans_of_their_own_lack_none() {
        for command in ["adit-lab run dekker-2020 --subjects veth", "adit-lab run own.toml", "adit-lab check"]
        {
            assert!(subjects(&page(command, "")).is_empty(), "{command}");
        }
    }
}

//! The table of attacks in docs/build/IKE.md has the tests that there are.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../../../docs/build/IKE.md");
/// The sources whose tests are all in the table.
const ATTACKS: [&str; 4] = [
    include_str!("attacks.rs"),
    include_str!("authenticated.rs"),
    include_str!("classes.rs"),
    include_str!("guards.rs"),
];
/// Sources with further tests of the table.
const OTHERS: [&str; 20] = [
    include_str!("certificates.rs"),
    include_str!("children.rs"),
    include_str!("connect.rs"),
    include_str!("eap.rs"),
    include_str!("eap_only.rs"),
    include_str!("eap_tls.rs"),
    include_str!("followup.rs"),
    include_str!("full_transcript.rs"),
    include_str!("mobike.rs"),
    include_str!("quantum.rs"),
    include_str!("reauthentication.rs"),
    include_str!("rekeys.rs"),
    include_str!("../../crypto/modp.rs"),
    include_str!("../../crypto/signature.rs"),
    include_str!("../../crypto/tests.rs"),
    include_str!("../../eap/tests.rs"),
    include_str!("../../eap/tls/fragments.rs"),
    include_str!("../../fragment.rs"),
    include_str!("../../wire/tests.rs"),
    include_str!("../../../../../pki/src/signature/rsa_sha1.rs"),
];

/// The names of the tests of a source.
fn tests(source: &str) -> impl Iterator<Item = &str> {
    source.split("#[test]").skip(1).filter_map(|rest| rest.split_once("fn ")?.1.split('(').next())
}

/// The names in the second column of the table.
fn table() -> BTreeSet<&'static str> {
    let section = PAGE.split("## Attacks\n").nth(1).expect("a section");
    let rows = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| "));
    let columns = rows.skip(1).filter_map(|row| row.split('|').nth(2));
    columns.flat_map(|column| column.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn the_table_of_attacks_has_the_tests_that_there_are() {
    let table = table();
    let all: BTreeSet<&str> = ATTACKS.into_iter().chain(OTHERS).flat_map(tests).collect();
    let unknown: Vec<_> = table.difference(&all).collect();
    assert!(unknown.is_empty(), "no tests: {unknown:?}");
    let missing: Vec<_> = ATTACKS.into_iter().flat_map(tests).filter(|test| !table.contains(test)).collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}

//! The input of an administrator for a directory: the file of openvpn-auth-ldap, and a filter, which has the same form
//! whatever the user calls itself.
#![no_main]

use adit_core::is_unprintable;
use adit_openvpn_config::auth_ldap::{self, Filter};
use libfuzzer_sys::fuzz_target;

/// A filter without its values.
fn form(filter: &Filter) -> String {
    let all = |filters: &[Filter]| filters.iter().map(form).collect::<Vec<String>>().join(" ");
    match filter {
        Filter::And(filters) => format!("and({})", all(filters)),
        Filter::Or(filters) => format!("or({})", all(filters)),
        Filter::Not(filter) => format!("not({})", form(filter)),
        Filter::Present(attribute) => format!("{attribute} there"),
        Filter::Equal(attribute, _) => format!("{attribute} ="),
        Filter::AtLeast(attribute, _) => format!("{attribute} >="),
        Filter::AtMost(attribute, _) => format!("{attribute} <="),
        Filter::Like(attribute, _) => format!("{attribute} ~="),
        Filter::Substrings { attribute, first, between, last } => {
            format!("{attribute} {} {} {}", first.is_some(), between.len(), last.is_some())
        }
        Filter::Rule { attribute, rule, of_name, .. } => format!("{attribute:?} {rule:?} {of_name}"),
    }
}

fuzz_target!(|data: &[u8]| {
    match auth_ldap::parse(data, "ldap.conf") {
        Ok(parsed) => drop(Filter::parse(&parsed.config.filter, "x").expect("it was checked")),
        Err(problems) => {
            assert!(!problems.is_empty());
            let commands = |c: char| c != '\t' && is_unprintable(c);
            assert!(!problems.iter().any(|problem| problem.text.contains(commands)), "{problems:?}");
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (template, user) = text.split_once('\n').unwrap_or((text, ""));
    match (Filter::parse(template, user), Filter::parse(template, "x")) {
        (Ok(one), Ok(other)) => assert_eq!(form(&one), form(&other)),
        (one, other) => assert!(one.is_err() && other.is_err(), "{template}"),
    }
});

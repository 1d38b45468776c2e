//! The page of the documentation that lists the results.

use std::fmt::Write as _;

use crate::results::{CONTROL, Result, Results};
use crate::rules;
use crate::scenario::Scenario;

const BEGINNING: &str = "\
# strongSwan's scenarios

strongSwan's sources have scenarios (`testing/tests`): files of several hosts, commands, and what their outputs must have. `adit-scenarios`
runs each as often as it has hosts with an IKE daemon, with adit in the place of one of them and strongSwan at the others, and judges it by
the patterns of its own `evaltest.dat`, unchanged. This page is written by `scripts/strongswan-scenarios --markdown`, never by hand.

```sh
git clone https://github.com/strongswan/strongswan
ADIT_STRONGSWAN_TESTS=$PWD/strongswan/testing scripts/strongswan-scenarios --only 'ikev2/net2net-*'
```

The files are under the GPL. They are read from the folder that the variable names, and none of them is a part of adit. strongSwan is that of
Debian unstable, with ESP in the process of `charon` (`kernel-libipsec`, in IP where no NAT is), as the kernel of most machines that
run tests has none. Firewalls are open: the scenarios' rules match packets by policies of the kernel's IPsec.

A check says nothing here (*not applicable*, and never counted as passed) if it reads the log of `charon` or its cache of OCSP at the host that runs
adit, or the kernel's IPsec (`ip xfrm`) at any. A scenario that fails with strongSwan at every host, too, says nothing of adit.
";

/// The page of these scenarios with these results.
pub(crate) fn markdown(scenarios: &[Scenario], results: &Results) -> String {
    let (unfit, fit): (Vec<_>, Vec<_>) =
        scenarios.iter().partition(|scenario| rules::unfit(scenario).is_some());
    let result =
        |scenario: &Scenario, place: &str| results.all.get(&(scenario.name.clone(), place.to_owned()));
    let is_sound = |scenario: &&&Scenario| result(scenario, CONTROL).is_some_and(Result::is_pass);
    let (sound, unsound): (Vec<&Scenario>, Vec<&Scenario>) =
        fit.iter().partition(|scenario| is_sound(scenario));
    let is_pass = |scenario: &&&Scenario| {
        let mut places = scenario.settings.daemons.iter();
        places.all(|place| result(scenario, place).is_some_and(Result::is_pass))
    };
    let passed = sound.iter().filter(is_pass).count();
    let runs = |count: &dyn Fn(&Result) -> bool| {
        let all = sound.iter().flat_map(|scenario| {
            scenario.settings.daemons.iter().filter_map(|place| result(scenario, place))
        });
        all.filter(|result| count(result)).count()
    };
    let mut page = BEGINNING.to_owned();
    let _ = write!(
        page,
        "\n| | number |\n|---|---|\n| scenarios of the folders | {} |\n| of these fit | {} |\n| of these hold with strongSwan at every host here | {} \
         |\n| **of these pass with adit in the place of each host** | **{passed}** |\n| runs with adit in the place of one host | {} |\n| of these pass | {} |\n",
        scenarios.len(),
        fit.len(),
        sound.len(),
        runs(&|_| true),
        runs(&Result::is_pass),
    );
    page += "\n## Scenarios that fit\n\nThe numbers: checks that pass, fail, and are not applicable.\n\n| scenario | adit at | result |\n|---|---|---|\n";
    for scenario in sound {
        for place in &scenario.settings.daemons {
            let shown = result(scenario, place).map_or("not run".to_owned(), shown);
            let _ = writeln!(page, "| `{}` | {place} | {shown} |", scenario.name);
        }
    }
    page += "\n## Scenarios that fail with strongSwan at every host here\n\n| scenario | first failure |\n|---|---|\n";
    for scenario in unsound {
        let shown = result(scenario, CONTROL).map_or("not run".to_owned(), shown);
        let _ = writeln!(page, "| `{}` | {shown} |", scenario.name);
    }
    page += "\n## Scenarios that do not fit\n\n| scenario | is about |\n|---|---|\n";
    for scenario in unfit {
        let reason = rules::unfit(scenario).unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {reason} |", scenario.name);
    }
    page
}

/// A result as a cell of a table.
fn shown(result: &Result) -> String {
    let Result { passed, failed, inapplicable, reason } = result;
    let numbers = format!("{passed}, {failed}, {inapplicable}");
    match result.is_pass() {
        true => format!("passes ({numbers})"),
        false if reason.is_empty() => format!("no check is applicable ({numbers})"),
        false => format!("**fails** ({numbers}): {}", reason.replace('|', "\\|")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Settings;

    fn scenario(name: &str) -> Scenario {
        let settings =
            Settings { daemons: vec!["moon".into(), "sun".into()], has_swanctl: true, ..Settings::default() };
        Scenario { name: name.into(), settings, before: Vec::new(), checks: Vec::new(), after: Vec::new() }
    }

    #[test]
    fn a_scenario_counts_that_passes_at_every_host_and_without_adit() {
        let scenarios = ["x/good", "x/half", "x/unsound", "x/net-ah"].map(scenario);
        let mut results = Results::open(std::path::Path::new("/nowhere/results")).unwrap();
        let result = |failed: usize| Result {
            passed: 2,
            failed,
            inapplicable: 1,
            reason: if failed > 0 { "moon: a|b".into() } else { String::new() },
        };
        for (name, place, failed) in [
            ("x/good", CONTROL, 0),
            ("x/good", "moon", 0),
            ("x/good", "sun", 0),
            ("x/half", CONTROL, 0),
            ("x/half", "moon", 0),
            ("x/half", "sun", 1),
            ("x/unsound", CONTROL, 1),
        ] {
            results.all.insert((name.into(), place.into()), result(failed));
        }
        let page = markdown(&scenarios, &results);
        for line in [
            "| of these fit | 3 |",
            "| of these hold with strongSwan at every host here | 2 |",
            "| **of these pass with adit in the place of each host** | **1** |",
            "| of these pass | 3 |",
            "| `x/half` | sun | **fails** (2, 1, 1): moon: a\\|b |",
            "| `x/net-ah` | AH |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}

//! Plans that come with the program.

use std::path::Path;

use crate::error::LabError;
use crate::plan::Plan;

/// Each plan's name and text.
pub(crate) const PLANS: [(&str, &str); 12] = [
    ("smoke", include_str!("../plans/smoke.toml")),
    ("dekker-2020", include_str!("../plans/dekker-2020.toml")),
    ("dekker-2020-unbounded", include_str!("../plans/dekker-2020-unbounded.toml")),
    ("pena-2000", include_str!("../plans/pena-2000.toml")),
    ("vari-txqueuelen", include_str!("../plans/vari-txqueuelen.toml")),
    ("robur-2024", include_str!("../plans/robur-2024.toml")),
    ("overload", include_str!("../plans/overload.toml")),
    ("mobile", include_str!("../plans/mobile.toml")),
    ("wireguard", include_str!("../plans/wireguard.toml")),
    ("ipsec", include_str!("../plans/ipsec.toml")),
    ("ipsec-packets", include_str!("../plans/ipsec-packets.toml")),
    ("concurrent", include_str!("../plans/concurrent.toml")),
];

/// The plan of that name, or else the one in that file.
pub(crate) fn find(name: &str) -> Result<Plan, LabError> {
    if let Some((name, text)) = PLANS.iter().find(|(known, _)| *known == name) {
        return Ok(Plan::parse(name, text)?);
    }
    match std::fs::read_to_string(name) {
        Ok(text) => Ok(Plan::parse(name, &text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let known: Vec<&str> = PLANS.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            Err(LabError::Usage(format!("{name} is neither a file nor a plan; the plans are: {known}")))
        }
        Err(source) => Err(LabError::File { path: name.into(), source }),
    }
}

/// The name of its runs: the plan's name, or its file's without the ending.
pub(crate) fn stem(name: &str) -> String {
    Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ALL;
    use crate::subjects;

    #[test]
    fn every_plan_that_comes_along_is_right_and_names_subjects_that_exist() {
        let subjects = subjects::all();
        for (name, text) in PLANS {
            let plan = Plan::parse(name, text).unwrap();
            for subject in plan.subjects.into_iter().filter(|name| name != ALL) {
                assert!(subjects.contains_key(&subject), "{name}: {subject}");
            }
        }
    }

    #[test]
    fn a_plan_that_is_not_there_is_told_with_those_that_are() {
        let error = find("nothing-of-this-name").unwrap_err().to_string();
        assert!(error.contains("smoke"), "{error}");
    }

    #[test]
    fn a_run_is_called_after_its_plan() {
        assert_eq!((stem("smoke"), stem("/tmp/mine.toml")), ("smoke".to_owned(), "mine".to_owned()));
    }
}

//! Figures that others published, as they published them. They stand beside measured figures, never among
//! them.

use serde::{Deserialize, Serialize};

/// A study's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Study {
    pub(crate) title: String,
    /// The conditions of its figures.
    pub(crate) conditions: String,
    pub(crate) columns: Vec<String>,
    #[serde(rename = "row")]
    pub(crate) rows: Vec<Row>,
    /// The systems that it measured and that cannot be run any more.
    #[serde(default, rename = "system")]
    pub(crate) systems: Vec<System>,
}

/// A program that is only known from published figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct System {
    pub(crate) name: String,
    /// A description of the system, and the study's words on it.
    pub(crate) about: String,
}

/// A line of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The workload that repeats it, and the figure that is the same, if there is one.
    #[serde(default)]
    pub(crate) workload: Option<String>,
    #[serde(default)]
    pub(crate) figure: Option<String>,
    /// One for each column.
    pub(crate) values: Vec<f64>,
}

/// All studies, by name.
pub(crate) const STUDIES: [(&str, &str); 5] = [
    ("dekker-2020", include_str!("../studies/dekker-2020.toml")),
    ("pena-2000", include_str!("../studies/pena-2000.toml")),
    ("pudelko-2018", include_str!("../studies/pudelko-2018.toml")),
    ("robur-2024", include_str!("../studies/robur-2024.toml")),
    ("vari", include_str!("../studies/vari.toml")),
];

/// The study of that name, if it comes with the program.
pub(crate) fn study(name: &str) -> Option<Study> {
    let (_, text) = STUDIES.iter().find(|(known, _)| *known == name)?;
    toml::from_str(text).ok()
}

/// All that is known from studies alone, each with the study's name.
pub(crate) fn systems() -> Vec<(&'static str, System)> {
    let of = |(name, _): &(&'static str, _)| {
        let systems = study(name).map(|study| study.systems).unwrap_or_default();
        systems.into_iter().map(|system| (*name, system)).collect::<Vec<_>>()
    };
    STUDIES.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_is_a_whole_table() {
        for (name, _) in STUDIES {
            let study = study(name).unwrap();
            assert!(!study.rows.is_empty());
            assert!(study.rows.iter().all(|row| row.values.len() == study.columns.len()), "{name}");
        }
    }

    #[test]
    fn who_is_extinct_is_there_by_name() {
        let names: Vec<String> = systems().into_iter().map(|(_, system)| system.name).collect();
        for name in ["CIPE", "FreeS/WAN", "Tunnel Vision", "vpnd"] {
            assert!(names.iter().any(|known| known.starts_with(name)), "{name} of {names:?}");
        }
    }
}

//! The keys of one section, by its table.

use std::collections::BTreeSet;

use adit_core::configuration::{Disposition, Fingerprint, Kind, Problem};
use adit_core::escaped;

use crate::documents::Folder;
use crate::grammar::{Key, Merged};
use crate::keys::{self, Row, Use, Value, nearest};
use crate::model::{Place, Places};
use crate::values::shown;

/// Reads sections, and collects what becomes of their lines.
pub(super) struct Reader<'a> {
    pub(super) folder: &'a Folder<'a>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    pub(super) report: Vec<Disposition>,
    /// The keys in the report: those of a section to which several refer are reported once.
    reported: BTreeSet<(Place, String)>,
}

/// The use of a key that is not refused.
enum Outcome {
    Used,
    Unused(&'static str),
}

impl<'a> Reader<'a> {
    pub(super) fn new(folder: &'a Folder<'a>) -> Self {
        Reader {
            folder,
            problems: Vec::new(),
            warnings: Vec::new(),
            report: Vec::new(),
            reported: BTreeSet::new(),
        }
    }

    pub(super) fn problem(&mut self, place: &Place, text: String) {
        self.add(Problem { file: place.file.to_string(), line: Some(place.line), text });
    }

    /// Adds a problem. One of a section to which several refer is added once.
    pub(super) fn add(&mut self, problem: Problem) {
        let text = escaped(&problem.text).replace('\t', "\\t");
        let problem = Problem { text, ..problem };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Reports a key, unless it has been reported.
    pub(super) fn report(&mut self, key: &Key, kind: Kind, reason: String) {
        if !self.reported.insert((key.place.clone(), key.name.clone())) {
            return;
        }
        let value = key.value.as_ref().map(|value| value.as_str());
        self.report.push(Disposition {
            file: key.place.file.to_string(),
            line: key.place.line,
            directive: shown(&key.name),
            kind,
            reason,
            fingerprint: Fingerprint::of(&[], value),
        });
    }

    /// Reads the keys of a section into a draft, and gives their lines.
    pub(super) fn keys<T>(&mut self, section: &Merged<'_>, table: &[Row<T>], draft: &mut T) -> Places {
        self.keys_and(section, table, draft, |_, _, _| false)
    }

    /// Reads the keys of a section into a draft, and gives their lines. A key that is not in the table is given with its value to
    /// `other`, which says whether it has taken the key.
    pub(super) fn keys_and<T>(
        &mut self,
        section: &Merged<'_>,
        table: &[Row<T>],
        draft: &mut T,
        other: impl Fn(&mut T, &str, &str) -> bool,
    ) -> Places {
        let mut places = Places::new(section.first().place.clone());
        for key in section.keys() {
            places.note(&key.name, key.place.clone());
            let row = table.iter().find(|row| row.is_for(&key.name));
            let outcome = match (row, key.value.as_ref()) {
                (Some(_), None) => Ok(Outcome::Unused("it has no value")),
                (Some(row), Some(text)) => self.key(row, key, text, draft),
                (None, Some(text)) if other(draft, &key.name, text) => Ok(Outcome::Used),
                (None, _) => Err(unknown(&key.name, table)),
            };
            match outcome {
                Ok(Outcome::Used) => self.report(key, Kind::Used, String::new()),
                Ok(Outcome::Unused(why)) => self.report(key, Kind::Ignored, why.to_owned()),
                Err(why) => self.problem(&key.place, format!("`{}`: {why}", shown(&key.name))),
            }
        }
        places
    }

    fn key<T>(&mut self, row: &Row<T>, key: &Key, text: &str, draft: &mut T) -> Result<Outcome, String> {
        let value = Value { text, place: &key.place, folder: self.folder };
        match &row.with {
            Use::Used(handler) => {
                handler(draft, &value).map_err(|why| with_hint(why, text)).map(|()| Outcome::Used)
            }
            Use::Unused(check, why) => {
                check(text).map_err(|why| with_hint(why, text)).map(|()| Outcome::Unused(why))
            }
            Use::Only(holds, instead) => match holds(text).map_err(|why| with_hint(why, text))? {
                true => Ok(Outcome::Used),
                false => {
                    self.report(key, Kind::Refused, (*instead).to_owned());
                    Err(with_hint(format!("`{}` is refused: {instead}", shown(text)), text))
                }
            },
            Use::Refused(instead) => {
                self.report(key, Kind::Refused, (*instead).to_owned());
                Err(format!("it is refused: {instead}"))
            }
        }
    }

    /// Adds the problem that a section stands where there are none, or others.
    pub(super) fn no_section(&mut self, section: &Merged<'_>, known: &[&str]) {
        let section = section.first();
        let near = nearest(&section.name, known.iter().copied());
        let there = match (near, known) {
            (Some(near), _) => format!("; `{near}` is one"),
            (None, []) => String::new(),
            (None, known) => format!("; there are {}", known.join(", ")),
        };
        let text = format!("`{}` is no section here{there}", shown(&section.name));
        self.problem(&section.place, text);
    }
}

/// The message about a key that is not in the table of its section.
fn unknown<T>(key: &str, table: &[Row<T>]) -> String {
    if let Some(known) = keys::all().into_iter().find(|known| known.name.eq_ignore_ascii_case(key)) {
        return format!("it has no place here; it belongs into `{}`", known.section);
    }
    match nearest(key, table.iter().map(|row| row.name)) {
        Some(near) => format!("there is no such key here; `{near}` is one"),
        None => "there is no such key here".to_owned(),
    }
}

/// A message about a value, with a hint if the value has taken what was meant for the end of the line or for a further key.
fn with_hint(why: String, text: &str) -> String {
    match (text.ends_with(';'), text.contains(" = ")) {
        (true, _) => format!("{why}; a `;` ends no line, and is a part of the value"),
        (_, true) => format!("{why}; each `key = value` stands on a line of its own"),
        _ => why,
    }
}

//! Sections with the keys and sections that they have by references.

use std::cell::Cell;
use std::collections::BTreeSet;

use adit_core::configuration::Problem;
use adit_core::escaped;

use super::tree::{Key, Reference, Section};

/// Most references that lead from one to another.
const DEEPEST: usize = 32;
/// Most sections that are looked at for one section.
const MOST_LAYERS: usize = 256;
/// Most sections that are looked at for a file.
const MOST_STEPS: usize = 200_000;

/// A section with those that it refers to.
pub(crate) struct Merged<'a> {
    /// The section itself, or the first that has it by a reference; then the others, in the order in which they decide.
    layers: Vec<&'a Section>,
}

/// Follows references.
pub(crate) struct Merger<'a> {
    root: &'a Section,
    steps: Cell<usize>,
}

impl<'a> Merged<'a> {
    /// The section that the others complete.
    pub(crate) fn first(&self) -> &'a Section {
        debug_assert!(!self.layers.is_empty(), "a section has itself");
        self.layers[0]
    }

    /// Its keys: own ones first. A key without a value hides one of the sections that it refers to.
    pub(crate) fn keys(&self) -> Vec<&'a Key> {
        let mut names = BTreeSet::new();
        let keys = self.layers.iter().flat_map(|layer| &layer.keys);
        keys.filter(|key| names.insert(key.name.as_str())).collect()
    }
}

impl<'a> Merger<'a> {
    /// Follows references within that root section.
    pub(crate) fn new(root: &'a Section) -> Self {
        Merger { root, steps: Cell::new(0) }
    }

    /// The section of that name that stands outside of all others.
    ///
    /// # Errors
    /// A reference leads nowhere, to itself, or to too many sections.
    pub(crate) fn root(&self, name: &str) -> Result<Option<Merged<'a>>, Problem> {
        let layers = self.below(&[self.root], name, 0)?;
        Ok((!layers.is_empty()).then_some(Merged { layers }))
    }

    /// The subsections: own ones first, and each once.
    ///
    /// # Errors
    /// A reference leads nowhere, to itself, or to too many sections.
    pub(crate) fn sections(&self, of: &Merged<'a>) -> Result<Vec<Merged<'a>>, Problem> {
        let mut names = BTreeSet::new();
        let sections =
            of.layers.iter().flat_map(|layer| &layer.sections).map(|section| section.name.as_str());
        let sections = sections.filter(|name| names.insert(*name));
        sections.map(|name| Ok(Merged { layers: self.below(&of.layers, name, 0)? })).collect()
    }

    /// The sections of that name in those sections, each followed by those that it refers to.
    fn below(&self, layers: &[&'a Section], name: &str, depth: usize) -> Result<Vec<&'a Section>, Problem> {
        let mut found = Vec::new();
        for section in layers.iter().filter_map(|layer| layer.section(name)) {
            self.add(section, &mut found, depth)?;
        }
        Ok(found)
    }

    fn add(&self, section: &'a Section, found: &mut Vec<&'a Section>, depth: usize) -> Result<(), Problem> {
        self.steps.set(self.steps.get() + 1);
        found.push(section);
        if section.references.is_empty() {
            return Ok(());
        }
        for reference in &section.references {
            if depth == DEEPEST || found.len() > MOST_LAYERS || self.steps.get() > MOST_STEPS {
                return Err(problem(reference, "refers to itself, or to too many sections"));
            }
            let start = vec![self.root];
            let bases = reference
                .path
                .split('.')
                .try_fold(start, |layers, name| self.below(&layers, name, depth + 1))?;
            if bases.is_empty() {
                return Err(problem(reference, "is no section of the file"));
            }
            found.extend(bases);
        }
        Ok(())
    }
}

fn problem(reference: &Reference, what: &str) -> Problem {
    let place = &reference.place;
    let text = format!("`{}` behind `:` {what}", escaped(&reference.path));
    Problem { file: place.file.to_string(), line: Some(place.line), text }
}

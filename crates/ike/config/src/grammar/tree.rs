//! Sections as they stand in the files.

use zeroize::Zeroizing;

use crate::model::Place;

/// The root section, and what became of lines that have no effect.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The section that holds all statements outside of sections.
    pub(crate) root: Section,
    /// The keys that stand in their section again, later.
    pub(crate) replaced: Vec<Replaced>,
    /// The settings of adit's own, which are comments to strongSwan.
    pub(crate) settings: Vec<OwnSetting>,
}

/// A setting of adit's own: `#adit: key = value`.
#[derive(Debug)]
pub(crate) struct OwnSetting {
    /// The text behind `adit:`. `None`: it stands behind other text of its line.
    pub(crate) text: Option<String>,
    pub(crate) place: Place,
}

/// A section.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    /// Where it begins first.
    pub(crate) place: Place,
    /// The sections whose keys and sections it has, too; the first that has one decides.
    pub(crate) references: Vec<Reference>,
    pub(crate) keys: Vec<Key>,
    pub(crate) sections: Vec<Section>,
}

/// A reference to a section, by the names of the sections around it with dots between them.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) path: String,
    pub(crate) place: Place,
}

/// A key with its value.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// `None`: nothing stands behind `=`.
    pub(crate) value: Option<Zeroizing<String>>,
    pub(crate) place: Place,
}

/// A key that has no effect, because it stands in its section again.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) key: Key,
    /// The line that has the key again.
    pub(crate) by: Place,
}

impl Section {
    /// An empty section.
    pub(crate) fn new(name: String, place: Place) -> Self {
        Section { name, place, references: Vec::new(), keys: Vec::new(), sections: Vec::new() }
    }

    /// The subsection of that name.
    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The number of the subsection of that name, which is made if there is none.
    pub(crate) fn enter(&mut self, name: String, place: Place) -> usize {
        let known = self.sections.iter().position(|section| section.name == name);
        known.unwrap_or_else(|| {
            self.sections.push(Section::new(name, place));
            self.sections.len() - 1
        })
    }

    /// Adds a key. One of that name that stands here already is given back: it is replaced.
    pub(crate) fn set(&mut self, key: Key) -> Option<Replaced> {
        match self.keys.iter_mut().find(|known| known.name == key.name) {
            Some(known) => {
                let by = key.place.clone();
                Some(Replaced { key: std::mem::replace(known, key), by })
            }
            None => {
                self.keys.push(key);
                None
            }
        }
    }

    /// The section and all sections in it.
    pub(crate) fn all(&self) -> Vec<&Section> {
        let (mut all, mut next) = (Vec::new(), vec![self]);
        while let Some(section) = next.pop() {
            all.push(section);
            next.extend(section.sections.iter().rev());
        }
        all
    }
}

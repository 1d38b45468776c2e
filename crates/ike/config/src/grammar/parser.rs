//! From text to a tree of sections.

use std::path::Path;
use std::sync::Arc;

use adit_core::configuration::{IS_UTF_16, Problem, is_utf_16};
use adit_core::escaped;

use super::cursor::Cursor;
use super::glob;
use super::tree::{Key, OwnSetting, Reference, Section, Tree};
use crate::files::{Files, folder_of};
use crate::model::Place;

/// Most sections around a statement.
const DEEPEST: usize = 32;
/// Most files that include each other, one in another.
const DEEPEST_INCLUDE: usize = 16;
/// Most files in all.
const MOST_FILES: usize = 1024;
/// Most keys of a section.
const MOST_KEYS: usize = 1024;
/// Most subsections of a section.
const MOST_SECTIONS: usize = 16_384;
/// Most sections and keys in all files.
const MOST_STATEMENTS: usize = 100_000;

/// A file to read.
pub(crate) struct Source<'a> {
    /// Its name in messages, from whose folder relative paths go.
    pub(crate) file: &'a str,
    /// Its text.
    pub(crate) text: &'a [u8],
}

/// The sections of a file and of those that it includes.
///
/// # Errors
/// The first problem of the grammar, or of an included file that cannot be read.
pub(crate) fn parse(source: &Source<'_>, files: &dyn Files) -> Result<Tree, Problem> {
    let file: Arc<str> = source.file.into();
    let place = Place { file: Arc::clone(&file), line: 1 };
    let tree = Tree { root: Section::new(String::new(), place), replaced: Vec::new(), settings: Vec::new() };
    let mut parser = Parser { files, tree, path: Vec::new(), statements: 0, read: 0 };
    parser.file(&file, source.text, 0)?;
    Ok(parser.tree)
}

struct Parser<'a> {
    files: &'a dyn Files,
    tree: Tree,
    /// The sections around the next statement: each by its number in the one before.
    path: Vec<usize>,
    statements: usize,
    /// The number of files that were read.
    read: usize,
}

/// A file that is being read.
struct Reading<'a> {
    file: &'a Arc<str>,
    cursor: Cursor<'a>,
    /// The number of files that include it, one in another.
    depth: usize,
    /// The sections that it has opened.
    opened: Vec<Place>,
}

impl Reading<'_> {
    fn place(&self) -> Place {
        Place { file: Arc::clone(self.file), line: self.cursor.line }
    }

    fn problem(&self, text: impl Into<String>) -> Problem {
        problem(&self.place(), text)
    }
}

fn problem(place: &Place, text: impl Into<String>) -> Problem {
    Problem { file: place.file.to_string(), line: Some(place.line), text: text.into() }
}

impl Parser<'_> {
    fn file(&mut self, file: &Arc<str>, text: &[u8], depth: usize) -> Result<(), Problem> {
        self.read += 1;
        if is_utf_16(text) {
            return Err(Problem { file: file.to_string(), line: None, text: IS_UTF_16.to_owned() });
        }
        // An editor's mark of byte order is no part of the first line.
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        let text = std::str::from_utf8(text).map_err(|error| {
            let before = text.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let place = Place { file: Arc::clone(file), line: u32::try_from(line).unwrap_or(u32::MAX) };
            problem(&place, "it is not text (UTF-8)")
        })?;
        let mut reading = Reading { file, cursor: Cursor::new(text), depth, opened: Vec::new() };
        while self.statement(&mut reading)? {}
        self.tree.settings.extend(reading.cursor.settings.iter().map(|setting| OwnSetting {
            text: setting.text.map(str::to_owned),
            place: Place { file: Arc::clone(file), line: setting.line },
        }));
        match reading.opened.last() {
            Some(place) => {
                Err(problem(place, "the section that begins here is not closed: a `}` is missing"))
            }
            None => Ok(()),
        }
    }

    /// Reads a statement. Gives `false` at the end of the file.
    fn statement(&mut self, reading: &mut Reading<'_>) -> Result<bool, Problem> {
        reading.cursor.skip();
        match reading.cursor.peek() {
            None => return Ok(false),
            Some('}') => {
                reading.cursor.next();
                if reading.opened.pop().is_none() {
                    return Err(reading.problem("a `}` closes no section"));
                }
                self.path.pop();
                return Ok(true);
            }
            Some(_) => {}
        }
        let place = reading.place();
        let name = reading.cursor.name(false).map_err(|why| reading.problem(why))?;
        if name.is_empty() {
            return Err(reading.problem(unexpected(reading.cursor.peek())));
        }
        self.statements += 1;
        if self.statements > MOST_STATEMENTS {
            return Err(problem(&place, format!("there are more than {MOST_STATEMENTS} sections and keys")));
        }
        if name == "include" && reading.cursor.has_pattern() {
            self.include(reading, &place)?;
            return Ok(true);
        }
        reading.cursor.skip();
        match reading.cursor.peek() {
            Some('{') => self.open(reading, name, place)?,
            Some(':') => self.open_with_references(reading, name, place)?,
            Some('=') => self.key(reading, name, place)?,
            _ => {
                let text = format!("`{}` is neither a key with `=` nor a section with `{{`", escaped(&name));
                return Err(problem(&place, text));
            }
        }
        Ok(true)
    }

    /// The section around the next statement.
    fn section(&mut self) -> &mut Section {
        self.path.iter().fold(&mut self.tree.root, |section, index| {
            debug_assert!(*index < section.sections.len(), "the path leads to sections that are there");
            &mut section.sections[*index]
        })
    }

    fn open(&mut self, reading: &mut Reading<'_>, name: String, place: Place) -> Result<(), Problem> {
        reading.cursor.next();
        if self.path.len() == DEEPEST {
            return Err(problem(&place, format!("more than {DEEPEST} sections are open")));
        }
        if self.section().sections.len() == MOST_SECTIONS {
            return Err(problem(&place, format!("the section has more than {MOST_SECTIONS} others in it")));
        }
        let index = self.section().enter(name, place.clone());
        self.path.push(index);
        reading.opened.push(place);
        Ok(())
    }

    fn open_with_references(
        &mut self,
        reading: &mut Reading<'_>,
        name: String,
        place: Place,
    ) -> Result<(), Problem> {
        let mut references = Vec::new();
        loop {
            reading.cursor.next();
            reading.cursor.skip();
            let place = reading.place();
            let path = reading.cursor.name(true).map_err(|why| reading.problem(why))?;
            let is_path = !path.is_empty() && path.split('.').all(|name| !name.is_empty());
            if !is_path {
                return Err(reading.problem("behind `:` stand names of sections, with commas between them"));
            }
            references.push(Reference { path, place });
            reading.cursor.skip();
            match reading.cursor.peek() {
                Some(',') => {}
                Some('{') => break,
                _ => return Err(reading.problem("behind the names of sections after `:` stands a `{`")),
            }
        }
        self.open(reading, name, place)?;
        self.section().references.extend(references);
        Ok(())
    }

    fn key(&mut self, reading: &mut Reading<'_>, name: String, place: Place) -> Result<(), Problem> {
        reading.cursor.next();
        let value = reading.cursor.value().map_err(|why| problem(&place, why))?;
        if self.section().keys.len() == MOST_KEYS {
            return Err(problem(&place, format!("the section has more than {MOST_KEYS} keys")));
        }
        let replaced = self.section().set(Key { name, value, place });
        self.tree.replaced.extend(replaced);
        Ok(())
    }

    fn include(&mut self, reading: &mut Reading<'_>, place: &Place) -> Result<(), Problem> {
        let pattern = reading.cursor.pattern().map_err(|why| problem(place, why))?;
        if pattern.is_empty() {
            return Err(problem(place, "`include` names no files"));
        }
        if reading.depth == DEEPEST_INCLUDE {
            let text = format!("files include each other more than {DEEPEST_INCLUDE} deep");
            return Err(problem(place, text));
        }
        let found = glob::files(self.files, &folder_of(reading.file), &pattern);
        let found = found.map_err(|why| problem(place, format!("`include {}`: {why}", escaped(&pattern))))?;
        found.iter().try_for_each(|path| self.included(path, place, reading.depth + 1))
    }

    fn included(&mut self, path: &Path, place: &Place, depth: usize) -> Result<(), Problem> {
        if self.read == MOST_FILES {
            return Err(problem(place, format!("more than {MOST_FILES} files are included")));
        }
        let text = self.files.read(path).map_err(|why| {
            problem(place, format!("{} cannot be read: {}", escaped(&shown(path)), escaped(&why)))
        })?;
        self.file(&shown(path).into(), &text, depth)
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn unexpected(found: Option<char>) -> String {
    match found {
        Some('"') => "a quoted text stands where a key or the name of a section is expected".to_owned(),
        Some('{') => "a `{` stands without the name of a section".to_owned(),
        Some('=') => "a `=` stands without a key".to_owned(),
        Some(c) => {
            format!("a `{}` stands where a key or the name of a section is expected", escaped(&c.to_string()))
        }
        None => "the file ends where a key or the name of a section is expected".to_owned(),
    }
}

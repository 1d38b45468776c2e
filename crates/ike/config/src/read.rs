//! From text to a [`Config`].

mod connections;
mod credentials;
mod own_settings;
mod reader;
mod sections;
mod vici_settings;

use adit_core::configuration::{Disposition, Failure, Kind, Problem};

use self::reader::Reader;
use self::sections::Password;
use crate::documents::Folder;
use crate::files::{Files, NoFiles, folder_of};
use crate::grammar::{self, Merger, Source, Tree};
use crate::keys::nearest;
use crate::model::Config;
use crate::values::shown;

/// The sections that stand outside of all others.
const ROOTS: [&str; 4] = ["connections", "secrets", "pools", "authorities"];

/// A file that was taken.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Its content.
    pub config: Config,
    /// The use of each line, in the order of the lines, the file's own before those of included files.
    pub report: Vec<Disposition>,
    /// Points that do not stop the tunnel but that its owner should know.
    pub warnings: Vec<Problem>,
}

/// Reads a file, which was named `file`, with those that it includes and names, and the directories beside it.
///
/// # Errors
/// All its problems, in the order of the lines; of problems of the grammar the first alone.
pub fn parse(file: &str, text: &[u8], files: &dyn Files) -> Result<Parsed, Failure> {
    let source = Source { file, text };
    let tree = grammar::parse(&source, files)
        .map_err(|problem| Failure { problems: vec![problem], report: Vec::new() })?;
    let folder = Folder { files, path: folder_of(file) };
    let mut reader = Reader::new(&folder);
    let config = read_whole(&mut reader, &tree).unwrap_or_else(|problem| {
        reader.add(problem);
        Config::default()
    });
    if reader.problems.is_empty() {
        left_over(&mut reader, &tree);
    }
    let order = |name: &str, line: u32| (name != file, name.to_owned(), line);
    reader.report.sort_by_key(|entry| order(&entry.file, entry.line));
    reader.problems.sort_by_key(|problem| order(&problem.file, problem.line.unwrap_or(0)));
    match reader.problems.is_empty() {
        true => Ok(Parsed { config, report: reader.report, warnings: reader.warnings }),
        false => Err(Failure { problems: reader.problems, report: reader.report }),
    }
}

/// Reads sections that come from elsewhere than a file; messages name them `name`. They include no files, bytes stand in place of files
/// (`0x…`), and there are no directories. Pools and secrets that connections need may be missing.
///
/// # Errors
/// All problems; of problems of the grammar the first alone.
pub fn parse_sections(name: &str, text: &[u8]) -> Result<Config, Failure> {
    let source = Source { file: name, text };
    let tree = grammar::parse(&source, &NoFiles)
        .map_err(|problem| Failure { problems: vec![problem], report: Vec::new() })?;
    let folder = Folder { files: &NoFiles, path: folder_of(name) };
    let mut reader = Reader::new(&folder);
    let read = read(&mut reader, &tree);
    let config = read.map(|(config, _)| config).unwrap_or_else(|problem| {
        reader.add(problem);
        Config::default()
    });
    match reader.problems.is_empty() {
        true => Ok(config),
        false => Err(Failure { problems: reader.problems, report: reader.report }),
    }
}

/// Reads all sections and the directories.
///
/// # Errors
/// A reference that leads nowhere, to itself, or to too many sections.
fn read_whole(reader: &mut Reader<'_>, tree: &Tree) -> Result<Config, Problem> {
    let (mut config, passwords) = read(reader, tree)?;
    credentials::read(reader, passwords, &mut config);
    connections::check(reader, &config);
    Ok(config)
}

/// Reads all sections, and gives the passwords of files beside them.
///
/// # Errors
/// A reference that leads nowhere, to itself, or to too many sections.
fn read(reader: &mut Reader<'_>, tree: &Tree) -> Result<(Config, Vec<Password>), Problem> {
    roots(reader, tree);
    let merger = Merger::new(&tree.root);
    let mut config = Config {
        connections: connections::read(reader, &merger)?,
        pools: sections::pools(reader, &merger)?,
        authorities: sections::authorities(reader, &merger)?,
        ..Config::default()
    };
    own_settings::read(reader, &tree.settings, &mut config);
    config.vici = vici_settings::read(reader, &tree.settings);
    let passwords = sections::secrets(reader, &merger, &mut config)?;
    Ok((config, passwords))
}

/// Looks for statements outside of all sections, and for sections that are no settings and that no other refers to.
fn roots(reader: &mut Reader<'_>, tree: &Tree) {
    for key in &tree.root.keys {
        let text =
            format!("`{}` stands outside of all sections; there are {}", shown(&key.name), ROOTS.join(", "));
        reader.problem(&key.place, text);
    }
    let all = tree.root.all();
    let referred: Vec<&str> = all
        .iter()
        .flat_map(|section| &section.references)
        .filter_map(|reference| reference.path.split('.').next())
        .collect();
    for section in &tree.root.sections {
        let name = section.name.as_str();
        if ROOTS.contains(&name) || referred.contains(&name) {
            continue;
        }
        let near = nearest(name, ROOTS.into_iter());
        let near =
            near.map_or_else(|| format!("there are {}", ROOTS.join(", ")), |near| format!("`{near}` is one"));
        let text =
            format!("`{}` is no section of this file, and none refers to it by `:`; {near}", shown(name));
        reader.problem(&section.place, text);
    }
}

/// Reports the keys that no section has taken: those that stand again later, and those of sections to which others refer, if the
/// others have their own.
fn left_over(reader: &mut Reader<'_>, tree: &Tree) {
    for replaced in &tree.replaced {
        let text = format!("it stands in its section again, on {}", replaced.by);
        reader.report(&replaced.key, Kind::Ignored, text);
    }
    let all = tree.root.all();
    for key in all.iter().flat_map(|section| &section.keys) {
        let text = "each section that could have it from here has its own".to_owned();
        reader.report(key, Kind::Ignored, text);
    }
}

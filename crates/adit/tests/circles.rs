//! The modules of each crate import each other in one direction. Within a folder, up to [`MOST_FILES`] files that lie beside each other
//! may import each other in a circle: they are the parts of one thing. Tests are not read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The most files of a circle within a folder.
const MOST_FILES: usize = 4;
/// The files of a crate, by the paths of their modules.
type Files = BTreeMap<Vec<String>, PathBuf>;
/// The modules that each module names.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The folders of all crates, below `crates`.
fn crates(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.join("Cargo.toml").is_file() && entry.join("src").is_dir() {
            found.push(entry);
        } else if entry.is_dir() && entry.file_name().is_some_and(|name| name != "src" && name != "target") {
            crates(&entry, found);
        }
    }
}

fn files(below: &Path, module: &[String], found: &mut Files) {
    for path in fs::read_dir(below).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let own: Vec<String> = module.iter().cloned().chain([stem.clone()]).collect();
        if path.is_dir() {
            files(&path, &own, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let key = match stem.as_str() {
                "mod" => module.to_vec(),
                "lib" if module.is_empty() => Vec::new(),
                _ => own,
            };
            found.insert(key, path);
        }
    }
}

/// The text of a file without comments and without the modules of tests. Gives the names of test modules in files of their own, too.
fn code(path: &Path) -> (String, Vec<String>) {
    let text = fs::read_to_string(path).expect("a source");
    let (mut code, mut tests) = (String::new(), Vec::new());
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    while let Some(line) = lines.next() {
        if !(line.trim_start().starts_with("#[cfg(") && line.contains("test")) {
            code += line;
            code.push('\n');
            continue;
        }
        let item = lines.next().unwrap_or_default();
        let name = item.split("mod ").nth(1).map(|name| name.trim_end_matches([' ', '{', ';']).to_owned());
        match name {
            Some(name) if item.ends_with(';') => tests.push(name),
            Some(_) => while lines.next().is_some_and(|line| line != "}") {},
            None => {
                code += item;
                code.push('\n');
            }
        }
    }
    (code, tests)
}

/// The paths of a `use` tree, in words.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let (head, inner) = match tree.split_once('{') {
        Some((head, inner)) => (head, inner.rsplit_once('}').map(|(inner, _)| inner)),
        None => (tree, None),
    };
    let head = head.split(" as ").next().unwrap_or_default();
    let words = head.split("::").map(str::trim).filter(|word| !word.is_empty() && *word != "self");
    let own: Vec<String> = if prefix.is_empty() && head.trim_start().starts_with("self") {
        std::iter::once("self".to_owned()).chain(words.map(str::to_owned)).collect()
    } else {
        prefix.iter().cloned().chain(words.map(str::to_owned)).collect()
    };
    let Some(inner) = inner else { return paths.push(own) };
    let (mut depth, mut start) = (0, 0);
    for (index, sign) in inner.char_indices().chain([(inner.len(), ',')]) {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let branch = inner.get(start..index).unwrap_or_default();
                if !branch.trim().is_empty() {
                    expand(&own, branch, paths);
                }
                start = index + 1;
            }
            _ => {}
        }
    }
}

/// The paths in a file's code that begin in its own crate.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find("use ") {
        let is_word =
            rest.get(..start).is_some_and(|before| before.ends_with(['\n', ' ', '}']) || before.is_empty());
        let after = rest.get(start + 4..).unwrap_or_default();
        let end = after.find(';').unwrap_or(0);
        if is_word {
            expand(&[], after.get(..end).unwrap_or_default(), &mut paths);
        }
        rest = after;
    }
    let is_sign = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == ':';
    for word in code.split(|sign| !is_sign(sign)) {
        if ["crate::", "super::", "self::"].iter().any(|start| word.starts_with(start)) {
            paths.push(word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
        }
    }
    paths
}

/// The module that a path leads to from `module`; `None` if it leads to no module of the crate.
fn target(path: &[String], module: &[String], files: &Files) -> Option<Vec<String>> {
    let (mut at, mut path) = (module.to_vec(), path);
    match path.first().map(String::as_str) {
        Some("crate") => (at, path) = (Vec::new(), path.get(1..)?),
        Some("self") => path = path.get(1..)?,
        Some("super") => {}
        Some(first) => {
            let child: Vec<String> = at.iter().cloned().chain([first.to_owned()]).collect();
            files.get(&child)?;
        }
        None => return None,
    }
    while path.first().is_some_and(|word| word == "super") {
        at.pop();
        path = path.get(1..)?;
    }
    let mut full: Vec<String> = at.into_iter().chain(path.iter().cloned()).collect();
    while !files.contains_key(&full) {
        full.pop()?;
    }
    Some(full)
}

fn imports(files: &Files) -> Imports {
    let read: BTreeMap<_, _> = files.iter().map(|(module, path)| (module, code(path))).collect();
    let tests: Vec<Vec<String>> = read
        .iter()
        .flat_map(|(module, (_, tests))| {
            tests.iter().map(|name| [module.as_slice(), std::slice::from_ref(name)].concat())
        })
        .collect();
    let is_test = |module: &[String]| tests.iter().any(|test| module.starts_with(test));
    let mut imports = Imports::new();
    for (module, (code, _)) in read.iter().filter(|(module, _)| !is_test(module)) {
        let targets = paths(code).into_iter().filter_map(|path| target(&path, module, files));
        let targets = targets.filter(|target| target != *module && !is_test(target)).collect();
        imports.insert((*module).clone(), targets);
    }
    imports
}

/// The modules that lie directly in `folder`, each with those that it imports, by itself or from below.
fn units(folder: &[String], imports: &Imports) -> BTreeMap<String, BTreeSet<String>> {
    let unit = |module: &[String]| module.strip_prefix(folder).and_then(|below| below.first()).cloned();
    let mut units: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, targets) in imports {
        let Some(own) = unit(module) else { continue };
        let others = targets.iter().filter_map(|target| unit(target)).filter(|other| *other != own);
        units.entry(own.clone()).or_default().extend(others);
    }
    units
}

/// The modules that can be reached from `start`.
fn reached(start: &str, units: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![start.to_owned()]);
    while let Some(unit) = next.pop() {
        for other in units.get(&unit).into_iter().flatten() {
            if reached.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    reached
}

/// The circles of a crate that are too large, in words.
fn circles(sources: &Path) -> Vec<String> {
    let mut files = Files::new();
    self::files(sources, &[], &mut files);
    let imports = imports(&files);
    let folders: BTreeSet<Vec<String>> =
        files.keys().flat_map(|module| (0..module.len()).map(|end| module[..end].to_vec())).collect();
    let mut found = Vec::new();
    for folder in folders {
        let units = units(&folder, &imports);
        let mut seen = BTreeSet::new();
        for unit in units.keys() {
            let reaches = |one: &str, other: &str| reached(one, &units).contains(other);
            let circle: Vec<&String> =
                units.keys().filter(|other| reaches(unit, other) && reaches(other, unit)).collect();
            if circle.is_empty() || !seen.insert(circle.clone()) {
                continue;
            }
            if circle.len() > MOST_FILES || circle.iter().any(|unit| is_folder(&folder, unit, &imports)) {
                found.push(format!("{} in {}: {circle:?}", sources.display(), folder.join("::")));
            }
        }
    }
    found
}

/// Whether a module has others below it.
fn is_folder(folder: &[String], unit: &str, imports: &Imports) -> bool {
    let own = [folder, &[unit.to_owned()]].concat();
    imports.keys().any(|module| module.len() > own.len() && module.starts_with(&own))
}

#[test]
fn modules_import_each_other_in_one_direction() {
    let root = Path::new(CRATES).canonicalize().expect("the crates");
    let mut all = Vec::new();
    crates(&root, &mut all);
    assert!(all.len() > 10, "{all:?}");
    let wrong: Vec<String> = all.iter().flat_map(|one| circles(&one.join("src"))).collect();
    assert!(wrong.is_empty(), "circles:\n{}", wrong.join("\n"));
}

#[test]
fn a_circle_across_folders_is_found() {
    let folder = std::env::temp_dir().join(format!("adit-circles-{}", std::process::id()));
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write("lib.rs", "mod a;\nmod b;\n");
    write("a.rs", "mod part;\nuse crate::b::{self, Thing as Other};\n");
    write("a/part.rs", "use super::Own;\n");
    write("b.rs", "fn work() -> bool {\n    super::a::part::is()\n}\n");
    let found = circles(&folder);
    write("b.rs", "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n");
    let none = circles(&folder);
    fs::remove_dir_all(&folder).expect("ours");
    assert!(found.len() == 1 && found[0].ends_with("[\"a\", \"b\"]"), "{found:?}");
    assert!(none.is_empty(), "{none:?}");
}

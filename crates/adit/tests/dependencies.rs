//! Which crates know which protocols, by their manifests (docs/build/ARCHITECTURE.md).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The folders of protocols, each with the package of its machine; the toy stands for a further protocol in the tests.
const PROTOCOLS: [(&str, &str); 4] =
    [("openvpn", "adit-openvpn"), ("wireguard", "adit-wireguard"), ("ike", "adit-ike"), ("toy", "adit-toy")];
/// Crates that name no protocol, not in tests either.
const NEUTRAL: [&str; 9] =
    ["appliance", "core", "dataplane", "guard", "host", "io", "setup", "sys", "system"];
/// Crates among these that no protocol's machine may use.
const NOT_FOR_MACHINES: [&str; 7] =
    ["adit-dataplane", "adit-guard", "adit-host", "adit-io", "adit-setup", "adit-sys", "adit-system"];
/// Words that name a protocol, or a program for one.
const NAMES: [&str; 5] = ["openvpn", "wireguard", "ipsec", "ikev2", "wg-quick"];

#[test]
fn no_crate_but_the_program_and_the_simulator_depends_on_two_protocols() {
    let manifests = manifests();
    assert!(manifests.len() > 15, "only {} crates were found", manifests.len());
    let protocols = |crates: &BTreeSet<String>| {
        crates.iter().filter_map(|name| protocol_of(name)).collect::<BTreeSet<_>>().len()
    };
    let several: Vec<&str> =
        manifests.iter().filter(|(_, crates)| protocols(crates) > 1).map(|(name, _)| name.as_str()).collect();
    assert_eq!(several, ["adit", "adit-sim"]);
}

/// The program has the adapters of protocols, and nothing else of them.
#[test]
fn the_program_depends_on_adapters_alone() {
    let text = read(&Path::new(CRATES).join("adit")).unwrap();
    let dependencies = text.split("\n[").find_map(|part| part.strip_prefix("dependencies]\n")).unwrap();
    let names = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
    let of_protocols: Vec<&str> = names.filter(|name| protocol_of(name).is_some()).collect();
    assert!(of_protocols.len() > 2, "{of_protocols:?}");
    let wrong = of_protocols.iter().find(|name| !name.ends_with("-adapter"));
    assert_eq!(wrong, None);
}

/// A protocol comes into the program by its line in the table.
#[test]
fn one_file_of_the_program_names_protocols() {
    let source = Path::new(CRATES).join("adit/src");
    let (table, below) = (source.join("adapters.rs"), source.join("adapters"));
    let is_test = |path: &Path| path.ends_with("tests.rs");
    let others = files(&source).into_iter().filter(|path| *path != table && !path.starts_with(&below));
    for path in others.filter(|path| !is_test(path)) {
        assert_names_none(&path);
    }
}

#[test]
fn no_protocol_depends_on_another_or_on_data_plane_driver_or_system() {
    for (name, crates) in manifests().iter().filter(|(name, _)| is_machine(name)) {
        let wrong = |other: &&String| {
            protocol_of(other).is_some() && *other != name || NOT_FOR_MACHINES.contains(&other.as_str())
        };
        assert_eq!(crates.iter().find(wrong), None, "{name}");
    }
}

#[test]
fn neutral_crates_depend_on_no_protocol() {
    let manifests = manifests();
    for name in NEUTRAL.map(|folder| format!("adit-{folder}")) {
        // The driver's own tests run the toy.
        let wrong = |other: &&String| protocol_of(other).is_some_and(|protocol| protocol != "toy");
        assert_eq!(manifests[&name].iter().find(wrong), None, "{name}");
    }
}

/// A codec brings no cipher of its own: each stands once, in the data plane.
#[test]
fn codecs_depend_on_core_data_plane_and_their_protocol_alone() {
    let manifests = manifests();
    for (folder, machine) in PROTOCOLS {
        let Some(text) = read(&Path::new(CRATES).join(folder).join("codec")) else { continue };
        let dependencies = text.split("\n[").find_map(|part| part.strip_prefix("dependencies]\n")).unwrap();
        for wrong in ["aws-lc-rs", "aes", "cbc", "hmac", "sha1", "sha2", "chacha20"] {
            let depends = dependencies.lines().any(|line| line.split(['.', ' ']).next() == Some(wrong));
            assert!(!depends, "{folder}: {wrong}");
        }
        let expected = ["adit-core", "adit-dataplane", machine];
        let found: BTreeSet<&str> = manifests[&name(&text)].iter().map(String::as_str).collect();
        assert_eq!(found, expected.into_iter().collect(), "{folder}");
    }
}

#[test]
fn neutral_crates_name_no_protocol() {
    for name in NEUTRAL {
        for path in files(&Path::new(CRATES).join(name)) {
            assert_names_none(&path);
        }
    }
}

fn assert_names_none(path: &Path) {
    // A file that is no text is no source.
    let text = std::fs::read_to_string(path).unwrap_or_default().to_lowercase();
    for word in NAMES {
        let line = text.lines().position(|line| line.contains(word)).map(|index| index + 1);
        assert_eq!(line, None, "{} names {word}", path.display());
    }
}

/// The only crate with unsafe code; each block there says why it is sound.
const UNSAFE: &str = "adit-sys";

#[test]
fn unsafe_code_is_forbidden_but_in_one_crate() {
    let above = folders(Path::new(CRATES));
    let below: Vec<_> = above.iter().flat_map(|folder| folders(folder)).collect();
    let mut found = 0;
    for folder in above.iter().chain(&below) {
        let Some(manifest) = read(folder).filter(|manifest| name(manifest) != UNSAFE) else { continue };
        let source = folder.join("src");
        let programs = if source.join("bin").is_dir() { files(&source.join("bin")) } else { Vec::new() };
        let roots = [source.join("lib.rs"), source.join("main.rs")].into_iter().filter(|root| root.is_file());
        for root in roots.chain(programs) {
            let text = std::fs::read_to_string(&root).unwrap();
            assert!(
                text.contains("\n#![forbid(unsafe_code)]\n"),
                "{} of {}",
                root.display(),
                name(&manifest)
            );
            found += 1;
        }
    }
    assert!(found > 20, "only {found} roots of crates were found");
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Crates that bind to a library, or seem to by their names, but bring its source, load it while they run, or have none.
const WITHOUT_LIBRARY: [&str; 7] =
    ["adit-sys", "aws-lc-sys", "cryptoki-sys", "js-sys", "linux-raw-sys", "netlink-sys", "windows-sys"];
/// A crate that links a library of the system, and the only crate of the workspace that depends on it.
const WITH_LIBRARY: (&str, &str) = ("nonstick", "adit-auth");

/// `cargo build` in a clean clone needs no more than a C compiler.
#[test]
fn what_is_built_by_default_links_no_library_of_the_system() {
    let root = Path::new(CRATES).join("..");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("\ndefault-members = [").unwrap();
    let members = members.split_once(']').unwrap().0.split(',').map(|member| member.trim().trim_matches('"'));
    let mut built: BTreeSet<String> =
        members.map(|member| name(&read(&root.join(member)).unwrap())).collect();
    assert!(built.contains("adit"), "{built:?}");
    let manifests = manifests();
    loop {
        let beneath: BTreeSet<String> = built.iter().flat_map(|name| manifests[name].clone()).collect();
        if beneath.is_subset(&built) {
            break;
        }
        built.extend(beneath);
    }
    let (library, only) = WITH_LIBRARY;
    assert!(!built.contains(only), "{built:?}");
    for text in texts().iter().filter(|text| name(text) != only) {
        assert!(!text.contains(&format!("\n{library}")), "{} depends on {library}", name(text));
    }
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let bindings = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix("-sys\""));
    let unknown: Vec<String> = bindings
        .map(|name| format!("{name}-sys"))
        .filter(|name| !WITHOUT_LIBRARY.contains(&name.as_str()) && name != "libpam-sys")
        .collect();
    assert!(unknown.is_empty(), "does {unknown:?} link a library of the system?");
}

/// Whether a crate is a protocol's machine.
fn is_machine(name: &str) -> bool {
    PROTOCOLS.iter().any(|(_, machine)| *machine == name)
}

/// The protocol in whose folder a crate is.
fn protocol_of(name: &str) -> Option<&'static str> {
    let is_in = |protocol: &str| {
        let crates = folders(&Path::new(CRATES).join(protocol));
        crates.iter().filter_map(|folder| read(folder)).any(|text| self::name(&text) == name)
    };
    PROTOCOLS.into_iter().map(|(protocol, _)| protocol).find(|protocol| is_in(protocol))
}

/// Each crate of the workspace, with the crates of the workspace that it depends on, in tests or without.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let texts = texts();
    let names: BTreeSet<String> = texts.iter().map(|text| name(text)).collect();
    texts.iter().map(|text| (name(text), dependencies(text, &names))).collect()
}

/// The manifests in the folders of `crates`, and in the folders below those.
fn texts() -> Vec<String> {
    let above = folders(Path::new(CRATES));
    let below: Vec<_> = above.iter().flat_map(|folder| folders(folder)).collect();
    above.iter().chain(&below).filter_map(|folder| read(folder)).collect()
}

/// The folders in a folder.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// The manifest of a folder.
fn read(folder: &Path) -> Option<String> {
    std::fs::read_to_string(folder.join("Cargo.toml")).ok()
}

/// The name of a manifest's package.
fn name(manifest: &str) -> String {
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = \""));
    line.unwrap().trim_end_matches('"').to_owned()
}

/// The names at the start of a manifest's lines, such as `adit-core` in `adit-core.workspace = true`, but the package's own.
fn dependencies(manifest: &str, crates: &BTreeSet<String>) -> BTreeSet<String> {
    let names = manifest.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| crates.contains(*name)).map(str::to_owned).collect()
}

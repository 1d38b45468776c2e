//! Which crates know which protocols, by their manifests (docs/ARCHITECTURE.md).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The protocols' machines, and the toy that stands for a further one in the tests.
const PROTOCOLS: [&str; 4] = ["adit-openvpn", "adit-wireguard", "adit-ike", "adit-toy"];

#[test]
fn no_crate_but_the_program_and_the_simulator_depends_on_two_protocols() {
    let manifests = manifests();
    assert!(manifests.len() > 15, "only {} crates were found", manifests.len());
    let protocols = |crates: &BTreeSet<String>| crates.iter().filter(|name| is_protocol(name)).count();
    let several: Vec<&str> =
        manifests.iter().filter(|(_, crates)| protocols(crates) > 1).map(|(name, _)| name.as_str()).collect();
    assert_eq!(several, ["adit", "adit-sim"]);
}

#[test]
fn no_protocol_depends_on_another_or_on_data_plane_or_driver() {
    for (name, crates) in manifests().iter().filter(|(name, _)| is_protocol(name)) {
        let wrong = |other: &&String| {
            is_protocol(other) && *other != name || ["adit-dataplane", "adit-io"].contains(&other.as_str())
        };
        assert_eq!(crates.iter().find(wrong), None, "{name}");
    }
}

#[test]
fn core_data_plane_and_driver_depend_on_no_protocol() {
    let manifests = manifests();
    for name in ["adit-core", "adit-dataplane", "adit-io"] {
        // The driver's own tests run the toy.
        let wrong = |other: &&String| is_protocol(other) && *other != "adit-toy";
        assert_eq!(manifests[name].iter().find(wrong), None, "{name}");
    }
}

fn is_protocol(name: &str) -> bool {
    PROTOCOLS.contains(&name)
}

/// Each crate of the workspace, with the crates of the workspace that it depends on, in tests or without.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let folders = std::fs::read_dir(CRATES).unwrap().map(|entry| entry.unwrap());
    folders
        .filter_map(|folder| {
            let text = std::fs::read_to_string(folder.path().join("Cargo.toml")).ok()?;
            Some((folder.file_name().into_string().unwrap(), dependencies(&text)))
        })
        .collect()
}

/// The names at the start of a manifest's lines, such as `adit-core` in `adit-core.workspace = true`, but the package's own.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let names = manifest.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names
        .filter(|name| name.starts_with("adit-") && Path::new(CRATES).join(name).is_dir())
        .map(str::to_owned)
        .collect()
}

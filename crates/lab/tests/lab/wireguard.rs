//! The commands that measure a WireGuard server, with tiny counts, and tunnels between two programs.

use adit_testbed::{Scratch, can_run};
use serde_json::Value;

use crate::bench::{NEEDED, adit, json, lab, load, said, small_plan};

/// Runs a command on adit alone: its exit code, its output, and its JSON.
fn run(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String, Value) {
    let file = scratch.path().join("results.json");
    let mut command = lab(arguments);
    command.args(["--subjects", "adit-wireguard", "--rounds", "1", "--json"]).arg(&file);
    let output = command.arg("--adit").arg(adit()).arg("--load").arg(load()).output().unwrap();
    let text = said(&output);
    assert!(file.exists(), "{text}");
    (output.status.code(), text, json(scratch.path(), "results.json"))
}

fn value(results: &Value, figure: &str) -> f64 {
    let samples = results["samples"].as_array().unwrap();
    let found = samples.iter().find(|sample| sample["figure"] == figure);
    found.unwrap_or_else(|| panic!("no {figure}: {results}"))["value"].as_f64().unwrap()
}

#[test]
fn configured_peers_are_measured() {
    if !can_run("configured_peers_are_measured", &["openssl", "iperf3", "wg"]) {
        return;
    }
    let scratch = Scratch::create("peers").unwrap();
    let (_, text, results) = run(&scratch, &["wireguard-peers", "--peers", "500", "--seconds", "1"]);
    // The verdict is about the machine, too.
    assert_eq!(results["failures"].as_array().unwrap().len(), 0, "{text}");
    for figure in ["set_all_ms", "show_ms", "set_ms", "alone_p50_us", "among_mbit", "configured_kept"] {
        assert!(value(&results, figure) > 0.0, "{figure}: {text}");
    }
    assert!(value(&results, "set_ms") <= value(&results, "set_worst_ms"), "{text}");
}

#[test]
fn handshakes_are_answered_and_counted() {
    if !can_run("handshakes_are_answered_and_counted", &["openssl"]) {
        return;
    }
    let scratch = Scratch::create("handshakes").unwrap();
    let arguments = ["wireguard-handshakes", "--initiators", "20", "--rate", "50", "--seconds", "4"];
    let (code, text, results) = run(&scratch, &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(value(&results, "answered") > 0.99 && value(&results, "per_core") > 0.0, "{text}");
    let begun = value(&results, "begun_per_s");
    assert!((40.0..=55.0).contains(&begun), "{begun}: {text}");
}

#[test]
fn each_kind_of_initiation_floods_a_server() {
    if !can_run("each_kind_of_initiation_floods_a_server", &["openssl"]) {
        return;
    }
    let mut command = lab(&["wireguard-attackers", "--subjects", "adit-wireguard", "--rounds", "1"]);
    command.args(["--clients", "1", "--rate", "2000"]);
    let output = command.arg("--adit").arg(adit()).arg("--load").arg(load()).output().unwrap();
    let text = said(&output);
    let mut lines = text.lines().filter(|line| line.contains("| adit-wireguard |"));
    for kind in ["no mac1", "mac1 right, cookie missing", "mac1 right, cookie wrong", "replayed"] {
        let line = lines.next().unwrap_or_else(|| panic!("no line of {kind}: {text}"));
        assert!(line.starts_with(&format!("| {kind} |")), "{text}");
        // The verdict is about the machine, too, but there must have been an attack, and an idle client must get in.
        assert!(!line.contains("no attack") && !line.contains("idle clients fail"), "{text}");
    }
}

#[test]
fn adit_carries_packets_of_another_program() {
    let needed = [&["wireguard-go"], &NEEDED[..]].concat();
    if !can_run("adit_carries_packets_of_another_program", &needed) {
        return;
    }
    let scratch = Scratch::create("pair").unwrap();
    let plan = small_plan(&scratch, "'adit-to-wireguard-go'", "[[workload]]\nkind = 'start'\n");
    let out = scratch.path().join("out");
    // Debian's in the place of the current one, which tests do not build.
    let tools = scratch.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink("/usr/bin/wireguard-go", tools.join("wireguard")).unwrap();
    let mut command =
        lab(&["run", &plan, "--out", out.to_str().unwrap(), "--tools", tools.to_str().unwrap()]);
    let output = command.arg("--adit").arg(adit()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = json(&out, "results.json");
    let figures = results["figures"].as_array().unwrap();
    let start = figures.iter().find(|figure| figure["figure"] == "start_ms").unwrap();
    assert!(start["median"].as_f64().unwrap() > 0.0, "{results}");
}

//! The commands that judge a build, with tiny counts. That they see a lost packet at all is tested beside their counters,
//! and each run of `tunnels` and `reload` cuts a way on purpose.

use adit_testbed::{Scratch, can_run};
use serde_json::Value;

use crate::bench::{adit, json, lab, load, said};

/// Runs it to the end, with adit and adit-load-openvpn: its exit code, its output in one text, and its JSON.
fn run(scratch: &Scratch, arguments: &[&str]) -> (Option<i32>, String, Value) {
    let file = scratch.path().join("results.json");
    let mut command = lab(arguments);
    command.arg("--json").arg(&file).arg("--adit").arg(adit()).arg("--load").arg(load());
    let output = command.output().unwrap();
    let text = said(&output);
    assert!(file.exists(), "{text}");
    (output.status.code(), text, json(scratch.path(), "results.json"))
}

fn describes_the_machine(text: &str, command: &str) -> bool {
    text.contains(&format!("`adit-lab {command}")) && text.contains("Linux ") && text.contains("adit: adit ")
}

#[test]
fn two_tunnels_live_and_end_alone() {
    if !can_run("two_tunnels_live_and_end_alone", &["openvpn", "openssl"]) {
        return;
    }
    let scratch = Scratch::create("criteria").unwrap();
    let arguments =
        ["tunnels", "--count", "2", "--rounds", "1", "--rate", "100", "--pause", "0.3", "--kib", "64"];
    let (code, text, results) = run(&scratch, &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(describes_the_machine(&text, "tunnels --count 2"), "{text}");
    for name in ["adit, one process", "adit, 2 processes", "OpenVPN, 2 processes"] {
        let samples = &results["arrangements"][name];
        for figure in ["listening_ms", "first_packet_last_ms", "server_pss_kib_a_tunnel"] {
            assert!(samples[figure][0].as_f64().unwrap() > 0.0, "{name} {figure}: {samples}");
        }
    }
    let lifetime = &results["lifetime"];
    assert_eq!((lifetime["transfers"].as_u64(), lifetime["ended"].as_u64()), (Some(2), Some(1)));
    for tunnel in lifetime["tunnels"].as_array().unwrap() {
        assert!(tunnel["sent"].as_u64().unwrap() > 20 && tunnel["lost"] == 0, "{tunnel}");
    }
    assert!(lifetime["control"]["lost"].as_u64().unwrap() > 10, "{lifetime}");
}

#[test]
fn three_clients_lose_nothing_by_a_reload() {
    if !can_run("three_clients_lose_nothing_by_a_reload", &["openssl"]) {
        return;
    }
    let scratch = Scratch::create("criteria").unwrap();
    let arguments = [
        "reload",
        "--clients",
        "3",
        "--rate",
        "50",
        "--seconds",
        "0.2",
        "--only",
        "push",
        "--only",
        "mistake",
    ];
    let (code, text, results) = run(&scratch, &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(describes_the_machine(&text, "reload --clients 3"), "{text}");
    let steps = results["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "{text}");
    for step in steps {
        assert!(step["counted"]["sent"].as_u64().unwrap() > 50 && step["counted"]["lost"] == 0, "{step}");
    }
    assert!(results["control"]["lost"].as_u64().unwrap() > 10, "{text}");
}

#[test]
fn a_load_over_tcp_is_carried_beside_a_flow() {
    if !can_run("a_load_over_tcp_is_carried_beside_a_flow", &["openssl", "iperf3"]) {
        return;
    }
    let scratch = Scratch::create("criteria").unwrap();
    let arguments = ["endpoints", "--clients", "3", "--rounds", "1", "--seconds", "1"];
    // The verdict is about the machine, too.
    let (_, text, results) = run(&scratch, &arguments);
    assert!(describes_the_machine(&text, "endpoints --clients"), "{text}");
    assert_eq!(results["failures"].as_array().unwrap().len(), 0, "{text}");
    let samples = results["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 6, "{text}");
    for sample in samples {
        assert!(sample["megabits"].as_f64().unwrap() > 0.0, "{sample}");
        let delivered = sample["delivered"].as_f64();
        assert_eq!(delivered.is_some(), sample["load"] != "none", "{sample}");
        // How much of it is the machine's: beside the flow, a slow one has little time for it.
        assert!(delivered.is_none_or(|share| share > 0.05), "{sample}");
    }
}

#[test]
fn two_builds_are_compared_by_every_figure() {
    if !can_run("two_builds_are_compared_by_every_figure", &["openssl", "iperf3"]) {
        return;
    }
    let scratch = Scratch::create("criteria").unwrap();
    let build = adit();
    let build = build.to_str().unwrap();
    let arguments = [
        "compare-builds",
        "--before",
        build,
        "--after",
        build,
        "--rounds",
        "1",
        "--pairs",
        "2",
        "--clients",
        "3",
        "--rate",
        "2000",
    ];
    // The verdict is about the machine, too.
    let (_, text, results) = run(&scratch, &arguments);
    assert!(text.contains("`adit-lab compare-builds --rounds 1") && text.contains("after: adit "), "{text}");
    assert_eq!(results["failures"].as_array().unwrap().len(), 0, "{text}");
    let figures = results["figures"].as_object().unwrap();
    assert_eq!(figures.len(), 11, "{text}");
    for (name, pairs) in figures {
        let pair = pairs["0"].as_array().unwrap();
        // Of so few clients the memory may not grow at all.
        let least = if name == "client_rss_kib" { -1.0 } else { 0.0 };
        assert!(pair.iter().all(|value| value.as_f64().unwrap() > least), "{name}: {pairs}");
        let of_a_tunnel = name.starts_with("udp") || name.starts_with("tcp");
        assert_eq!(pairs.as_object().unwrap().len(), if of_a_tunnel { 2 } else { 1 }, "{name}: {pairs}");
    }
    assert!(!results["bench"].as_object().unwrap().is_empty());
}

//! The commands that drive `adit-load-openvpn`: attackers, and many clients.

use adit_testbed::{Scratch, can_run};

use crate::bench::{adit, json, lab, load, said};

/// The cells of the table's line that begins with this.
fn cells(text: &str, start: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
    line.split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn attackers_of_four_kinds_are_at_work() {
    if !can_run("attackers_of_four_kinds_are_at_work", &["openvpn", "openssl"]) {
        return;
    }
    let rows = [
        "certificate: data from two ports",
        "certificate: unprintable control messages",
        "TCP: garbage, one IPv6 /61",
        "no key: garbage in place of TLS",
    ];
    let mut command = lab(&["attackers", "--server", "adit", "--clients", "1"]);
    for row in rows {
        command.args(["--only", row]);
    }
    let output = command.arg("--adit").arg(adit()).arg("--load").arg(load()).output().unwrap();
    let text = said(&output);
    for row in rows {
        let cells = cells(&text, &format!("| {row} |"));
        // The verdict is about the machine, too, but there must have been an attack.
        assert!(!cells[13].contains("no attack"), "{text}");
        let done = cells[3].split_once('(').unwrap().1.trim_end_matches(')');
        assert!(done.parse::<f64>().unwrap() > 0.0, "{row}: {text}");
    }
}

#[test]
fn datagrams_are_forged_for_each_wrapping() {
    if !can_run("datagrams_are_forged_for_each_wrapping", &["openvpn", "openssl"]) {
        return;
    }
    let output = lab(&["attackers", "--list"]).arg("--load").arg(load()).output().unwrap();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for wrapping in [
        "none: resets",
        "tls-auth: forged resets",
        "tls-crypt: replayed resets",
        "tls-crypt-v2: forged client keys",
    ] {
        assert!(text.lines().any(|line| line == wrapping), "{wrapping}: {text}");
    }
    assert_eq!(text.lines().count(), 24 + 4 + 15);
}

#[test]
fn many_clients_connect_and_are_counted() {
    if !can_run("many_clients_connect_and_are_counted", &["openvpn", "openssl", "iperf3"]) {
        return;
    }
    let scratch = Scratch::create("many").unwrap();
    let file = scratch.path().join("results.json");
    let mut command =
        lab(&["measure", "--only", "clients", "--clients", "20", "--rounds", "1", "--seconds", "1"]);
    command
        .args(["--subjects", "veth", "--json"])
        .arg(&file)
        .arg("--adit")
        .arg(adit())
        .arg("--load")
        .arg(load());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let results = json(scratch.path(), "results.json");
    let samples = results["samples"].as_array().unwrap();
    for subject in ["adit-udp", "adit-to-openvpn"] {
        for metric in ["ecdsa_handshakes", "rsa_handshakes", "hybrid_handshakes", "among_clients_up_mbit"] {
            let sample = samples.iter().find(|one| one["subject"] == subject && one["metric"] == metric);
            assert!(sample.unwrap()["value"].as_f64().unwrap() > 0.0, "{subject} {metric}");
        }
    }
}

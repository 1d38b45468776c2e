//! The plan `smoke`, with the peers that must be there where everything is tested.

use adit_testbed::{Scratch, can_run};

use crate::bench::{NEEDED, adit, json, lab, said};

/// The subjects, and the program that each needs.
const SUBJECTS: [(&str, &str); 9] = [
    ("veth", "ip"),
    ("null", "ip"),
    ("adit-udp", "ip"),
    ("adit-wireguard", "ip"),
    ("adit-ipsec", "ip"),
    ("openvpn-udp", "openvpn"),
    ("wireguard-go-debian", "wireguard-go"),
    ("strongswan", "swanctl"),
    ("tinc", "tincd"),
];

#[test]
fn smoke_measures_all_and_its_report_comes_out() {
    let programs: Vec<&str> = SUBJECTS.iter().map(|(_, program)| *program).chain(NEEDED).collect();
    if !can_run("smoke_measures_all_and_its_report_comes_out", &programs) {
        return;
    }
    let scratch = Scratch::create("smoke").unwrap();
    let out = scratch.path().join("out");
    let names = SUBJECTS.map(|(name, _)| name);
    let run = lab(&["run", "smoke", "--subjects", &names.join(","), "--out", out.to_str().unwrap()])
        .arg("--adit")
        .arg(adit())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", said(&run));

    let results = json(&out, "results.json");
    assert_eq!(results["failures"].as_array().unwrap().len(), 0, "{}", results["failures"]);
    let figures = results["figures"].as_array().unwrap();
    let value = |subject: &str, name: &str| -> f64 {
        let found = figures.iter().find(|figure| figure["subject"] == subject && figure["figure"] == name);
        found.unwrap_or_else(|| panic!("{subject} has no {name}"))["median"].as_f64().unwrap()
    };
    for name in names {
        for figure in ["idle_p50_us", "up_mbit", "down_mbit"] {
            assert!(value(name, figure) > 0.0, "{name} {figure}");
        }
    }
    for name in names.into_iter().filter(|name| *name != "veth") {
        for figure in
            ["start_ms", "handshake_ms", "server_rss_kib", "client_pss_kib", "up_client_cpu_s_per_gb"]
        {
            assert!(value(name, figure) > 0.0, "{name} {figure}");
        }
    }
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let table = std::fs::read_to_string(out.join("results.csv")).unwrap();
    for name in names {
        assert!(page.contains(name) && table.contains(name), "{name}");
    }
    assert!(!page.contains("http://") || !page.contains("src="), "a report needs no network");
}

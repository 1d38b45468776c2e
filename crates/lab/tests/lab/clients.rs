//! Many clients of one server, driven from outside.

use adit_testbed::{Scratch, can_run};

use crate::bench::{NEEDED, adit, json, lab, said, small_plan};

#[test]
fn several_clients_come_up_and_all_are_answered() {
    let programs: Vec<&str> = NEEDED.into_iter().chain(["openvpn"]).collect();
    if !can_run("several_clients_come_up_and_all_are_answered", &programs) {
        return;
    }
    let scratch = Scratch::create("clients").unwrap();
    let loads = "[[workload]]\nkind = 'clients'\ncount = 4\n[[workload]]\nkind = 'in-memory'\n";
    let plan = small_plan(&scratch, "'adit-tcp-aes128', 'openvpn-udp', 'veth'", loads);
    let out = scratch.path().join("out");
    let run =
        lab(&["run", &plan, "--out", out.to_str().unwrap()]).arg("--adit").arg(adit()).output().unwrap();
    // The wire alone has no clients: its row says so, and the run is no success.
    assert_eq!(run.status.code(), Some(1), "{}", said(&run));
    let results = json(&out, "results.json");
    assert_eq!(results["failures"].as_array().unwrap().len(), 1, "{}", results["failures"]);
    let figures = results["figures"].as_array().unwrap();
    let value = |subject: &str, name: &str| -> Option<f64> {
        let found = figures.iter().find(|figure| figure["subject"] == subject && figure["figure"] == name);
        found?["median"].as_f64()
    };
    for subject in ["adit-tcp-aes128", "openvpn-udp"] {
        assert_eq!(value(subject, "clients"), Some(4.0), "{subject}");
        for figure in ["storm_ms", "server_cpu_per_client_ms", "server_pss_kib", "received_pps"] {
            assert!(value(subject, figure).unwrap() > 0.0, "{subject} {figure}");
        }
    }
    assert!(value("adit-tcp-aes128", "seal_mbit").unwrap() > 0.0);
    assert_eq!(value("openvpn-udp", "seal_mbit"), None);
}

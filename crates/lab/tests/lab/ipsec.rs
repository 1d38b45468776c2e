//! The commands that measure IPsec, with tiny counts, tunnels between two programs, and limits of a plan.

use adit_testbed::{Scratch, can_run};

use crate::bench::{NEEDED, adit, json, lab, load, said, small_plan};

/// Programs of strongSwan.
const STRONGSWAN: [&str; 2] = ["swanctl", "unshare"];

#[test]
fn handshakes_of_each_proof_are_measured_at_both_responders() {
    if !can_run("handshakes_of_each_proof_are_measured_at_both_responders", &STRONGSWAN) {
        return;
    }
    let scratch = Scratch::create("ike").unwrap();
    let file = scratch.path().join("results.json");
    let mut command = lab(&["ike-handshakes", "--initiators", "20", "--rounds", "1", "--json"]);
    command.arg(&file).arg("--adit").arg(adit()).arg("--load").arg(load());
    let text = said(&command.output().unwrap());
    assert!(file.exists(), "{text}");
    let results = json(scratch.path(), "results.json");
    // The verdict is about the machine, too.
    assert_eq!(results["failures"].as_array().unwrap().len(), 0, "{text}");
    let samples = results["samples"].as_array().unwrap();
    for (subject, count) in [("adit", 8), ("strongswan", 6)] {
        assert_eq!(samples.iter().filter(|sample| sample["subject"] == subject).count(), count, "{text}");
    }
}

#[test]
fn adit_and_strongswan_carry_packets_of_each_other_and_a_limit_that_is_broken_fails_the_run() {
    let name = "adit_and_strongswan_carry_packets_of_each_other_and_a_limit_that_is_broken_fails_the_run";
    if !can_run(name, &[&STRONGSWAN[..], &NEEDED].concat()) {
        return;
    }
    let scratch = Scratch::create("pairs").unwrap();
    let limit = "[[workload]]\nkind = 'start'\n[[limit]]\nsubject = 'strongswan-to-adit-ipsec'\n\
                 beside = 'adit-ipsec-to-strongswan'\nfigures = ['start_ms']\nat-most = 0.0\n";
    let plan = small_plan(&scratch, "'adit-ipsec-to-strongswan', 'strongswan-to-adit-ipsec'", limit);
    let out = scratch.path().join("out");
    let mut command = lab(&["run", &plan, "--out", out.to_str().unwrap()]);
    let output = command.arg("--adit").arg(adit()).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let broken = "FAILED strongswan-to-adit-ipsec / adit-ipsec-to-strongswan, no limit, start, start_ms: ";
    assert!(text.contains(broken) && text.contains(", limit ≤ 0"), "{text}");
    let results = json(&out, "results.json");
    assert_eq!(results["failures"].as_array().unwrap().len(), 0, "{text}");
}

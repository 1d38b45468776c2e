//! A link that is filled by packets that a tunnel or the lab sends of its own accord.

use adit_testbed::{Scratch, can_run};

use crate::bench::{NEEDED, json, lab, said, small_plan};

#[test]
fn a_file_comes_whole_over_a_link_of_some_kilobits() {
    let programs: Vec<&str> = NEEDED.into_iter().chain(["tincd"]).collect();
    if !can_run("a_file_comes_whole_over_a_link_of_some_kilobits", &programs) {
        return;
    }
    let scratch = Scratch::create("slow").unwrap();
    let loads = "[[link]]\nname = 'slow'\nrate = 64000\nsegmentation = false\n\
                 [[workload]]\nkind = 'transfer'\nkib = 16\n";
    let plan = small_plan(&scratch, "'null', 'tinc'", loads);
    let out = scratch.path().join("out");
    let run = lab(&["run", &plan, "--out", out.to_str().unwrap()]).output().unwrap();
    assert!(run.status.success(), "{}", said(&run));
    let results = json(&out, "results.json");
    let figures = results["figures"].as_array().unwrap();
    let value = |subject: &str, name: &str| -> f64 {
        let found = figures.iter().find(|figure| figure["subject"] == subject && figure["figure"] == name);
        found.unwrap_or_else(|| panic!("{subject} has no {name}"))["median"].as_f64().unwrap()
    };
    for (subject, mtu) in [("null", 1500.0), ("tinc", 1400.0)] {
        let speed = value(subject, "up_kbyte_s");
        assert!(speed > 1.0 && speed < 8.0, "{subject}: {speed} kB/s");
        assert_eq!(value(subject, "tunnel_mtu_bytes"), mtu, "{subject}");
    }
    let kept = |name: &str| std::fs::read_to_string(out.join("configurations").join(name)).unwrap();
    assert!(kept("tinc/server/tinc.conf").contains("PMTUDiscovery = no"));
    assert_eq!(kept("null/commands").lines().count(), 2);
    assert!(kept("null/commands").contains(" null null0 192.0.2.1:1194 "), "{}", kept("null/commands"));
    assert!(results["environment"]["about"]["tinc"].as_str().unwrap().contains("default cipher"));
    let wire = &results["environment"]["links"]["slow"];
    assert_eq!(wire["mtu"], 1500);
    assert_eq!(wire["offloads"]["tcp-segmentation-offload"], false, "{wire}");
}

//! Runs that go wrong.

use std::path::Path;
use std::process::Command;

use adit_testbed::{MAX_WAIT, Process, Scratch, can_run, wait_until};

use crate::bench::{NEEDED, adit, json, lab, said, small_plan};

/// Takes half a second.
const ECHOES: &str = "[[workload]]\nkind = 'latency'\ncount = 500\nloaded = false\n";

#[test]
fn a_bad_plan_is_told_with_file_and_line() {
    let scratch = Scratch::create("errors").unwrap();
    let good = "title = 'x'\nsubjects = ['veth']\n";
    for (text, place) in [
        (format!("{good}[[workload]]\nkind = 'tpc'\n"), "bad.toml:4: "),
        (format!("{good}sizes = 3\n[[workload]]\nkind = 'tcp'\n"), "bad.toml:3: "),
        (format!("rounds = 0\n{good}[[workload]]\nkind = 'tcp'\n"), "bad.toml:1: "),
        (format!("{good}[[workload]]\nkind = 'tcp'\n[[workload]]\nkind = 'udp'\nsize = 0\n"), "bad.toml:5: "),
        (format!("{good}[[link]]\nname = 'a'\nloss = 2\n[[workload]]\nkind = 'tcp'\n"), "bad.toml:3: "),
    ] {
        let plan = scratch.write("bad.toml", &text).unwrap();
        let output = lab(&["run", plan.to_str().unwrap()]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(place), "{place} of\n{text}\n{}", said(&output));
    }
}

#[test]
fn who_has_no_rights_or_asks_for_what_is_not_there_is_told() {
    let unknown = lab(&["run", "smoke", "--subjects", "carrier-pigeon"]).output().unwrap();
    let nobody =
        Command::new("unshare").args(["--user", env!("CARGO_BIN_EXE_adit-lab"), "run", "smoke"]).output();
    for (output, part) in
        [(unknown, "no subject is called carrier-pigeon"), (nobody.unwrap(), "the rights of root")]
    {
        // Without root's rights the first is refused for that.
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(part) || text.contains("the rights of root"), "{part}: {text}");
    }
}

#[test]
fn a_missing_peer_has_its_reason_in_its_row() {
    if !can_run("a_missing_peer_has_its_reason_in_its_row", &NEEDED) {
        return;
    }
    let scratch = Scratch::create("errors").unwrap();
    let plan = small_plan(&scratch, "'veth', 'adit-udp'", ECHOES);
    let out = scratch.path().join("out");
    let output =
        lab(&["--adit", "/nowhere/adit", "run", &plan, "--out", out.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let results = json(&out, "results.json");
    let why = results["failures"][0]["why"].as_str().unwrap();
    assert!(why.contains("there is no /nowhere/adit"), "{why}");
    assert!(results["figures"].as_array().unwrap().iter().any(|figure| figure["subject"] == "veth"));
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains("/nowhere/adit"));

    // Once it is built, the cells that failed are measured, and no others.
    let run = ["run", &plan, "--again", "--out", out.to_str().unwrap()];
    let output = lab(&run).arg("--adit").arg(adit()).output().unwrap();
    let text = said(&output);
    assert!(output.status.success() && text.contains("[1/1]"), "{text}");
    let results = json(&out, "results.json");
    assert_eq!(results["failures"].as_array().unwrap().len(), 0, "{}", results["failures"]);
    assert!(results["figures"].as_array().unwrap().iter().any(|figure| figure["subject"] == "adit-udp"));
}

#[test]
fn a_full_disk_is_told_and_what_was_measured_is_kept() {
    if !can_run("a_full_disk_is_told_and_what_was_measured_is_kept", &NEEDED) {
        return;
    }
    let scratch = Scratch::create("errors").unwrap();
    let plan = small_plan(&scratch, "'veth'", ECHOES).replace("plan.toml", "full.toml");
    let text = std::fs::read_to_string(scratch.path().join("plan.toml")).unwrap();
    std::fs::write(&plan, text.replace("rounds = 1", "rounds = 4")).unwrap();
    let disk = scratch.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // The disk is the script's own, and gone with it.
    let script = "mount -t tmpfs -o size=16k none disk && \"$0\" run full.toml --out disk/out; echo \"first: $?\"; \
                  wc -l <disk/out/records.jsonl; mount -o remount,size=10m disk; \
                  \"$0\" run full.toml --out disk/out; echo \"second: $?\"; wc -l <disk/out/records.jsonl";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_adit-lab")])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let text = said(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.contains("records.jsonl: No space left on device"), "{text}");
    assert!(text.contains("first: 2") && text.contains("second: 0"), "{text}");
    assert!(text.contains("going on with the run"), "{text}");
    assert_eq!(lines.iter().filter(|line| line.trim() == "4").count(), 1, "{text}");
}

#[test]
fn who_ends_a_run_early_finds_nothing_left_and_can_go_on() {
    if !can_run("who_ends_a_run_early_finds_nothing_left_and_can_go_on", &NEEDED) {
        return;
    }
    let scratch = Scratch::create("errors").unwrap();
    let loads = format!("{ECHOES}[[workload]]\nkind = 'sweep'\nsize = 64\nto = 10000\n");
    let plan = small_plan(&scratch, "'null'", &loads);
    let out = scratch.path().join("out").to_str().unwrap().to_owned();
    let mut ended = Process::spawn("the lab", lab(&["run", &plan, "--out", &out])).unwrap();
    let tag = format!("adit-{}-", ended.id());
    let place = Path::new("/run/netns");
    // Before there is a plan, the lab only looks at the link.
    let is_there = || Path::new(&out).join("plan.toml").exists() && left(place, &tag) == 2;
    wait_until("the tunnel's namespaces", MAX_WAIT, is_there).unwrap();
    ended.interrupt();
    assert_eq!(ended.wait(MAX_WAIT).unwrap().code(), Some(130), "{}", ended.log());
    assert_eq!((left(place, &tag), left(&std::env::temp_dir(), &tag)), (0, 0));
    // A measurement that the end broke off is no failure of the subject's.
    let records = std::fs::read_to_string(Path::new(&out).join("records.jsonl")).unwrap_or_default();
    assert!(records.is_empty(), "{records}");

    let output = lab(&["run", &plan, "--out", &out]).output().unwrap();
    assert!(output.status.success() && said(&output).contains("going on"), "{}", said(&output));
}

/// How many names in a directory begin so.
fn left(directory: &Path, tag: &str) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(tag))).count()
}

#[test]
fn the_next_run_removes_what_a_killed_one_left() {
    if !can_run("the_next_run_removes_what_a_killed_one_left", &NEEDED) {
        return;
    }
    let scratch = Scratch::create("errors").unwrap();
    let out = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let plan =
        small_plan(&scratch, "'null'", "[[workload]]\nkind = 'latency'\ncount = 60000\nloaded = false\n");
    let mut killed = Process::spawn("the lab", lab(&["run", &plan, "--out", &out("killed")])).unwrap();
    let tag = format!("adit-{}-", killed.id());
    let places = [Path::new("/run/netns").to_owned(), std::env::temp_dir()];
    let is_begun = || Path::new(&out("killed")).join("plan.toml").exists();
    let is_there = || is_begun() && left(&places[0], &tag) == 2 && left(&places[1], &tag) == 1;
    wait_until("the tunnel's namespaces", MAX_WAIT, is_there).unwrap();
    killed.kill().unwrap();
    assert!(is_there(), "nothing is left to remove: this test says nothing");

    let plan = small_plan(&scratch, "'veth'", ECHOES);
    let output = lab(&["run", &plan, "--out", &out("next")]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!((left(&places[0], &tag), left(&places[1], &tag)), (0, 0));
}

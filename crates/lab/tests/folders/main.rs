//! The program with made-up folders of results.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod schema;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use adit_testbed::{Scratch, can_run};
use serde_json::{Value, json};

const PLAN: &str = "title = 'Made up'\nstudy = 'dekker-2020'\nrounds = 3\nsubjects = ['veth', 'strongswan']\n\
                    [[link]]\nname = '1 \"Gbit\", <b>'\nrate = 1000000000\n[[workload]]\nkind = 'tcp'\n\
                    [[workload]]\nkind = 'sweep'\nsize = 64\n";

fn environment() -> Value {
    json!({
        "format": 1, "command": "adit-lab run made-up", "lab": "0.0.1", "date": "2026-01-02 03:04",
        "kernel": "6.1", "processor": "P", "processors": 2, "memory_kib": 1024, "load_average": 0.1,
        "subjects": { "veth": "installed: part of the kernel" },
        "stand_ins": { "strongswan": "the kernel's" },
    })
}

/// A folder as `run` leaves it, with so many Mbit/s over TCP.
fn folder(scratch: &Scratch, name: &str, mbit: [f64; 3]) -> PathBuf {
    let path = scratch.path().join(name);
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("plan.toml"), PLAN).unwrap();
    std::fs::write(path.join("environment.json"), environment().to_string()).unwrap();
    let link = "1 \"Gbit\", <b>";
    let mut records = String::new();
    for (round, mbit) in mbit.into_iter().enumerate() {
        for subject in ["veth", "strongswan"] {
            let cell = |workload: &str| json!({ "subject": subject, "link": link, "workload": workload, "round": round });
            let mut tcp = cell("tcp");
            tcp["figures"] = json!({ "up_mbit": mbit, "up_cpu_s_per_gb": 1000.0 / mbit });
            let mut sweep = cell("sweep-64");
            sweep["curves"] = json!({ "delivered_pps": [[10_000.0, 10_000.0], [20_000.0, 100.0 * mbit]] });
            if subject == "strongswan" {
                sweep = cell("sweep-64");
                sweep["failure"] = json!("<i>no</i> route");
            }
            records += &format!("{tcp}\n{sweep}\n");
        }
    }
    std::fs::write(path.join("records.jsonl"), records).unwrap();
    path
}

fn lab(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit-lab"));
    command.args(arguments.iter().map(AsRef::as_ref)).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn read(path: &Path, name: &str) -> String {
    std::fs::read_to_string(path.join(name)).unwrap()
}

fn published_schema() -> Value {
    serde_json::from_str(include_str!("../../results.schema.json")).unwrap()
}

#[test]
fn a_report_is_whole_and_keeps_to_the_schema() {
    let scratch = Scratch::create("lab-folders").unwrap();
    let path = folder(&scratch, "a", [900.0, 910.0, 905.0]);
    let output = lab(&[&"report", &path]);
    assert!(output.status.success(), "{}", said(&output));
    let results: Value = serde_json::from_str(&read(&path, "results.json")).unwrap();
    assert_eq!(schema::faults(&published_schema(), &results), Vec::<String>::new());
    let figures = results["figures"].as_array().unwrap();
    let labels: Vec<&str> = figures.iter().filter_map(|figure| figure["label"].as_str()).collect();
    assert!(labels.contains(&"measured") && labels.contains(&"stand-in"), "{labels:?}");
    let csv = read(&path, "results.csv");
    assert!(csv.starts_with("link,workload,subject,figure,round,value,label\n"), "{csv}");
    assert!(csv.contains("\"1 \"\"Gbit\"\", <b>\",tcp,veth,up_mbit,0,900,measured\n"), "{csv}");
    let html = read(&path, "report.html");
    for address in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(address), "the page needs something from elsewhere: {address}");
    }
    for word in ["published", "stand-in", "cannot be told here", "&lt;i&gt;no&lt;/i&gt; route", "at most"] {
        assert!(html.contains(word), "{word}");
    }
    assert!(!html.contains("<i>no") && !html.contains("<b>\""), "names break the page");
}

#[test]
fn the_schema_check_can_fail() {
    let faults = |change: fn(&mut Value)| {
        let mut results = json!({ "schema": 1, "plan": { "title": "x", "rounds": 1, "seconds": 1, "subjects": [],
            "link": [], "workload": [] }, "environment": environment(), "figures": [], "curves": [],
            "failures": [], "findings": [], "published": null });
        change(&mut results);
        schema::faults(&published_schema(), &results).join("; ")
    };
    assert_eq!(faults(|_| ()), "");
    assert!(faults(|results| results["schema"] = json!(2)).contains("/schema: 2 is none of"));
    assert!(faults(|results| results["more"] = json!(2)).contains("/more: not in the schema"));
    assert!(faults(|results| results["figures"] = json!([{}])).contains("/figures/0: link is missing"));
    assert!(faults(|results| results["plan"]["rounds"] = json!("1")).contains("/plan/rounds: \"1\" is no"));
}

#[test]
fn a_regression_is_status_1_and_a_mistake_is_status_2() {
    let scratch = Scratch::create("lab-folders").unwrap();
    let before = folder(&scratch, "before", [900.0, 910.0, 905.0]);
    let same = folder(&scratch, "same", [903.0, 899.0, 911.0]);
    let slower = folder(&scratch, "slower", [700.0, 705.0, 710.0]);
    let unsure = folder(&scratch, "unsure", [700.0, 905.0, 910.0]);
    let status = |after: &Path| lab(&[&"compare", &before, &after]).status.code();
    assert_eq!(status(&same), Some(0));
    assert_eq!(status(&slower), Some(1));
    assert_eq!(status(&unsure), Some(0), "an interval that reaches to both sides is no regression");
    let told = said(&lab(&[&"compare", &before, &slower]));
    let line = told.lines().find(|line| line.starts_with("veth,") && line.contains("up_mbit")).unwrap();
    assert!(line.contains("0.779 x (0.7") && line.ends_with("WORSE"), "{line}");
    assert_eq!(lab(&[&"compare", &before, &slower, &"--threshold", &"0.5"]).status.code(), Some(0));
    assert_eq!(status(Path::new("/nonexistent")), Some(2), "no regression, but a mistake");
    let only = |figure: &str| lab(&[&"compare", &before, &slower, &"--figures", &figure]).status.code();
    assert_eq!(only("up_mbit"), Some(1));
    assert_eq!(only("idle_p50_us"), Some(2), "nothing was compared");
    let path = same.join("records.jsonl");
    let records = read(&same, "records.jsonl");
    let left: Vec<&str> = records.lines().filter(|line| !line.contains("\"veth\"")).collect();
    std::fs::write(path, left.join("\n") + "\n").unwrap();
    assert_eq!(status(&same), Some(1), "veth was measured before, and is not now");
}

#[test]
fn figures_of_an_emulated_processor_are_multiples_and_stand_beside_no_others() {
    let scratch = Scratch::create("lab-folders").unwrap();
    let (real, path) =
        (folder(&scratch, "real", [900.0, 910.0, 905.0]), folder(&scratch, "emulated", [10.0, 20.0, 40.0]));
    let mut emulated = environment();
    (emulated["emulated"], emulated["command"]) =
        (json!(true), json!("adit-lab run made-up --guest sid --rounds 3"));
    std::fs::write(path.join("environment.json"), emulated.to_string()).unwrap();
    let output = lab(&[&"report", &path]);
    assert!(output.status.success(), "{}", said(&output));
    let results: Value = serde_json::from_str(&read(&path, "results.json")).unwrap();
    assert_eq!(schema::faults(&published_schema(), &results), Vec::<String>::new());
    let figures = results["figures"].as_array().unwrap();
    assert!(figures.iter().all(|figure| figure["label"] == "emulated"), "{figures:?}");
    let goodput = figures.iter().find(|figure| figure["figure"] == "up_mbit").unwrap();
    assert_eq!(goodput["values"], json!([0.5, 1.0, 2.0]));
    assert!(results["published"].is_null() && results["curves"] == json!([]));
    let findings = results["findings"].as_array().unwrap();
    let told = "the processor is emulated; `adit-lab run made-up --rounds 3` tells it on a machine";
    let is_open = |finding: &Value| {
        finding["verdict"] == "cannot be told here" && finding["figure"].as_str().unwrap().starts_with(told)
    };
    assert!(!findings.is_empty() && findings.iter().all(is_open), "{findings:?}");
    let pages = said(&lab(&[&"results", &path])) + &read(&path, "report.html");
    assert!(pages.contains("to the server, Mbit/s: multiple of veth's"), "{pages}");
    assert!(
        pages.contains("The figures say nothing of any machine's speed")
            && pages.contains("| veth (emulated) | 1 ("),
        "{pages}"
    );
    assert!(!pages.contains("*Published*") && !pages.contains("876"), "{pages}");
    let output = lab(&[&"compare", &real, &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("stand beside no others"), "{}", said(&output));
}

#[test]
fn folders_that_cannot_be_read_are_named() {
    let scratch = Scratch::create("lab-folders").unwrap();
    let path = folder(&scratch, "a", [1.0, 2.0, 3.0]);
    let fails = |path: &Path, part: &str| {
        let output = lab(&[&"report", &path]);
        assert_eq!(output.status.code(), Some(2));
        let said = said(&output);
        assert!(said.contains(part) && said.contains(&path.display().to_string()), "{said}");
    };
    fails(&scratch.path().join("none"), "No such file");
    fails(&path.join("plan.toml"), "Not a directory");
    std::fs::write(path.join("environment.json"), "{").unwrap();
    fails(&path, "environment.json: EOF");
    let mut later = environment();
    (later["format"], later["lab"]) = (json!(7), json!("9.9"));
    std::fs::write(path.join("environment.json"), later.to_string()).unwrap();
    fails(&path, "written by adit-lab 9.9 in format 7");
    let folder = path.display().to_string();
    let output = lab(&[&"results", &folder]);
    assert!(said(&output).contains("measure again into another folder"), "{}", said(&output));
}

#[test]
fn the_page_in_the_documentation_was_written_by_this_program() {
    let head = said(&lab(&[&"results"]));
    let head = head.split("\n\nThere is no run").next().unwrap();
    assert!(
        include_str!("../../../../docs/measure/results/README.md").starts_with(head),
        "write it again: adit-lab results --out docs/measure/results"
    );
}

#[test]
fn each_run_has_a_page_of_markdown_and_the_index_names_them() {
    let scratch = Scratch::create("lab-folders").unwrap();
    let (one, other) =
        (folder(&scratch, "one", [900.0, 910.0, 905.0]), folder(&scratch, "other", [700.0, 705.0, 710.0]));
    let pages = scratch.path().join("pages");
    let output = lab(&[&"results", &one, &other, &"--out", &pages]);
    assert!(output.status.success(), "{}", said(&output));
    let read = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    let (index, first, second) = (read("README.md"), read("made-up.md"), read("made-up-2.md"));
    for name in ["made-up.md", "made-up-2.md"] {
        let line = format!("| [Made up]({name}) | `adit-lab run made-up` | 2026-01-02 03:04 UTC |\n");
        assert!(index.contains(&line), "{index}");
    }
    for page in [&first, &second] {
        assert!(page.starts_with("# Made up\n"), "{page}");
        assert!(page.contains("`adit-lab run made-up`, 2026-01-02 03:04 UTC"), "{page}");
        assert!(page.contains("| strongswan (stand-in) |"), "{page}");
    }
    assert!(first.contains("| veth | 905 (900–910) |") && second.contains("| veth | 705 (700–710) |"));
    let printed = said(&lab(&[&"results", &one, &other]));
    assert_eq!(printed.matches("\n# Made up\n").count(), 2, "{printed}");
}

#[test]
fn a_full_disk_leaves_the_report_that_was_there() {
    if !can_run("a_full_disk_leaves_the_report_that_was_there", &["unshare"]) {
        return;
    }
    let scratch = Scratch::create("lab-folders").unwrap();
    let (from, disk) = (folder(&scratch, "from", [1.0, 2.0, 3.0]), scratch.path().join("disk"));
    std::fs::create_dir(&disk).unwrap();
    let script = format!(
        "cp {}/* \"$DIR\" && echo old > \"$DIR/report.html\" && \"$LAB\" report \"$DIR\"; echo $?; cat \"$DIR/report.html\"",
        from.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("mount -t tmpfs -o size=24k tmpfs \"$DIR\" && {script}")]);
    command.env("DIR", &disk).env("LAB", env!("CARGO_BIN_EXE_adit-lab"));
    let output = command.output().unwrap();
    assert!(said(&output).contains("No space left on device"), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("2\nold"), "{}", said(&output));
}

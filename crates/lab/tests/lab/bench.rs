//! The code that the tests share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use adit_testbed::Scratch;

/// Programs that every run needs.
pub(crate) const NEEDED: [&str; 5] = ["tc", "iperf3", "ethtool", "openssl", "unshare"];

/// The lab, with these arguments.
pub(crate) fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit-lab"));
    command.args(arguments);
    command
}

/// The output of a run, in one text: both streams.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A plan of these subjects that takes some seconds.
pub(crate) fn small_plan(scratch: &Scratch, subjects: &str, loads: &str) -> String {
    let text = format!("title = 'x'\nrounds = 1\nseconds = 1\nsubjects = [{subjects}]\n{loads}");
    scratch.write("plan.toml", &text).unwrap().to_str().unwrap().to_owned()
}

/// A file of a run's folder as JSON.
pub(crate) fn json(out: &Path, name: &str) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(out.join(name)).unwrap()).unwrap()
}

/// The adit beside the lab, which is built now if it is missing.
pub(crate) fn adit() -> PathBuf {
    built("adit")
}

/// The folder of the load generators beside the lab, which are built now if they are missing.
pub(crate) fn load() -> PathBuf {
    built("adit-load-ike");
    built("adit-load-wireguard");
    built("adit-load-openvpn").parent().unwrap().to_owned()
}

fn built(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_adit-lab")).with_file_name(name);
    if !path.exists() {
        let status =
            Command::new(env!("CARGO")).args(["build", "--workspace", "--bin", name]).status().unwrap();
        assert!(status.success(), "{name} does not build: {status}");
    }
    path
}

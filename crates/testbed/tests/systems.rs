//! Roots of other releases of Debian, and guests with their kernels.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{Guest, Kernel, MAX_WAIT, Namespace, Root, Scratch, can_run, program};

/// How long a guest may take to boot, on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(300);
/// The script that makes roots and kernels.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/debian-systems");

fn shell(words: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", words]);
    command
}

#[test]
fn a_program_of_a_root_runs_in_a_namespace_and_leaves_nothing_mounted() {
    let name = "a_program_of_a_root_runs_in_a_namespace_and_leaves_nothing_mounted";
    let Some(root) = Root::for_test(name, "unstable") else { return };
    let namespace = Namespace::create("root").unwrap();
    namespace.ip(&["link", "add", "mine", "type", "veth"]).unwrap();
    let scratch = Scratch::create("root").unwrap();
    let file = scratch.write("file", "written here\n").unwrap();
    let mut command = root.command("sh").unwrap();
    command
        .args(["-c", "ls /sys/class/net; cat \"$0\"; . /etc/os-release; echo $VERSION_CODENAME"])
        .arg(&file);
    let text = namespace.run(command).unwrap();
    assert!(text.contains("mine\n") && text.contains("written here\n"), "{text}");
    // Its release is not this system's.
    let own = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    assert!(!own.contains(text.lines().last().unwrap()), "{text}");
    let version = namespace.run({
        let mut command = root.command("openvpn").unwrap();
        command.arg("--version");
        command
    });
    assert!(version.unwrap().starts_with("OpenVPN 2."));
    let mounted = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounted.contains(root.path().to_str().unwrap()), "{mounted}");
    // The second time nothing is made.
    assert_eq!(Root::named("unstable").unwrap().path(), root.path());
}

#[test]
fn a_root_that_no_table_names_is_an_error() {
    if can_run("a_root_that_no_table_names_is_an_error", &[]) {
        let error = Root::named("nothing").unwrap_err().to_string();
        assert!(error.contains("no root 'nothing': unstable, "), "{error}");
    }
}

#[test]
fn without_a_network_the_kernel_or_root_that_is_missing_is_named() {
    let name = "without_a_network_the_kernel_or_root_that_is_missing_is_named";
    if !can_run(name, &["apt-get", "depmod", "mmdebstrap"]) {
        return;
    }
    let (namespace, scratch) = (Namespace::create("offline").unwrap(), Scratch::create("offline").unwrap());
    let rows = [
        (["kernel", "bookworm"], "debian-systems: no kernel of bookworm: apt-get cannot read the lists of "),
        (["root", "trixie"], "debian-systems: no root trixie: mmdebstrap did not get its packages from "),
    ];
    for (arguments, expected) in rows {
        let mut command = Command::new(SCRIPT);
        command.args(arguments).arg(scratch.path());
        let error = namespace.run(command).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn without_apt_the_kernel_that_is_missing_is_named() {
    let name = "without_apt_the_kernel_that_is_missing_is_named";
    if !can_run(name, &[]) {
        return;
    }
    let (namespace, scratch) = (Namespace::create("noapt").unwrap(), Scratch::create("noapt").unwrap());
    let needed = ["sh", "cut", "dirname", "flock", "mkdir", "rm", "sed", "sha256sum"];
    let mut command = program("env").unwrap();
    command.arg(format!("PATH={}", links(&scratch, &needed))).arg(SCRIPT);
    command.args(["kernel", "bookworm"]).arg(scratch.path());
    let error = namespace.run(command).unwrap_err().to_string();
    assert!(error.contains("debian-systems: no apt-get: kernels are packages of Debian"), "{error}");
}

/// The test of a guest, where one of its programs is missing.
#[test]
fn a_test_without_apt_says_that_it_does_not_run_and_fails_in_continuous_integration() {
    let name = "a_test_without_apt_says_that_it_does_not_run_and_fails_in_continuous_integration";
    let others = Guest::NEEDED.map(|name| if name == "apt-get" { "ip" } else { name });
    if !can_run(name, &others) {
        return;
    }
    let scratch = Scratch::create("noapt").unwrap();
    let path = links(&scratch, &others);
    let test = "a_guest_that_takes_too_long_is_ended_and_its_console_is_shown";
    let needs = format!("{test} needs the program 'apt-get'");
    for (ci, succeeds, expected) in
        [("false", true, format!("SKIPPED {}", needs.replace(" needs", ": needs"))), ("true", false, needs)]
    {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env("PATH", &path).env("CI", ci);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() == succeeds && text.contains(&expected), "{text}");
    }
}

/// A folder of links to those programs, as a PATH of nothing else.
fn links(scratch: &Scratch, names: &[&str]) -> String {
    let folder = scratch.path().join("programs");
    std::fs::create_dir(&folder).unwrap();
    for name in names {
        symlink(program(name).unwrap().get_program(), folder.join(name)).unwrap();
    }
    folder.display().to_string()
}

#[test]
fn a_guest_runs_commands_with_its_own_kernel_and_ends() {
    let guest = Guest::new(Kernel::Bookworm);
    if !guest.is_ready("a_guest_runs_commands_with_its_own_kernel_and_ends") {
        return;
    }
    let mut command =
        shell("uname -r; echo \"$WORD\"; ip link add wg0 type wireguard && wg show interfaces; exit 3");
    command.env("WORD", "it's here");
    let report = guest.run(&command, LIMIT).unwrap();
    let lines: Vec<&str> = report.output.lines().collect();
    assert!(matches!(lines[..], [release, "it's here", "wg0"] if release.starts_with("6.1.")), "{report:?}");
    assert_eq!(report.status, 3);
}

/// Ten minutes of sleep are longer than the limit.
#[test]
fn a_virtual_clock_skips_what_a_guest_sleeps_and_its_folder_comes_back() {
    let scratch = Scratch::create("folder").unwrap();
    let guest = Guest::new(Kernel::Bookworm).with_virtual_clock();
    let guest = guest.with_returned_folder(Path::new("/filled"), scratch.path());
    if !guest.is_ready("a_virtual_clock_skips_what_a_guest_sleeps_and_its_folder_comes_back") {
        return;
    }
    let seconds = if guest.has_virtual_clock().unwrap() { 600 } else { 1 };
    let words = format!("sleep {seconds}; mkdir -p /filled/below; echo there >/filled/below/file");
    let report = guest.run(&shell(&words), LIMIT).unwrap();
    assert_eq!(report.status, 0, "{report:?}");
    assert_eq!(std::fs::read_to_string(scratch.path().join("below/file")).unwrap(), "there\n");
}

#[test]
fn a_guest_that_takes_too_long_is_ended_and_its_console_is_shown() {
    let guest = Guest::new(Kernel::Bookworm);
    if !guest.is_ready("a_guest_that_takes_too_long_is_ended_and_its_console_is_shown") {
        return;
    }
    let started = Instant::now();
    let error = guest.run(&shell("sleep 1000"), Duration::from_secs(3)).unwrap_err();
    assert!(started.elapsed() < MAX_WAIT);
    assert!(error.to_string().contains("within 3s") && error.to_string().contains("its console:"), "{error}");
}

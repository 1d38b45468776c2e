//! The operations that a process with a WireGuard file may still do, and that the tunnel can do all it must.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{can_run, wait_until, wait_until_reachable, wireguard_socket};

use super::bed::{End, PROGRAMS, WAIT};
use super::running_files::{Running, write};
use crate::management::status::status_of;
use crate::privileges::user_and_group::{NET_ADMIN, rights, rights_of_threads};

/// `CAP_NET_BIND_SERVICE` in the kernel's masks (capability.h).
const NET_BIND_SERVICE: u64 = 1 << 10;
/// The user that the tunnel's process becomes.
const NOBODY: u32 = 65_534;
/// An address of the server that the file does not have at first.
const OTHER: &str = "192.0.2.9";

/// The helpers of a process: its children that are no hooks.
pub(super) fn helpers_of(process: u32) -> Vec<u32> {
    let children = |task: PathBuf| fs::read_to_string(task.join("children")).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|task| task.unwrap().path());
    let numbers: String = tasks.map(children).collect();
    let numbers = numbers.split_whitespace().map(|number| number.parse().unwrap());
    let is_adit = |number: &u32| {
        fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|program| program.ends_with("adit"))
    };
    numbers.filter(is_adit).collect()
}

/// Checks that each thread is that of `nobody`, without a capability, and in the sandbox.
fn has_no_right(process: u32) {
    let threads = rights_of_threads(process);
    assert!(threads.len() > 4, "{threads:?}");
    for rights in threads {
        let sets = [rights.effective, rights.permitted, rights.inheritable, rights.bounding, rights.ambient];
        assert_eq!(sets, [0; 5], "{rights:?}");
        assert_eq!((rights.no_new_privileges, rights.seccomp), (1, 2), "{rights:?}");
        assert_eq!((rights.user, rights.group), (NOBODY, NOBODY), "{rights:?}");
    }
}

/// Checks the rights that the hooks of [`hooks`] report.
fn has_all_rights(report: &Path) {
    wait_until("the hook", WAIT, || fs::read_to_string(report).is_ok_and(|text| text.contains("Seccomp")))
        .unwrap();
    let rights = rights(report);
    assert_eq!((rights.user, rights.no_new_privileges, rights.seccomp), (0, 0, 0), "{rights:?}");
    assert_ne!(rights.effective & NET_ADMIN, 0, "{rights:?}");
}

/// Hooks that write down their rights, in a directory that the test knows before there is one for the file.
struct Reports(adit_testbed::Scratch);

impl Reports {
    fn new() -> Self {
        Reports(adit_testbed::Scratch::create("hooks").unwrap())
    }

    fn of(&self, hook: &str) -> PathBuf {
        self.0.path().join(hook)
    }

    fn lines(&self) -> String {
        let line = |hook: &str| format!("{hook} = cat /proc/self/status >{}", self.of(hook).display());
        let hooks = ["PostUp", "PreDown", "PostDown"].map(line).join("\n");
        format!("SaveConfig = true\n{hooks}")
    }
}

/// Checks the operations of a running tunnel that need a right, and its end.
fn does_all_it_must(running: &mut Running, reports: &Reports) {
    let [server, client] = &running.ends;
    has_all_rights(&reports.of("PostUp"));
    let kept = client.state.join(format!("wireguard/{}.tai64n", client.device));
    assert_eq!(fs::read_to_string(&kept).unwrap().len(), 25, "the timestamp");

    // The mark is that of the datagrams.
    for family in ["-4", "-6"] {
        client.namespace.ip(&[family, "rule", "add", "fwmark", "0x77", "prohibit"]).unwrap();
    }
    client.wg("set DEV fwmark 0x77").unwrap();
    assert_eq!(client.wg("show DEV fwmark").unwrap().trim(), "0x77");
    assert!(!client.is_answered(server.inner()));
    client.wg("set DEV listen-port 500").unwrap();
    assert_eq!(client.wg("show DEV listen-port").unwrap().trim(), "500");
    assert!(!client.is_answered(server.inner()), "a new socket has the mark, too");
    client.wg("set DEV fwmark 0").unwrap();
    wait_until_reachable(&client.namespace, server.inner(), WAIT).unwrap();
    wait_until("the new port", WAIT, || server.endpoint(client).ends_with(":500")).unwrap();
    assert!(client.wg("set DEV listen-port 1").is_ok(), "any port that is free");

    // SIGHUP, with names, which the helper resolves.
    assert!(!client.is_answered(OTHER.parse().unwrap()));
    write(&running.ends.each_ref(), &running.file, &reports.lines(), &format!(", {OTHER}/32"));
    let text = fs::read_to_string(&running.file).unwrap();
    let third = "[Peer]\nPublicKey = AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\nEndpoint = localhost:7\n";
    fs::write(&running.file, text + third).unwrap();
    let mark = running.adit.mark();
    running.adit.hang_up();
    if let Err(error) = running.adit.wait_for_line(mark, " holds", WAIT) {
        panic!("{error}\n{}", running.adit.log());
    }
    wait_until_reachable(&client.namespace, OTHER.parse().unwrap(), WAIT).unwrap();
    let endpoints = client.wg("show DEV endpoints").unwrap();
    assert!(endpoints.contains("127.0.0.1:7") || endpoints.contains("[::1]:7"), "{endpoints}");

    assert!(running.adit.terminate(WAIT).unwrap().success(), "{}", running.adit.log());
    for hook in ["PreDown", "PostDown"] {
        has_all_rights(&reports.of(hook));
    }
    let text = fs::read_to_string(&running.file).unwrap();
    assert!(text.contains("ListenPort = 1\n") && text.contains("AQEBAQ"), "{text}\n{}", running.adit.log());
    assert!(!wireguard_socket(&client.device).exists(), "the socket was left");
    assert!(!client.namespace.devices().unwrap().contains(&client.device), "the device was left");
}

#[test]
fn no_thread_of_a_files_process_has_a_right() {
    if !can_run("no_thread_of_a_files_process_has_a_right", &PROGRAMS) {
        return;
    }
    let reports = Reports::new();
    let mut running = Running::start(&reports.lines(), "");
    let process = running.adit.id();
    has_no_right(process);
    for layer in ["bounding-set", "landlock", "seccomp"] {
        assert_eq!(status_of(process)["sandbox"][layer]["state"], "on", "{layer}");
    }
    let helpers = helpers_of(process);
    assert_eq!(helpers.len(), 1);
    for rights in rights_of_threads(helpers[0]) {
        assert_eq!(rights.permitted, NET_ADMIN | NET_BIND_SERVICE, "{rights:?}");
        assert_eq!((rights.no_new_privileges, rights.seccomp), (1, 2), "{rights:?}");
    }
    does_all_it_must(&mut running, &reports);
    wait_until("its helper to go", WAIT, || !Path::new(&format!("/proc/{}", helpers[0])).exists()).unwrap();
}

/// The server of an OpenVPN file, made by `adit init`.
fn server_file(client: &End) -> Vec<PathBuf> {
    let directory = client.scratch.path().join("openvpn");
    let mut init = Command::new(env!("CARGO_BIN_EXE_adit"));
    init.arg("init").arg(&directory).args(["--endpoint", "192.0.2.1"]);
    client.namespace.run(init).unwrap();
    // Sockets that share a port are made one by one.
    vec![directory.join("server.conf"), PathBuf::from("--workers=2")]
}

#[test]
fn no_thread_of_a_process_with_files_of_both_kinds_has_a_right() {
    if !can_run("no_thread_of_a_process_with_files_of_both_kinds_has_a_right", &PROGRAMS) {
        return;
    }
    let reports = Reports::new();
    let mut running = Running::start_with(server_file, &reports.lines(), "");
    has_no_right(running.adit.id());
    assert_eq!(helpers_of(running.adit.id()).len(), 2);
    does_all_it_must(&mut running, &reports);
}

#[test]
fn a_file_in_a_users_directory_is_read_and_saved() {
    if !can_run("a_file_in_a_users_directory_is_read_and_saved", &PROGRAMS) {
        return;
    }
    let give = |client: &End| {
        chown(client.scratch.path(), Some(NOBODY), None).unwrap();
        Vec::new()
    };
    let mut running = Running::start_with(give, "SaveConfig = true", "");
    let [_, client] = &running.ends;
    fs::set_permissions(&running.file, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&running.file, Some(NOBODY), None).unwrap();
    running.adit.hang_up();
    if let Err(error) = running.adit.wait_for_line(0, " holds", WAIT) {
        panic!("{error}\n{}", running.adit.log());
    }
    client.wg("set DEV listen-port 4711").unwrap();
    assert!(running.adit.terminate(WAIT).unwrap().success());
    let text = fs::read_to_string(&running.file).unwrap();
    assert!(text.contains("ListenPort = 4711\n"), "{text}\n{}", running.adit.log());
}

#[test]
fn without_a_sandbox_a_files_process_has_no_capability_all_the_same() {
    if !can_run("without_a_sandbox_a_files_process_has_no_capability_all_the_same", &PROGRAMS) {
        return;
    }
    let mut running = Running::start_with(|_| vec![PathBuf::from("--no-sandbox")], "", "");
    for rights in rights_of_threads(running.adit.id()) {
        assert_eq!((rights.effective | rights.permitted, rights.seccomp), (0, 0), "{rights:?}");
        assert_ne!(rights.user, 0, "{rights:?}");
    }
    running.ends[1].wg("set DEV listen-port 500 fwmark 7").unwrap();
    assert!(running.adit.terminate(WAIT).unwrap().success());
}

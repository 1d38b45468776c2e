//! `adit adopt`: a server of OpenVPN that has a client is run by adit, and by OpenVPN again. A stand-in for systemd runs the unit;
//! `scripts/test-packages` has systemd itself run such units.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use adit_testbed::{Scratch, can_run, program};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

/// The time for all steps; only an event that has to happen ends one.
const WAIT: Duration = Duration::from_secs(240);

/// systemd's programs, as far as adit calls them.
const STAND_IN: [(&str, &str); 3] = [
    ("systemctl", include_str!("adopt/systemctl")),
    ("busctl", include_str!("adopt/busctl")),
    ("journalctl", "#!/bin/sh\ntail -n 8 \"$STATE/log\"\n"),
];

/// Namespaces in which the stand-in's directories, and all that it starts, are gone with the shell.
pub(crate) const NAMESPACES: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A folder with programs in the place of systemd's.
pub(crate) fn stand_in() -> Scratch {
    let scratch = Scratch::create("adopt").unwrap();
    for (name, text) in STAND_IN {
        let path = scratch.write(name, text).unwrap();
        set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    scratch
}

#[test]
fn a_server_with_a_client_is_adopted_and_given_back() {
    if !can_run("adopt", &[PROGRAMS[0], PROGRAMS[1], "unshare", "mount"]) {
        return;
    }
    let scratch = stand_in();
    let mut bed = Bed::build(&Options::BASE, Program::OpenVpn, &[Program::Adit]).unwrap();
    let (config, openvpn) = (bed.server.config(), program("openvpn").unwrap());
    let openvpn = openvpn.get_program().to_str().unwrap();
    let own =
        format!("{openvpn} --suppress-timestamps --config {}", config.file_name().unwrap().to_str().unwrap());
    let mut shell = program("unshare").unwrap();
    shell.args(NAMESPACES).args(["sh", "-c", include_str!("adopt/steps")]);
    shell.arg(env!("CARGO_BIN_EXE_adit")).arg(scratch.path());
    shell.env("OPENVPN", openvpn).env("OWN", own).env("DIRECTORY", config.parent().unwrap());
    let mut steps = bed.server.namespace.spawn("adit adopt", shell).unwrap();
    bed.clients[0].start().unwrap();
    let status = steps.wait(WAIT).unwrap();
    assert!(status.success(), "{}\n{}", steps.log(), bed.logs());
    bed.clients[0].stop().unwrap();
    bed.server.no_device_left().unwrap();
}

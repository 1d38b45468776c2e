//! The setting of the name servers that a server pushes: called as `openvpn`, adit leaves them alone, as OpenVPN 2.6
//! does, unless its file asks for them.
//!
//! The client runs with a copy of `/etc` in the place of the machine's, and without the system's bus and systemd-resolved.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use adit_testbed::{Scratch, can_run, program, wait_until};

use super::{COMPLETED, WAIT};
use crate::authentication::passwords::script;
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const BEFORE: &str = "nameserver 192.0.2.53\n";
const PUSHED: &str = "nameserver 10.8.0.1\n";

/// `SCRATCH COMMAND...`: runs the command with `SCRATCH/etc` for `/etc`.
const MOUNTS_OF_ITS_OWN: &str = "set -eu
scratch=$0
cp -a /etc \"$scratch/etc\"
rm -f \"$scratch/etc/resolv.conf\"
cp \"$scratch/before\" \"$scratch/etc/resolv.conf\"
chmod 644 \"$scratch/etc/resolv.conf\"
mkdir -p \"$scratch/etc/openvpn\"
cp -a \"$scratch/update-resolv-conf\" \"$scratch/etc/openvpn/update-resolv-conf\"
mount --bind \"$scratch/etc\" /etc
for hidden in /run/dbus /run/systemd; do if [ -d $hidden ]; then mount -t tmpfs tmpfs $hidden; fi; done
exec \"$@\"";

/// A stand-in for Debian's: it takes the first name server that was pushed, and puts back the file that was
/// there.
const UPDATE: &str = "case $script_type in
up) cp /etc/resolv.conf /etc/resolv.conf.before; echo \"nameserver ${foreign_option_1##* }\" >/etc/resolv.conf ;;
down) cp /etc/resolv.conf.before /etc/resolv.conf ;;
esac
";

/// A client with these lines, and how it is called.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// As `openvpn`; otherwise `adit up`.
    personality: bool,
    lines: &'static str,
    /// The name servers are those that the server pushes.
    sets: bool,
}

const fn openvpn(lines: &'static str, sets: bool) -> Case {
    Case { personality: true, lines, sets }
}

const CASES: [Case; 7] = [
    openvpn("", false),
    openvpn("dns-updown disable\n", false),
    openvpn("dns-updown force\n", true),
    openvpn("script-security 2\nup /bin/true\n", false),
    openvpn(
        "script-security 2\nup /etc/openvpn/update-resolv-conf\ndown /etc/openvpn/update-resolv-conf\n",
        true,
    ),
    // Their program is not there: adit takes its place.
    openvpn("up /etc/openvpn/update-systemd-resolved\n", true),
    Case { personality: false, lines: "", sets: true },
];

fn run(case: Case) {
    let scratch = Scratch::create("names").unwrap();
    scratch.write("before", BEFORE).unwrap();
    script(&scratch, "update-resolv-conf", UPDATE);
    let mut bed =
        Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |_, [server, client]| {
            server.push_str("push \"dhcp-option DNS 10.8.0.1\"\n");
            client.push_str(case.lines);
        })
        .unwrap();
    bed.server.start().unwrap();
    let client = &bed.clients[0];
    let mut unshare: Command = program("unshare").unwrap();
    unshare
        .args(["--mount", "sh", "-c", MOUNTS_OF_ITS_OWN])
        .arg(scratch.path())
        .arg(env!("CARGO_BIN_EXE_adit"));
    unshare.args(if case.personality { ["openvpn", "--config"] } else { ["up", "--exit-with-first"] });
    unshare.arg(client.config());
    let mut process = client.namespace.spawn(&format!("{case:?}"), unshare).unwrap();
    let is_up = if case.personality { COMPLETED } else { Program::Adit.up_line() };
    process.wait_for_line(0, is_up, WAIT).unwrap();
    let file: PathBuf = scratch.path().join("etc/resolv.conf");
    let text = || fs::read_to_string(&file).unwrap_or_default();
    if case.sets {
        let set = wait_until("the pushed name server", WAIT, || text().contains(PUSHED));
        set.unwrap_or_else(|error| panic!("{case:?}: {error}\n{}\n{}", text(), process.log()));
    } else {
        assert_eq!(text(), BEFORE, "{case:?}\n{}", process.log());
    }
    assert!(process.terminate(WAIT).unwrap().success(), "{case:?}\n{}", process.log());
    let back = wait_until("the file to come back", WAIT, || text() == BEFORE);
    back.unwrap_or_else(|error| panic!("{case:?}: {error}\n{}\n{}", text(), process.log()));
}

#[test]
fn name_servers_are_left_alone_as_by_openvpn_2_6() {
    if !can_run("name servers", &[PROGRAMS[0], PROGRAMS[1], "unshare", "mount"]) {
        return;
    }
    std::thread::scope(|scope| {
        let threads = CASES.map(|case| scope.spawn(move || run(case)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

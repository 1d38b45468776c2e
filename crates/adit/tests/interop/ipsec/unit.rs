//! A connection within the limits of the unit that the packages have.

use adit_testbed::{Namespace, Scratch, can_run, program};

use super::bed::WAIT;

/// The unit.
const UNIT: &str = include_str!("../../../../../packaging/systemd/adit@.service");

/// Without `CAP_NET_RAW` there is no socket for ESP as an IP protocol, and no tunnel.
#[test]
fn the_unit_leaves_the_capabilities_that_a_file_of_swanctl_needs() {
    if !can_run("capabilities of the unit", &["setpriv"]) {
        return;
    }
    let kept = UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let kept: String =
        kept.split(' ').map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase())).collect();
    let namespace = Namespace::create("unit").unwrap();
    let scratch = Scratch::create("unit").unwrap();
    let text = "connections {\n a {\n remote_addrs = 192.0.2.1\n local {\n auth = psk\n id = a.example\n }\n remote {\n auth = psk\n }\n \
                children {\n b {\n remote_ts = 10.1.0.0/16\n }\n }\n }\n}\nsecrets {\n ike-a {\n secret = \"of both ends\"\n }\n}\n";
    let file = scratch.write(&format!("unit-{}.conf", std::process::id()), text).unwrap();
    let mut command = program("setpriv").unwrap();
    command.args([
        &format!("--bounding-set=-all{kept}"),
        "--inh-caps=-all",
        env!("CARGO_BIN_EXE_adit"),
        "up",
    ]);
    command.arg(file);
    let mut adit = namespace.spawn("adit", command).unwrap();
    adit.wait_for_line(0, "tunnel up: ", WAIT).unwrap();
}

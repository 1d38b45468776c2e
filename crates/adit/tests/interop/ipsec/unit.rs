//! A connection within the limits of the unit that the packages have, and `swanctl` beside it.

use adit_testbed::{Namespace, Scratch, can_run, program};

use super::bed::WAIT;

/// The unit.
const UNIT: &str = include_str!("../../../../../packaging/systemd/adit@.service");

/// The links that packages make in `/run`.
const LINKS: &str = include_str!("../../../../../packaging/tmpfiles.d/adit.conf");

/// Without `CAP_NET_RAW` there is no socket for ESP as an IP protocol, and no tunnel.
#[test]
fn the_unit_leaves_the_capabilities_that_a_file_of_swanctl_needs() {
    if !can_run("capabilities of the unit", &["setpriv", "swanctl"]) {
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
    // As `ProtectSystem=strict` and `RuntimeDirectory=adit` have it: no file can be made in /run itself.
    assert!(UNIT.contains("\nProtectSystem=strict\n") && UNIT.contains("\nRuntimeDirectory=adit "));
    let link = LINKS.lines().find_map(|line| line.strip_prefix("L /run/charon.vici - - - - ")).unwrap();
    let adit = env!("CARGO_BIN_EXE_adit");
    for make_link in [format!("ln -s {link} /run/charon.vici"), "true".to_owned()] {
        let script = format!(
            "mount -t tmpfs none /run && mkdir /run/adit && mount -t tmpfs none /run/adit && {make_link} && \
             mount -o remount,ro /run && exec setpriv --bounding-set=-all{kept} --inh-caps=-all {adit} up {}",
            file.display()
        );
        let mut command = program("unshare").unwrap();
        command.args(["-m", "sh", "-c", &script]);
        let mut adit = namespace.spawn("adit", command).unwrap();
        adit.wait_for_line(0, "tunnel up: ", WAIT).unwrap();
        let run = format!("/proc/{}/root/run", adit.id());
        let socket = match make_link.as_str() {
            "true" => "adit/charon.vici",
            _ => "charon.vici",
        };
        let mut swanctl = program("swanctl").unwrap();
        swanctl.args(["--stats", "--uri", &format!("unix://{run}/{socket}")]);
        let stats = namespace.run(swanctl).unwrap();
        assert!(stats.contains("IKE_SAs: 0 total"), "{stats}");
        assert_eq!(adit.log_tail().contains("swanctl --uri"), make_link == "true", "{}", adit.log_tail());
    }
}

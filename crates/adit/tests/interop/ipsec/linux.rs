//! The rows beside Debian unstable's strongSwan with Linux's ESP, in a guest (`kernel_peers.rs`), beside those of `many.rs`.

use adit_testbed::{PingReport, wait_until};

use super::bed::{End, Program, Settings, WAIT, is_linux_ready, joined, pair, roles, row_of};
use super::rekeys::under_pings;

const PEER: Program = Program::LinuxStrongSwan;
/// The lines of `adit status` about a child SA.
const RAW: &str = "c: ESP AES-256-GCM";
const IN_UDP: &str = "c: ESP in UDP AES-256-GCM";

fn reach(ends: &[End; 2]) {
    ends[1].reaches(&ends[0]);
    ends[0].reaches(&ends[1]);
}

/// adit's end and Linux's.
fn sorted(ends: &[End; 2]) -> [&End; 2] {
    let [first, second] = ends;
    if first.program == Program::Adit { [first, second] } else { [second, first] }
}

/// Linux has a child SA's two directions, in UDP or not.
fn has_sas(linux: &End, in_udp: bool) {
    let states = linux.namespace.ip(&["xfrm", "state"]).unwrap();
    assert_eq!(states.matches("proto esp").count(), 2, "{states}");
    assert_eq!(states.matches("encap type espinudp").count(), if in_udp { 2 } else { 0 }, "{states}");
}

/// Over that family: ESP in UDP if a file demands it, else raw.
fn carries_esp(programs: [Program; 2], is_v6: bool, connection: &[String; 2]) {
    let in_udp = !connection[0].is_empty();
    let ends = pair(programs, &Settings { is_v6, connection: connection.clone(), ..Settings::default() });
    reach(&ends);
    let [adit, linux] = sorted(&ends);
    let status = adit.status();
    assert!(status.contains(if in_udp { IN_UDP } else { RAW }), "{status}");
    has_sas(linux, in_udp);
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn esp_goes_raw_over_both_families() {
    if !is_linux_ready("ipsec beside Linux") {
        return;
    }
    for (name, is_v6) in [("raw ESP over IPv4", false), ("raw ESP over IPv6", true)] {
        for programs in roles(PEER) {
            row_of(name, programs, |programs| carries_esp(programs, is_v6, &Default::default()));
        }
    }
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn throughout_esp_goes_in_udp_over_both_families() {
    if !is_linux_ready("ipsec in UDP beside Linux") {
        return;
    }
    let encap = ["encap = yes"; 2].map(str::to_owned);
    for (name, is_v6) in [("ESP in UDP over IPv6", true), ("ESP in UDP over IPv4", false)] {
        for programs in roles(PEER) {
            row_of(name, programs, |programs| carries_esp(programs, is_v6, &encap));
        }
    }
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn rekeys_beside_linux_lose_no_packet() {
    if !is_linux_ready("ipsec rekeys beside Linux") {
        return;
    }
    for programs in roles(PEER) {
        let mut ends =
            joined(programs, &Settings { esp: ["aes256gcm16-x25519-esn"; 2], ..Settings::default() });
        ends.iter_mut().for_each(End::start_with_vici);
        ends[1].reaches(&ends[0]);
        for by in [Program::Adit, PEER] {
            row_of(&format!("rekeys of both kinds by {by}"), programs, |_| rekeys_lose_nothing(&ends, by));
        }
    }
}

/// That end rekeys its child SA, and then its IKE SA.
fn rekeys_lose_nothing(ends: &[End; 2], by: Program) {
    let [_, linux] = sorted(ends);
    let by = ends.iter().find(|end| end.program == by).unwrap();
    let (ike, child) = (linux.ike_sas(), linux.child_sas("c"));
    let reports = under_pings(ends, 75, || {
        by.control(&["--rekey", "--child", "c"]).unwrap();
        let is_rekeyed = || linux.child_sas("c").iter().any(|spi| !child.contains(spi));
        wait_until("another child SA", WAIT, is_rekeyed).unwrap();
        by.control(&["--rekey", "--ike", "t"]).unwrap();
    });
    assert!(reports.iter().all(PingReport::is_clean), "{reports:?}\n{}", linux.log());
    linux.settles(&[ike, child].concat());
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn a_packet_brings_a_child_up_beside_linux() {
    if !is_linux_ready("ipsec trap beside Linux") {
        return;
    }
    row_of("trap", [Program::Adit, PEER], |programs| {
        let mut ends = joined(programs, &Settings { start: "trap", ..Settings::default() });
        ends.iter_mut().for_each(End::start);
        let [_, linux] = sorted(&ends);
        assert_eq!(linux.ike_sas().len(), 0, "nothing has asked for it");
        ends[1].reaches(&ends[0]);
        wait_until("the IKE SA", WAIT, || linux.ike_sas().len() == 1).unwrap();
    });
}

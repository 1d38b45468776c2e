//! Linux's own WireGuard at the other end, in a guest (`kernel_peers.rs`): beside what `with_each` runs with all programs.

use std::process::Command;
use std::time::Duration;

use adit_testbed::{Ping, transfer, wait_until_reachable};

use super::bed::{End, PORT, Program, WAIT, joined, pair};

/// Two ends with adit at either, the second of which begins.
const BOTH_WAYS: [[Program; 2]; 2] = [[Program::Adit, Program::Kernel], [Program::Kernel, Program::Adit]];
/// From one ping to the next.
const PING_EVERY: Duration = Duration::from_millis(10);

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn files_and_packets_of_all_sizes_pass() {
    for programs in BOTH_WAYS {
        let [first, second] = &pair(programs);
        for endpoint in [first.outer(), first.outer_v6()] {
            second.add_peer(first, Some(endpoint));
            second.reaches(first);
            for [from, to] in [[first, second], [second, first]] {
                for target in [to.inner(), to.inner_v6()] {
                    for size in [8, 1372, 3000, 20_000] {
                        let ping = Ping { size, ..Ping::new(2, PING_EVERY) };
                        let report = ping.run(&from.namespace, target).unwrap();
                        assert!(report.is_clean(), "{programs:?}, {size}: {report:?}");
                    }
                    assert!(transfer(&from.namespace, &to.namespace, target, 50_000).unwrap().intact);
                }
            }
        }
    }
}

/// The other end's new key is a new peer, and the old one is forgotten.
#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn a_new_private_key_is_used_at_once() {
    for programs in BOTH_WAYS {
        let [first, second] = &pair(programs);
        second.reaches(first);
        let third = End::create(3, programs[1]);
        second.wg(&format!("set DEV private-key {}", third.key_file.display())).unwrap();
        let (new, old) = (&third.public_key, &second.public_key);
        let addresses = format!("{}/32,{}/128", second.inner(), second.inner_v6());
        first.wg(&format!("set DEV peer {old} remove peer {new} allowed-ips {addresses}")).unwrap();
        second.reaches(first);
        first.reaches(second);
    }
}

/// Programs of adit's that are to make a device of a name that Linux's WireGuard has fail, and change nothing of it.
#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn an_interface_of_linux_stays_as_it_is() {
    let [first, second] = &pair([Program::Kernel, Program::Adit]);
    second.reaches(first);
    let shown = || {
        let address = first.namespace.ip(&["-oneline", "address", "show", "dev", &first.device]).unwrap();
        (address, first.wg("showconf DEV").unwrap())
    };
    let before = shown();
    let key = std::fs::read_to_string(&first.key_file).unwrap();
    let text = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.66.0.1/24\nListenPort = 40000\n\n[Peer]\nPublicKey = {}\n\
         AllowedIPs = 10.66.0.2/32\n",
        key.trim(),
        second.public_key
    );
    let file = first.scratch.write(&format!("{}.conf", first.device), &text).unwrap();
    let mut daemon = Program::Adit.command();
    daemon.arg(&first.device).env("STATE_DIRECTORY", &first.state);
    let mut up = Command::new(env!("CARGO_BIN_EXE_adit"));
    up.arg("up").arg(&file);
    for command in [daemon, up] {
        let line = format!("{command:?}");
        let mut process = first.namespace.spawn("adit", command).unwrap();
        let status = process.wait(WAIT).unwrap();
        assert!(!status.success() && process.log().contains(&first.device), "{line}: {}", process.log());
        assert_eq!(shown(), before, "{line}");
    }
    second.reaches(first);
}

/// Both ends' interfaces are in the namespace of one of them, as where both are needed on one machine.
#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn both_stand_beside_each_other_in_one_namespace() {
    let ends = joined([Program::Adit, Program::Kernel]);
    let [first, second] = &ends;
    for end in &ends {
        end.start().unwrap();
        end.set_key();
    }
    first.add_peer(second, None);
    second.add_peer(first, Some(first.outer()));
    ends.iter().for_each(End::bring_up);
    let other = super::bed::device('s');
    first.namespace.ip(&["link", "add", &other, "type", "wireguard"]).unwrap();
    first
        .wg(&format!("set {other} private-key {} listen-port {}", second.key_file.display(), PORT + 1))
        .unwrap();
    second.reaches(first);
    let listed = first.wg("show interfaces").unwrap();
    assert!(listed.contains(&other) && listed.contains(&first.device), "{listed}");
    first.namespace.ip(&["link", "delete", &other]).unwrap();
    wait_until_reachable(&second.namespace, first.inner_v6(), WAIT).unwrap();
}

//! Current programs of others at either end.

use std::sync::Barrier;

use adit_testbed::{MAX_WAIT, can_run, wait_until_reachable};

use super::bed::{End, PORT, PROGRAMS, Program, joined, pair};

/// Runs each of these tests with each program at either end. The second end begins. Those with Linux's own WireGuard run in a
/// guest (`kernel_peers.rs`), beside each other.
macro_rules! with_each {
    ($($test:path as $name:ident),* $(,)?) => {
        $crate::wireguard::others::with_each!(@ kernel_second, [Adit, Kernel]: $($test as $name),*);
        $crate::wireguard::others::with_each!(@ kernel_first, [Kernel, Adit]: $($test as $name),*);
        $crate::wireguard::others::with_each!(@ wireguard_go, WireGuardGo: $($test as $name),*);
        $crate::wireguard::others::with_each!(@ boringtun, BoringTun: $($test as $name),*);
        $crate::wireguard::others::with_each!(@ gotatun, GotaTun: $($test as $name),*);
    };
    (@ $module:ident, [$first:ident, $second:ident]: $($test:path as $name:ident),*) => {
        mod $module {
            $(
                #[test]
                #[ignore = "runs in a guest, by kernel_peers.rs"]
                fn $name() {
                    use $crate::wireguard::bed::Program;
                    $test([Program::$first, Program::$second]);
                }
            )*
        }
    };
    (@ $module:ident, $program:ident: $($test:path as $name:ident),*) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    $crate::wireguard::others::at_either_end(
                        concat!(stringify!($module), "::", stringify!($name)),
                        $crate::wireguard::bed::Program::$program,
                        $test,
                    );
                }
            )*
        }
    };
}
pub(super) use with_each;

/// Runs a test with adit at the first end, then at the second.
pub(super) fn at_either_end(name: &str, other: Program, test: fn([Program; 2])) {
    if can_run(name, &[PROGRAMS[0], "nft", other.path()]) {
        test([Program::Adit, other]);
        test([other, Program::Adit]);
    }
}

with_each! {
    super::over_both_families as packets_pass_over_ipv4_and_ipv6_outside_and_inside,
    super::preshared_key as a_preshared_key_counts,
    super::at_once as both_ends_begin_at_once,
    super::moving as either_end_may_move,
    super::restarting as either_end_may_restart,
}

/// Each family with processes of its own: wireguard-go of May 2026 sends to a wrong IPv6 address once it has sent to an IPv4
/// address (`StdNetBind.Send` copies into an `IP` that is four bytes long then).
fn over_both_families(programs: [Program; 2]) {
    for outer in [End::outer, End::outer_v6] {
        let ends = joined(programs);
        let [first, second] = &ends;
        for end in &ends {
            end.start().unwrap();
            end.set_key();
        }
        first.add_peer(second, None);
        second.add_peer(first, Some(outer(first)));
        ends.iter().for_each(End::bring_up);
        second.reaches(first);
        first.reaches(second);
        assert_eq!(first.endpoint(second), format!("{}:{PORT}", outer(second)), "{programs:?}");
        // boringtun shows none.
        let (own, other) = if programs[0] == Program::Adit { (first, second) } else { (second, first) };
        let handshake = own.wg("show DEV latest-handshakes").unwrap();
        let stamp = handshake.trim().strip_prefix(&format!("{}\t", other.public_key));
        assert!(stamp.is_some_and(|stamp| stamp != "0"), "{programs:?}: {handshake}");
    }
}

fn preshared_key(programs: [Program; 2]) {
    let ends = joined(programs);
    let [first, second] = &ends;
    let file = |byte: u8| {
        let text = adit_wireguard::PublicKey([byte; 32]).to_base64();
        first.scratch.write(&format!("psk{byte}"), &text).unwrap().display().to_string()
    };
    let settings =
        [file(1), file(2)].map(|file| format!("endpoint {}:{PORT} preshared-key {file}", first.outer()));
    for end in &ends {
        end.start().unwrap();
        end.set_key();
    }
    first.add_peer(second, None);
    second.add_peer(first, None);
    first.replace_peer(second, &format!("preshared-key {}", file(1)));
    second.replace_peer(first, &settings[1]);
    ends.iter().for_each(End::bring_up);
    assert!(!second.is_answered(first.inner()), "{programs:?}: the keys differ");
    second.replace_peer(first, &settings[0]);
    second.reaches(first);
    first.reaches(second);
}

fn at_once(programs: [Program; 2]) {
    let ends = joined(programs);
    let [first, second] = &ends;
    for (end, other) in [(first, second), (second, first)] {
        end.start().unwrap();
        end.set_key();
        end.add_peer(other, Some(other.outer()));
    }
    ends.iter().for_each(End::bring_up);
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        for (end, other) in [(first, second), (second, first)] {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                // A handshake is tried each 5 s and the jitter after the last: two that cross are both in vain.
                wait_until_reachable(&end.namespace, other.inner(), MAX_WAIT).unwrap();
            });
        }
    });
    first.reaches(second);
    second.reaches(first);
}

/// The peer of the end that moves learns its new address, or port, from the next packet.
fn moving(programs: [Program; 2]) {
    let ends = pair(programs);
    let [first, second] = &ends;
    second.reaches(first);
    for (end, other) in [(second, first), (first, second)] {
        // gotatun 0.10.2 ends now and then when its port is changed ("channel closed").
        let port = if end.program == Program::GotaTun { PORT } else { 40123 };
        if port != PORT {
            end.wg(&format!("set DEV listen-port {port}")).unwrap();
            end.reaches(other);
            assert_eq!(other.endpoint(end), format!("{}:{port}", end.outer()), "{programs:?}");
        }
        let [before, after] = [end.outer(), format!("{}0", end.outer())];
        end.namespace.ip(&["address", "delete", &format!("{before}/24"), "dev", "wire"]).unwrap();
        end.namespace.ip(&["address", "add", &format!("{after}/24"), "dev", "wire"]).unwrap();
        wait_until_reachable(&end.namespace, other.inner(), MAX_WAIT).unwrap();
        assert_eq!(other.endpoint(end), format!("{after}:{port}"), "{programs:?}");
        other.reaches(end);
    }
}

fn restarting(programs: [Program; 2]) {
    let [first, second] = pair(programs);
    second.reaches(&first);
    for (end, other) in [(&second, &first), (&first, &second)] {
        end.restart();
        end.add_peer(other, Some(other.outer()));
        end.bring_up();
        end.reaches(other);
        other.reaches(end);
    }
}

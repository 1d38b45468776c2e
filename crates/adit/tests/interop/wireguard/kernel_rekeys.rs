//! 100 pings a second across two rekeys with Linux's own WireGuard, in a guest (`kernel_peers.rs`): none may be lost.

use std::time::{Duration, SystemTime};

use adit_testbed::Ping;

use super::bed::{End, Program, pair};

/// From one ping to the next.
const PING_EVERY: Duration = Duration::from_millis(10);

/// The pings across one rekey, which comes 120 s after the handshake before (the whitepaper's Rekey-After-Time).
struct Pings {
    /// From the handshake before to the first ping, without anything to send.
    silence: Duration,
    count: u16,
}

/// From three seconds before a rekey to four seconds after it.
const AROUND: Pings = Pings { silence: Duration::from_secs(117), count: 700 };
/// From a handshake to ten seconds after the rekey that follows.
const THROUGHOUT: Pings = Pings { silence: Duration::ZERO, count: 13_000 };

mod around {
    use super::{AROUND, Program, across_two_rekeys};

    #[test]
    #[ignore = "runs in a guest, by kernel_peers.rs"]
    fn no_ping_is_lost_across_two_rekeys_that_linux_begins() {
        across_two_rekeys([Program::Adit, Program::Kernel], &AROUND);
    }

    #[test]
    #[ignore = "runs in a guest, by kernel_peers.rs"]
    fn no_ping_is_lost_across_two_rekeys_that_adit_begins() {
        across_two_rekeys([Program::Kernel, Program::Adit], &AROUND);
    }
}

/// The longer form of [`around`].
mod throughout {
    use super::{Program, THROUGHOUT, across_two_rekeys};

    #[test]
    #[ignore = "runs in a guest, by kernel_peers.rs"]
    fn no_ping_is_lost_across_two_rekeys_that_linux_begins() {
        across_two_rekeys([Program::Adit, Program::Kernel], &THROUGHOUT);
    }

    #[test]
    #[ignore = "runs in a guest, by kernel_peers.rs"]
    fn no_ping_is_lost_across_two_rekeys_that_adit_begins() {
        across_two_rekeys([Program::Kernel, Program::Adit], &THROUGHOUT);
    }
}

/// Pings over IPv6 outside and inside, from the second end. It begins the rekeys, as it began the first handshake.
fn across_two_rekeys(programs: [Program; 2], pings: &Pings) {
    let [first, second] = &pair(programs);
    second.add_peer(first, Some(first.outer_v6()));
    second.reaches(first);
    let mut before = handshake(second);
    for rekey in [1, 2] {
        let due = before + pings.silence;
        std::thread::sleep(due.saturating_sub(SystemTime::UNIX_EPOCH.elapsed().unwrap()));
        let report = Ping::new(pings.count, PING_EVERY).run(&second.namespace, first.inner_v6()).unwrap();
        assert!(report.is_clean(), "{} of {} lost: {:?}", report.lost(), report.sent, report.missing);
        let after = handshake(second);
        assert!(after > before, "no rekey {rekey} after that of {before:?}");
        before = after;
    }
}

/// When the last handshake with the only peer of that end was, as time since 1970 in whole seconds.
fn handshake(end: &End) -> Duration {
    let shown = end.wg("show DEV latest-handshakes").unwrap();
    Duration::from_secs(shown.split_whitespace().next_back().unwrap().parse().unwrap())
}

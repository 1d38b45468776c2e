//! The programs that run ends, and the rows of the table of peers.

use std::fmt;
use std::time::Instant;

use adit_testbed::{Root, can_run};

/// Where Debian puts strongSwan's daemon.
pub(crate) const CHARON: &str = "/usr/lib/ipsec/charon";

/// A program that runs an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Adit,
    StrongSwan,
    /// Debian unstable's strongSwan, 6.1 or later, in a root of its own ([`NEWER`]).
    NewerStrongSwan,
    /// Debian unstable's strongSwan with the ESP of Linux, in a guest (`kernel_peers.rs`).
    LinuxStrongSwan,
    /// libreswan, in a guest.
    Libreswan,
    /// OpenIKED, in a guest.
    OpenIked,
}

/// The root that has the newer strongSwan.
pub(crate) const NEWER: &str = "strongswan";

/// The programs of a responder and of an initiator, adit in each role.
pub(crate) const ROLES: [[Program; 2]; 2] = roles(Program::StrongSwan);

/// The programs of a responder and of an initiator, adit in each role beside that peer.
pub(crate) const fn roles(peer: Program) -> [[Program; 2]; 2] {
    [[peer, Program::Adit], [Program::Adit, peer]]
}

/// A row of the table of peers in each role of adit. The rows are counted by the lines that begin with `row`.
pub(crate) fn row(name: &str, peer: Program, run: impl Fn([Program; 2])) {
    for programs in roles(peer) {
        row_of(name, programs, &run);
    }
}

/// A row in one role.
pub(crate) fn row_of(name: &str, programs: [Program; 2], run: impl FnOnce([Program; 2])) {
    let begin = Instant::now();
    run(programs);
    #[allow(clippy::print_stderr, reason = "rows are counted by these lines")]
    {
        eprintln!(
            "row: {name}, {} initiates beside {}: {:.1} s",
            programs[1],
            peer_of(programs),
            begin.elapsed().as_secs_f64()
        );
    }
}

/// The program beside adit.
fn peer_of(programs: [Program; 2]) -> Program {
    if programs[0] == Program::Adit { programs[1] } else { programs[0] }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Program::Adit => "adit",
            Program::StrongSwan => "strongSwan",
            Program::NewerStrongSwan => "unstable's strongSwan",
            Program::LinuxStrongSwan => "strongSwan with Linux's ESP",
            Program::Libreswan => "libreswan",
            Program::OpenIked => "OpenIKED",
        })
    }
}

/// Whether a test beside unstable's strongSwan can run here. If not, it has said so.
pub(crate) fn is_newer_ready(test: &str) -> bool {
    can_run(test, &["unshare", "swanctl", "openssl", "nft"]) && Root::for_test(test, NEWER).is_some()
}

/// Whether a test beside strongSwan with Linux's ESP can run here, in a guest. If not, it has said so.
pub(crate) fn is_linux_ready(test: &str) -> bool {
    can_run(test, &["unshare", "swanctl", "openssl", "charon-systemd"])
}

/// Whether a test beside libreswan and OpenIKED can run here, in a guest. `swanctl` asks adit. If not, it has said so.
pub(crate) fn are_others_ready(test: &str) -> bool {
    can_run(test, &["unshare", "swanctl", "ipsec", "iked", "ikectl"])
}

/// Whether a test can run here. If not, it has said so.
pub(crate) fn is_ready(test: &str) -> bool {
    can_run(test, &["unshare", "swanctl", "openssl", "nft", CHARON])
}

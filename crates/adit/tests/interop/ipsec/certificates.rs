//! Authentication by certificates.

use super::authority::{Authority, RSA};
use super::bed::{Certified, ROLES, Settings, is_ready, pair};

fn settings(certificates: [Certified; 2]) -> Settings {
    Settings { certificates: Some(certificates), ..Settings::default() }
}

#[test]
fn long_messages_go_in_fragments() {
    if !is_ready("ipsec fragments") {
        return;
    }
    let authority = Authority::new(RSA);
    let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
    let small = Settings { daemon: "fragment_size = 600", ..settings(both) };
    for programs in ROLES {
        let [first, second] = pair(programs, &small);
        second.reaches(&first);
    }
}

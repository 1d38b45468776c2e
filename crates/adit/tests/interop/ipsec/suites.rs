//! The algorithms of IKE and of ESP.

use super::bed::{ROLES, Settings, is_ready, pair};

#[test]
fn another_group_is_asked_for_and_used() {
    if !is_ready("ipsec groups") {
        return;
    }
    let settings = Settings {
        proposals: ["aes256gcm16-prfsha384-x25519", "aes256gcm16-prfsha384-ecp384-x25519"],
        ..Settings::default()
    };
    for programs in ROLES {
        let [first, second] = pair(programs, &settings);
        second.reaches(&first);
    }
}

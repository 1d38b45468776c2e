//! The algorithms of IKE and of ESP.

use super::bed::{ROLES, Settings, is_ready, pair};

#[test]
fn each_suite_carries_packets() {
    if !is_ready("ipsec suites") {
        return;
    }
    let suites = [
        ("aes128gcm16-prfsha256-ecp256", "aes128gcm16"),
        ("aes256gcm16-prfsha512-ecp384", "aes256gcm16-ecp384"),
        ("chacha20poly1305-prfsha256-ecp521", "chacha20poly1305"),
        ("aes256-sha256-x25519", "aes256-sha256"),
        ("aes128-sha512-sha384-prfsha384-x25519", "aes128-sha384"),
        ("aes192-sha384-x25519", "aes256-sha512"),
    ];
    for (ike, esp) in suites {
        for programs in ROLES {
            let settings = Settings { proposals: [ike; 2], esp: [esp; 2], ..Settings::default() };
            let [first, second] = pair(programs, &settings);
            second.reaches(&first);
        }
    }
}

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

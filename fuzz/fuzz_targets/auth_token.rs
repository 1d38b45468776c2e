//! Passwords that may be tokens of `auth-gen-token`: nothing that this server did not make is one, and its own come
//! back as they were made.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use adit_openvpn::access::TokenParams;
use adit_openvpn::fuzzing::{own_token, token};
use libfuzzer_sys::fuzz_target;

static PARAMS: LazyLock<[TokenParams; 2]> = LazyLock::new(|| {
    [Some(Duration::from_secs(3000)), None].map(|lifetime| TokenParams {
        lifetime,
        renewal: Duration::from_secs(120),
        secret: [7; 32].into(),
        external: false,
    })
});

fuzz_target!(|data: &[u8]| {
    let Some((&[change, since, made, now], rest)) = data.split_first_chunk() else { return };
    let text = String::from_utf8_lossy(rest);
    let (username, password) = text.split_once('\n').unwrap_or(("", &text));
    for params in &*PARAMS {
        assert!(!token(params, username, password, 0), "a token that this server did not make");
        assert!(!token(params, username, &format!("SESS_ID_AT_{password}"), u64::MAX));
        // Small times, and the largest there are.
        let near = [since, made, now].map(u64::from);
        own_token(params, username, near, change.into());
        own_token(params, username, near.map(|time| u64::MAX - time), change.into());
    }
});

//! Entry points for the fuzz targets to the crate's private decoders, with the promises of each. Built for
//! fuzzers and tests alone; the tests show that each entry point reaches its decoder.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use adit_core::{Dns, IpNet, is_domain};

use crate::access::TokenParams;
use crate::auth_token::{LOGIN_ID_LEN, Login, is_token, verify};
use crate::params::{Keepalive, LocalSettings};
use crate::pushed::{Pushed, Refused};

/// Reads the options of a push reply, one by one. Gives how many were taken.
///
/// # Panics
///
/// If they amount to no tunnel that could be set up, or hold an option that must not be pushed.
pub fn pushed(options: &[&str], route_nopull: bool) -> usize {
    let mut pushed = Pushed::default();
    let mut taken = 0;
    for option in options {
        match pushed.apply(option) {
            Ok(()) => taken += 1,
            Err(Refused::Ignored(why) | Refused::Fatal(why)) => assert!(!why.is_empty()),
        }
    }
    assert!(pushed.peer_id.is_none_or(|id| id < 1 << 24));
    assert!(pushed.tun_mtu.is_none_or(|mtu| (576..=1600).contains(&mtu)));
    let kept = pushed.keepalive(Keepalive::default());
    assert!(kept.ping != Some(Duration::ZERO) && kept.timeout != Some(Duration::ZERO));
    let server = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let settings = pushed.settings(&LocalSettings::default(), route_nopull, 1500, server);
    assert!(settings.addresses.len() <= 2);
    assert!(settings.routes.iter().all(|route| route.destination == route.destination.trunc()));
    let Dns { search, only_for, .. } = &settings.dns;
    assert!(search.iter().chain(only_for).all(|domain| is_domain(domain)), "{:?}", settings.dns);
    if route_nopull {
        assert!(settings.routes.is_empty() && settings.redirect.is_none());
        assert_eq!(settings.dns, Dns::default());
    }
    let of = |v4| settings.addresses.iter().filter(|it| matches!(it, IpNet::V4(_)) == v4).count();
    assert!(of(true) <= 1 && of(false) <= 1);
    taken
}

/// Judges a password that may be a token. Gives whether it is one of ours.
///
/// # Panics
///
/// If something is taken for a token that is none.
pub fn token(params: &TokenParams, username: &str, password: &str, now: u64) -> bool {
    let Some(verified) = verify(params, username, password, now) else { return false };
    assert!(is_token(password) && (!verified.nameless || !username.is_empty()));
    true
}

/// Makes a token at `made` for a client that came at `since`, and judges it.
///
/// # Panics
///
/// If it does not verify as it was made, or if it is still good with one letter changed.
pub fn own_token(params: &TokenParams, username: &str, [since, made, now]: [u64; 3], change: usize) {
    let login = Login { id: [7; LOGIN_ID_LEN], since };
    let token = login.token(params, username, made);
    let verified = verify(params, username, &token, now).expect("our own token");
    assert!(verified.login == login && !verified.nameless);
    assert!(verified.expired || (made..=made.saturating_add(params.renewal.as_secs() * 2)).contains(&now));
    let other = [username, "x"].concat();
    assert_eq!(verify(params, &other, &token, now).is_some(), username.is_empty(), "the token of another");
    let mut letters: Vec<char> = token.chars().collect();
    let index = change % letters.len();
    letters[index] = if letters[index] == 'A' { 'B' } else { 'A' };
    let forged: String = letters.into_iter().collect();
    assert_eq!(verify(params, username, &forged, now), None, "a changed token");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::judged;

    #[test]
    fn each_entry_point_reaches_its_decoder() {
        let options = ["ifconfig 10.8.0.2 255.255.255.0", "topology subnet", "dhcp-option DOMAIN $(x)"];
        assert_eq!(pushed(&options, false), 2);
        let params = judged::tokens();
        assert!(!token(&params, "ann", "s3 cret", 5));
        for change in 0..100 {
            own_token(&params, "ann", [1, 2, 3], change);
        }
    }
}

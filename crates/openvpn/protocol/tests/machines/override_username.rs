//! `override-username`: a session's username that the server's settings give.

use std::time::Duration;

use adit_core::{Command, Protocol};
use adit_openvpn::params::{ClientParams, ServerParams};
use adit_openvpn::request::PeerSettings;
use adit_openvpn::testing::Pair;
use adit_openvpn::testing::judged::{
    accepted, asked, end_of, ends, log_says, pair, renegotiate, tokens, variable, writes,
};

const VERIFY: &str = "user-pass-verify";

fn bea() -> PeerSettings {
    PeerSettings { username: Some("bea".to_owned()), ..PeerSettings::default() }
}

/// The client is `alice` by its certificate and `ann` by its password, and `client-connect` is asked.
fn connecting(change: impl FnOnce(&mut ClientParams, &mut ServerParams)) -> Pair {
    pair(|client, server| {
        server.access.client_connect = Some(vec!["/connect".to_owned()]);
        server.access.client_disconnect = Some(vec!["/leave".to_owned()]);
        change(client, server);
    })
}

/// The name and the username of the connected client.
fn names(pair: &Pair) -> (String, String) {
    let info = pair.server.peers().remove(0).1;
    (info.name, info.detail.username)
}

#[test]
fn the_session_has_the_username_of_its_settings() {
    let mut pair = connecting(|_, _| {});
    ends(&mut pair, VERIFY, 0, &[]);
    let connect = asked(&pair, "client-connect").remove(0);
    assert_eq!(variable(connect, "username"), Some("ann"));
    writes(&mut pair, Ok(bea()));
    assert!(pair.is_up());
    assert_eq!(names(&pair), ("alice".to_owned(), "bea".to_owned()));
    assert!(log_says(&pair.server_events, "alice: its username is bea from now on, not ann"));
    pair.advance(Duration::from_secs(1));
    // The client gives the same username as before.
    renegotiate(&mut pair);
    assert_eq!(variable(asked(&pair, VERIFY)[1], "username"), Some("bea"));
    ends(&mut pair, VERIFY, 0, &[]);
    assert!(pair.is_up());
    let peer = pair.server.peers().remove(0).0;
    pair.server.handle_command(pair.now, Command::Disconnect { peer });
    pair.exchange();
    let leave = asked(&pair, "client-disconnect").remove(0);
    assert_eq!(variable(leave, "username"), Some("bea"));
}

/// The token names the username of the session. The client is pushed that username, too, and connects again with both.
#[test]
fn the_token_is_of_that_username() {
    let mut pair = connecting(|client, server| {
        client.control.rekey.after = None;
        server.access.tokens = Some(tokens());
    });
    ends(&mut pair, VERIFY, 0, &[]);
    writes(&mut pair, Ok(bea()));
    assert!(pair.is_up());
    for _ in 0..2 {
        pair.advance_busy(Duration::from_secs(1400));
        renegotiate(&mut pair);
        assert!(pair.is_up());
    }
    pair.client.handle_command(pair.now, Command::Restart);
    pair.advance(Duration::from_secs(10));
    assert_eq!(asked(&pair, VERIFY).len(), 1, "the token did");
    let connect = asked(&pair, "client-connect").remove(1);
    assert_eq!(variable(connect, "username"), Some("bea"));
    writes(&mut pair, Ok(bea()));
    assert!(pair.is_up());
    assert_eq!(names(&pair).1, "bea");
}

#[test]
fn with_username_as_common_name_it_is_the_name_too() {
    let mut pair = connecting(|_, server| server.access.username_as_name = true);
    ends(&mut pair, VERIFY, 0, &[]);
    writes(&mut pair, Ok(bea()));
    assert!(pair.is_up());
    assert_eq!(names(&pair), ("bea".to_owned(), "bea".to_owned()));
}

#[test]
fn a_client_that_cannot_have_it_is_refused() {
    let long = PeerSettings { username: Some("b".repeat(65)), ..PeerSettings::default() };
    let mut too_long = connecting(|_, server| server.access.username_as_name = true);
    ends(&mut too_long, VERIFY, 0, &[]);
    writes(&mut too_long, Ok(long.clone()));
    assert!(log_says(&too_long.server_events, "too long for a name"));
    let mut unjudged = connecting(|_, server| server.access.verify = None);
    writes(&mut unjudged, Ok(bea()));
    assert!(log_says(&unjudged.server_events, "nothing has judged a username"));
    for mut pair in [too_long, unjudged] {
        // The fault is not the client's.
        assert!(!accepted(&pair) && end_of(&pair).is_none(), "{:?}", pair.server_events);
        assert!(log_says(&pair.client_events, "AUTH_FAILED,TEMP"));
        pair.advance(Duration::from_secs(10));
    }
    // Where it is no name, it may be longer.
    let mut pair = connecting(|_, _| {});
    ends(&mut pair, VERIFY, 0, &[]);
    writes(&mut pair, Ok(long));
    assert!(pair.is_up());
}

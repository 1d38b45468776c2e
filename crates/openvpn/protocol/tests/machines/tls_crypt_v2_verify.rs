//! `tls-crypt-v2-verify` and `tls-crypt-v2-max-age`: what becomes of clients by their own keys.
use std::time::Duration;

use adit_core::{Command, Protocol, Transport, UnixTime};
use adit_openvpn::params::TlsCryptV2;
use adit_openvpn::request::{Event, Reply, ScriptOutcome};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::judged::{asked, log_says, variable};
use adit_openvpn::testing::{Authority, Pair, WALL, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

const KIND: &str = "tls-crypt-v2-verify";

fn pair(transport: Transport, metadata: &Metadata, max_age: Option<Duration>, judged: bool) -> Pair {
    let authority = Authority::new();
    let key = ServerKey::from_bytes(&[9; 128]);
    let client = key.wrap(&StaticKey::from_bytes(&[7; 256]), metadata).unwrap();
    let wrap = WrapConfig::tls_crypt_v2(&client);
    let client = client_params(&authority.issue("alice", ClientAuth), wrap, transport);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    server.admission.v2 = Some(TlsCryptV2 { key: key.into(), force_cookie: true, max_age });
    server.access.key_verify = judged.then(|| vec!["/judge".to_owned()]);
    Pair::new(client, server)
}

fn answer(pair: &mut Pair, exit: Result<i32, String>) {
    let id = asked(pair, KIND).last().unwrap().id;
    let outcome = ScriptOutcome { exit, files: Vec::new(), settings: None };
    pair.server.handle_reply(pair.now, Reply::ScriptDone { id, outcome });
    pair.exchange();
}

#[test]
fn a_good_key_gets_a_control_channel_and_no_earlier() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut pair = pair(transport, &Metadata::User(b"laptop 7".to_vec()), None, true);
        let script = asked(&pair, KIND)[0];
        assert_eq!(
            (script.argv.as_slice(), variable(script, "metadata_type")),
            (&["/judge".to_owned()][..], Some("0"))
        );
        assert_eq!(
            (script.files[0].variable, script.files[0].content.as_slice()),
            (Some("metadata_file"), &b"laptop 7"[..])
        );
        assert_eq!(pair.server.half_open(), 0, "no control channel before the answer");
        // Packets that the client repeats meanwhile cause no further script.
        pair.advance(Duration::from_secs(5));
        assert_eq!((asked(&pair, KIND).len(), pair.server.half_open()), (1, 0));
        answer(&mut pair, Ok(0));
        pair.advance(Duration::from_secs(10));
        assert!(pair.is_up(), "{transport:?}");
    }
}

/// A ClientHello with a post-quantum key share takes two packets.
#[test]
fn what_came_while_the_key_was_judged_need_not_come_again() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut pair = pair(transport, &Metadata::User(b"laptop 7".to_vec()), None, true);
        answer(&mut pair, Ok(0));
        assert!(pair.is_up(), "{transport:?}: without waiting for a retransmission");
    }
}

#[test]
fn a_bad_key_gets_none_and_is_not_judged_again_at_once() {
    // That the script could not be run says nothing of the key, which is judged again soon.
    for (exit, scripts) in [(Ok(1), 1), (Err("it cannot be run".to_owned()), 2)] {
        let mut pair = pair(Transport::Udp, &Metadata::Made(UnixTime(WALL)), None, true);
        assert_eq!(asked(&pair, KIND)[0].files[0].content.len(), 8);
        answer(&mut pair, exit);
        pair.advance(Duration::from_secs(20));
        assert!(!pair.is_up() && pair.server.half_open() == 0);
        assert!(log_says(&pair.server_events, KIND));
        assert_eq!(asked(&pair, KIND).len(), scripts);
    }
    // A connection is closed.
    let mut pair = pair(Transport::Tcp, &Metadata::Made(UnixTime(WALL)), None, true);
    answer(&mut pair, Ok(1));
    assert!(pair.server_events.iter().any(|event| matches!(event, Event::Close { .. })));
}

#[test]
fn a_late_answer_about_a_lost_connection_begins_nothing() {
    let mut pair = pair(Transport::Tcp, &Metadata::User(Vec::new()), None, true);
    let path = asked(&pair, KIND).first().map(|_| pair.client_path()).unwrap();
    pair.server.handle_command(pair.now, Command::Closed { path, reason: "gone".to_owned() });
    answer(&mut pair, Ok(0));
    assert_eq!(pair.server.half_open(), 0);
}

#[test]
fn old_keys_are_turned_away_over_udp_and_tcp() {
    let age = Some(Duration::from_secs(3600));
    for transport in [Transport::Udp, Transport::Tcp] {
        assert!(pair(transport, &Metadata::Made(UnixTime(WALL - 3000)), age, false).is_up());
        assert!(!pair(transport, &Metadata::Made(UnixTime(WALL - 4000)), age, false).is_up());
        assert!(!pair(transport, &Metadata::User(Vec::new()), age, false).is_up(), "it has no date");
    }
}

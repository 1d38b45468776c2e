//! Client and server against each other, in memory and virtual time.

use std::time::Duration;

use adit_core::{Cipher, Command, Ended, Notice, PeerId, PeerOrder, Protocol, SessionId, Transport};
use adit_openvpn::codec::{Framing, session_id};
use adit_openvpn::params::{ClientParams, TlsCryptV2};
use adit_openvpn::request::{DataEvent, Event, Install};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::testing::{Authority, Pair, client_params, server_params, traffic};
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, WrapConfig};
use adit_openvpn::{TlsRole, UseLimits};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

fn pair(client_wrap: WrapConfig, server_wrap: WrapConfig, transport: Transport) -> Pair {
    let authority = Authority::new();
    let client = client_params(&authority.issue("alice", ClientAuth), client_wrap, transport);
    Pair::new(client, server_params(&authority.issue("server", ServerAuth), server_wrap))
}

fn installs(events: &[Event]) -> Vec<&Install> {
    let install = |event| match event {
        &Event::Data(DataEvent::Install(ref install)) => Some(install.as_ref()),
        _ => None,
    };
    events.iter().filter_map(install).collect()
}

fn active(events: &[Event]) -> Option<SessionId> {
    let activate = |event: &Event| match event {
        Event::Data(DataEvent::Activate { session, .. }) => Some(*session),
        _ => None,
    };
    events.iter().rev().find_map(activate)
}

fn assert_same_keys(pair: &Pair) {
    let (client, server) = (installs(&pair.client_events), installs(&pair.server_events));
    let (client, server) = (client.last().unwrap(), server.last().unwrap());
    assert_eq!(*client.codec.seal.key, *server.codec.open.key);
    assert_eq!(*client.codec.open.key, *server.codec.seal.key);
    assert_eq!(client.codec.seal.implicit_iv, server.codec.open.implicit_iv);
    assert_ne!(*client.codec.seal.key, *server.codec.seal.key);
    assert_eq!(client.codec.seal.key.len(), client.codec.cipher.key_len());
}

#[test]
fn connects_in_every_wrapping_and_transport() {
    let key = StaticKey::from_bytes(&[7; 256]);
    let auth = |direction| WrapConfig::tls_auth(&key, HmacDigest::Sha256, direction);
    let crypt = |role| WrapConfig::tls_crypt(&key, role);
    for transport in [Transport::Udp, Transport::Tcp] {
        for (client, server) in [
            (WrapConfig::Plain, WrapConfig::Plain),
            (auth(KeyDirection::Inverse), auth(KeyDirection::Normal)),
            (auth(KeyDirection::Bidirectional), auth(KeyDirection::Bidirectional)),
            (crypt(TlsRole::Client), crypt(TlsRole::Server)),
        ] {
            let pair = pair(client, server, transport);
            assert!(pair.is_up());
            assert_same_keys(&pair);
            assert_eq!(active(&pair.client_events), Some(session_id(PeerId::SERVER, 0)));
            let (_, info) = pair.server.peers().remove(0);
            assert_eq!(info.name, "alice");
            assert_eq!(
                info.addresses,
                ["10.8.0.2".parse::<std::net::IpAddr>().unwrap(), "fd00:8::1000".parse().unwrap()]
            );
            assert!(info.detail.tls.starts_with("TLSv1.3"), "{}", info.detail.tls);
        }
    }
}

#[test]
fn tls_crypt_v2_connects_and_renegotiates() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut pair = v2_pair(transport, 20, |_| {});
        assert!(pair.is_up());
        assert_same_keys(&pair);
        pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
        pair.exchange();
        assert_eq!(installs(&pair.client_events).len(), 2);
        assert_same_keys(&pair);
    }
}

#[test]
fn the_longest_tls_crypt_v2_key_and_the_smallest_packets_connect() {
    let pair = v2_pair(Transport::Udp, 733, |client| client.control.max_packet_size = 500);
    assert!(pair.is_up());
}

/// A client and a server with tls-crypt-v2; the client's key has that much metadata.
fn v2_pair(transport: Transport, metadata: usize, change: impl Fn(&mut ClientParams)) -> Pair {
    let authority = Authority::new();
    let key = ServerKey::from_bytes(&[9; 128]);
    let client = key.wrap(&StaticKey::from_bytes(&[7; 256]), &Metadata::User(vec![1; metadata])).unwrap();
    let wrap = WrapConfig::tls_crypt_v2(&client);
    let mut client = client_params(&authority.issue("alice", ClientAuth), wrap, transport);
    change(&mut client);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    server.admission.v2 = Some(TlsCryptV2 { key: key.into(), force_cookie: true, max_age: None });
    Pair::new(client, server)
}

#[test]
fn the_client_gets_its_settings_before_any_packet() {
    let pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    let settings = pair
        .client_events
        .iter()
        .find_map(|event| if let Event::Up(settings) = event { Some(settings) } else { None });
    let settings = settings.unwrap();
    assert_eq!(settings.mtu, 1500);
    assert_eq!(settings.addresses.len(), 2);
    assert_eq!(settings.routes.len(), 1);
    let position = |wanted: fn(&Event) -> bool| pair.client_events.iter().position(wanted).unwrap();
    assert!(
        position(|event| matches!(event, Event::Data(DataEvent::Peer(PeerOrder::Add(_)))))
            < position(|event| matches!(event, Event::Up(_)))
    );
    for events in [&pair.client_events, &pair.server_events] {
        let install = installs(events)[0];
        assert!(matches!(install.codec.framing, Framing::Epoch(_)), "two ends of ours have epochs");
        assert_eq!(install.codec.seal.key.len(), 32);
    }
}

#[test]
fn a_wrong_tls_crypt_key_is_not_answered() {
    let ours = WrapConfig::tls_crypt(&StaticKey::from_bytes(&[7; 256]), TlsRole::Client);
    let theirs = WrapConfig::tls_crypt(&StaticKey::from_bytes(&[8; 256]), TlsRole::Server);
    let mut pair = pair(ours, theirs, Transport::Udp);
    assert!(!pair.is_up());
    assert_eq!(pair.server.half_open(), 0);
    pair.advance(Duration::from_secs(62));
    let told = |event: &Event| matches!(event, Event::Report(report) if report.text.contains("tls-auth/tls-crypt key"));
    assert!(pair.client_events.iter().any(told));
}

#[test]
fn renegotiation_switches_late_and_keeps_old_keys() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    pair.server.handle_command(pair.now, Command::Rekey { peer: PeerId(0) });
    pair.exchange();
    assert_eq!(installs(&pair.client_events).len(), 2);
    assert_same_keys(&pair);
    assert_eq!(active(&pair.client_events), Some(session_id(PeerId(0), 0)), "still on the old key");
    pair.advance_busy(Duration::from_secs(61));
    assert_eq!(active(&pair.client_events), Some(session_id(PeerId(0), 1)));
    assert_eq!(active(&pair.server_events), Some(session_id(PeerId(0), 1)));
    let retired = |event: &Event| matches!(event, Event::Data(DataEvent::Retire { .. }));
    assert!(!pair.client_events.iter().any(retired));
    pair.advance_busy(Duration::from_secs(3600));
    assert!(pair.client_events.iter().any(retired));
}

#[test]
fn both_sides_may_renegotiate_at_once() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
    pair.server.handle_command(pair.now, Command::Rekey { peer: PeerId(0) });
    pair.exchange();
    assert_eq!(installs(&pair.client_events).len(), 2);
    assert_same_keys(&pair);
    assert!(pair.is_up());
}

#[test]
fn key_ids_wrap_to_one() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    for _ in 0..9 {
        pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
        pair.exchange();
        pair.advance_busy(Duration::from_secs(61));
    }
    let ids: Vec<u64> = installs(&pair.client_events).iter().map(|install| install.session.0).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7, 1, 2]);
    assert_same_keys(&pair);
}

#[test]
fn renegotiating_in_a_hurry_keeps_the_keys_in_use() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    for _ in 0..5 {
        pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
        pair.exchange();
        pair.server.handle_command(pair.now, Command::Rekey { peer: PeerId(0) });
        pair.exchange();
    }
    assert_eq!(installs(&pair.client_events).len(), 2, "one exchange, until its keys are in use");
    for events in [&pair.client_events, &pair.server_events] {
        assert_eq!(active(events), Some(session_id(PeerId(0), 0)));
        assert!(!events.iter().any(|event| matches!(event, Event::Data(DataEvent::Retire { .. }))));
    }
}

#[test]
fn hourly_renegotiation_happens_by_itself() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    pair.advance_busy(Duration::from_secs(3700));
    assert!(pair.is_up());
    assert_eq!(pair.client.peers()[0].1.rekeys, 1);
}

#[test]
fn exit_notice_of_the_client_frees_its_address() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    pair.client.handle_command(pair.now, Command::Shutdown);
    pair.exchange();
    assert!(pair.server.peers().is_empty());
    assert!(matches!(pair.client_events.last(), Some(Event::Ended(Ended::Shutdown))));
}

#[test]
fn a_client_that_was_told_to_end_does_not_return() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, transport);
        pair.client.handle_command(pair.now, Command::Shutdown);
        let path = pair.server_path();
        let reason = "connection reset".to_owned();
        pair.client.handle_command(pair.now, Command::Closed { path, reason });
        pair.cut = true;
        pair.exchange();
        // Over UDP a server that was heard does not refuse: the client waits for the acknowledgement of its exit notice.
        if transport == Transport::Udp {
            pair.advance(Duration::from_secs(10));
        }
        assert!(matches!(pair.client_events.last(), Some(Event::Ended(Ended::Shutdown))), "{transport:?}");
    }
}

#[test]
fn compat_mode_takes_keys_from_openvpns_own_prf() {
    let authority = Authority::new();
    for old in [TlsRole::Server, TlsRole::Client] {
        let alice = authority.issue("alice", ClientAuth);
        let mut client = client_params(&alice, WrapConfig::Plain, Transport::Udp);
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        match old {
            TlsRole::Server => server.data.before_2_6 = true,
            TlsRole::Client => client.data.before_2_6 = true,
        }
        let pair = Pair::new(client, server);
        let (ours, theirs) = (installs(&pair.client_events), installs(&pair.server_events));
        assert!(pair.is_up(), "{old:?}");
        assert_eq!(*ours[0].codec.seal.key, *theirs[0].codec.open.key, "{old:?}");
    }
}

#[test]
fn keys_that_were_used_enough_are_renewed() {
    for (by, limits) in [
        (TlsRole::Client, UseLimits { bytes: 1000, packets: 0 }),
        (TlsRole::Server, UseLimits { bytes: 0, packets: 10 }),
    ] {
        let authority = Authority::new();
        let alice = authority.issue("alice", ClientAuth);
        let mut client = client_params(&alice, WrapConfig::Plain, Transport::Udp);
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        (client.control.rekey.handshake, server.control.rekey.handshake) =
            (Duration::from_secs(2), Duration::from_secs(2));
        match by {
            TlsRole::Client => client.control.rekey.limits = limits,
            TlsRole::Server => server.control.rekey.limits = limits,
        }
        let mut pair = Pair::new(client, server);
        assert!(pair.is_up());
        let mut used = |each: u64| {
            // The server's first peer has the same number as a client's only one.
            let notice = traffic(PeerId::SERVER, (each, each), (each * 100, each * 100));
            let now = pair.now;
            match by {
                TlsRole::Client => pair.client.handle_notice(now, notice),
                TlsRole::Server => pair.server.handle_notice(now, notice),
            }
            pair.exchange();
            // Until the new keys are in use.
            pair.advance(Duration::from_secs(3));
            installs(&pair.client_events).len()
        };
        assert_eq!(used(4), 1, "{by:?}");
        assert_eq!(used(5), 2, "{by:?}");
        assert_eq!(used(9), 2, "{by:?}: what passed before is another key's");
        assert_eq!(used(10), 3, "{by:?}");
    }
}

/// The data plane says that a key bears little more, or the totals say it: also of a peer that knows no limit.
#[test]
fn what_an_aead_bears_starts_new_keys() {
    let authority = Authority::new();
    let renewals = |by: TlsRole, cipher, epochs: bool, notice: &Notice| {
        let alice = authority.issue("alice", ClientAuth);
        let mut client = client_params(&alice, WrapConfig::Plain, Transport::Udp);
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        (client.data.ciphers, server.data.ciphers) = (vec![cipher], vec![cipher]);
        client.data.before_2_7 = !epochs;
        let mut pair = Pair::new(client, server);
        assert!(pair.is_up());
        // However often it is said, until the new keys are there.
        for _ in 0..2 {
            match by {
                TlsRole::Client => pair.client.handle_notice(pair.now, notice.clone()),
                TlsRole::Server => pair.server.handle_notice(pair.now, notice.clone()),
            }
        }
        pair.exchange();
        installs(&pair.client_events).len() - 1
    };
    // The server's first peer has the same number as a client's only one.
    let peer = PeerId::SERVER;
    let near = Notice::LimitNear { peer, session: session_id(peer, 0) };
    let carried = |received, sent| traffic(peer, (1, 1), (received, sent));
    // 7/8 of what GCM bears, in blocks of 16 bytes.
    let much = ((1u64 << 36) - 1) / 8 * 7 * 16;
    for by in [TlsRole::Client, TlsRole::Server] {
        for (cipher, epochs, counts) in [
            (Cipher::Aes256Gcm, false, 1),
            // A new epoch is enough.
            (Cipher::Aes256Gcm, true, 0),
            (Cipher::ChaCha20Poly1305, false, 0),
            (Cipher::Aes256Cbc, false, 0),
        ] {
            let context = format!("{by:?}, {cipher}, epochs: {epochs}");
            assert_eq!(renewals(by, cipher, epochs, &near), 1, "{context}");
            for totals in [carried(much, 0), carried(0, much)] {
                assert_eq!(renewals(by, cipher, epochs, &totals), counts, "{context}: {totals:?}");
            }
            assert_eq!(renewals(by, cipher, epochs, &carried(much / 2, much / 2)), 0, "{context}");
        }
    }
}

#[test]
fn epochs_need_both_ends_and_an_aead() {
    let authority = Authority::new();
    let pair = |old: Option<TlsRole>, cipher| {
        let alice = authority.issue("alice", ClientAuth);
        let mut client = client_params(&alice, WrapConfig::Plain, Transport::Udp);
        let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        (client.data.ciphers, server.data.ciphers) = (vec![cipher], vec![cipher]);
        client.data.before_2_7 = old == Some(TlsRole::Client);
        server.data.before_2_7 = old == Some(TlsRole::Server);
        let pair = Pair::new(client, server);
        assert!(pair.is_up());
        let (ours, theirs) = (installs(&pair.client_events)[0], installs(&pair.server_events)[0]);
        assert_eq!(*ours.codec.seal.key, *theirs.codec.open.key);
        assert_eq!(*ours.codec.open.key, *theirs.codec.seal.key);
        let epochs = [ours, theirs].map(|install| matches!(install.codec.framing, Framing::Epoch(_)));
        assert_eq!(epochs[0], epochs[1]);
        (epochs[0], ours.codec.seal.key.len())
    };
    let gcm = Cipher::Aes128Gcm;
    assert_eq!(pair(None, gcm), (true, 32));
    assert_eq!(pair(Some(TlsRole::Client), gcm), (false, 16));
    assert_eq!(pair(Some(TlsRole::Server), gcm), (false, 16));
    assert_eq!(pair(None, Cipher::Aes256Cbc), (false, 32));
}

#[test]
fn exit_notice_of_the_server_makes_the_client_return() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    pair.server.handle_command(pair.now, Command::Shutdown);
    pair.exchange();
    assert!(matches!(pair.server_events.last(), Some(Event::Ended(Ended::Shutdown))));
    assert!(pair.client.peers().is_empty());
    pair.advance(Duration::from_secs(2));
    let opens = pair.client_events.iter().filter(|event| matches!(event, Event::Open { .. })).count();
    assert!(opens >= 2);
}

#[test]
fn a_silent_server_is_given_up_and_found_again() {
    let mut pair = pair(WrapConfig::Plain, WrapConfig::Plain, Transport::Udp);
    pair.cut = true;
    pair.advance(Duration::from_secs(59));
    assert_eq!(pair.client.peers().len(), 1);
    pair.advance(Duration::from_secs(2));
    assert!(pair.client.peers().is_empty());
    pair.cut = false;
    pair.advance(Duration::from_secs(10));
    assert!(pair.is_up(), "the server replaces the old connection of the same name");
}

#[test]
fn no_shared_cipher_is_said_on_both_sides() {
    let authority = Authority::new();
    let mut client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    client.data.ciphers = vec![Cipher::ChaCha20Poly1305];
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    server.data.ciphers = vec![Cipher::Aes256Gcm];
    let mut pair = Pair::new(client, server);
    let Some(Event::Ended(Ended::Failed(text))) = pair.client_events.last() else {
        panic!("{:?}", pair.client_events)
    };
    assert!(text.contains("no shared cipher"), "{text}");
    pair.advance(Duration::from_secs(10));
    let told =
        |event: &Event| matches!(event, Event::Report(report) if report.text.contains("CHACHA20-POLY1305"));
    assert!(pair.server_events.iter().any(told));
    assert_eq!(pair.server.half_open(), 0);
}

#[test]
fn a_server_certificate_made_for_clients_ends_the_client() {
    let authority = Authority::new();
    let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let server = server_params(&authority.issue("server", ClientAuth), WrapConfig::Plain);
    let pair = Pair::new(client, server);
    let Some(Event::Ended(Ended::Failed(text))) = pair.client_events.last() else {
        panic!("{:?}", pair.client_events)
    };
    assert!(text.contains("not meant for its role"), "{text}");
    let told = |event: &Event| matches!(event, Event::Report(report) if report.text.contains("refused our TLS handshake"));
    assert!(pair.server_events.iter().any(told), "the alert tells the server: {:?}", pair.server_events);
}

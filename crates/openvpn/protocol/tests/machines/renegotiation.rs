//! Renegotiations that meet trouble: lost packets, a peer that stops, a peer in a hurry. Whole tunnels with such peers run
//! in `adit-sim`.

use std::time::Duration;

use adit_core::{Command, Notice, OnFirstOpened, PeerId, Protocol, SessionId, Transport};
use adit_openvpn::codec::session_id;
use adit_openvpn::params::{ClientParams, ServerParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

const HAND_WINDOW: Duration = Duration::from_secs(60);
const PEER: PeerId = PeerId(0);

fn pair(change: impl Fn(&mut ClientParams, &mut ServerParams)) -> Pair {
    let authority = Authority::new();
    let mut client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    (client.control.rekey.after, server.control.rekey.after) = (None, None);
    change(&mut client, &mut server);
    let mut pair = Pair::new(client, server);
    assert!(pair.is_up());
    forget(&mut pair);
    pair
}

fn forget(pair: &mut Pair) {
    pair.client_events.clear();
    pair.server_events.clear();
}

/// Key ids that the data plane seals with, and those that it forgets, in this order.
fn keys(events: &[Event]) -> (Vec<u64>, Vec<u64>) {
    let id = |session: &SessionId| session.0 & 7;
    let sealing = events.iter().filter_map(|event| match event {
        Event::Data(DataEvent::Activate { session, .. }) => Some(id(session)),
        _ => None,
    });
    let retired = events.iter().filter_map(|event| match event {
        Event::Data(DataEvent::Retire { session, .. }) => Some(id(session)),
        _ => None,
    });
    (sealing.collect(), retired.collect())
}

fn says(events: &[Event], words: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(report) if report.text.contains(words)))
}

/// All that the ends have to send is lost.
fn lose_all(pair: &mut Pair, time: Duration) {
    pair.cut = true;
    pair.exchange();
    // Packets of data still arrive.
    pair.advance_busy(time);
    pair.cut = false;
}

#[test]
fn a_renegotiation_that_the_peer_does_not_hear_of_begins_again_under_the_same_key_id() {
    for server_starts in [true, false] {
        let mut pair = pair(|_, _| {});
        match server_starts {
            true => pair.server.handle_command(pair.now, Command::Rekey { peer: PEER }),
            false => pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER }),
        }
        lose_all(&mut pair, HAND_WINDOW * 2 + Duration::from_secs(5));
        assert!(pair.is_up(), "server starts: {server_starts}");
        let events = if server_starts { &pair.server_events } else { &pair.client_events };
        assert!(says(events, "did not answer; another attempt begins"));
        pair.advance_busy(HAND_WINDOW * 2);
        assert_eq!(keys(&pair.server_events), (vec![1], vec![]), "server starts: {server_starts}");
        assert_eq!(keys(&pair.client_events), (vec![1], vec![]), "server starts: {server_starts}");
    }
}

#[test]
fn attempts_that_are_never_heard_end_with_tran_window() {
    let mut pair = pair(|_, server| server.control.rekey.transition = Duration::from_secs(200));
    pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
    lose_all(&mut pair, Duration::from_secs(190));
    assert_eq!(pair.server.peers().len(), 1);
    lose_all(&mut pair, Duration::from_secs(60));
    assert_eq!(pair.server.peers().len(), 0);
    assert!(says(&pair.server_events, "did not end within 60 s (hand-window)"));
}

/// The client answers, and then nothing of it arrives any more: two attempts, and the server sends it RESTART, on the
/// exchange that still serves.
#[test]
fn a_client_that_leaves_renegotiations_unfinished_is_sent_away_with_a_word() {
    // It waits longer than the server, and so does not connect anew by itself.
    let mut pair = pair(|client, _| client.control.rekey.handshake = HAND_WINDOW * 10);
    for _ in 0..2 {
        pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
        deliver_one_round(&mut pair);
        lose_all(&mut pair, HAND_WINDOW - Duration::from_secs(1));
        assert_eq!(pair.server.peers().len(), 1);
        pair.now += Duration::from_secs(2);
        pair.server.handle_timeout(pair.now);
    }
    pair.exchange();
    assert_eq!(pair.server.peers().len(), 0);
    assert!(says(&pair.server_events, "the peer answered, and may begin another"));
    assert!(says(&pair.server_events, "alice: the key exchange did not end within 60 s (hand-window)"));
    assert!(says(&pair.client_events, "RESTART"));
}

/// The server's first packets reach the client, and its answer the server; what follows is lost.
fn deliver_one_round(pair: &mut Pair) {
    deliver_to_client(pair);
    deliver_to_server(pair);
}

fn deliver_to_client(pair: &mut Pair) {
    let mut buf = Vec::new();
    while pair.server.poll_transmit(&mut buf).is_some() {
        let _ = pair.client.handle_datagram(pair.now, pair.server_path(), &std::mem::take(&mut buf));
    }
    while let Some(event) = pair.client.poll_event() {
        pair.client_events.push(event);
    }
}

fn deliver_to_server(pair: &mut Pair) {
    let mut buf = Vec::new();
    while pair.client.poll_transmit(&mut buf).is_some() {
        let _ = pair.server.handle_datagram(pair.now, pair.client_path(), &std::mem::take(&mut buf));
    }
}

/// The client's acknowledgements are lost: whether it has the keys is not known, so the server does not seal with them
/// until it is, however long ago the renegotiation began.
#[test]
fn a_server_seals_with_new_keys_when_the_client_is_known_to_have_them() {
    let mut pair = pair(|_, _| {});
    pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
    // Everything but the client's last acknowledgement.
    for _ in 0..3 {
        deliver_one_round(&mut pair);
    }
    while let Some(event) = pair.server.poll_event() {
        pair.server_events.push(event);
    }
    assert_eq!(installed(&pair.server_events), 1, "the server has the new keys");
    lose_all(&mut pair, HAND_WINDOW * 2);
    assert_eq!(keys(&pair.server_events), (vec![], vec![]));
    // A packet that the client sealed with them says it as well.
    let session = session_id(PEER, 1);
    pair.server.handle_notice(pair.now, Notice::FirstOpened { peer: PEER, session });
    pair.exchange();
    assert_eq!(keys(&pair.server_events), (vec![1], vec![]));
}

/// An end seals with new keys at once when the peer did, by the data plane alone: the protocol's order would come after the
/// answer. Keys that a client has before the exchange is complete wait for it.
#[test]
fn keys_of_a_complete_renegotiation_seal_from_their_first_opened_packet_on() {
    let mut pair = pair(|_, _| {});
    pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
    pair.exchange();
    assert_eq!(first_opened(&pair.server_events), [OnFirstOpened::Activate]);
    assert_eq!(first_opened(&pair.client_events), [OnFirstOpened::Nothing]);
}

fn first_opened(events: &[Event]) -> Vec<OnFirstOpened> {
    let installed = events.iter().filter_map(|event| match event {
        Event::Data(DataEvent::Install(install)) => Some(install.on_first_opened),
        _ => None,
    });
    installed.collect()
}

fn installed(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Data(DataEvent::Install(_)))).count()
}

/// MirageVPN's server seals with new keys in the step that sends its key method 2, so what it sealed may be there before
/// the client has read that.
#[test]
fn a_client_opens_with_new_keys_before_the_exchange_is_complete() {
    let mut pair = pair(|_, _| {});
    pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
    let mut installed_before_the_end = false;
    for _ in 0..6 {
        deliver_one_round(&mut pair);
        installed_before_the_end |=
            installed(&pair.client_events) == 1 && !says(&pair.client_events, "renegotiated keys");
    }
    pair.exchange();
    assert!(installed_before_the_end);
    assert!(says(&pair.client_events, "renegotiated keys"));
    assert_eq!(installed(&pair.client_events), 1, "and only once");
    // The server sealed with them meanwhile: the client may, too.
    let session = session_id(PeerId::SERVER, 1);
    pair.client.handle_notice(pair.now, Notice::FirstOpened { peer: PeerId::SERVER, session });
    pair.exchange();
    assert_eq!(keys(&pair.client_events), (vec![1], vec![]));
}

/// Keys that were installed for an exchange that comes to nothing go with it.
#[test]
fn keys_of_an_exchange_that_comes_to_nothing_are_retired() {
    let mut pair = pair(|client, _| client.control.rekey.handshake = HAND_WINDOW * 10);
    pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
    while installed(&pair.client_events) == 0 {
        deliver_to_server(&mut pair);
        deliver_to_client(&mut pair);
    }
    assert!(!says(&pair.client_events, "renegotiated keys"));
    // The server gives up, and begins the next one.
    lose_all(&mut pair, HAND_WINDOW);
    pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
    pair.exchange();
    assert_eq!(keys(&pair.client_events).1, [1]);
    pair.advance_busy(HAND_WINDOW * 11);
    assert_eq!(keys(&pair.client_events).0, [2]);
}

/// A client that never confirms new keys (MirageVPN's, when its clock ticks in the middle) does not keep the server from the
/// next attempt, nor for ever from saying that it is over.
#[test]
fn a_server_does_not_wait_for_ever_for_a_client_to_confirm_keys() {
    let mut pair = pair(|client, _| client.control.rekey.handshake = HAND_WINDOW * 10);
    pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
    for _ in 0..3 {
        deliver_one_round(&mut pair);
    }
    lose_all(&mut pair, HAND_WINDOW + Duration::from_secs(1));
    assert_eq!((installed(&pair.server_events), pair.server.peers().len()), (1, 1));
    assert!(says(&pair.server_events, "a renegotiation did not end within 60 s"));
    // The next attempt comes by itself, and the client takes part in it.
    lose_all(&mut pair, HAND_WINDOW);
    pair.advance_busy(HAND_WINDOW * 12);
    assert!(pair.is_up());
    assert_eq!(keys(&pair.server_events).0.last(), Some(&2));
    assert_eq!(keys(&pair.client_events).0.last(), Some(&2));
}

#[test]
fn both_ends_begin_at_once() {
    let mut pair = pair(|_, _| {});
    for round in 1..=9u64 {
        pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
        pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
        pair.exchange();
        pair.advance_busy(HAND_WINDOW * 2);
        // 7 is followed by 1.
        let expected = (round - 1) % 7 + 1;
        assert_eq!(keys(&pair.server_events).0, [expected], "round {round}");
        assert_eq!(keys(&pair.client_events).0, [expected], "round {round}");
        forget(&mut pair);
    }
}

//! The change of the sealing session by the first packet that a session opens, before any answer to the packet is sealed.

use crate::testing::batches::Keys;
use adit_core::{
    Cipher, DataEvent, Install, IpNet, Notice, OnFirstOpened, Path, PeerConfig, PeerId, PeerOrder,
    ReplayWindow,
};

use super::format::{self, indexed, named, session_id, with_outer_headers};
use super::packets::Flow;
use super::world::{End, admit, client, inner, tcp, three, udp};
use crate::{DropReason, IngressEvent, Offload, Passed, remote_peer};

const CIPHER: Cipher = Cipher::Aes256Gcm;
const ONE: PeerId = PeerId(1);

fn to_server() -> Vec<u8> {
    Flow { source: 1, destination: 77, ..Flow::default() }.udp(b"question")
}

fn to_client() -> Vec<u8> {
    Flow { source: 77, destination: 1, ..Flow::default() }.udp(b"answer")
}

/// The server gets session `key_id` with client 1, with keys of its own.
fn install(server: &mut End, key_id: u8, on_first_opened: OnFirstOpened) {
    let codec = format::session(named(1, key_id), CIPHER, keys(key_id), ReplayWindow::default());
    server.install_as(Install { on_first_opened, ..Install::new(ONE, session_id(ONE, key_id), codec) });
}

/// The keys with which the server seals and opens in a session.
fn keys(key_id: u8) -> Keys {
    Keys { seal: 0x40 | key_id, open: 0x20 | key_id }
}

/// Client 1 as it is after a restart: it has that session alone.
fn restarted(key_id: u8) -> End {
    let mut end = End::client();
    end.add_peer(PeerId::SERVER, udp(9), &["0.0.0.0/0"], None);
    let Keys { seal, open } = keys(key_id);
    end.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, key_id),
        named(1, key_id),
        CIPHER,
        Keys { seal: open, open: seal },
    );
    end
}

/// The client asks, and the server answers before its protocol says anything. Whether the client can open the answer.
fn is_answered(server: &mut End, client: &mut End) -> bool {
    let question = client.send_one(&to_server());
    let arrived = server.receive(udp(1), &question, question.len());
    assert_eq!(arrived.packets, [to_server()]);
    opens(client, server)
}

fn opens(client: &mut End, server: &mut End) -> bool {
    let sent = server.send(Offload::NONE, &to_client());
    sent.iter().any(|(_, _, answer)| client.receive(udp(9), answer, answer.len()).packets == [to_client()])
}

#[test]
fn the_answer_to_the_first_packet_is_sealed_with_its_session() {
    let (mut server, ..) = three(false);
    install(&mut server, 1, OnFirstOpened::Activate);
    let mut one = restarted(1);
    assert!(!opens(&mut one, &mut server), "nothing was opened yet: the session before seals");
    assert!(is_answered(&mut server, &mut one));
    // The protocol is notified, and orders a state that is there already.
    server.apply(DataEvent::Activate { peer: ONE, session: session_id(ONE, 1) });
    assert!(is_answered(&mut server, &mut one));
}

#[test]
fn a_session_that_is_activated_by_order_waits_for_it() {
    let (mut server, ..) = three(false);
    install(&mut server, 1, OnFirstOpened::Nothing);
    let mut one = restarted(1);
    assert!(!is_answered(&mut server, &mut one));
    server.apply(DataEvent::Activate { peer: ONE, session: session_id(ONE, 1) });
    assert!(is_answered(&mut server, &mut one));
}

#[test]
fn where_packets_must_wait_they_wait_from_the_first_packet_on() {
    let (mut server, ..) = three(false);
    install(&mut server, 1, OnFirstOpened::Deactivate);
    let question = restarted(1).send_one(&to_server());
    server.receive(udp(1), &question, question.len());
    assert!(server.send(Offload::NONE, &to_client()).is_empty(), "the session before seals no more");
    assert_eq!(server.dropped_out(DropReason::NoSession), 1);
    // One that came before it begins no more to seal, one that comes after it does.
    install(&mut server, 2, OnFirstOpened::Activate);
    assert!(is_answered(&mut server, &mut restarted(2)));
}

#[test]
fn sessions_never_go_back_to_an_earlier_one() {
    let (mut server, ..) = three(false);
    for key_id in 1..=3 {
        install(&mut server, key_id, OnFirstOpened::Activate);
    }
    let [mut first, mut second, mut third] = [1, 2, 3].map(restarted);
    assert!(is_answered(&mut server, &mut second));
    assert!(!is_answered(&mut server, &mut first), "a packet that was overtaken");
    assert!(opens(&mut second, &mut server));
    assert!(is_answered(&mut server, &mut third));
    // An order that was overtaken by the packet.
    server.apply(DataEvent::Activate { peer: ONE, session: session_id(ONE, 2) });
    assert!(opens(&mut third, &mut server));
    // An order to seal with none is about those that are there, and no first packet of them undoes it.
    install(&mut server, 4, OnFirstOpened::Activate);
    server.apply(DataEvent::Deactivate(ONE));
    assert!(!is_answered(&mut server, &mut restarted(4)));
}

#[test]
fn what_waited_leaves_with_the_first_packet() {
    let mut server = End::server(false);
    let routes: Vec<IpNet> = inner(1).iter().map(|net| net.parse().expect("a network")).collect();
    server.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
        staging: true,
        path: None,
        ..config(ONE, udp(1), routes)
    })));
    install(&mut server, 1, OnFirstOpened::Activate);
    assert!(server.send(Offload::NONE, &to_client()).is_empty());
    let mut one = restarted(1);
    let question = one.send_one(&to_server());
    server.receive(udp(1), &question, question.len());
    let sent = server.flush();
    let [(path, _, answer)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*path, udp(1));
    assert_eq!(one.receive(udp(9), answer, answer.len()).packets, [to_client()]);
}

/// The kernel brings the first datagram and the answer to the worker that does not serve the peer.
#[test]
fn with_several_workers_the_one_that_serves_the_peer_decides() {
    let [mut even, mut odd] = [0, 1].map(|_| End::server(false));
    admit(&mut odd, 1, udp(1), CIPHER);
    let routes = inner(1).iter().map(|net| net.parse().expect("a network")).collect();
    let (egress, ingress) = remote_peer(config(ONE, udp(1), routes), 1);
    even.egress.apply(egress, &mut even.transmit_batch);
    even.ingress.apply(ingress);
    install(&mut odd, 1, OnFirstOpened::Activate);
    even.ingress.apply(IngressEvent::InstallRemote { peer: ONE, session: session_id(ONE, 1) });

    let mut one = restarted(1);
    let question = one.send_one(&to_server());
    let arrived = even.receive(udp(1), &question, question.len());
    assert!(arrived.packets.is_empty());
    assert!(matches!(arrived.passed[..], [Passed::Datagrams { worker: 1, .. }]));
    assert_eq!(odd.receive(udp(1), &question, question.len()).packets, [to_server()]);
    let (mut answer, out) = (to_client(), &mut even.transmit_batch);
    assert_eq!(even.egress.seal_or_pass(Offload::NONE, &mut answer, out), Some(1), "to the other worker");
    assert!(opens(&mut one, &mut odd));
}

/// A peer that its key alone names comes from UDP to a connection, to another connection, and back.
#[test]
fn an_answer_takes_the_connection_that_the_packet_came_by() {
    let [mut server, mut one] = [0, 1].map(|_| End::new(indexed(), false));
    let routes: Vec<IpNet> = inner(1).iter().map(|net| net.parse().expect("a network")).collect();
    let all = vec!["0.0.0.0/0".parse().expect("a network")];
    server
        .apply(DataEvent::Peer(PeerOrder::Add(PeerConfig { by_path: false, ..config(ONE, udp(1), routes) })));
    one.apply(DataEvent::Peer(PeerOrder::Add(config(ONE, udp(9), all))));
    for end in [&mut server, &mut one] {
        let session = adit_core::SessionId(5);
        end.install_codec(ONE, session, with_outer_headers(5));
        end.apply(DataEvent::Activate { peer: ONE, session });
    }
    for path in [udp(1), tcp(2), tcp(3), udp(1), tcp(2)] {
        let sealed = one.send_one(&to_server());
        let record = [&u16::try_from(sealed.len()).expect("short").to_be_bytes()[..], &sealed].concat();
        let bytes = if matches!(path, Path::Tcp { .. }) { record } else { sealed };
        let arrived = server.receive(path, &bytes, bytes.len());
        assert_eq!(arrived.packets.len(), 1, "{path}");
        assert_eq!(server.send(Offload::NONE, &to_client())[0].0, path);
        let moved = arrived.notices.iter().any(|notice| matches!(notice, Notice::Moved { .. }));
        if moved {
            server.apply(DataEvent::Peer(PeerOrder::Move { peer: ONE, path }));
        }
    }
    // The protocol has closed the connection meanwhile: it refuses the move.
    let sealed = one.send_one(&to_server());
    server.receive(udp(4), &sealed, sealed.len());
    server.apply(DataEvent::Peer(PeerOrder::Move { peer: ONE, path: tcp(2) }));
    assert_eq!(server.send(Offload::NONE, &to_client())[0].0, tcp(2));
}

fn config(peer: PeerId, path: Path, routes: Vec<IpNet>) -> PeerConfig {
    let selectors = Default::default();
    PeerConfig {
        peer,
        path: Some(path),
        routes,
        selectors,
        max_mss: None,
        roams: true,
        staging: false,
        device: Default::default(),
        by_path: true,
        identity: Default::default(),
    }
}

/// An end whose session was removed meanwhile is not harmed by a first packet.
#[test]
fn a_first_packet_of_a_session_that_is_gone_changes_nothing() {
    let (mut server, mut one, _) = three(false);
    install(&mut server, 1, OnFirstOpened::Activate);
    let question = restarted(1).send_one(&to_server());
    let mut buffer = question.clone();
    let len = buffer.len();
    server.ingress.open_datagrams(udp(1), &mut buffer, len, &mut server.receive_batch);
    // The half that seals has followed an order by then that the half that opens has not.
    server.egress.apply(
        crate::EgressEvent::Retire { peer: ONE, session: session_id(ONE, 1) },
        &mut server.transmit_batch,
    );
    for order in server.receive_batch.orders().drain(..) {
        server.egress.apply(order, &mut server.transmit_batch);
    }
    server.receive_batch.clear();
    let mut early = client(1, udp(9), CIPHER);
    assert!(opens(&mut early, &mut server) && is_answered(&mut server, &mut one));
    assert_eq!(server.dropped_out(DropReason::NoSession), 0);
}

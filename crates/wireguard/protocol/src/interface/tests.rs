use std::net::SocketAddr;

use adit_core::Event;

use super::*;
use crate::{PeerChange, PrivateKey, Sockets, WallClock};

fn address(n: u8) -> SocketAddr {
    ([192, 0, 2, n], 1).into()
}

fn path(n: u8) -> Path {
    Path::Udp { socket: 0, remote: address(n) }
}

fn interface(n: u8, peers: Vec<PeerChange>) -> Interface {
    let mut params = Params::new(WallClock { at: Instant::ORIGIN, since_1970: std::time::Duration::ZERO });
    params.sockets = Sockets { port: 1, ipv4: Some(0), ipv6: None };
    params.configuration =
        Changes { private_key: Some(PrivateKey::new([n; 32])), peers, ..Changes::default() };
    Interface::new(params, Instant::ORIGIN, [n; 32]).expect("a configuration")
}

/// Delivers an end's messages, and gives the sessions that it activates.
fn deliver(from: &mut Interface, to: &mut Interface, now: Instant, n: u8) {
    while from.poll_event().is_some() {}
    let mut datagram = Vec::new();
    while from.poll_transmit(&mut datagram).is_some() {
        let _ = to.handle_datagram(now, path(n), &datagram);
        datagram.clear();
    }
}

/// However many handshakes there are, at most three sessions and one handshake have indices.
#[test]
fn indices_are_given_back() {
    let key = |n| interface(n, Vec::new()).public_key().expect("a key");
    let peer = |n| PeerChange { endpoint: Some(address(n)), ..PeerChange::new(key(n)) };
    let (mut one, mut two) = (interface(1, vec![peer(2)]), interface(2, vec![peer(1)]));
    let (two_id, one_id) = (one.peer_id(&key(2)).expect("a peer"), two.peer_id(&key(1)).expect("a peer"));
    let mut now = Instant::ORIGIN;
    for round in 0..100_u64 {
        now += std::time::Duration::from_secs(6);
        let (begins, id) = if round % 3 == 0 { (&mut two, one_id) } else { (&mut one, two_id) };
        begins.handle_command(now, Command::Rekey { peer: id });
        for _ in 0..3 {
            deliver(&mut one, &mut two, now, 1);
            deliver(&mut two, &mut one, now, 2);
        }
        for interface in [&one, &two] {
            assert!((1..=4).contains(&interface.shared.index_count()), "round {round}");
        }
    }
    one.handle_command(now, Command::Shutdown);
    assert_eq!(one.shared.index_count(), 0);
    assert!(std::iter::from_fn(|| one.poll_event()).any(|event| matches!(event, Event::Ended(_))));
}

#[test]
fn a_timer_is_kept_for_each_peer() {
    let key = interface(2, Vec::new()).public_key().expect("a key");
    let mut one = interface(1, vec![PeerChange { endpoint: Some(address(2)), ..PeerChange::new(key) }]);
    assert_eq!(one.poll_timeout(), None);
    let id = one.peer_id(&key).expect("a peer");
    one.handle_notice(
        Instant::ORIGIN,
        Notice::Wanted {
            peer: id,
            flow: adit_core::Flow::between(
                std::net::IpAddr::from([10, 0, 0, 1]),
                std::net::IpAddr::from([10, 0, 0, 2]),
            ),
        },
    );
    assert!(one.poll_timeout().is_some());
    assert_eq!((one.schedule.len(), one.scheduled.len()), (1, 1));
    one.remove_peer(id);
    assert_eq!((one.schedule.len(), one.scheduled.len(), one.poll_timeout()), (0, 0, None));
}

//! Two drivers with the small protocol of `adit-toy`, and two series of sessions between them, whose selectors cross.

use std::net::UdpSocket;
use std::sync::Arc;

use adit_core::Selector;
use adit_dataplane::DropReason;
use adit_toy::PeerSettings;

use super::toy::{Far, PORT, application, echo, start_both};
use super::*;

/// A port that no selector has.
const OTHER_PORT: u16 = 8000;

/// One series has the port at the responder, the other one the port at the initiator.
fn crossing(peer: &mut PeerSettings) {
    let any = Selector {
        protocol: Some(17),
        ..Selector::between("10.9.0.0/24".parse().unwrap(), "10.9.0.0/24".parse().unwrap())
    };
    let local = Arc::from([Selector { local_ports: PORT..=PORT, ..any.clone() }]);
    let remote = Arc::from([Selector { remote_ports: PORT..=PORT, ..any }]);
    let is_initiator = peer.remotes.is_some();
    peer.series = if is_initiator { vec![remote, local] } else { vec![local, remote] };
}

#[test]
fn two_sessions_of_a_peer_seal_at_once() {
    in_fresh_network(|| {
        let far = Far::new();
        let (responder, initiator) = start_both(&far, crossing);
        let near = [application("10.9.0.1"), UdpSocket::bind(("10.9.0.1", OTHER_PORT)).unwrap()];
        let far_sockets = far.run(|| {
            let other = UdpSocket::bind(("10.9.0.2", OTHER_PORT)).unwrap();
            other.set_read_timeout(Some(TIMEOUT)).unwrap();
            [application("10.9.0.2"), other]
        });
        near[1].set_read_timeout(Some(TIMEOUT)).unwrap();

        // The first packet of each series waits for the handshake of its series.
        let exchange = |word: &[u8]| {
            echo(&far_sockets[1], &near[0], word);
            echo(&far_sockets[0], &near[1], word);
            echo(&near[0], &far_sockets[0], word);
        };
        exchange(b"the first");
        assert_eq!(initiator.peer().rekeys, 0);

        // A packet that no series selects is refused where it is sent.
        far_sockets[1].send_to(b"no", near[1].local_addr().unwrap()).unwrap();
        let dropped = || initiator.look().snapshot.egress.dropped(DropReason::NotSelected);
        assert!((0..2000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            dropped() == 1
        }));

        // Each series gets its next session, by order and by number, and no packet is lost.
        assert!(initiator.handle.command(Command::Rekey { peer: PeerId(0) }));
        for number in 0..200_u32 {
            exchange(&number.to_be_bytes());
        }
        assert!((4..12).contains(&initiator.peer().rekeys), "{:?}", initiator.peer());
        let snapshot = responder.look().snapshot;
        for reason in [DropReason::BadTag, DropReason::Replay, DropReason::NoSession, DropReason::NotSelected]
        {
            assert_eq!(snapshot.ingress.dropped(reason), 0, "{reason:?}");
        }
        initiator.stop();
        responder.stop();
        far.end();
    });
}

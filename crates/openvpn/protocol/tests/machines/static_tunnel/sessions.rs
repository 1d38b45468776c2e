//! The sessions under a static key: when they begin, and what they seal and open with.

use adit_core::{Ended, Notice, PeerId, Protocol, Transport, UnixTime};
use adit_openvpn::StaticTunnel;
use adit_openvpn::codec::DirectionKey;
use adit_openvpn::params::StaticParams;
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::KeyDirection;

use super::{End, SESSION, WALL, activates, at, began, connecting, ended, installs, udp, waiting};

/// Where both ends have one key, what an end sent in an earlier run can be sent to it, and is later than what its peer
/// sends.
#[test]
fn a_silent_peer_is_heard_anew_where_there_is_one_key() {
    for direction in [KeyDirection::Normal, KeyDirection::Bidirectional] {
        let mut end = End::new(StaticParams { direction, ..waiting() }, at(0));
        end.roamed(at(1), udp(1));
        let events = end.timeout(at(61));
        let retired = events.iter().any(|event| matches!(event, Event::Data(DataEvent::Retire { .. })));
        assert_eq!(retired, direction == KeyDirection::Bidirectional);
        let starts: Vec<u64> = installs(&events).into_iter().map(began).collect();
        assert_eq!(starts, Vec::from_iter(retired.then_some(WALL + 61)));
        assert_eq!(activates(&events), retired);
    }
}

#[test]
fn packet_ids_begin_later_each_time() {
    let mut end = End::new(connecting(Transport::Udp), at(0));
    end.opened(at(0), udp(1));
    let near = Notice::LimitNear { peer: PeerId::SERVER, session: SESSION };
    for (now, expected) in [(at(0), WALL + 1), (at(0), WALL + 2), (at(100), WALL + 100)] {
        let events = end.notice(now, near.clone());
        assert_eq!(began(installs(&events)[0]), expected);
        assert!(activates(&events));
    }
    let params = StaticParams { wall_at_origin: UnixTime(1 << 32), ..waiting() };
    let end = End::new(params, at(0));
    assert!(matches!(ended(&end.events), Some(Ended::Failed(why)) if why.contains("2106")));
}

#[test]
fn both_ends_have_each_others_keys_and_ivs_of_their_own() {
    let key = |seed: [u8; 32], params: StaticParams| {
        let mut machine = StaticTunnel::new(params, at(0), seed);
        let events: Vec<Event> = std::iter::from_fn(|| machine.poll_event()).collect();
        installs(&events)[0].clone()
    };
    let mut halves = [0; 256];
    halves[128..].fill(1);
    let with_key = |params| StaticParams { key: StaticKey::from_bytes(&halves), ..params };
    let parts = |key: &DirectionKey| (key.key.clone(), key.mac.as_ref().unwrap().key.clone());
    let ivs = |key: &DirectionKey| *key.mac.as_ref().unwrap().iv_key;
    let west = key([1; 32], with_key(waiting()));
    let east = key([2; 32], with_key(connecting(Transport::Udp)));
    assert_eq!(
        (parts(&west.codec.seal), parts(&west.codec.open)),
        (parts(&east.codec.open), parts(&east.codec.seal))
    );
    assert_ne!(west.codec.seal.key, west.codec.open.key);
    assert_ne!(ivs(&west.codec.seal), ivs(&east.codec.seal));
    assert_eq!(ivs(&west.codec.seal), ivs(&west.codec.open), "our own, by which we know what comes back");

    let both = |params| StaticParams { direction: KeyDirection::Bidirectional, ..with_key(params) };
    let (west, again) = (key([1; 32], both(waiting())), key([2; 32], both(waiting())));
    assert_eq!(
        (parts(&west.codec.seal), parts(&west.codec.open)),
        (parts(&again.codec.open), parts(&again.codec.seal))
    );
    assert_eq!(west.codec.seal.key, west.codec.open.key);
    assert_ne!(ivs(&west.codec.seal), ivs(&again.codec.seal), "no IV comes twice");
}

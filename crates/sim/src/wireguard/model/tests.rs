use std::net::IpAddr;

use adit_core::SessionId;

use super::*;
use crate::packets::Fate;

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const PEER: PeerId = PeerId(3);

fn install(seal: u8, open: u8, session: u64) -> Install<Codec> {
    let codec = Codec {
        remote_index: 7,
        mtu: 40,
        seal: [seal; 32].into(),
        open: [open; 32].into(),
        expires: NOW + REJECT_AFTER,
    };
    Install::new(PEER, SessionId(session), codec)
}

fn datagram(counter: u64, len: usize) -> Vec<u8> {
    let header = [&[4, 0, 0, 0, 7, 0, 0, 0][..], &counter.to_le_bytes()].concat();
    [header, vec![0; len + TAG]].concat()
}

fn text<T>(result: Result<T, Violation>) -> String {
    result.map_or_else(|violation| violation.to_string(), |_| "fine".to_owned())
}

#[test]
fn keys_are_installed_once_and_seal_what_the_other_end_opens() {
    let mut model = Model::default();
    assert!(text(model.sealed(NOW, 0, &datagram(0, 16))).contains("without a key"));
    assert_eq!(model.install(NOW, 0, &install(1, 2, 1)), Ok(()));
    assert!(text(model.install(NOW, 1, &install(1, 3, 1))).contains("used before"));
    assert!(text(model.install(NOW, 1, &install(5, 5, 1))).contains("one key"));
    let later = NOW + Duration::from_secs(1);
    assert!(text(model.install(later, 1, &install(6, 7, 1))).contains("session ends"));
    assert!(text(model.sealed(NOW, 0, &datagram(0, 16))).contains("never had"));
    assert_eq!(model.install(NOW, 1, &install(2, 1, 1)), Ok(()));
    assert_eq!(model.sealed(NOW, 0, &datagram(1, 16)), Ok(()));
    for counter in [1, 3, 0] {
        assert!(text(model.sealed(NOW, 0, &datagram(counter, 16))).contains("not 2"));
    }
    assert!(text(model.sealed(NOW + REJECT_AFTER, 0, &datagram(2, 16))).contains("after the end"));
}

#[test]
fn padding_ends_at_the_mtu() {
    let mut model = Model::default();
    model.install(NOW, 0, &install(1, 2, 1)).unwrap();
    model.install(NOW, 1, &install(2, 1, 1)).unwrap();
    for (counter, (len, fits)) in
        [(0, true), (32, true), (40, true), (33, false), (48, false)].into_iter().enumerate()
    {
        assert_eq!(model.sealed(NOW, 0, &datagram(counter as u64, len)).is_ok(), fits, "{len}");
    }
}

#[test]
fn sessions_are_three_at_most_and_end() {
    let mut model = Model::default();
    for session in 1..=3 {
        model.install(NOW, 0, &install(session as u8, 100, session)).unwrap();
    }
    assert_eq!(model.check(NOW + WIPE_AFTER + SLACK, 0), Ok(()));
    let late = NOW + WIPE_AFTER + SLACK + Duration::from_millis(1);
    assert!(text(model.check(late, 0)).contains("540 s"));
    assert!(text(model.activate(0, PEER, SessionId(4))).contains("does not have"));
    assert_eq!(model.age(NOW, 0, PEER), None);
    model.activate(0, PEER, SessionId(3)).unwrap();
    assert_eq!(model.age(NOW + REJECT_AFTER, 0, PEER), Some(REJECT_AFTER));
    model.install(NOW, 0, &install(4, 100, 4)).unwrap();
    assert!(text(model.check(NOW, 0)).contains("4 sessions"));
    (1..=4).for_each(|session| model.retire(0, PEER, SessionId(session)));
    assert_eq!(model.check(late, 0), Ok(()));
}

#[test]
fn initiations_are_five_seconds_apart() {
    let mut model = Model::default();
    let (one, other) = (([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 1).into());
    let initiation = [&[1, 0, 0, 0][..], &[0; 144]].concat();
    assert_eq!(model.control(NOW, 0, one, &initiation), Ok(()));
    assert_eq!(model.control(NOW, 0, other, &initiation), Ok(()));
    let soon = NOW + (REKEY_TIMEOUT - Duration::from_millis(1));
    assert!(text(model.control(soon, 0, one, &initiation)).contains("within 5 s"));
    assert_eq!(model.control(NOW + REKEY_TIMEOUT, 0, other, &initiation), Ok(()));
    assert!(text(model.control(NOW, 0, one, &initiation[1..])).contains("147 bytes of type 0"));
}

#[test]
fn lost_keys_allow_two_initiations_more() {
    let mut model = Model::default();
    model.expect_post_quantum();
    let to = ([192, 0, 2, 1], 1).into();
    let initiation = [&[1, 0, 0, 0][..], &[0; 144]].concat();
    for allowed in [3, 2] {
        model.lost_keys(0);
        for _ in 0..allowed {
            assert_eq!(model.control(NOW, 0, to, &initiation), Ok(()));
        }
        model.lost_keys(1);
        assert!(text(model.control(NOW, 0, to, &initiation)).contains("within 5 s"));
    }
}

#[test]
fn packets_arrive_at_the_end_that_they_are_for() {
    let mut model = Model::default();
    let address = |end: u8| IpAddr::from([10, 7, 0, end]);
    let packet = model.packets.send(NOW, (0, address(1)), (1, address(2)), 20, Fate::MayBeLost);
    assert!(text(model.deliver(2, &packet)).contains("arrived at end 2"));
    assert_eq!(model.deliver(1, &packet), Ok((0, NOW)));
    assert!(text(model.deliver(1, &packet)).contains("twice"));
}

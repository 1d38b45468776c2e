//! Additional key exchanges (RFC 9242, RFC 9370), and keys beside the key exchange (RFC 8784).

use std::time::Duration;

use super::world::*;
use crate::machine::sa::Request;
use crate::machine::{Connection, Ppk, SharedKey};
use crate::suite::ike_proposals;
use crate::wire::{ExchangeType, Header, KeyExchange, Payload};

fn with(end: usize, ike: &str) -> Connection {
    let mut connection = connection(end);
    connection.ike = ike_proposals(ike).unwrap();
    connection
}

const ONE: &str = "aes256gcm16-prfsha384-x25519-ke1_mlkem768";
const TWO: &str = "aes256-sha256-x25519-ke1_mlkem768-ke2_mlkem1024";

#[test]
fn additional_key_exchanges_come_before_the_authentication() {
    for (ike, count) in [(ONE, 1), (TWO, 2)] {
        let mut world = World::new(with(A, ike), with(B, ike));
        world.run(seconds(5));
        world.assert_settled(ike);
        let exchanges = |end| {
            let to_end = world.log.iter().filter(move |datagram| datagram.to == end);
            let headers = to_end.map(|datagram| Header::peek(&datagram.bytes).unwrap());
            let mut ids: Vec<u32> = headers
                .filter(|header| header.exchange == ExchangeType::IKE_INTERMEDIATE)
                .map(|header| header.message_id)
                .collect();
            ids.dedup();
            ids
        };
        assert_eq!(exchanges(B), (1..=count).collect::<Vec<u32>>());
        assert!(world.log.iter().all(|datagram| datagram.bytes.len() <= 1280));
        let detail = &adit_core::Protocol::peers(&world.ends[A])[0].1.detail;
        assert_eq!(detail.suite.additional.len(), count as usize);
    }
}

#[test]
fn each_message_of_additional_key_exchanges_may_be_lost_or_come_twice() {
    for lost in 0..14 {
        let mut world = World::new(with(A, TWO), with(B, TWO));
        let mut count = 0;
        world.network = Box::new(move |_, _| {
            count += 1;
            let once = Duration::from_millis(10);
            if count == lost + 1 { vec![] } else { vec![once, Duration::from_millis(35)] }
        });
        world.run(seconds(12));
        assert!(world.is_connected(), "without message {lost}: {}", world.state());
        assert_eq!((world.planes[A].ups, world.planes[B].ups), (1, 1));
    }
}

#[test]
fn an_additional_key_exchange_may_be_left_out_where_both_allow_it() {
    let optional = "aes256gcm16-prfsha384-x25519-ke1_mlkem768-ke1_none";
    let plain = "aes256gcm16-prfsha384-x25519";
    for (a, b, is_connected) in
        [(optional, plain, true), (plain, optional, true), (ONE, plain, false), (plain, ONE, false)]
    {
        let mut world = World::new(with(A, a), with(B, b));
        world.run(seconds(3));
        assert_eq!(world.is_settled(), is_connected, "{a} {b}");
    }
}

#[test]
fn an_ike_sa_with_additional_key_exchanges_is_rekeyed() {
    let mut a = with(A, ONE);
    a.times.ike_rekey = Some(seconds(60));
    let mut world = World::new(a, with(B, ONE));
    world.run(seconds(200));
    world.assert_settled("after rekeys");
    assert!(world.planes.iter().all(|plane| plane.downs.is_empty()));
}

/// Until the additional key exchanges are done, a responder takes no authentication, and then no key exchange.
#[test]
fn exchanges_before_authentication_have_their_order() {
    let mut world = World::new(with(A, ONE), with(B, ONE));
    world.run(Duration::from_millis(25));
    let spi = *world.ends[A].sas.keys().next().unwrap();
    world.forget_datagrams();
    let before = world.log.len();
    world.ends[A].with_sa(spi, |sa, cx| {
        sa.pending = None;
        sa.request(cx, ExchangeType::IKE_AUTH, &[], Request::Liveness);
    });
    world.command(A, adit_core::Command::LeasesMoved);
    let request = world.log[before].clone();
    world.deliver(&request);
    assert_eq!(
        world.rejected.last(),
        Some(&adit_core::Rejected::Unexpected("a request before authentication"))
    );
}

/// A key exchange of another method, of a wrong length, or none, ends the attempt.
#[test]
fn a_malformed_additional_key_exchange_is_refused() {
    for payloads in [
        vec![],
        vec![Payload::KeyExchange(KeyExchange { method: 36, data: vec![1; 1183] })],
        vec![Payload::KeyExchange(KeyExchange { method: 37, data: vec![1; 1568] })],
        vec![Payload::KeyExchange(KeyExchange { method: 36, data: vec![0xff; 1184] })],
    ] {
        let mut world = World::new(with(A, ONE), with(B, ONE));
        world.run(Duration::from_millis(25));
        let spi = *world.ends[A].sas.keys().next().unwrap();
        world.forget_datagrams();
        world.ends[A].with_sa(spi, |sa, cx| {
            let request = sa.pending.take().map(|pending| pending.request).expect("a request");
            sa.request(cx, ExchangeType::IKE_INTERMEDIATE, &payloads, request);
        });
        world.command(A, adit_core::Command::LeasesMoved);
        world.run(seconds(2));
        assert!(
            world.planes[A].reports.join("\n").contains("INVALID_SYNTAX"),
            "{:?}",
            world.planes[A].reports
        );
        assert!(world.ends[B].sas.is_empty());
    }
}

/// A ciphertext of the right length that is not for this key gives other keys to each end.
#[test]
fn a_wrong_ciphertext_makes_no_connection() {
    let mut world = World::new(with(A, ONE), with(B, ONE));
    world.run(Duration::from_millis(25));
    let sa = world.ends[A].sas.values_mut().next().unwrap();
    let Some(Request::Intermediate(request)) = sa.pending.as_mut().map(|pending| &mut pending.request) else {
        panic!("an additional key exchange")
    };
    request.forget_key();
    world.run(seconds(4));
    assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0));
}

fn ppk(connection: &mut Connection, key: &[u8], is_required: bool) {
    let key = SharedKey(key.to_vec().into());
    connection.ppk = Some(Ppk { identity: b"ppk-1".to_vec(), key, is_required });
}

#[test]
fn a_ppk_is_mixed_in_where_both_have_it() {
    for (at_a, at_b, is_connected) in [
        (Some((b"one", true)), Some((b"one", true)), true),
        (Some((b"one", false)), Some((b"one", false)), true),
        (Some((b"one", false)), None, true),
        (None, Some((b"one", false)), true),
        (Some((b"one", true)), None, false),
        (None, Some((b"one", true)), false),
        (Some((b"one", true)), Some((b"two", true)), false),
        (Some((b"one", false)), Some((b"two", false)), false),
    ] {
        let [mut a, mut b] = [connection(A), connection(B)];
        if let Some((key, is_required)) = at_a {
            ppk(&mut a, key, is_required);
        }
        if let Some((key, is_required)) = at_b {
            ppk(&mut b, key, is_required);
        }
        let mut world = World::new(a, b);
        world.run(seconds(3));
        assert_eq!(world.is_settled(), is_connected, "{at_a:?} {at_b:?}: {}", world.state());
        let uses = |end: usize| {
            adit_core::Protocol::peers(&world.ends[end]).first().map(|(_, info)| info.detail.uses_ppk)
        };
        let expected = is_connected.then_some(at_a.is_some() && at_b.is_some());
        assert_eq!([uses(A), uses(B)], [expected; 2], "{at_a:?} {at_b:?}");
    }
}

/// The keys of child SAs, and those of the IKE SA's successors, depend on the PPK.
#[test]
fn keys_depend_on_the_ppk() {
    let keys = |key: Option<&[u8]>| {
        let [mut a, mut b] = [connection(A), connection(B)];
        if let Some(key) = key {
            ppk(&mut a, key, true);
            ppk(&mut b, key, true);
        }
        let mut world = World::new(a, b);
        world.run(seconds(3));
        world.assert_settled("with a PPK");
        let sa = world.ends[A].sas.values().next().unwrap();
        sa.channel.as_ref().unwrap().keys.derivation.to_vec()
    };
    assert_ne!(keys(Some(b"one")), keys(Some(b"two")));
}

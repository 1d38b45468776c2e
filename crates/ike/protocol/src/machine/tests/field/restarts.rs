//! Peers that have started anew, and say so without protection.

use adit_core::{Path, Rejected};

use super::super::world::*;
use super::connected;
use crate::wire::{ExchangeType, Flags, Header, Message, Notify, NotifyType, Payload, ProtocolId, Spi};

/// A message outside of IKE SAs which says that an SPI is unknown.
fn unknown(spi: u32, from: &str) -> Datagram {
    let header = Header {
        initiator_spi: Spi([7; 8]),
        responder_spi: Spi::ZERO,
        minor_version: 0,
        exchange: ExchangeType::INFORMATIONAL,
        flags: Flags { is_initiator: true, ..Flags::default() },
        message_id: 0,
    };
    let data = spi.to_be_bytes().to_vec();
    let notify = Notify { protocol: ProtocolId::ESP, spi: Vec::new(), kind: NotifyType::INVALID_SPI, data };
    let bytes = Message { header, payloads: vec![Payload::Notify(notify)], sealed: None }.encode();
    Datagram { to: A, path: Path::Udp { socket: 0, remote: from.parse().unwrap() }, bytes }
}

/// A peer that has started anew says that it does not know the SPI of the packets that it gets. It has no more effect than a question for a
/// sign of life, once a second: a peer that is there answers, and one that is not is given up without waiting for DPD.
#[test]
fn a_peer_that_knows_no_spi_is_asked_for_a_sign_of_life() {
    let [mut a, b] = [A, B].map(connection);
    a.times.dead_peer_detection = None;
    let mut world = World::new(a, b.clone());
    world.run(seconds(5));
    let spi = world.planes[A].sessions.values().next().unwrap().outbound_spi;
    let sent = |world: &mut World, spi: u32, from: &str| {
        let before = world.log.len();
        world.deliver(&unknown(spi, from));
        world.run(std::time::Duration::from_millis(100));
        world.log.len() - before
    };
    assert_eq!(sent(&mut world, spi, "192.0.2.99:500"), 0, "another address");
    world.run(seconds(1));
    assert_eq!(sent(&mut world, spi ^ 1, "192.0.2.2:500"), 0, "another SPI");
    world.run(seconds(1));
    assert_eq!(sent(&mut world, spi, "192.0.2.2:4500"), 2, "a question and an answer");
    assert_eq!(sent(&mut world, spi, "192.0.2.2:4500"), 0, "not again within a second");
    let is_limited = |rejected: &Rejected| matches!(rejected, Rejected::Limited(_));
    assert!(world.rejected.last().is_some_and(is_limited) && world.planes[A].downs.is_empty());
    world.assert_settled("the peer is there");
    world.restart(B, params(b), 9);
    world.run(seconds(300));
    assert!(!world.is_connected() && world.planes[A].downs.is_empty(), "without DPD nothing shows it");
    world.deliver(&unknown(spi, "192.0.2.2:500"));
    world.run(seconds(90));
    world.assert_settled("made anew");
}

/// A response to no request says nothing.
#[test]
fn an_unknown_spi_in_a_response_says_nothing() {
    let mut world = connected();
    let spi = world.planes[A].sessions.values().next().unwrap().outbound_spi;
    let mut response = unknown(spi, "192.0.2.2:500");
    // The byte of the flags (RFC 7296 section 3.1).
    response.bytes[19] |= 0x20;
    let before = world.log.len();
    world.deliver(&response);
    world.run(std::time::Duration::from_millis(100));
    assert_eq!(world.log.len(), before);
}

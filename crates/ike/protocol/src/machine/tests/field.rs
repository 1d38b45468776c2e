//! Troubles that peers and networks cause in the field, each with a test (docs/build/IKE-TROUBLES.md).

mod paths;
mod rekeys;
mod restarts;
mod words;

use super::world::{A, B, Datagram, World, connection, seconds};
use crate::wire::{Message, Payload, decode_chain};

/// The ends of a connection with one child SA.
fn connected() -> World {
    let mut world = World::new(connection(A), connection(B));
    world.run(seconds(5));
    world.assert_settled("at the start");
    world
}

/// The payloads of a message to an end that has one IKE SA.
fn opened(world: &World, datagram: &Datagram) -> Vec<Payload> {
    let sa = world.ends[datagram.to].sas.values().next().expect("an IKE SA");
    let sealed = Message::decode(&datagram.bytes).expect("a message").sealed.expect("a protected message");
    let plain = sa.channel.as_ref().expect("keys").open.open(&datagram.bytes, &sealed).expect("the keys");
    decode_chain(sealed.first, &plain).expect("payloads")
}

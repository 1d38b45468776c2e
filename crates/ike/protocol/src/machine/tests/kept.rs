//! The values that an IKE SA keeps, and for how long.

use adit_core::{Protocol as _, Rejected};

use super::world::*;
use crate::machine::sa::{IkeSa, Phase};

fn sa(world: &World, end: usize) -> &IkeSa {
    world.ends[end].sas.values().next().expect("an IKE SA")
}

/// Two ends that are connected, and whose timers of other kinds are far away.
fn connected(ike: &str) -> World {
    let [a, b] = [A, B].map(|end| {
        let mut connection = connection(end);
        connection.ike = crate::suite::ike_proposals(ike).unwrap();
        (connection.times.dead_peer_detection, connection.times.ike_rekey) = (None, None);
        connection.children[0].rekey = None;
        connection
    });
    let mut world = World::new(a, b);
    world.run(seconds(3));
    world.assert_settled(ike);
    world
}

#[test]
fn nothing_of_the_handshake_is_kept_after_authentication() {
    for ike in ["aes256gcm16-prfsha256-x25519", "aes256-sha256-x25519-ke1_mlkem768"] {
        let world = connected(ike);
        for end in [A, B] {
            let sa = sa(&world, end);
            let keys = &sa.channel.as_ref().unwrap().keys;
            assert!(matches!(sa.phase, Phase::Established) && sa.pending.is_none(), "{ike}: {end}");
            assert!(keys.initiator_proof.is_empty() && keys.responder_proof.is_empty(), "{ike}: {end}");
            let directions = [&keys.initiator, &keys.responder];
            assert!(directions.iter().all(|keys| keys.encryption.is_empty() && keys.integrity.is_empty()));
            assert!(sa.transcript.initiator.is_empty() && sa.transcript.opened.is_empty(), "{ike}: {end}");
            assert!(sa.previous_open.is_none() && sa.children.values().all(|child| child.codec.is_none()));
            assert!(world.ends[end].first_requests.is_empty() && world.ends[end].half_open.is_empty());
        }
    }
}

#[test]
fn the_last_response_is_kept_as_long_as_its_request_can_come_again() {
    let mut world = connected("aes256gcm16-prfsha256-x25519");
    let request = world.log.iter().rfind(|datagram| datagram.to == B).unwrap().clone();
    let again = |world: &mut World| {
        let (now, end) = (world.now, &mut world.ends[B]);
        let handled = end.handle_datagram(now, request.path, &request.bytes);
        (handled, end.poll_transmit(&mut Vec::new()).is_some())
    };
    // strongSwan sends a request for 165 s.
    world.run(seconds(165));
    assert_eq!(again(&mut world), (Ok(()), true));
    world.run(seconds(20));
    assert_eq!(again(&mut world), (Err(Rejected::Replayed), false));
    assert_eq!(world.ends[B].poll_timeout(), None, "nothing is due");
}

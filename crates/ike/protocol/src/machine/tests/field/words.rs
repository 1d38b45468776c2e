//! Identities, networks and certificates that differ: the words of the log, and what goes on in spite of them.

use adit_core::{Command, IpNet};

use super::super::authority::{Authority, Validity, certified, key};
use super::super::world::*;
use crate::machine::{RemoteProof, Traffic};
use crate::wire::{IdType, Identification};

/// A Cisco ASA takes one pair of networks for a child SA: that pair is carried, no packet of the others is, and the log names the others.
#[test]
fn networks_that_the_peer_leaves_out_are_in_the_log_and_nothing_is_sent_to_them() {
    let mut a = connection(A);
    a.children[0].remote.push(Traffic::all_of("10.4.0.0/16".parse().unwrap()));
    let mut world = World::new(a, connection(B));
    world.run(seconds(5));
    world.assert_settled("with one pair");
    let selectors = world.planes[A].sessions.values().next().unwrap().selectors.clone();
    let [pair] = &*selectors else { panic!("{selectors:?}") };
    assert_eq!(pair.remote, "10.2.0.0".parse().unwrap()..="10.2.255.255".parse().unwrap());
    let routes: Vec<IpNet> = vec!["10.2.0.0/16".parse().unwrap()];
    assert_eq!(world.planes[A].peer.as_ref().unwrap().routes, routes);
    world.command(A, Command::Rekey { peer: PEER });
    world.run(seconds(5));
    let told = world.planes[A].reports.iter().filter(|line| line.contains("leaves out 10.4.0.0/16"));
    assert_eq!(told.count(), 1, "{:?}", world.planes[A].reports);
    // Wide selectors are narrowed without a word.
    let mut a = connection(A);
    a.children[0].remote = ["0.0.0.0/0", "::/0"].map(|all| Traffic::all_of(all.parse().unwrap())).to_vec();
    let mut world = World::new(a, connection(B));
    world.run(seconds(5));
    assert_eq!(world.planes[A].reports, [""; 0]);
}

/// A FortiGate sends an identity of another kind than is expected: the log has both ends' identities as a file writes them.
#[test]
fn identities_without_a_connection_are_in_the_log_as_a_file_writes_them() {
    for (kind, data, written) in [
        (IdType::KEY_ID, &b"branch"[..], "`remote { id = keyid:branch }`"),
        (IdType::FQDN, b"10.0.0.1", "`remote { id = fqdn:10.0.0.1 }`"),
        (IdType::IPV4_ADDR, &[10, 0, 0, 1], "`remote { id = 10.0.0.1 }`"),
        (IdType::RFC822_ADDR, b"vpn@b.example", "`remote { id = vpn@b.example }`"),
    ] {
        let mut a = connection(A);
        a.local_auth.identity = Identification { kind, data: data.to_vec() };
        let mut world = World::new(a, connection(B));
        world.run(seconds(2));
        let log = world.planes[B].reports.join("\n");
        assert!(
            log.contains(&format!("it needs one with `local {{ id = b.example }}` and {written}")),
            "{log}"
        );
    }
}

/// A peer asks for certificates of an authority that this end does not have, or asks for none: it gets this end's certificate and those of
/// the authorities between it and the root.
#[test]
fn certificates_go_with_those_between_whatever_the_peer_asks_for() {
    let root = Authority::root("Root");
    let middle = root.below("Middle");
    for requested in [vec![[9; 20]], Vec::new()] {
        let [a, b] = [(A, "a.example"), (B, "b.example")].map(|(end, name)| {
            let mut own = middle.issue(name, &key(), Validity::Now);
            own.chain = vec![middle.certificate.clone()];
            let mut connection = certified(end, own, root.accepts(None));
            let RemoteProof::Certificate(accepted) = &mut connection.remote_auth.proof else { panic!() };
            accepted.requested.clone_from(&requested);
            connection
        });
        let mut world = World::new(a, b);
        world.run(seconds(3));
        world.assert_settled(&format!("{requested:?}"));
    }
}

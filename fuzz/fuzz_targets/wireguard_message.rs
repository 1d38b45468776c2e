//! Handshake messages of senders without a key of ours, at an interface with a peer: with any bytes, and with a right
//! mac1, as every host can make it that knows the interface's public key; under load, too. They change nothing, and
//! what answers them is shorter than they are.
#![no_main]

use std::net::SocketAddr;

use adit_core::{Event, Instant, Path, Protocol};
use adit_wireguard::wire::Message;
use adit_wireguard::{
    Changes, Interface, Params, PeerChange, PrivateKey, PublicKey, Reply, Sockets, WallClock, fuzzing,
};
use libfuzzer_sys::fuzz_target;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn interface() -> Interface {
    let mut params = Params::new(WallClock { at: NOW, since_1970: std::time::Duration::ZERO });
    params.sockets = Sockets { port: 1, ipv4: Some(0), ipv6: Some(0) };
    let peers = vec![PeerChange {
        endpoint: Some(SocketAddr::from(([192, 0, 2, 2], 2))),
        persistent_keepalive: Some(5),
        ..PeerChange::new(PublicKey([9; 32]))
    }];
    params.configuration =
        Changes { private_key: Some(PrivateKey::new([1; 32])), peers, ..Changes::default() };
    let mut interface = Interface::new(params, NOW, [1; 32]).expect("a configuration");
    drain(&mut interface);
    interface
}

fn drain(interface: &mut Interface) -> usize {
    while let Some(event) = interface.poll_event() {
        assert!(!matches!(event, Event::PeerUp { .. }));
    }
    let mut sent = Vec::new();
    while interface.poll_transmit(&mut sent).is_some() {}
    sent.len()
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, datagram)) = data.split_first() else { return };
    let _ = Message::parse(datagram);
    let mut interface = interface();
    let own = interface.public_key().expect("a key");
    let mut datagram = datagram.to_vec();
    if choice & 1 == 1 {
        fuzzing::add_mac1(&own, &mut datagram);
    }
    if choice & 2 == 2 {
        interface.handle_reply(NOW, Reply::UnderLoad(true));
    }
    let before = interface.status();
    let due = interface.poll_timeout();
    for _ in 0..2 {
        let path = Path::Udp { socket: 0, remote: SocketAddr::from(([198, 51, 100, *choice], 7)) };
        assert!(interface.handle_datagram(NOW, path, &datagram).is_err());
        assert!(drain(&mut interface) < datagram.len().max(1));
    }
    assert_eq!((interface.status(), interface.poll_timeout()), (before, due));
});

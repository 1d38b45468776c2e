//! The memory of peers that are only configured.

use std::net::Ipv4Addr;
use std::time::Duration;

use adit_core::{Instant, Protocol as _};
use adit_wireguard::{AllowedIp, Changes, Interface, Params, PeerChange, PublicKey, Reply, WallClock};

const PEERS: u32 = 10_000;
/// Bytes that the machine may keep for each. The data plane keeps about as much; both together are to stay below 4 KiB.
const MOST: i64 = 1300;

fn peer(number: u32) -> PeerChange {
    let mut key = [1; 32];
    key[..4].copy_from_slice(&number.to_be_bytes());
    let address = Ipv4Addr::from_bits(u32::from_be_bytes([10, 0, 0, 0]) + number);
    PeerChange {
        allowed_ips: vec![AllowedIp::Add(std::net::IpAddr::V4(address).into())],
        ..PeerChange::new(PublicKey(key))
    }
}

#[test]
fn a_configured_peer_is_small() {
    let clock = WallClock { at: Instant::ORIGIN, since_1970: Duration::ZERO };
    let mut interface =
        Interface::new(Params::new(clock), Instant::ORIGIN, [0; 32]).expect("a configuration");
    let kept = allocation_counter::measure(|| {
        let changes = Changes { peers: (0..PEERS).map(peer).collect(), ..Changes::default() };
        let order = Reply::Configure { id: 1, changes: Box::new(changes) };
        interface.handle_reply(Instant::ORIGIN, order);
        while interface.poll_event().is_some() {}
    });
    assert_eq!(interface.status().peers.len(), PEERS as usize);
    let each = kept.bytes_current / i64::from(PEERS);
    assert!((500..=MOST).contains(&each), "{each} bytes");
}

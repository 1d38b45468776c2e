//! A scenario's settings as the machines take them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use adit_core::Instant;
use adit_wireguard::{
    AllowedIp, Changes, ConfigureError, Interface, Params, PeerChange, PresharedKey, PrivateKey, PublicKey,
    Sockets, Tai64n, WallClock,
};

use super::scenario::Scenario;

/// The time of day at the start of the machines' clock, in seconds since 1970.
const WALL_AT_ORIGIN: i64 = 1_790_000_000;
/// The driver's numbers of an end's sockets.
const SOCKETS: Sockets = Sockets { port: 51820, ipv4: Some(0), ipv6: Some(1) };

/// The socket that sends to that address and receives from it.
pub(crate) fn socket(address: SocketAddr) -> u32 {
    u32::from(address.is_ipv6())
}

/// An end's addresses inside.
pub(crate) fn inner(end: usize) -> [IpAddr; 2] {
    let number = end as u8 + 1;
    let v6 = Ipv6Addr::new(0xfd00, 7, 0, 0, 0, 0, 0, u16::from(number));
    [Ipv4Addr::new(10, 7, 0, number).into(), v6.into()]
}

pub(crate) fn private_key(end: usize) -> Option<PrivateKey> {
    PrivateKey::new([end as u8 + 1; 32])
}

/// The public key of an end.
pub(crate) fn public_key(end: usize) -> Option<PublicKey> {
    let mut params = Params::new(clock(Instant::ORIGIN, 0));
    params.configuration.private_key = Some(private_key(end));
    Interface::new(params, Instant::ORIGIN, [0; 32]).ok()?.public_key()
}

/// A clock that is so many seconds wrong. It does not go before 1970.
pub(crate) fn clock(now: Instant, skew: i64) -> WallClock {
    let seconds =
        WALL_AT_ORIGIN.saturating_add((now - Instant::ORIGIN).as_secs() as i64).saturating_add(skew);
    WallClock { at: now, since_1970: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()) }
}

/// The skew of a clock that starts in 1970.
pub(crate) fn skew_of_1970(now: Instant) -> i64 {
    -WALL_AT_ORIGIN - (now - Instant::ORIGIN).as_secs() as i64
}

/// The settings of an end for another, with that address if there is one.
pub(crate) fn peer(
    scenario: &Scenario,
    end: usize,
    other: usize,
    address: Option<SocketAddr>,
) -> Option<PeerChange> {
    let is_pair = |ends: &[usize; 2]| ends.contains(&end) && ends.contains(&other);
    let pair = scenario.pairs.iter().find(|pair| end != other && is_pair(&pair.ends))?;
    let place = usize::from(pair.ends[1] == end);
    let knows = pair.knows[place];
    Some(PeerChange {
        endpoint: address.filter(|_| knows),
        preshared_key: pair.preshared.then(|| PresharedKey::new([0x77; 32])),
        persistent_keepalive: Some(scenario.ends[end].keepalive),
        post_quantum: Some(pair.post_quantum[place]),
        allowed_ips: inner(other).into_iter().map(|address| AllowedIp::Add(address.into())).collect(),
        ..PeerChange::new(public_key(other)?)
    })
}

/// The machine of an end. `addresses` are those of all ends; `kept` is the clock, and the saved timestamp.
pub(crate) fn interface(
    scenario: &Scenario,
    end: usize,
    addresses: &BTreeMap<usize, SocketAddr>,
    kept: (WallClock, Option<Tai64n>),
    seed: [u8; 32],
) -> Result<Interface, ConfigureError> {
    let (clock, timestamp_floor) = kept;
    let peers = addresses.iter().filter_map(|(other, address)| peer(scenario, end, *other, Some(*address)));
    let params = Params {
        timestamp_floor,
        sockets: SOCKETS,
        mtu: scenario.ends[end].mtu,
        workers: scenario.workers,
        configuration: Changes {
            private_key: Some(private_key(end)),
            peers: peers.collect(),
            ..Changes::default()
        },
        ..Params::new(clock)
    };
    Interface::new(params, clock.at, seed)
}

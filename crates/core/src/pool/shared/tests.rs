use std::net::Ipv4Addr;

use super::*;

fn ranges() -> PoolRanges {
    let v4 = (Ipv4Addr::new(10, 8, 0, 2), Ipv4Addr::new(10, 8, 0, 5));
    PoolRanges { v4: Some(v4), v6: None }
}

fn two() -> [EndpointPool; 2] {
    let pool = SharedPool::default();
    [pool.join(ranges(), &[]), pool.join(ranges(), &[])]
}

/// Leases the pool's addresses to `peer` under its name.
fn take(pool: &EndpointPool, peer: u32, name: &str) -> Option<Lease> {
    pool.lease(PeerId(peer), Some(name), FixedAddresses::default())
}

fn v4(lease: &Lease) -> u8 {
    lease.v4().unwrap().octets()[3]
}

#[test]
fn a_name_that_comes_by_another_endpoint_has_its_address_at_once() {
    let [udp, tcp] = two();
    // An id names two peers if it is in use at both endpoints.
    assert_eq!(udp.bind_name(PeerId(1), "anna"), NameBinding::Granted);
    let older = take(&udp, 1, "anna").unwrap();
    assert_eq!(tcp.bind_name(PeerId(1), "berta"), NameBinding::Granted);
    let berta = take(&tcp, 1, "berta").unwrap();
    assert_eq!((v4(&older), v4(&berta)), (2, 3), "one pool");

    assert_eq!(tcp.bind_name(PeerId(2), "anna"), NameBinding::Moved);
    let newer = take(&tcp, 2, "anna").unwrap();
    assert_eq!(v4(&newer), 2);
    assert_eq!(udp.bind_name(PeerId(1), "anna"), NameBinding::Lost, "it is the newer one's");
    assert_eq!(udp.evictions(), [(PeerId(1), Eviction::Replaced)]);
    assert_eq!((udp.evictions(), tcp.evictions()), (vec![], vec![]), "said once");

    // The end of the older one leaves the newer one its addresses.
    udp.leave(PeerId(1));
    udp.release(&older);
    assert_eq!(v4(&take(&udp, 3, "clara").unwrap()), 4);
    assert_eq!(udp.bind_name(PeerId(1), "anna"), NameBinding::Moved);
    assert_eq!(tcp.evictions(), [(PeerId(2), Eviction::Replaced)]);
}

#[test]
fn a_peer_that_is_gone_is_evicted_no_more() {
    let [udp, tcp] = two();
    udp.bind_name(PeerId(1), "anna");
    assert_eq!(tcp.bind_name(PeerId(1), "anna"), NameBinding::Moved);
    udp.leave(PeerId(1));
    // Its id is another's now.
    assert_eq!(udp.bind_name(PeerId(1), "berta"), NameBinding::Granted);
    assert!(udp.evictions().is_empty());
    // And the one that left has no name any more.
    tcp.leave(PeerId(1));
    assert_eq!(udp.bind_name(PeerId(2), "anna"), NameBinding::Granted);
}

#[test]
fn an_address_by_settings_is_taken_from_a_peer_of_another_endpoint() {
    let [udp, tcp] = two();
    udp.bind_name(PeerId(1), "anna");
    let anna = take(&udp, 1, "anna").unwrap();
    let fixed = FixedAddresses { v4: anna.v4(), v6: None };
    let mut berta = tcp.lease(PeerId(1), Some("berta"), fixed).unwrap();
    let holders = tcp.holders(&berta);
    assert_eq!(holders, BTreeMap::from([(udp.owner(PeerId(1)), false)]), "by the pool");
    tcp.evict(udp.owner(PeerId(1)), "berta");
    tcp.reserve(&mut berta);
    assert_eq!(udp.evictions(), [(PeerId(1), Eviction::AddressOf("berta".to_owned()))]);
    udp.release(&anna);
    let again = udp.lease(PeerId(2), Some("dora"), fixed).unwrap();
    assert_eq!(udp.holders(&again), BTreeMap::from([(tcp.owner(PeerId(1)), true)]), "by its settings");
}

#[test]
fn networks_are_withdrawn_by_the_peer_that_they_were_announced_for_last() {
    let [udp, tcp] = two();
    let networks: Vec<IpNet> = ["10.8.0.2/32", "10.50.0.0/16"].map(|net| net.parse().unwrap()).to_vec();
    assert!(udp.announce(PeerId(1), &networks).is_empty());
    assert_eq!(tcp.announce(PeerId(1), &networks[..1]), BTreeSet::from([networks[0]]));
    assert!(!udp.withdraw(PeerId(1), &networks[0]), "it is the other endpoint's now");
    assert!(udp.withdraw(PeerId(1), &networks[1]));
    assert!(tcp.withdraw(PeerId(1), &networks[0]));
}

#[test]
fn an_endpoint_leaves_what_its_peers_had() {
    let [udp, tcp] = two();
    udp.bind_name(PeerId(1), "anna");
    let given = take(&udp, 1, "anna").unwrap();
    assert!(tcp.has_others());
    let other = PoolRanges { v4: Some(([10, 8, 0, 2].into(), [10, 8, 0, 3].into())), v6: None };
    assert!(!tcp.set_ranges(other, std::iter::empty()), "they are the other endpoint's too");
    drop(udp);
    assert_eq!(tcp.bind_name(PeerId(7), "anna"), NameBinding::Granted);
    assert_eq!(v4(&take(&tcp, 7, "anna").unwrap()), v4(&given), "remembered by name");
    assert!(!tcp.has_others() && tcp.set_ranges(other, std::iter::empty()));
}

#[test]
fn kept_addresses_are_leased_to_nobody() {
    let pool = SharedPool::default();
    let at = |last: u8| IpAddr::from(Ipv4Addr::new(10, 8, 0, last));
    let keeper = pool.keeper();
    // Before there is a pool, and some outside of its ranges.
    keeper.keep([at(2), at(200)].into());
    let [udp, tcp] = [pool.join(ranges(), &[]), pool.join(ranges(), &[])];
    let anna = take(&udp, 1, "anna").unwrap();
    assert_eq!(v4(&anna), 3);
    assert_eq!([2, 200, 3].map(|last| tcp.is_kept(at(last))), [true, true, false]);
    // One that is in use stays with its peer, and is not leased afterwards; the one before is free.
    keeper.keep([at(3)].into());
    assert_eq!([2, 3].map(|peer| v4(&take(&tcp, peer, "").unwrap())), [4, 5]);
    udp.release(&anna);
    assert_eq!(v4(&take(&udp, 1, "anna").unwrap()), 2, "not what she had");
    assert!(take(&udp, 4, "berta").is_none(), "no more");
}

#[test]
fn each_keeper_keeps_its_own_addresses() {
    let pool = SharedPool::default();
    let keepers = [pool.keeper(), pool.keeper()];
    keepers[0].keep([IpAddr::from([10, 8, 0, 2])].into());
    let udp = pool.join(ranges(), &[]);
    keepers[1].keep([IpAddr::from([10, 8, 0, 3])].into());
    assert_eq!(v4(&take(&udp, 1, "anna").unwrap()), 4);
    keepers[1].clone().keep([].into());
    assert_eq!([2, 3].map(|peer| v4(&take(&udp, peer, "").unwrap())), [5, 3]);
    assert!(take(&udp, 4, "clara").is_none(), "the first keeper's address stays kept");
}

#[test]
fn kept_addresses_stay_so_in_other_ranges() {
    let pool = SharedPool::default();
    let udp = pool.join(ranges(), &[]);
    pool.keeper().keep([IpAddr::from([10, 8, 0, 3]), IpAddr::from([10, 8, 0, 101])].into());
    let v4_range = (Ipv4Addr::new(10, 8, 0, 100), Ipv4Addr::new(10, 8, 0, 102));
    assert!(udp.set_ranges(PoolRanges { v4: Some(v4_range), v6: None }, std::iter::empty()));
    assert_eq!([1, 2].map(|peer| v4(&take(&udp, peer, "").unwrap())), [100, 102]);
    assert!(take(&udp, 3, "").is_none());
}

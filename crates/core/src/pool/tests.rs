use super::*;

/// A pool of so many addresses of each family, from 10.8.0.2 and fd00::1000 on.
fn pool(slots: u8) -> AddressPool {
    let v4 = [2, 1 + slots].map(|last| Ipv4Addr::new(10, 8, 0, last));
    let v6 = "fd00::1000/64".parse().unwrap();
    AddressPool::new(PoolRanges { v4: Some(v4.into()), v6: Some(v6) }, &[])
}

fn owner(peer: u32) -> LeaseOwner {
    LeaseOwner { endpoint: 0, peer: PeerId(peer) }
}

fn take(pool: &mut AddressPool, peer: u32, name: &str) -> Option<Lease> {
    pool.lease(owner(peer), Some(name), FixedAddresses::default())
}

fn v4(lease: &Lease) -> u8 {
    lease.v4().unwrap().octets()[3]
}

fn fixed(address: [u8; 4]) -> FixedAddresses {
    FixedAddresses { v4: Some(address.into()), v6: None }
}

#[test]
fn other_ranges_leave_peers_their_addresses_and_give_them_to_no_other() {
    let mut before = pool(4);
    let mut leases =
        [(1, "anna"), (2, "berta"), (3, "clara")].map(|(peer, name)| take(&mut before, peer, name).unwrap());
    // From 10.8.0.3 on, with as many addresses: anna's is outside.
    let ranges = PoolRanges { v4: Some(([10, 8, 0, 3].into(), [10, 8, 0, 5].into())), v6: None };
    let mut after = AddressPool::new(ranges, &[]).in_place_of(&before);
    leases.iter_mut().for_each(|lease| after.adopt(lease));
    assert_eq!(leases.each_ref().map(v4), [2, 3, 4], "they stay as they are");
    let dora = take(&mut after, 4, "dora").unwrap();
    assert_eq!((v4(&dora), take(&mut after, 5, "eva")), (5, None));
    leases.iter().for_each(|lease| after.release(lease));
    assert_eq!(v4(&take(&mut after, 6, "clara").unwrap()), 4, "remembered by name");
    assert_eq!(v4(&take(&mut after, 7, "anna").unwrap()), 3, "the old address is not in the pool any more");
}

#[test]
fn a_name_keeps_its_address_and_others_take_fresh_ones_first() {
    let mut pool = pool(3);
    let anna = take(&mut pool, 1, "anna").unwrap();
    assert_eq!((v4(&anna), anna.v6().unwrap().to_string().as_str()), (2, "fd00::1000/64"));
    pool.release(&anna);
    let berta = take(&mut pool, 2, "berta").unwrap();
    let clara = take(&mut pool, 3, "clara").unwrap();
    assert_eq!((v4(&berta), v4(&clara)), (3, 4));
    assert_eq!(v4(&take(&mut pool, 4, "anna").unwrap()), 2);
    assert_eq!(take(&mut pool, 5, "dora"), None);
    pool.release(&berta);
    // Nothing is fresh any more: berta's goes to dora, and is remembered as dora's alone.
    let dora = take(&mut pool, 5, "dora").unwrap();
    assert_eq!(v4(&dora), 3);
    assert_eq!(pool.entry(&dora).unwrap().name, "dora");
    assert_eq!(pool.slot_of.get("berta"), None);
}

#[test]
fn what_is_remembered_is_in_the_ranges() {
    let entry = |name: &str, ipv4: &str, ipv6: &str| PoolEntry {
        name: name.to_owned(),
        ipv4: ipv4.parse().ok(),
        ipv6: ipv6.parse().ok(),
    };
    let ranges =
        PoolRanges { v4: Some(("10.8.0.2".parse().unwrap(), "10.8.0.9".parse().unwrap())), v6: None };
    let remembered =
        [entry("anna", "10.8.0.7", ""), entry("berta", "10.9.0.1", ""), entry("clara", "", "fd00::2")];
    let mut pool = AddressPool::new(ranges, &remembered);
    let given = ["anna", "berta", "clara"].map(|name| v4(&take(&mut pool, 1, name).unwrap()));
    assert_eq!(given, [7, 2, 3]);
}

#[test]
fn fixed_addresses_are_not_given_to_others() {
    let mut pool = pool(2);
    let mut anna = pool.lease(owner(1), Some("anna"), fixed([10, 8, 0, 2])).unwrap();
    assert_eq!(v4(&anna), 2);
    assert_eq!(anna.v6().unwrap().addr().segments()[7], 0x1000, "the other family is from the pool");
    pool.reserve(&mut anna);
    let berta = take(&mut pool, 2, "berta").unwrap();
    assert_eq!(v4(&berta), 3);
    assert_eq!(take(&mut pool, 3, "clara"), None);
    pool.release(&anna);
    assert!(take(&mut pool, 3, "clara").is_some());
}

#[test]
fn both_fixed_take_no_slot() {
    let mut pool = pool(1);
    let both = FixedAddresses { v6: Some("fd01::1/64".parse().unwrap()), ..fixed([192, 0, 2, 1]) };
    let mut lease = pool.lease(owner(1), Some("anna"), both).unwrap();
    pool.reserve(&mut lease);
    assert_eq!(pool.entry(&lease), None);
    let addresses: Vec<String> = lease.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1", "fd01::1"]);
    assert!(take(&mut pool, 2, "berta").is_some());
}

#[test]
fn an_address_has_the_holders_of_all_endpoints() {
    let mut pool = pool(4);
    let [one, other] = [0, 1].map(|endpoint| LeaseOwner { endpoint, peer: PeerId(7) });
    let anna = pool.lease(one, Some("anna"), FixedAddresses::default()).unwrap();
    let mut berta = pool.lease(other, Some("berta"), fixed([10, 8, 0, 2])).unwrap();
    assert_eq!(pool.holders(&berta), BTreeMap::from([(one, false)]), "by the pool");
    assert!(pool.holders(&anna).is_empty(), "berta's is not held yet");
    pool.release(&anna);
    pool.reserve(&mut berta);
    // Outside the ranges, too.
    let mut clara = pool.lease(one, None, fixed([192, 0, 2, 1])).unwrap();
    pool.reserve(&mut clara);
    let dora = pool.lease(other, None, fixed([192, 0, 2, 1])).unwrap();
    assert_eq!(pool.holders(&dora), BTreeMap::from([(one, true)]), "by its settings");
    pool.release(&clara);
    pool.release(&dora);
    assert_eq!(pool.holders(&dora), BTreeMap::new());
    assert_eq!(pool.holders(&clara), BTreeMap::new());
}

#[test]
fn a_peer_gets_other_addresses_and_leaves_its_own_to_others() {
    let mut pool = pool(3);
    let mut anna = take(&mut pool, 1, "anna").unwrap();
    let berta = take(&mut pool, 2, "berta").unwrap();
    let address = |last| IpAddr::from([10, 8, 0, last]);
    assert_eq!(pool.other_holder(owner(1), address(3)), Some(owner(2)));
    assert_eq!(pool.other_holder(owner(2), address(3)), None);
    // Of the pool, and free; IPv6 stays, so does its slot.
    let change = AddressChange { v4: Some(Some([10, 8, 0, 4].into())), v6: None };
    pool.change(&mut anna, change);
    assert_eq!((v4(&anna), anna.v6().unwrap().to_string().as_str()), (4, "fd00::1000/64"));
    assert_eq!(pool.other_holder(owner(2), address(4)), Some(owner(1)));
    assert_eq!(pool.other_holder(owner(2), address(2)), None, "the old one is free");
    assert_eq!(take(&mut pool, 3, "clara"), None, "two slots are anna's");
    // Outside of the pool, and none at all.
    pool.change(&mut anna, AddressChange { v4: Some(Some([10, 9, 0, 1].into())), v6: Some(None) });
    assert_eq!((anna.v4(), anna.v6()), (Some([10, 9, 0, 1].into()), None));
    assert_eq!(anna.addresses(), anna.fixed());
    let clara = take(&mut pool, 3, "clara").unwrap();
    pool.change(&mut anna, AddressChange { v4: Some(None), ..AddressChange::default() });
    assert!(anna.addresses().is_empty());
    for lease in [&anna, &berta, &clara] {
        pool.release(lease);
    }
    assert!(pool.used.is_empty() && pool.held.is_empty());
}

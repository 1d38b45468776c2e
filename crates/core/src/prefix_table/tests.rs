//! The table beside a model that follows the rules word by word.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const SHARES: PrefixShares = PrefixShares { ipv4: 3, ipv6_64: 3, ipv6_56: 5, ipv6_48: 7, total: 12 };

/// An entry of the model.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    key: u8,
    source: IpAddr,
    class: u8,
    age: usize,
}

/// The prefix of an address at a level: 0 is the IPv4 address or the /64, 3 all sources.
fn at_level(source: IpAddr, level: usize) -> (bool, u128) {
    match (source.to_canonical(), level) {
        (_, 3) => (true, 0),
        (IpAddr::V4(address), _) => (true, u128::from(address.to_bits())),
        (IpAddr::V6(address), level) => (false, address.to_bits() >> [64, 72, 80][level]),
    }
}

fn share(source: IpAddr, level: usize) -> usize {
    match (source.to_canonical(), level) {
        (_, 3) => SHARES.total,
        (IpAddr::V4(_), _) => SHARES.ipv4,
        (IpAddr::V6(_), level) => [SHARES.ipv6_64, SHARES.ipv6_56, SHARES.ipv6_48][level],
    }
}

/// The entry that makes room among these, which are of one prefix at that level.
fn first_to_go(mut among: Vec<Known>, level: usize) -> Option<u8> {
    for level in (0..level).rev() {
        let part = |of: &Known| -> Vec<Known> {
            let prefix = at_level(of.source, level);
            among.iter().filter(|other| at_level(other.source, level) == prefix).cloned().collect()
        };
        let first = |part: &[Known]| part.iter().map(|known| (known.class, known.age)).min();
        among = among.iter().map(part).min_by_key(|part| (Reverse(part.len()), first(part)))?;
    }
    among.iter().min_by_key(|known| (known.class, known.age)).map(|known| known.key)
}

#[derive(Default)]
struct Model {
    entries: Vec<Known>,
    next_age: usize,
}

impl Model {
    fn full_level(&self, source: IpAddr) -> Option<(usize, Vec<Known>)> {
        (0..4).find_map(|level| {
            let prefix = at_level(source, level);
            let of = |known: &&Known| at_level(known.source, level) == prefix;
            let members: Vec<Known> = self.entries.iter().filter(of).cloned().collect();
            (members.len() >= share(source, level)).then_some((level, members))
        })
    }

    fn insert(&mut self, source: IpAddr, key: u8, class: u8) -> Option<u8> {
        self.entries.retain(|known| known.key != key);
        let evicted = self.full_level(source).and_then(|(level, members)| first_to_go(members, level));
        self.entries.retain(|known| Some(known.key) != evicted);
        self.entries.push(Known { key, source, class, age: self.next_age });
        self.next_age += 1;
        evicted
    }
}

fn source() -> impl Strategy<Value = IpAddr> {
    let v4 = (0u8..4).prop_map(|last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last)));
    let mapped = (0u8..4).prop_map(|last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped()));
    let v6 = (0u16..3, 0u16..3, 0u16..3, 0u16..3).prop_map(|(site, part, net, host)| {
        IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, site, part << 8 | net, 0, 0, 0, host))
    });
    prop_oneof![v4, mapped, v6]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(IpAddr, u8, u8),
    TryInsert(IpAddr, u8, u8),
    Remove(u8),
    SetClass(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (source(), 0u8..40, 0u8..3).prop_map(|(source, key, class)| Step::Insert(source, key, class)),
        1 => (source(), 0u8..40, 0u8..3).prop_map(|(source, key, class)| Step::TryInsert(source, key, class)),
        1 => (0u8..40).prop_map(Step::Remove),
        1 => (0u8..40, 0u8..3).prop_map(|(key, class)| Step::SetClass(key, class)),
    ]
}

proptest! {
    #[test]
    fn it_does_what_its_rules_say(steps in prop::collection::vec(step(), 0..200)) {
        let mut table = PrefixTable::new("tests", SHARES);
        let mut model = Model::default();
        let mut evictions = 0;
        for step in steps {
            match step {
                Step::Insert(source, key, class) => {
                    let evicted = table.insert(source, key, class, source);
                    evictions += u64::from(evicted.is_some());
                    prop_assert_eq!(evicted.map(|(key, _)| key), model.insert(source, key, class));
                }
                Step::TryInsert(source, key, class) => {
                    model.entries.retain(|known| known.key != key);
                    let room = model.full_level(source).is_none();
                    prop_assert_eq!(table.try_insert(source, key, class, source).is_ok(), room);
                    if room {
                        model.insert(source, key, class);
                    }
                }
                Step::Remove(key) => {
                    prop_assert_eq!(table.remove(&key).is_some(), model.entries.iter().any(|it| it.key == key));
                    model.entries.retain(|known| known.key != key);
                }
                Step::SetClass(key, class) => {
                    table.set_class(&key, class);
                    model.entries.iter_mut().filter(|it| it.key == key).for_each(|it| it.class = class);
                }
            }
            let keys: BTreeSet<u8> = model.entries.iter().map(|known| known.key).collect();
            prop_assert_eq!(table.iter().map(|(key, _)| *key).collect::<BTreeSet<u8>>(), keys);
            let oldest = model.entries.iter().min_by_key(|known| known.age).map(|known| known.key);
            prop_assert_eq!(table.oldest().map(|(key, _)| *key), oldest);
            prop_assert!(table.len() <= SHARES.total);
            prop_assert_eq!(table.usage().evicted, evictions);
        }
        let keys: Vec<u8> = table.iter().map(|(key, _)| *key).collect();
        prop_assert!(keys.iter().all(|key| table.remove(key).is_some()));
        prop_assert!(table.groups.is_empty() && table.by_age.is_empty(), "nothing is left behind");
    }
}

/// Fills a table from a source; gives the evicted entries.
fn fill(table: &mut PrefixTable<u32, (), u8>, source: &str, keys: std::ops::Range<u32>) -> Vec<u32> {
    let source: IpAddr = source.parse().unwrap();
    keys.filter_map(|key| table.insert(source, key, 0, ()).map(|(key, ())| key)).collect()
}

#[test]
fn who_fills_the_table_makes_room_and_who_has_one_entry_does_not() {
    let mut table = PrefixTable::new("tests", PrefixShares::new(8, 10));
    assert_eq!(fill(&mut table, "192.0.2.1", 0..8), []);
    assert_eq!(fill(&mut table, "192.0.2.2", 100..101), []);
    assert_eq!(fill(&mut table, "2001:db8::1", 200..201), []);
    assert_eq!(fill(&mut table, "192.0.2.3", 300..303), [0, 1, 2], "the oldest of the one with the most");
    assert_eq!(fill(&mut table, "192.0.2.1", 8..11), [3, 4, 5], "its own");
}

#[test]
fn a_network_is_counted_by_its_wider_prefixes_too() {
    let mut table = PrefixTable::new("tests", PrefixShares::new(4, 100));
    for net in 0..16u32 {
        let source = format!("2001:db8:0:{net:x}::1");
        fill(&mut table, &source, 10 * net..10 * net + 4);
    }
    assert_eq!(table.len(), 8, "one /56");
    for part in 0..16u32 {
        let source = format!("2001:db8:0:{part:x}00::1");
        fill(&mut table, &source, 1000 + 10 * part..1000 + 10 * part + 4);
    }
    assert_eq!(table.len(), 16, "one /48");
    assert!(table.entries_from("2001:db8:0:f00::99".parse().unwrap()) > 0, "the last that came is there");
}

#[test]
fn of_one_prefix_the_lowest_class_goes_first() {
    let mut table = PrefixTable::new("tests", PrefixShares::new(3, 10));
    fill(&mut table, "192.0.2.1", 0..3);
    table.set_class(&0, 2);
    table.set_class(&1, 1);
    assert_eq!(fill(&mut table, "192.0.2.1", 3..5), [2, 3]);
    table.set_class(&4, 3);
    assert_eq!(fill(&mut table, "192.0.2.1", 5..6), [1]);
    assert_eq!((table.class(&0), table.usage().evicted), (Some(2), 3));
}

#[test]
fn what_is_refused_is_counted() {
    let mut table = PrefixTable::new("tests", PrefixShares::new(1, 10));
    let source = "192.0.2.1".parse().unwrap();
    assert!(table.try_insert(source, 1, (), "first").is_ok() && !table.has_room(source));
    assert_eq!(table.try_insert(source, 2, (), "second"), Err("second"));
    let usage = TableUsage { name: "tests", entries: 1, share: 1, limit: 10, evicted: 0, refused: 1 };
    assert_eq!(table.usage(), usage);
}

#[test]
fn the_narrowest_prefix_is_an_ipv4_address_or_an_ipv6_64() {
    let of = |text: &str| SourcePrefix::narrowest(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::2:3:4:5"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_ne!(of("0.0.0.0"), of("::"));
    assert_ne!(of("0.0.0.0").octets(), of("::").octets());
}

#[test]
fn other_shares_limit_further_entries() {
    let mut table: PrefixTable<u8, ()> = PrefixTable::new("entries", PrefixShares::new(1, 4));
    let source = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    assert!(table.try_insert(source, 1, (), ()).is_ok() && table.try_insert(source, 2, (), ()).is_err());
    table.set_shares(PrefixShares::new(2, 4));
    assert!(table.try_insert(source, 2, (), ()).is_ok());
    table.set_shares(PrefixShares::new(1, 4));
    assert_eq!(table.len(), 2, "none goes");
    assert_eq!(table.insert(source, 3, (), ()).map(|(key, ())| key), Some(1));
}

//! The limits of every table that peers can fill before they have authenticated.
//!
//! A [`PrefixTable`] bounds its entries by source prefix and in all ([`PrefixShares`]). When a share is full, it evicts
//! one entry and takes the new one:
//!
//! 1. Prefixes are looked at from the narrowest to the widest (IPv6: /64, /56, /48; then all sources). The first whose
//!    share is full must give up an entry.
//! 2. Within it, the part with the most entries gives it up: of all sources, the IPv4 address or the /48 with the most;
//!    of a /48, the /56 with the most; of a /56, the /64 with the most. Between parts of the same size, the part decides
//!    whose first entry by rule 3 comes first.
//! 3. Of that IPv4 address or /64, the entry of the lowest class goes, and of these the oldest.
//!
//! A prefix with few entries therefore loses none while another has more, whatever the classes are: a class that every
//! sender can reach (such as a TLS handshake that has begun) must not protect the senders that fill the table from
//! those that come later. A network of IPv6 has up to 2^16 prefixes of 64 bits (RFC 6177 suggests /48 to /56 for a
//! site), so that a limit by /64 alone limits no site.
//!
//! Each operation takes logarithmic time.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// How many entries of a [`PrefixTable`] may come from one source prefix, and how many there may be in all. Each is at
/// least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixShares {
    /// Entries from one IPv4 address. An IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2) is the IPv4 address.
    pub ipv4: usize,
    /// Entries from one IPv6 /64.
    pub ipv6_64: usize,
    /// Entries from one IPv6 /56.
    pub ipv6_56: usize,
    /// Entries from one IPv6 /48.
    pub ipv6_48: usize,
    /// Entries from all sources.
    pub total: usize,
}

impl PrefixShares {
    /// `share` for an IPv4 address and for a /64, twice as many for a /56, four times as many for a /48; none more than
    /// `total`.
    pub const fn new(share: usize, total: usize) -> Self {
        const fn at_most(number: usize, most: usize) -> usize {
            if number < most { number } else { most }
        }
        PrefixShares {
            ipv4: at_most(share, total),
            ipv6_64: at_most(share, total),
            ipv6_56: at_most(share.saturating_mul(2), total),
            ipv6_48: at_most(share.saturating_mul(4), total),
            total,
        }
    }

    fn of(&self, prefix: SourcePrefix) -> usize {
        let share = match prefix.length {
            0 => self.total,
            48 => self.ipv6_48,
            56 => self.ipv6_56,
            64 => self.ipv6_64,
            _ => self.ipv4,
        };
        share.max(1)
    }
}

/// How full a table is, and how many entries it could not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUsage {
    /// The name of its entries.
    pub name: &'static str,
    /// Entries now.
    pub entries: usize,
    /// Entries that there may be from one IPv4 address or IPv6 /64.
    pub share: usize,
    /// Entries that there may be.
    pub limit: usize,
    /// Entries that made room for others, since the start.
    pub evicted: u64,
    /// Entries that were not taken, since the start.
    pub refused: u64,
}

/// A source prefix: an IPv4 address, an IPv6 /64, /56 or /48, or all sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePrefix {
    /// IPv4 addresses are written as IPv4-mapped IPv6 addresses, with length 128.
    bits: u128,
    length: u8,
}

impl SourcePrefix {
    /// All sources.
    const ALL: SourcePrefix = SourcePrefix { bits: 0, length: 0 };

    /// The narrowest prefix of a source: an IPv4 address (also one written as IPv6, `::ffff:192.0.2.1`) or an IPv6 /64.
    /// A host has as many addresses within its /64 as it likes.
    pub const fn narrowest(source: IpAddr) -> Self {
        match source.to_canonical() {
            IpAddr::V4(address) => SourcePrefix { bits: address.to_ipv6_mapped().to_bits(), length: 128 },
            IpAddr::V6(address) => SourcePrefix::of(address.to_bits(), 64),
        }
    }

    /// Its address, which tells a narrowest prefix from all others of that kind.
    pub const fn octets(self) -> [u8; 16] {
        self.bits.to_be_bytes()
    }

    const fn of(bits: u128, length: u8) -> Self {
        SourcePrefix { bits: bits >> (128 - length as u32) << (128 - length as u32), length }
    }
}

/// The prefixes that a source is counted by, from the narrowest to the widest, which is all sources.
pub fn prefixes(source: IpAddr) -> impl Iterator<Item = SourcePrefix> {
    let wider = match source.to_canonical() {
        IpAddr::V4(_) => [None, None],
        IpAddr::V6(address) => [56, 48].map(|length| Some(SourcePrefix::of(address.to_bits(), length))),
    };
    [SourcePrefix::narrowest(source)]
        .into_iter()
        .chain(wider.into_iter().flatten())
        .chain([SourcePrefix::ALL])
}

/// An entry's place in the order in which entries of one prefix go: its class, then its age.
type Order<C> = (C, u64);

/// A part's place in the order in which parts of a prefix give up entries.
type Rank<C> = (Reverse<usize>, Order<C>, SourcePrefix);

/// The entries of one prefix.
struct Group<C> {
    entries: BTreeSet<Order<C>>,
    /// The next narrower prefixes in it that have entries.
    parts: BTreeSet<Rank<C>>,
}

impl<C: Ord + Copy> Group<C> {
    const fn new() -> Self {
        Group { entries: BTreeSet::new(), parts: BTreeSet::new() }
    }

    fn rank(&self, prefix: SourcePrefix) -> Option<Rank<C>> {
        self.entries.first().map(|first| (Reverse(self.entries.len()), *first, prefix))
    }
}

struct Entry<C, V> {
    source: IpAddr,
    order: Order<C>,
    value: V,
}

/// Entries by key, limited by the prefix of their source and in all: see the [module](self).
///
/// `C` is the class of an entry: those of lower classes go first.
pub struct PrefixTable<K, V, C = ()> {
    name: &'static str,
    shares: PrefixShares,
    entries: BTreeMap<K, Entry<C, V>>,
    /// Keys by age.
    by_age: BTreeMap<u64, K>,
    groups: BTreeMap<SourcePrefix, Group<C>>,
    next_age: u64,
    evicted: u64,
    refused: u64,
}

impl<K: Ord + Clone, V, C: Ord + Copy> PrefixTable<K, V, C> {
    /// An empty table. `name` is that of its entries, for [`TableUsage`].
    pub const fn new(name: &'static str, shares: PrefixShares) -> Self {
        PrefixTable {
            name,
            shares,
            entries: BTreeMap::new(),
            by_age: BTreeMap::new(),
            groups: BTreeMap::new(),
            next_age: 0,
            evicted: 0,
            refused: 0,
        }
    }

    /// Limits further entries by other shares. Entries that are too many by them stay until they are removed.
    pub fn set_shares(&mut self, shares: PrefixShares) {
        self.shares = shares;
    }

    /// Takes one more entry. One with the same key is replaced; else, if a share is full, the entry that made room is
    /// given back.
    #[must_use = "what was evicted must be closed"]
    pub fn insert(&mut self, source: IpAddr, key: K, class: C, value: V) -> Option<(K, V)> {
        self.remove(&key);
        let victim = self.full_share(source).and_then(|prefix| self.first_to_go(prefix));
        let evicted = victim.and_then(|key| self.remove(&key).map(|value| (key, value)));
        self.evicted += u64::from(evicted.is_some());
        self.add(source, key, class, value);
        evicted
    }

    /// Takes one more entry if no share is full. A refused entry is counted and given back.
    ///
    /// # Errors
    /// The value, if there is no room.
    pub fn try_insert(&mut self, source: IpAddr, key: K, class: C, value: V) -> Result<(), V> {
        self.remove(&key);
        if self.full_share(source).is_some() {
            self.refused += 1;
            return Err(value);
        }
        self.add(source, key, class, value);
        Ok(())
    }

    fn add(&mut self, source: IpAddr, key: K, class: C, value: V) {
        let order = (class, self.next_age);
        self.next_age += 1;
        self.by_age.insert(order.1, key.clone());
        self.entries.insert(key, Entry { source, order, value });
        self.change(source, |entries| {
            entries.insert(order);
        });
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let Entry { source, order, value } = self.entries.remove(key)?;
        self.by_age.remove(&order.1);
        self.change(source, |entries| {
            entries.remove(&order);
        });
        Some(value)
    }

    /// Changes the class of an entry, which keeps its age.
    pub fn set_class(&mut self, key: &K, class: C) {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.order.0 != class) else { return };
        let (source, before) = (entry.source, entry.order);
        let after = (class, before.1);
        entry.order = after;
        self.change(source, |entries| {
            entries.remove(&before);
            entries.insert(after);
        });
    }

    /// Applies a change of one entry to all prefixes of its source.
    fn change(&mut self, source: IpAddr, change: impl Fn(&mut BTreeSet<Order<C>>)) {
        let mut part: [Option<Rank<C>>; 2] = [None, None];
        for prefix in prefixes(source) {
            let group = self.groups.entry(prefix).or_insert_with(Group::new);
            let [before, after] = part;
            if let Some(rank) = before {
                group.parts.remove(&rank);
            }
            group.parts.extend(after);
            let before = group.rank(prefix);
            change(&mut group.entries);
            part = [before, group.rank(prefix)];
            if group.entries.is_empty() {
                self.groups.remove(&prefix);
            }
        }
    }

    /// The narrowest prefix of a source that has as many entries as it may.
    fn full_share(&self, source: IpAddr) -> Option<SourcePrefix> {
        prefixes(source).find(|prefix| {
            let entries = self.groups.get(prefix).map_or(0, |group| group.entries.len());
            entries >= self.shares.of(*prefix)
        })
    }

    /// The entry that makes room in this prefix.
    fn first_to_go(&self, mut prefix: SourcePrefix) -> Option<K> {
        loop {
            let group = self.groups.get(&prefix)?;
            match group.parts.first() {
                Some((.., part)) => prefix = *part,
                None => return group.entries.first().and_then(|(_, age)| self.by_age.get(age)).cloned(),
            }
        }
    }

    /// Counts something that was not taken, beside the entries that [`Self::try_insert`] refused.
    pub fn count_refusal(&mut self) {
        self.refused += 1;
    }

    /// Whether one more entry from there would evict none.
    pub fn has_room(&self, source: IpAddr) -> bool {
        self.full_share(source).is_none()
    }

    /// Entries from the same IPv4 address or IPv6 /64.
    pub fn entries_from(&self, source: IpAddr) -> usize {
        let narrowest = prefixes(source).next();
        narrowest.and_then(|prefix| self.groups.get(&prefix)).map_or(0, |group| group.entries.len())
    }

    /// The value of an entry.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The value of an entry, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// The class of an entry.
    pub fn class(&self, key: &K) -> Option<C> {
        self.entries.get(key).map(|entry| entry.order.0)
    }

    /// Whether there is an entry with this key.
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// The entry that came first.
    pub fn oldest(&self) -> Option<(&K, &V)> {
        let key = self.by_age.first_key_value()?.1;
        self.get(key).map(|value| (key, value))
    }

    /// The entry that came last.
    pub fn newest(&self) -> Option<(&K, &V)> {
        let key = self.by_age.last_key_value()?.1;
        self.get(key).map(|value| (key, value))
    }

    /// All entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.by_age.clear();
        self.groups.clear();
    }

    /// How full it is.
    pub fn usage(&self) -> TableUsage {
        TableUsage {
            name: self.name,
            entries: self.entries.len(),
            share: self.shares.ipv4,
            limit: self.shares.total,
            evicted: self.evicted,
            refused: self.refused,
        }
    }
}

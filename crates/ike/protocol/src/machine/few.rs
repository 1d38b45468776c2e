//! A map of few entries.

/// A map of few entries, in the order of their keys. [`std::collections::BTreeMap`] takes room for eleven entries with the first one;
/// this map has no room for more entries than it has.
#[derive(Clone, Debug)]
pub(crate) struct FewMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for FewMap<K, V> {
    fn default() -> Self {
        FewMap(Vec::new())
    }
}

impl<K: Copy + Ord, V> FewMap<K, V> {
    fn place(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(own, _)| *own)
    }

    /// Gives the value that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(key) {
            Ok(place) => self.0.get_mut(place).map(|(_, own)| std::mem::replace(own, value)),
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (_, value) = self.place(*key).ok().map(|place| self.0.remove(place))?;
        self.0.shrink_to_fit();
        Some(value)
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.place(*key).ok().and_then(|place| self.0.get(place)).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(*key).ok().and_then(|place| self.0.get_mut(place)).map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.place(*key).is_ok()
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

impl<K: Copy + Ord, V> Extend<(K, V)> for FewMap<K, V> {
    fn extend<T: IntoIterator<Item = (K, V)>>(&mut self, entries: T) {
        entries.into_iter().for_each(|(key, value)| drop(self.insert(key, value)));
    }
}

impl<K, V> IntoIterator for FewMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_has_the_entries_of_a_tree_and_no_further_room(steps in proptest::collection::vec((0..6_u32, any::<Option<u8>>()), 0..40)) {
            let (mut few, mut tree) = (FewMap::default(), BTreeMap::new());
            for (key, value) in steps {
                match value {
                    Some(value) => prop_assert_eq!(few.insert(key, value), tree.insert(key, value)),
                    None => prop_assert_eq!(few.remove(&key), tree.remove(&key)),
                }
                prop_assert!(few.keys().eq(tree.keys()) && few.values().eq(tree.values()));
                prop_assert_eq!((few.get(&key), few.contains_key(&key)), (tree.get(&key), tree.contains_key(&key)));
                prop_assert_eq!((few.0.capacity(), few.len(), few.is_empty()), (tree.len(), tree.len(), tree.is_empty()));
            }
        }
    }
}

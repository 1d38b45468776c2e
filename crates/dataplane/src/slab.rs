//! Places by number, with those that are free known, so that taking and leaving one costs the same however many
//! there are.

/// A vector with gaps.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a value into a free place and gives its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        if let Some(place) = self.places.get_mut(index as usize) {
            *place = Some(value);
        }
        index
    }

    /// Takes the value out of a place, which is free then.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.places.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut slab = Slab::default();
        let numbers: Vec<u32> = ["a", "b", "c"].into_iter().map(|value| slab.insert(value)).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!((slab.remove(1), slab.remove(1), slab.remove(9)), (Some("b"), None, None));
        assert_eq!(slab.get(1), None);
        assert_eq!((slab.insert("d"), slab.insert("e")), (1, 3));
        assert_eq!(slab.iter_mut().map(|value| *value).collect::<String>(), "adce");
        slab.get_mut(3).into_iter().for_each(|value| *value = "f");
        assert_eq!(slab.get(3), Some(&"f"));
    }
}

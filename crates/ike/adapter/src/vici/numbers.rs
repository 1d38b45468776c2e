//! The numbers of IKE SAs, of child SAs and of their requests, by which `--ike-id` and `--child-id` name them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_ike::machine::{ChildDetail, PeerDetail};
use adit_ike::wire::Spi;

use crate::selectors::selector;

/// The numbers of a child SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildNumbers {
    /// Its own. No other child SA has it.
    pub(super) unique: u32,
    /// That of its traffic: child SAs of equal selectors have it, one after the other or at once.
    pub(super) request: u32,
}

/// Gives numbers to IKE SAs and child SAs when they are seen first. Copies give the same ones.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Arc<Mutex<Given>>);

#[derive(Default)]
struct Given {
    last_ike: u32,
    /// By the SPI that this end has chosen. An IKE SA that replaces another one has a number of its own.
    ike: BTreeMap<Spi, u32>,
    last_unique: u32,
    /// By the SPI of received packets.
    unique: BTreeMap<u32, u32>,
    last_request: u32,
    requests: BTreeMap<Selectors, u32>,
    /// The numbers of traffic that is gone.
    free: BTreeSet<u32>,
}

/// The local and the remote selectors of a child SA.
type Selectors = [Vec<String>; 2];

impl Numbers {
    /// The number of an IKE SA.
    pub(super) fn of_ike_sa(&self, own: Spi) -> u32 {
        let mut guard = self.lock();
        let given = &mut *guard;
        *given.ike.entry(own).or_insert_with(|| {
            given.last_ike += 1;
            given.last_ike
        })
    }

    /// The numbers of child SAs, in the order of `children`.
    pub(super) fn of(&self, children: &[ChildDetail]) -> Vec<ChildNumbers> {
        let mut guard = self.lock();
        let given = &mut *guard;
        let mut next = |child: &ChildDetail| {
            let unique = *given.unique.entry(child.own_spi).or_insert_with(|| {
                given.last_unique += 1;
                given.last_unique
            });
            ChildNumbers { unique, request: given.request(child) }
        };
        children.iter().map(&mut next).collect()
    }

    /// Forgets the IKE SAs and child SAs that are gone. `all`: those that are there; `connecting`: the IKE SAs that this end initiates.
    pub(super) fn retain<'a>(
        &self,
        all: impl Iterator<Item = &'a PeerDetail> + Clone,
        connecting: impl IntoIterator<Item = Spi>,
    ) {
        let ike: BTreeSet<Spi> = all.clone().map(|detail| detail.own_spi).chain(connecting).collect();
        let children = || all.clone().flat_map(|detail| &detail.children);
        let spis: BTreeSet<u32> = children().map(|child| child.own_spi).collect();
        let selectors: BTreeSet<Selectors> = children().map(selectors).collect();
        let mut given = self.lock();
        given.ike.retain(|spi, _| ike.contains(spi));
        given.unique.retain(|spi, _| spis.contains(spi));
        let (kept, gone) =
            std::mem::take(&mut given.requests).into_iter().partition(|(of, _)| selectors.contains(of));
        given.requests = kept;
        let gone: BTreeMap<Selectors, u32> = gone;
        given.free.extend(gone.into_values());
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Given {
    /// The number of the traffic of a child SA: the lowest that is free.
    fn request(&mut self, child: &ChildDetail) -> u32 {
        let of = selectors(child);
        if let Some(number) = self.requests.get(&of) {
            return *number;
        }
        let number = self.free.pop_first().unwrap_or_else(|| {
            self.last_request += 1;
            self.last_request
        });
        self.requests.insert(of, number);
        number
    }
}

fn selectors(child: &ChildDetail) -> Selectors {
    [&child.local, &child.remote].map(|side| side.iter().map(selector).collect())
}

#[cfg(test)]
mod tests {
    use adit_ike::wire::{AddressRange, TrafficSelector};

    use super::*;
    use crate::vici::sas::testing;

    fn detail(spi: u8, child: u32, host: u8) -> PeerDetail {
        let mut detail = testing::sa(spi, &[child]).info.detail;
        detail.children[0].remote = vec![TrafficSelector {
            protocol: 0,
            first_port: 0,
            last_port: u16::MAX,
            addresses: AddressRange::V4([10, 0, 0, host].into(), [10, 0, 0, host].into()),
        }];
        detail
    }

    #[test]
    fn an_ike_sa_keeps_its_number_and_its_successor_has_another() {
        let numbers = Numbers::default();
        let [first, second] = [detail(1, 10, 1), detail(2, 20, 2)];
        let of = |detail: &PeerDetail| numbers.of_ike_sa(detail.own_spi);
        assert_eq!([of(&first), of(&second), of(&first)], [1, 2, 1]);
        numbers.retain([&second].into_iter(), [first.own_spi]);
        assert_eq!(of(&first), 1, "it is initiated");
        numbers.retain([&second].into_iter(), []);
        assert_eq!(
            [of(&first), of(&second)],
            [3, 2],
            "the first one has gone, and its SPI is that of another"
        );
    }

    #[test]
    fn equal_traffic_has_one_number_which_is_free_when_the_traffic_is_gone() {
        let numbers = Numbers::default();
        let of = |detail: &PeerDetail| {
            let [ChildNumbers { unique, request }] = numbers.of(&detail.children)[..] else { panic!("one") };
            (unique, request)
        };
        let [carol, dave, again] = [detail(1, 10, 1), detail(2, 20, 2), detail(3, 30, 1)];
        assert_eq!([of(&carol), of(&dave), of(&again)], [(1, 1), (2, 2), (3, 1)]);
        numbers.retain([&dave].into_iter(), []);
        let [erin, frank] = [detail(4, 40, 4), detail(5, 50, 5)];
        assert_eq!([of(&dave), of(&erin), of(&frank)], [(2, 2), (4, 1), (5, 3)]);
    }
}

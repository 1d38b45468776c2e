//! The numbers of child SAs and of their requests, by which `--child-id` names a child SA.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use adit_core::PeerId;
use adit_ike::machine::ChildDetail;

/// The numbers of a child SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildNumbers {
    /// Its own. No other child SA has it.
    pub(super) unique: u32,
    /// That of its child, which its successors have, too.
    pub(super) request: u32,
}

/// Gives numbers to child SAs when they are seen first. Copies give the same ones.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Arc<Mutex<Given>>);

#[derive(Default)]
struct Given {
    last_unique: u32,
    /// By the SPI of received packets.
    unique: BTreeMap<u32, u32>,
    last_request: u32,
    requests: BTreeMap<(PeerId, String), u32>,
}

impl Numbers {
    /// The numbers of a peer's child SAs, in the order of `children`.
    pub(super) fn of(&self, peer: PeerId, children: &[ChildDetail]) -> Vec<ChildNumbers> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given = &mut *guard;
        let mut next = |child: &ChildDetail| {
            let unique = *given.unique.entry(child.own_spi).or_insert_with(|| {
                given.last_unique += 1;
                given.last_unique
            });
            let request = *given.requests.entry((peer, child.name.clone())).or_insert_with(|| {
                given.last_request += 1;
                given.last_request
            });
            ChildNumbers { unique, request }
        };
        children.iter().map(&mut next).collect()
    }

    /// Forgets the child SAs that are gone. `spis` are those of all that are there.
    pub(super) fn retain(&self, spis: &std::collections::BTreeSet<u32>) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.unique.retain(|spi, _| spis.contains(spi));
    }
}

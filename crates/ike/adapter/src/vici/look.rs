//! The IKE SAs of a tunnel as they are, and the filters of requests.

use std::collections::{BTreeMap, BTreeSet};

use adit_core::{PeerId, PeerInfo, Protocol as _};
use adit_dataplane::Snapshot;
use adit_ike::machine::{ChildDetail, Endpoint, PeerDetail};
use adit_ike_vici::Message;

use super::numbers::{ChildNumbers, Numbers};
use super::sas::IkeSa;
use super::view::View;

/// The IKE SAs that are established. `None`: the tunnel does not answer.
pub(super) fn established(view: &View) -> Option<Vec<IkeSa>> {
    let numbers = view.numbers.clone();
    view.look(move |endpoint, _| {
        let all = endpoint.peers().into_iter();
        let all: Vec<IkeSa> = all.map(|(peer, info)| of(endpoint, peer, info, &numbers)).collect();
        let connecting = endpoint.connecting().into_iter().map(|sa| sa.spis[0]);
        numbers.retain(all.iter().map(|sa| &sa.info.detail), connecting);
        all
    })
}

/// The IKE SAs of these peers, of which some may be down. `None`: the tunnel does not answer.
pub(super) fn of_peers(view: &View, peers: BTreeSet<PeerId>) -> Option<BTreeMap<PeerId, IkeSa>> {
    let numbers = view.numbers.clone();
    view.look(move |endpoint, _| {
        let found = peers.into_iter().filter_map(|peer| Some((peer, endpoint.peer(peer)?)));
        found.map(|(peer, info)| (peer, of(endpoint, peer, info, &numbers))).collect()
    })
}

fn of(endpoint: &Endpoint, peer: PeerId, info: PeerInfo<PeerDetail>, numbers: &Numbers) -> IkeSa {
    let local = endpoint.local_address(info.path);
    let number = numbers.of_ike_sa(info.detail.own_spi);
    let numbers = numbers.of(&info.detail.children);
    IkeSa { peer, number, local, numbers, info }
}

/// The filters of a request: IKE SAs by connection and number, child SAs by child and number.
pub(super) struct Filter<'a> {
    ike: Option<&'a str>,
    ike_id: Option<&'a str>,
    child: Option<&'a str>,
    child_id: Option<&'a str>,
}

impl<'a> Filter<'a> {
    pub(super) fn of(message: &'a Message) -> Self {
        let text = |name| message.text(name);
        Filter { ike: text("ike"), ike_id: text("ike-id"), child: text("child"), child_id: text("child-id") }
    }

    /// Whether it has none of the four.
    pub(super) const fn is_empty(&self) -> bool {
        self.ike.is_none() && self.ike_id.is_none() && !self.names_children()
    }

    /// Whether it is for child SAs.
    pub(super) const fn names_children(&self) -> bool {
        self.child.is_some() || self.child_id.is_some()
    }

    /// Whether it names that IKE SA, or a child SA of it.
    pub(super) fn has(&self, sa: &IkeSa) -> bool {
        let is = |asked: Option<&str>, value: &str| asked.is_none_or(|asked| asked == value);
        is(self.ike, &sa.info.detail.connection)
            && is(self.ike_id, &sa.number.to_string())
            && (!self.names_children() || self.children(sa).next().is_some())
    }

    /// The child SAs of an IKE SA that it names.
    pub(super) fn children<'s>(
        &'s self,
        sa: &'s IkeSa,
    ) -> impl Iterator<Item = (&'s ChildDetail, ChildNumbers)> {
        let is = |asked: Option<&str>, value: &str| asked.is_none_or(|asked| asked == value);
        let children = sa.info.detail.children.iter().zip(sa.numbers.iter().copied());
        children.filter(move |(child, numbers)| {
            is(self.child, &child.name) && is(self.child_id, &numbers.unique.to_string())
        })
    }
}

/// The numbers of IKE SAs that this end initiates, of those that are half open, and of those that are established.
pub(super) fn counts(endpoint: &Endpoint, _: &Snapshot) -> [usize; 3] {
    [endpoint.connecting().len(), endpoint.half_open(), endpoint.peers().len()]
}

//! Scripts that wait for their turn: limited by source and in all, and taken in turns of their sources.

use std::collections::{BTreeMap, VecDeque};

use adit_core::prefix_table::{SourcePrefix, prefixes};
use adit_core::{IpNet, PrefixShares, PrefixTable, TableUsage};

use super::source;
use super::{Script, ScriptId, ScriptPriority};

/// Scripts that wait, with their environment (some KiB each). Those of the least priority make room first. All clients behind one address, or all of a small server, may come back at once.
const SHARES: PrefixShares = PrefixShares::new(512, 4096);

/// A script that waits.
pub(super) struct Waiting {
    pub(super) script: Box<Script>,
    /// The tunnel's device.
    pub(super) device: String,
}

/// Scripts that wait.
pub(super) struct Queue {
    table: PrefixTable<ScriptId, Waiting, ScriptPriority>,
    turns: Turns,
    /// The scripts about each network, oldest first ([`Script::in_order`]).
    of_network: BTreeMap<IpNet, VecDeque<ScriptId>>,
}

impl Queue {
    /// `name` is for the status.
    pub(super) fn new(name: &'static str) -> Self {
        Queue { table: PrefixTable::new(name, SHARES), turns: Turns::default(), of_network: BTreeMap::new() }
    }

    /// One more. Gives the one that makes room for it.
    pub(super) fn push(&mut self, waiting: Waiting) -> Option<Waiting> {
        let (id, from, priority) = (waiting.script.id, source(&waiting.script), waiting.script.priority);
        self.turns.push(&path(&waiting.script), id);
        if let Some(network) = waiting.script.in_order {
            self.of_network.entry(network).or_default().push_back(id);
        }
        let (_, evicted) = self.table.insert(from, id, priority, waiting)?;
        self.turns.remove(&path(&evicted.script), evicted.script.id);
        self.leave_network(&evicted.script);
        Some(evicted)
    }

    /// The next that may begin.
    pub(super) fn take(&mut self, may_begin: impl Fn(&Script) -> bool) -> Option<Waiting> {
        let (table, of_network) = (&self.table, &self.of_network);
        let is_first = |script: &Script| {
            let earlier = script.in_order.and_then(|network| of_network.get(&network)?.front());
            earlier.is_none_or(|first| *first == script.id)
        };
        let begins = |script: &Script| is_first(script) && may_begin(script);
        let id = self.turns.take(&|id| table.get(id).is_some_and(|waiting| begins(&waiting.script)))?;
        let taken = self.table.remove(&id)?;
        self.leave_network(&taken.script);
        Some(taken)
    }

    fn leave_network(&mut self, script: &Script) {
        let Some(network) = script.in_order else { return };
        let Some(scripts) = self.of_network.get_mut(&network) else { return };
        scripts.retain(|id| *id != script.id);
        if scripts.is_empty() {
            self.of_network.remove(&network);
        }
    }

    pub(super) fn remove(&mut self, id: ScriptId) {
        if let Some(waiting) = self.table.remove(&id) {
            self.turns.remove(&path(&waiting.script), id);
            self.leave_network(&waiting.script);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(super) fn usage(&self) -> TableUsage {
        self.table.usage()
    }
}

/// The prefixes by which a script has its turn, the widest first: an IPv4 address, or an IPv6 /48, /56 and /64.
fn path(script: &Script) -> Vec<SourcePrefix> {
    let mut path: Vec<SourcePrefix> = prefixes(source(script)).collect();
    path.pop();
    path.reverse();
    path
}

/// Round robin among the parts of a prefix, and within each part among its parts.
#[derive(Default)]
struct Turns {
    parts: BTreeMap<SourcePrefix, Turns>,
    /// The parts, the one whose turn is next in front.
    order: VecDeque<SourcePrefix>,
    /// The scripts of this prefix and of no narrower one, oldest first.
    items: VecDeque<ScriptId>,
}

impl Turns {
    fn push(&mut self, path: &[SourcePrefix], id: ScriptId) {
        match path {
            [] => self.items.push_back(id),
            [part, rest @ ..] => {
                let order = &mut self.order;
                let turns = self.parts.entry(*part).or_insert_with(|| {
                    order.push_back(*part);
                    Turns::default()
                });
                turns.push(rest, id);
            }
        }
    }

    fn remove(&mut self, path: &[SourcePrefix], id: ScriptId) {
        match path {
            [] => self.items.retain(|item| *item != id),
            [part, rest @ ..] => {
                let Some(turns) = self.parts.get_mut(part) else { return };
                turns.remove(rest, id);
                if turns.is_empty() {
                    self.parts.remove(part);
                    self.order.retain(|other| other != part);
                }
            }
        }
    }

    /// The next of those that may begin. Parts that have none keep their turn.
    fn take(&mut self, may_begin: &impl Fn(&ScriptId) -> bool) -> Option<ScriptId> {
        if let Some(index) = self.items.iter().position(may_begin) {
            return self.items.remove(index);
        }
        let parts = &mut self.parts;
        let taken = self.order.iter().enumerate().find_map(|(index, part)| {
            let turns = parts.get_mut(part)?;
            Some((index, turns.take(may_begin)?, turns.is_empty()))
        });
        let (index, id, empty) = taken?;
        let part = self.order.remove(index)?;
        if empty {
            self.parts.remove(&part);
        } else {
            self.order.push_back(part);
        }
        Some(id)
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn waiting(owner: u64, from: &str, authenticated: bool) -> Waiting {
        let priority =
            if authenticated { ScriptPriority::Authenticated } else { ScriptPriority::Unauthenticated };
        let script = Script {
            id: ScriptId { owner, number: 0 },
            source: Some(from.parse().unwrap()),
            priority,
            argv: Vec::new(),
            env: Vec::new(),
            secrets: Vec::new(),
            files: Vec::new(),
            defers: false,
            in_order: None,
            beside: None,
            timeout: Duration::ZERO,
        };
        Waiting { script: Box::new(script), device: String::new() }
    }

    fn owners(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.take(|_| true).map(|waiting| waiting.script.id.owner)).collect()
    }

    #[test]
    fn sources_have_their_turns() {
        let mut queue = Queue::new("scripts");
        for owner in 0..100 {
            assert!(queue.push(waiting(owner, "192.0.2.1", false)).is_none());
        }
        for (owner, from) in [(200, "192.0.2.2"), (300, "2001:db8::1"), (301, "2001:db8::2")] {
            assert!(queue.push(waiting(owner, from, false)).is_none());
        }
        for (owner, from) in [(302, "2001:db8:0:1::1"), (303, "2001:db8:0:100::1")] {
            assert!(queue.push(waiting(owner, from, false)).is_none());
        }
        let order = owners(&mut queue);
        assert_eq!(order[..9], [0, 200, 300, 1, 303, 2, 302, 3, 301]);
        assert_eq!((order.len(), queue.turns.is_empty()), (105, true));
    }

    /// The script about a lost address runs before the script about another client that gets the address,
    /// even if that client's source has its turn earlier.
    #[test]
    fn scripts_about_one_network_keep_their_order() {
        let mut queue = Queue::new("scripts");
        let network = |last: u8| Some(IpNet::from(std::net::IpAddr::from([10, 8, 0, last])));
        let learn = |owner, from: &str, last| {
            let mut waiting = waiting(owner, from, true);
            waiting.script.in_order = network(last);
            waiting
        };
        for owner in 0..3 {
            assert!(queue.push(learn(owner, "192.0.2.1", owner as u8)).is_none());
        }
        for (owner, last) in [(10, 2), (11, 9)] {
            let from = format!("192.0.2.{owner}");
            assert!(queue.push(learn(owner, &from, last)).is_none());
        }
        assert_eq!(owners(&mut queue), [0, 11, 1, 2, 10]);
        assert!(queue.of_network.is_empty());
    }

    #[test]
    fn who_may_not_begin_keeps_its_turn() {
        let mut queue = Queue::new("scripts");
        for owner in 0..4 {
            let from = format!("192.0.2.{owner}");
            assert!(queue.push(waiting(owner, &from, false)).is_none());
        }
        let next = queue.take(|script| script.id.owner > 1).map(|waiting| waiting.script.id.owner);
        assert_eq!((next, owners(&mut queue)), (Some(2), vec![0, 1, 3]));
    }

    #[test]
    fn of_a_source_with_its_share_the_oldest_of_no_authenticated_peer_makes_room() {
        let mut queue = Queue::new("scripts");
        assert!(queue.push(waiting(9999, "192.0.2.2", false)).is_none());
        assert!(queue.push(waiting(0, "192.0.2.1", true)).is_none());
        let evicted = (1..600).filter_map(|owner| queue.push(waiting(owner, "192.0.2.1", false)));
        let evicted: Vec<u64> = evicted.map(|waiting| waiting.script.id.owner).collect();
        assert_eq!((evicted.len(), evicted[0]), (600 - 512, 1));
        queue.remove(ScriptId { owner: 9999, number: 0 });
        let left = owners(&mut queue);
        assert_eq!((left.len(), left[0]), (512, 0));
        assert!(queue.turns.is_empty());
    }

    #[test]
    fn what_tells_of_an_end_outlasts_what_a_client_that_comes_again_causes() {
        let mut queue = Queue::new("scripts");
        let mut end = waiting(0, "192.0.2.1", true);
        end.script.priority = ScriptPriority::End;
        assert!(queue.push(end).is_none());
        let evicted = (1..2000).filter_map(|owner| queue.push(waiting(owner, "192.0.2.1", true)));
        assert!(evicted.map(|waiting| waiting.script.id.owner).all(|owner| owner != 0));
        assert_eq!(owners(&mut queue).first(), Some(&0));
    }
}

//! The verdict on a packet of a peer.

use std::sync::Arc;

use adit_core::Instant;

use crate::fragments::{Fragments, Head};
use crate::{Address, Facts, Flows, Member, Nature, Packet, Rules};

/// The direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The peer sent them.
    FromPeer,
    /// They are for the peer.
    ToPeer,
}

impl Direction {
    fn opposite(self) -> Self {
        match self {
            Direction::FromPeer => Direction::ToPeer,
            Direction::ToPeer => Direction::FromPeer,
        }
    }
}

/// The flows of a peer in both directions. The guards of both share them.
#[derive(Debug, Default)]
pub struct PeerFlows {
    from_peer: Flows,
    to_peer: Flows,
}

impl PeerFlows {
    /// The flows whose first packet went in that direction. The guard of that direction writes them.
    fn opened(&self, direction: Direction) -> &Flows {
        match direction {
            Direction::FromPeer => &self.from_peer,
            Direction::ToPeer => &self.to_peer,
        }
    }
}

/// The owner of an address in the tunnel.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'a> {
    /// The peer whose packet is judged.
    ThisPeer,
    /// Another peer.
    Peer(&'a Member),
    /// No peer.
    NoPeer,
}

/// The moment at which a packet is judged.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: Instant,
    /// Another number whenever rules, or the owners of addresses, are other ones: flows of before are judged anew. Both guards
    /// of a peer count alike.
    pub epoch: u64,
}

/// The judge of a peer's packets in one direction.
#[derive(Debug)]
pub struct Guard {
    direction: Direction,
    rules: Arc<Rules>,
    member: Arc<Member>,
    flows: Arc<PeerFlows>,
    fragments: Fragments,
}

impl Guard {
    /// A guard by these rules. `member` is what [`Rules::member`] gave for the peer, `flows` is shared with the guard of the
    /// other direction.
    pub fn new(direction: Direction, rules: Arc<Rules>, member: Arc<Member>, flows: Arc<PeerFlows>) -> Self {
        Guard { direction, rules, member, flows, fragments: Fragments::default() }
    }

    /// Judges by other rules from now on. Flows and fragments that these rules let through, too, go on.
    pub fn set_rules(&mut self, rules: Arc<Rules>, member: Arc<Member>) {
        (self.rules, self.member) = (rules, member);
    }

    /// Whether a packet passes. `owner` says which peer has an address.
    #[inline]
    pub fn passes<'a>(
        &mut self,
        packet: &[u8],
        at: Moment,
        owner: impl Fn(Address) -> Owner<'a> + Copy,
    ) -> bool {
        match Packet::read(packet) {
            Some(Packet::Headed { facts, nature, first_of }) => {
                let passes = self.headed(&facts, nature, at, owner);
                if let Some(first) = first_of {
                    match passes {
                        true => self.fragments.note(first, Head { facts, nature, epoch: at.epoch }, at.now),
                        false => self.fragments.forget(&first),
                    }
                }
                passes
            }
            Some(Packet::Later(later)) => {
                let Some(head) = self.fragments.head(&later, at.now).copied() else { return false };
                if head.epoch == at.epoch {
                    return true;
                }
                let passes = self.headed(&head.facts, head.nature, at, owner);
                if passes && let Some(known) = self.fragments.head(&later, at.now) {
                    known.epoch = at.epoch;
                }
                passes
            }
            Some(Packet::Error { quoted, .. }) => self.error(&quoted, at, owner),
            None => false,
        }
    }

    /// Whether a packet with these fields passes.
    #[inline]
    fn headed<'a>(
        &self,
        facts: &Facts,
        nature: Nature,
        at: Moment,
        owner: impl Fn(Address) -> Owner<'a>,
    ) -> bool {
        let own = self.flows.opened(self.direction);
        if nature.opens
            && let Some(known) = own.find(facts, at.now)
            && (known.epoch() == at.epoch || self.allows(self.direction, facts, &owner))
        {
            known.allowed_in(at.epoch);
            known.touch();
            return true;
        }
        if nature.answers && self.is_reply(self.direction, facts, at, &owner) {
            return true;
        }
        let allowed = self.allows(self.direction, facts, &owner);
        if allowed && nature.opens {
            own.insert(facts, at.now, at.epoch);
        }
        allowed
    }

    /// Whether a packet in that direction is of a flow in the opposite direction that was let through and still may pass.
    fn is_reply<'a>(
        &self,
        direction: Direction,
        facts: &Facts,
        at: Moment,
        owner: &impl Fn(Address) -> Owner<'a>,
    ) -> bool {
        let (opener, facts) = (direction.opposite(), facts.reversed());
        let Some(flow) = self.flows.opened(opener).find(&facts, at.now) else { return false };
        let passes = flow.epoch() == at.epoch || self.allows(opener, &facts, owner);
        if passes {
            flow.touch();
        }
        passes
    }

    /// Whether an ICMP error that quotes a packet with these fields passes. The packet went in the opposite direction.
    #[cold]
    fn error<'a>(&self, quoted: &Facts, at: Moment, owner: impl Fn(Address) -> Owner<'a>) -> bool {
        let direction = self.direction.opposite();
        // The packet was for this peer, or for what is behind it, and not for another address that the sender of the error makes up.
        if direction == Direction::ToPeer && !matches!(owner(quoted.destination), Owner::ThisPeer) {
            return false;
        }
        self.allows(direction, quoted, &owner) || self.is_reply(direction, quoted, at, &owner)
    }

    /// Whether the rules let a packet pass in that direction.
    fn allows<'a>(&self, direction: Direction, facts: &Facts, owner: &impl Fn(Address) -> Owner<'a>) -> bool {
        let other = match direction {
            Direction::FromPeer => owner(facts.destination),
            Direction::ToPeer => owner(facts.source),
        };
        let other = match other {
            Owner::ThisPeer => Some(&*self.member),
            Owner::Peer(member) => Some(member),
            Owner::NoPeer => None,
        };
        match direction {
            Direction::FromPeer => self.rules.may_send(&self.member, facts, other),
            Direction::ToPeer => self.rules.may_receive(&self.member, facts, other),
        }
    }
}

//! The rules once more, slowly and obviously: by the file as it was written, lists that are searched, and packets by what
//! they are, not by their bytes.

use std::net::IpAddr;
use std::time::Duration;

use adit_access::{AccessFile, Action, Direction, FileRule, Place, RuleProtocol};
use adit_core::{Instant, IpNet};

use crate::packets::{Body, Header, Sent};

/// A peer of the tunnel.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The groups of its certificate.
    pub(crate) groups: Vec<&'static str>,
    pub(crate) networks: Vec<IpNet>,
}

/// Addresses, protocol and two numbers: ports, or an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    numbers: [u16; 2],
}

impl Fields {
    fn reversed(&self) -> Self {
        let [one, other] = self.numbers;
        Fields { source: self.destination, destination: self.source, numbers: [other, one], ..*self }
    }
}

#[derive(Debug)]
struct Flow {
    peer: usize,
    direction: Direction,
    fields: Fields,
    used: Instant,
}

#[derive(Debug)]
struct First {
    peer: usize,
    direction: Direction,
    key: (IpAddr, IpAddr, u16, u8),
    end: u16,
    expires: Instant,
    epoch: usize,
    of: Sent,
}

pub(crate) struct Model {
    pub(crate) peers: Vec<Peer>,
    pub(crate) files: Vec<AccessFile>,
    flows: Vec<Flow>,
    firsts: Vec<First>,
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::FromPeer => Direction::ToPeer,
        Direction::ToPeer => Direction::FromPeer,
    }
}

fn lifetime(protocol: u8) -> Duration {
    Duration::from_secs(match protocol {
        6 => 7440,
        1 | 58 => 60,
        _ => 300,
    })
}

fn fields(sent: &Sent) -> Fields {
    let numbers = match sent.body {
        Body::Tcp { ports, .. } | Body::Udp { ports } => ports,
        Body::EchoRequest(id) => [id, 0],
        Body::EchoReply(id) => [0, id],
        Body::Other(_) | Body::Error(_) => [0, 0],
    };
    Fields { source: sent.source, destination: sent.destination, protocol: sent.protocol(), numbers }
}

impl Model {
    pub(crate) fn new(peers: Vec<Peer>, files: Vec<AccessFile>) -> Self {
        Model { peers, files, flows: Vec::new(), firsts: Vec::new() }
    }

    pub(crate) fn owner(&self, address: IpAddr) -> Option<usize> {
        self.peers.iter().position(|peer| peer.networks.iter().any(|net| net.contains(&address)))
    }

    /// Whether the packet of that peer in that direction passes, by the file of that number.
    pub(crate) fn passes(
        &mut self,
        (peer, direction): (usize, Direction),
        sent: &Sent,
        now: Instant,
        epoch: usize,
    ) -> bool {
        if sent.header == Header::SourceRoute {
            return false;
        }
        if let Some(part) = sent.part {
            let len = sent.body_bytes().len() as u16;
            if part.more && !len.is_multiple_of(8) {
                return false;
            }
            let key =
                (sent.source, sent.destination, part.id, if sent.is_v6() { 0 } else { sent.protocol() });
            if part.start > 0 {
                return self.later((peer, direction), key, part.start * 8, now, epoch);
            }
            // Of IPv6, a fragment that is the whole packet.
            if part.more {
                let passes = self.whole((peer, direction), sent, now, epoch);
                if !matches!(sent.body, Body::Error(_)) && sent.header != Header::Tiny {
                    self.firsts
                        .retain(|first| (first.peer, first.direction, first.key) != (peer, direction, key));
                    if passes {
                        let expires = now + Duration::from_secs(30);
                        self.firsts.push(First {
                            peer,
                            direction,
                            key,
                            end: len,
                            expires,
                            epoch,
                            of: sent.clone(),
                        });
                    }
                }
                return passes;
            }
        }
        self.whole((peer, direction), sent, now, epoch)
    }

    fn later(
        &mut self,
        (peer, direction): (usize, Direction),
        key: (IpAddr, IpAddr, u16, u8),
        start: u16,
        now: Instant,
        epoch: usize,
    ) -> bool {
        let is_of = |first: &&mut First| (first.peer, first.direction, first.key) == (peer, direction, key);
        let Some(first) = self.firsts.iter_mut().find(is_of) else { return false };
        if start < first.end || now >= first.expires {
            return false;
        }
        if first.epoch == epoch {
            return true;
        }
        let of = first.of.clone();
        let passes = self.whole((peer, direction), &of, now, epoch);
        if passes && let Some(first) = self.firsts.iter_mut().find(is_of) {
            first.epoch = epoch;
        }
        passes
    }

    fn whole(
        &mut self,
        (peer, direction): (usize, Direction),
        sent: &Sent,
        now: Instant,
        epoch: usize,
    ) -> bool {
        let is_first = sent.part.is_some_and(|part| part.more);
        if sent.header == Header::Tiny && !matches!(sent.body, Body::Other(_)) {
            return false;
        }
        if let Body::Error(quoted) = &sent.body {
            return !is_first && self.error((peer, direction), sent, quoted, now, epoch);
        }
        let own = fields(sent);
        let (opens, answers) = match sent.body {
            Body::Tcp { syn: true, ack: false, .. } | Body::EchoRequest(_) => (true, false),
            Body::EchoReply(_) => (false, true),
            _ => (true, true),
        };
        let allowed = self.allows(&own, epoch);
        let known = self.flow(peer, direction, &own, now);
        if opens
            && allowed
            && let Some(known) = known
        {
            self.flows[known].used = now;
            return true;
        }
        if answers && self.is_reply((peer, direction), &own, now, epoch) {
            return true;
        }
        if allowed && opens {
            self.flows.push(Flow { peer, direction, fields: own, used: now });
        }
        allowed
    }

    fn error(
        &mut self,
        (peer, direction): (usize, Direction),
        sent: &Sent,
        quoted: &Sent,
        now: Instant,
        epoch: usize,
    ) -> bool {
        let is_later = quoted.part.is_some_and(|part| part.start > 0);
        let is_readable = quoted.header != Header::SourceRoute
            && (quoted.header != Header::Tiny
                || matches!(quoted.body, Body::Tcp { .. } | Body::Udp { .. } | Body::Other(_)));
        if quoted.source != sent.destination
            || is_later
            || !is_readable
            || matches!(quoted.body, Body::Error(_))
        {
            return false;
        }
        if direction == Direction::FromPeer && self.owner(quoted.destination) != Some(peer) {
            return false;
        }
        let quoted = fields(quoted);
        self.allows(&quoted, epoch) || self.is_reply((peer, opposite(direction)), &quoted, now, epoch)
    }

    /// The flow with these fields in that direction, if it has not expired.
    fn flow(&self, peer: usize, direction: Direction, fields: &Fields, now: Instant) -> Option<usize> {
        self.flows.iter().rposition(|flow| {
            (flow.peer, flow.direction, flow.fields) == (peer, direction, *fields)
                && (now - flow.used).as_secs() < lifetime(fields.protocol).as_secs()
        })
    }

    fn is_reply(
        &mut self,
        (peer, direction): (usize, Direction),
        own: &Fields,
        now: Instant,
        epoch: usize,
    ) -> bool {
        let reversed = own.reversed();
        let Some(flow) = self.flow(peer, opposite(direction), &reversed, now) else { return false };
        let passes = self.allows(&reversed, epoch);
        if passes {
            self.flows[flow].used = now;
        }
        passes
    }

    /// Whether the rules alone let a packet pass.
    pub(crate) fn allows_sent(&self, sent: &Sent, epoch: usize) -> bool {
        self.allows(&fields(sent), epoch)
    }

    fn allows(&self, fields: &Fields, epoch: usize) -> bool {
        let file = &self.files[epoch % self.files.len()];
        let found = file.rules.iter().find(|rule| self.matches(file, rule, fields));
        found.map_or(file.default, |rule| rule.action) == Action::Allow
    }

    fn matches(&self, file: &AccessFile, rule: &FileRule, fields: &Fields) -> bool {
        let is_protocol = |protocol: &RuleProtocol| match protocol {
            RuleProtocol::Tcp => fields.protocol == 6,
            RuleProtocol::Udp => fields.protocol == 17,
            RuleProtocol::Icmp => fields.protocol == 1 || fields.protocol == 58,
            RuleProtocol::Number(number) => fields.protocol == *number,
        };
        (rule.protocols.is_empty() || rule.protocols.iter().any(is_protocol))
            && (rule.ports.is_empty() || rule.ports.iter().any(|ports| ports.contains(&fields.numbers[1])))
            && rule.from.iter().any(|place| self.is_at(file, place, fields.source))
            && rule.to.iter().any(|place| self.is_at(file, place, fields.destination))
    }

    fn is_at(&self, file: &AccessFile, place: &Place, address: IpAddr) -> bool {
        let peer = self.owner(address).map(|peer| &self.peers[peer]);
        match place {
            Place::Any => true,
            Place::Clients => peer.is_some(),
            Place::Lan => peer.is_none() && is_private(address),
            Place::Internet => peer.is_none() && !is_private(address) && !address.is_multicast(),
            Place::Network(net) => net.contains(&address),
            Place::Name(name) => peer.is_some_and(|peer| peer.name == name),
            Place::Group(group) => peer.is_some_and(|peer| {
                peer.groups.contains(&group.as_str())
                    || file.groups[group].iter().any(|member| !peer.name.is_empty() && member == peer.name)
            }),
        }
    }
}

/// Of the addresses of these tests.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

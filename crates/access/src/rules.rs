//! Rules, compiled for packets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::address::{Span, is_global, is_private};
use crate::file::{AccessFile, Action, FileRule, Place, RuleProtocol};
use crate::{Address, Facts};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// The rules of a file, compiled. One value serves all peers of a tunnel.
#[derive(Clone, Debug)]
pub struct Rules {
    default: Action,
    rules: Vec<Rule>,
    /// The number of each name and each group that a rule mentions.
    names: BTreeMap<String, usize>,
    groups: BTreeMap<String, usize>,
    /// The groups of the file that rules mention, by the names of their members.
    groups_of: BTreeMap<String, BTreeSet<usize>>,
}

#[derive(Clone, Debug)]
struct Rule {
    action: Action,
    from: Side,
    to: Side,
    /// Empty: all.
    protocols: Vec<u8>,
    /// Empty: all.
    ports: Vec<RangeInclusive<u16>>,
}

/// The senders or the receivers of a rule.
#[derive(Clone, Debug, Default)]
struct Side {
    any: bool,
    clients: bool,
    lan: bool,
    internet: bool,
    /// The numbers of names and groups.
    marks: Vec<usize>,
    spans: Vec<Span>,
}

/// A peer, as rules see it: its name and groups, and the rules that may match its packets.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// A bit for each name and group that rules mention.
    marks: Vec<u64>,
    /// The rules that may match what it sends, and what it receives, in order.
    outgoing: Vec<u32>,
    incoming: Vec<u32>,
    restricted: bool,
}

/// The sender or the receiver of a packet.
#[derive(Clone, Copy)]
struct Party<'a> {
    address: Address,
    /// The peer that has the address. `None`: no peer of the tunnel has it.
    member: Option<&'a Member>,
}

impl Rules {
    /// Compiles a file.
    pub fn new(file: &AccessFile) -> Self {
        let mut rules = Rules {
            default: file.default,
            rules: Vec::with_capacity(file.rules.len()),
            names: BTreeMap::new(),
            groups: BTreeMap::new(),
            groups_of: BTreeMap::new(),
        };
        for rule in &file.rules {
            let compiled = rules.compile(rule);
            rules.rules.push(compiled);
        }
        for (group, members) in &file.groups {
            let Some(number) = rules.groups.get(group).copied() else { continue };
            for member in members {
                rules.groups_of.entry(member.clone()).or_default().insert(number);
            }
        }
        rules
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules: the default decides.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn compile(&mut self, rule: &FileRule) -> Rule {
        let protocols = rule.protocols.iter().flat_map(|protocol| match protocol {
            RuleProtocol::Tcp => vec![TCP],
            RuleProtocol::Udp => vec![UDP],
            RuleProtocol::Icmp => vec![ICMP, ICMPV6],
            RuleProtocol::Number(number) => vec![*number],
        });
        Rule {
            action: rule.action,
            protocols: protocols.collect(),
            ports: rule.ports.clone(),
            from: self.side(&rule.from),
            to: self.side(&rule.to),
        }
    }

    fn side(&mut self, places: &[Place]) -> Side {
        let mut side = Side::default();
        for place in places {
            match place {
                Place::Any => side.any = true,
                Place::Clients => side.clients = true,
                Place::Lan => side.lan = true,
                Place::Internet => side.internet = true,
                Place::Network(net) => side.spans.push((*net).into()),
                Place::Name(name) => {
                    let next = self.names.len() + self.groups.len();
                    side.marks.push(*self.names.entry(name.clone()).or_insert(next));
                }
                Place::Group(group) => {
                    let next = self.names.len() + self.groups.len();
                    side.marks.push(*self.groups.entry(group.clone()).or_insert(next));
                }
            }
        }
        side
    }

    /// The peer of that name, in the groups that the file gives the name and in further ones, such as those of its
    /// certificate. An empty name is no name.
    pub fn member<'a>(&self, name: &str, groups: impl IntoIterator<Item = &'a str>) -> Member {
        let of_name = self.names.get(name).filter(|_| !name.is_empty());
        let of_file = self.groups_of.get(name).filter(|_| !name.is_empty()).into_iter().flatten();
        let further = groups.into_iter().filter_map(|group| self.groups.get(group));
        let mut marks = vec![0_u64; (self.names.len() + self.groups.len()).div_ceil(64)];
        for number in of_name.into_iter().chain(of_file).chain(further) {
            if let Some(word) = marks.get_mut(number / 64) {
                *word |= 1 << (number % 64);
            }
        }
        let mut member = Member { marks, ..Member::default() };
        for (number, rule) in (0..).zip(&self.rules) {
            if rule.from.may_have(&member) {
                member.outgoing.push(number);
            }
            if rule.to.may_have(&member) {
                member.incoming.push(number);
            }
        }
        let mut both = member.outgoing.iter().chain(&member.incoming);
        let denies = |number: &u32| self.rule(*number).is_some_and(|rule| rule.action == Action::Deny);
        member.restricted = self.default == Action::Deny || both.any(denies);
        member
    }

    fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(number as usize)
    }

    /// Whether the rules let a packet pass that a peer sends, to another peer or elsewhere.
    pub fn may_send(&self, member: &Member, facts: &Facts, to: Option<&Member>) -> bool {
        let from = Party { address: facts.source, member: Some(member) };
        let to = Party { address: facts.destination, member: to };
        self.judge(&member.outgoing, facts, from, to) == Action::Allow
    }

    /// Whether the rules let a packet pass that is for a peer, from another peer or from elsewhere.
    pub fn may_receive(&self, member: &Member, facts: &Facts, from: Option<&Member>) -> bool {
        let from = Party { address: facts.source, member: from };
        let to = Party { address: facts.destination, member: Some(member) };
        self.judge(&member.incoming, facts, from, to) == Action::Allow
    }

    fn judge(&self, candidates: &[u32], facts: &Facts, from: Party<'_>, to: Party<'_>) -> Action {
        let mut rules = candidates.iter().filter_map(|number| self.rule(*number));
        rules.find(|rule| rule.matches(facts, from, to)).map_or(self.default, |rule| rule.action)
    }
}

impl Rule {
    fn matches(&self, facts: &Facts, from: Party<'_>, to: Party<'_>) -> bool {
        (self.protocols.is_empty() || self.protocols.contains(&facts.protocol))
            && (self.ports.is_empty()
                || self.ports.iter().any(|ports| ports.contains(&facts.destination_port)))
            && self.from.has(from)
            && self.to.has(to)
    }
}

impl Side {
    fn has(&self, party: Party<'_>) -> bool {
        let as_owner = match party.member {
            Some(member) => self.clients || self.marks.iter().any(|number| member.has(*number)),
            None => self.lan && is_private(party.address) || self.internet && is_global(party.address),
        };
        self.any || as_owner || self.spans.iter().any(|span| span.has(party.address))
    }

    /// Whether the peer, with some address, is one of them.
    fn may_have(&self, member: &Member) -> bool {
        self.any
            || self.clients
            || !self.spans.is_empty()
            || self.marks.iter().any(|number| member.has(*number))
    }
}

impl Member {
    fn has(&self, number: usize) -> bool {
        self.marks.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Whether there are packets of this peer, or for it, that the rules refuse. If not, no packet need be judged.
    pub fn is_restricted(&self) -> bool {
        self.restricted
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn rules(text: &str) -> Rules {
        Rules::new(&AccessFile::parse("access.toml", text).unwrap())
    }

    fn facts(source: &str, destination: &str, protocol: u8, port: u16) -> Facts {
        let address = |text: &str| text.parse::<IpAddr>().unwrap().into();
        Facts {
            source: address(source),
            destination: address(destination),
            protocol,
            source_port: 5000,
            destination_port: port,
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = rules(
            "default = \"deny\"\n\
             [[rule]]\nwho = \"alice\"\nmay-not-reach = \"10.0.0.9\"\n\
             [[rule]]\nwho = \"alice\"\nmay-reach = \"10.0.0.0/8\"\nports = 443\n",
        );
        let alice = rules.member("alice", []);
        for (destination, protocol, port, expected) in [
            ("10.0.0.8", TCP, 443, true),
            ("10.0.0.8", UDP, 443, true),
            ("10.0.0.8", TCP, 444, false),
            ("10.0.0.8", ICMP, 0, false),
            ("10.0.0.9", TCP, 443, false),
            ("11.0.0.8", TCP, 443, false),
        ] {
            let facts = facts("10.8.0.2", destination, protocol, port);
            assert_eq!(rules.may_send(&alice, &facts, None), expected, "{facts:?}");
        }
        assert!(!rules.may_send(&rules.member("bob", []), &facts("10.8.0.3", "10.0.0.8", TCP, 443), None));
    }

    #[test]
    fn groups_come_from_the_file_and_from_the_certificate() {
        let rules = rules(
            "default = \"deny\"\n[groups]\nstaff = [\"alice\"]\n\
             [[rule]]\nwho = \"@staff\"\nmay-reach = \"any\"\n",
        );
        let facts = facts("10.8.0.2", "1.1.1.1", TCP, 443);
        let may = |name: &str, groups: &[&str]| {
            rules.may_send(&rules.member(name, groups.iter().copied()), &facts, None)
        };
        assert!(may("alice", &[]) && may("bob", &["staff"]) && !may("bob", &["other"]));
        assert!(!may("staff", &[]), "a name is no group");
        assert!(!may("", &[]));
    }

    #[test]
    fn words_do_not_name_the_addresses_of_peers() {
        let rules = rules(
            "default = \"deny\"\n\
             [[rule]]\nwho = \"alice\"\nmay-reach = [\"lan\", \"internet\"]\n\
             [[rule]]\nwho = \"bob\"\nmay-reach = \"clients\"\n",
        );
        let (alice, bob) = (rules.member("alice", []), rules.member("bob", []));
        let to = |address: &str| facts("10.8.0.2", address, TCP, 443);
        assert!(
            rules.may_send(&alice, &to("192.168.1.1"), None) && rules.may_send(&alice, &to("1.1.1.1"), None)
        );
        assert!(!rules.may_send(&alice, &to("10.8.0.3"), Some(&bob)), "a peer is no host of the LAN");
        assert!(rules.may_send(&bob, &to("10.8.0.3"), Some(&alice)));
        assert!(!rules.may_send(&bob, &to("10.8.0.1"), None));
        assert!(
            rules.may_receive(&alice, &to("10.8.0.3"), Some(&bob)),
            "the verdict does not depend on the side"
        );
    }

    #[test]
    fn a_peer_that_no_rule_refuses_need_not_be_judged() {
        let rules = rules("default = \"allow\"\n[[rule]]\nwho = \"carol\"\nmay-not-reach = \"lan\"\n");
        assert!(rules.member("carol", []).is_restricted());
        assert!(!rules.member("alice", []).is_restricted());
    }
}

//! Guards and a slow and obvious model agree on every packet of generated conversations, by generated rules that change on
//! the way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod model;
mod packets;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_access::{
    AccessFile, Action, Address, Direction, FileRule, Guard, Member, Moment, Owner, PeerFlows, Place,
    RuleProtocol, Rules,
};
use adit_core::{Instant, IpNet};
use proptest::prelude::*;
use proptest::sample::select;

use self::model::{Model, Peer};
use self::packets::{Body, Header, Part, Sent};

/// Peers: two names, one of which is in a group by its certificate, and one without a name that has a network.
fn peers() -> Vec<Peer> {
    let nets = |texts: &[&str]| texts.iter().map(|text| text.parse::<IpNet>().unwrap()).collect();
    vec![
        Peer { name: "alice", groups: vec![], networks: nets(&["10.8.0.2/32", "fd08::2/128"]) },
        Peer { name: "bob", groups: vec!["staff"], networks: nets(&["10.8.0.3/32", "fd08::3/128"]) },
        Peer { name: "", groups: vec![], networks: nets(&["10.9.0.0/24", "fd09::/64"]) },
    ]
}

/// Addresses of peers, of the LAN and of the Internet.
fn address(v6: bool) -> impl Strategy<Value = IpAddr> {
    let all = match v6 {
        false => ["10.8.0.2", "10.8.0.3", "10.9.0.7", "192.168.1.1", "192.168.1.2", "1.1.1.1"],
        true => ["fd08::2", "fd08::3", "fd09::7", "fd01::1", "fd01::2", "2606:4700::1"],
    };
    select(all.map(|text| text.parse().unwrap()).to_vec())
}

fn body(protocol: u8) -> impl Strategy<Value = Body> {
    let ports = || [select(vec![22_u16, 443, 5000]), select(vec![22_u16, 443, 5000])];
    (0..8_u8, ports(), any::<(bool, bool)>()).prop_map(move |(kind, ports, (syn, ack))| match kind {
        0..=2 => Body::Tcp { ports, syn, ack },
        3..=4 => Body::Udp { ports },
        5 => Body::EchoRequest(ports[0]),
        6 => Body::EchoReply(ports[0]),
        _ => Body::Other(protocol),
    })
}

fn header() -> impl Strategy<Value = Header> {
    prop_oneof![
        12 => Just(Header::Plain),
        1 => Just(Header::Padding),
        1 => Just(Header::SourceRoute),
        1 => Just(Header::UsedRoute),
        1 => Just(Header::Tiny),
    ]
}

fn part() -> impl Strategy<Value = Option<Part>> {
    let parts = (1..3_u16, select(vec![0_u16, 0, 1, 2, 3, 9]), any::<bool>());
    prop_oneof![4 => Just(None), 3 => parts.prop_map(|(id, start, more)| Some(Part { id, start, more }))]
}

fn plain(v6: bool) -> impl Strategy<Value = Sent> {
    (address(v6), address(v6), body(47), part(), header()).prop_map(
        move |(source, destination, body, part, header)| {
            // IPv4 has no fragment that is a whole packet.
            let part = part.filter(|part| v6 || part.start > 0 || part.more);
            Sent { source, destination, body, part, header }
        },
    )
}

fn sent() -> impl Strategy<Value = Sent> {
    any::<bool>().prop_flat_map(|v6| {
        let error = (plain(v6), plain(v6), any::<bool>()).prop_map(|(outer, quoted, to_sender)| {
            let destination = if to_sender { quoted.source } else { outer.destination };
            Sent { destination, part: None, body: Body::Error(Box::new(quoted)), ..outer }
        });
        prop_oneof![5 => plain(v6).boxed(), 1 => error.boxed()]
    })
}

/// A step of a conversation.
#[derive(Clone, Debug)]
enum Step {
    Packet(Sent),
    /// The answer to the packet of some steps before.
    Reply(usize),
    /// That packet again, as a fragment or otherwise changed.
    Again(usize, Option<Part>),
    Wait(u64),
    Rules,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => sent().prop_map(Step::Packet),
        6 => (0..6_usize).prop_map(Step::Reply),
        4 => (0..6_usize, part()).prop_map(|(before, part)| Step::Again(before, part)),
        1 => select(vec![1_u64, 20, 31, 61, 299, 301, 7000]).prop_map(Step::Wait),
        1 => Just(Step::Rules),
    ]
}

fn places() -> impl Strategy<Value = Vec<Place>> {
    let net = |text: &str| Place::Network(text.parse().unwrap());
    let all = vec![
        Place::Any,
        Place::Clients,
        Place::Lan,
        Place::Internet,
        Place::Name("alice".into()),
        Place::Name("bob".into()),
        Place::Group("staff".into()),
        Place::Group("others".into()),
        net("192.168.1.0/24"),
        net("192.168.1.1/32"),
        net("10.8.0.0/16"),
        net("fd01::/64"),
        net("::/0"),
    ];
    proptest::collection::vec(select(all), 1..3)
}

fn file() -> impl Strategy<Value = AccessFile> {
    let action = || select(vec![Action::Allow, Action::Deny]);
    let protocols = select(vec![
        vec![],
        vec![RuleProtocol::Tcp],
        vec![RuleProtocol::Tcp, RuleProtocol::Udp],
        vec![RuleProtocol::Icmp],
        vec![RuleProtocol::Number(47)],
    ]);
    let ports = select(vec![vec![], vec![443..=443], vec![0..=22, 5000..=6000]]);
    let rule = (action(), places(), places(), protocols, ports);
    let rules = proptest::collection::vec(rule, 0..5);
    (action(), rules).prop_map(|(default, rules)| {
        let rules = rules.into_iter().map(|(action, from, to, mut protocols, ports)| {
            if !ports.is_empty() {
                protocols = vec![RuleProtocol::Tcp, RuleProtocol::Udp];
            }
            FileRule { line: 1, action, from, to, protocols, ports }
        });
        let groups = [("staff", vec!["alice"]), ("others", vec!["bob", "dave"])];
        let groups =
            groups.map(|(group, names)| (group.to_owned(), names.into_iter().map(str::to_owned).collect()));
        AccessFile { default, groups: groups.into(), rules: rules.collect() }
    })
}

/// The guards of all peers.
struct Guards {
    files: Vec<AccessFile>,
    members: Vec<Arc<Member>>,
    guards: Vec<[Guard; 2]>,
    epoch: u64,
}

impl Guards {
    fn new(files: Vec<AccessFile>, peers: &[Peer]) -> Self {
        let rules = Arc::new(Rules::new(&files[0]));
        let members = members(&rules, peers);
        let guards = members.iter().map(|member| {
            let flows = Arc::new(PeerFlows::default());
            [Direction::FromPeer, Direction::ToPeer].map(|direction| {
                Guard::new(direction, Arc::clone(&rules), Arc::clone(member), Arc::clone(&flows))
            })
        });
        Guards { files, guards: guards.collect(), members, epoch: 0 }
    }

    fn change(&mut self, peers: &[Peer]) {
        self.epoch += 1;
        let rules = Arc::new(Rules::new(&self.files[self.epoch as usize % self.files.len()]));
        self.members = members(&rules, peers);
        for (guards, member) in self.guards.iter_mut().zip(&self.members) {
            guards.iter_mut().for_each(|guard| guard.set_rules(Arc::clone(&rules), Arc::clone(member)));
        }
    }

    fn passes(
        &mut self,
        model: &Model,
        (peer, direction): (usize, Direction),
        bytes: &[u8],
        now: Instant,
    ) -> bool {
        let members = &self.members;
        let owner = |address: Address| {
            let address = match address {
                Address::V4(bits) => IpAddr::V4(bits.into()),
                Address::V6(bits) => IpAddr::V6(bits.into()),
            };
            match model.owner(address) {
                Some(owner) if owner == peer => Owner::ThisPeer,
                Some(owner) => Owner::Peer(&members[owner]),
                None => Owner::NoPeer,
            }
        };
        let guard = &mut self.guards[peer][usize::from(direction == Direction::ToPeer)];
        guard.passes(bytes, Moment { now, epoch: self.epoch }, owner)
    }
}

fn members(rules: &Rules, peers: &[Peer]) -> Vec<Arc<Member>> {
    peers.iter().map(|peer| Arc::new(rules.member(peer.name, peer.groups.iter().copied()))).collect()
}

fn reply(to: &Sent) -> Sent {
    let body = match to.body.clone() {
        Body::Tcp { ports: [one, other], .. } => Body::Tcp { ports: [other, one], syn: false, ack: true },
        Body::Udp { ports: [one, other] } => Body::Udp { ports: [other, one] },
        Body::EchoRequest(id) => Body::EchoReply(id),
        other => other,
    };
    Sent { source: to.destination, destination: to.source, body, part: None, header: Header::Plain }
}

/// How many packets the model let pass, and how many it refused.
fn run(files: Vec<AccessFile>, steps: Vec<Step>) -> Result<(usize, usize), TestCaseError> {
    let (peers, mut now) = (peers(), Instant::ORIGIN);
    let mut model = Model::new(peers.clone(), files.clone());
    let mut guards = Guards::new(files, &peers);
    let (mut before, mut passed, mut refused): (Vec<Sent>, _, _) = (Vec::new(), 0, 0);
    for step in steps {
        let earlier = |back: usize| before.len().checked_sub(back + 1).map(|index| before[index].clone());
        let sent = match step {
            Step::Packet(sent) => Some(sent),
            Step::Reply(back) => earlier(back).map(|sent| reply(&sent)),
            Step::Again(back, part) => earlier(back).map(|sent| {
                let part = part.filter(|part| sent.is_v6() || part.start > 0 || part.more);
                Sent { part, ..sent }
            }),
            Step::Wait(seconds) => {
                now += Duration::from_secs(seconds);
                None
            }
            Step::Rules => {
                guards.change(&peers);
                None
            }
        };
        let Some(sent) = sent else { continue };
        let bytes = sent.bytes();
        // A packet between peers is judged on its way in and on its way out.
        let from = model.owner(sent.source).map(|peer| (peer, Direction::FromPeer));
        let to = model.owner(sent.destination).map(|peer| (peer, Direction::ToPeer));
        for way in from.into_iter().chain(to) {
            if !guards.members[way.0].is_restricted() {
                prop_assert!(model.allows_sent(&sent, guards.epoch as usize), "{:?} {:?}", way, sent);
                continue;
            }
            let found = guards.passes(&model, way, &bytes, now);
            let expected = model.passes(way, &sent, now, guards.epoch as usize);
            prop_assert_eq!(found, expected, "{:?} {:?}", way, sent);
            *if expected { &mut passed } else { &mut refused } += 1;
        }
        before.push(sent);
    }
    Ok((passed, refused))
}

fn conversations(cases: u32) {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let (passed, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let files = proptest::collection::vec(file(), 1..4);
    let steps = proptest::collection::vec(step(), 20..60);
    let outcome = runner.run(&(files, steps), |(files, steps)| {
        let (some, others) = run(files, steps)?;
        passed.set(passed.get() + some);
        refused.set(refused.get() + others);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let (passed, refused) = (passed.get(), refused.get());
    eprintln!("{passed} packets passed and {refused} were refused");
    assert!(
        passed * 10 > refused && refused * 10 > passed,
        "{passed} {refused}: one verdict is hardly tried"
    );
}

#[test]
fn guards_and_the_model_agree_on_every_packet() {
    conversations(300);
}

mod long {
    /// A million packets.
    #[test]
    #[ignore = "a minute: make test-long"]
    fn guards_and_the_model_agree_on_a_million_packets() {
        super::conversations(40_000);
    }
}

//! Access rules: packets through sessions in both directions and between peers, in both families, by rules that change.

use std::time::Duration;

use adit_access::{AccessFile, Rules};
use adit_core::{Cipher, DataEvent, Identity, Instant, IpNet, PeerConfig, PeerId, PeerOrder};

use super::format::{named, session_id};
use super::packets::Flow;
use super::world::{End, client, inner, udp};
use crate::testing::batches::Keys;
use crate::{DropReason, Offload, Passed, remote_peer, set_rules};

const CIPHER: Cipher = Cipher::Aes256Gcm;
/// Clients, by the last byte of their addresses.
const ALICE: u8 = 1;
const BOB: u8 = 2;
/// In the group `staff` by her certificate.
const CAROL: u8 = 3;
/// A host that is no client.
const HOST: u8 = 77;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Tcp,
    Udp,
    Echo,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A first packet, from one address to another one, and whether it passes.
    Opens(u8, u8, Kind, bool),
    /// The reply to the packet before, and whether it passes.
    Replies(bool),
    /// The packet before once more, and whether it passes.
    Again(bool),
    /// Other rules.
    Rules(&'static str),
    /// The client of that address is another one from now on.
    Becomes(u8, &'static str),
    Waits(u64),
}
use Kind::{Echo, Tcp, Udp};
use Step::{Again, Becomes, Opens, Replies, Waits};

const ALL: &str = "default = \"allow\"";
const NONE: &str = "default = \"deny\"";
const ALICE_TO_LAN: &str = "default = \"deny\"\n[[rule]]\nwho = \"alice\"\nmay-reach = \"lan\"";
const ALICE_AND_BOB_TO_LAN: &str =
    "default = \"deny\"\n[[rule]]\nwho = [\"bob\", \"alice\"]\nmay-reach = \"any\"";
const DNS: &str =
    "default = \"deny\"\n[[rule]]\nwho = \"clients\"\nmay-reach = \"any\"\nprotocol = \"udp\"\nports = 53";
const TO_BOB: &str = "default = \"deny\"\n[[rule]]\nwho = \"alice\"\nmay-reach = \"bob\"";
const STAFF: &str =
    "default = \"deny\"\n[groups]\nstaff = []\n[[rule]]\nwho = \"@staff\"\nmay-reach = \"any\"";
const NOT_CAROL: &str = "default = \"allow\"\n[[rule]]\nwho = \"carol\"\nmay-not-reach = \"any\"";
const TO_ALICE: &str = "default = \"deny\"\n[[rule]]\nwho = \"lan\"\nmay-reach = \"alice\"";
const CLIENTS: &str = "default = \"deny\"\n[[rule]]\nwho = \"clients\"\nmay-reach = \"clients\"";
const INTERNET: &str = "default = \"deny\"\n[[rule]]\nwho = \"any\"\nmay-reach = \"internet\"";

/// Rules, and what becomes of packets. Each row is tried with IPv4 and IPv6.
const SITUATIONS: [(&str, &str, &[Step]); 16] = [
    (
        "all may reach all",
        ALL,
        &[Opens(ALICE, HOST, Tcp, true), Opens(HOST, BOB, Udp, true), Opens(BOB, ALICE, Tcp, true)],
    ),
    (
        "nothing passes",
        NONE,
        &[
            Opens(ALICE, HOST, Tcp, false),
            Replies(false),
            Opens(HOST, ALICE, Udp, false),
            Opens(BOB, ALICE, Tcp, false),
        ],
    ),
    (
        "a client reaches the LAN, and replies pass",
        ALICE_TO_LAN,
        &[
            Opens(ALICE, HOST, Tcp, true),
            Replies(true),
            Again(true),
            Opens(ALICE, HOST, Echo, true),
            Replies(true),
        ],
    ),
    (
        "hosts of the LAN do not reach the client for that",
        ALICE_TO_LAN,
        &[
            Opens(HOST, ALICE, Tcp, false),
            Opens(HOST, ALICE, Echo, false),
            Opens(HOST, ALICE, Udp, false),
            Opens(BOB, HOST, Tcp, false),
            Opens(ALICE, BOB, Tcp, false),
        ],
    ),
    (
        "a port of a protocol",
        DNS,
        &[
            Opens(ALICE, HOST, Udp, true),
            Replies(true),
            Opens(ALICE, HOST, Tcp, false),
            Opens(ALICE, HOST, Echo, false),
        ],
    ),
    (
        "a client reaches another one by name",
        TO_BOB,
        &[
            Opens(ALICE, BOB, Tcp, true),
            Replies(true),
            Opens(BOB, ALICE, Tcp, false),
            Opens(ALICE, CAROL, Tcp, false),
        ],
    ),
    (
        "a group of certificates",
        STAFF,
        &[
            Opens(CAROL, HOST, Tcp, true),
            Replies(true),
            Opens(CAROL, ALICE, Udp, true),
            Replies(true),
            Opens(ALICE, HOST, Tcp, false),
        ],
    ),
    (
        "one client reaches nothing, the others all",
        NOT_CAROL,
        &[
            Opens(ALICE, HOST, Tcp, true),
            Replies(true),
            Opens(CAROL, HOST, Tcp, false),
            Opens(CAROL, ALICE, Udp, false),
            Opens(ALICE, CAROL, Udp, true),
            Replies(true),
        ],
    ),
    (
        "the LAN reaches a client",
        TO_ALICE,
        &[
            Opens(HOST, ALICE, Tcp, true),
            Replies(true),
            Opens(ALICE, HOST, Udp, false),
            Opens(HOST, BOB, Tcp, false),
        ],
    ),
    (
        "clients reach each other alone",
        CLIENTS,
        &[
            Opens(ALICE, BOB, Tcp, true),
            Replies(true),
            Opens(BOB, ALICE, Echo, true),
            Replies(true),
            Opens(ALICE, HOST, Tcp, false),
            Opens(HOST, ALICE, Tcp, false),
        ],
    ),
    (
        "the LAN is not the Internet",
        INTERNET,
        &[Opens(ALICE, HOST, Tcp, false), Opens(ALICE, BOB, Tcp, false)],
    ),
    (
        "a flow ends with the rule that allows it",
        ALICE_TO_LAN,
        &[Opens(ALICE, HOST, Udp, true), Replies(true), Step::Rules(NONE), Replies(false), Again(false)],
    ),
    (
        "a flow that both allow goes on",
        ALICE_TO_LAN,
        &[
            Opens(ALICE, HOST, Tcp, true),
            Step::Rules(ALICE_AND_BOB_TO_LAN),
            Replies(true),
            Again(true),
            Opens(BOB, HOST, Tcp, true),
        ],
    ),
    (
        "rules that come later hold",
        ALL,
        &[
            Opens(ALICE, HOST, Udp, true),
            Step::Rules(NONE),
            Again(false),
            Replies(false),
            Step::Rules(ALICE_TO_LAN),
            Again(true),
            Replies(true),
        ],
    ),
    (
        "an address has another client",
        TO_BOB,
        &[Opens(ALICE, BOB, Udp, true), Becomes(BOB, "dave"), Again(false), Replies(false)],
    ),
    (
        "a silent flow is forgotten",
        ALICE_TO_LAN,
        &[
            Opens(ALICE, HOST, Udp, true),
            Waits(299),
            Replies(true),
            Waits(301),
            Replies(false),
            Again(true),
            Replies(true),
        ],
    ),
];

/// A server with the clients.
struct Server {
    end: End,
    clients: Vec<End>,
    v6: bool,
    now: Instant,
}

fn config(n: u8, name: &str) -> PeerConfig {
    let groups = if name == "carol" { vec!["staff".to_owned()] } else { Vec::new() };
    PeerConfig {
        peer: PeerId(n.into()),
        path: Some(udp(n)),
        routes: inner(n).iter().map(|net| net.parse::<IpNet>().unwrap()).collect(),
        selectors: Default::default(),
        max_mss: None,
        roams: true,
        staging: false,
        device: Default::default(),
        by_path: true,
        identity: Identity { name: name.to_owned(), groups },
    }
}

fn give_rules(end: &mut End, text: &str) {
    let rules = Rules::new(&AccessFile::parse("access.toml", text).unwrap());
    let (egress, ingress) = set_rules(rules.into());
    end.egress.apply(egress, &mut end.transmit_batch);
    end.ingress.apply(ingress);
}

impl Server {
    fn new(rules: &str, v6: bool) -> Self {
        let mut end = End::server(true);
        give_rules(&mut end, rules);
        for (n, name) in [(ALICE, "alice"), (BOB, "bob"), (CAROL, "carol")] {
            let peer = PeerId(n.into());
            end.apply(DataEvent::Peer(PeerOrder::Add(config(n, name))));
            end.install(
                peer,
                session_id(peer, 0),
                named(n.into(), 0),
                CIPHER,
                Keys { seal: n | 0x80, open: n },
            );
        }
        let clients = [ALICE, BOB, CAROL].map(|n| client(n, udp(9), CIPHER)).into();
        Server { end, clients, v6, now: Instant::ORIGIN }
    }

    /// Whether a packet comes to its receiver.
    fn passes(&mut self, source: u8, packet: &[u8]) -> bool {
        let Some(client) = self.clients.get_mut(usize::from(source) - 1) else {
            return !self.end.send(Offload::NONE, packet).is_empty();
        };
        let sealed = client.send_one(packet);
        let arrived = self.end.receive(udp(source), &sealed, sealed.len());
        match arrived.relay.first() {
            Some(relayed) => {
                self.end.egress.relay_packet(&mut relayed.clone(), &mut self.end.transmit_batch);
                !self.end.flush().is_empty()
            }
            None => !arrived.packets.is_empty(),
        }
    }

    fn packet(&self, source: u8, destination: u8, kind: Kind) -> Vec<u8> {
        let flow = Flow { v6: self.v6, source, destination, ..Flow::default() };
        match kind {
            Tcp => flow.tcp(1, 2, &[]),
            Udp => flow.udp(b"any"),
            Echo if self.v6 => flow.ip(58, &[128, 0, 0, 0, 0, 9, 0, 1]),
            Echo => flow.ip(1, &[8, 0, 0, 0, 0, 9, 0, 1]),
        }
    }

    /// The reply to a packet; its checksums are wrong.
    fn reply(&self, packet: &[u8]) -> Vec<u8> {
        let mut reply = packet.to_vec();
        let (addresses, len, upper) = if self.v6 { (8, 16, 40) } else { (12, 4, 20) };
        reply[addresses..upper].rotate_left(len);
        match packet[if self.v6 { 6 } else { 9 }] {
            1 => reply[upper] = 0,
            58 => reply[upper] = 129,
            protocol => {
                reply[upper..upper + 4].rotate_left(2);
                if protocol == 6 {
                    reply[upper + 13] = 0x12;
                }
            }
        }
        reply
    }

    fn run(&mut self, steps: &[Step]) {
        let (mut before, mut opposite) = ((0, Vec::new()), 0);
        for (number, step) in steps.iter().enumerate() {
            let refused = self.refused();
            let found = match *step {
                Opens(source, destination, kind, expected) => {
                    (before, opposite) = ((source, self.packet(source, destination, kind)), destination);
                    Some((self.passes(source, &before.1), expected))
                }
                Replies(expected) => Some((self.passes(opposite, &self.reply(&before.1)), expected)),
                Again(expected) => Some((self.passes(before.0, &before.1), expected)),
                Step::Rules(text) => {
                    give_rules(&mut self.end, text);
                    None
                }
                Becomes(n, name) => {
                    self.end.apply(DataEvent::Peer(PeerOrder::Add(config(n, name))));
                    None
                }
                Waits(seconds) => {
                    self.now += Duration::from_secs(seconds);
                    self.end.ingress.tick(self.now);
                    self.end.egress.tick(self.now);
                    None
                }
            };
            if let Some((passed, expected)) = found {
                assert_eq!(passed, expected, "step {number} of {steps:?}, IPv6 {}", self.v6);
                assert_eq!(self.refused() - refused, u64::from(!expected), "it is counted as not allowed");
            }
        }
    }

    fn refused(&self) -> u64 {
        self.end.dropped_in(DropReason::NotAllowed) + self.end.dropped_out(DropReason::NotAllowed)
    }
}

#[test]
fn packets_pass_as_the_rules_say() {
    for v6 in [false, true] {
        for (situation, rules, steps) in SITUATIONS {
            eprintln!("{situation}");
            Server::new(rules, v6).run(steps);
        }
    }
}

#[test]
fn a_peer_has_the_rules_of_its_name_from_its_first_packet_on() {
    // Rules that come after the peers hold for them, too.
    let mut server = Server::new(ALL, false);
    give_rules(&mut server.end, ALICE_TO_LAN);
    server.run(&[Opens(ALICE, HOST, Tcp, true), Opens(BOB, HOST, Tcp, false)]);
}

#[test]
fn what_is_behind_headers_that_hide_it_does_not_pass() {
    let mut server = Server::new(DNS, false);
    let dns = server.packet(ALICE, HOST, Udp);
    assert!(server.passes(ALICE, &dns));
    // Options with a loose source route to another host.
    let mut routed = dns.clone();
    routed.splice(20..20, [131, 7, 4, 10, 0, 0, 99, 0]);
    routed[0] = 0x47;
    routed[3] += 8;
    assert!(!server.passes(ALICE, &routed));
    let mut later = dns.clone();
    (later[6], later[7]) = (0, 3);
    assert!(!server.passes(ALICE, &later), "a fragment whose first one never came");
    assert_eq!(server.refused(), 2);
}

#[test]
fn a_peer_of_another_worker_is_known_by_its_name() {
    let mut server = Server::new(TO_BOB, false);
    server.end.apply(DataEvent::Peer(PeerOrder::Remove(PeerId(BOB.into()))));
    let (egress, ingress) = remote_peer(config(BOB, "bob"), 7);
    server.end.egress.apply(egress, &mut server.end.transmit_batch);
    server.end.ingress.apply(ingress);
    let packet = server.packet(ALICE, BOB, Tcp);
    let sealed = server.clients[0].send_one(&packet);
    let passed = server.end.receive(udp(ALICE), &sealed, sealed.len()).passed;
    assert!(matches!(passed[..], [Passed::Packet { worker: 7, .. }]), "{passed:?}");
    let packet = server.packet(ALICE, CAROL, Tcp);
    assert!(!server.passes(ALICE, &packet));
}

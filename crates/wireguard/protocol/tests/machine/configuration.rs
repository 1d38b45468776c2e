//! Orders that change a running interface: all or nothing, one route at a time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::support::plane::Ledger;
use crate::support::{self, End, Pair, at, outer, params, path, peer, public};
use adit_core::{Command, Event, IpNet, Path, PeerId, PeerOrder, Protocol};
use adit_wireguard::{
    AllowedIp, Changes, ConfigureError, DataEvent, Interface, MAX_PEERS, PeerChange, PublicKey, Reply,
    Request, Sockets,
};

fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

fn end() -> End {
    End::new(params(1, at(1), Vec::new()), at(1), [1; 32], &Rc::new(RefCell::new(Ledger::default())))
}

fn routes(end: &End, n: u8) -> Vec<String> {
    let id = end.id(n);
    end.plane.routes.iter().filter(|(_, owner)| **owner == id).map(|(net, _)| net.to_string()).collect()
}

fn allowed(end: &End, n: u8) -> Vec<String> {
    let status = end.machine.status();
    let peer = status.peers.iter().find(|peer| peer.detail.public_key == public(n)).expect("a peer");
    peer.detail.allowed_ips.iter().map(IpNet::to_string).collect()
}

fn with(n: u8, allowed_ips: Vec<AllowedIp>) -> Changes {
    let change = PeerChange { allowed_ips, ..PeerChange::new(public(n)) };
    Changes { peers: vec![change], ..Changes::default() }
}

fn add(text: &str) -> AllowedIp {
    AllowedIp::Add(net(text))
}

#[test]
fn allowed_ips_are_masked_and_move_between_peers() {
    let mut end = end();
    end.configure(at(1), with(2, vec![add("192.168.4.7/24"), add("fd00::1/64")]));
    assert_eq!(routes(&end, 2), ["192.168.4.0/24", "fd00::/64"]);
    end.configure(at(1), with(3, vec![add("192.168.4.0/24"), add("192.168.4.9/32")]));
    assert_eq!(
        (routes(&end, 2), allowed(&end, 2)),
        (vec!["fd00::/64".to_owned()], vec!["fd00::/64".to_owned()])
    );
    assert_eq!(routes(&end, 3), allowed(&end, 3));
    assert_eq!(routes(&end, 3).len(), 2);
    // The new owner keeps the network when the old owner gets the order to remove it.
    end.configure(at(1), with(2, vec![AllowedIp::Remove(net("192.168.4.0/24"))]));
    assert_eq!(routes(&end, 3).len(), 2);
    end.configure(at(1), with(3, vec![AllowedIp::Remove(net("192.168.4.1/24"))]));
    assert_eq!(routes(&end, 3), ["192.168.4.9/32"]);
    let change = PeerChange { remove: true, ..PeerChange::new(public(2)) };
    end.configure(at(1), Changes { peers: vec![change], ..Changes::default() });
    assert_eq!(end.plane.routes.len(), 1);
}

#[test]
fn replaced_allowed_ips_that_stay_do_not_go_for_a_moment() {
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    drop(ledger);
    let mut start = params(1, at(1), vec![peer(2, None)]);
    start.configuration.peers[0].allowed_ips = vec![add("10.1.0.0/16"), add("10.2.0.0/16")];
    let mut machine = Interface::new(start, at(1), [1; 32]).expect("a configuration");
    while machine.poll_event().is_some() {}
    let mut changes = with(2, vec![add("10.2.0.0/16"), add("10.3.0.0/16")]);
    changes.peers[0].replace_allowed_ips = true;
    machine.handle_reply(at(1), Reply::Configure { id: 1, changes: Box::new(changes) });
    let orders: Vec<String> = std::iter::from_fn(|| machine.poll_event())
        .filter_map(|event| match event {
            Event::Data(DataEvent::Peer(PeerOrder::AddRoute { route, .. })) => Some(format!("+{route}")),
            Event::Data(DataEvent::Peer(PeerOrder::RemoveRoute { route, .. })) => Some(format!("-{route}")),
            _ => None,
        })
        .collect();
    assert_eq!(orders, ["-10.1.0.0/16", "+10.3.0.0/16"]);
}

#[test]
fn a_port_is_bound_before_anything_is_changed() {
    let mut end = end();
    let mut changes = with(2, vec![add("10.0.0.2/32")]);
    (changes.listen_port, changes.fwmark) = (Some(9999), Some(7));
    end.configure(at(1), changes.clone());
    assert_eq!(end.requests, [Request::Rebind { listen_port: Some(9999), fwmark: Some(7) }]);
    assert!(end.machine.status().peers.is_empty());
    // Others wait behind it.
    end.configure(at(1), with(3, vec![add("10.0.0.3/32")]));
    assert!(end.machine.status().peers.is_empty());
    let refused = ConfigureError::Socket { errno: 98, text: "address already in use".to_owned() };
    end.requests.clear();
    end.reply(at(1), Reply::Rebound(Err(refused.clone())));
    let configured = |outcome| Request::Configured { id: 1, outcome };
    assert_eq!(end.requests, [configured(Err(refused)), configured(Ok(()))]);
    let status = end.machine.status();
    assert_eq!((status.peers.len(), status.listen_port, status.fwmark), (1, 51820, 0));
    assert_eq!(status.peers[0].detail.public_key, public(3));

    end.requests.clear();
    end.configure(at(1), changes);
    let sockets = Sockets { port: 9999, ipv4: Some(8), ipv6: None };
    end.reply(at(1), Reply::Rebound(Ok(sockets)));
    assert_eq!(end.requests.last(), Some(&configured(Ok(()))));
    let status = end.machine.status();
    assert_eq!((status.peers.len(), status.listen_port, status.fwmark), (2, 9999, 7));
}

#[test]
fn new_sockets_reach_the_same_endpoints() {
    let mut end = end();
    let v6 = "[2001:db8::7]:5".parse().expect("an address");
    let peers = vec![peer(2, Some(outer(2))), peer(3, Some(v6)), peer(4, None)];
    end.configure(at(1), Changes { peers, ..Changes::default() });
    assert_eq!(end.plane.peers[&end.id(2)].path, Some(path(outer(2))));
    end.reply(at(1), Reply::Rebound(Ok(Sockets { port: 7, ipv4: Some(8), ipv6: None })));
    let paths = [2, 3, 4].map(|n| end.plane.peers[&end.id(n)].path);
    assert_eq!(paths, [Some(Path::Udp { socket: 8, remote: outer(2) }), None, None]);
    // An endpoint without a socket of its family is kept until there is one.
    let endpoints = |end: &End| -> Vec<_> {
        end.machine.status().peers.into_iter().map(|peer| peer.detail.endpoint).collect()
    };
    assert_eq!(endpoints(&end), [Some(outer(2)), Some(v6), None]);
    // By this a program sees that the peer cannot be reached, although no initiation goes unanswered.
    let unreached = end.machine.peer(&public(3)).expect("a peer");
    assert_eq!((unreached.transport, unreached.unanswered, end.machine.sockets().ipv6), (None, 0, None));
    end.reply(at(1), Reply::Rebound(Ok(Sockets { port: 7, ipv4: Some(8), ipv6: Some(9) })));
    assert_eq!(end.plane.peers[&end.id(3)].path, Some(Path::Udp { socket: 9, remote: v6 }));
}

/// The largest TCP segment that may pass goes to the data plane with each peer, also when its path is lost.
#[test]
fn every_peer_has_the_mss() {
    let mut start = params(1, at(1), vec![peer(2, Some(outer(2)))]);
    start.clamp_mss = Some(1400);
    let mut machine = Interface::new(start, at(1), [1; 32]).expect("a configuration");
    machine.handle_reply(at(1), Reply::Rebound(Ok(Sockets::default())));
    let sizes: Vec<_> = std::iter::from_fn(|| machine.poll_event())
        .filter_map(|event| match event {
            Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => {
                Some((config.max_mss, config.path.is_some()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(sizes.first(), Some(&(Some(1360), false)), "a peer that is new");
    assert_eq!(sizes.last(), Some(&(Some(1360), false)), "a peer without a path");
    assert_eq!(sizes.len(), 2);
    for (mtu, expected) in [
        (Some(1420), vec![]),
        (Some(1280), vec![Some(1240)]),
        (Some(1280), vec![]),
        (None, vec![None]),
        (Some(9000), vec![Some(1360)]),
    ] {
        machine.handle_command(at(1), Command::MtuChanged { mtu });
        let changed: Vec<_> = std::iter::from_fn(|| machine.poll_event())
            .filter_map(|event| match event {
                Event::Data(DataEvent::Peer(PeerOrder::SetMaxMss { max_mss, .. })) => Some(max_mss),
                _ => None,
            })
            .collect();
        assert_eq!(changed, expected, "{mtu:?}");
    }
}

/// Segments fit with the headers around data messages, and padding.
#[test]
fn segments_fit_the_path_to_each_peer() {
    let mut start = params(1, at(1), vec![peer(2, Some(outer(2))), peer(3, Some(outer(3)))]);
    start.clamp_mss = Some(1420);
    let mut machine = Interface::new(start, at(1), [1; 32]).expect("a configuration");
    let [two, three] = [2, 3].map(|number| machine.peer_id(&public(number)).expect("a peer"));
    let mut told = |command| {
        machine.handle_command(at(1), command);
        let events = std::iter::from_fn(|| machine.poll_event());
        let sizes = events.filter_map(|event| match event {
            Event::Data(DataEvent::Peer(PeerOrder::SetMaxMss { peer, max_mss })) => {
                Some((peer, max_mss.expect("a size")))
            }
            _ => None,
        });
        sizes.collect::<Vec<_>>()
    };
    let path = |mtu| Command::PathMtu { remote: outer(2).ip(), mtu };
    // 1,240 bytes beside the headers of IPv4, UDP and the data message are 77 times 16 and 8 more.
    assert_eq!(told(path(Some(1300))), [(two, 1232 - 40)]);
    assert_eq!(told(path(Some(1300))), []);
    assert_eq!(told(Command::MtuChanged { mtu: Some(1100) }), [(two, 1060), (three, 1060)]);
    assert_eq!(told(Command::MtuChanged { mtu: Some(1500) }), [(two, 1192), (three, 1380)]);
    assert_eq!(told(path(None)), [(two, 1380)]);
}

#[test]
fn our_own_key_is_no_peer() {
    let mut end = end();
    end.configure(at(1), Changes { peers: vec![peer(1, None), peer(2, None)], ..Changes::default() });
    assert_eq!(end.machine.status().peers.len(), 1);
    let changes = Changes { private_key: Some(Some(support::private(2))), ..Changes::default() };
    end.configure(at(1), changes);
    assert!(end.machine.status().peers.is_empty(), "a peer that has our new key is removed");
}

#[test]
fn update_only_adds_nothing() {
    let mut end = end();
    let change = PeerChange { update_only: true, ..peer(2, Some(outer(2))) };
    end.configure(at(1), Changes { peers: vec![change], ..Changes::default() });
    assert!(end.machine.status().peers.is_empty() && end.plane.peers.is_empty());
}

#[test]
fn replaced_peers_go_before_the_new_ones_come() {
    let mut end = end();
    end.configure(at(1), Changes { peers: vec![peer(2, None), peer(3, None)], ..Changes::default() });
    let changes = Changes { replace_peers: true, peers: vec![peer(3, None)], ..Changes::default() };
    end.configure(at(1), changes);
    assert_eq!(end.plane.peers.len(), 1);
    assert_eq!(allowed(&end, 3), ["10.0.0.3/32"]);
}

#[test]
fn without_a_private_key_nothing_is_sent_or_taken() {
    let mut end = end();
    let changes = Changes {
        private_key: Some(None),
        peers: vec![PeerChange { persistent_keepalive: Some(1), ..peer(2, Some(outer(2))) }],
        ..Changes::default()
    };
    end.configure(at(1), changes);
    for second in 1..20 {
        end.wake(at(second));
    }
    assert!(end.take_sent().is_empty());
}

#[test]
fn too_many_peers_are_refused_together() {
    let key = |number: usize| {
        let mut key = [7; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        PeerChange::new(PublicKey(key))
    };
    let mut start = params(1, at(1), (0..MAX_PEERS).map(key).collect());
    start.configuration.private_key = None;
    let mut machine = Interface::new(start.clone(), at(1), [1; 32]).expect("as many as there may be");
    while machine.poll_event().is_some() {}
    let mut outcome = |changes| {
        machine.handle_reply(at(1), Reply::Configure { id: 4, changes: Box::new(changes) });
        std::iter::from_fn(|| machine.poll_event()).find_map(|event| match event {
            Event::Request(Request::Configured { id: 4, outcome }) => Some(outcome),
            _ => None,
        })
    };
    let one_more = |update_only| {
        let change = PeerChange { update_only, ..key(MAX_PEERS) };
        Changes { fwmark: None, peers: vec![key(0), change], ..Changes::default() }
    };
    assert_eq!(outcome(one_more(true)), Some(Ok(())));
    assert_eq!(outcome(one_more(false)), Some(Err(ConfigureError::TooManyPeers)));
    start.configuration.peers.push(key(MAX_PEERS));
    assert_eq!(Interface::new(start, at(1), [1; 32]).err(), Some(ConfigureError::TooManyPeers));
}

/// Indices tell neither the number of peers nor of handshakes, and bring datagrams to the worker of their peer.
#[test]
fn indices_are_random_and_steered() {
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let mut start = params(1, at(1), (2..10).map(|n| peer(n, Some(outer(n)))).collect());
    start.workers = 3;
    let mut end = End::new(start, at(1), [1; 32], &ledger);
    for n in 2..10 {
        end.send(at(1), support::inner(n), n.into());
    }
    let mut last = 0;
    for (number, (_, datagram)) in end.take_sent().into_iter().enumerate() {
        let support::Datagram::Control(bytes) = datagram else { panic!("an initiation") };
        let word = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        assert_eq!(word % 3, PeerId(number as u32).0 % 3);
        assert!(word.abs_diff(last) > 1000, "neighbours");
        last = word;
    }
}

/// The effect of `adit_blocked`.
#[test]
fn a_blocked_peer_has_no_session_and_gets_none() {
    let mut pair = Pair::new();
    let set = |pair: &mut Pair, blocked| {
        let change = PeerChange { blocked: Some(blocked), ..PeerChange::new(public(2)) };
        let now = pair.now;
        pair.ends[0].configure(now, Changes { peers: vec![change], ..Changes::default() });
    };
    let is_blocked = |pair: &Pair| pair.ends[0].machine.peer(&public(2)).expect("a peer").blocked;
    assert!(pair.passes(0) && pair.passes(1) && !is_blocked(&pair));
    set(&mut pair, true);
    assert!(is_blocked(&pair) && pair.ends[0].machine.peers().is_empty());
    pair.run(Duration::from_secs(20));
    assert!(!pair.passes(0) && !pair.passes(1));
    pair.run(Duration::from_secs(200));
    assert!(!pair.passes(0) && !pair.passes(1));
    set(&mut pair, false);
    pair.run(Duration::from_secs(12));
    assert!(pair.passes(0) && pair.passes(1));
    // A peer that is added anew is not blocked.
    set(&mut pair, true);
    let remove = PeerChange { remove: true, ..PeerChange::new(public(2)) };
    let changes = vec![remove, PeerChange::new(public(2))];
    let now = pair.now;
    pair.ends[0].configure(now, Changes { peers: changes, ..Changes::default() });
    assert!(!is_blocked(&pair));
}

/// By which an adapter knows that a name is to be resolved again.
#[test]
fn initiations_without_an_answer_are_counted() {
    let mut pair = Pair::new();
    let unanswered = |pair: &Pair| pair.ends[0].machine.peer(&public(2)).expect("a peer").unanswered;
    assert!(pair.passes(0));
    assert_eq!(unanswered(&pair), 0);
    pair.run(Duration::from_secs(1));
    let block = PeerChange { blocked: Some(true), ..PeerChange::new(public(1)) };
    let now = pair.now;
    pair.ends[1].configure(now, Changes { peers: vec![block.clone()], ..Changes::default() });
    assert!(!pair.passes(0));
    pair.tick();
    // The handshake that silence begins after 15 s, and its retries.
    pair.run(Duration::from_secs(27));
    assert_eq!(unanswered(&pair), 3);
    let allow = PeerChange { blocked: Some(false), ..block };
    let now = pair.now;
    pair.ends[1].configure(now, Changes { peers: vec![allow], ..Changes::default() });
    pair.run(Duration::from_secs(6));
    assert_eq!(unanswered(&pair), 0);
}

/// It is not known which peers were blocked before the start.
#[test]
fn while_all_peers_are_blocked_none_gets_in_until_it_is_allowed() {
    let mut pair = Pair::with(|params| params.blocks_all = true);
    assert!(!pair.passes(0) && !pair.passes(1));
    let change = |pair: &mut Pair, end: usize, change: PeerChange| {
        pair.ends[end].configure(pair.now, Changes { peers: vec![change], ..Changes::default() });
    };
    // Also one that is added later.
    change(&mut pair, 1, PeerChange { remove: true, ..PeerChange::new(public(1)) });
    change(&mut pair, 1, peer(1, Some(outer(1))));
    pair.run(Duration::from_secs(10));
    assert!(!pair.passes(0));
    for (end, key) in [(0, 2), (1, 1)] {
        change(&mut pair, end, PeerChange { blocked: Some(false), ..PeerChange::new(public(key)) });
    }
    pair.run(Duration::from_secs(20));
    assert!(pair.passes(0) && pair.passes(1));
}

#[test]
fn who_was_blocked_before_the_start_stays_out_until_allowed() {
    let mut pair = Pair::with(|params| {
        params.blocked = params
            .configuration
            .peers
            .iter()
            .map(|peer| peer.public_key)
            .filter(|key| *key == public(1))
            .collect();
    });
    assert!(!pair.passes(0));
    // Also when `wg` removes it and adds it again.
    let change = |pair: &mut Pair, change: PeerChange| {
        pair.ends[1].configure(pair.now, Changes { peers: vec![change], ..Changes::default() });
    };
    change(&mut pair, PeerChange { remove: true, ..PeerChange::new(public(1)) });
    change(&mut pair, peer(1, Some(outer(1))));
    pair.run(Duration::from_secs(10));
    assert!(!pair.passes(0));
    change(&mut pair, PeerChange { blocked: Some(false), ..PeerChange::new(public(1)) });
    pair.run(Duration::from_secs(10));
    assert!(pair.passes(0));
    change(&mut pair, PeerChange { remove: true, ..PeerChange::new(public(1)) });
    change(&mut pair, peer(1, Some(outer(1))));
    pair.run(Duration::from_secs(20));
    assert!(pair.passes(0) && pair.passes(1));
}

#[test]
fn a_peer_is_called_by_its_name() {
    let mut pair = Pair::new();
    let named = PeerChange { name: Some("phone".to_owned()), ..PeerChange::new(public(2)) };
    pair.ends[0].configure(pair.now, Changes { peers: vec![named], ..Changes::default() });
    let unconnected: Vec<_> = pair.ends[0].machine.unconnected().map(|detail| detail.name).collect();
    assert_eq!(unconnected, [Some("phone".to_owned())]);
    pair.packet(0);
    // The log of an end that is not answered, at last.
    for _ in 0..120 {
        pair.ends[0].take_sent();
        pair.pass(Duration::from_secs(1));
    }
    assert!(pair.ends[0].reports.iter().any(|text| text.starts_with("phone: no initiation was answered")));
}

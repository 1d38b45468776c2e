//! Peers on TCP connections: opened, broken, opened again, left for others, bounded.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{self, Datagram, End, Pair, initiations, millis, outer, params, path, peer, public};
use adit_core::{Command, ConnectionId, OpenFailure, Path, Protocol, Rejected, Transport};
use adit_wireguard::{Changes, PeerChange};

/// The number of the only remote.
const REMOTE: usize = 7;
/// The time for which a peer that does not answer is tried before its connection is renewed: 15 s without an answer,
/// and three initiations 5 s apart, each with some jitter.
const DEAD_AFTER: Duration = Duration::from_secs(34);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn tcp(number: u32) -> Path {
    Path::Tcp { connection: ConnectionId(number), remote: from(number) }
}

fn from(number: u32) -> SocketAddr {
    ([198, 51, 100, 1], 1000 + number as u16).into()
}

/// A client, which reaches its server over TCP alone, and that server.
struct Bed {
    pair: Pair,
    /// The connection that datagrams pass on.
    open: Option<u32>,
    next: u32,
}

impl Bed {
    fn new() -> Self {
        let mut pair = Pair::with(|params| {
            let is_client = params.configuration.peers[0].public_key == public(2);
            let remote = is_client.then_some(REMOTE);
            params.configuration.peers[0] =
                PeerChange { remote, ..peer(if is_client { 2 } else { 1 }, None) };
        });
        pair.now += millis(1);
        Bed { pair, open: None, next: 0 }
    }

    fn client(&mut self) -> &mut End {
        &mut self.pair.ends[0]
    }

    fn server(&mut self) -> &mut End {
        &mut self.pair.ends[1]
    }

    /// The connection that the client asked for is there, at both ends.
    fn connect(&mut self) -> Path {
        assert_eq!(std::mem::take(&mut self.client().opens), [REMOTE]);
        self.next += 1;
        let (now, path) = (self.pair.now, tcp(self.next));
        self.open = Some(self.next);
        self.server().command(now, Command::Opened { path });
        self.server().command(now, Command::Prepared { path, remote: None });
        self.client().command(now, Command::Prepared { path, remote: Some(REMOTE) });
        self.settle();
        path
    }

    /// Datagrams that are sent on the open connection arrive.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 100, "they go on and on");
            let sent = [0, 1].map(|end: usize| self.pair.ends[end].take_sent());
            if sent.iter().all(Vec::is_empty) {
                return;
            }
            for (end, datagrams) in sent.into_iter().enumerate() {
                for (path, datagram) in datagrams {
                    if self.open.map(tcp) == Some(path) {
                        let _ = self.pair.ends[1 - end].receive(self.pair.now, path, &datagram);
                    }
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.pair.now + time;
        while self.pair.now < end {
            // The machines get the totals of the traffic once in a whole second.
            self.pair.pass(millis(1000).min(end - self.pair.now));
            self.settle();
        }
    }

    fn passes(&mut self, from: usize) -> bool {
        let number = self.pair.packet(from);
        self.settle();
        self.pair.ends[1 - from].delivered.iter().any(|(_, arrived)| *arrived == number)
    }

    /// Ends the connection and reports it to both ends.
    fn cut(&mut self) {
        let path = self.open.take().map(tcp).expect("a connection");
        for end in &mut self.pair.ends {
            end.command(self.pair.now, Command::Closed { path, reason: "cut".to_owned() });
        }
    }
}

/// Where an end has its only peer.
fn path_of(end: &End) -> Option<Path> {
    end.plane.peers.values().next().expect("a peer").path
}

fn connected() -> (Bed, Path) {
    let mut bed = Bed::new();
    bed.pair.packet(0);
    let path = bed.connect();
    assert!(bed.passes(0) && bed.passes(1));
    (bed, path)
}

#[test]
fn a_connection_is_opened_for_what_is_to_be_sent() {
    let mut bed = Bed::new();
    bed.run(seconds(100));
    assert!(bed.client().opens.is_empty(), "nothing is to be sent");
    let number = bed.pair.packet(0);
    bed.pair.packet(0);
    assert!(bed.client().take_sent().is_empty());
    let path = bed.connect();
    assert_eq!(bed.server().delivered.first().map(|(_, packet)| *packet), Some(number));
    assert_eq!([path_of(bed.client()), path_of(bed.server())], [Some(path); 2]);
    let shown = bed.server().machine.peer(&public(1)).expect("a peer");
    assert_eq!((shown.transport, shown.endpoint), (Some(Transport::Tcp), Some(from(1))));
    assert!(bed.passes(1) && bed.client().opens.is_empty());
    // It is used as long as it is there, through new sessions.
    for _ in 0..30 {
        bed.run(seconds(10));
        assert!(bed.passes(0));
    }
    assert!(bed.client().closes.is_empty() && bed.server().closes.is_empty());
}

#[test]
fn a_connection_that_breaks_is_opened_again_and_the_server_follows() {
    let (mut bed, _) = connected();
    bed.cut();
    assert_eq!([path_of(bed.client()), path_of(bed.server())], [None; 2]);
    assert!(bed.client().opens.is_empty(), "not at once");
    bed.run(millis(1100));
    let number = bed.pair.packet(1);
    let path = bed.connect();
    assert_eq!(path_of(bed.server()), Some(path), "a keepalive says where the client is");
    assert!(bed.client().delivered.iter().any(|(_, packet)| *packet == number), "what waited came");
    assert!(bed.passes(0) && bed.passes(1));
}

#[test]
fn a_client_that_has_nothing_to_say_opens_none() {
    let (mut bed, _) = connected();
    bed.run(seconds(200));
    bed.cut();
    bed.run(seconds(600));
    assert!(bed.client().opens.is_empty());
    bed.pair.packet(0);
    bed.connect();
    assert!(bed.passes(1));
}

#[test]
fn attempts_are_more_and_more_seldom() {
    let mut bed = Bed::new();
    bed.pair.packet(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        assert_eq!(std::mem::take(&mut bed.client().opens), [REMOTE]);
        let failure = OpenFailure::Unreachable("refused".to_owned());
        let now = bed.pair.now;
        bed.client().command(now, Command::OpenFailed { remote: REMOTE, failure });
        while bed.client().opens.is_empty() {
            bed.pair.pass(millis(100));
        }
        waits.push((bed.pair.now - now).as_millis());
    }
    assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    assert!(bed.client().reports.iter().all(|text| text.ends_with("cannot be reached over TCP: refused")));
    // Connections that bring nothing do not make it quicker; one that does, does.
    bed.connect();
    bed.cut();
    let now = bed.pair.now;
    bed.run(millis(1000));
    assert_eq!((bed.client().opens.len(), bed.pair.now - now), (1, seconds(1)));
}

#[test]
fn an_order_to_start_over_ends_the_wait() {
    let mut bed = Bed::new();
    bed.pair.packet(0);
    assert_eq!(std::mem::take(&mut bed.client().opens), [REMOTE]);
    let (now, failure) = (bed.pair.now, OpenFailure::Unreachable("refused".to_owned()));
    bed.client().command(now, Command::OpenFailed { remote: REMOTE, failure });
    assert!(bed.client().opens.is_empty());
    bed.client().command(now, Command::Restart);
    assert_eq!(bed.client().opens, [REMOTE]);
}

/// The connection breaks before the initiation on it was answered, and the next one is there when that is due again.
#[test]
fn a_handshake_goes_on_when_its_connection_breaks() {
    let mut bed = Bed::new();
    let number = bed.pair.packet(0);
    assert_eq!(std::mem::take(&mut bed.client().opens), [REMOTE]);
    let (now, path) = (bed.pair.now, tcp(100));
    bed.client().command(now, Command::Prepared { path, remote: Some(REMOTE) });
    assert_eq!(initiations(&bed.client().take_sent()), 1);
    bed.client().command(now, Command::Closed { path, reason: "cut".to_owned() });
    bed.run(seconds(12));
    assert!(!bed.client().reports.iter().any(|text| text.contains("no initiation was answered")));
    bed.connect();
    assert!(bed.server().delivered.iter().any(|(_, packet)| *packet == number), "what waited came");
}

#[test]
fn a_dead_connection_is_given_up() {
    let (mut bed, path) = connected();
    // The packets that are sent are newer than the last answer.
    bed.run(seconds(2));
    bed.open = None;
    bed.pair.packet(0);
    bed.run(DEAD_AFTER);
    assert_eq!(bed.client().closes, [path]);
    bed.connect();
    assert!(bed.passes(0) && bed.passes(1));
}

#[test]
fn a_peer_that_leaves_a_connection_may_come_back_for_10_s() {
    let (mut bed, first) = connected();
    let (now, second) = (bed.pair.now, tcp(2));
    bed.server().command(now, Command::Opened { path: second });
    bed.pair.packet(0);
    let sent = bed.client().take_sent();
    bed.server().receive(now, second, &sent[0].1).expect("data");
    assert_eq!(path_of(bed.server()), Some(second));
    bed.run(seconds(9));
    assert!(bed.server().closes.is_empty());
    assert!(bed.passes(0));
    assert_eq!(path_of(bed.server()), Some(first));
    bed.run(seconds(11));
    assert_eq!(bed.server().closes, [second], "the one that is not used");
}

#[test]
fn a_peer_of_udp_comes_by_tcp_and_is_found_by_udp_when_that_breaks() {
    let mut pair = Pair::new();
    pair.connect();
    let stream = tcp(1);
    pair.ends[1].command(pair.now, Command::Opened { path: stream });
    pair.packet(0);
    let sent = pair.ends[0].take_sent();
    pair.ends[1].receive(pair.now, stream, &sent[0].1).expect("data");
    assert_eq!(path_of(&pair.ends[1]), Some(stream));
    pair.packet(1);
    assert!(pair.ends[1].take_sent().iter().all(|(path, _)| *path == stream));
    pair.ends[1].command(pair.now, Command::Closed { path: stream, reason: "cut".to_owned() });
    assert_eq!(path_of(&pair.ends[1]), Some(path(outer(1))));
    assert!(pair.passes(0) && pair.passes(1));
}

#[test]
fn what_comes_on_a_closed_connection_moves_nobody() {
    let (mut bed, path) = connected();
    bed.pair.packet(0);
    let late = bed.client().take_sent();
    bed.cut();
    let now = bed.pair.now;
    bed.server().receive(now, path, &late[0].1).expect("data");
    assert_eq!(path_of(bed.server()), None);
    let initiation = Datagram::Control(vec![1, 0, 0, 0]);
    let refused = bed.server().receive(now, path, &initiation);
    assert_eq!(refused, Err(Rejected::Unexpected("its connection was closed")));
}

#[test]
fn connections_that_prove_nothing_are_closed() {
    let now = support::at(1000);
    let mut end = End::new(params(1, now, Vec::new()), now, [1; 32], &Pair::new().ledger);
    assert!(end.machine.tables().is_empty());
    for number in 0..100 {
        end.command(now, Command::Opened { path: tcp(number) });
    }
    assert_eq!(end.closes.len(), 100 - 64);
    for number in 90..100 {
        end.command(now, Command::Prepared { path: tcp(number), remote: None });
    }
    end.closes.clear();
    end.wake(now + seconds(10));
    assert_eq!(end.closes.len(), 64 - 10, "no request");
    end.wake(now + seconds(60));
    assert_eq!((end.closes.len(), end.machine.poll_timeout()), (64, None), "no record");
    let usage = end.machine.tables().remove(0);
    assert_eq!((usage.entries, usage.evicted, usage.limit), (0, 36, 1024));
}

#[test]
fn a_peer_that_is_removed_or_blocked_has_no_connection() {
    let (mut bed, path) = connected();
    let now = bed.pair.now;
    let block = PeerChange { blocked: Some(true), ..PeerChange::new(public(2)) };
    bed.client().configure(now, Changes { peers: vec![block], ..Changes::default() });
    assert_eq!(bed.client().closes, [path]);
    bed.run(seconds(100));
    assert!(bed.client().opens.is_empty());
    let remove = PeerChange { remove: true, ..PeerChange::new(public(1)) };
    let now = bed.pair.now;
    bed.server().configure(now, Changes { peers: vec![remove], ..Changes::default() });
    bed.server().wake(now + seconds(10));
    assert_eq!(bed.server().closes, [path]);
}

#[test]
fn a_connection_to_a_peer_that_is_gone_is_closed() {
    let mut bed = Bed::new();
    bed.pair.packet(0);
    let (now, path) = (bed.pair.now, tcp(1));
    let remove = PeerChange { remove: true, ..PeerChange::new(public(2)) };
    bed.client().configure(now, Changes { peers: vec![remove], ..Changes::default() });
    bed.client().command(now, Command::Prepared { path, remote: Some(REMOTE) });
    assert_eq!(bed.client().closes, [path]);
}

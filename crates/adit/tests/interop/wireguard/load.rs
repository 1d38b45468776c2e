//! A flood of initiations with a valid mac1: cookies for every sender, and a way in for a sender that returns
//! one.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant as Now, SystemTime};

use adit_core::{Command, Instant, Protocol as _};
use adit_testbed::{MAX_WAIT, wait_until, wait_until_reachable};
use adit_wireguard::wire::{INITIATION_LEN, Message};
use adit_wireguard::{Changes, Interface, Params, PeerChange, PrivateKey, PublicKey, Sockets, WallClock};

use super::bed::{End, PORT, Program, WAIT, pair};
use super::others::with_each;

with_each! {
    super::cookies as cookies_are_asked_and_returned_under_load,
}

/// The first end is the target, the second wants to connect. The flood comes from the second's address: gotatun counts
/// each address by itself.
fn cookies(programs: [Program; 2]) {
    let [first, second] = pair(programs);
    let initiation = initiation(&first);
    let [probe, attacker] = [socket(&second, &first), socket(&second, &first)];
    assert!(!is_given_a_cookie(&probe, &initiation), "{programs:?}: cookies without load");
    let (is_over, [least, most]) = (AtomicBool::new(false), rates(programs[0]));
    let rate = AtomicU32::new(least);
    let is_under_load = || {
        let answered = is_given_a_cookie(&probe, &initiation);
        if !answered {
            rate.store((2 * rate.load(Ordering::Relaxed)).min(most), Ordering::Relaxed);
        }
        answered
    };
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&attacker, &initiation, &rate, &is_over));
        // The first handshake is answered with a cookie, and is tried again after 5 s and the jitter.
        let outcome = wait_until("a cookie", WAIT, is_under_load)
            .and_then(|()| wait_until_reachable(&second.namespace, first.inner(), MAX_WAIT))
            .and_then(|_| wait_until("a cookie", WAIT, is_under_load));
        is_over.store(true, Ordering::Relaxed);
        assert!(outcome.is_ok(), "{programs:?}: {outcome:?}");
    });
    second.reaches(&first);
    first.reaches(&second);
}

/// Initiations a second that are a load but leave the target time for the others, the least and the most of them: the rate is
/// doubled until there are cookies. wireguard-go and Linux look at the length of their queues, which depends on the machine; adit
/// counts more than 1,000 a second, boringtun and gotatun (built without optimization) 100.
fn rates(target: Program) -> [u32; 2] {
    match target {
        Program::WireGuardGo | Program::WireGuardGoOfDebian => [60_000; 2],
        Program::Adit => [3_000; 2],
        Program::Kernel => [2_000, 64_000],
        Program::BoringTun | Program::GotaTun => [400; 2],
    }
}

/// Sends as many a second as `rate` says, for as long as the test may take at most.
fn flood(socket: &UdpSocket, datagram: &[u8], rate: &AtomicU32, is_over: &AtomicBool) {
    let start = Now::now();
    let (mut last, mut due) = (start, 0.0);
    while !is_over.load(Ordering::Relaxed) && start.elapsed() < 3 * MAX_WAIT {
        let now = Now::now();
        due += (now - last).as_secs_f64() * f64::from(rate.load(Ordering::Relaxed));
        last = now;
        // Datagrams that the processors had no time for are left out.
        for _ in 0..(due as u64).min(1000) {
            let _ = socket.send(datagram);
        }
        due = due.fract();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An initiation of a sender that is no peer, as every host that knows the public key can make it.
fn initiation(to: &End) -> Vec<u8> {
    let key = PublicKey::from_base64(&to.public_key).unwrap();
    let now = Instant::ORIGIN;
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let mut params = Params::new(WallClock { at: now, since_1970 });
    params.sockets = Sockets { port: 1, ipv4: Some(0), ipv6: None };
    params.configuration = Changes {
        private_key: Some(PrivateKey::new([0x5a; 32])),
        peers: vec![PeerChange { endpoint: Some(([192, 0, 2, 1], 1).into()), ..PeerChange::new(key) }],
        ..Changes::default()
    };
    let mut machine = Interface::new(params, now, [1; 32]).unwrap();
    let peer = machine.peer_id(&key).unwrap();
    machine.handle_command(now, Command::Rekey { peer });
    let mut datagram = Vec::new();
    machine.poll_transmit(&mut datagram).unwrap();
    assert_eq!(datagram.len(), INITIATION_LEN);
    datagram
}

/// A socket in the one's namespace, connected to the other.
fn socket(from: &End, to: &End) -> UdpSocket {
    let socket = from.namespace.enter(|| UdpSocket::bind((from.outer().as_str(), 0)).unwrap()).unwrap();
    socket.connect((to.outer().as_str(), PORT)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

fn is_given_a_cookie(probe: &UdpSocket, initiation: &[u8]) -> bool {
    let mut answer = [0; 256];
    probe.send(initiation).unwrap();
    probe
        .recv(&mut answer)
        .is_ok_and(|length| matches!(Message::parse(&answer[..length]), Ok(Message::CookieReply(_))))
}

//! Two ends of WireGuard over a network that the input commands: it delivers, loses, doubles, corrupts and forges
//! datagrams, lets time pass, configures, moves and restarts. Whatever happens, the machines do not panic or spin, and
//! their data planes find no nonce used twice, no key that the other end lacks, no order that makes no sense.
#![no_main]

#[path = "../../crates/wireguard/protocol/tests/support/mod.rs"]
mod support;

use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Command, Flow, Notice, PeerId, Protocol, SessionId};
use adit_wireguard::{AllowedIp, Changes, PeerChange, PostQuantum, PresharedKey, Reply, WallClock};
use libfuzzer_sys::fuzz_target;
use support::{Datagram, End, Pair, outer, params, path, peer, private, public};

/// The datagrams on their way to each end.
type Queues = [Vec<Datagram>; 2];

fn collect(pair: &mut Pair, queues: &mut Queues) {
    for (from, end) in pair.ends.iter_mut().enumerate() {
        queues[1 - from].extend(end.take_sent().into_iter().map(|(_, datagram)| datagram));
        queues[1 - from].truncate(200);
        end.requests.clear();
        end.reports.clear();
    }
}

fn receive(pair: &mut Pair, to: usize, from: u8, datagram: &Datagram) {
    let _ = pair.ends[to].receive(pair.now, path(outer(from)), datagram);
}

fn changes(end: usize, value: u8) -> Changes {
    let other = 2 - end as u8;
    let mut change = PeerChange::new(public(other));
    match value >> 4 {
        0 => change.preshared_key = Some(PresharedKey::new([value & 1; 32])),
        1 => change.endpoint = Some(outer(other)),
        2 => change.persistent_keepalive = Some(u16::from(value & 7)),
        3 => change.remove = true,
        4 => change = peer(other, Some(outer(other))),
        5 => {
            change.replace_allowed_ips = value & 1 == 1;
            change.allowed_ips = vec![AllowedIp::Add(support::inner(value & 3).into())];
        }
        6 => change.allowed_ips = vec![AllowedIp::Remove(support::inner(value & 3).into())],
        7 => return Changes { private_key: Some(None), ..Changes::default() },
        8 => return Changes { private_key: Some(Some(private(end as u8 + 1))), ..Changes::default() },
        10 => {
            let modes = [PostQuantum::Off, PostQuantum::On, PostQuantum::On, PostQuantum::Required];
            change.post_quantum = Some(modes[usize::from(value & 3)]);
        }
        9 => return Changes { listen_port: Some(value.into()), fwmark: Some(1), ..Changes::default() },
        _ => return Changes { replace_peers: true, peers: vec![peer(other, None)], ..Changes::default() },
    }
    Changes { peers: vec![change], ..Changes::default() }
}

/// Notices of which the data plane may be late: they may be about what has gone.
fn notice(pair: &mut Pair, end: usize, value: u8) {
    let (peer, session) = (PeerId(u32::from(value >> 6)), SessionId(u64::from(value & 7)));
    let notice = match value % 4 {
        0 => Notice::FirstOpened { peer, session },
        1 => Notice::LimitNear { peer, session },
        2 => {
            let address = IpAddr::from([10, 0, 0, value]);
            Notice::Wanted { peer, flow: Flow::between(address, address) }
        }
        _ => Notice::Message { peer, session, payload: vec![value] },
    };
    pair.ends[end].machine.handle_notice(pair.now, notice);
    pair.ends[end].drain();
}

fn command(pair: &mut Pair, end: usize, value: u8) {
    let peer = PeerId(u32::from(value >> 6));
    let command = match value % 4 {
        0 => Command::Rekey { peer },
        1 => Command::Disconnect { peer },
        2 => Command::Restart,
        _ => Command::Closed { path: path(outer(2 - end as u8)), reason: "closed".to_owned() },
    };
    pair.ends[end].machine.handle_command(pair.now, command);
    pair.ends[end].drain();
}

fn step(pair: &mut Pair, queues: &mut Queues, action: u8, value: u8, rest: &[u8]) {
    let end = usize::from(action >> 7);
    let at = usize::from(value) % queues[end].len().max(1);
    match action % 16 {
        0..=3 if !queues[end].is_empty() => {
            // Mostly in order.
            let datagram = queues[end].remove(if value < 0xc0 { 0 } else { at });
            receive(pair, end, 2 - end as u8, &datagram);
            if value & 3 == 3 {
                receive(pair, end, value, &datagram);
            }
        }
        4 if !queues[end].is_empty() => drop(queues[end].remove(at)),
        5 if !queues[end].is_empty() => {
            if let Datagram::Control(mut bytes) = queues[end][0].clone() {
                let place = usize::from(value) % bytes.len();
                bytes[place] ^= 1;
                receive(pair, end, 2 - end as u8, &Datagram::Control(bytes));
            }
        }
        6 => receive(pair, end, value, &Datagram::Control([rest, &[0]].concat())),
        7 => pair.pass(Duration::from_millis(u64::from(value) * 10)),
        8 => pair.pass(Duration::from_secs(u64::from(value) / 8)),
        9 => {
            pair.now += Duration::from_secs(u64::from(value) * 4);
            pair.ends.iter_mut().for_each(|end| end.wake(pair.now));
        }
        10 => drop(pair.packet(end)),
        11 => pair.ends[end].configure(pair.now, changes(end, value)),
        12 => notice(pair, end, value),
        13 => command(pair, end, value),
        14 => {
            let clock = WallClock { at: pair.now, since_1970: Duration::from_secs(u64::from(value) << 24) };
            let replies = [Reply::UnderLoad(value & 1 == 1), Reply::Clock(clock)];
            replies.into_iter().for_each(|reply| pair.ends[end].reply(pair.now, reply));
        }
        15 => {
            let n = end as u8 + 1;
            let params = params(n, pair.now, vec![peer(3 - n, Some(outer(3 - n)))]);
            let mut seed = [n; 32];
            seed[..8].copy_from_slice(&pair.now.as_nanos().to_le_bytes());
            seed[8..10].copy_from_slice(&[action, rest.len() as u8]);
            pair.ends[end] = End::new(params, pair.now, seed, &pair.ledger);
        }
        _ => {}
    }
    if pair.ends[end].requests.iter().any(|it| matches!(it, adit_wireguard::Request::Rebind { .. })) {
        let sockets = adit_wireguard::Sockets { port: 7, ipv4: Some(support::SOCKET), ipv6: None };
        pair.ends[end].reply(pair.now, Reply::Rebound(Ok(sockets)));
    }
    pair.tick();
    collect(pair, queues);
}

fuzz_target!(|data: &[u8]| {
    let (mut pair, mut queues) = (Pair::new(), Queues::default());
    for (index, chunk) in data.chunks_exact(2).enumerate().take(100) {
        // Restarts need time for seeds of their own.
        pair.now += Duration::from_nanos(1);
        let rest = data.get(2 * index + 2..).unwrap_or_default();
        step(&mut pair, &mut queues, chunk[0], chunk[1], &rest[..rest.len().min(200)]);
    }
});

//! The first bytes of a TCP connection, at both ends of WireGuard over TCP, in pieces of any length; and the records
//! behind them. The judgement is the same however the bytes arrive, and nothing is waited for without a bound.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use adit_core::{ConnectionId, Path, Preamble, PreambleVerdict, is_unprintable};
use adit_dataplane::{Config, MergePolicy, ReceiveBatch};
use adit_wireguard::upgrade::{Acceptor, Initiator, LONGEST};
use adit_wireguard_codec::Sockets;
use libfuzzer_sys::fuzz_target;

/// The judgement of a stream that arrives in pieces of that size, with the answer.
fn judge(preamble: &dyn Preamble, stream: &[u8], piece: usize) -> (PreambleVerdict, Vec<u8>) {
    let mut answer = Vec::new();
    for end in (0..stream.len()).step_by(piece).skip(1).chain([stream.len()]) {
        let judgement = preamble.judge(&stream[..end], &mut answer);
        if judgement != PreambleVerdict::Incomplete {
            return (judgement, answer);
        }
        assert!(end < LONGEST, "it waits for more and more");
        assert!(answer.is_empty(), "an answer to half a request");
    }
    (PreambleVerdict::Incomplete, answer)
}

fn records(stream: &[u8]) {
    let (_, mut ingress, _) = adit_dataplane::new(Config::new(Sockets));
    let remote = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 443));
    let path = Path::Tcp { connection: ConnectionId(0), remote };
    let mut out = ReceiveBatch::new(MergePolicy::TcpAndUdp);
    let mut bytes = stream.to_vec();
    if let Ok(used) = ingress.open_stream(path, &mut bytes, &mut out) {
        assert!(used <= bytes.len());
    }
    assert_eq!(out.packets().count(), 0, "a packet without a session");
    assert!(out.control().iter().all(|(_, range)| matches!(range.len(), 148 | 92 | 64)));
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, stream)) = data.split_first() else { return };
    let piece = usize::from(piece).max(1);
    let initiator = Initiator::new("vpn.example", "/");
    for preamble in [&Acceptor as &dyn Preamble, &initiator] {
        let (judgement, answer) = judge(preamble, stream, piece);
        match &judgement {
            PreambleVerdict::Incomplete => {}
            PreambleVerdict::Complete { taken } => {
                assert!(*taken <= stream.len().min(LONGEST));
                assert_eq!(judge(preamble, stream, stream.len()), (judgement.clone(), answer));
                records(&stream[*taken..]);
            }
            PreambleVerdict::Refused(why) => assert!(!why.contains(is_unprintable), "{why}"),
        }
    }
});

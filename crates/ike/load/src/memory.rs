//! The memory of a responder for an IKE SA with a child SA, in its machine and in its data plane.

use std::net::SocketAddr;
use std::time::Duration;

use adit_core::{Event, Instant, Path, PoolRanges, Protocol as _, UnixTime};
use adit_dataplane::{Config, Egress, Ingress, TransmitBatch, split};
use adit_ike::machine::{Addresses, Endpoint, Inner, PeerIdentity, Pool, Sockets, StartAction, Traffic};
use adit_ike::wire::IdType;
use adit_ike_codec::{NatTraversalSocket, session};
use time::OffsetDateTime;

use crate::credentials::{Certificates, Credentials};
use crate::initiators::{InnerAddresses, both, connection, endpoint};
use crate::names::{INITIATORS, INNER, RESPONDER, identity};

/// As many as make the free places of trees and tables count as among thousands.
const COUNT: u32 = 256;
/// The number that the machines know their sockets by.
const SOCKET: u32 = 0;
/// Bytes of the expanded keys of a child SA, which AWS-LC allocates by itself: `EVP_AEAD_CTX` of each direction, with the header of the
/// allocation (`include/openssl/aead.h`, `crypto/mem.c`).
const EXPANDED_KEYS: i64 = 2 * (584 + 8);
/// Most bytes for each. The process as a whole is to take 12 KiB with pre-shared keys and 16 KiB with certificates (`adit-lab
/// ike-handshakes`), with what its allocator and its pages take beside these bytes.
const MOST: i64 = 8_300;
/// Fewer are not credible.
const LEAST: i64 = 3_000;
/// The time after which no request comes again.
const SETTLED: Duration = Duration::from_secs(200);

/// Bytes for each IKE SA with a child SA.
#[derive(Debug)]
struct Kept {
    /// While the last request may come again.
    connected: i64,
    settled: i64,
}

struct Responder {
    machine: Endpoint,
    egress: Egress,
    ingress: Ingress,
    batch: TransmitBatch,
    ups: u32,
    kept: i64,
    /// The answers, one after the other, and the end of each. Both have the room that they need.
    answers: Vec<u8>,
    ends: Vec<usize>,
}

impl Responder {
    /// A responder with one connection for all initiators, which gives each an address.
    fn new(credentials: &Credentials, wall: UnixTime) -> Self {
        let sockets = Sockets { marked: both(SOCKET), ..Sockets::default() };
        let mut machine = endpoint(sockets, wall).unwrap();
        let remote = SocketAddr::from(([192, 0, 2, 2], 4500));
        let mut own = connection(credentials, 0, remote, InnerAddresses::Own).unwrap();
        own.remotes.clear();
        own.local_auth.identity.data = RESPONDER.into();
        own.local_auth.proof = credentials.local(RESPONDER).unwrap();
        let suffix = INITIATORS.as_bytes().to_vec();
        own.remote_auth.identity = PeerIdentity::EndingWith { kind: IdType::FQDN, suffix };
        let v4 = Some(([10, 64, 0, 1].into(), [10, 127, 255, 254].into()));
        let ranges = PoolRanges { v4, v6: None };
        own.inner = Inner::Give(Box::new(Pool { ranges, ..Pool::default() }));
        for child in &mut own.children {
            std::mem::swap(&mut child.local, &mut child.remote);
            let all = Traffic::all_of(std::net::IpAddr::from(INNER).into());
            child.remote = vec![Traffic { addresses: Addresses::Dynamic, ..all }];
            child.start = StartAction::None;
        }
        machine.add_connection(own).unwrap();
        let (egress, ingress, _) = adit_dataplane::new(Config::new(NatTraversalSocket));
        let (answers, ends) = (Vec::with_capacity(1 << 16), Vec::with_capacity(64));
        let batch = TransmitBatch::new();
        Responder { machine, egress, ingress, batch, ups: 0, kept: 0, answers, ends }
    }

    /// Counts the bytes that are kept of those that `act` and its events allocate.
    fn count(&mut self, act: impl FnOnce(&mut Endpoint)) {
        self.answers.clear();
        self.ends.clear();
        let kept = allocation_counter::measure(|| {
            act(&mut self.machine);
            self.drain();
        });
        self.kept += kept.bytes_current;
    }

    fn drain(&mut self) {
        while let Some(event) = self.machine.poll_event() {
            match event {
                Event::Data(order) => {
                    let (egress, ingress) = split(order, session);
                    egress.into_iter().for_each(|order| self.egress.apply(order, &mut self.batch));
                    ingress.into_iter().for_each(|order| self.ingress.apply(order));
                }
                Event::PeerUp { .. } => self.ups += 1,
                _ => {}
            }
        }
        while self.machine.poll_transmit(&mut self.answers).is_some() {
            self.ends.push(self.answers.len());
        }
    }
}

/// Connects initiators, one after the other.
fn kept(credentials: &Credentials) -> Kept {
    let since_1970 = OffsetDateTime::now_utc().unix_timestamp();
    let wall = UnixTime(u64::try_from(since_1970).unwrap());
    let mut responder = Responder::new(credentials, wall);
    let sockets = Sockets { marked: both(SOCKET), ..Sockets::default() };
    let mut initiators = endpoint(sockets, wall).unwrap();
    let to_responder = Path::Udp { socket: SOCKET, remote: SocketAddr::from(([192, 0, 2, 1], 4500)) };
    let to_initiators = Path::Udp { socket: SOCKET, remote: SocketAddr::from(([192, 0, 2, 2], 4500)) };
    let now = Instant::ORIGIN;
    for number in 0..COUNT {
        let initiator = connection(credentials, number, to_responder.remote(), InnerAddresses::Pool).unwrap();
        initiators.add_connection(initiator).unwrap();
        initiators.handle_timeout(now);
        let mut request = Vec::new();
        while initiators.poll_transmit(&mut request).is_some() {
            // A request may be refused for a cookie.
            responder.count(|machine| {
                let _ = machine.handle_datagram(now, to_initiators, &request);
            });
            let mut start = 0;
            for end in responder.ends.clone() {
                let _ = initiators.handle_datagram(now, to_responder, &responder.answers[start..end]);
                start = end;
            }
            while initiators.poll_event().is_some() {}
            request.clear();
        }
        assert_eq!(responder.ups, number + 1, "{}", identity(number));
    }
    let each = |kept: i64| kept / i64::from(COUNT) + EXPANDED_KEYS;
    let connected = each(responder.kept);
    responder.count(|machine| machine.handle_timeout(now + SETTLED));
    Kept { connected, settled: each(responder.kept) }
}

#[test]
fn an_ike_sa_with_its_child_sa_is_small() {
    let shared_key = kept(&Credentials::SharedKey);
    let certificates = kept(&Credentials::Certificates(Certificates::create().unwrap()));
    for kept in [&shared_key, &certificates] {
        let Kept { connected, settled } = *kept;
        assert!(
            (LEAST..=MOST).contains(&connected),
            "a pre-shared key: {shared_key:?}, certificates: {certificates:?}"
        );
        assert!(settled < connected, "the last response is forgotten: {kept:?}");
    }
}

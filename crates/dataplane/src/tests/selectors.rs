//! Peers with several sessions that seal at once, and peers that share prefixes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use adit_core::{
    DataEvent, Flow, Install, Instant, Notice, OnFirstOpened, PeerConfig, PeerId, PeerOrder, Ports, Selector,
    SessionId,
};

use super::format;
use super::packets::Flow as Packets;
use super::world::{End, udp};
use crate::aead::BATCH;
use crate::codec::{Opened, Opener, Place, Plain, Run, Sealer, SessionCodec};
use crate::{DropReason, Offload, Segmentation};

const PEER: PeerId = PeerId(0);
/// Type, session and counter, in front of a packet in clear.
const HEADER: usize = 16;
/// The destination port of all packets.
const PORT: u16 = 53;

/// The calls for several packets at once.
#[derive(Clone, Default)]
struct Calls(Arc<[AtomicUsize; 2]>);

impl Calls {
    fn count(&self) -> [usize; 2] {
        [0, 1].map(|at| self.0[at].load(Ordering::Relaxed))
    }
}

/// A codec in clear, of the session of that index.
struct Clear {
    index: u32,
    calls: Calls,
}

impl Sealer for Clear {
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason> {
        let datagram = place.datagram(HEADER + payload.len())?;
        datagram[..HEADER].fill(0);
        datagram[0] = 4;
        datagram[4..8].copy_from_slice(&self.index.to_le_bytes());
        datagram[HEADER..].copy_from_slice(payload);
        Ok(())
    }

    fn seal_run(&mut self, run: &mut Run<'_>, place: &mut Place<'_>) -> Result<(), DropReason> {
        self.calls.0[0].fetch_add(1, Ordering::Relaxed);
        while let Some(packet) = run.next_packet()? {
            self.seal(packet, place)?;
            place.commit();
        }
        Ok(())
    }
}

impl Opener for Clear {
    fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, DropReason> {
        Ok(Opened { payload: Ok(HEADER..datagram.len()), newest: true })
    }

    fn gains_from_batches(&self) -> bool {
        true
    }

    fn decrypt(&self, datagrams: &mut [&mut [u8]]) -> [Result<Plain, DropReason>; BATCH] {
        self.calls.0[1].fetch_add(1, Ordering::Relaxed);
        std::array::from_fn(|at| {
            let datagram = datagrams.get(at).ok_or(DropReason::Malformed)?;
            Ok(Plain { counter: 1, payload: HEADER..datagram.len() })
        })
    }

    fn tick(&mut self, _: Instant) {}

    fn limit_near(&self) -> bool {
        false
    }
}

fn codec(index: u32, calls: &Calls) -> SessionCodec {
    let half = || Clear { index, calls: calls.clone() };
    SessionCodec::new(Box::new(half()), Box::new(half()))
}

/// The place of a session, and the packets that it carries.
struct Session<'a> {
    index: u32,
    series: u32,
    selectors: &'a [Selector],
}

fn install(end: &mut End, session: &Session<'_>, on_first_opened: OnFirstOpened) {
    let codec = codec(session.index, &Calls::default()).with_selectors(session.selectors);
    let id = SessionId(session.index.into());
    let series = session.series;
    end.install_as(Install { series, on_first_opened, ..Install::new(PEER, id, codec) });
}

fn activate(end: &mut End, index: u32) {
    end.apply(DataEvent::Activate { peer: PEER, session: SessionId(index.into()) });
}

/// An end whose peer has these routes and selectors, and no session yet. Packets wait.
fn end(routes: &[&str], selectors: &[Selector]) -> End {
    let mut end = End::new(format::indexed(), false);
    end.apply(DataEvent::Peer(PeerOrder::Add(config(PEER, 2, routes, selectors))));
    end
}

fn config(peer: PeerId, path: u8, routes: &[&str], selectors: &[Selector]) -> PeerConfig {
    PeerConfig {
        peer,
        path: Some(udp(path)),
        routes: routes.iter().map(|net| net.parse().unwrap()).collect(),
        selectors: selectors.into(),
        max_mss: None,
        roams: true,
        staging: true,
        device: Default::default(),
        by_path: false,
        identity: Default::default(),
    }
}

/// All between 10.0.0.0/24 and itself, from one port.
fn from_port(port: u16) -> Selector {
    Selector { protocol: Some(17), local_ports: port..=port, ..all() }
}

fn all() -> Selector {
    Selector::between("10.0.0.0/24".parse().unwrap(), "10.0.0.0/24".parse().unwrap())
}

/// UDP from 10.0.0.1 to 10.0.0.2.
fn packet(source_port: u16) -> Vec<u8> {
    Packets { source_port, ..Packets::default() }.udp(b"any")
}

/// The session that seals a packet. `None`: none does.
fn carrier(end: &mut End, packet: &[u8]) -> Option<u32> {
    let sent = end.send(Offload::NONE, packet);
    let (_, _, datagram) = sent.first()?;
    Some(u32::from_le_bytes(*datagram[4..].first_chunk().unwrap()))
}

/// A datagram of that session.
fn sealed(index: u32, packet: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER];
    header[0] = 4;
    header[4..8].copy_from_slice(&index.to_le_bytes());
    [&header[..], packet].concat()
}

fn wanted(peer: PeerId, source_port: u16) -> Notice {
    let ports = Some(Ports { local: source_port, remote: PORT });
    let [local, remote] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
    Notice::Wanted { peer, flow: Flow { local, remote, protocol: Some(17), ports } }
}

/// Two sessions, of series 0 and 1, whose selectors both have UDP from 10.0.0.1.
fn two_sessions() -> End {
    let mut end = end(&["10.0.0.0/24"], &[]);
    let from_1000 = [from_port(1000), from_port(1001)];
    let to_any = [from_port(1001), from_port(1002)];
    for session in [
        Session { index: 11, series: 1, selectors: &to_any },
        Session { index: 10, series: 0, selectors: &from_1000 },
    ] {
        install(&mut end, &session, OnFirstOpened::Nothing);
        activate(&mut end, session.index);
    }
    end
}

#[test]
fn the_first_series_that_selects_a_packet_carries_it() {
    let mut end = two_sessions();
    let carriers = [1000, 1001, 1002, 1003].map(|port| carrier(&mut end, &packet(port)));
    assert_eq!(carriers, [Some(10), Some(10), Some(11), None]);
    assert_eq!(end.dropped_out(DropReason::NotSelected), 1);
    end.apply(DataEvent::Retire { peer: PEER, session: SessionId(10) });
    assert_eq!(carrier(&mut end, &packet(1001)), Some(11), "both select it");
    end.apply(DataEvent::Deactivate(PEER));
    assert_eq!(carrier(&mut end, &packet(1001)), None);
}

#[test]
fn a_rekey_takes_the_place_of_its_series_alone() {
    let mut end = two_sessions();
    let selectors = [from_port(1000), from_port(1001)];
    install(&mut end, &Session { index: 20, series: 0, selectors: &selectors }, OnFirstOpened::Nothing);
    let carriers = |end: &mut End| [1000, 1002].map(|port| carrier(end, &packet(port)));
    assert_eq!(carriers(&mut end), [Some(10), Some(11)], "the new one only opens");
    activate(&mut end, 20);
    assert_eq!(carriers(&mut end), [Some(20), Some(11)]);
    // The one before opens datagrams in transit.
    let from_peer = Packets { source: 2, destination: 1, source_port: 9, ..Packets::default() };
    let mut late = from_peer.udp(b"late");
    late[22..24].copy_from_slice(&1000_u16.to_be_bytes());
    let late = sealed(10, &late);
    assert_eq!(end.receive(udp(2), &late, late.len()).packets.len(), 1);
    end.apply(DataEvent::Retire { peer: PEER, session: SessionId(10) });
    assert_eq!(carriers(&mut end), [Some(20), Some(11)]);
    assert!(end.receive(udp(2), &late, late.len()).packets.is_empty());
}

/// The answer to the first packet of a new session is sealed with that session; those of other series go on.
#[test]
fn a_first_packet_begins_and_ends_its_series_alone() {
    for (on_first_opened, expected) in
        [(OnFirstOpened::Activate, Some(20)), (OnFirstOpened::Deactivate, None)]
    {
        let mut end = two_sessions();
        install(&mut end, &Session { index: 20, series: 0, selectors: &[from_port(1000)] }, on_first_opened);
        let first = sealed(20, &[]);
        end.receive(udp(2), &first, first.len());
        assert_eq!(carrier(&mut end, &packet(1000)), expected);
        assert_eq!(carrier(&mut end, &packet(1002)), Some(11));
        // An order that came before that packet, and one about the other series.
        activate(&mut end, 11);
        assert_eq!(carrier(&mut end, &packet(1000)), expected);
    }
}

#[test]
fn both_directions_are_judged_and_counted() {
    let mut end = end(&["10.0.0.0/24"], &[]);
    install(
        &mut end,
        &Session { index: 9, series: 0, selectors: &[from_port(1000)] },
        OnFirstOpened::Nothing,
    );
    activate(&mut end, 9);
    assert_eq!(carrier(&mut end, &packet(1001)), None);
    assert_eq!(end.dropped_out(DropReason::NotSelected), 1);
    let (selected, other) = (from_peer(9, 1000), from_peer(9, 1001));
    assert_eq!(end.receive(udp(2), &selected, selected.len()).packets.len(), 1);
    assert!(end.receive(udp(2), &other, other.len()).packets.is_empty());
    assert_eq!(end.dropped_in(DropReason::NotSelected), 1);
    // Messages of the protocol's own are not judged.
    end.apply(DataEvent::Inject { peer: PEER, payload: vec![0x20, 1] });
    let message = end.flush().pop().unwrap().2;
    let notices = end.receive(udp(2), &message, message.len()).notices;
    assert!(matches!(&notices[..], [Notice::Message { payload, .. }] if *payload == [0x20, 1]));
}

/// A datagram of that session with UDP to a port of ours.
fn from_peer(index: u32, port: u16) -> Vec<u8> {
    let mut packet = Packets { source: 2, destination: 1, ..Packets::default() }.udp(b"from the peer");
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    sealed(index, &packet)
}

/// The answers of selectors for flows of late are of one session, and last until the next order.
#[test]
fn selectors_that_matched_a_packet_once_say_nothing_for_others() {
    let mut end = two_sessions();
    let takes = |end: &mut End, index: u32| {
        let datagram = from_peer(index, 1000);
        end.receive(udp(2), &datagram, datagram.len()).packets.len() == 1
    };
    assert_eq!([10, 11, 10].map(|index| takes(&mut end, index)), [true, false, true], "one of the sessions");
    end.apply(DataEvent::Retire { peer: PEER, session: SessionId(10) });
    install(
        &mut end,
        &Session { index: 10, series: 0, selectors: &[from_port(1002)] },
        OnFirstOpened::Nothing,
    );
    activate(&mut end, 10);
    assert!(!takes(&mut end, 10), "a session with the same id and other selectors");
    assert_eq!([1000, 1002].map(|port| carrier(&mut end, &packet(port))), [None, Some(10)]);
}

/// No order comes between the two packets.
#[test]
fn a_session_that_selectors_chose_expires() {
    let mut end = end(&["10.0.0.0/24"], &[]);
    let expires = Instant::from_nanos(1000);
    let codec =
        SessionCodec { expires: Some(expires), ..codec(9, &Calls::default()) }.with_selectors([all()]);
    end.install_as(Install::new(PEER, SessionId(9), codec));
    activate(&mut end, 9);
    for (nanoseconds, expected) in [(0, Some(9)), (999, Some(9)), (1000, None)] {
        end.egress.tick(Instant::from_nanos(nanoseconds));
        assert_eq!(carrier(&mut end, &packet(1000)), expected, "after {nanoseconds} ns");
    }
}

/// RFC 4301 §7: the first fragment has ports, the others go where any port may, or nowhere.
#[test]
fn later_fragments_take_a_session_for_all_ports() {
    let fragments = || {
        let (mut first, mut later) = (packet(1000), packet(1000));
        first[6] = 0x20;
        later[7] = 1;
        [first, later]
    };
    let mut end = two_sessions();
    assert_eq!(fragments().map(|packet| carrier(&mut end, &packet)), [Some(10), None]);
    assert_eq!(end.dropped_out(DropReason::NotSelected), 1, "refused and counted");
    install(&mut end, &Session { index: 30, series: 2, selectors: &[all()] }, OnFirstOpened::Nothing);
    activate(&mut end, 30);
    assert_eq!(fragments().map(|packet| carrier(&mut end, &packet)), [Some(10), Some(30)]);
}

/// A packet waits for the session that may carry it, and the notice to the protocol has its flow.
#[test]
fn packets_wait_by_selector() {
    let selectors = [from_port(1000), from_port(1001)];
    let mut end = end(&["10.0.0.0/24"], &selectors);
    for port in [1000, 1001, 1000, 1001] {
        assert_eq!(carrier(&mut end, &packet(port)), None);
    }
    assert_eq!(end.egress.take_notices(), [wanted(PEER, 1000), wanted(PEER, 1001)], "once a second each");
    assert_eq!(carrier(&mut end, &packet(1002)), None);
    assert_eq!(end.dropped_out(DropReason::NotSelected), 1, "no session for it is to come");
    install(&mut end, &Session { index: 11, series: 1, selectors: &selectors[1..] }, OnFirstOpened::Nothing);
    activate(&mut end, 11);
    let left = |end: &mut End| -> usize {
        end.flush().into_iter().map(|(_, segment, bytes)| bytes.len() / segment).sum()
    };
    assert_eq!(left(&mut end), 2, "those of the selector that has a session");
    assert_eq!(carrier(&mut end, &packet(1000)), None);
    assert_eq!(end.egress.take_notices(), [], "the others wait on");
    install(&mut end, &Session { index: 10, series: 0, selectors: &selectors[..1] }, OnFirstOpened::Activate);
    let first = sealed(10, &[]);
    end.receive(udp(2), &first, first.len());
    assert_eq!(left(&mut end), 3);
    assert_eq!(end.dropped_out(DropReason::NoSession), 0);
}

/// Two peers with one destination and different sources, as policies of gateways have them (RFC 4301, section 4.4.1).
#[test]
fn peers_share_a_prefix_by_their_selectors() {
    let between = |local: &str| Selector::between(local.parse().unwrap(), "10.0.0.0/24".parse().unwrap());
    let mut end = End::new(format::indexed(), false);
    let peers = [(PeerId(1), 1, "10.0.0.1/32"), (PeerId(2), 2, "10.0.0.3/32")];
    for (peer, path, local) in peers {
        end.apply(DataEvent::Peer(PeerOrder::Add(config(peer, path, &["10.0.0.0/24"], &[between(local)]))));
        let session = SessionId(path.into());
        let codec = codec(path.into(), &Calls::default()).with_selectors([between(local)]);
        end.install_codec(peer, session, codec);
        end.apply(DataEvent::Activate { peer, session });
    }
    let from = |source: u8| Packets { source, ..Packets::default() }.udp(b"any");
    assert_eq!([1, 3, 4].map(|source| carrier(&mut end, &from(source))), [Some(1), Some(2), None]);
    assert_eq!(end.dropped_out(DropReason::NotSelected), 1);
    // A peer sends to its own addresses of ours alone, whatever its session may carry.
    let codec = codec(7, &Calls::default());
    end.install_codec(PeerId(1), SessionId(7), codec);
    let to =
        |destination: u8| sealed(7, &Packets { source: 9, destination, ..Packets::default() }.udp(b"any"));
    for (destination, taken) in [(1, 1), (3, 0)] {
        let datagram = to(destination);
        assert_eq!(end.receive(udp(1), &datagram, datagram.len()).packets.len(), taken);
    }
    assert_eq!(end.dropped_in(DropReason::BadSource), 1);
    end.apply(DataEvent::Peer(PeerOrder::Remove(PeerId(1))));
    assert_eq!([1, 3].map(|source| carrier(&mut end, &from(source))), [None, Some(2)]);
}

/// The newest packet of each series says where the peer is, whichever series began last.
#[test]
fn a_peer_is_followed_by_the_packets_of_any_series() {
    let mut end = two_sessions();
    let first = sealed(10, &[]);
    let second = sealed(11, &[]);
    end.receive(udp(2), &second, second.len());
    end.receive(udp(2), &first, first.len());
    for (datagram, path) in [(&first, 3), (&second, 4), (&first, 5)] {
        let notices = end.receive(udp(path), datagram, datagram.len()).notices;
        assert_eq!(notices, [Notice::Moved { peer: PEER, path: udp(path) }]);
        end.apply(DataEvent::Peer(PeerOrder::Move { peer: PEER, path: udp(path) }));
        assert_eq!(end.send(Offload::NONE, &packet(1000))[0].0, udp(path));
    }
}

#[test]
fn sessions_with_selectors_keep_runs_and_batches() {
    let mut end = end(&["10.0.0.0/24"], &[]);
    let calls = Calls::default();
    let codec = codec(9, &calls).with_selectors([all()]);
    end.install_codec(PEER, SessionId(9), codec);
    activate(&mut end, 9);
    let packet = Packets::default().tcp(1, 0x10, &[7; 4000]);
    let offload = Offload {
        needs_checksum: true,
        segmentation: Segmentation::TcpV4,
        segment_size: 1000,
        checksum_start: 20,
        checksum_offset: 16,
        ..Offload::NONE
    };
    let sent = end.send(offload, &packet);
    let [(_, segment, bytes)] = &sent[..] else { panic!("{} batches", sent.len()) };
    assert_eq!(bytes.len() / segment, 4);
    assert_eq!(calls.count(), [1, 0]);
    let arrived = end.receive(udp(2), bytes, *segment);
    assert_eq!((arrived.packets.len(), calls.count()), (4, [1, 1]));
}

//! Merging and cutting undo each other: whatever is merged, the kernel's way of cutting gives back the
//! very packets that came, but that of several PSH one is left, at the end.

mod between_receives;
mod push;

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::packets::{self, Flow};
use adit_checksum::portable;

use crate::headers::{Ip, TCP, UDP};
use crate::offload::VNET_HEADER_LEN;
use crate::segment::Segments;
use crate::{MergePolicy, Offload, ReceiveBatch, Segmentation};

const FIN: u8 = 0x01;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// Runs packets through a receive batch and gives the packets that are written to the device.
fn merge(policy: MergePolicy, packets: &[Vec<u8>]) -> Vec<(Offload, Vec<u8>)> {
    merge_receives(policy, packets, usize::MAX)
}

/// Merges where one receive brings `together` packets, and the next ones come before the last are written.
fn merge_receives(policy: MergePolicy, packets: &[Vec<u8>], together: usize) -> Vec<(Offload, Vec<u8>)> {
    let mut buffer = Vec::new();
    let mut receive_batch = ReceiveBatch::new(policy);
    let mut ranges = Vec::new();
    for packet in packets {
        // Something between the packets, as outer headers are.
        buffer.extend_from_slice(&[0xee; 24]);
        ranges.push(buffer.len()..buffer.len() + packet.len());
        buffer.extend_from_slice(packet);
    }
    let mut written = Vec::new();
    for receive in ranges.chunks(together) {
        for range in receive {
            let ip = Ip::parse(&buffer[range.clone()]).expect("an IP packet");
            receive_batch.push_packet(portable, &buffer, range.clone(), &ip);
        }
        let kept = receive_batch.finish_but_newest(&mut buffer);
        take_out(&mut receive_batch, &buffer, &mut written);
        // Bytes that are not kept are written over.
        let done = receive.last().map_or(0, |last| last.end);
        let kept = kept.unwrap_or(done..done);
        buffer[..kept.start].fill(0xdd);
    }
    receive_batch.finish(&mut buffer);
    take_out(&mut receive_batch, &buffer, &mut written);
    assert!(receive_batch.is_empty());
    written
}

fn take_out(receive_batch: &mut ReceiveBatch, buffer: &[u8], written: &mut Vec<(Offload, Vec<u8>)>) {
    written.extend(receive_batch.packets().map(|packet| {
        let header: &[u8; VNET_HEADER_LEN] = packet.header();
        let bytes: Vec<u8> = packet.pieces().flat_map(|piece| buffer[piece].to_vec()).collect();
        (Offload::from_vnet_header(header).expect("a header of ours"), bytes)
    }));
    receive_batch.clear();
}

/// Cuts as the kernel does (`tcp_gso_segment`, `__udp_gso_segment`, `inet_gso_segment`), byte by byte.
fn kernel_cut(offload: &Offload, packet: &[u8]) -> Vec<Vec<u8>> {
    if offload.segmentation == Segmentation::None {
        assert!(!offload.needs_checksum);
        return vec![packet.to_vec()];
    }
    assert!(offload.needs_checksum);
    let (headers, size) = (usize::from(offload.header_len), usize::from(offload.segment_size));
    let start = usize::from(offload.checksum_start);
    let v6 = packet[0] >> 4 == 6;
    let payloads: Vec<&[u8]> = packet[headers..].chunks(size).collect();
    let mut cut = Vec::new();
    for (index, payload) in payloads.iter().enumerate() {
        let mut out = packet[..headers].to_vec();
        out.extend_from_slice(payload);
        let len = out.len() as u16;
        if v6 {
            out[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        } else {
            out[2..4].copy_from_slice(&len.to_be_bytes());
            let identification = u16::from_be_bytes([out[4], out[5]]).wrapping_add(index as u16);
            out[4..6].copy_from_slice(&identification.to_be_bytes());
            packets::finish_ipv4(&mut out);
        }
        let addresses = if v6 { packet[8..40].to_vec() } else { packet[12..20].to_vec() };
        let transport_len = out.len() - start;
        let protocol = if offload.segmentation == Segmentation::Udp { UDP } else { TCP };
        let transport = &mut out[start..];
        if protocol == TCP {
            let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            let sequence = sequence.wrapping_add((index * size) as u32);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if index > 0 {
                transport[13] &= !CWR;
            }
            if index + 1 < payloads.len() {
                transport[13] &= !(FIN | PSH);
            }
        } else {
            transport[4..6].copy_from_slice(&(transport_len as u16).to_be_bytes());
        }
        let at = usize::from(offload.checksum_offset);
        transport[at..at + 2].fill(0);
        let pseudo = [0, protocol, (transport_len >> 8) as u8, transport_len as u8];
        let check = packets::checksum(&[&addresses, &pseudo, transport]);
        let check = if protocol == UDP && check == 0 { 0xffff } else { check };
        transport[at..at + 2].copy_from_slice(&check.to_be_bytes());
        cut.push(out);
    }
    cut
}

/// Cuts as we do.
fn our_cut(offload: &Offload, packet: &[u8]) -> Vec<Vec<u8>> {
    let ip = Ip::parse(packet).expect("an IP packet");
    let (mut packet, mut template) = (packet.to_vec(), Vec::new());
    let segments = Segments::new(portable, offload, &packet, &ip, &mut template).expect("a super-packet");
    (0..segments.count())
        .map(|index| segments.take(index, &template, &mut packet).expect("there").to_vec())
        .collect()
}

/// The pseudo-header's sum that the checksum field must hold while the checksum is not finished.
fn partial_checksum_ok(offload: &Offload, packet: &[u8]) -> bool {
    let start = usize::from(offload.checksum_start);
    let at = start + usize::from(offload.checksum_offset);
    let addresses = if packet[0] >> 4 == 6 { &packet[8..40] } else { &packet[12..20] };
    let len = packet.len() - start;
    let protocol = if offload.segmentation == Segmentation::Udp { UDP } else { TCP };
    let sum = !packets::checksum(&[addresses, &[0, protocol, (len >> 8) as u8, len as u8]]);
    packet[at..at + 2] == sum.to_be_bytes()
}

/// Under don't-fragment the identification means nothing and may change.
fn normal(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        let damaged = packets::checksum(&[&packet[..usize::from(packet[0] & 15) * 4]]) != 0;
        packet[4..6].fill(0);
        if !damaged {
            packets::finish_ipv4(&mut packet);
        }
    }
    packet
}

/// The source address and transport protocol; 255 where there is none.
fn flow_of(packet: &[u8]) -> (u8, u8) {
    let source = if packet[0] >> 4 == 6 { packet[23] } else { packet[15] };
    let protocol =
        Ip::parse(packet).and_then(|ip| ip.transport(packet)).map_or(255, |(protocol, _)| protocol);
    (source, protocol)
}

/// Packets by flow, in order.
fn by_flow(packets: &[Vec<u8>]) -> BTreeMap<(u8, u8), VecDeque<Vec<u8>>> {
    let mut flows: BTreeMap<(u8, u8), VecDeque<Vec<u8>>> = BTreeMap::new();
    for packet in packets {
        flows.entry(flow_of(packet)).or_default().push_back(normal(packet));
    }
    flows
}

/// The next event on a flow.
#[derive(Clone, Debug)]
enum Step {
    Data { len: usize, flags: u8 },
    Datagram { len: usize },
    Jump,
    Ack,
    Window,
    Tos,
    Ttl,
    Identification,
    Options,
    OptionValue,
    Extension,
    DontFragment,
    BadChecksum,
    BadHeaderChecksum,
    NoUdpChecksum,
    ShortUdp,
    Fragment,
    Other,
}

fn step() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![
        8 => Just(ACK),
        2 => Just(ACK | PSH),
        1 => prop_oneof![Just(ACK | FIN), Just(ACK | CWR), Just(ACK | ECE), Just(RST), Just(0), any::<u8>()],
    ];
    let len = || prop_oneof![6 => Just(100usize), 1 => 0usize..110, 1 => Just(1400), 1 => Just(9000)];
    prop_oneof![
        20 => (len(), flags).prop_map(|(len, flags)| Step::Data { len, flags }),
        10 => len().prop_map(|len| Step::Datagram { len }),
        6 => prop_oneof![
            Just(Step::Jump), Just(Step::Ack), Just(Step::Window), Just(Step::Tos), Just(Step::Ttl),
            Just(Step::Identification), Just(Step::Options), Just(Step::OptionValue), Just(Step::ShortUdp), Just(Step::Extension), Just(Step::DontFragment),
            Just(Step::BadChecksum), Just(Step::BadHeaderChecksum), Just(Step::NoUdpChecksum),
            Just(Step::Fragment), Just(Step::Other),
        ],
    ]
}

/// A flow and its sequence number.
struct Sender {
    flow: Flow,
    sequence: u32,
}

impl Sender {
    fn new(source: u8, v6: bool, dont_fragment: bool) -> Self {
        let flow = Flow { source, v6, dont_fragment, ..Flow::default() };
        Sender { flow, sequence: u32::MAX - 1000 }
    }

    fn data(&mut self, len: usize, flags: u8) -> Vec<u8> {
        let payload: Vec<u8> = (0..len).map(|at| (self.sequence as usize + at) as u8).collect();
        let packet = self.flow.tcp(self.sequence, flags, &payload);
        self.sequence = self.sequence.wrapping_add(len as u32);
        self.flow.identification = self.flow.identification.wrapping_add(1);
        packet
    }

    fn datagram(&mut self, len: usize) -> Vec<u8> {
        let packet = self.flow.udp(&vec![len as u8; len]);
        self.flow.identification = self.flow.identification.wrapping_add(1);
        packet
    }

    fn next(&mut self, step: &Step) -> Option<Vec<u8>> {
        let flow = &mut self.flow;
        match step {
            Step::Data { len, flags } => return Some(self.data(*len, *flags)),
            Step::Datagram { len } => return Some(self.datagram(*len)),
            Step::Jump => self.sequence = self.sequence.wrapping_add(100),
            Step::Ack => flow.acknowledgement += 1,
            Step::Window => flow.window += 1,
            Step::Tos => flow.tos ^= 3,
            Step::Ttl => flow.ttl -= 1,
            Step::Identification => flow.identification = flow.identification.wrapping_add(9),
            Step::Options => {
                flow.options =
                    if flow.options.is_empty() { vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2] } else { vec![] };
            }
            Step::OptionValue => {
                if let Some(last) = flow.options.last_mut() {
                    *last += 1;
                }
            }
            Step::Extension => flow.extension ^= true,
            Step::DontFragment => flow.dont_fragment ^= true,
            Step::BadChecksum => {
                let mut packet = self.data(100, ACK);
                if let Some(last) = packet.last_mut() {
                    *last ^= 1;
                }
                return Some(packet);
            }
            Step::BadHeaderChecksum if !flow.v6 => {
                let mut packet = self.data(100, ACK);
                packet[10] ^= 1;
                return Some(packet);
            }
            Step::BadHeaderChecksum => return None,
            Step::NoUdpChecksum => {
                let mut packet = self.datagram(100);
                let ip = Ip::parse(&packet)?;
                let (_, at) = ip.transport(&packet)?;
                packet[at + 6..at + 8].fill(0);
                return Some(packet);
            }
            Step::ShortUdp => {
                // The UDP length ends before the packet does; the checksum does not tell.
                let whole = self.datagram(100);
                let ip = Ip::parse(&whole)?;
                let (_, at) = ip.transport(&whole)?;
                let mut segment = whole[at..].to_vec();
                segment[5] -= 2;
                let sum = u16::from_be_bytes([segment[6], segment[7]]);
                segment[6..8].copy_from_slice(&(if sum > 0xfffd { sum } else { sum + 2 }).to_be_bytes());
                return Some(self.flow.ip(UDP, &segment));
            }
            Step::Fragment => {
                let mut packet = flow.ip(TCP, &[7; 40]);
                if flow.v6 {
                    packet[6] = 44;
                } else {
                    packet[7] = 3;
                    packets::finish_ipv4(&mut packet);
                }
                return Some(packet);
            }
            Step::Other => return Some(flow.ip(1, &[8, 0, 0, 0, 1, 2, 3, 4])),
        }
        None
    }
}

fn check(policy: MergePolicy, sent: &[Vec<u8>]) -> Vec<(Offload, Vec<u8>)> {
    check_receives(policy, sent, usize::MAX)
}

fn check_receives(policy: MergePolicy, sent: &[Vec<u8>], together: usize) -> Vec<(Offload, Vec<u8>)> {
    let merged = merge_receives(policy, sent, together);
    let mut sent = by_flow(sent);
    for (offload, packet) in &merged {
        let pieces = kernel_cut(offload, packet);
        if offload.segmentation != Segmentation::None {
            assert!(packet.len() <= 65_535 && pieces.len() <= 64 && pieces.len() > 1);
            assert!(partial_checksum_ok(offload, packet));
            assert_eq!(our_cut(offload, packet), pieces, "we cut as the kernel does");
        }
        let flow = sent.get_mut(&flow_of(packet)).expect("packets of that flow were sent");
        let sources: Vec<Vec<u8>> = flow.drain(..pieces.len()).collect();
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| normal(piece)).collect();
        assert_eq!(pieces, push::collapsed(sources));
    }
    assert!(sent.values().all(VecDeque::is_empty), "nothing is lost");
    merged
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cutting_gives_back_what_was_merged(
        kinds in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..11),
        steps in proptest::collection::vec((0usize..11, step()), 1..150),
        policy in prop_oneof![
            Just(MergePolicy::Off),
            Just(MergePolicy::Tcp),
            Just(MergePolicy::Udp),
            Just(MergePolicy::TcpAndUdp)
        ],
        together in 1usize..50,
    ) {
        let mut senders: Vec<Sender> =
            kinds.iter().zip(1u8..).map(|((v6, df), source)| Sender::new(source, *v6, *df)).collect();
        let count = senders.len();
        let sent: Vec<Vec<u8>> =
            steps.iter().filter_map(|(who, step)| senders[who % count].next(step)).collect();
        let merged = check(policy, &sent);
        if policy == MergePolicy::Off {
            prop_assert_eq!(merged.len(), sent.len());
        }
        check_receives(policy, &sent, together);
    }

    #[test]
    fn we_cut_as_the_kernel_does(
        v6: bool, extension: bool, options in 0usize..11, flags: u8, len in 0usize..20_000,
        size in prop_oneof![1usize..20, Just(1400), 1usize..30_000], udp: bool, identification: u16,
    ) {
        let len = len.min(size * 64);
        // IPv4 options are carried along; the kernel copies them to each segment too.
        let flow = Flow { v6, extension, options: vec![1; options * 4], identification, ..Flow::default() };
        let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let packet = if udp { flow.udp(&payload) } else { flow.tcp(77, flags, &payload) };
        let ip = Ip::parse(&packet).expect("an IP packet");
        let (_, start) = ip.transport(&packet).expect("a transport header");
        let offload = Offload {
            needs_checksum: true,
            segmentation: match (udp, v6) {
                (true, _) => Segmentation::Udp,
                (false, false) => Segmentation::TcpV4,
                (false, true) => Segmentation::TcpV6,
            },
            ecn: false,
            header_len: (packet.len() - len) as u16,
            segment_size: size as u16,
            checksum_start: start as u16,
            checksum_offset: if udp { 6 } else { 16 },
        };
        let ours = our_cut(&offload, &packet);
        for packet in &ours {
            prop_assert!(packets::checksums_ok(packet));
        }
        if len > 0 {
            prop_assert_eq!(ours, kernel_cut(&offload, &packet));
        }
    }
}

#[test]
fn a_bulk_flow_becomes_one_packet() {
    for v6 in [false, true] {
        let mut sender = Sender::new(1, v6, true);
        let mut sent: Vec<Vec<u8>> = (0..43).map(|_| sender.data(1400, ACK)).collect();
        sent.push(sender.data(300, ACK | PSH));
        let merged = check(MergePolicy::Tcp, &sent);
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].0.segment_size, 1400);
        assert_eq!(merged[0].1.len(), sent[0].len() + 42 * 1400 + 300);
        assert_eq!(merged[0].1[if v6 { 53 } else { 33 }], ACK | PSH, "the last one's PSH");
        assert_eq!(merge(MergePolicy::Off, &sent).len(), 44);
    }
}

#[test]
fn interleaved_flows_merge_each() {
    let (mut a, mut b) = (Sender::new(1, false, true), Sender::new(2, true, true));
    let sent: Vec<Vec<u8>> = (0..20).flat_map(|_| [a.data(1000, ACK), b.data(1200, ACK)]).collect();
    assert_eq!(check(MergePolicy::Tcp, &sent).len(), 2);
    let mut c = Sender::new(1, false, true);
    c.flow.source_port = 1001;
    c.sequence = a.sequence;
    let sent = [a.data(1000, ACK), c.data(1000, ACK), a.data(1000, ACK)];
    assert_eq!(merge(MergePolicy::Tcp, &sent).len(), 2, "another port is another flow");
}

#[test]
fn datagrams_merge_by_size() {
    let mut sender = Sender::new(1, false, false);
    let sent: Vec<Vec<u8>> = [500, 500, 500, 200, 500, 500, 600].map(|len| sender.datagram(len)).to_vec();
    let sizes: Vec<usize> =
        check(MergePolicy::TcpAndUdp, &sent).iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(sizes, [28 + 1700, 28 + 1000, 28 + 600]);
    assert_eq!(merge(MergePolicy::Tcp, &sent).len(), 7);
    assert_eq!(check(MergePolicy::Udp, &sent).len(), merge(MergePolicy::TcpAndUdp, &sent).len());
}

#[test]
fn nothing_overtakes_within_a_flow() {
    let mut sender = Sender::new(1, false, true);
    let before = sender.data(100, ACK);
    let pure = sender.flow.tcp(sender.sequence, ACK, b"");
    let after = sender.data(100, ACK);
    let sent = [before, pure, after];
    assert_eq!(check(MergePolicy::Tcp, &sent).len(), 3, "a bare acknowledgement keeps its place");
}

#[test]
fn other_packets_are_not_overtaken() {
    let mut sender = Sender::new(1, false, true);
    let mut sent = vec![sender.data(100, ACK)];
    sent.extend(sender.next(&Step::Fragment));
    sent.push(sender.data(100, ACK));
    let merged: Vec<Vec<u8>> = merge(MergePolicy::Tcp, &sent).into_iter().map(|(_, packet)| packet).collect();
    assert_eq!(merged, sent, "the fragment may belong to the flow");
}

#[test]
fn merged_packets_are_bounded() {
    let mut sender = Sender::new(1, false, true);
    let sent: Vec<Vec<u8>> = (0..100).map(|_| sender.data(9, ACK)).collect();
    assert_eq!(check(MergePolicy::Tcp, &sent).len(), 2, "64 packets and the rest");
    for v6 in [false, true] {
        let mut sender = Sender::new(1, v6, true);
        let sent: Vec<Vec<u8>> = (0..10).map(|_| sender.data(13_090, ACK)).collect();
        let lens: Vec<usize> =
            check(MergePolicy::Tcp, &sent).iter().map(|(_, packet)| packet.len()).collect();
        let headers = if v6 { 60 } else { 40 };
        assert_eq!(lens, [headers + 5 * 13_090; 2]);
        let mut sender = Sender::new(1, v6, true);
        let sent: Vec<Vec<u8>> = (0..4).map(|_| sender.data(32_760, ACK)).collect();
        assert_eq!(check(MergePolicy::Tcp, &sent).len(), 4, "two would be longer than a packet can be");
    }
}

#[test]
fn a_udp_checksum_is_never_written_as_none() {
    // Two segments; the payload makes the checksum of the first come out as zero.
    let flow = Flow::default();
    let bare = flow.udp(&[0, 0]);
    let payload = [bare[26], bare[27]];
    let packet = flow.udp(&[payload, payload].concat());
    let offload = Offload {
        needs_checksum: true,
        segmentation: Segmentation::Udp,
        header_len: 28,
        segment_size: 2,
        checksum_start: 20,
        checksum_offset: 6,
        ecn: false,
    };
    let cut = our_cut(&offload, &packet);
    assert_eq!(cut[0][26..28], [0xff, 0xff]);
    assert_eq!(cut, kernel_cut(&offload, &packet));
    let mut single = flow.udp(&payload);
    let sum = !packets::checksum(&[&single[12..20], &[0, UDP, 0, 10]]);
    single[26..28].copy_from_slice(&sum.to_be_bytes());
    let unfinished =
        Offload { needs_checksum: true, checksum_start: 20, checksum_offset: 6, ..Offload::NONE };
    crate::segment::finish_checksum(portable, &unfinished, &mut single).expect("inside");
    assert_eq!(single[26..28], [0xff, 0xff]);
}

//! The content of a batch of datagrams, as ranges of the buffer they were received into.

use std::collections::BTreeMap;
use std::ops::Range;

use adit_checksum::WordSum;
use adit_core::{DeviceId, Notice, Path};

use crate::event::EgressEvent;
use crate::headers::Ip;
use crate::merge::{Flows, Run};
use crate::offload::{Offload, VNET_HEADER_LEN};

/// The packets that may be merged, by what the TUN device takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergePolicy {
    /// Nothing: the device takes packets only.
    #[default]
    Off,
    /// TCP flows (the device takes TSO packets).
    Tcp,
    /// Runs of equal-size UDP datagrams (the device takes USO packets).
    Udp,
    /// Both.
    TcpAndUdp,
}

impl MergePolicy {
    pub(crate) fn tcp(self) -> bool {
        matches!(self, MergePolicy::Tcp | MergePolicy::TcpAndUdp)
    }

    pub(crate) fn udp(self) -> bool {
        matches!(self, MergePolicy::Udp | MergePolicy::TcpAndUdp)
    }
}

/// No piece follows.
const END: u32 = u32::MAX;
/// Protocol messages of one batch at most; more are dropped.
const MESSAGES_MAX: usize = 64;
/// Where ranges of rebuilt packets start. No buffer is as long.
const REBUILT: usize = 1 << 31;
/// Bytes of rebuilt packets of one batch at most; more are dropped.
const REBUILT_MAX: usize = 4 << 20;

/// A range of the buffer, and the next one of the same packet.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u32,
    end: u32,
    next: u32,
}

impl Piece {
    fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A packet, or a run of packets under merge.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    header: [u8; VNET_HEADER_LEN],
    first: u32,
    last: u32,
    /// The first packet's place in the buffer.
    pub(crate) packet: Range<usize>,
    pub(crate) run: Option<Run>,
    device: DeviceId,
}

/// The packets, control datagrams and notices that [`crate::Ingress`] found. Owned by the driver and used over and
/// over. Ranges are offsets into the buffer given to [`crate::Ingress`]; those beyond any buffer are of packets that
/// lay in no datagram as they are, which are in here ([`ReceiveBatch::slice`]). Only sessions of codecs whose
/// [`crate::codec::Opener::rebuilt`] gives something have such packets.
#[derive(Default)]
pub struct ReceiveBatch {
    policy: MergePolicy,
    items: Vec<Item>,
    pieces: Vec<Piece>,
    flows: Flows,
    /// The flows of other devices than the main one. Packets of one device are not merged with those of another.
    other_flows: BTreeMap<DeviceId, Flows>,
    /// Items from the front that do not change any more.
    finished: usize,
    control: Vec<(Path, Range<usize>)>,
    relay: Vec<Range<usize>>,
    passed: Vec<Passed>,
    notices: Vec<Notice>,
    orders: Vec<EgressEvent>,
    messages: usize,
    /// Packets that do not lie in the caller's buffer, one after the other.
    rebuilt: Vec<u8>,
}

/// A packet or datagrams that another worker handles further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A packet for one of its peers, checked, for its [`crate::Egress::relay_packet`].
    Packet {
        /// The worker.
        worker: u32,
        /// The packet.
        range: Range<usize>,
    },
    /// Datagrams of sessions that only it has, untouched, for its [`crate::Ingress::open_datagrams`].
    Datagrams {
        /// The worker.
        worker: u32,
        /// Where they came from.
        path: Path,
        /// The traffic class of the IP header around them.
        traffic_class: u8,
        /// Bytes of each, the last may be shorter.
        segment: usize,
        /// The datagrams.
        range: Range<usize>,
    },
}

/// A packet for the TUN device: write the header and the pieces, in order, in one call.
#[derive(Clone, Copy)]
pub struct TunPacket<'a> {
    item: &'a Item,
    pieces: &'a [Piece],
    rebuilt: &'a [u8],
}

impl<'a> TunPacket<'a> {
    /// The device that it is for.
    pub fn device(&self) -> DeviceId {
        self.item.device
    }

    /// The `virtio_net_hdr` to put in front, on a device that wants one.
    pub fn header(&self) -> &'a [u8; VNET_HEADER_LEN] {
        &self.item.header
    }

    /// Ranges of the caller's buffer. The first is a whole packet, the others are payloads that follow it.
    pub fn pieces(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let pieces = self.pieces;
        let first = pieces.get(self.item.first as usize);
        std::iter::successors(first, move |piece| pieces.get(piece.next as usize)).map(Piece::range)
    }

    /// The bytes of the pieces. `buffer` is the one that was given to [`crate::Ingress`].
    pub fn slices(&self, buffer: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let rebuilt = self.rebuilt;
        self.pieces().filter_map(move |piece| slice(buffer, rebuilt, &piece))
    }
}

/// The bytes of a range: of the caller's buffer, or of rebuilt packets.
#[inline]
fn slice<'a>(buffer: &'a [u8], rebuilt: &'a [u8], range: &Range<usize>) -> Option<&'a [u8]> {
    buffer.get(range.clone()).or_else(|| rebuilt.get(place_of_rebuilt(range)?))
}

/// Where a rebuilt packet lies among the others; `None` if it is none.
#[cold]
fn place_of_rebuilt(range: &Range<usize>) -> Option<Range<usize>> {
    Some(range.start.checked_sub(REBUILT)?..range.end.checked_sub(REBUILT)?)
}

impl ReceiveBatch {
    /// An empty receive batch.
    pub fn new(policy: MergePolicy) -> Self {
        ReceiveBatch { policy, ..ReceiveBatch::default() }
    }

    /// Changes the merge policy, from the next batch on.
    pub fn set_policy(&mut self, policy: MergePolicy) {
        self.policy = policy;
    }

    /// Packets for the TUN device that are finished, in order.
    pub fn packets(&self) -> impl Iterator<Item = TunPacket<'_>> {
        let (pieces, rebuilt) = (&self.pieces[..], &self.rebuilt[..]);
        self.items.iter().take(self.finished).map(move |item| TunPacket { item, pieces, rebuilt })
    }

    /// The bytes of a range that is in here. `buffer` is the one that was given to [`crate::Ingress`].
    pub fn slice<'a>(&'a self, buffer: &'a [u8], range: &Range<usize>) -> Option<&'a [u8]> {
        slice(buffer, &self.rebuilt, range)
    }

    /// Control datagrams for the protocol (without TCP's length), in order.
    pub fn control(&self) -> &[(Path, Range<usize>)] {
        &self.control
    }

    /// Packets for other peers, checked, for [`crate::Egress::relay_packet`].
    pub fn relay(&self) -> &[Range<usize>] {
        &self.relay
    }

    /// Hands out the packets of [`ReceiveBatch::relay`], in order. `buffer` is the one that was given to
    /// [`crate::Ingress`].
    pub fn relay_each(&mut self, buffer: &mut [u8], mut relay: impl FnMut(&mut [u8])) {
        for range in &self.relay {
            if let Some(packet) = buffer.get_mut(range.clone()) {
                relay(packet);
            } else if let Some(packet) = place_of_rebuilt(range).and_then(|place| self.rebuilt.get_mut(place))
            {
                relay(packet);
            }
        }
    }

    /// The packets and datagrams that other workers handle further, in order.
    pub fn passed(&self) -> &[Passed] {
        &self.passed
    }

    /// The notices for the protocol; the caller may take them out.
    pub fn notices(&mut self) -> &mut Vec<Notice> {
        &mut self.notices
    }

    /// The orders that the [`crate::Egress`] of the same worker must follow before anything else in here is handed out:
    /// the new paths of peers that moved. A reply to a packet goes then to where the packet came from. The caller takes
    /// them out.
    pub fn orders(&mut self) -> &mut Vec<EgressEvent> {
        &mut self.orders
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.control.is_empty()
            && self.relay.is_empty()
            && self.passed.is_empty()
            && self.notices.is_empty()
            && self.orders.is_empty()
    }

    /// Forgets all but a run that was left open, and keeps the allocations.
    pub fn clear(&mut self) {
        self.items.drain(..self.finished);
        self.finished = 0;
        if self.items.is_empty() {
            self.pieces.clear();
            self.clear_flows();
        } else {
            self.move_to_front();
        }
        self.control.clear();
        self.relay.clear();
        self.passed.clear();
        self.notices.clear();
        self.orders.clear();
        self.messages = 0;
        // A run that was left open has no rebuilt packet in it.
        self.rebuilt.clear();
    }

    /// The one item that is left becomes the first, and so do its pieces.
    fn move_to_front(&mut self) {
        let Some(item) = self.items.first_mut() else { return };
        let mut next = item.first;
        let mut used = 0;
        // Pieces of an item follow each other in the order in which they were added: none is overwritten
        // before it was read.
        while let Some(piece) = self.pieces.get(next as usize).copied() {
            next = piece.next;
            if let Some(place) = self.pieces.get_mut(used) {
                let following = if next == END { END } else { used as u32 + 1 };
                *place = Piece { next: following, ..piece };
            }
            used += 1;
        }
        self.pieces.truncate(used);
        (item.first, item.last) = (0, used.saturating_sub(1) as u32);
        self.flows.move_to_front();
        self.other_flows.values_mut().for_each(Flows::move_to_front);
    }

    fn clear_flows(&mut self) {
        self.flows.clear();
        self.other_flows.values_mut().for_each(Flows::clear);
    }

    /// Forgets all flows but that of one item. Whether that item may wait for the next receive.
    fn keep_only(&mut self, item: usize) -> bool {
        let mut kept = self.flows.keep_only(item, &self.items);
        for flows in self.other_flows.values_mut() {
            kept |= flows.keep_only(item, &self.items);
        }
        kept
    }

    /// Takes a packet for the TUN device, merging it if it may be.
    #[inline]
    pub(crate) fn push_packet(&mut self, words: WordSum, buffer: &[u8], range: Range<usize>, ip: &Ip) {
        if self.policy == MergePolicy::Off {
            self.push_item(DeviceId::MAIN, range, None);
            return;
        }
        let packet = buffer.get(range.clone()).unwrap_or_default();
        match self.flows.place(words, self.policy, buffer, &mut self.items, packet, ip) {
            Placed::Onto { item, payload } => self.append(item, range.start + payload..range.end),
            Placed::New(run) => self.push_item(DeviceId::MAIN, range, run),
        }
    }

    /// Takes a packet for another device, merging it if it may be.
    #[inline(never)]
    pub(crate) fn push_packet_of(
        &mut self,
        device: DeviceId,
        words: WordSum,
        buffer: &[u8],
        range: Range<usize>,
        ip: &Ip,
    ) {
        if self.policy == MergePolicy::Off {
            return self.push_item(device, range, None);
        }
        let packet = buffer.get(range.clone()).unwrap_or_default();
        let flows = self.other_flows.entry(device).or_default();
        match flows.place(words, self.policy, buffer, &mut self.items, packet, ip) {
            Placed::Onto { item, payload } => self.append(item, range.start + payload..range.end),
            Placed::New(run) => self.push_item(device, range, run),
        }
    }

    /// No packet grows any more: writes the headers of merged packets. `buffer` is the one that was given to
    /// [`crate::Ingress`].
    pub fn finish(&mut self, buffer: &mut [u8]) {
        self.clear_flows();
        self.finish_items(self.items.len(), buffer);
    }

    /// Finishes all packets but the newest one for the device, if the next receive may bring packets that join it. It
    /// is then left out of [`ReceiveBatch::packets`] and survives [`ReceiveBatch::clear`]. Gives the part of the buffer
    /// that must stay as it is until it is finished, too.
    pub fn finish_but_newest(&mut self, buffer: &mut [u8]) -> Option<Range<usize>> {
        let newest = self.items.len().checked_sub(1)?;
        if newest < self.finished || !self.keep_only(newest) {
            self.finish(buffer);
            return None;
        }
        self.finish_items(newest, buffer);
        let item = self.items.get(newest)?;
        let pieces = TunPacket { item, pieces: &self.pieces, rebuilt: &self.rebuilt }.pieces();
        pieces.reduce(|all, piece| all.start.min(piece.start)..all.end.max(piece.end))
    }

    fn finish_items(&mut self, count: usize, buffer: &mut [u8]) {
        for item in self.items.iter_mut().take(count).skip(self.finished) {
            let Some(run) = item.run.take() else { continue };
            if let Some(packet) = buffer.get_mut(item.packet.clone())
                && let Some(offload) = run.finish(packet)
            {
                item.header = offload.to_vnet_header();
            }
        }
        self.finished = count;
    }

    pub(crate) fn push_control(&mut self, path: Path, range: Range<usize>) {
        self.control.push((path, range));
    }

    pub(crate) fn push_relay(&mut self, range: Range<usize>) {
        self.relay.push(range);
    }

    pub(crate) fn pass_packet(&mut self, worker: u32, range: Range<usize>) {
        self.passed.push(Passed::Packet { worker, range });
    }

    /// Datagrams in a row become one entry.
    pub(crate) fn pass_datagram(&mut self, to: u32, from: (Path, u8), range: Range<usize>) {
        if let Some(Passed::Datagrams { worker, path, traffic_class, segment, range: last }) =
            self.passed.last_mut()
            && (*worker, *path, *traffic_class) == (to, from.0, from.1)
            && last.end == range.start
            && last.len() % *segment == 0
            && range.len() <= *segment
        {
            last.end = range.end;
            return;
        }
        let (path, traffic_class) = from;
        self.passed.push(Passed::Datagrams { worker: to, path, traffic_class, segment: range.len(), range });
    }

    pub(crate) fn push_notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    pub(crate) fn push_order(&mut self, order: EgressEvent) {
        self.orders.push(order);
    }

    /// Takes in a packet that lies in no buffer, and gives the range that stands for it. `None` if there is no room.
    pub(crate) fn keep_rebuilt(&mut self, packet: &[u8]) -> Option<Range<usize>> {
        let start = self.rebuilt.len();
        if start + packet.len() > REBUILT_MAX {
            return None;
        }
        self.rebuilt.extend_from_slice(packet);
        Some(REBUILT + start..REBUILT + start + packet.len())
    }

    /// Such a packet is for that device. It is not merged, and no packet that comes later goes before it.
    pub(crate) fn push_rebuilt(&mut self, device: DeviceId, range: Range<usize>) {
        self.clear_flows();
        self.push_item(device, range, None);
    }

    /// Whether there is room for another message in this batch; takes the room.
    pub(crate) fn admit_message(&mut self) -> bool {
        let admitted = self.messages < MESSAGES_MAX;
        self.messages += usize::from(admitted);
        admitted
    }

    fn push_item(&mut self, device: DeviceId, range: Range<usize>, run: Option<Run>) {
        let piece = self.pieces.len() as u32;
        self.pieces.push(Piece { start: range.start as u32, end: range.end as u32, next: END });
        let header = Offload::NONE.to_vnet_header();
        self.items.push(Item { header, first: piece, last: piece, packet: range, run, device });
    }

    fn append(&mut self, item: usize, range: Range<usize>) {
        let piece = self.pieces.len() as u32;
        self.pieces.push(Piece { start: range.start as u32, end: range.end as u32, next: END });
        let Some(item) = self.items.get_mut(item) else { return };
        if let Some(last) = self.pieces.get_mut(item.last as usize) {
            last.next = piece;
        }
        item.last = piece;
    }
}

/// Where a packet goes.
pub(crate) enum Placed {
    /// Its payload, from that offset on, continues that item.
    Onto { item: usize, payload: usize },
    /// An item of its own, which others may continue if it has a run.
    New(Option<Run>),
}

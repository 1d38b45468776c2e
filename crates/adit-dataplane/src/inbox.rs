//! What came out of a batch of datagrams, as ranges of the buffer they were received into.

use std::ops::Range;

use adit_core::{Notice, Path};

use crate::headers::Ip;
use crate::merge::{Flows, Run};
use crate::offload::{Offload, VNET_HEADER_LEN};

/// What may be merged: what the TUN device was found to take.
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
/// Protocol messages that one batch may bring; more are dropped.
const MESSAGES_MAX: usize = 64;

/// A range of the buffer, and the next one of the same packet.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u32,
    end: u32,
    next: u32,
}

/// A packet, or a run of packets under merge.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    header: [u8; VNET_HEADER_LEN],
    base: usize,
    first: u32,
    last: u32,
    /// The first packet's place in the buffer.
    pub(crate) packet: Range<usize>,
    pub(crate) run: Option<Run>,
}

/// What [`crate::Ingress`] found. Owned by the driver and used over and over. Ranges are offsets into the
/// buffer given to [`crate::Ingress::open_datagrams`], plus the base set before.
#[derive(Default)]
pub struct Inbox {
    policy: MergePolicy,
    base: usize,
    items: Vec<Item>,
    pieces: Vec<Piece>,
    flows: Flows,
    /// The first item of the present batch.
    fresh: usize,
    control: Vec<(Path, Range<usize>)>,
    relay: Vec<Range<usize>>,
    passed: Vec<Passed>,
    notices: Vec<Notice>,
    messages: usize,
}

/// What another worker must carry on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A packet for one of its peers, checked, for its [`crate::Egress::relay_packet`].
    Packet {
        /// Who.
        worker: u32,
        /// The packet.
        range: Range<usize>,
    },
    /// Datagrams of sessions that only it has, untouched, for its [`crate::Ingress::open_datagrams`].
    Datagrams {
        /// Who.
        worker: u32,
        /// Where they came from.
        path: Path,
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
}

impl<'a> TunPacket<'a> {
    /// The `virtio_net_hdr` to put in front, on a device that wants one.
    pub fn header(&self) -> &'a [u8; VNET_HEADER_LEN] {
        &self.item.header
    }

    /// Ranges of the caller's buffer. The first is a whole packet, the others are payloads that follow it.
    pub fn pieces(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        let (pieces, base) = (self.pieces, self.item.base);
        let first = pieces.get(self.item.first as usize);
        std::iter::successors(first, move |piece| pieces.get(piece.next as usize))
            .map(move |piece| base + piece.start as usize..base + piece.end as usize)
    }
}

impl Inbox {
    /// An empty inbox.
    pub fn new(policy: MergePolicy) -> Self {
        Inbox { policy, ..Inbox::default() }
    }

    /// Changes what may be merged, from the next batch on.
    pub fn set_policy(&mut self, policy: MergePolicy) {
        self.policy = policy;
    }

    /// Adds this to all ranges that are found from now on: where the buffer of the next call lies within a
    /// larger one. Stays until set anew; 0 at first.
    pub fn set_base(&mut self, base: usize) {
        self.base = base;
    }

    /// Packets for the TUN device, in order.
    pub fn packets(&self) -> impl Iterator<Item = TunPacket<'_>> {
        self.items.iter().map(|item| TunPacket { item, pieces: &self.pieces })
    }

    /// Control datagrams for the protocol (without TCP's length), in order.
    pub fn control(&self) -> &[(Path, Range<usize>)] {
        &self.control
    }

    /// Packets for other peers, checked, for [`crate::Egress::relay_packet`].
    pub fn relay(&self) -> &[Range<usize>] {
        &self.relay
    }

    /// What other workers must carry on with, in order.
    pub fn passed(&self) -> &[Passed] {
        &self.passed
    }

    /// What the protocol should hear; the caller may take them out.
    pub fn notices(&mut self) -> &mut Vec<Notice> {
        &mut self.notices
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.control.is_empty()
            && self.relay.is_empty()
            && self.passed.is_empty()
            && self.notices.is_empty()
    }

    /// Forgets all and keeps the allocations.
    pub fn clear(&mut self) {
        self.items.clear();
        self.pieces.clear();
        self.flows.clear();
        self.fresh = 0;
        self.control.clear();
        self.relay.clear();
        self.passed.clear();
        self.notices.clear();
        self.messages = 0;
    }

    /// A new batch in a new buffer begins: what was found before is not touched any more.
    pub(crate) fn begin(&mut self) {
        self.flows.clear();
        self.fresh = self.items.len();
        self.messages = 0;
    }

    /// Takes a packet for the TUN device, merging it if it may be.
    #[inline]
    pub(crate) fn push_packet(&mut self, buffer: &[u8], range: Range<usize>, ip: &Ip) {
        if self.policy == MergePolicy::Off {
            self.push_item(range, None);
            return;
        }
        let packet = buffer.get(range.clone()).unwrap_or_default();
        match self.flows.place(self.policy, buffer, &mut self.items, packet, ip) {
            Placed::Onto { item, payload } => self.append(item, range.start + payload..range.end),
            Placed::New(run) => self.push_item(range, run),
        }
    }

    /// The batch is complete: writes the headers of merged packets.
    pub(crate) fn finish(&mut self, buffer: &mut [u8]) {
        self.flows.clear();
        for item in self.items.iter_mut().skip(self.fresh) {
            let Some(run) = item.run.take() else { continue };
            if let Some(packet) = buffer.get_mut(item.packet.clone())
                && let Some(offload) = run.finish(packet)
            {
                item.header = offload.to_vnet_header();
            }
        }
        self.fresh = self.items.len();
    }

    pub(crate) fn push_control(&mut self, path: Path, range: Range<usize>) {
        self.control.push((path, self.base + range.start..self.base + range.end));
    }

    pub(crate) fn push_relay(&mut self, range: Range<usize>) {
        self.relay.push(self.base + range.start..self.base + range.end);
    }

    pub(crate) fn pass_packet(&mut self, worker: u32, range: Range<usize>) {
        let range = self.base + range.start..self.base + range.end;
        self.passed.push(Passed::Packet { worker, range });
    }

    /// Datagrams in a row become one entry.
    pub(crate) fn pass_datagram(&mut self, to: u32, from: Path, range: Range<usize>) {
        let range = self.base + range.start..self.base + range.end;
        if let Some(Passed::Datagrams { worker, path, segment, range: last }) = self.passed.last_mut()
            && (*worker, *path) == (to, from)
            && last.end == range.start
            && last.len() % *segment == 0
            && range.len() <= *segment
        {
            last.end = range.end;
            return;
        }
        self.passed.push(Passed::Datagrams { worker: to, path: from, segment: range.len(), range });
    }

    pub(crate) fn push_notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Whether there is room for another message in this batch; takes the room.
    pub(crate) fn admit_message(&mut self) -> bool {
        let admitted = self.messages < MESSAGES_MAX;
        self.messages += usize::from(admitted);
        admitted
    }

    fn push_item(&mut self, range: Range<usize>, run: Option<Run>) {
        let piece = self.pieces.len() as u32;
        self.pieces.push(Piece { start: range.start as u32, end: range.end as u32, next: END });
        let header = Offload::NONE.to_vnet_header();
        self.items.push(Item { header, base: self.base, first: piece, last: piece, packet: range, run });
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

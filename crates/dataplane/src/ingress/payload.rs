//! The handling of the payload of an authentic datagram.

use adit_core::{DeviceId, Instant, Notice, PeerId, SessionId};

use super::Ingress;
use crate::codec::NotInPlace;
use crate::counters::DropReason;
use crate::headers::Ip;
use crate::outer::OuterPolicy;
use crate::peers::{Peer, Peers};
use crate::receive::ReceiveBatch;
use crate::recent::Recent;
use crate::selectors::{Fields, Selectors, inbound};
use crate::{mss, outer};

/// Bytes of a protocol message that are passed on.
const MESSAGE_MAX: usize = 1280;

impl Ingress {
    /// The payload of an authentic datagram of `len` bytes does not lie in it.
    #[cold]
    pub(super) fn take_elsewhere(
        &mut self,
        traffic_class: u8,
        len: usize,
        index: u32,
        why: NotInPlace,
        out: &mut ReceiveBatch,
    ) -> Result<(), DropReason> {
        let Peers { peers, sessions, .. } = &mut self.peers;
        let session = sessions.get_mut(index).ok_or(DropReason::NoSession)?;
        let slot = session.peer;
        let peer = peers.get(slot).ok_or(DropReason::NoPeer)?;
        match why {
            NotInPlace::Rebuilt => {}
            NotInPlace::Dropped(reason) => {
                peer.counter.stamp_other(self.now);
                return Err(reason);
            }
            NotInPlace::Incomplete => {
                peer.counter.stamp_data(self.now);
                return Ok(());
            }
        }
        let arrived = Arrived {
            peer,
            session: session.id,
            is_keepalive: session.is_keepalive,
            outer: &session.outer,
            selectors: session.selectors.as_deref(),
            selected: Selected { recent: &mut self.selected, session: index },
            traffic_class,
            len,
            now: self.now,
        };
        let payload = session.open.rebuilt();
        let Some(ip) = arrived.take(payload, out)? else { return Ok(()) };
        let packet = payload.get(..ip.len).ok_or(DropReason::Malformed)?;
        let packet = out.keep_rebuilt(packet).ok_or(DropReason::Flood)?;
        let kept = out.slice(&[], &packet).unwrap_or_default();
        let selected = session.selectors.is_some();
        match self.destination(Sender { slot, selected }, &ip, kept)? {
            Destination::Device => out.push_rebuilt(DeviceId::MAIN, packet),
            Destination::OtherDevice(device) => out.push_rebuilt(device, packet),
            Destination::Peer => out.push_relay(packet),
            Destination::Worker(worker) => out.pass_packet(worker, packet),
        }
        Ok(())
    }

    /// The destination of a packet, if its sender may send it. The packet is at the start of `payload`.
    #[inline(always)]
    pub(super) fn destination(
        &mut self,
        sender: Sender,
        ip: &Ip,
        payload: &[u8],
    ) -> Result<Destination, DropReason> {
        let destination = self.route(sender, ip, payload)?;
        if self.peers.has_rules() {
            let packet = payload.get(..ip.len).ok_or(DropReason::Malformed)?;
            if !self.peers.is_allowed(sender.slot, packet, self.now) {
                return Err(DropReason::NotAllowed);
            }
        }
        Ok(destination)
    }

    /// The destination of a packet, if its source address is its sender's.
    #[inline(always)]
    fn route(&mut self, sender: Sender, ip: &Ip, payload: &[u8]) -> Result<Destination, DropReason> {
        if self.senders.get(&ip.source) != Some(&sender.slot) && !self.may_send(sender, ip, payload) {
            return self.other_device(sender, ip, payload);
        }
        // A packet for all, and a packet for which no peer has a route (it is for ourselves), goes to the
        // device.
        if self.client_to_client
            && !ip.destination.is_multicast()
            && let Some(other) = self.peers.receiver(ip, payload)
            && other != sender.slot
        {
            return Ok(match self.peers.peers.get(other).and_then(|peer| peer.worker) {
                Some(worker) => Destination::Worker(worker),
                None => Destination::Peer,
            });
        }
        Ok(Destination::Device)
    }

    /// Whether the peer may send a packet with that header to the main device.
    #[inline(never)]
    fn may_send(&mut self, sender: Sender, ip: &Ip, payload: &[u8]) -> bool {
        let Sender { slot, selected } = sender;
        let may_send = self.peers.may_send(slot, ip, payload, selected);
        if may_send && !self.peers.share_routes() {
            self.senders.note(ip.source, slot);
        }
        may_send
    }

    /// The destination of a packet of a peer to which no route of the main device leads.
    #[inline(never)]
    fn other_device(&self, sender: Sender, ip: &Ip, payload: &[u8]) -> Result<Destination, DropReason> {
        let Sender { slot, selected } = sender;
        let device = self.peers.peers.get(slot).map_or(DeviceId::MAIN, |peer| peer.device);
        match self.peers.may_send_at(device, slot, ip, payload, selected) {
            true => Ok(Destination::OtherDevice(device)),
            false => Err(DropReason::BadSource),
        }
    }
}

/// The peer that sent a packet.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) slot: u32,
    /// The packet's session has selectors, which were found to match.
    pub(super) selected: bool,
}

/// Where a packet goes.
pub(super) enum Destination {
    /// The main TUN device.
    Device,
    /// Another device of the tunnel.
    OtherDevice(DeviceId),
    /// Another peer of ours.
    Peer,
    /// A peer that the worker of that number serves.
    Worker(u32),
}

/// An authentic datagram, and the parameters by which its payload is judged.
pub(super) struct Arrived<'a> {
    pub(super) peer: &'a Peer,
    pub(super) session: SessionId,
    pub(super) is_keepalive: fn(&[u8]) -> bool,
    pub(super) outer: &'a OuterPolicy,
    pub(super) selectors: Option<&'a Selectors>,
    pub(super) selected: Selected<'a>,
    /// The traffic class of the IP header around it.
    pub(super) traffic_class: u8,
    /// Its length in bytes.
    pub(super) len: usize,
    pub(super) now: Instant,
}

impl Arrived<'_> {
    /// Counts the payload. Of a packet, which is made ready to be delivered, gives the header; anything else is dealt
    /// with by that.
    #[inline(always)]
    pub(super) fn take(self, payload: &mut [u8], out: &mut ReceiveBatch) -> Result<Option<Ip>, DropReason> {
        let Arrived { peer, now, .. } = self;
        match payload.first().map(|first| first >> 4) {
            Some(4 | 6) => {}
            first => {
                if (self.is_keepalive)(payload) {
                    peer.counter.add_keepalive(now);
                } else {
                    peer.counter.stamp_other(now);
                }
                if first.is_none() {
                    return Ok(None);
                }
                peer.counter.add_message(self.len as u64);
                return message(peer.id, self.session, payload, out).map(|()| None);
            }
        }
        let ip = Ip::parse(payload);
        if let (Some(ip), Some(selectors)) = (&ip, self.selectors)
            && !self.selected.selects(selectors, ip, payload)
        {
            peer.counter.stamp_other(now);
            return Err(DropReason::NotSelected);
        }
        peer.counter.stamp_data(now);
        let ip = ip.ok_or(DropReason::Malformed)?;
        if self.outer.heeds(self.traffic_class) {
            outer::decapsulate(self.traffic_class, &ip, payload)?;
        }
        if let Some(max) = peer.max_mss {
            mss::clamp(payload, &ip, max);
        }
        Ok(Some(ip))
    }
}

/// The sessions whose selectors matched packets of late, and the index of a packet's own.
pub(super) struct Selected<'a> {
    pub(super) recent: &'a mut Recent<Fields, u32>,
    pub(super) session: u32,
}

impl Selected<'_> {
    /// Whether the selectors of the session match a packet.
    #[inline]
    fn selects(self, selectors: &Selectors, ip: &Ip, payload: &[u8]) -> bool {
        let fields = Fields::of(ip, payload);
        if fields.as_ref().and_then(|fields| self.recent.get(fields)) == Some(&self.session) {
            return true;
        }
        let matches = selectors.select(&inbound(ip, payload));
        if let Some(fields) = fields.filter(|_| matches) {
            self.recent.note(fields, self.session);
        }
        matches
    }
}

fn message(
    peer: PeerId,
    session: SessionId,
    payload: &[u8],
    out: &mut ReceiveBatch,
) -> Result<(), DropReason> {
    if !out.admit_message() {
        return Err(DropReason::Flood);
    }
    let payload = payload.iter().copied().take(MESSAGE_MAX).collect();
    out.push_notice(Notice::Message { peer, session, payload });
    Ok(())
}

//! Changes of the addresses of an IKE SA (MOBIKE, RFC 4555). The end that initiated the first IKE SA decides on them.
//!
//! The other end sends ESP to a new address after the peer has answered a request there with the cookie of that request (section
//! 3.7): a peer cannot point packets at an address that is not its own. An initiator whose peer does not answer tries the peer's
//! other addresses before it gives the IKE SA up.

use std::net::{IpAddr, SocketAddr};

use adit_core::{Path, Severity};
use subtle::ConstantTimeEq as _;

use super::addresses::{AddressCheck, Moved};
use super::context::Context;
use super::init::{MARKED_PORT, forces_encapsulation};
use super::nat::{self, Nat};
use super::payloads::{Payloads, notify};
use super::peer::EndKind;
use super::sa::{IkeSa, Phase, Request};
use crate::wire::{ExchangeType, NotifyType, Payload};

/// Bytes of a cookie (RFC 4555 section 4.2.5: 8 to 64).
const COOKIE_LEN: usize = 16;
impl IkeSa {
    /// This end's address, or the way to the peer, has changed.
    pub(crate) fn addresses_changed(&mut self, cx: &mut Context<'_>) {
        if self.mobike.is_supported && self.mobike.is_initiator && matches!(self.phase, Phase::Established) {
            self.mobike.update_is_due = true;
            self.next_task(cx);
        }
    }

    /// Starts a task about addresses that is due. Gives whether there was one.
    pub(crate) fn next_address_task(&mut self, cx: &mut Context<'_>) -> bool {
        if std::mem::take(&mut self.mobike.update_is_due) {
            self.request_address_update(cx);
            return true;
        }
        let Some(moved) = self.mobike.moved.take() else { return false };
        if moved.path == self.path {
            self.arrive(cx, moved);
            return false;
        }
        let mut cookie = vec![0; COOKIE_LEN];
        cx.fill()(&mut cookie);
        let payloads = [notify(NotifyType::COOKIE2, cookie.clone())];
        let check = Request::AddressCheck(Box::new(AddressCheck { cookie, moved }));
        let before = std::mem::replace(&mut self.path, moved.path);
        self.request(cx, ExchangeType::INFORMATIONAL, &payloads, check);
        self.path = before;
        if let Some(pending) = &mut self.pending {
            pending.path = Some(moved.path);
        }
        true
    }

    fn own_nat_notifies(&self, cx: &Context<'_>, path: Path) -> [Payload; 2] {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let forces = connection.is_some_and(|connection| forces_encapsulation(cx, connection, path));
        nat::notifies(self.spis(), cx.shared.local_of(path).filter(|_| !forces), path.remote())
    }

    fn request_address_update(&mut self, cx: &mut Context<'_>) {
        let mut payloads = vec![notify(NotifyType::UPDATE_SA_ADDRESSES, Vec::new())];
        payloads.extend(self.own_nat_notifies(cx, self.path));
        self.request(cx, ExchangeType::INFORMATIONAL, &payloads, Request::AddressUpdate);
    }

    /// The responder's answer to an update.
    pub(crate) fn handle_address_update(&mut self, cx: &mut Context<'_>, payloads: &[Payload]) {
        if let Some(error) = Payloads(payloads).error() {
            let text = format!("the peer refuses the new addresses: {}", error.kind);
            return self.log(cx, Severity::Warning, &text);
        }
        let local = cx.shared.local_of(self.path);
        let nat = Nat::detect(payloads, self.spis(), local, self.path.remote());
        self.arrive(cx, Moved { path: self.path, nat });
    }

    /// Takes over a place of the peer.
    fn arrive(&mut self, cx: &mut Context<'_>, moved: Moved) {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let forces = connection.is_some_and(|connection| forces_encapsulation(cx, connection, moved.path));
        self.nat = moved.nat;
        self.is_encapsulated = moved.nat.is_there() || forces;
        self.move_to(cx, moved.path);
        self.order_entry(cx);
    }

    /// An update in a request of the peer. Gives the payloads of the answer.
    ///
    /// # Errors
    /// The error that refuses it.
    pub(crate) fn answer_address_update(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        payloads: &[Payload],
    ) -> Result<Vec<Payload>, Payload> {
        let found = Payloads(payloads);
        let mut answer: Vec<Payload> = found
            .notify(NotifyType::COOKIE2)
            .map(|cookie| notify(NotifyType::COOKIE2, cookie.data.clone()))
            .into_iter()
            .collect();
        if !self.mobike.is_supported {
            return Ok(answer);
        }
        self.mobike.read_addresses(found);
        if self.mobike.is_initiator || found.notify(NotifyType::UPDATE_SA_ADDRESSES).is_none() {
            return Ok(answer);
        }
        let local = cx.shared.local_of(path);
        if let Some(expected) = found.notify(NotifyType::NO_NATS_ALLOWED)
            && local.is_some_and(|local| expected.data != addresses(path.remote(), local))
        {
            return Err(notify(NotifyType::UNEXPECTED_NAT_DETECTED, Vec::new()));
        }
        let nat = Nat::detect(payloads, self.spis(), local, path.remote());
        self.mobike.moved = Some(Moved { path, nat });
        answer.extend(self.own_nat_notifies(cx, path));
        Ok(answer)
    }

    /// The peer's answer to a check of its address.
    pub(crate) fn handle_address_check(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        check: AddressCheck,
        payloads: &[Payload],
    ) {
        let AddressCheck { cookie, moved } = check;
        let answer = Payloads(payloads).notify(NotifyType::COOKIE2);
        if !answer.is_some_and(|answer| bool::from(answer.data.ct_eq(&cookie))) {
            // RFC 4555 section 3.7: the peer answered without having seen the request.
            return self.close(cx, EndKind::DeadPeer, "it did not show that it is at its new address");
        }
        if path == moved.path {
            self.arrive(cx, moved);
        }
    }

    /// The peer does not answer. Sends the pending request to the peer's next address, if there is one that was not tried. Gives
    /// whether there was one.
    pub(crate) fn try_next_address(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.mobike.is_supported || !self.mobike.is_initiator || !matches!(self.phase, Phase::Established)
        {
            return false;
        }
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let configured =
            connection.into_iter().flat_map(|connection| &connection.remotes).map(|remote| remote.ip());
        let current = self.path.remote().ip();
        let mut others =
            configured.chain(self.mobike.peer_addresses.iter().copied()).filter(|other| *other != current);
        let Some(next) = others.nth(self.mobike.probed) else { return false };
        let path = cx.shared.sockets.marked.path_to(SocketAddr::new(next, MARKED_PORT));
        self.mobike.probed += 1;
        self.mobike.update_is_due = true;
        let times = self.times(cx);
        let (Some(path), Some(pending)) = (path, &mut self.pending) else { return false };
        self.path = path;
        pending.retransmissions = times.retransmissions;
        pending.interval = times.retransmission;
        pending.due = cx.shared.now + times.retransmission;
        pending.datagrams.iter().for_each(|datagram| cx.shared.send(path, datagram));
        true
    }
}

/// The addresses and ports of a datagram, as `NO_NATS_ALLOWED` has them (RFC 4555 section 4.2.6).
fn addresses(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let octets = |address: SocketAddr| match address.ip().to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
    [octets(source), octets(destination), ports].concat()
}

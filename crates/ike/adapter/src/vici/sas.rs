//! IKE SAs and their child SAs as the event `list-sa` has them.

use std::net::SocketAddr;

use adit_core::{Cipher, Digest, Instant, PeerId, PeerInfo};
use adit_dataplane::PeerSnapshot;
use adit_ike::machine::{ChildDetail, PeerDetail};
use adit_ike_vici::Message;

use super::names;
use crate::status_rows::identity;

/// An IKE SA as it is.
pub(super) struct IkeSa {
    pub(super) peer: PeerId,
    pub(super) info: PeerInfo<PeerDetail>,
    /// The local address and port, where they are known.
    pub(super) local: Option<SocketAddr>,
    /// The traffic of all its child SAs since the peer came up.
    pub(super) traffic: Option<PeerSnapshot>,
}

impl IkeSa {
    /// The number by which `--ike-id` names it.
    pub(super) const fn number(&self) -> u32 {
        self.peer.0 + 1
    }

    /// The event's message.
    pub(super) fn message(&self, now: Instant) -> Message {
        let detail = &self.info.detail;
        let (initiator, responder) = match detail.is_initiator {
            true => (detail.own_spi, detail.peer_spi),
            false => (detail.peer_spi, detail.own_spi),
        };
        let spi = |bytes: [u8; 8]| format!("{:016x}", u64::from_be_bytes(bytes));
        let mut sa =
            Message::new().with("uniqueid", self.number()).with("version", 2).with("state", "ESTABLISHED");
        sa = with_address(sa, "local", self.local).with("local-id", identity(&detail.local_identity));
        sa = with_address(sa, "remote", Some(self.info.path.remote()));
        sa = sa.with("remote-id", identity(&detail.remote_identity));
        if detail.is_initiator {
            sa = sa.with("initiator", "yes");
        }
        sa = sa.with("initiator-spi", spi(initiator.0)).with("responder-spi", spi(responder.0));
        let nat = [("nat-local", detail.is_behind_nat), ("nat-remote", detail.is_peer_behind_nat)];
        for (name, _) in nat.into_iter().filter(|(_, is_there)| *is_there) {
            sa = sa.with(name, "yes");
        }
        if nat.iter().any(|(_, is_there)| *is_there) {
            sa = sa.with("nat-any", "yes");
        }
        let suite = &detail.suite;
        sa = with_cipher(sa, suite.cipher, suite.integrity);
        if let Some(prf) = names::prf(suite.prf) {
            sa = sa.with("prf-alg", prf);
        }
        sa = sa.with("dh-group", names::group(suite.group));
        for (number, group) in (1..).zip(&suite.additional) {
            sa = sa.with(&format!("ake{number}"), names::group(*group));
        }
        sa = sa.with("established", seconds(detail.made_at, now));
        sa = with_time(sa, "rekey-time", detail.rekey_at, now);
        sa = with_time(sa, "reauth-time", detail.reauthentication_at, now);
        for (name, addresses) in [("local-vips", &detail.own_inner), ("remote-vips", &detail.peer_inner)] {
            if !addresses.is_empty() {
                sa = sa.with_list(name, addresses);
            }
        }
        let mut children = Message::new();
        for (number, child) in (1..).zip(&detail.children) {
            children =
                children.with_section(&format!("{}-{number}", child.name), self.child(number, child, now));
        }
        Message::new().with_section(&detail.connection, sa.with_section("child-sas", children))
    }

    fn child(&self, number: u32, child: &ChildDetail, now: Instant) -> Message {
        let state = if child.is_sealing { "INSTALLED" } else { "REKEYED" };
        let mut message = Message::new()
            .with("name", &child.name)
            .with("uniqueid", number)
            .with("reqid", number)
            .with("state", state)
            .with("mode", "TUNNEL")
            .with("protocol", "ESP");
        if child.is_encapsulated {
            message = message.with("encap", "yes");
        }
        message = message
            .with("spi-in", format_args!("{:08x}", child.own_spi))
            .with("spi-out", format_args!("{:08x}", child.peer_spi));
        message = with_cipher(message, child.cipher, child.integrity);
        if child.has_extended_sequence_numbers {
            message = message.with("esn", 1);
        }
        // The data plane counts by peer.
        if let (Some(traffic), [_]) = (&self.traffic, self.info.detail.children.as_slice()) {
            message = message
                .with("bytes-in", traffic.bytes_received)
                .with("packets-in", traffic.packets_received)
                .with("bytes-out", traffic.bytes_sent)
                .with("packets-out", traffic.packets_sent);
        }
        message = with_time(message, "rekey-time", child.rekey_at, now);
        message
            .with("install-time", seconds(child.made_at, now))
            .with_list("local-ts", child.local.iter().map(names::selector))
            .with_list("remote-ts", child.remote.iter().map(names::selector))
    }
}

fn with_address(message: Message, end: &str, address: Option<SocketAddr>) -> Message {
    let Some(address) = address else { return message };
    let host = address.ip().to_canonical();
    message.with(&format!("{end}-host"), host).with(&format!("{end}-port"), address.port())
}

fn with_cipher(message: Message, cipher: Cipher, integrity: Option<Digest>) -> Message {
    let (name, bits) = names::cipher(cipher);
    let mut message = message.with("encr-alg", name);
    if let Some(bits) = bits {
        message = message.with("encr-keysize", bits);
    }
    match integrity.and_then(names::integrity) {
        Some(integrity) => message.with("integ-alg", integrity),
        None => message,
    }
}

fn with_time(message: Message, name: &str, at: Option<Instant>, now: Instant) -> Message {
    match at {
        Some(at) => message.with(name, seconds(now, at)),
        None => message,
    }
}

/// Whole seconds from one time to another; 0 if that is earlier.
fn seconds(from: Instant, to: Instant) -> u64 {
    if to < from { 0 } else { (to - from).as_secs() }
}

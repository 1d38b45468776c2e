//! IKE SAs and their child SAs as the event `list-sa` has them.

use std::net::SocketAddr;

use adit_core::{Cipher, Digest, Instant, PeerId, PeerInfo};
use adit_ike::machine::{ChildDetail, Connecting, PeerDetail};
use adit_ike::suite::Group;
use adit_ike::wire::Spi;
use adit_ike_vici::Message;

use super::names::{self, identity};
use super::numbers::ChildNumbers;
use crate::selectors::selector;

/// An IKE SA as it is.
#[derive(Clone)]
pub(super) struct IkeSa {
    pub(super) peer: PeerId,
    /// The number by which `--ike-id` names it.
    pub(super) number: u32,
    pub(super) info: PeerInfo<PeerDetail>,
    /// The local address and port, where they are known.
    pub(super) local: Option<SocketAddr>,
    /// The numbers of its child SAs, in their order.
    pub(super) numbers: Vec<ChildNumbers>,
}

impl IkeSa {
    /// The message of the event `list-sa`.
    pub(super) fn message(&self, now: Instant) -> Message {
        let mut children = Message::new();
        for (number, child) in self.children() {
            let name = unique_name(child, number);
            children = children.with_section(&name, self.child(number, child, now));
        }
        let sa = self.section(now).with_section("child-sas", children);
        Message::new().with_section(&self.info.detail.connection, sa)
    }

    /// The child SAs with their numbers.
    pub(super) fn children(&self) -> impl Iterator<Item = (ChildNumbers, &ChildDetail)> {
        self.numbers.iter().copied().zip(&self.info.detail.children)
    }

    /// The values of the IKE SA without its child SAs.
    pub(super) fn section(&self, now: Instant) -> Message {
        let detail = &self.info.detail;
        let (initiator, responder) = match detail.is_initiator {
            true => (detail.own_spi, detail.peer_spi),
            false => (detail.peer_spi, detail.own_spi),
        };
        let mut sa =
            Message::new().with("uniqueid", self.number).with("version", 2).with("state", "ESTABLISHED");
        sa = with_address(sa, "local", self.local).with("local-id", identity(&detail.local_identity));
        sa = with_address(sa, "remote", Some(self.info.path.remote()));
        let of_ike = detail.ike_identity.as_ref();
        sa = sa.with("remote-id", identity(of_ike.unwrap_or(&detail.remote_identity)));
        if of_ike.is_some() {
            sa = sa.with("remote-eap-id", identity(&detail.remote_identity));
        }
        if detail.is_initiator {
            sa = sa.with("initiator", "yes");
        }
        sa = sa.with("initiator-spi", spi(initiator)).with("responder-spi", spi(responder));
        let nat = [
            ("nat-local", detail.is_behind_nat),
            ("nat-remote", detail.is_peer_behind_nat),
            ("nat-fake", detail.is_encapsulation_forced),
        ];
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
        sa = with_groups(sa, std::iter::once(&suite.group).chain(&suite.additional));
        if detail.uses_ppk {
            sa = sa.with("ppk", "yes");
        }
        sa = sa.with("established", seconds(detail.made_at, now));
        sa = with_time(sa, "rekey-time", detail.rekey_at, now);
        sa = with_time(sa, "reauth-time", detail.reauthentication_at, now);
        for (name, addresses) in [("local-vips", &detail.own_inner), ("remote-vips", &detail.peer_inner)] {
            if !addresses.is_empty() {
                sa = sa.with_list(name, addresses);
            }
        }
        sa
    }

    /// The values of a child SA.
    pub(super) fn child(&self, numbers: ChildNumbers, child: &ChildDetail, now: Instant) -> Message {
        let state = if child.is_sealing { "INSTALLED" } else { "REKEYED" };
        let mut message = Message::new()
            .with("name", &child.name)
            .with("uniqueid", numbers.unique)
            .with("reqid", numbers.request)
            .with("state", state)
            .with("mode", "TUNNEL")
            .with("protocol", "ESP");
        if child.is_encapsulated {
            message = message.with("encap", "yes");
        }
        message = message
            .with("spi-in", format_args!("{:08x}", child.own_spi))
            .with("spi-out", format_args!("{:08x}", child.peer_spi));
        message = with_groups(with_cipher(message, child.cipher, child.integrity), &child.groups);
        if child.has_extended_sequence_numbers {
            message = message.with("esn", 1);
        }
        message = message
            .with("bytes-in", child.received.bytes)
            .with("packets-in", child.received.packets)
            .with("bytes-out", child.sent.bytes)
            .with("packets-out", child.sent.packets);
        message = with_time(message, "rekey-time", child.rekey_at, now);
        message
            .with("install-time", seconds(child.made_at, now))
            .with_list("local-ts", child.local.iter().map(selector))
            .with_list("remote-ts", child.remote.iter().map(selector))
    }
}

/// The name of a child SA's section: that of its child, with its number.
pub(super) fn unique_name(child: &ChildDetail, numbers: ChildNumbers) -> String {
    format!("{}-{}", child.name, numbers.unique)
}

/// An IKE SA that this end initiates and that is not established yet, as a message of the event `list-sa`.
pub(super) fn connecting(sa: &Connecting, number: u32) -> Message {
    let [initiator, responder] = sa.spis.map(spi);
    let mut section = Message::new().with("uniqueid", number).with("version", 2).with("state", "CONNECTING");
    section = with_address(section, "local", sa.local).with("local-id", "%any");
    section = with_address(section, "remote", Some(sa.path.remote())).with("remote-id", "%any");
    section =
        section.with("initiator", "yes").with("initiator-spi", initiator).with("responder-spi", responder);
    Message::new().with_section(&sa.connection, section.with_section("child-sas", Message::new()))
}

fn spi(spi: Spi) -> String {
    format!("{:016x}", u64::from_be_bytes(spi.0))
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

/// The first key exchange and the additional ones, in their order.
fn with_groups<'a>(message: Message, groups: impl IntoIterator<Item = &'a Group>) -> Message {
    groups.into_iter().enumerate().fold(message, |message, (number, group)| {
        let name = if number == 0 { "dh-group".to_owned() } else { format!("ake{number}") };
        message.with(&name, names::group(*group))
    })
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

/// The addresses of an IKE SA.
pub(super) fn addresses(sa: &IkeSa) -> Message {
    let local = with_address(Message::new(), "local", sa.local);
    with_address(local, "remote", Some(sa.info.path.remote()))
}

#[cfg(test)]
pub(super) mod testing {
    use adit_core::{Path, PeerInfo};
    use adit_ike::machine::{DirectionCount, PeerDetail};
    use adit_ike::suite::{Group, IkeSuite};
    use adit_ike::wire::{IdType, Identification};

    use super::*;

    pub(crate) fn path(remote: &str) -> Path {
        Path::Udp { socket: 1, remote: remote.parse().expect("an address") }
    }

    /// An IKE SA of the connection `office` with the SPI `spi`, whose child SAs of the child `net` have the SPIs `children`.
    pub(crate) fn sa(spi: u8, children: &[u32]) -> IkeSa {
        let identity = |name: &str| Identification { kind: IdType::FQDN, data: name.as_bytes().to_vec() };
        let child = |own_spi: &u32| ChildDetail {
            name: "net".to_owned(),
            own_spi: *own_spi,
            peer_spi: 1000 + own_spi,
            cipher: Cipher::Aes256Gcm,
            integrity: None,
            groups: Vec::new(),
            has_extended_sequence_numbers: false,
            is_encapsulated: true,
            is_sealing: true,
            made_at: Instant::ORIGIN,
            rekey_at: None,
            local: Vec::new(),
            remote: Vec::new(),
            received: DirectionCount { packets: 1, bytes: u64::from(*own_spi) },
            sent: DirectionCount { packets: 2, bytes: 2 * u64::from(*own_spi) },
        };
        let detail = PeerDetail {
            connection: "office".to_owned(),
            own_inner: Vec::new(),
            peer_inner: Vec::new(),
            is_initiator: true,
            own_spi: Spi([spi; 8]),
            peer_spi: Spi([9; 8]),
            local_identity: identity("a.example"),
            remote_identity: identity("b.example"),
            ike_identity: None,
            suite: IkeSuite {
                cipher: Cipher::Aes256Gcm,
                integrity: None,
                prf: Digest::Sha384,
                group: Group::P384,
                additional: Vec::new(),
            },
            uses_ppk: false,
            is_behind_nat: false,
            is_peer_behind_nat: false,
            is_encapsulation_forced: false,
            made_at: Instant::ORIGIN,
            rekey_at: None,
            reauthentication_at: None,
            children: children.iter().map(child).collect(),
        };
        let info = PeerInfo {
            name: "office".to_owned(),
            path: path("192.0.2.1:4500"),
            addresses: Vec::new(),
            cipher: Cipher::Aes256Gcm,
            rekeys: 0,
            last_handshake: Instant::ORIGIN,
            since: Instant::ORIGIN,
            heard: Instant::ORIGIN,
            routes: Vec::new(),
            detail,
        };
        let numbers = children.iter().map(|spi| ChildNumbers { unique: *spi, request: 1 }).collect();
        IkeSa { peer: PeerId(0), number: 1, local: None, numbers, info }
    }
}

#[cfg(test)]
mod tests {
    use adit_ike::wire::{IdType, Identification};

    use super::*;

    #[test]
    fn what_is_shown_of_an_sa_stands_in_the_order_of_charon() {
        let mut sa = testing::sa(1, &[7]);
        sa.info.detail.ike_identity =
            Some(Identification { kind: IdType::FQDN, data: b"phone.example".to_vec() });
        (sa.info.detail.uses_ppk, sa.info.detail.is_encapsulation_forced) = (true, true);
        sa.info.detail.children[0].groups = vec![Group::P384, Group::MlKem768];
        let names = |message: &Message| {
            message.elements().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join(" ")
        };
        let section = sa.section(Instant::ORIGIN);
        assert_eq!(section.text("remote-id"), Some("phone.example"));
        assert_eq!(section.text("remote-eap-id"), Some("b.example"));
        let all = names(&section);
        for part in [
            "remote-id remote-eap-id initiator ",
            "nat-fake nat-any encr-alg",
            "prf-alg dh-group ppk established",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        let numbers = sa.numbers[0];
        let child = sa.child(numbers, &sa.info.detail.children[0], Instant::ORIGIN);
        assert!(names(&child).contains("encr-keysize dh-group ake1 bytes-in"), "{}", names(&child));
        assert_eq!(child.text("ake1"), Some("ML_KEM_768"));
        sa.info.detail.ike_identity = None;
        assert_eq!(sa.section(Instant::ORIGIN).text("remote-eap-id"), None);
    }
}

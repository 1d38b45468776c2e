//! Sessions that carry only some packets, by addresses, IP protocol and ports (RFC 4301 §4.4.1.1).
//!
//! A codec is wrapped in another one, which judges the packet before it is sealed and after it was opened. A session
//! without selectors is not wrapped, and pays nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use adit_core::{Instant, Selector};

use super::{NotInPlace, Opened, Opener, Place, Sealer, SessionCodec, Window};
use crate::counters::DropReason;
use crate::headers::{Address, Ip, TCP, UDP};

const DCCP: u8 = 33;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

impl SessionCodec {
    /// The same codec, which seals and opens only packets that one of the selectors matches; others count as
    /// [`DropReason::NotSelected`]. Messages of the protocol's own are not judged.
    #[must_use]
    pub fn with_selectors(self, selectors: impl Into<Arc<[Selector]>>) -> Self {
        let selectors: Arc<[Selector]> = selectors.into();
        SessionCodec {
            seal: Box::new(SelectingSealer { sealer: self.seal, selectors: Arc::clone(&selectors) }),
            open: Box::new(SelectingOpener { opener: self.open, selectors }),
            ..self
        }
    }
}

struct SelectingSealer {
    sealer: Box<dyn Sealer>,
    selectors: Arc<[Selector]>,
}

impl Sealer for SelectingSealer {
    #[inline]
    fn seal(&mut self, payload: &[u8], place: &mut Place<'_>) -> Result<(), DropReason> {
        judge(payload, |flow| self.selectors.iter().any(|selector| flow.is_from_local(selector)))?;
        self.sealer.seal(payload, place)
    }

    fn take_limit_near(&mut self) -> bool {
        self.sealer.take_limit_near()
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.sealer.set_mtu(mtu);
    }
}

struct SelectingOpener {
    opener: Box<dyn Opener>,
    selectors: Arc<[Selector]>,
}

impl Opener for SelectingOpener {
    /// A packet that is not selected is authentic all the same: it shows where the peer is.
    #[inline]
    fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, DropReason> {
        let mut opened = self.opener.open(datagram)?;
        let payload: &[u8] = match opened.payload.clone() {
            Ok(range) => datagram.get(range).unwrap_or_default(),
            Err(NotInPlace::Rebuilt) => self.opener.rebuilt(),
            Err(NotInPlace::Dropped(_) | NotInPlace::Incomplete) => return Ok(opened),
        };
        if let Err(reason) =
            judge(payload, |flow| self.selectors.iter().any(|selector| flow.is_from_remote(selector)))
        {
            opened.payload = Err(NotInPlace::Dropped(reason));
        }
        Ok(opened)
    }

    fn rebuilt(&mut self) -> &mut [u8] {
        self.opener.rebuilt()
    }

    fn tick(&mut self, now: Instant) {
        self.opener.tick(now);
    }

    fn limit_near(&self) -> bool {
        self.opener.limit_near()
    }

    fn take_window(&mut self) -> Option<Window> {
        self.opener.take_window()
    }

    fn adopt_window(&mut self, window: Window) {
        self.opener.adopt_window(window);
    }
}

/// Whether a payload is a packet that must not pass. Payloads that are no IP packets are messages.
#[inline]
fn judge(payload: &[u8], selected: impl FnOnce(&Flow) -> bool) -> Result<(), DropReason> {
    if !matches!(payload.first().map(|first| first >> 4), Some(4 | 6)) {
        return Ok(());
    }
    let flow = Flow::of(payload).ok_or(DropReason::Malformed)?;
    if selected(&flow) { Ok(()) } else { Err(DropReason::NotSelected) }
}

/// What selectors look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    source: IpAddr,
    destination: IpAddr,
    /// `None`: it is behind headers that are not understood, or in another fragment.
    protocol: Option<u8>,
    /// Source and destination. `None`: the packet has none, or is a fragment.
    ports: Option<(u16, u16)>,
}

impl Flow {
    #[inline]
    fn of(packet: &[u8]) -> Option<Flow> {
        let ip = Ip::parse(packet)?;
        let (protocol, ports) = match ip.transport(packet) {
            Some((protocol, offset)) => (Some(protocol), ports(packet.get(offset..ip.len)?, protocol)),
            None => ((!ip.is_v6()).then_some(ip.protocol), None),
        };
        Some(Flow { source: address(ip.source), destination: address(ip.destination), protocol, ports })
    }

    /// Whether it is selected as what we send.
    #[inline]
    fn is_from_local(&self, selector: &Selector) -> bool {
        let ports = self.ports;
        self.is_between((self.source, self.destination), ports, selector)
    }

    /// Whether it is selected as what the peer sends.
    #[inline]
    fn is_from_remote(&self, selector: &Selector) -> bool {
        let ports = self.ports.map(|(source, destination)| (destination, source));
        self.is_between((self.destination, self.source), ports, selector)
    }

    #[inline]
    fn is_between(
        &self,
        (local, remote): (IpAddr, IpAddr),
        ports: Option<(u16, u16)>,
        selector: &Selector,
    ) -> bool {
        let holds = |range: &RangeInclusive<u16>, port: Option<u16>| match port {
            Some(port) => range.contains(&port),
            None => *range == Selector::ANY_PORT,
        };
        selector.local.contains(&local)
            && selector.remote.contains(&remote)
            && selector.protocol.is_none_or(|protocol| self.protocol == Some(protocol))
            && holds(&selector.local_ports, ports.map(|(local, _)| local))
            && holds(&selector.remote_ports, ports.map(|(_, remote)| remote))
    }
}

fn address(address: Address) -> IpAddr {
    match address {
        Address::V4(bits) => Ipv4Addr::from_bits(bits).into(),
        Address::V6(bits) => Ipv6Addr::from_bits(bits).into(),
    }
}

fn ports(transport: &[u8], protocol: u8) -> Option<(u16, u16)> {
    match (protocol, transport) {
        (TCP | UDP | DCCP | SCTP | UDP_LITE, [a, b, c, d, ..]) => {
            Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use adit_core::{Cipher, DataEvent, Notice, PeerId, ReplayWindow};

    use super::*;
    use crate::Offload;
    use crate::tests::format;
    use crate::tests::packets::Flow as Packets;
    use crate::tests::world::{End, udp};

    fn selector(local: &str, remote: &str) -> Selector {
        Selector::between(local.parse().unwrap(), remote.parse().unwrap())
    }

    fn udp_from(source: u16, destination: u16) -> Flow {
        Flow {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            protocol: Some(UDP),
            ports: Some((source, destination)),
        }
    }

    #[test]
    fn addresses_protocol_and_ports_must_match() {
        let base = selector("10.0.0.1/32", "10.0.0.0/24");
        let with = |protocol, local_ports, remote_ports| Selector {
            protocol,
            local_ports,
            remote_ports,
            ..base.clone()
        };
        let any = || Selector::ANY_PORT;
        let flow = udp_from(500, 4500);
        for (selector, expected) in [
            (base.clone(), true),
            (selector("10.0.0.2/32", "10.0.0.0/24"), false),
            (selector("10.0.0.1/32", "10.0.1.0/24"), false),
            (selector("::/0", "::/0"), false),
            (with(Some(UDP), any(), any()), true),
            (with(Some(TCP), any(), any()), false),
            (with(None, 500..=500, any()), true),
            (with(None, 501..=u16::MAX, any()), false),
            (with(Some(UDP), any(), 4000..=4500), true),
            (with(Some(UDP), any(), 4000..=4499), false),
        ] {
            assert_eq!(flow.is_from_local(&selector), expected, "{selector:?}");
            let Flow { source, destination, protocol, ports } = flow;
            let ports = ports.map(|(source, destination)| (destination, source));
            let back = Flow { source: destination, destination: source, protocol, ports };
            assert_eq!(back.is_from_remote(&selector), expected, "{selector:?}");
        }
    }

    #[test]
    fn what_shows_no_ports_matches_all_ports_only() {
        let mut fragment = Packets::default().udp(b"first part");
        fragment[6] = 0x20;
        let icmp =
            [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[8; 8]].concat();
        for (packet, protocol) in [(fragment, UDP), (icmp, 1)] {
            let flow = Flow::of(&packet).unwrap();
            assert_eq!((flow.protocol, flow.ports), (Some(protocol), None));
            let any = selector("10.0.0.0/8", "10.0.0.0/8");
            assert!(flow.is_from_local(&any));
            assert!(flow.is_from_local(&Selector { protocol: Some(protocol), ..any.clone() }));
            assert!(!flow.is_from_local(&Selector { local_ports: 0..=u16::MAX - 1, ..any }));
        }
    }

    /// An end whose one peer has a session with these selectors.
    fn end(keys: (u8, u8), route: &str, selectors: &[Selector]) -> End {
        let (peer, id) = (PeerId(0), format::session_id(PeerId(0), 0));
        let mut end = End::new(format::client(), false);
        end.add_peer(peer, udp(2), &[route], None);
        let (cipher, replay) = (Cipher::ChaCha20Poly1305, ReplayWindow::default());
        let codec = format::session(format::named(0, 0), cipher, keys, replay);
        end.install_codec(peer, id, codec.with_selectors(selectors));
        end.apply(DataEvent::Activate { peer, session: id });
        end
    }

    #[test]
    fn both_directions_are_judged_and_counted() {
        let from_1000 = Selector { local_ports: 1000..=1000, ..selector("10.0.0.1/32", "10.0.0.2/32") };
        let to_53 =
            |to: &str| Selector { protocol: Some(UDP), local_ports: 53..=53, ..selector(to, "10.0.0.1/32") };
        let mut near = end((1, 2), "10.0.0.2/32", &[from_1000.clone(), from_1000]);
        let mut far = end((2, 1), "10.0.0.1/32", &[to_53("10.0.0.2/32")]);
        assert!(
            near.send(Offload::NONE, &Packets { source_port: 1001, ..Packets::default() }.udp(b"no"))
                .is_empty()
        );
        assert_eq!(near.dropped_out(DropReason::NotSelected), 1);

        let packet = Packets::default().udp(b"to port 53");
        let sealed = near.send_one(&packet);
        assert_eq!(far.receive(udp(2), &sealed, sealed.len()).packets, [packet]);
        // TCP to port 80 passes the selectors of one end, and not those of the other.
        let sealed = near.send_one(&Packets::default().tcp(1, 0x10, b"to port 80"));
        assert!(far.receive(udp(2), &sealed, sealed.len()).packets.is_empty());
        assert_eq!(far.dropped_in(DropReason::NotSelected), 1);
        // A message of the protocol's own is none of theirs.
        near.apply(DataEvent::Inject { peer: PeerId(0), payload: vec![0x20, 1] });
        let sealed = near.flush().pop().unwrap().2;
        let notices = far.receive(udp(2), &sealed, sealed.len()).notices;
        assert!(matches!(&notices[..], [Notice::Message { payload, .. }] if *payload == [0x20, 1]));
    }
}

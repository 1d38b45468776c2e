//! The server's session id as a cookie: a client that returns it has proved that it receives at its address,
//! and the server had nothing to remember. Sources: OpenVPN ssl_pkt.c (`calculate_session_id_hmac`,
//! `check_session_hmac_and_pkt_id`), mudp.c.

use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Instant, Path, SourcePrefix};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::wire::{SID_LEN, Sid};

/// Cookies of this many slots of time before the present one still hold.
const OLD_SLOTS: u64 = 2;

/// Makes and checks cookies.
pub(super) struct CookieMaker {
    /// HMAC-SHA256 that has taken in its secret, of which nothing else is left.
    mac: Hmac<Sha256>,
    slot: Duration,
}

impl CookieMaker {
    /// Cookies hold from one to one and a half `hand_window`s.
    pub(super) fn new(secret: Zeroizing<[u8; 32]>, hand_window: Duration) -> Self {
        let Ok(mac) = Hmac::new_from_slice(secret.as_slice()) else {
            unreachable!("HMAC takes keys of any length");
        };
        CookieMaker { mac, slot: (hand_window / 2).max(Duration::from_secs(1)) }
    }

    /// The session id we take for a client with that session id on that path.
    pub(super) fn make(&self, now: Instant, path: Path, client: Sid) -> Sid {
        self.for_slot(self.slot_of(now), path, client)
    }

    /// Whether we gave this cookie to that client, not long ago.
    pub(super) fn is_ours(&self, now: Instant, path: Path, client: Sid, cookie: Sid) -> bool {
        let present = self.slot_of(now);
        let slots = (0..=OLD_SLOTS).filter_map(|age| present.checked_sub(age));
        slots.fold(false, |found, slot| {
            found | bool::from(self.for_slot(slot, path, client).0.ct_eq(&cookie.0))
        })
    }

    /// Sixteen bits twice, by which a limit finds its counters for a source prefix. An outsider cannot predict them.
    pub(super) fn places(&self, source: SourcePrefix) -> [usize; 2] {
        self.places_of([b"limit", &source.octets(), &[]])
    }

    /// The counters of a packet.
    pub(super) fn places_of_packet(&self, packet: &[u8]) -> [usize; 2] {
        self.places_of([b"packet", packet, &[]])
    }

    fn places_of(&self, parts: [&[u8]; 3]) -> [usize; 2] {
        let digest = self.digest(parts);
        let place = |at| match digest.get(at..at + 2) {
            Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
            _ => 0,
        };
        [place(0), place(2)]
    }

    fn slot_of(&self, now: Instant) -> u64 {
        (now - Instant::ORIGIN).as_nanos().checked_div(self.slot.as_nanos()).unwrap_or(0) as u64
    }

    fn for_slot(&self, slot: u64, path: Path, client: Sid) -> Sid {
        let remote = path.remote();
        let socket = match path {
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => socket,
            Path::Tcp { connection, .. } => connection.0,
        };
        let mut place = Vec::with_capacity(32);
        place.extend_from_slice(&slot.to_be_bytes());
        place.extend_from_slice(&socket.to_be_bytes());
        place.extend_from_slice(&octets(remote.ip()));
        place.extend_from_slice(&remote.port().to_be_bytes());
        let digest = self.digest([b"cookie", &place, &client.0]);
        let mut sid = [0; SID_LEN];
        sid.iter_mut().zip(&digest).for_each(|(byte, from)| *byte = *from);
        // No session id may be zero.
        if !Sid(sid).is_defined() {
            sid = [1; SID_LEN];
        }
        Sid(sid)
    }

    fn digest(&self, parts: [&[u8]; 3]) -> [u8; 32] {
        let mut mac = self.mac.clone();
        parts.into_iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn path(text: &str) -> Path {
        Path::Udp { socket: 0, remote: text.parse().unwrap() }
    }

    fn maker() -> CookieMaker {
        CookieMaker::new(Zeroizing::new([7; 32]), WINDOW)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    // The times of OpenVPN's tests/unit_tests/openvpn/test_pkt.c (`test_verify_hmac_tls_crypt` and the like):
    // slots of 30 s, the present and two before, none of the future.
    #[test]
    fn a_cookie_holds_for_three_slots() {
        let (maker, path, client) = (maker(), path("192.0.2.1:5000"), Sid([3; 8]));
        let cookie = maker.make(at(1005), path, client);
        for (time, holds) in
            [(989, false), (990, true), (1005, true), (1049, true), (1079, true), (1080, false)]
        {
            assert_eq!(maker.is_ours(at(time), path, client, cookie), holds, "at {time} s");
        }
    }

    // Likewise, in its own figures: `hand-window` 30 s, the cookie made at 1000 s.
    #[test]
    fn a_cookie_holds_as_long_as_openvpns() {
        let maker = CookieMaker::new(Zeroizing::new([0; 32]), Duration::from_secs(30));
        let (path, client) = (path("1.2.3.4:0"), Sid([0xae, 0xb9, 0xaf, 0xe1, 0xf0, 0x1d, 0x79, 0xc8]));
        let cookie = maker.make(at(1000), path, client);
        for (time, holds) in [(980, false), (1040, false), (1002, true), (1022, true), (1010, true)] {
            assert_eq!(maker.is_ours(at(time), path, client, cookie), holds, "at {time} s");
        }
    }

    #[test]
    fn a_cookie_belongs_to_one_client_at_one_address() {
        let (maker, here, client) = (maker(), path("192.0.2.1:5000"), Sid([3; 8]));
        let cookie = maker.make(at(5), here, client);
        let elsewhere = Path::Udp { socket: 1, remote: here.remote() };
        assert!(!maker.is_ours(at(5), elsewhere, client, cookie));
        for other in ["192.0.2.1:5001", "192.0.2.2:5000", "[2001:db8::1]:5000"] {
            assert!(!maker.is_ours(at(5), path(other), client, cookie), "{other}");
        }
        assert!(!maker.is_ours(at(5), here, Sid([4; 8]), cookie));
        assert!(!maker.is_ours(at(5), here, client, Sid([9; 8])));
        let restarted = CookieMaker::new(Zeroizing::new([8; 32]), WINDOW);
        assert!(!restarted.is_ours(at(5), here, client, cookie));
    }

    #[test]
    fn neighbours_share_their_limit() {
        let place = |text: &str| maker().places(SourcePrefix::narrowest(text.parse().unwrap()));
        assert_eq!(place("2001:db8::1"), place("2001:db8::2:3:4:5"));
        assert_ne!(place("2001:db8::1"), place("2001:db8:0:1::1"));
        assert_eq!(place("192.0.2.1"), place("::ffff:192.0.2.1"));
        assert_ne!(place("192.0.2.1"), place("192.0.2.2"));
    }
}

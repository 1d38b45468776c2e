//! mac1, mac2 and cookies (whitepaper §5.3, §5.4.4, §5.4.7).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::Instant;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::crypto::{self, Hash, MAC_LEN, Refused, Secret, TAG_LEN, XNONCE_LEN, mac};
use crate::keys::PublicKey;
use crate::wire::{COOKIE_REPLY_LEN, CookieReply, WithMacs};

const LABEL_MAC1: &[u8] = b"mac1----";
const LABEL_COOKIE: &[u8] = b"cookie--";

/// How long the secret that cookies are made with lasts, and so a cookie.
pub(crate) const COOKIE_LIFETIME: Duration = Duration::from_secs(120);
/// How long a cookie is used: as long as it lasts, less the time that the reply took to come (as Linux:
/// `COOKIE_SECRET_LATENCY` in drivers/net/wireguard/messages.h).
const COOKIE_USE: Duration = Duration::from_secs(115);

/// The keys that follow from the public key of a message's receiver.
#[derive(Clone, Copy)]
pub(crate) struct ReceiverKeys {
    mac1: Hash,
    cookie: Hash,
}

impl ReceiverKeys {
    pub(crate) fn new(receiver: &PublicKey) -> Self {
        ReceiverKeys {
            mac1: crypto::hash(&[LABEL_MAC1, &receiver.0]),
            cookie: crypto::hash(&[LABEL_COOKIE, &receiver.0]),
        }
    }

    /// Whether the sender of a message knew the receiver's public key.
    pub(crate) fn mac1_verifies(&self, message: &impl WithMacs) -> bool {
        mac(&self.mac1, &[message.before_mac1()]).ct_eq(message.mac1()).into()
    }
}

/// The state that a sender keeps of one receiver.
#[derive(Default)]
pub(crate) struct SenderCookie {
    cookie: Option<(Zeroizing<[u8; MAC_LEN]>, Instant)>,
    /// mac1 of the last message: the only one that a cookie reply may answer.
    last_mac1: Option<[u8; MAC_LEN]>,
}

impl SenderCookie {
    /// Fills in both macs of a message that ends with them.
    pub(crate) fn add_macs(&mut self, now: Instant, keys: &ReceiverKeys, message: &mut [u8]) {
        let Some((rest, mac2_place)) = message.split_last_chunk_mut::<MAC_LEN>() else { return };
        let Some((body, mac1_place)) = rest.split_last_chunk_mut::<MAC_LEN>() else { return };
        let mac1 = mac(&keys.mac1, &[body]);
        *mac1_place = mac1;
        self.last_mac1 = Some(mac1);
        let cookie = self.usable(now);
        *mac2_place = cookie.map_or([0; MAC_LEN], |cookie| mac(cookie.as_slice(), &[rest]));
    }

    fn usable(&self, now: Instant) -> Option<&Zeroizing<[u8; MAC_LEN]>> {
        let (cookie, received) = self.cookie.as_ref()?;
        (now - *received < COOKIE_USE).then_some(cookie)
    }

    /// Whether the next message has a cookie.
    pub(crate) fn is_usable(&self, now: Instant) -> bool {
        self.usable(now).is_some()
    }

    /// Takes a cookie that answers the last message.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        keys: &ReceiverKeys,
        reply: &CookieReply<'_>,
    ) -> Result<(), Refused> {
        let answered = self.last_mac1.ok_or(Refused)?;
        let mut cookie = Zeroizing::new([0; MAC_LEN]);
        let sealed = reply.sealed_cookie();
        crypto::xopen(&keys.cookie, reply.nonce(), &answered, sealed, cookie.as_mut_slice())?;
        self.cookie = Some((cookie, now));
        self.last_mac1 = None;
        Ok(())
    }
}

/// The secret of a receiver's cookies.
pub(crate) struct CookieSecret {
    secret: Secret,
    made: Option<Instant>,
}

impl CookieSecret {
    pub(crate) fn new() -> Self {
        CookieSecret { secret: Secret::default(), made: None }
    }

    /// Makes a new secret of `random` if the old one has lived.
    pub(crate) fn refresh(&mut self, now: Instant, random: impl FnOnce(&mut [u8])) {
        if self.made.is_none_or(|made| now - made >= COOKIE_LIFETIME) {
            random(self.secret.as_mut_slice());
            self.made = Some(now);
        }
    }

    fn cookie(&self, source: SocketAddr) -> Zeroizing<[u8; MAC_LEN]> {
        let port = source.port().to_be_bytes();
        Zeroizing::new(match source.ip().to_canonical() {
            IpAddr::V4(address) => mac(self.secret.as_slice(), &[&address.octets(), &port]),
            IpAddr::V6(address) => mac(self.secret.as_slice(), &[&address.octets(), &port]),
        })
    }

    /// Whether the sender of a message receives datagrams at `source`.
    pub(crate) fn mac2_verifies(&self, now: Instant, source: SocketAddr, message: &impl WithMacs) -> bool {
        // Nothing to compute for senders that have no cookie yet, which may be many.
        if !message.has_mac2() {
            return false;
        }
        let is_alive = self.made.is_some_and(|made| now - made < COOKIE_LIFETIME);
        let expected = mac(self.cookie(source).as_slice(), &[message.before_mac2()]);
        is_alive && expected.ct_eq(message.mac2()).into()
    }

    /// The answer to a message without a valid mac2. `nonce` is random.
    pub(crate) fn reply(
        &self,
        keys: &ReceiverKeys,
        source: SocketAddr,
        message: &impl WithMacs,
        nonce: [u8; XNONCE_LEN],
    ) -> Result<[u8; COOKIE_REPLY_LEN], Refused> {
        let mut sealed = [0; MAC_LEN + TAG_LEN];
        let cookie = self.cookie(source);
        crypto::xseal(&keys.cookie, &nonce, message.mac1(), cookie.as_slice(), &mut sealed)?;
        Ok(CookieReply::write(message.sender(), &nonce, &sealed))
    }

    /// A keyed hash of a source, by which it is counted.
    pub(crate) fn places(&self, source: [u8; 16]) -> [usize; 2] {
        let [a, b, c, d, e, f, g, h, ..] = mac(self.secret.as_slice(), &[b"source", &source]);
        [u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Initiation, Message};

    const NOW: Instant = Instant::ORIGIN;

    fn at(seconds: u64) -> Instant {
        NOW + Duration::from_secs(seconds)
    }

    fn source(port: u16) -> SocketAddr {
        ([192, 168, 13, 37], port).into()
    }

    fn view(bytes: &[u8]) -> Initiation<'_> {
        match Message::parse(bytes) {
            Ok(Message::Initiation(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    /// The steps of wireguard-go device/cookie_test.go.
    #[test]
    fn a_cookie_proves_the_address_and_port() {
        let keys = ReceiverKeys::new(&PublicKey([7; 32]));
        let (mut sender, mut receiver) = (SenderCookie::default(), CookieSecret::new());
        receiver.refresh(NOW, |bytes| bytes.fill(3));
        let mut bytes = Initiation::write(0x0506_0708, &[1; 32], &[2; 48], &[3; 28]);
        sender.add_macs(NOW, &keys, &mut bytes);
        assert!(keys.mac1_verifies(&view(&bytes)));
        assert!(!receiver.mac2_verifies(NOW, source(10), &view(&bytes)));
        assert!(!ReceiverKeys::new(&PublicKey([8; 32])).mac1_verifies(&view(&bytes)), "for another receiver");

        let reply = receiver.reply(&keys, source(10), &view(&bytes), [9; 24]).expect("seals");
        let Ok(Message::CookieReply(reply)) = Message::parse(&reply) else { panic!("a cookie reply") };
        assert_eq!(reply.receiver(), 0x0506_0708);
        let mut other = SenderCookie::default();
        assert!(other.take(NOW, &keys, &reply).is_err(), "it answers nothing of theirs");
        sender.take(NOW, &keys, &reply).expect("the cookie of the last message");
        assert!(sender.take(NOW, &keys, &reply).is_err(), "it was answered");

        let mut bytes = Initiation::write(1, &[4; 32], &[5; 48], &[6; 28]);
        sender.add_macs(at(114), &keys, &mut bytes);
        assert!(receiver.mac2_verifies(at(119), source(10), &view(&bytes)));
        assert!(!receiver.mac2_verifies(at(119), source(11), &view(&bytes)), "another port");
        let elsewhere = SocketAddr::from(([192, 168, 13, 38], 10));
        assert!(!receiver.mac2_verifies(at(119), elsewhere, &view(&bytes)), "another address");
        let mapped = SocketAddr::from(([0, 0, 0, 0, 0, 0xffff, 0xc0a8, 0x0d25], 10));
        assert!(receiver.mac2_verifies(at(119), mapped, &view(&bytes)), "the same address, written as IPv6");
        assert!(!receiver.mac2_verifies(at(120), source(10), &view(&bytes)), "the secret is too old");
        bytes[5] ^= 0x20;
        assert!(!keys.mac1_verifies(&view(&bytes)));
        assert!(!receiver.mac2_verifies(NOW, source(10), &view(&bytes)));
        bytes[5] ^= 0x20;
        receiver.refresh(at(119), |_| panic!("the secret is still young"));
        receiver.refresh(at(120), |bytes| bytes.fill(4));
        assert!(!receiver.mac2_verifies(at(120), source(10), &view(&bytes)), "another secret");

        sender.add_macs(at(115), &keys, &mut bytes);
        assert_eq!(view(&bytes).mac2(), &[0; 16], "the cookie is too old");
    }
}

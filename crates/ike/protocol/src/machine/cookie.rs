//! Cookies of a responder (RFC 7296 section 2.6): nothing is kept of an initiator that has not returned one.

use std::time::Duration;

use adit_core::{Digest, Instant, Path};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::crypto::{Secret, prf};
use crate::wire::Spi;

/// How long a secret makes cookies. They are taken for as long again.
const PERIOD: Duration = Duration::from_secs(60);

/// The secret of which those of all periods are derived.
pub(crate) struct Cookies(Zeroizing<[u8; 32]>);

impl Cookies {
    pub(crate) fn new(fill: impl FnOnce(&mut [u8])) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        fill(secret.as_mut_slice());
        Cookies(secret)
    }

    /// The cookie for an initiator: of its address, its SPI and its nonce.
    pub(crate) fn make(&self, now: Instant, path: Path, spi: Spi, nonce: &[u8]) -> Secret {
        self.of_period(period(now), path, spi, nonce)
    }

    /// Whether this is the cookie of this period or the one before.
    pub(crate) fn verify(&self, now: Instant, path: Path, spi: Spi, nonce: &[u8], cookie: &[u8]) -> bool {
        let this = period(now);
        [Some(this), this.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|period| bool::from(self.of_period(period, path, spi, nonce).ct_eq(cookie)))
    }

    fn of_period(&self, period: u64, path: Path, spi: Spi, nonce: &[u8]) -> Secret {
        let address = match path.remote().ip().to_canonical() {
            std::net::IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            std::net::IpAddr::V6(address) => address.octets(),
        };
        let key = prf(Digest::Sha256, self.0.as_slice(), &[&period.to_be_bytes()]);
        prf(Digest::Sha256, &key, &[&address, &path.remote().port().to_be_bytes(), &spi.0, nonce])
    }
}

fn period(now: Instant) -> u64 {
    (now - Instant::ORIGIN).as_secs() / PERIOD.as_secs()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn path(last: u8) -> Path {
        Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, 2, last], 500)) }
    }

    #[test]
    fn a_cookie_belongs_to_its_initiator_and_to_its_time() {
        let cookies = Cookies::new(|secret| secret.fill(1));
        let at = |secs| Instant::ORIGIN + Duration::from_secs(secs);
        let cookie = cookies.make(at(70), path(1), Spi([1; 8]), b"nonce");
        let verify = |secs, last, spi, nonce: &[u8]| {
            cookies.verify(at(secs), path(last), Spi([spi; 8]), nonce, &cookie)
        };
        assert!(verify(70, 1, 1, b"nonce") && verify(179, 1, 1, b"nonce"));
        assert!(!verify(180, 1, 1, b"nonce") && !verify(59, 1, 1, b"nonce"));
        assert!(!verify(70, 2, 1, b"nonce") && !verify(70, 1, 2, b"nonce") && !verify(70, 1, 1, b"other"));
        let other = Cookies::new(|secret| secret.fill(2));
        assert!(!other.verify(at(70), path(1), Spi([1; 8]), b"nonce", &cookie));
    }
}

//! The inner networks of a new server.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::{SetupError, random};

/// The inner networks of a server: an IPv4 network of 24 bits, and an IPv6 network of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// The address of the IPv4 network.
    pub v4: Ipv4Addr,
    /// The address of the IPv6 network.
    pub v6: Ipv6Addr,
}

impl Networks {
    /// Chooses the networks at random, so that two VPNs, or a VPN and a home network, seldom collide.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn choose() -> Result<Self, SetupError> {
        let bytes = random::<9>()?;
        let [a, b, global @ .., s0, s1] = *bytes;
        // 10.64.0.0 upwards: below lie the networks that people number by hand.
        let v4 = Ipv4Addr::new(10, 64 + a % 191, b, 0);
        // A unique local prefix: fd, 40 random bits, a subnet (RFC 4193 §3.2).
        let mut v6 = [0u8; 16];
        v6[0] = 0xfd;
        v6[1..6].copy_from_slice(&global);
        v6[6..8].copy_from_slice(&[s0, s1]);
        Ok(Networks { v4, v6: Ipv6Addr::from(v6) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_private() {
        for _ in 0..64 {
            let text = format!("{:?}", Networks::choose().unwrap());
            assert!(text.contains("v4: 10.") && text.contains(".0, v6: fd"), "{text}");
        }
    }
}

//! Name servers in router advertisements (RFC 8106, section 5.1), as the kernel hands the option to programs
//! (linux/rtnetlink.h `struct nduseroptmsg`).

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// `RTM_NEWNDUSEROPT`.
const NEW_OPTION: u16 = 68;
/// The lengths of `struct nlmsghdr` and `struct nduseroptmsg`.
const HEADER: usize = 16;
const OPTION_HEADER: usize = 16;
/// The type of a router advertisement (RFC 4861, section 4.2), and of the option of name servers.
const ROUTER_ADVERTISEMENT: u8 = 134;
const NAME_SERVERS: u8 = 25;
/// The option's type, length, reserved bytes and lifetime.
const FIXED: usize = 8;

/// The name servers that a router named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advertised {
    /// The index of the device by which the advertisement came.
    pub(crate) device: u32,
    /// The name servers.
    pub(crate) servers: Vec<IpAddr>,
    /// How long they may be asked; zero: no longer.
    pub(crate) lifetime: Duration,
}

impl Advertised {
    /// Reads a message of the kernel's. `None` for every other message or option.
    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
        let (header, option) = message.get(HEADER..)?.split_at_checked(OPTION_HEADER)?;
        let device = u32::from_ne_bytes(header.get(4..8)?.try_into().ok()?);
        if kind != NEW_OPTION || header.get(8) != Some(&ROUTER_ADVERTISEMENT) {
            return None;
        }
        // The length is in units of eight bytes.
        let [NAME_SERVERS, length, ..] = *option else { return None };
        let (fixed, addresses) = option.get(..usize::from(length) * 8)?.split_at_checked(FIXED)?;
        let lifetime = u32::from_be_bytes(fixed.get(4..)?.try_into().ok()?);
        let (addresses, _) = addresses.as_chunks::<16>();
        let servers = addresses.iter().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets))).collect();
        Some(Advertised { device, servers, lifetime: Duration::from_secs(lifetime.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(option: &[u8]) -> Vec<u8> {
        let mut message = vec![0; HEADER + OPTION_HEADER];
        message[4..6].copy_from_slice(&NEW_OPTION.to_ne_bytes());
        message[20..24].copy_from_slice(&7_u32.to_ne_bytes());
        message[24] = ROUTER_ADVERTISEMENT;
        message.extend_from_slice(option);
        message
    }

    fn option(servers: &[&str]) -> Vec<u8> {
        let mut option = vec![NAME_SERVERS, 1 + 2 * servers.len() as u8, 0, 0, 0, 0, 0, 90];
        for server in servers {
            option.extend_from_slice(&server.parse::<Ipv6Addr>().unwrap().octets());
        }
        option
    }

    #[test]
    fn the_name_servers_of_a_router_are_read() {
        let servers = ["2001:db8::53", "2001:db8::54"];
        let read = Advertised::decode(&message(&option(&servers))).unwrap();
        let servers = servers.map(|server| server.parse().unwrap()).to_vec();
        assert_eq!(read, Advertised { device: 7, servers, lifetime: Duration::from_secs(90) });
    }

    #[test]
    fn what_is_no_such_option_is_passed_over() {
        let whole = message(&option(&["2001:db8::53"]));
        for length in 0..whole.len() {
            assert_eq!(Advertised::decode(&whole[..length]), None, "{length}");
        }
        for (at, value) in [(4, 16), (24, 136), (32, 31), (33, 9)] {
            let mut wrong = whole.clone();
            wrong[at] = value;
            assert_eq!(Advertised::decode(&wrong), None, "{at}");
        }
        assert_eq!(Advertised::decode(&message(&[NAME_SERVERS, 0])), None);
    }
}

//! Messages of stateless DHCPv6 (RFC 8415, section 18.2.6): a client asks for name servers and time servers, not for addresses.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Types of messages (RFC 8415, section 7.3).
const REPLY: u8 = 7;
const INFORMATION_REQUEST: u8 = 11;
/// How long an answer holds without a time of its own, and at least (RFC 8415, section 7.6: `IRT_DEFAULT`, `IRT_MINIMUM`).
const REFRESH: Duration = Duration::from_secs(86_400);
const SHORTEST_REFRESH: Duration = Duration::from_secs(600);
/// A router advertisement, and its flags "managed" and "other configuration" (RFC 4861, section 4.2).
const ROUTER_ADVERTISEMENT: u8 = 134;
const BY_DHCP: u8 = 0x80 | 0x40;

/// Numbers of options (RFC 8415, section 21; RFC 3646; RFC 4075).
mod option {
    pub(super) const CLIENT: u16 = 1;
    pub(super) const SERVER: u16 = 2;
    pub(super) const WANTED: u16 = 6;
    pub(super) const ELAPSED: u16 = 8;
    pub(super) const NAME_SERVERS: u16 = 23;
    pub(super) const TIME_SERVERS: u16 = 31;
    pub(super) const REFRESH: u16 = 32;
}

/// Whether a message of ICMPv6 is a router's advertisement that says that there is DHCPv6.
pub(crate) fn says_dhcp(message: &[u8]) -> bool {
    matches!(message, [ROUTER_ADVERTISEMENT, 0, _, _, _, flags, ..] if flags & BY_DHCP != 0)
}

/// The question of a device with that hardware address. The answer repeats `transaction`, of which 24 bits count.
pub(crate) fn question(transaction: u32, hardware: [u8; 6]) -> Vec<u8> {
    let mut message = (transaction & 0xff_ffff).to_be_bytes().to_vec();
    if let Some(kind) = message.first_mut() {
        *kind = INFORMATION_REQUEST;
    }
    put(&mut message, option::CLIENT, &client(hardware));
    put(&mut message, option::ELAPSED, &[0, 0]);
    let wanted = [option::NAME_SERVERS, option::TIME_SERVERS, option::REFRESH];
    put(&mut message, option::WANTED, &wanted.map(u16::to_be_bytes).concat());
    message
}

/// The client's number: one of a hardware address of Ethernet (RFC 8415, section 11.4).
fn client(hardware: [u8; 6]) -> Vec<u8> {
    [&[0, 3, 0, 1][..], &hardware].concat()
}

/// Adds an option of less than 64 KiB.
fn put(message: &mut Vec<u8>, option: u16, value: &[u8]) {
    message.extend_from_slice(&option.to_be_bytes());
    message.extend_from_slice(&(value.len() as u16).to_be_bytes());
    message.extend_from_slice(value);
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Name servers.
    pub(crate) name_servers: Vec<IpAddr>,
    /// Time servers.
    pub(crate) time_servers: Vec<IpAddr>,
    /// When to ask again.
    pub(crate) refresh: Duration,
}

impl Answer {
    /// The answer to that device's question; `None` for everything else.
    pub(crate) fn decode(message: &[u8], transaction: u32, hardware: [u8; 6]) -> Option<Self> {
        let (header, options) = message.split_first_chunk::<4>()?;
        let [kind, number @ ..] = *header;
        let is_ours = find(options, option::CLIENT) == Some(client(hardware).as_slice());
        // RFC 8415, section 16.10: a reply names its server.
        find(options, option::SERVER)?;
        if kind != REPLY || number != (transaction & 0xff_ffff).to_be_bytes()[1..] || !is_ours {
            return None;
        }
        let addresses = |option| {
            let (all, _) = find(options, option).unwrap_or_default().as_chunks::<16>();
            all.iter().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets))).collect()
        };
        let refresh = find(options, option::REFRESH).and_then(|value| value.try_into().ok());
        let refresh = refresh.map_or(REFRESH, |value| Duration::from_secs(u32::from_be_bytes(value).into()));
        Some(Answer {
            name_servers: addresses(option::NAME_SERVERS),
            time_servers: addresses(option::TIME_SERVERS),
            refresh: refresh.max(SHORTEST_REFRESH),
        })
    }
}

/// The value of the first option of that number.
fn find(mut options: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let ([n0, n1, l0, l1], rest) = options.split_first_chunk::<4>()?;
        let (value, behind) = rest.split_at_checked(u16::from_be_bytes([*l0, *l1]).into())?;
        if u16::from_be_bytes([*n0, *n1]) == wanted {
            return Some(value);
        }
        options = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const NUMBER: u32 = 0x0a_0b_0c;

    fn reply(more: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![REPLY, 0x0a, 0x0b, 0x0c];
        put(&mut message, option::CLIENT, &client(HARDWARE));
        put(&mut message, option::SERVER, &[0, 3, 0, 1, 1, 1, 1, 1, 1, 1]);
        more.iter().for_each(|(option, value)| put(&mut message, *option, value));
        message
    }

    #[test]
    fn a_question_names_its_device_and_what_it_wants() {
        let message = question(0xff0a_0b0c, HARDWARE);
        assert_eq!(message[..4], [INFORMATION_REQUEST, 0x0a, 0x0b, 0x0c]);
        assert_eq!(find(&message[4..], option::CLIENT), Some(client(HARDWARE).as_slice()));
        assert_eq!(find(&message[4..], option::WANTED), Some(&[0, 23, 0, 31, 0, 32][..]));
    }

    #[test]
    fn an_answer_has_servers_and_a_time() {
        let [name, time] = ["2001:db8::53", "2001:db8::123"].map(|text| text.parse::<Ipv6Addr>().unwrap());
        let message = reply(&[(23, &name.octets()), (31, &time.octets()), (32, &[0, 0, 4, 0])]);
        let answer = Answer::decode(&message, NUMBER, HARDWARE).unwrap();
        let wanted = Answer {
            name_servers: vec![name.into()],
            time_servers: vec![time.into()],
            refresh: Duration::from_secs(1024),
        };
        assert_eq!(answer, wanted);
        assert_eq!(Answer::decode(&reply(&[]), NUMBER, HARDWARE).unwrap().refresh, REFRESH);
        let soon = reply(&[(32, &[0, 0, 0, 1])]);
        assert_eq!(Answer::decode(&soon, NUMBER, HARDWARE).unwrap().refresh, SHORTEST_REFRESH);
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_passed_over() {
        let whole = reply(&[]);
        assert_eq!(Answer::decode(&whole, NUMBER + 1, HARDWARE), None);
        assert_eq!(Answer::decode(&whole, NUMBER, [1; 6]), None);
        assert_eq!(Answer::decode(&question(NUMBER, HARDWARE), NUMBER, HARDWARE), None);
        for length in 0..whole.len() {
            assert_eq!(Answer::decode(&whole[..length], NUMBER, HARDWARE), None, "{length}");
        }
    }

    #[test]
    fn a_routers_flags_say_whether_there_is_dhcp() {
        for (flags, expected) in [(0, false), (0x40, true), (0x80, true), (0x3f, false)] {
            assert_eq!(says_dhcp(&[134, 0, 0, 0, 64, flags, 0, 0]), expected, "{flags}");
        }
        assert!(!says_dhcp(&[133, 0, 0, 0, 64, 0x40]) && !says_dhcp(&[134, 0, 0, 0, 64]));
    }
}

//! Lowers the MSS that a TCP SYN announces, so that neither side sends segments that would not fit the
//! tunnel.

use crate::checksum;
use crate::headers::{Ip, TCP, TCP_HEADER};

const SYN: u8 = 0x02;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;

/// Clamps the MSS of a SYN to `max` (IPv4; IPv6: 20 less). Other packets are left alone. The packet's
/// TCP checksum must be complete; it is updated.
#[inline]
pub(crate) fn clamp(packet: &mut [u8], ip: &Ip, max: u16) {
    let Some((TCP, start)) = ip.transport(packet) else { return };
    let max = if ip.is_v6() { max.saturating_sub(20) } else { max };
    let Some(tcp) = packet.get_mut(start..ip.len) else { return };
    if tcp.len() >= TCP_HEADER && tcp[13] & SYN != 0 {
        clamp_options(tcp, max);
    }
}

fn clamp_options(tcp: &mut [u8], max: u16) {
    let header_len = usize::from(tcp[12] >> 4) * 4;
    if header_len < TCP_HEADER || header_len > tcp.len() {
        return;
    }
    let mut at = TCP_HEADER;
    while at < header_len {
        match tcp[at] {
            OPTION_END => return,
            OPTION_NOP => at += 1,
            kind => {
                let Some(len) = tcp.get(at + 1).map(|len| usize::from(*len)) else { return };
                if len < 2 || at + len > header_len {
                    return;
                }
                if kind == OPTION_MSS && len == 4 {
                    lower(tcp, at + 2, max);
                }
                at += len;
            }
        }
    }
}

fn lower(tcp: &mut [u8], at: usize, max: u16) {
    let old = u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    if old <= max {
        return;
    }
    tcp[at..at + 2].copy_from_slice(&max.to_be_bytes());
    let checksum = checksum::update([tcp[16], tcp[17]], old, max, at % 2 == 1);
    tcp[16..18].copy_from_slice(&checksum);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::packets::{self, Flow};

    fn syn(v6: bool, options: &[u8]) -> Vec<u8> {
        Flow { v6, options: options.to_vec(), ..Flow::default() }.tcp(1, SYN, b"")
    }

    fn mss_of(v6: bool, options: &[u8], at: usize, max: u16) -> u16 {
        let mut packet = syn(v6, options);
        let ip = Ip::parse(&packet).expect("valid");
        clamp(&mut packet, &ip, max);
        assert!(packets::checksums_ok(&packet), "the checksum follows");
        let start = ip.header_len + TCP_HEADER + at;
        u16::from_be_bytes([packet[start], packet[start + 1]])
    }

    #[test]
    fn lowers_but_never_raises() {
        let options = [2, 4, 0x05, 0xb4];
        assert_eq!(mss_of(false, &options, 2, 1400), 1400);
        assert_eq!(mss_of(false, &options, 2, 1460), 1460);
        assert_eq!(mss_of(false, &options, 2, 9000), 1460);
        assert_eq!(mss_of(true, &options, 2, 1400), 1380, "IPv6 headers are 20 longer");
    }

    #[test]
    fn finds_the_option_at_odd_offsets() {
        assert_eq!(mss_of(false, &[1, 2, 4, 0x05, 0xb4, 1, 1, 1], 3, 1400), 1400);
        assert_eq!(mss_of(true, &[3, 3, 7, 2, 4, 0x22, 0x00, 0], 5, 1000), 980);
    }

    #[test]
    fn leaves_data_packets_alone() {
        let mut packet = Flow { options: vec![2, 4, 0x05, 0xb4], ..Flow::default() }.tcp(1, 0x10, b"data");
        let before = packet.clone();
        let ip = Ip::parse(&packet).expect("valid");
        clamp(&mut packet, &ip, 500);
        assert_eq!(packet, before);
    }

    proptest! {
        #[test]
        fn any_options_keep_the_checksum(v6: bool, units in 0usize..10, bytes: [u8; 40], max: u16) {
            let mut packet = syn(v6, &bytes[..units * 4]);
            let len = packet.len();
            let ip = Ip::parse(&packet).expect("valid");
            clamp(&mut packet, &ip, max);
            prop_assert_eq!(packet.len(), len);
            prop_assert!(packets::checksums_ok(&packet));
        }
    }
}

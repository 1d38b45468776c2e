//! PSH of merged packets.

use super::*;

/// The packets of a merged one as cutting gives them: if any had PSH, the last has it, and no other.
pub(super) fn collapsed(mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let Some(last) = packets.len().checked_sub(1).filter(|last| *last > 0) else { return packets };
    if flow_of(&packets[0]).1 != TCP {
        return packets;
    }
    let any = packets.iter().any(|packet| packet[flags_at(packet)] & PSH != 0);
    for (index, packet) in packets.iter_mut().enumerate() {
        set_push(packet, any && index == last);
    }
    packets
}

/// Where TCP's flags are. Merged packets have no IP options and no extension headers.
fn flags_at(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 6 { 53 } else { 33 }
}

/// Sets or clears PSH, and the checksum with it (RFC 1624).
fn set_push(packet: &mut [u8], push: bool) {
    let at = flags_at(packet);
    let flags = if push { packet[at] | PSH } else { packet[at] & !PSH };
    let (old, new) = (u16::from(packet[at]), u16::from(flags));
    packet[at] = flags;
    let checksum = &mut packet[at + 3..at + 5];
    let sum = u32::from(!u16::from_be_bytes([checksum[0], checksum[1]])) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    checksum.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Linux sets PSH at the end of each super-packet; a batch of datagrams holds the end of one and the beginning of the next.
#[test]
fn a_flow_is_merged_across_psh() {
    for v6 in [false, true] {
        let mut sender = Sender::new(1, v6, true);
        let sent: Vec<Vec<u8>> =
            (0..45).map(|index| sender.data(1368, if index == 5 { ACK | PSH } else { ACK })).collect();
        let merged = check(MergePolicy::Tcp, &sent);
        assert_eq!(merged.len(), 1);
        let packet = &merged[0].1;
        assert_eq!(packet[flags_at(packet)], ACK | PSH, "delivery is asked for at the end of all");
    }
}

#[test]
fn without_psh_none_is_set() {
    let mut sender = Sender::new(1, false, true);
    let sent: Vec<Vec<u8>> = (0..3).map(|_| sender.data(100, ACK)).collect();
    let merged = check(MergePolicy::Tcp, &sent);
    assert_eq!((merged.len(), merged[0].1[33]), (1, ACK));
}

/// The last write of a sender is shorter: the bytes after it are a packet of their own, PSH or not.
#[test]
fn a_shorter_packet_ends_a_run() {
    let mut sender = Sender::new(1, false, true);
    let sent = [
        sender.data(100, ACK),
        sender.data(60, ACK | PSH),
        sender.data(100, ACK | PSH),
        sender.data(100, ACK | PSH),
    ];
    let lens: Vec<usize> = check(MergePolicy::Tcp, &sent).iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(lens, [40 + 160, 40 + 200]);
}

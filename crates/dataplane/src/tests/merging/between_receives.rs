//! The packets that stay open between two receives, and those that do not.

use super::*;

/// Puts one of the packets of 140 bytes that lie in the buffer in a row into the receive batch.
fn put(receive_batch: &mut ReceiveBatch, buffer: &[u8], index: usize) {
    let range = index * 140..(index + 1) * 140;
    let ip = Ip::parse(&buffer[range.clone()]).expect("an IP packet");
    receive_batch.push_packet(portable, buffer, range, &ip);
}

fn pieces(receive_batch: &ReceiveBatch) -> Vec<Vec<(usize, usize)>> {
    receive_batch
        .packets()
        .map(|packet| packet.pieces().map(|piece| (piece.start, piece.end)).collect())
        .collect()
}

#[test]
fn finished_packets_do_not_grow() {
    let mut sender = Sender::new(1, false, true);
    let mut receive_batch = ReceiveBatch::new(MergePolicy::Tcp);
    let mut buffer = [sender.data(100, ACK), sender.data(100, ACK)].concat();
    for index in 0..2 {
        put(&mut receive_batch, &buffer, index);
        receive_batch.finish(&mut buffer);
    }
    assert_eq!(pieces(&receive_batch), [[(0, 140)], [(140, 280)]]);
}

#[test]
fn a_run_left_open_goes_on_in_the_next_receive() {
    let mut sender = Sender::new(1, false, true);
    let mut other = Sender::new(2, false, true);
    let sent = [
        other.data(100, ACK | PSH),
        sender.data(100, ACK),
        sender.data(100, ACK),
        sender.data(100, ACK),
        sender.data(100, ACK | PSH),
        sender.data(100, ACK),
    ];
    let mut receive_batch = ReceiveBatch::new(MergePolicy::Tcp);
    let mut buffer = sent.concat();
    let mut written = Vec::new();
    // Three receives of two packets each.
    for first in [0, 2, 4] {
        put(&mut receive_batch, &buffer, first);
        put(&mut receive_batch, &buffer, first + 1);
        let kept = receive_batch.finish_but_newest(&mut buffer);
        assert_eq!(kept, [Some(140..280), Some(140..560), None][first / 2], "PSH asks for delivery at once");
        written.extend(pieces(&receive_batch));
        receive_batch.clear();
    }
    receive_batch.finish(&mut buffer);
    written.extend(pieces(&receive_batch));
    receive_batch.clear();
    assert!(receive_batch.is_empty());
    assert_eq!(written, [vec![(0, 140)], vec![(140, 280), (320, 420), (460, 560), (600, 700), (740, 840)]]);
}

#[test]
fn a_run_that_ends_or_carries_psh_is_not_left_open() {
    let mut sender = Sender::new(1, false, true);
    let last = [sender.data(100, ACK | PSH), sender.flow.tcp(sender.sequence, ACK, b"")];
    for packet in last {
        let mut receive_batch = ReceiveBatch::new(MergePolicy::Tcp);
        let ip = Ip::parse(&packet).expect("an IP packet");
        let mut buffer = packet;
        receive_batch.push_packet(portable, &buffer, 0..buffer.len(), &ip);
        assert_eq!(receive_batch.finish_but_newest(&mut buffer), None);
        assert_eq!(receive_batch.packets().count(), 1);
    }
}

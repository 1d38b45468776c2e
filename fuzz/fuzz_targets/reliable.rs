//! The reliability layer between two ends: whatever is lost, doubled, delayed or forged, what arrives is a
//! prefix of what was sent.
#![no_main]

use std::time::Duration;

use adit_core::Instant;
use adit_openvpn::reliable::{Accept, AckQueue, ReceiveWindow, SEND_WINDOW, SendWindow};
use adit_openvpn::wire::Opcode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut now = Instant::ORIGIN;
    let (mut sender, mut receiver) = (SendWindow::new(), ReceiveWindow::new(0));
    let mut acks = AckQueue::new();
    let mut on_the_way: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut sent = 0u32;
    let mut arrived = 0u32;
    for pair in data.chunks_exact(2) {
        let [step, value] = [pair[0], pair[1]];
        match step % 7 {
            0 => {
                let id = sender.push(now, Opcode::Control, sent.to_be_bytes().to_vec());
                assert_eq!(id, sent);
                sent += 1;
            }
            1 => {
                if let Some(packet) = sender.poll(now) {
                    assert!(packet.id < arrived + SEND_WINDOW);
                    on_the_way.push((packet.id, packet.payload.to_vec()));
                }
            }
            2 if !on_the_way.is_empty() => {
                let index = usize::from(value) % on_the_way.len();
                let (id, payload) = on_the_way[index].clone();
                if value & 0x80 != 0 {
                    on_the_way.remove(index);
                }
                assert_ne!(receiver.accept(id, Opcode::Control, payload), Accept::OutOfWindow);
                acks.push(id);
            }
            3 if !on_the_way.is_empty() => {
                on_the_way.remove(usize::from(value) % on_the_way.len());
            }
            4 => sender.acknowledge(now, &acks.take(usize::from(value))),
            // An id that was never sent.
            5 => sender.acknowledge(now, &[sent.wrapping_add(u32::from(value))]),
            _ => now += Duration::from_millis(u64::from(value) * 40),
        }
        while let Some(packet) = receiver.pop() {
            assert_eq!(packet.payload, arrived.to_be_bytes());
            assert_eq!(packet.id, arrived);
            arrived += 1;
        }
        assert!(arrived <= sent);
        assert_eq!(sender.poll_timeout().is_none(), sender.is_empty());
    }
});

//! VICI's packets: they decode the same after they were encoded, and a connection gives the same packets however its bytes arrive.
//! The first byte is the length of the pieces.
#![no_main]

use adit_ike_vici::{Packet, Reader, StreamError};
use libfuzzer_sys::fuzz_target;

fn packets(bytes: &[u8], piece: usize) -> (Vec<Packet>, Option<StreamError>) {
    let (mut reader, mut found) = (Reader::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        reader.push(piece);
        loop {
            match reader.next_packet() {
                Ok(Some(packet)) => found.push(packet),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    if let Ok(packet) = Packet::decode(bytes) {
        let encoded = packet.encode().expect("its lengths were read");
        assert_eq!(encoded[4..], *bytes);
        assert_eq!(Packet::decode(&encoded[4..]), Ok(packet));
    }
    assert_eq!(packets(bytes, usize::from(piece).max(1)), packets(bytes, bytes.len().max(1)));
});

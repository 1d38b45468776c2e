//! TLS messages in several packets of EAP-TLS (RFC 5216 section 2.1.5).

use super::packet::Packet;

/// Most bytes of a TLS message: all that one end sends before the other end's turn. Chains of several certificates fit in.
pub const MAX_MESSAGE: usize = 32 << 10;
/// Most bytes of TLS in a packet that this end sends.
const FRAGMENT: usize = 1024;

/// A message of the other end, until its last fragment has come.
#[derive(Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    total: Option<usize>,
}

impl Incoming {
    /// Takes a packet. Gives the message, if the packet was its last one.
    ///
    /// # Errors
    /// The lengths of the packets contradict each other, or the message is too long.
    pub(super) fn add(&mut self, packet: &Packet<'_>) -> Result<Option<Vec<u8>>, String> {
        if let Some(total) = packet.total {
            if total > MAX_MESSAGE {
                return Err(format!("a TLS message of {total} bytes, at most {MAX_MESSAGE} are taken"));
            }
            if *self.total.get_or_insert(total) != total {
                return Err("fragments of a TLS message with different lengths of the whole".to_owned());
            }
        }
        if packet.has_more && (packet.data.is_empty() || self.total.is_none()) {
            return Err(
                "a fragment of a TLS message without bytes, or without the length of the whole".to_owned()
            );
        }
        self.bytes.extend_from_slice(packet.data);
        let is_complete = self.total.is_none_or(|total| total == self.bytes.len());
        let is_over = self.total.is_some_and(|total| total < self.bytes.len());
        if is_over || !packet.has_more && !is_complete {
            return Err("fragments of a TLS message that are not as long as the whole".to_owned());
        }
        if packet.has_more {
            return Ok(None);
        }
        self.total = None;
        Ok(Some(std::mem::take(&mut self.bytes)))
    }
}

/// A message of this end, until its last fragment was sent.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// The first packet of a message.
    pub(super) fn begin(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        *self = Outgoing { bytes, sent: 0 };
        self.packet()
    }

    /// The next packet, if there are further ones.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        (self.sent < self.bytes.len()).then(|| self.packet())
    }

    fn packet(&mut self) -> Vec<u8> {
        let left = self.bytes.get(self.sent..).unwrap_or_default();
        let data = left.get(..FRAGMENT).unwrap_or(left);
        let has_more = data.len() < left.len();
        let total = (self.sent == 0 && has_more).then_some(self.bytes.len());
        let packet = Packet { is_start: false, has_more, total, data }.encode();
        self.sent += data.len();
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(incoming: &mut Incoming, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        incoming.add(&Packet::decode(bytes)?)
    }

    #[test]
    fn a_message_goes_through_in_fragments() {
        for length in [1, FRAGMENT, FRAGMENT + 1, 3 * FRAGMENT, MAX_MESSAGE] {
            let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (mut outgoing, mut incoming) = (Outgoing::default(), Incoming::default());
            let mut packet = outgoing.begin(message.clone());
            let mut count = 1;
            let received = loop {
                assert!(packet.len() <= 5 + FRAGMENT);
                if let Some(received) = add(&mut incoming, &packet).unwrap() {
                    break received;
                }
                packet = outgoing.next().unwrap();
                count += 1;
            };
            assert!(received == message && outgoing.next().is_none());
            assert_eq!(count, length.div_ceil(FRAGMENT));
        }
    }

    #[test]
    fn lengths_that_contradict_each_other_are_refused() {
        let refused = |packets: &[&[u8]]| {
            let mut incoming = Incoming::default();
            let (last, before) = packets.split_last().unwrap();
            before.iter().for_each(|packet| assert_eq!(add(&mut incoming, packet), Ok(None)));
            add(&mut incoming, last).unwrap_err()
        };
        assert!(refused(&[&[0x80, 0, 0, 0x80, 1, 7]]).contains("32769 bytes"));
        assert!(refused(&[&[0x80, 0xff, 0xff, 0xff, 0xff, 7]]).contains("4294967295 bytes"));
        for packets in [
            &[&[0x40, 7][..]][..],
            &[&[0xc0, 0, 0, 0, 9]],
            &[&[0x80, 0, 0, 0, 2, 7]],
            &[&[0x80, 0, 0, 0, 0, 7]],
            &[&[0xc0, 0, 0, 0, 2, 7], &[0xc0, 0, 0, 0, 3, 7]],
            &[&[0xc0, 0, 0, 0, 2, 7], &[0x40, 7, 7]],
            &[&[0xc0, 0, 0, 0, 2, 7], &[0x40]],
            &[&[0xc0, 0, 0, 0, 3, 7], &[0, 7]],
        ] {
            refused(packets);
        }
    }

    #[test]
    fn each_fragment_may_have_the_length() {
        let mut incoming = Incoming::default();
        assert_eq!(add(&mut incoming, &[0xc0, 0, 0, 0, 3, 7, 8]), Ok(None));
        assert_eq!(add(&mut incoming, &[0x80, 0, 0, 0, 3, 9]), Ok(Some(vec![7, 8, 9])));
        assert_eq!(add(&mut incoming, &[0, 1]), Ok(Some(vec![1])), "the next message");
    }
}

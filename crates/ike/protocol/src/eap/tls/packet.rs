//! Packets of EAP-TLS (RFC 5216 section 3).

/// The packet has the length of the whole TLS message.
const LENGTH: u8 = 0x80;
/// Further packets of the TLS message follow.
const MORE: u8 = 0x40;
/// The request that begins the method.
const START: u8 = 0x20;
/// An empty packet, which acknowledges a fragment or the end of the handshake.
pub(super) const ACKNOWLEDGEMENT: [u8; 1] = [0];
/// The first packet of the method.
pub(super) const BEGIN: [u8; 1] = [START];

/// A packet of EAP-TLS, behind the type of EAP.
pub(super) struct Packet<'a> {
    pub(super) is_start: bool,
    pub(super) has_more: bool,
    /// The length of the whole TLS message.
    pub(super) total: Option<usize>,
    pub(super) data: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The packet in these bytes. Reserved flags are ignored, as the RFC demands.
    ///
    /// # Errors
    /// The packet is cut short.
    pub(super) fn decode(data: &'a [u8]) -> Result<Self, String> {
        let (flags, rest) = data.split_first().ok_or("a packet of EAP-TLS without flags")?;
        let (total, data) = if flags & LENGTH == 0 {
            (None, rest)
        } else {
            let (length, data) = rest.split_first_chunk().ok_or("a packet of EAP-TLS without its length")?;
            (Some(usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX)), data)
        };
        Ok(Packet { is_start: flags & START != 0, has_more: flags & MORE != 0, total, data })
    }

    /// The bytes of the packet.
    pub(super) fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags =
            flag(self.total.is_some(), LENGTH) | flag(self.has_more, MORE) | flag(self.is_start, START);
        let mut bytes = vec![flags];
        bytes.extend(self.total.into_iter().flat_map(|total| (total as u32).to_be_bytes()));
        bytes.extend_from_slice(self.data);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_the_rfc() {
        for (bytes, is_start, has_more, total, data) in [
            (&[0x20][..], true, false, None, &[][..]),
            (&[0], false, false, None, &[]),
            (&[0xc0, 0, 0, 8, 1, 22, 3], false, true, Some(0x801), &[22, 3]),
            (&[0x40, 9], false, true, None, &[9]),
        ] {
            let packet = Packet::decode(bytes).unwrap();
            assert_eq!((packet.is_start, packet.has_more, packet.total), (is_start, has_more, total));
            assert_eq!((packet.data, packet.encode().as_slice()), (data, bytes));
        }
        assert!(Packet::decode(&[0x1f, 7]).is_ok_and(|packet| !packet.is_start && packet.data == [7]));
        for short in [&[][..], &[0x80], &[0x80, 0, 0, 1]] {
            assert!(Packet::decode(short).is_err(), "{short:?}");
        }
    }
}

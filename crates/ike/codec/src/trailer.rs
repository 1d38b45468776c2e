//! The end of the plaintext: padding, its length, and the next header (RFC 4303 sections 2.4 to 2.7).

use std::ops::Range;

use adit_dataplane::DropReason;

/// Length of the padding, and next header.
const FIXED: usize = 2;

const IPV4: u8 = 4;
const IPV6: u8 = 41;
/// No next header: a dummy packet.
const DUMMY: u8 = 59;

/// Bytes of a plaintext that has a payload of that length, and is a multiple of `align` bytes.
#[inline]
pub(crate) fn padded(payload_len: usize, align: usize) -> usize {
    (payload_len + FIXED).next_multiple_of(align)
}

/// Writes a payload and its trailer. `None` if the text has not the length that [`padded`] gave.
#[inline]
pub(crate) fn write(payload: &[u8], text: &mut [u8]) -> Option<()> {
    let (body, rest) = text.split_at_mut_checked(payload.len())?;
    let (padding, fixed) = rest.split_last_chunk_mut::<FIXED>()?;
    body.copy_from_slice(payload);
    let len = u8::try_from(padding.len()).ok()?;
    padding.iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
    *fixed = [len, next_header(payload)];
    Some(())
}

/// The next header of a payload.
#[inline]
fn next_header(payload: &[u8]) -> u8 {
    match payload.first().map(|first| first >> 4) {
        Some(4) => IPV4,
        Some(6) => IPV6,
        _ => DUMMY,
    }
}

/// Takes the packet out of a plaintext that was authenticated. What follows the packet for the confidentiality of its length
/// (RFC 4303 section 2.7) stays; the packet's own header says where it ends. Of a dummy packet nothing is left.
///
/// # Errors
/// [`DropReason::Malformed`]: the padding is not 1, 2, 3, ..., or the next header is none of tunnel mode, or not that of the
/// packet's version.
#[inline]
pub(crate) fn take_off(datagram: &[u8], text: Range<usize>) -> Result<Range<usize>, DropReason> {
    let bytes = datagram.get(text.clone()).ok_or(DropReason::Malformed)?;
    let (rest, [len, next]) = bytes.split_last_chunk::<FIXED>().ok_or(DropReason::Malformed)?;
    let end = rest.len().checked_sub(usize::from(*len)).ok_or(DropReason::Malformed)?;
    let (payload, padding) = rest.split_at(end);
    if !padding.iter().zip(1..).all(|(byte, number)| *byte == number) {
        return Err(DropReason::Malformed);
    }
    match (*next, payload.first().map(|first| first >> 4)) {
        (IPV4, Some(4)) | (IPV6, Some(6)) => Ok(text.start..text.start + end),
        (DUMMY, _) => Ok(text.start..text.start),
        _ => Err(DropReason::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken_off(text: &[u8]) -> Result<Vec<u8>, DropReason> {
        take_off(text, 0..text.len()).map(|range| text[range].to_vec())
    }

    #[test]
    fn trailers_are_as_rfc_4303_has_them() {
        let mut text = vec![0xff; padded(5, 4)];
        write(&[0x45, 1, 2, 3, 4], &mut text).expect("as long");
        assert_eq!(text, [0x45, 1, 2, 3, 4, 1, 1, 4]);
        let mut text = vec![0xff; padded(3, 16)];
        write(&[0x60, 1, 2], &mut text).expect("as long");
        assert_eq!(text, [0x60, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 41]);
        let mut text = vec![0xff; padded(0, 4)];
        write(&[], &mut text).expect("as long");
        assert_eq!(text, [1, 2, 2, 59]);
    }

    #[test]
    fn dummy_packets_leave_nothing() {
        assert_eq!(taken_off(&[9, 9, 1, 2, 2, 59]), Ok(Vec::new()));
        assert_eq!(taken_off(&[0x45, 9, 0, 59]), Ok(Vec::new()), "whatever is in them");
    }

    #[test]
    fn trailers_that_are_none_are_refused() {
        for text in [
            &[][..],
            &[4],
            &[0, 4],
            &[0x45, 2, 2, 4],
            &[0x45, 0, 0, 2, 4],
            &[0x45, 2, 1, 2, 4],
            &[0x45, 1, 2, 9, 4],
            // Another version than the next header, transport mode, and no packet.
            &[0x45, 0, 41],
            &[0x60, 0, 4],
            &[0x45, 0, 6],
            &[0x25, 0, 4],
        ] {
            assert_eq!(taken_off(text), Err(DropReason::Malformed), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn packets_come_out_as_they_went_in(version in prop_oneof![Just(4u8), Just(6)], rest: Vec<u8>) {
            let packet = [vec![version << 4], rest].concat();
            for align in [4, 16] {
                let mut text = vec![0xaa; padded(packet.len(), align)];
                prop_assert_eq!(text.len() % align, 0);
                write(&packet, &mut text).expect("as long");
                prop_assert_eq!(taken_off(&text), Ok(packet.clone()));
            }
        }

        #[test]
        fn any_text_is_taken_or_refused(text: Vec<u8>) {
            if let Ok(range) = take_off(&text, 0..text.len()) {
                prop_assert!(range.end <= text.len());
            }
        }
    }
}

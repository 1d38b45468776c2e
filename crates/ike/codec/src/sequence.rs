//! Sequence numbers: 32 bits, or 64 of which the lower half is sent (RFC 4303 section 2.2.1).

use adit_dataplane::DropReason;
use adit_dataplane::codec::Window;

/// The length of the sequence numbers of a child SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// 32 bits.
    Short,
    /// 64 bits.
    Extended,
}

impl Sequence {
    pub(crate) fn new(is_extended: bool) -> Self {
        if is_extended { Sequence::Extended } else { Sequence::Short }
    }

    /// The sequence number whose lower half was received.
    ///
    /// # Errors
    /// It is 0, which no packet has.
    #[inline]
    pub(crate) fn infer(self, low: u32, seen: &Window) -> Result<u64, DropReason> {
        let number = match self {
            Sequence::Short => u64::from(low),
            Sequence::Extended => seen.infer(low),
        };
        if number == 0 { Err(DropReason::Malformed) } else { Ok(number) }
    }
}

/// The upper half of a sequence number, as it is authenticated.
#[inline]
pub(crate) fn high(number: u64) -> [u8; 4] {
    ((number >> 32) as u32).to_be_bytes()
}

/// The lower half, as it is sent.
#[inline]
pub(crate) fn low(number: u64) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

//! A cursor over the bytes of a message, and the errors of decoding.

use thiserror::Error;

use super::registry::PayloadType;

/// The reason why a message cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("byte {at}: {fault}")]
pub struct DecodeError {
    /// Number of the byte, counted from the start of what was decoded.
    pub at: usize,
    /// The fault at that byte.
    pub fault: Fault,
}

/// A fault in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Fewer bytes are left than the field has.
    #[error("{what} takes {needed} bytes, {left} are left")]
    Short {
        /// The field.
        what: &'static str,
        /// Bytes of the field.
        needed: usize,
        /// Bytes that are left in what encloses the field.
        left: usize,
    },
    /// Bytes follow the last field.
    #[error("{left} bytes follow the end of {what}")]
    Long {
        /// The structure that ended.
        what: &'static str,
        /// Bytes behind its end.
        left: usize,
    },
    /// The value of a field is not allowed.
    #[error("{what} is {is}, allowed is {allowed}")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value.
        is: u32,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// There are more items than the limit.
    #[error("more than {limit} {what}")]
    TooMany {
        /// The items.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The major version is higher than 2 (RFC 7296 section 2.5).
    #[error("the major version is {0}, known is 2")]
    MajorVersion(u8),
    /// A payload of an unknown kind is critical (RFC 7296 section 2.5).
    #[error("payload {0} is critical and not known")]
    Critical(PayloadType),
    /// A payload stands where it may not stand.
    #[error("payload {0} may not stand here")]
    Misplaced(PayloadType),
}

/// A cursor that never goes beyond its bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`, the first of which has the number `at`.
    pub(super) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Reader { bytes, at }
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) const fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn fail<T>(&self, fault: Fault) -> Result<T, DecodeError> {
        Err(DecodeError { at: self.at, fault })
    }

    pub(super) fn take(&mut self, what: &'static str, needed: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(needed) else {
            return self.fail(Fault::Short { what, needed, left: self.left() });
        };
        self.bytes = rest;
        self.at += needed;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let at = self.at;
        let taken = self.take(what, N)?;
        taken
            .try_into()
            .map_err(|_| DecodeError { at, fault: Fault::Short { what, needed: N, left: taken.len() } })
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array(what).map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// All that is left.
    pub(super) const fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes;
        self.at += rest.len();
        self.bytes = &[];
        rest
    }

    /// A cursor over the next `length` bytes alone.
    pub(super) fn within(&mut self, what: &'static str, length: usize) -> Result<Reader<'a>, DecodeError> {
        let at = self.at;
        Ok(Reader::new(self.take(what, length)?, at))
    }

    /// A cursor over a structure whose 16-bit length counts `before` bytes that were read already.
    pub(super) fn structure(
        &mut self,
        what: &'static str,
        length: u16,
        before: usize,
    ) -> Result<Reader<'a>, DecodeError> {
        let Some(length) = usize::from(length).checked_sub(before) else {
            let allowed = "at least the length of its header";
            return self.fail(Fault::Value { what, is: u32::from(length), allowed });
        };
        self.within(what, length)
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self, what: &'static str) -> Result<(), DecodeError> {
        if self.is_empty() { Ok(()) } else { self.fail(Fault::Long { what, left: self.left() }) }
    }
}

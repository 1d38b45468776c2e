//! The preamble of a stream: the bytes that its two ends exchange before the first record.

use std::fmt;

/// The words with which a stream begins, as one end says and judges them: bytes in, bytes out. It keeps nothing of a
/// stream, so that one value serves many streams.
pub trait Preamble: fmt::Debug + Send + Sync {
    /// The bytes that this end sends first. Empty: this end waits for the peer's bytes.
    fn opening(&self) -> Vec<u8>;

    /// Judges all bytes since the stream began, and appends the bytes of the reply to `answer`. It is called with more
    /// and more bytes until it is complete or refused, so it must bound the bytes that it waits for.
    fn judge(&self, received: &[u8], answer: &mut Vec<u8>) -> PreambleVerdict;
}

/// The judgement of a preamble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreambleVerdict {
    /// Its end has not come yet.
    Incomplete,
    /// The preamble is complete. The records begin behind so many bytes of those received.
    Complete {
        /// The length of the other end's preamble.
        taken: usize,
    },
    /// The stream is to be closed, once the answer was sent. The text says why, for the log.
    Refused(String),
}

//! Whether a TLS 1.2 handshake has the extended master secret (RFC 7627), which rustls does not tell.
//!
//! The peer's first handshake message says so: rustls offers the extension in each ClientHello and takes it up from each
//! that offers it, so that it is in use exactly if the peer's ClientHello or ServerHello has it. Both are sent in the
//! clear, and the handshake's end proves that they were not changed.

use crate::tls::RECORD_HEADER;

/// ContentType handshake (RFC 5246 §6.2.1).
const HANDSHAKE: u8 = 22;
/// HandshakeType client_hello and server_hello (RFC 5246 §7.4).
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Version and random numbers of a hello.
const HELLO_START: usize = 2 + 32;
/// ExtensionType extended_master_secret (RFC 7627 §5.1).
const EXTENDED_MASTER_SECRET: u16 = 0x0017;
/// Longer messages are refused by rustls as well.
const MAX_MESSAGE: usize = 0xffff;

/// Collects the peer's first handshake message.
#[derive(Default)]
pub(super) struct FirstHello {
    /// The bytes of it that have arrived.
    bytes: Vec<u8>,
    extended: Option<bool>,
}

impl FirstHello {
    /// Takes a record of the peer.
    pub(super) fn take(&mut self, record: &[u8]) {
        let (Some(&HANDSHAKE), None) = (record.first(), self.extended) else { return };
        self.bytes.extend_from_slice(record.get(RECORD_HEADER..).unwrap_or_default());
        let length = match self.bytes.get(1..4) {
            Some(&[a, b, c]) => u32::from_be_bytes([0, a, b, c]) as usize,
            _ => return,
        };
        if length > MAX_MESSAGE {
            self.extended = Some(false);
        } else if let Some(body) = self.bytes.get(4..4 + length) {
            self.extended = Some(has_extension(self.bytes[0], body) == Some(true));
        }
        if self.extended.is_some() {
            self.bytes = Vec::new();
        }
    }

    /// Whether the message has come and has the extension.
    pub(super) fn has_extended_master_secret(&self) -> bool {
        self.extended == Some(true)
    }
}

/// Whether a hello has the extension. `None`: it is none, or cut short.
fn has_extension(kind: u8, body: &[u8]) -> Option<bool> {
    let mut rest = body.get(HELLO_START..)?;
    let session_id = u8_length(&mut rest)?;
    skip(&mut rest, session_id)?;
    match kind {
        CLIENT_HELLO => {
            let suites = u16_length(&mut rest)?;
            skip(&mut rest, suites)?;
            let compressions = u8_length(&mut rest)?;
            skip(&mut rest, compressions)?;
        }
        // One suite and one compression method.
        SERVER_HELLO => skip(&mut rest, 3)?,
        _ => return None,
    }
    if rest.is_empty() {
        return Some(false);
    }
    let length = u16_length(&mut rest)?;
    let mut extensions = rest.get(..length)?;
    while !extensions.is_empty() {
        let kind = u16_length(&mut extensions)?;
        if kind == usize::from(EXTENDED_MASTER_SECRET) {
            return Some(true);
        }
        let length = u16_length(&mut extensions)?;
        skip(&mut extensions, length)?;
    }
    Some(false)
}

fn skip(rest: &mut &[u8], length: usize) -> Option<()> {
    *rest = rest.get(length..)?;
    Some(())
}

fn u8_length(rest: &mut &[u8]) -> Option<usize> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    Some(usize::from(*first))
}

fn u16_length(rest: &mut &[u8]) -> Option<usize> {
    let (first, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(usize::from(u16::from_be_bytes(*first)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A hello with these extensions, in records of so many bytes.
    fn records(kind: u8, extensions: &[u16], size: usize) -> Vec<Vec<u8>> {
        let mut body = vec![3; HELLO_START];
        body.extend([2, 9, 9]);
        match kind {
            CLIENT_HELLO => body.extend([0, 4, 1, 2, 3, 4, 1, 0]),
            _ => body.extend([1, 2, 0]),
        }
        let list: Vec<u8> =
            extensions.iter().flat_map(|kind| [&kind.to_be_bytes()[..], &[0, 1, 7]].concat()).collect();
        body.extend(u16::try_from(list.len()).unwrap().to_be_bytes());
        body.extend(list);
        let mut message = vec![kind, 0];
        message.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        message.extend(body);
        message.chunks(size).map(|part| [&[HANDSHAKE, 3, 3, 0, 0][..], part].concat()).collect()
    }

    fn extended(records: &[Vec<u8>]) -> bool {
        let mut hello = FirstHello::default();
        records.iter().for_each(|record| hello.take(record));
        hello.has_extended_master_secret()
    }

    #[test]
    fn the_extension_is_found_in_either_hello() {
        for kind in [CLIENT_HELLO, SERVER_HELLO] {
            for size in [1, 7, 1000] {
                assert!(extended(&records(kind, &[0, EXTENDED_MASTER_SECRET, 5], size)));
                assert!(!extended(&records(kind, &[0, 0x1700, 5], size)));
                assert!(!extended(&records(kind, &[], size)));
                let cut = records(kind, &[EXTENDED_MASTER_SECRET], size);
                assert!(!extended(&cut[..cut.len() - 1]));
            }
        }
        assert!(!extended(&records(11, &[EXTENDED_MASTER_SECRET], 1000)));
    }

    #[test]
    fn only_the_first_message_counts() {
        let mut all = records(CLIENT_HELLO, &[], 1000);
        all.extend(records(CLIENT_HELLO, &[EXTENDED_MASTER_SECRET], 1000));
        assert!(!extended(&all));
    }

    proptest! {
        #[test]
        fn no_record_makes_it_panic(records: Vec<Vec<u8>>, start in 0..3_u8) {
            let with_start = records.into_iter().map(|record| [&[HANDSHAKE, 3, 3, 0, 0, start][..], &record].concat());
            extended(&with_start.collect::<Vec<_>>());
        }
    }
}

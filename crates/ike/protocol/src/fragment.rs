//! Messages in fragments (RFC 7383): cut by the sender, joined by the receiver.
//!
//! Each fragment is protected by itself, so that only fragments of the peer are collected. An [`Assembler`] collects one message
//! at a time, of at most [`MAX_FRAGMENTS`] fragments and at most the number of bytes that it was made for.

use std::collections::BTreeMap;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::crypto::{Contents, Protection, Secret};
use crate::wire::{FragmentNumber, Header, PayloadType};

/// Most fragments of a message.
pub const MAX_FRAGMENTS: u16 = 128;
/// Fewest bytes of a datagram that messages are cut for: room for all that surrounds a fragment, and some content.
pub const MIN_DATAGRAM: usize = 256;

/// Protects payloads, in one datagram or, if that would be longer than `most` bytes, in several. `most` below [`MIN_DATAGRAM`]
/// counts as that; `None`: always in one. The result is `None` if more than [`MAX_FRAGMENTS`] were needed, or the keys are used up.
pub fn seal_message(
    protection: &mut Protection,
    header: &Header,
    first: PayloadType,
    plain: &[u8],
    most: Option<usize>,
    fill: &mut dyn FnMut(&mut [u8]),
) -> Option<Vec<Vec<u8>>> {
    let most = most.map(|most| most.max(MIN_DATAGRAM));
    let Some(most) = most.filter(|most| plain.len() + protection.overhead(false) > *most) else {
        let contents = Contents { first, fragment: None, plain };
        return Some(vec![protection.seal(header, &contents, fill)?]);
    };
    let parts = plain.chunks(most - protection.overhead(true));
    let total = u16::try_from(parts.len()).ok().filter(|total| *total <= MAX_FRAGMENTS)?;
    let fragment = |(part, number): (&[u8], u16)| {
        let first = if number == 1 { first } else { PayloadType::NONE };
        let contents = Contents { first, fragment: Some(FragmentNumber { number, total }), plain: part };
        protection.seal(header, &contents, fill)
    };
    parts.zip(1..).map(fragment).collect()
}

/// The reason why a fragment was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FragmentError {
    /// The message has too many fragments.
    #[error("a message in {0} fragments, allowed are {MAX_FRAGMENTS}")]
    TooMany(u16),
    /// The fragments together have too many bytes.
    #[error("a message in fragments of more than {0} bytes")]
    TooLong(usize),
    /// A fragment with a greater total of this message came before (RFC 7383 section 2.6).
    #[error("the message was cut into more fragments before")]
    Outdated,
}

/// A message that was joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The kind of the first payload.
    pub first: PayloadType,
    /// The payloads.
    pub plain: Secret,
}

/// The fragments of one message that came so far.
#[derive(Debug)]
pub struct Assembler {
    most_bytes: usize,
    collected: Option<Collected>,
}

#[derive(Debug)]
struct Collected {
    message_id: u32,
    total: u16,
    first: PayloadType,
    bytes: usize,
    parts: BTreeMap<u16, Secret>,
}

impl Assembler {
    /// An assembler of messages of up to `most_bytes`.
    pub const fn new(most_bytes: usize) -> Self {
        Assembler { most_bytes, collected: None }
    }

    /// Limits messages to another number of bytes, from now on.
    pub const fn set_limit(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    /// Takes an authentic fragment. Gives the message if it is complete. A fragment of another message replaces all collected
    /// fragments: the caller gives only fragments of a message that it waits for.
    ///
    /// # Errors
    /// The reason why the fragment was dropped. The collected fragments stay, except after [`FragmentError::TooLong`].
    pub fn add(
        &mut self,
        message_id: u32,
        place: FragmentNumber,
        first: PayloadType,
        plain: Secret,
    ) -> Result<Option<Joined>, FragmentError> {
        let FragmentNumber { number, total } = place;
        if total > MAX_FRAGMENTS {
            return Err(FragmentError::TooMany(total));
        }
        let same = self.collected.take_if(|collected| collected.message_id == message_id);
        let mut collected = match same {
            Some(collected) if collected.total > total => {
                self.collected = Some(collected);
                return Err(FragmentError::Outdated);
            }
            Some(collected) if collected.total == total => collected,
            Some(_) | None => Collected { message_id, total, first, bytes: 0, parts: BTreeMap::new() },
        };
        if !collected.parts.contains_key(&number) {
            collected.bytes += plain.len();
            if collected.bytes > self.most_bytes {
                self.collected = None;
                return Err(FragmentError::TooLong(self.most_bytes));
            }
            if number == 1 {
                collected.first = first;
            }
            collected.parts.insert(number, plain);
        }
        if collected.parts.len() < usize::from(total) {
            self.collected = Some(collected);
            return Ok(None);
        }
        self.collected = None;
        let mut whole = Zeroizing::new(Vec::with_capacity(collected.bytes));
        collected.parts.values().for_each(|part| whole.extend_from_slice(part));
        Ok(Some(Joined { first: collected.first, plain: whole }))
    }

    /// The number of collected bytes.
    pub fn bytes(&self) -> usize {
        self.collected.as_ref().map_or(0, |collected| collected.bytes)
    }

    /// Drops the collected fragments.
    pub fn clear(&mut self) {
        self.collected = None;
    }
}

#[cfg(test)]
mod tests {
    use adit_core::{Cipher, Digest};
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::DirectionKeys;
    use crate::suite::{Group, IkeSuite};
    use crate::wire::{ExchangeType, Flags, Message, Spi};

    fn protection(cipher: Cipher) -> Protection {
        let integrity = (!cipher.is_aead()).then_some(Digest::Sha256);
        let suite =
            IkeSuite { cipher, integrity, prf: Digest::Sha256, group: Group::P256, additional: Vec::new() };
        let keys = DirectionKeys {
            encryption: vec![1; cipher.key_len()].into(),
            salt: vec![2; if cipher.is_aead() { 4 } else { 0 }].into(),
            integrity: vec![3; integrity.map_or(0, Digest::output_len)].into(),
        };
        Protection::new(&suite, &keys).unwrap()
    }

    fn header() -> Header {
        Header {
            initiator_spi: Spi([1; 8]),
            responder_spi: Spi([2; 8]),
            minor_version: 0,
            exchange: ExchangeType::IKE_AUTH,
            flags: Flags::default(),
            message_id: 1,
        }
    }

    const FIRST: PayloadType = PayloadType::ID_INITIATOR;

    fn place(number: u16, total: u16) -> FragmentNumber {
        FragmentNumber { number, total }
    }

    fn part(bytes: &[u8]) -> Secret {
        bytes.to_vec().into()
    }

    #[test]
    fn a_message_that_fits_is_not_cut() {
        for most in [None, Some(1000)] {
            let sealed = seal_message(
                &mut protection(Cipher::Aes256Gcm),
                &header(),
                FIRST,
                &[7; 900],
                most,
                &mut |_| (),
            );
            assert_eq!(sealed.unwrap().len(), 1);
        }
        let sealed = seal_message(
            &mut protection(Cipher::Aes256Gcm),
            &header(),
            FIRST,
            &[7; 1000],
            Some(1000),
            &mut |_| (),
        );
        assert_eq!(sealed.unwrap().len(), 2);
        let long = vec![0; 65_536];
        let sealed =
            seal_message(&mut protection(Cipher::Aes256Gcm), &header(), FIRST, &long, Some(0), &mut |_| ());
        assert_eq!(sealed, None, "more than 128 fragments of 256 bytes");
    }

    #[test]
    fn fragments_join_in_any_order_and_once() {
        let mut assembler = Assembler::new(100);
        assert_eq!(assembler.add(1, place(2, 3), PayloadType::NONE, part(b"b")), Ok(None));
        assert_eq!(
            assembler.add(1, place(2, 3), PayloadType::NONE, part(b"x")),
            Ok(None),
            "the first one counts"
        );
        assert_eq!(assembler.add(1, place(1, 3), FIRST, part(b"a")), Ok(None));
        let joined = assembler.add(1, place(3, 3), PayloadType::NONE, part(b"c"));
        assert_eq!(joined, Ok(Some(Joined { first: FIRST, plain: part(b"abc") })));
        assert_eq!(assembler.bytes(), 0);
    }

    #[test]
    fn a_larger_total_begins_anew_and_a_smaller_one_is_dropped() {
        let mut assembler = Assembler::new(100);
        assembler.add(1, place(1, 2), FIRST, part(b"old")).unwrap();
        assert_eq!(assembler.add(1, place(1, 3), FIRST, part(b"a")), Ok(None));
        assert_eq!(
            assembler.add(1, place(2, 2), PayloadType::NONE, part(b"b")),
            Err(FragmentError::Outdated)
        );
        assembler.add(1, place(2, 3), PayloadType::NONE, part(b"b")).unwrap();
        let joined = assembler.add(1, place(3, 3), PayloadType::NONE, part(b"c")).unwrap().unwrap();
        assert_eq!(*joined.plain, b"abc");
        assembler.add(1, place(1, 2), FIRST, part(b"old")).unwrap();
        let joined = assembler.add(2, place(1, 1), FIRST, part(b"new")).unwrap().unwrap();
        assert_eq!((*joined.plain).as_slice(), b"new", "another message takes its place");
    }

    #[test]
    fn what_is_collected_is_limited() {
        let mut assembler = Assembler::new(10);
        assert_eq!(assembler.add(1, place(1, 129), FIRST, part(b"")), Err(FragmentError::TooMany(129)));
        assembler.add(1, place(1, 3), FIRST, part(&[1; 6])).unwrap();
        let too_long = assembler.add(1, place(2, 3), PayloadType::NONE, part(&[1; 5]));
        assert_eq!((too_long, assembler.bytes()), (Err(FragmentError::TooLong(10)), 0));
        assembler.add(1, place(1, 3), FIRST, part(&[1; 6])).unwrap();
        assert_eq!(assembler.bytes(), 6);
        assembler.clear();
        assert_eq!(assembler.bytes(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_cut_joins(length in 0..5000_usize, most in 0..1500_usize, is_aead: bool, seed: u64) {
            let cipher = if is_aead { Cipher::ChaCha20Poly1305 } else { Cipher::Aes256Cbc };
            let mut protection = protection(cipher);
            let plain: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let sealed = seal_message(&mut protection, &header(), FIRST, &plain, Some(most), &mut |iv| iv.fill(9));
            let mut datagrams = sealed.unwrap();
            prop_assert!(datagrams.iter().all(|datagram| datagram.len() <= most.max(MIN_DATAGRAM)));
            let count = datagrams.len();
            datagrams.rotate_left(seed as usize % count);
            let mut assembler = Assembler::new(length);
            let mut joined = None;
            for datagram in &datagrams {
                let sealed = Message::decode(datagram).unwrap().sealed.unwrap();
                let opened = protection.open(datagram, &sealed).unwrap();
                joined = match sealed.fragment {
                    Some(fragment) => assembler.add(1, fragment, sealed.first, opened).unwrap(),
                    None => Some(Joined { first: sealed.first, plain: opened }),
                };
            }
            let joined = joined.unwrap();
            prop_assert_eq!((joined.first, &*joined.plain), (FIRST, &plain));
        }
    }
}

//! Reads messages.

use thiserror::Error;
use zeroize::Zeroizing;

use super::{MAX_DEPTH, Message, Value};

pub(super) const SECTION_START: u8 = 1;
pub(super) const SECTION_END: u8 = 2;
pub(super) const KEY_VALUE: u8 = 3;
pub(super) const LIST_START: u8 = 4;
pub(super) const LIST_ITEM: u8 = 5;
pub(super) const LIST_END: u8 = 6;

/// A fault of a message. The number is where it is, in bytes from the start of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// An element is longer than the rest of the message.
    #[error("byte {0}: the message ends within an element")]
    Element(usize),
    /// A section has no end.
    #[error("byte {0}: the message ends within a section")]
    OpenSection(usize),
    /// A list has no end.
    #[error("byte {0}: the message ends within a list")]
    OpenList(usize),
    /// An end without a section.
    #[error("byte {0}: no section ends here")]
    SectionEnd(usize),
    /// An end without a list.
    #[error("byte {0}: no list ends here")]
    ListEnd(usize),
    /// An item without a list.
    #[error("byte {0}: an item stands outside of a list")]
    Item(usize),
    /// Another element in a list.
    #[error("byte {0}: a list has items alone")]
    NoItem(usize),
    /// A type that there is not.
    #[error("byte {0}: {1} is no type of an element")]
    Type(usize, u8),
    /// A name that is empty or not printable.
    #[error("byte {0}: a name has 1 to 255 printable ASCII characters")]
    Name(usize),
    /// Sections beyond [`MAX_DEPTH`].
    #[error("byte {0}: sections lie in one another more than {MAX_DEPTH} deep")]
    Depth(usize),
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// The first fault.
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        Decoder { bytes, at: 0 }.section(0)
    }
}

struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    /// A section up to its end; the message itself, of depth 0, ends with the bytes.
    fn section(&mut self, depth: usize) -> Result<Message, MessageError> {
        let mut section = Message::new();
        loop {
            let at = self.at;
            let Some(kind) = self.byte() else {
                return if depth == 0 { Ok(section) } else { Err(MessageError::OpenSection(at)) };
            };
            let (name, value) = match kind {
                SECTION_START if depth == MAX_DEPTH => return Err(MessageError::Depth(at)),
                SECTION_START => (self.name()?, Value::Section(self.section(depth + 1)?)),
                SECTION_END if depth > 0 => return Ok(section),
                KEY_VALUE => (self.name()?, Value::Bytes(self.value()?)),
                LIST_START => (self.name()?, Value::List(self.list()?)),
                SECTION_END => return Err(MessageError::SectionEnd(at)),
                LIST_ITEM => return Err(MessageError::Item(at)),
                LIST_END => return Err(MessageError::ListEnd(at)),
                other => return Err(MessageError::Type(at, other)),
            };
            section.elements.push((name, value));
        }
    }

    fn list(&mut self) -> Result<Vec<Zeroizing<Vec<u8>>>, MessageError> {
        let mut items = Vec::new();
        loop {
            let at = self.at;
            match self.byte() {
                Some(LIST_ITEM) => items.push(self.value()?),
                Some(LIST_END) => return Ok(items),
                Some(_) => return Err(MessageError::NoItem(at)),
                None => return Err(MessageError::OpenList(at)),
            }
        }
    }

    fn name(&mut self) -> Result<String, MessageError> {
        let at = self.at;
        let len = self.byte().ok_or(MessageError::Element(self.bytes.len()))?;
        let name = self.take(len.into())?;
        let is_name = !name.is_empty() && name.iter().all(|byte| (b' '..=b'~').contains(byte));
        let text = std::str::from_utf8(name).ok().filter(|_| is_name);
        text.map(str::to_owned).ok_or(MessageError::Name(at))
    }

    fn value(&mut self) -> Result<Zeroizing<Vec<u8>>, MessageError> {
        let len = self.take(2)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        Ok(Zeroizing::new(self.take(len)?.to_vec()))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, len: usize) -> Result<&[u8], MessageError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (taken, _) = rest.split_at_checked(len).ok_or(MessageError::Element(self.bytes.len()))?;
        self.at += len;
        Ok(taken)
    }
}

//! Writes messages.

use thiserror::Error;
use zeroize::Zeroizing;

use super::decode::{KEY_VALUE, LIST_END, LIST_ITEM, LIST_START, SECTION_END, SECTION_START};
use super::{Message, Value};

/// A message that no bytes stand for: a name is empty or has more than 255 bytes, or a value more than 65,535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a name takes 1 to 255 bytes, and a value up to 65535")]
pub struct TooLong;

impl Message {
    /// The message as bytes.
    ///
    /// # Errors
    /// A name or value has a length that no message has.
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, TooLong> {
        // It never grows, which would leave copies of secrets behind.
        let mut out = Zeroizing::new(Vec::with_capacity(self.len()));
        put_elements(&mut out, self)?;
        Ok(out)
    }

    /// Its length as bytes.
    fn len(&self) -> usize {
        let of_value = |value: &Value| match value {
            Value::Bytes(bytes) => 2 + bytes.len(),
            Value::List(items) => 1 + items.iter().map(|item| 3 + item.len()).sum::<usize>(),
            Value::Section(section) => 1 + section.len(),
        };
        self.elements.iter().map(|(name, value)| 2 + name.len() + of_value(value)).sum()
    }
}

fn put_elements(out: &mut Vec<u8>, message: &Message) -> Result<(), TooLong> {
    for (name, value) in &message.elements {
        match value {
            Value::Bytes(bytes) => {
                put_name(out, KEY_VALUE, name)?;
                put_value(out, bytes)?;
            }
            Value::List(items) => {
                put_name(out, LIST_START, name)?;
                for item in items {
                    out.push(LIST_ITEM);
                    put_value(out, item)?;
                }
                out.push(LIST_END);
            }
            Value::Section(section) => {
                put_name(out, SECTION_START, name)?;
                put_elements(out, section)?;
                out.push(SECTION_END);
            }
        }
    }
    Ok(())
}

fn put_name(out: &mut Vec<u8>, kind: u8, name: &str) -> Result<(), TooLong> {
    let len = u8::try_from(name.len()).ok().filter(|len| *len > 0).ok_or(TooLong)?;
    out.extend_from_slice(&[kind, len]);
    out.extend_from_slice(name.as_bytes());
    Ok(())
}

fn put_value(out: &mut Vec<u8>, value: &[u8]) -> Result<(), TooLong> {
    let len = u16::try_from(value.len()).map_err(|_| TooLong)?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

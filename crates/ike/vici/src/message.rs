//! Messages: values, lists and sections by name, in an order.

mod decode;
mod encode;

use std::fmt;

use zeroize::Zeroizing;

pub use self::decode::MessageError;
pub use self::encode::TooLong;

/// Sections that may lie in one another. Those of strongSwan's commands are 5 deep.
pub const MAX_DEPTH: usize = 16;

/// A message, or a section of one: named values in the order in which they were added. A name may occur several times.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Message {
    elements: Vec<(String, Value)>,
}

/// A value of a [`Message`].
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// Up to 65,535 bytes: text, but for keys and certificates.
    Bytes(Zeroizing<Vec<u8>>),
    /// Any number of values of up to 65,535 bytes.
    List(Vec<Zeroizing<Vec<u8>>>),
    /// A section.
    Section(Message),
}

impl Message {
    /// A message without values.
    pub fn new() -> Self {
        Message::default()
    }

    /// The message with a text as well.
    #[must_use]
    pub fn with(self, name: &str, text: impl fmt::Display) -> Self {
        self.with_value(name, Value::Bytes(Zeroizing::new(text.to_string().into_bytes())))
    }

    /// The message with a list of texts as well.
    #[must_use]
    pub fn with_list<T: fmt::Display>(self, name: &str, texts: impl IntoIterator<Item = T>) -> Self {
        let items = texts.into_iter().map(|text| Zeroizing::new(text.to_string().into_bytes()));
        self.with_value(name, Value::List(items.collect()))
    }

    /// The message with a section as well.
    #[must_use]
    pub fn with_section(self, name: &str, section: Message) -> Self {
        self.with_value(name, Value::Section(section))
    }

    /// The message with a value as well.
    #[must_use]
    pub fn with_value(mut self, name: &str, value: Value) -> Self {
        self.elements.push((name.to_owned(), value));
        self
    }

    /// The message with the values of another one behind its own.
    #[must_use]
    pub fn with_all(mut self, other: Message) -> Self {
        self.elements.extend(other.elements);
        self
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.elements.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// The first value of that name, if it is text (UTF-8).
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Value::List(_) | Value::Section(_) => None,
        }
    }

    /// The first value of that name, if it is a section.
    pub fn section(&self, name: &str) -> Option<&Message> {
        match self.get(name)? {
            Value::Section(section) => Some(section),
            Value::Bytes(_) | Value::List(_) => None,
        }
    }

    /// The names and values, in order.
    pub fn elements(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.elements.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }
}

/// The names; a value's length stands in its place.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.elements.iter().map(|(name, value)| (name, value))).finish()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Value::List(items) => write!(f, "{} items", items.len()),
            Value::Section(section) => section.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// `rekey` of README.md's section "Message format", and a list.
    const BYTES: &[u8] = &[
        1, 4, b'c', b'o', b'n', b'n', 3, 3, b'i', b'k', b'e', 0, 1, b'a', 2, 4, 2, b't', b's', 5, 0, 1, b'x',
        5, 0, 0, 6,
    ];

    fn example() -> Message {
        let section = Message::new().with("ike", "a");
        Message::new().with_section("conn", section).with_list("ts", ["x", ""])
    }

    #[test]
    fn a_message_as_bytes() {
        assert_eq!(*example().encode().unwrap(), BYTES);
        assert_eq!(Message::decode(BYTES).unwrap(), example());
        assert_eq!(example().section("conn").and_then(|section| section.text("ike")), Some("a"));
    }

    #[test]
    fn no_value_is_printed() {
        let message = Message::new().with("secret", "very secret").with_list("secrets", ["very secret"]);
        assert_eq!(format!("{message:?}"), r#"{"secret": 11 bytes, "secrets": 1 items}"#);
    }

    #[test]
    fn wrong_messages() {
        for (bytes, expected) in [
            (&BYTES[..26], "byte 26: the message ends within a list"),
            (&BYTES[..14], "byte 14: the message ends within a section"),
            (&BYTES[..13], "byte 13: the message ends within an element"),
            (&[2], "byte 0: no section ends here"),
            (&[6], "byte 0: no list ends here"),
            (&[5, 0, 0], "byte 0: an item stands outside of a list"),
            (&[4, 1, b'l', 3, 1, b'k', 0, 0], "byte 3: a list has items alone"),
            (&[0], "byte 0: 0 is no type of an element"),
            (&[9, 9], "byte 0: 9 is no type of an element"),
            (&[3, 0, 0, 0], "byte 1: a name has 1 to 255 printable ASCII characters"),
            (&[3, 1, 0x1b, 0, 0], "byte 1: a name has 1 to 255 printable ASCII characters"),
        ] {
            assert_eq!(Message::decode(bytes).unwrap_err().to_string(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn sections_lie_in_one_another_up_to_a_depth() {
        let nested = |depth: usize| [[1, 1, b's'].repeat(depth), vec![2; depth]].concat();
        assert!(Message::decode(&nested(MAX_DEPTH)).is_ok());
        let error = Message::decode(&nested(MAX_DEPTH + 1)).unwrap_err();
        assert_eq!(error.to_string(), "byte 48: sections lie in one another more than 16 deep");
        assert!(Message::decode(&nested(100_000)).is_err());
    }

    #[test]
    fn lengths_that_no_message_has() {
        let name = "n".repeat(255);
        assert!(Message::new().with(&name, "").encode().is_ok());
        assert!(Message::new().with(&(name + "n"), "").encode().is_err());
        let long = "v".repeat(65_536);
        assert!(Message::new().with("v", &long[1..]).encode().is_ok());
        assert!(Message::new().with("v", &long).encode().is_err());
        assert!(Message::new().with_list("v", [&long]).encode().is_err());
        assert!(Message::new().with("", "v").encode().is_err());
    }

    fn any_bytes() -> impl Strategy<Value = Zeroizing<Vec<u8>>> {
        vec(any::<u8>(), 0..20).prop_map(Zeroizing::new)
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let value =
            prop_oneof![any_bytes().prop_map(Value::Bytes), vec(any_bytes(), 0..4).prop_map(Value::List),];
        let message = |elements| Message { elements };
        let flat = vec(("[ -~]{1,9}", value.clone()), 0..5).prop_map(message);
        flat.prop_recursive(4, 32, 5, move |inner| {
            let element = prop_oneof![value.clone(), inner.prop_map(Value::Section)];
            vec(("[ -~]{1,9}", element), 0..5).prop_map(message)
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(message in any_message()) {
            let bytes = message.encode().unwrap();
            prop_assert_eq!(Message::decode(&bytes).unwrap(), message);
        }

        #[test]
        fn what_is_read_is_printed_as_it_was(bytes in vec(prop_oneof![0_u8..8, any::<u8>()], 0..60)) {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(&*message.encode().unwrap(), &bytes);
            }
        }
    }
}

//! A reader of the property lists that the profiles are.

/// A value of a property list.
#[derive(Debug)]
pub(super) enum Value {
    Dictionary(Vec<(String, Value)>),
    Array(Vec<Value>),
    /// A text, a number, or bytes in base64.
    Text(String),
}

impl Value {
    /// The value under a key.
    pub(super) fn at(&self, key: &str) -> &Value {
        let Value::Dictionary(all) = self else { panic!("{key}: no dictionary: {self:?}") };
        let mut found = all.iter().filter(|(name, _)| name == key);
        let (Some((_, value)), None) = (found.next(), found.next()) else {
            panic!("{key} is not there once")
        };
        value
    }

    pub(super) fn items(&self) -> &[Value] {
        let Value::Array(all) = self else { panic!("no array: {self:?}") };
        all
    }

    pub(super) fn text(&self) -> &str {
        let Value::Text(text) = self else { panic!("no text: {self:?}") };
        text
    }
}

/// Reads a list. It panics at what is none.
pub(super) fn read(text: &str) -> Value {
    let (head, rest) = text.split_once("<plist version=\"1.0\">").expect("a property list");
    assert!(
        head.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC "),
        "{head}"
    );
    let mut reader = Reader(rest);
    let value = reader.value();
    assert_eq!(reader.0.trim(), "</plist>");
    value
}

struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    /// The next tag, without its brackets.
    fn tag(&mut self) -> &'a str {
        let (before, rest) = self.0.split_once('<').expect("a tag");
        assert_eq!(before.trim(), "", "text between elements");
        let (tag, rest) = rest.split_once('>').expect("the end of a tag");
        self.0 = rest;
        tag
    }

    fn is_closed(&mut self, name: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(&format!("</{name}>"));
        rest.inspect(|rest| self.0 = rest).is_some()
    }

    fn content(&mut self, name: &str) -> String {
        let (content, rest) = self.0.split_once(&format!("</{name}>")).expect("the end of an element");
        assert!(!content.contains('<'), "{content}");
        self.0 = rest;
        content.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    }

    fn value(&mut self) -> Value {
        match self.tag() {
            "dict" => {
                let mut all = Vec::new();
                while !self.is_closed("dict") {
                    assert_eq!(self.tag(), "key");
                    let key = self.content("key");
                    all.push((key, self.value()));
                }
                Value::Dictionary(all)
            }
            "array" => {
                let mut all = Vec::new();
                while !self.is_closed("array") {
                    all.push(self.value());
                }
                Value::Array(all)
            }
            name @ ("string" | "data") => Value::Text(self.content(name)),
            "integer" => {
                let number = self.content("integer");
                assert!(number.parse::<u32>().is_ok(), "{number}");
                Value::Text(number)
            }
            other => panic!("no value: {other}"),
        }
    }
}

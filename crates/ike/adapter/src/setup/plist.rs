//! Property lists in XML, as Apple's devices read them.

use zeroize::Zeroizing;

/// Room for a list, so that it never moves and leaves a copy of a key behind.
const ROOM: usize = 64 << 10;

/// A property list in the making. Its values are a dictionary's, each after its key.
pub(super) struct PropertyList {
    text: Zeroizing<String>,
    depth: usize,
}

impl PropertyList {
    /// An empty list.
    pub(super) fn new() -> Self {
        let mut text = Zeroizing::new(String::with_capacity(ROOM));
        text.push_str(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n",
        );
        PropertyList { text, depth: 0 }
    }

    /// A dictionary with the values that `fill` adds.
    pub(super) fn dictionary(&mut self, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.within("dict", fill)
    }

    /// An array with the values that `fill` adds.
    pub(super) fn array(&mut self, key: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(key).within("array", fill)
    }

    /// A dictionary under a key.
    pub(super) fn section(&mut self, key: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(key).dictionary(fill)
    }

    /// A text under a key.
    pub(super) fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key).element("string", value)
    }

    /// A number under a key.
    pub(super) fn number(&mut self, key: &str, value: u32) -> &mut Self {
        self.key(key).element("integer", &value.to_string())
    }

    /// Bytes under a key, which are given in base64.
    pub(super) fn data(&mut self, key: &str, base64: &str) -> &mut Self {
        self.key(key).element("data", base64)
    }

    /// The text of the list.
    pub(super) fn finish(mut self) -> Zeroizing<Vec<u8>> {
        self.text.push_str("</plist>\n");
        Zeroizing::new(std::mem::take(&mut *self.text).into_bytes())
    }

    fn key(&mut self, key: &str) -> &mut Self {
        self.element("key", key)
    }

    fn within(&mut self, name: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.line(&["<", name, ">"]);
        self.depth += 1;
        fill(self);
        self.depth -= 1;
        self.line(&["</", name, ">"]);
        self
    }

    fn element(&mut self, name: &str, value: &str) -> &mut Self {
        self.indent();
        for part in ["<", name, ">"] {
            self.text.push_str(part);
        }
        for character in value.chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                other => self.text.push(other),
            }
        }
        for part in ["</", name, ">\n"] {
            self.text.push_str(part);
        }
        self
    }

    fn line(&mut self, parts: &[&str]) {
        self.indent();
        parts.iter().chain(&["\n"]).for_each(|part| self.text.push_str(part));
    }

    fn indent(&mut self) {
        (0..self.depth).for_each(|_| self.text.push_str("  "));
    }
}

use super::hex_pair;

/// Filters in a filter, one in the other, at most.
const MAX_DEPTH: usize = 32;

/// A filter of a search, as RFC 4511 has it (4.5.1.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of these.
    And(Vec<Filter>),
    /// One of these at least.
    Or(Vec<Filter>),
    /// Not this one.
    Not(Box<Filter>),
    /// The attribute is there.
    Present(String),
    /// The attribute has this value.
    Equal(String, Vec<u8>),
    /// One that is as large, or larger.
    AtLeast(String, Vec<u8>),
    /// One that is as small, or smaller.
    AtMost(String, Vec<u8>),
    /// One that is like it.
    Like(String, Vec<u8>),
    /// The attribute has a value with these parts, in their order.
    Substrings {
        /// The attribute.
        attribute: String,
        /// The text with which the value begins.
        first: Option<Vec<u8>>,
        /// The texts between its beginning and its end, in this order.
        between: Vec<Vec<u8>>,
        /// The text with which it ends.
        last: Option<Vec<u8>>,
    },
    /// A value matches by a rule.
    Rule {
        /// The attribute; without, any that has the rule.
        attribute: Option<String>,
        /// The rule; without, the attribute's own.
        rule: Option<String>,
        /// The value.
        value: Vec<u8>,
        /// The attributes in the entry's name count, too.
        of_name: bool,
    },
}

impl Filter {
    /// Reads a filter (RFC 4515; the outermost parentheses may be missing, as OpenLDAP allows) in whose values `%u` is that
    /// user.
    ///
    /// The name is put into the values that were read and never into the text, so that nothing in it can be taken for syntax,
    /// and it needs no escapes.
    ///
    /// # Errors
    /// The fault of the template, in a few words.
    pub fn parse(template: &str, user: &str) -> Result<Self, String> {
        let template = template.trim();
        let mut reader = Reader { rest: template, user: user.as_bytes() };
        let filter = if template.starts_with('(') { reader.filter(0)? } else { reader.item()? };
        if reader.rest.is_empty() {
            Ok(filter)
        } else {
            Err(format!("`{}` follows the end of the filter", reader.rest))
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    user: &'a [u8],
}

impl Reader<'_> {
    fn filter(&mut self, depth: usize) -> Result<Filter, String> {
        if depth >= MAX_DEPTH {
            return Err(format!("filters are nested deeper than {MAX_DEPTH}"));
        }
        self.expect('(')?;
        let filter = if self.takes('&') {
            Filter::And(self.list(depth)?)
        } else if self.takes('|') {
            Filter::Or(self.list(depth)?)
        } else if self.takes('!') {
            self.skip_spaces();
            Filter::Not(Box::new(self.filter(depth + 1)?))
        } else {
            self.item()?
        };
        self.skip_spaces();
        self.expect(')')?;
        Ok(filter)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Filter>, String> {
        let mut filters = Vec::new();
        self.skip_spaces();
        while self.rest.starts_with('(') {
            filters.push(self.filter(depth + 1)?);
            self.skip_spaces();
        }
        if filters.is_empty() { Err("`&` or `|` without a filter after it".to_owned()) } else { Ok(filters) }
    }

    /// `attribute=value` and the like, up to the next parenthesis: in a value they are escaped.
    fn item(&mut self) -> Result<Filter, String> {
        let end = self.rest.find(['(', ')']).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let (left, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is no `ATTRIBUTE=VALUE`"))?;
        if let Some(name) = left.strip_suffix('>') {
            return Ok(Filter::AtLeast(attribute(name)?, self.value(value)?));
        }
        if let Some(name) = left.strip_suffix('<') {
            return Ok(Filter::AtMost(attribute(name)?, self.value(value)?));
        }
        if let Some(name) = left.strip_suffix('~') {
            return Ok(Filter::Like(attribute(name)?, self.value(value)?));
        }
        if let Some(names) = left.strip_suffix(':') {
            return self.rule(names, value);
        }
        let attribute = attribute(left)?;
        match value.split_once('*') {
            None => Ok(Filter::Equal(attribute, self.value(value)?)),
            Some(("", "")) => Ok(Filter::Present(attribute)),
            Some((first, rest)) => {
                let (between, last) = rest.rsplit_once('*').unwrap_or(("", rest));
                let between = between.split('*').filter(|part| !part.is_empty());
                Ok(Filter::Substrings {
                    attribute,
                    first: self.part(first)?,
                    between: between.map(|part| self.value(part)).collect::<Result<_, _>>()?,
                    last: self.part(last)?,
                })
            }
        }
    }

    /// `attribute:dn:rule:=value`, of which much may be missing.
    fn rule(&self, names: &str, value: &str) -> Result<Filter, String> {
        let (name, rest) = names.split_once(':').unwrap_or((names, ""));
        let (of_name, rule) = match rest.split_once(':') {
            Some((dn, rule)) if dn.eq_ignore_ascii_case("dn") => (true, rule),
            None if rest.eq_ignore_ascii_case("dn") => (true, ""),
            _ => (false, rest),
        };
        let given = |name: &str| (!name.is_empty()).then(|| attribute(name)).transpose();
        let (attribute, rule) = (given(name)?, given(rule)?);
        if attribute.is_none() && rule.is_none() {
            return Err(format!("`{names}:=` names neither an attribute nor a rule"));
        }
        Ok(Filter::Rule { attribute, rule, value: self.value(value)?, of_name })
    }

    /// A part of a value, if there is one.
    fn part(&self, text: &str) -> Result<Option<Vec<u8>>, String> {
        (!text.is_empty()).then(|| self.value(text)).transpose()
    }

    /// A value with the user in the place of `%u`, and bytes in the place of escapes (`\2a`).
    fn value(&self, text: &str) -> Result<Vec<u8>, String> {
        let mut value = Vec::new();
        for (index, literal) in text.split("%u").enumerate() {
            if index > 0 {
                value.extend_from_slice(self.user);
            }
            let mut bytes = literal.bytes();
            while let Some(byte) = bytes.next() {
                value.push(match byte {
                    b'\\' => escaped(&mut bytes).ok_or_else(|| {
                        format!("`{text}`: two hexadecimal digits must follow `\\`, such as `\\2a` for `*`")
                    })?,
                    other => other,
                });
            }
        }
        Ok(value)
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, character: char) -> bool {
        let rest = self.rest.strip_prefix(character);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, character: char) -> Result<(), String> {
        if self.takes(character) {
            return Ok(());
        }
        match self.rest {
            "" => Err(format!("`{character}` is missing at its end")),
            rest => Err(format!("`{character}` is missing before `{rest}`")),
        }
    }
}

fn escaped(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    hex_pair(bytes.next()?, bytes.next()?)
}

/// The name of an attribute or a rule, with options (RFC 4512, 2.5).
///
/// # Errors
/// When it has other characters than such a name, or none.
pub(super) fn attribute(name: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ';' | '_');
    if name.is_empty() || !name.chars().all(is_allowed) {
        return Err(format!("`{name}` is no name of an attribute: letters, digits and `-._;`"));
    }
    Ok(name.to_owned())
}

//! The settings grammar of strongSwan (src/libstrongswan/settings, `settings_lexer.l` and `settings_parser.y`): sections of keys and
//! sections, with includes and references.
//!
//! ```text
//! name {                    a section; one that comes again is taken together with the first
//!   key = words "a text"    a value: to the end of the line, `#` or `}`, with one blank between its words
//!   key =                   no value
//!   name : base, other {    a section that has the keys and sections of others, too, if it does not have them itself
//!   }
//!   include files/*.conf    below the folder of this file
//! }
//! ```

mod cursor;
mod glob;
mod merge;
mod parser;
#[cfg(test)]
mod tests;
mod tree;

use self::cursor::Cursor;
pub(crate) use self::merge::{Merged, Merger};
pub(crate) use self::parser::{Source, parse};
pub(crate) use self::tree::{Key, OwnSetting, Tree};

/// Whether a text is in this dialect: its first statement is a section with a brace, or `include`. No option file of another VPN begins
/// so.
pub fn is_recognized(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut cursor = Cursor::new(text.strip_prefix('\u{feff}').unwrap_or(&text));
    cursor.skip();
    let name = cursor.name(false).unwrap_or_default();
    if name == "include" && cursor.has_pattern() {
        return true;
    }
    cursor.skip();
    // Option files have blocks `<name>`, and other files sections `[name]`.
    !name.is_empty() && !name.starts_with(['<', '[']) && opens(&mut cursor)
}

/// Whether a `{` follows, with names of sections behind `:` before it or without.
fn opens(cursor: &mut Cursor<'_>) -> bool {
    loop {
        match cursor.next() {
            Some('{') => return true,
            Some(':' | ',') => {}
            _ => return false,
        }
        cursor.skip();
        if cursor.name(true).unwrap_or_default().is_empty() {
            return false;
        }
        cursor.skip();
    }
}

//! Sections of messages as text of a file of swanctl, which the configuration's reader takes.

use adit_ike_config::{Config, parse_sections};
use adit_ike_vici::{Message, Value};
use zeroize::Zeroizing;

use crate::content::texts;

/// The keys whose values are the content of files.
const DOCUMENTS: [&str; 4] = ["certs", "cacerts", "pubkeys", "cacert"];
/// The name of the text in messages.
const NAME: &str = "VICI";
/// The signs that end names (`settings_lexer.l` of strongSwan).
const SIGNS: [char; 12] = ['#', '{', '}', ':', ',', '=', '"', '.', '\r', '\n', '\t', ' '];

/// Reads a section that stands in a section of the file, such as `connections`.
///
/// # Errors
/// A name cannot stand in a file, or the section is wrong: all problems in one line.
pub(super) fn read(root: &str, name: &str, section: &Message) -> Result<Config, String> {
    // Each byte takes up to two digits or an escape, and each element its quotes, sign and line. The text does not grow, which would leave
    // copies of secrets behind.
    let len = section.encode().map_err(|error| error.to_string())?.len();
    let mut text = Zeroizing::new(String::with_capacity(len * 8 + 512));
    text.push_str(root);
    text.push_str(" {\n");
    put_section(&mut text, name, section)?;
    text.push_str("}\n");
    parse_sections(NAME, text.as_bytes()).map_err(|failure| texts(&failure.problems))
}

fn put_section(text: &mut String, name: &str, section: &Message) -> Result<(), String> {
    put_name(text, name)?;
    text.push_str(" {\n");
    for (name, value) in section.elements() {
        match value {
            Value::Section(section) => put_section(text, name, section)?,
            Value::Bytes(bytes) => {
                put_name(text, name)?;
                text.push_str(" = ");
                put_value(text, name, bytes);
                text.push('\n');
            }
            Value::List(items) => {
                put_name(text, name)?;
                text.push_str(" = ");
                for (number, item) in items.iter().enumerate() {
                    text.push_str(if number == 0 { "" } else { ", " });
                    put_value(text, name, item);
                }
                text.push('\n');
            }
        }
    }
    text.push_str("}\n");
    Ok(())
}

fn put_name(text: &mut String, name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(SIGNS) || name == "include" {
        return Err(format!("`{name}` is no name of a key or section in swanctl.conf"));
    }
    text.push_str(name);
    Ok(())
}

/// A value in quotes; bytes of a file, and bytes that are no text, as digits.
fn put_value(text: &mut String, name: &str, bytes: &[u8]) {
    let is_document = DOCUMENTS.contains(&name);
    let value = std::str::from_utf8(bytes).ok().filter(|value| !is_document && !value.contains('\0'));
    let Some(value) = value else { return put_digits(text, bytes) };
    if value.is_empty() {
        return;
    }
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c => text.push(c),
        }
    }
    text.push('"');
}

/// Bytes as `0x` and hexadecimal digits.
fn put_digits(text: &mut String, bytes: &[u8]) {
    text.push_str("0x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn office() -> Message {
        let round = |id: &str| Message::new().with("auth", "psk").with("id", id);
        let child = Message::new()
            .with_list("local_ts", ["10.1.0.0/16"])
            .with_list("remote_ts", ["10.2.0.0/16", "fd00::/64"]);
        Message::new()
            .with("version", 2)
            .with_list("remote_addrs", ["192.0.2.1", "vpn.example.org"])
            .with("rekey_time", "7m")
            .with_section("local", round("a.example"))
            .with_section("remote", round("C=CH, O=Example, CN=b"))
            .with_section("children", Message::new().with_section("net", child))
    }

    #[test]
    fn a_message_is_read_as_the_section_of_a_file() {
        let config = read("connections", "office", &office()).unwrap();
        let [connection] = &config.connections[..] else { panic!("one connection") };
        assert_eq!((connection.name.as_str(), connection.remote_addrs.len()), ("office", 2));
        assert_eq!(connection.rekey_time, Some(std::time::Duration::from_secs(420)));
        let adit_ike_config::IdentityPattern::Exact(id) = &connection.remote[0].id else { panic!("a name") };
        assert_eq!(super::super::names::identity(id), "C=CH, O=Example, CN=b");
        assert_eq!(connection.children[0].remote_ts.len(), 2);
    }

    #[test]
    fn problems_are_said_and_names_add_no_sections() {
        let wrong = office().with("rekey_tim", "7m").with("dpd_delay", "soon");
        let why = read("connections", "office", &wrong).unwrap_err();
        assert!(why.contains("`rekey_tim`: there is no such key here; `rekey_time` is one"), "{why}");
        assert!(why.contains("`dpd_delay`"), "{why}");
        for name in ["a b", "a {", "}", "a.b", "include", "a = b"] {
            let why = read("connections", name, &office()).unwrap_err();
            assert_eq!(why, format!("`{name}` is no name of a key or section in swanctl.conf"));
            assert!(read("connections", "office", &office().with(name, "v")).is_err());
        }
        let quoted = office().with("updown", "\"\n}\nevil { secret = a }\n{ \\");
        let config = read("connections", "office", &quoted);
        assert!(config.is_err_and(|why| why.contains("updown")), "a value stays a value");
    }
}

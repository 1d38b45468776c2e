//! The text that a printer of the grammar writes is read back as it was.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::tree::{Key, Section};
use super::{Source, parse};
use crate::files::{Entry, Files};

/// A folder without files.
struct Nothing;

impl Files for Nothing {
    fn read(&self, _: &std::path::Path) -> Result<zeroize::Zeroizing<Vec<u8>>, String> {
        Err("there are no files".to_owned())
    }

    fn entries(&self, _: &std::path::Path) -> Result<Vec<Entry>, String> {
        Ok(Vec::new())
    }
}

/// A section: keys with values, and sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    keys: Vec<(String, Option<String>)>,
    sections: Vec<(String, Node)>,
}

impl Node {
    fn of(section: &Section) -> Self {
        let value = |key: &Key| key.value.as_ref().map(|value| value.to_string());
        Node {
            keys: section.keys.iter().map(|key| (key.name.clone(), value(key))).collect(),
            sections: section
                .sections
                .iter()
                .map(|section| (section.name.clone(), Node::of(section)))
                .collect(),
        }
    }

    /// The statements, with one of several ways to write each.
    fn print(&self, style: u8, out: &mut String) {
        let end = if style.is_multiple_of(2) { "\n" } else { "\r\n" };
        for (name, value) in &self.keys {
            let value = value.as_deref().map(quoted).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = write!(out, "{name}\t= {value} # comment }} {{ \"{end}");
        }
        for (name, node) in &self.sections {
            let _ = write!(out, "{name}{}{{", if style < 2 { " " } else { end });
            out.push_str(end);
            node.print(style, out);
            let _ = write!(out, "}}{end}");
        }
    }
}

/// A value in quotes, with escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '"' | '\\' => quoted.extend(['\\', c]),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_%@*/;<>é-]{1,12}".prop_filter("a keyword", |name| name != "include")
}

fn node() -> impl Strategy<Value = Node> {
    let keys = || vec((name(), option::of(any::<String>())), 0..4);
    let leaf = keys().prop_map(|keys| Node { keys, sections: Vec::new() });
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (keys(), vec((name(), inner), 0..4)).prop_map(|(keys, sections)| Node { keys, sections })
    })
    .prop_map(without_repetitions)
}

/// The node without keys and sections that come again.
fn without_repetitions(mut node: Node) -> Node {
    let mut names = Vec::new();
    node.keys.retain(|(name, _)| {
        !names.contains(name) && {
            names.push(name.clone());
            true
        }
    });
    let mut names = Vec::new();
    node.sections.retain(|(name, _)| {
        !names.contains(name) && {
            names.push(name.clone());
            true
        }
    });
    node.sections = node.sections.into_iter().map(|(name, node)| (name, without_repetitions(node))).collect();
    node
}

proptest! {
    #[test]
    fn printer_and_parser_agree(node in node(), style in 0_u8..4) {
        let mut text = String::new();
        node.print(style, &mut text);
        let source = Source { file: "a", text: text.as_bytes() };
        let tree = parse(&source, &Nothing).map_err(|problem| TestCaseError::fail(problem.to_string()))?;
        prop_assert_eq!(Node::of(&tree.root), node);
    }
}

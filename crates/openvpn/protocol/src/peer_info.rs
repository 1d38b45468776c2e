//! Peer info: the facts of itself that a client sends in key method 2, as `NAME=VALUE` lines.
//!
//! Source: OpenVPN ssl.c (`push_peer_info`), misc.c (`validate_peer_info_line`, `output_peer_info_env`).

use std::fmt;

use adit_core::is_unprintable;

/// Most lines that are kept.
pub const MAX_LINES: usize = 256;
/// Longest line that is kept, in bytes. OpenVPN cuts at 255.
pub const MAX_LINE_LEN: usize = 1024;

/// The variables of a peer, in the order in which it sent them. `Display` prints the wire form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerVariables(Vec<(String, String)>);

impl PeerVariables {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the lines. Names are letters, digits and underscores and start with `IV_`, `UV_` or `ID`; lines
    /// that are otherwise, or longer than [`MAX_LINE_LEN`], are left out, as are those after the first
    /// [`MAX_LINES`]. In values, white space, unprintable characters ([`is_unprintable`]) and the shell's
    /// `$`, `(` and backquote become `_`: values reach scripts as environment variables.
    pub fn parse(text: &str) -> Self {
        let lines = text.split('\n').map(|line| line.trim_end_matches('\r'));
        PeerVariables(lines.filter_map(parse_line).take(MAX_LINES).collect())
    }

    /// The value of a variable; of two with that name the first.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Adds a variable at the end. A line that [`PeerVariables::parse`] would leave out or change is left out
    /// or changed here too.
    pub fn push(&mut self, name: &str, value: &str) {
        if self.0.len() < MAX_LINES
            && let Some(line) = parse_line(&format!("{name}={value}"))
        {
            self.0.push(line);
        }
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Display for PeerVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name}={value}"))
    }
}

fn parse_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let known = ["IV_", "UV_", "ID"].iter().any(|prefix| name.starts_with(prefix));
    let plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if line.len() > MAX_LINE_LEN || !known || !plain {
        return None;
    }
    let tame = |letter: char| {
        let wild = is_unprintable(letter) || letter.is_whitespace() || matches!(letter, '$' | '(' | '`');
        if wild { '_' } else { letter }
    };
    let mut tamed = String::with_capacity(value.len());
    tamed.extend(value.chars().map(tame));
    Some((name.to_owned(), tamed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_a_client_tells() {
        let told =
            "IV_VER=2.6.14\nIV_PLAT=linux\r\nIV_PROTO=990\nUV_ID=a b$(x)`\nPATH=/evil\nIV_X\nIV-Y=1\n\n";
        let variables = PeerVariables::parse(told);
        assert_eq!(variables.get("IV_VER"), Some("2.6.14"));
        assert_eq!(variables.get("IV_PLAT"), Some("linux"));
        assert_eq!(variables.get("UV_ID"), Some("a_b__x)_"));
        assert_eq!(variables.iter().count(), 4);
        assert_eq!(variables.get("PATH"), None);
        assert_eq!(variables.to_string(), "IV_VER=2.6.14\nIV_PLAT=linux\nIV_PROTO=990\nUV_ID=a_b__x)_\n");
    }

    #[test]
    fn limits_hold() {
        let many: String = (0..1000).map(|n| format!("UV_{n}=1\n")).collect();
        let mut variables = PeerVariables::parse(&many);
        assert_eq!(variables.iter().count(), MAX_LINES);
        variables.push("IV_LATE", "1");
        assert_eq!(variables.get("IV_LATE"), None);
        assert_eq!(PeerVariables::parse(&format!("IV_X={}", "a".repeat(MAX_LINE_LEN))), PeerVariables::new());
        let mut variables = PeerVariables::new();
        variables.push("HOME", "x");
        variables.push("IV_A", "1\nIV_B=2");
        assert_eq!(variables.to_string(), "IV_A=1_IV_B=2\n");
    }

    proptest! {
        #[test]
        fn parse_undoes_print(text in "((IV|UV)_[A-Z]{1,4}=\\PC{0,9}\n|\\PC{0,9}\n){0,9}") {
            let variables = PeerVariables::parse(&text);
            prop_assert_eq!(PeerVariables::parse(&variables.to_string()), variables);
        }

        #[test]
        fn parse_never_panics(text: String) {
            PeerVariables::parse(&text);
        }
    }
}

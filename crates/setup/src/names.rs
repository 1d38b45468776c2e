//! Names of clients.

use std::fmt;
use std::str::FromStr;

/// The common name of the server's certificate, which clients check.
pub(crate) const SERVER_NAME: &str = "adit-server";

/// A client's name: it becomes a file name and the common name of a certificate, which a server may use for file names, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientName(String);

impl ClientName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClientName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        // X.520 limits a common name to 64 characters.
        if name.is_empty() || name.len() > 64 {
            return Err("a name has 1 to 64 characters".into());
        }
        let first_fits = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let rest_fits = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '@' | '-'));
        if !first_fits || !rest_fits || name.contains("..") {
            return Err(
                "a name is made of the letters a to z and A to Z, digits, and single `.`, `_`, `@`, \
                        `-` after the first character"
                    .into(),
            );
        }
        if name.eq_ignore_ascii_case(SERVER_NAME) {
            return Err("that is the server's own name".into());
        }
        Ok(ClientName(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a", "alice", "bob.laptop", "x@y.example", "9-a_b"] {
            assert_eq!(name.parse::<ClientName>().unwrap().as_str(), name);
        }
        let long = "a".repeat(65);
        for name in ["", ".", "..", "a..b", "a/b", "-a", "a b", "ä", "a\n", "Adit-Server", long.as_str()] {
            assert!(name.parse::<ClientName>().is_err(), "{name:?}");
        }
    }
}

use std::fmt;
use std::str::FromStr;

use super::SERVER_NAME;

/// A client's name: it becomes a file name and the common name of a certificate, and OpenVPN's server uses
/// that for file names too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientName(String);

impl ClientName {
    /// The name.
    pub(crate) fn as_str(&self) -> &str {
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

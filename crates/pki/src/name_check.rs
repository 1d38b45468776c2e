//! The name that is asked of a peer.

use std::fmt;

/// The name that a peer must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameCheck {
    /// The whole subject, as [`crate::certificate::subject_text`] prints it: `C=DE, O=Example, CN=server`.
    Subject(String),
    /// The name by which the peer is known: the common name, unless [`crate::NameFields`] says otherwise.
    CommonName(String),
    /// The beginning of that name.
    CommonNamePrefix(String),
}

impl fmt::Display for NameCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameCheck::Subject(name) => write!(f, "subject \"{name}\""),
            NameCheck::CommonName(name) => write!(f, "common name \"{name}\""),
            NameCheck::CommonNamePrefix(name) => write!(f, "common name beginning with \"{name}\""),
        }
    }
}

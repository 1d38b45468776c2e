//! OpenVPN's configuration files, read into typed roles, and those of openvpn-auth-ldap ([`auth_ldap`]).
//!
//! [`parse`] takes the bytes of a configuration and a function that loads the files it names, and gives a [`Config`]: a client
//! or a server, with every value checked. The report says of each directive ([`Disposition`]) that it is used, that it is
//! ignored and why that is safe, or that it is refused and what to write instead. All errors in a file are collected before
//! any is reported.
//!
//! A file passes through these stages, each a module: `lexer` (bytes to words), `parser` (words to directives, by
//! the `directive_table`), `handlers` (the arguments of each directive, into a `draft`), `plan` (defaults and
//! checks of the whole file, into the `model`). `print` writes a model as a file again.
//!
//! This crate does no I/O, reads no clock and draws no random numbers.
#![forbid(unsafe_code)]

pub mod auth_ldap;
mod client_file;
mod command_line;
mod directive_table;
mod directives;
mod draft;
mod handlers;
mod lexer;
mod model;
mod parser;
mod plan;
mod pool_file;
mod print;
mod secret;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use client_file::{client_file_name, parse_client_file};
pub use command_line::{COMMAND_LINE, CommandLineOption, command_line_text, split_command_line};
pub use directive_table::document::documentation;
pub use directives::{Directive, Side};
pub use handlers::scripts::sets_name_servers;
pub use model::*;
pub use pool_file::{parse_pool_file, print_pool_file};
pub use secret::{Pem, Secret, TokenSecret};

use adit_core::configuration::{Disposition, Failure, Problem, words};

use self::draft::Draft;
use self::parser::{Parser, Tolerance};

/// Loads a file that a configuration names; the error says why it cannot.
pub type Loader<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// The last part of a path that a [`Loader`] gets for `capath`: it stands for all files of the directory whose names are
/// hashes of the subjects of certificates and of the issuers of revocation lists (openssl-rehash(1)). The loader gives their
/// contents in one.
pub const HASHED_FILES: &str = "*";

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The configuration.
    pub config: Config,
    /// The result of each directive, in the order of the file.
    pub report: Vec<Disposition>,
    /// Points that do not stop the tunnel but that its owner should know.
    pub warnings: Vec<Problem>,
}

impl Parsed {
    /// Whether a directive of that name stands in the file and is not refused.
    pub fn has(&self, directive: &str) -> bool {
        self.report.iter().any(|entry| entry.directive == directive)
    }
}

/// Splits a line into words, by the quotes, escapes and comments of configuration files. OpenVPN reads the commands at
/// its management socket in the same way.
///
/// # Errors
/// The fault of the line, in a few words.
pub fn split_line(line: &str) -> Result<Vec<String>, String> {
    words::split(line, words::MAX_LINE)
}

/// Every directive that is known, in the order of the documentation.
pub fn directives() -> &'static [Directive] {
    directive_table::DIRECTIVES
}

/// The names that `tls-ciphersuites`, `tls-cipher` and `tls-groups` take: suites of TLS 1.3, of TLS 1.2, and groups, each
/// by the name that OpenVPN shows.
pub fn tls_names() -> [Vec<&'static str>; 3] {
    [handlers::tls::SUITES, handlers::tls::CIPHERS, handlers::tls::GROUPS].map(|known| {
        let mut ids = BTreeSet::new();
        known.iter().filter(|(id, ..)| ids.insert(*id)).map(|(_, name, _)| *name).collect()
    })
}

/// The directive of that name.
pub fn directive(name: &str) -> Option<&'static Directive> {
    directive_table::find(name)
}

/// Reads an OpenVPN configuration.
///
/// `file` is the name to use in messages. `load` loads files that it names; relative paths come to it as
/// they stand (or from the directory set by `cd`).
///
/// # Errors
/// All problems found, each with its file and line.
pub fn parse(file: &str, text: &[u8], load: Loader<'_>) -> Result<Parsed, Failure> {
    let mut parser = Parser { load, problems: Vec::new(), warnings: Vec::new(), report: Vec::new() };
    let mut entries = Vec::new();
    parser.expand(&file.into(), text, 0, &mut PathBuf::new(), &mut entries);
    if entries.is_empty() && !parser.problems.is_empty() {
        // Nothing could be read; problems about missing lines would be noise.
        return Err(Failure { problems: parser.problems, report: parser.report });
    }
    let tolerant = Tolerance::of(&entries);
    let mut draft = Draft::default();
    for entry in entries {
        parser.directive(&mut draft, entry, &tolerant);
    }
    let config = plan::plan(draft, file, &mut parser);
    match config {
        Some(config) if parser.problems.is_empty() => {
            Ok(Parsed { config, report: parser.report, warnings: parser.warnings })
        }
        _ => {
            if parser.problems.is_empty() {
                parser.problem_in(file, "the configuration cannot be used");
            }
            Err(Failure { problems: parser.problems, report: parser.report })
        }
    }
}

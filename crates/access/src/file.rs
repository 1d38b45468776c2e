//! The file `access.toml`: groups of names, and rules in order.

mod reader;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use adit_core::IpNet;
use thiserror::Error;

use self::reader::Reader;

/// The verdict of a rule, or where no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// The packet passes.
    #[default]
    Allow,
    /// The packet is dropped.
    Deny,
}

/// The content of a file, as it was written. [`crate::Rules::new`] compiles it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessFile {
    /// The verdict on a packet that no rule matches. The file must have it.
    pub default: Action,
    /// The names of peers in each group.
    pub groups: BTreeMap<String, Vec<String>>,
    /// The rules. The first that matches a packet decides.
    pub rules: Vec<FileRule>,
}

/// A rule, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRule {
    /// The line of the file on which it begins, from 1 on.
    pub line: usize,
    /// The verdict on packets that it matches: `may-reach` or `may-not-reach`.
    pub action: Action,
    /// The places that packets come from (`who`).
    pub from: Vec<Place>,
    /// The places that packets are for.
    pub to: Vec<Place>,
    /// The protocols that it matches; empty: all.
    pub protocols: Vec<RuleProtocol>,
    /// The destination ports that it matches; empty: all, and protocols without ports.
    pub ports: Vec<RangeInclusive<u16>>,
}

/// A set of senders or receivers of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `any`: every address.
    Any,
    /// `clients`: all peers of the tunnel, with the networks behind them.
    Clients,
    /// `lan`: private addresses that no peer has.
    Lan,
    /// `internet`: addresses of the Internet that no peer has.
    Internet,
    /// The peers of that name.
    Name(String),
    /// `@GROUP`: the peers of that group.
    Group(String),
    /// An address or a network, of a peer or not.
    Network(IpNet),
}

/// A protocol in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleProtocol {
    /// `tcp`.
    Tcp,
    /// `udp`.
    Udp,
    /// `icmp`: ICMP and ICMPv6.
    Icmp,
    /// An IP protocol by its number.
    Number(u8),
}

impl AccessFile {
    /// The longest file that is read, in bytes.
    pub const MAX_LEN: usize = 4 << 20;
    /// The most rules of a file.
    pub const MAX_RULES: usize = 4096;
    /// The most names and groups that rules of a file may mention.
    pub const MAX_NAMES: usize = 4096;

    /// Reads the text of a file. `name` is the file's name in errors.
    ///
    /// # Errors
    /// All mistakes, each with its line and what would be right.
    pub fn parse(name: &str, text: &str) -> Result<Self, Invalid> {
        Reader::new(text).read().map_err(|problems| Invalid { file: name.to_owned(), problems })
    }
}

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, from 1 on.
    pub line: usize,
    /// The mistake, and the right form.
    pub text: String,
}

/// The mistakes in a file, in the order of their lines. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Invalid {
    /// The name of the file.
    pub file: String,
    /// The mistakes.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Invalid {
    /// A line for each mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, text }) in self.problems.iter().enumerate() {
            let end = if index > 0 { "\n" } else { "" };
            write!(f, "{end}{}:{line}: {text}", self.file)?;
        }
        Ok(())
    }
}

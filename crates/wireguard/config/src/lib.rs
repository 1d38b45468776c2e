//! wg-quick's files: the keys that `wg setconf` reads (wg(8), "Configuration file format"), and in `[Interface]` those
//! that wg-quick adds (wg-quick(8)).
//!
//! ```text
//! [Interface]
//! Address = 10.0.0.2/24
//! PrivateKey = …
//!
//! [Peer]
//! PublicKey = …
//! Endpoint = vpn.example.org:51820
//! AllowedIPs = 0.0.0.0/0, ::/0
//! ```
//!
//! adit's own settings are comments to others: `#adit: key = value` (`directives.rs`).
//!
//! Sections and keys are read in any case, and the text after `#` is a comment, except in the commands of hooks, as in
//! wg-quick since 2025. All problems of a file are found before any is reported.
//!
//! This crate does no I/O, reads no clock and draws no random numbers.
#![forbid(unsafe_code)]

mod advice;
mod directives;
mod model;
mod read;
#[cfg(test)]
mod tests;
mod values;

pub use self::model::{Config, Endpoint, FullTunnel, HttpUrl, Interface, Peer, Table};
pub use self::read::{Parsed, parse};

/// Whether a text is in this dialect: its first line that is neither empty nor a comment begins a section. Option files of
/// other VPNs have no line that begins with a bracket.
pub fn is_recognized(text: &[u8]) -> bool {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    first.is_some_and(|line| line.starts_with(b"["))
}

/// The interface that a file is for: its name without the directory and `.conf`. As wg-quick, it takes 1 to 15 letters,
/// digits and `_=+.-`.
pub fn interface_name(path: &str) -> Option<&str> {
    let (_, file) = path.rsplit_once('/').unwrap_or(("", path));
    let name = file.strip_suffix(".conf")?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_=+.-".contains(c);
    ((1..=15).contains(&name.len()) && name.chars().all(is_allowed)).then_some(name)
}

//! A configuration from its file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use adit_core::configuration::{Disposition, Failure, Problem};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{openvpn, wireguard};

/// The options of this process's command line, where they are its configuration and not a file.
static OPTIONS: OnceLock<String> = OnceLock::new();

/// From now on the configuration of this process is that text, whatever file is named: the options of its command line,
/// among them the files that are to be read.
pub(crate) fn use_command_line(text: String) {
    // A process has one command line.
    let _ = OPTIONS.set(text);
}

/// What [`use_command_line`] was given.
pub(crate) fn command_line() -> Option<&'static str> {
    OPTIONS.get().map(String::as_str)
}

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub(crate) enum Unusable {
    /// The file cannot be read.
    #[error("{0}: the configuration cannot be read: {1}")]
    Unreadable(String, std::io::Error),
    /// It is wrong: one problem a line.
    #[error("{0}")]
    Wrong(#[from] Failure),
}

/// A configuration, by its dialect.
pub(crate) enum Dialect {
    /// OpenVPN's.
    OpenVpn(Box<adit_openvpn_config::Parsed>),
    /// wg-quick's.
    WireGuard(Box<adit_wireguard_config::Parsed>),
}

impl Dialect {
    /// What became of each line.
    pub(crate) fn report(&self) -> &[Disposition] {
        match self {
            Dialect::OpenVpn(parsed) => &parsed.report,
            Dialect::WireGuard(parsed) => &parsed.report,
        }
    }

    /// Points that do not stop the tunnel but that its owner should know.
    pub(crate) fn warnings(&self) -> &[Problem] {
        match self {
            Dialect::OpenVpn(parsed) => &parsed.warnings,
            Dialect::WireGuard(parsed) => &parsed.warnings,
        }
    }
}

/// Reads and checks the configuration in `path`, whatever its dialect, with the files that it names.
pub(crate) fn read(path: &Path) -> Result<Dialect, Unusable> {
    let text = text(path)?;
    if command_line().is_none() && adit_wireguard_config::is_recognized(&text) {
        return Ok(Dialect::WireGuard(Box::new(wireguard::adapter::configuration::parse(path, &text)?)));
    }
    Ok(Dialect::OpenVpn(Box::new(openvpn::adapter::configuration::parse(path, &text)?)))
}

fn text(path: &Path) -> Result<Zeroizing<Vec<u8>>, Unusable> {
    let text = read_bytes(path);
    text.map(Zeroizing::new).map_err(|error| Unusable::Unreadable(path.display().to_string(), error))
}

pub(crate) fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    match command_line() {
        Some(options) => Ok(options.as_bytes().to_vec()),
        None => std::fs::read(path),
    }
}

/// Whether accounts other than the owner have any right to a file.
pub(crate) fn is_exposed(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o077 != 0)
}

pub(crate) fn warning(path: &Path) -> Problem {
    let path = path.display();
    let text = format!("the file holds a key and is group or others accessible: chmod 600 {path}");
    Problem { file: path.to_string(), line: None, text }
}

/// Where a file is that the configuration `file` names. OpenVPN looks from its working directory; a file that
/// lies beside the configuration is meant too.
pub(crate) fn find(file: &Path, wanted: &Path) -> PathBuf {
    let beside = file.parent().unwrap_or(Path::new("")).join(wanted);
    if !wanted.exists() && beside.exists() { beside } else { wanted.to_owned() }
}

//! A configuration from its file.

use std::path::{Path, PathBuf};

use adit_config::Failure;
use adit_config::openvpn::{Parsed, parse};
use thiserror::Error;

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

/// Reads and checks the configuration in `path`, with the files that it names.
pub(crate) fn read(path: &Path) -> Result<Parsed, Unusable> {
    let name = path.display().to_string();
    let text = match std::fs::read(path) {
        Ok(text) => zeroize::Zeroizing::new(text),
        Err(error) => return Err(Unusable::Unreadable(name, error)),
    };
    let load = |wanted: &Path| std::fs::read(find(path, wanted)).map_err(|error| error.to_string());
    Ok(parse(&name, &text, &load)?)
}

/// Where a file is that the configuration `file` names. OpenVPN looks from its working directory; a file that
/// lies beside the configuration is meant too.
pub(crate) fn find(file: &Path, wanted: &Path) -> PathBuf {
    let beside = file.parent().unwrap_or(Path::new("")).join(wanted);
    if !wanted.exists() && beside.exists() { beside } else { wanted.to_owned() }
}

//! A configuration that is read again: its text, the files that it names, and what it allows.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

use super::policy::{Revocations, Scripts};
use crate::config::Remote;

/// Reads a configuration file and what it names. Runs in the helper, which trusts the file and not its tunnel.
pub type Gather = fn(&Path) -> io::Result<Gathered>;

/// A configuration with what it names. Without `Debug` for the files, which hold keys.
#[derive(Default, Serialize, Deserialize)]
pub struct Gathered {
    /// The configuration itself.
    pub text: Vec<u8>,
    /// The files that it names, as it names them, or why they cannot be read.
    pub files: Vec<(PathBuf, Result<Vec<u8>, String>)>,
    /// What it allows; `None` if it has a mistake: what was allowed before holds.
    pub allowed: Option<Allowed>,
}

/// What a configuration allows its tunnel to ask of the helper.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Allowed {
    /// The scripts that may be run.
    pub scripts: Option<Scripts>,
    /// `client-config-dir`.
    pub client_directory: Option<PathBuf>,
    /// `crl-verify`.
    pub revocations: Option<Revocations>,
    /// Whom it may reach, in the order of the file.
    pub remotes: Vec<Remote>,
    /// Names whose addresses may be asked for. `None`: those of the start.
    pub names: Option<Vec<String>>,
    /// The tunnel may replace the file itself.
    pub writes_configuration: bool,
}

impl Drop for Gathered {
    fn drop(&mut self) {
        self.text.zeroize();
        self.files.iter_mut().filter_map(|(_, content)| content.as_mut().ok()).for_each(|it| it.zeroize());
    }
}

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&PathBuf> = self.files.iter().map(|(name, _)| name).collect();
        f.debug_struct("Gathered")
            .field("files", &names)
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

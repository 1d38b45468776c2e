//! The configuration of a tunnel as its helper reads and writes it: its text, the files that it names, and the
//! operations that it allows.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use adit_core::PoolEntry;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use super::policy::{Revocations, Scripts};
use adit_io::Remote;

/// Reads a configuration file and the files that it names. Runs in the helper, which trusts the file and not its
/// tunnel.
pub type Gather = fn(&Path) -> io::Result<Gathered>;

/// Builds the text that replaces a configuration file: of the text that the helper itself read last, and of the state of the
/// tunnel, which the tunnel sends. Runs in the helper. It refuses a state that would change more of the configuration than the
/// tunnel's state.
pub type Rewrite = fn(&[u8], &[u8]) -> io::Result<Zeroizing<Vec<u8>>>;

/// How a helper reads and writes the configuration file of its tunnel. It is fixed when the helper starts: the content of the
/// file does not decide by which rules the file is read.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Reads the file.
    pub gather: Gather,
    /// Builds the text of a file that the tunnel may replace.
    pub rewrite: Rewrite,
    /// Builds the text of the file of leases, of those that the tunnel sends.
    pub print_leases: fn(&[PoolEntry]) -> String,
}

impl Dialect {
    /// The dialect of a helper without a configuration file.
    pub(super) fn none() -> Self {
        let gather = |_: &Path| Err(io::ErrorKind::Unsupported.into());
        let rewrite = |_: &[u8], _: &[u8]| Err(io::ErrorKind::Unsupported.into());
        Dialect { gather, rewrite, print_leases: |_| String::new() }
    }
}

/// A configuration with the files that it names. Without `Debug` for the files, which hold keys.
#[derive(Default, Serialize, Deserialize)]
pub struct Gathered {
    /// The configuration itself.
    pub text: Vec<u8>,
    /// The files that it names, as it names them, or why they cannot be read.
    pub files: Vec<(PathBuf, Result<Vec<u8>, String>)>,
    /// The requests that it allows; `None` if it has a mistake: those that were allowed before hold.
    pub allowed: Option<Allowed>,
}

/// The requests to the helper that a configuration allows its tunnel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Allowed {
    /// The scripts that may be run.
    pub scripts: Option<Scripts>,
    /// The directory of clients' files.
    pub client_directory: Option<PathBuf>,
    /// The revocation lists.
    pub revocations: Option<Revocations>,
    /// The remotes that it may reach, in the order of the file.
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

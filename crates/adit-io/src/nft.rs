//! nftables, by its own program, `nft`, one ruleset at a time: the program makes one transaction of it.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

use thiserror::Error;

/// Where `nft` is on systems whose PATH for ordinary users lacks it.
const SBIN: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Why a ruleset is not in force.
#[derive(Debug, Error)]
pub(crate) enum NftError {
    /// There is no `nft`.
    #[error("there is no program `nft`: install the package nftables")]
    NoProgram,
    /// It could not be run.
    #[error("nft cannot be run: {0}")]
    Run(#[from] io::Error),
    /// It refused.
    #[error("nft refuses: {0}")]
    Refused(String),
}

/// What `nft` writes when it is given that input.
pub(crate) fn nft(arguments: &[&str], input: &str) -> Result<String, NftError> {
    let mut command = Command::new("nft");
    // As an administrator's shell has it; nothing of ours is looked for there.
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    for directory in SBIN {
        path.push(OsString::from(format!(":{directory}")));
    }
    command.env("PATH", path).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NftError::NoProgram,
        _ => NftError::Run(error),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let Output { status, stdout, stderr } = child.wait_with_output()?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&stderr);
    Err(NftError::Refused(complaint.lines().next().unwrap_or("it does not say why").to_owned()))
}

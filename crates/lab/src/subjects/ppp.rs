//! The options of `pppd` (pppd(8)) for the protocols that carry PPP.

use std::path::PathBuf;

use adit_testbed::{Scratch, TestbedError};

/// Room for IP, the carrying protocol's headers and PPP. Neither end authenticates the other, compresses or encrypts.
const OPTIONS: &str = "noauth\nnodefaultroute\nnobsdcomp\nnodeflate\nnoccp\nmtu 1400\nmru 1400\n";
/// The client takes both addresses of the server.
const CLIENT: &str = "noipdefault\nipcp-accept-local\nipcp-accept-remote\n";

/// Writes the files of options: the server's, and the client's.
pub(super) fn write_options(directory: &Scratch) -> Result<[PathBuf; 2], TestbedError> {
    let server = directory.write("server.options", OPTIONS)?;
    let client = directory.write("client.options", &format!("{OPTIONS}{CLIENT}"))?;
    Ok([server, client])
}

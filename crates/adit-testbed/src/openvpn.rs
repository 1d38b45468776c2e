use std::path::Path;
use std::process::Command;

use crate::TestbedError;
use crate::programs::{program, run};

/// Runs the installed OpenVPN with that configuration file.
pub fn openvpn_command(config: &Path) -> Result<Command, TestbedError> {
    let mut command = program("openvpn")?;
    command.arg("--config").arg(config);
    Ok(command)
}

/// A new 2048-bit static key for `tls-auth` or `tls-crypt`, as OpenVPN itself makes it.
pub fn static_key() -> Result<String, TestbedError> {
    run(program("openvpn")?.args(["--genkey", "secret", "/dev/stdout"]))
}

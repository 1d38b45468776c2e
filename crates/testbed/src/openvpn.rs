use std::path::Path;
use std::process::Command;

use crate::programs::{program, run};
use crate::{Scratch, TestbedError};

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

/// A server's new key for `tls-crypt-v2`, and a client's, as OpenVPN itself makes them.
pub fn tls_crypt_v2_keys() -> Result<[String; 2], TestbedError> {
    let server = run(program("openvpn")?.args(["--genkey", "tls-crypt-v2-server", "/dev/stdout"]))?;
    let client = tls_crypt_v2_client_key(&server, None)?;
    Ok([server, client])
}

/// Another client's new key for `tls-crypt-v2` that the server with this key accepts. `metadata` is the text
/// for `tls-crypt-v2-verify`, in base64.
pub fn tls_crypt_v2_client_key(server: &str, metadata: Option<&str>) -> Result<String, TestbedError> {
    let directory = Scratch::create("tls-crypt-v2")?;
    let (key, own) = (directory.write("server.key", server)?, directory.path().join("client.key"));
    let mut command = program("openvpn")?;
    command.arg("--tls-crypt-v2").arg(key).args(["--genkey", "tls-crypt-v2-client"]).arg(&own);
    run(command.args(metadata))?;
    std::fs::read_to_string(&own).map_err(|source| TestbedError::File { path: own, source })
}

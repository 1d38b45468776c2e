//! wireguard-go: installed by Go's own tool, configured by its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{TestbedError, program, wait_until};

/// What wireguard-go and wg-quick choose for an outer MTU of 1500.
pub(crate) const MTU: &str = "1420";

const MODULE: &str = "golang.zx2c4.com/wireguard@latest";
/// Where its sockets are, in every namespace.
const SOCKETS: &str = "/var/run/wireguard";

/// A key pair in hexadecimal, as the socket wants it.
pub(crate) struct Keys {
    private: String,
    public: String,
}

/// The program, fetched and built if it is not there. The error says why not.
pub(crate) fn install(directory: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let directory = directory.canonicalize().map_err(|error| error.to_string())?;
    // Go calls it by the last part of the module's path.
    let path = directory.join("wireguard");
    if path.is_file() {
        return Ok(path);
    }
    let mut go = program("go").map_err(|_| "Go is not installed".to_owned())?;
    let output = go.env("GOBIN", &directory).args(["install", MODULE]).output();
    let output = output.map_err(|error| format!("go install: {error}"))?;
    match output.status.success() {
        true => Ok(path),
        false => Err(format!("go install {MODULE}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The version that was built, as Go recorded it.
pub(crate) fn version(path: &Path) -> String {
    let output = program("go").ok().and_then(|mut go| go.arg("version").arg("-m").arg(path).output().ok());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let module = text.lines().find_map(|line| line.trim().strip_prefix("mod"));
    module.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("of unknown version").to_owned()
}

/// Runs a device in the foreground.
pub(crate) fn command(path: &Path, device: &str) -> Command {
    let mut command = Command::new(path);
    command.args(["--foreground", device]).env("LOG_LEVEL", "error");
    command
}

/// Two key pairs, made by openssl.
pub(crate) fn pair(directory: &Path) -> Result<[Keys; 2], TestbedError> {
    Ok([keys(directory)?, keys(directory)?])
}

fn keys(directory: &Path) -> Result<Keys, TestbedError> {
    let file = directory.join("x25519.der");
    let openssl = |arguments: &[&str]| -> Result<Vec<u8>, TestbedError> {
        let mut command = program("openssl")?;
        let output = command.current_dir(directory).args(arguments).output();
        let output =
            output.map_err(|source| TestbedError::Start { command: "openssl".to_owned(), source })?;
        Ok(output.stdout)
    };
    openssl(&["genpkey", "-algorithm", "X25519", "-outform", "DER", "-out", "x25519.der"])?;
    let private = std::fs::read(&file).map_err(|source| TestbedError::File { path: file, source })?;
    let public = openssl(&["pkey", "-inform", "DER", "-in", "x25519.der", "-pubout", "-outform", "DER"])?;
    // RFC 8410: in both forms the last 32 bytes are the key itself.
    Ok(Keys { private: hex(&private)?, public: hex(&public)? })
}

fn hex(der: &[u8]) -> Result<String, TestbedError> {
    let key: &[u8; 32] = der.last_chunk().ok_or_else(|| TestbedError::Output {
        command: "openssl".to_owned(),
        output: format!("a key of {} bytes", der.len()),
    })?;
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Gives a device its keys and its peer (wireguard.com, "Cross-platform Userspace Implementation").
pub(crate) fn configure(
    device: &str,
    own: &Keys,
    port: Option<u16>,
    peer: &Keys,
    endpoint: Option<&str>,
    allowed: &str,
) -> Result<(), TestbedError> {
    let path = format!("{SOCKETS}/{device}.sock");
    let connected = || UnixStream::connect(&path);
    wait_until("wireguard-go's socket", Duration::from_secs(5), || connected().is_ok())?;
    let mut request = format!("set=1\nprivate_key={}\n", own.private);
    if let Some(port) = port {
        request += &format!("listen_port={port}\n");
    }
    request += &format!("public_key={}\nallowed_ip={allowed}/32\n", peer.public);
    if let Some(endpoint) = endpoint {
        request += &format!("endpoint={endpoint}\n");
    }
    request += "\n";
    let mut answer = String::new();
    let mut exchange = || -> std::io::Result<()> {
        let mut socket = connected()?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        socket.write_all(request.as_bytes())?;
        let mut byte = [0];
        while !answer.ends_with("\n\n") && socket.read(&mut byte)? == 1 {
            answer.push(char::from(byte[0]));
        }
        Ok(())
    };
    exchange()
        .map_err(|source| TestbedError::Network { what: format!("cannot configure {device}"), source })?;
    match answer.contains("errno=0") {
        true => Ok(()),
        false => Err(TestbedError::Output { command: "wireguard-go".to_owned(), output: answer }),
    }
}

//! Tunnels that speak WireGuard: installed by the tools of their languages, configured by their sockets.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{TestbedError, program, wait_until};

use crate::subject::Subject;

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
pub(crate) fn install(subject: Subject, directory: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let directory = directory.canonicalize().map_err(|error| error.to_string())?;
    let (path, mut command) = match crate_name(subject) {
        // Go calls it by the last part of the module's path.
        None => (directory.join("wireguard"), build_by("go", &["install", MODULE])?),
        Some((name, program)) => {
            (directory.join("bin").join(program), build_by("cargo", &["install", "--locked", name])?)
        }
    };
    if path.is_file() {
        return Ok(path);
    }
    let output = command.env("GOBIN", &directory).env("CARGO_INSTALL_ROOT", &directory).output();
    let output = output.map_err(|error| format!("{subject} cannot be built: {error}"))?;
    match output.status.success() {
        true => Ok(path),
        false => {
            Err(format!("{subject} cannot be built: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// What crates.io calls it, and what its program is called; nothing for what is not written in Rust.
fn crate_name(subject: Subject) -> Option<(&'static str, &'static str)> {
    match subject {
        Subject::Boringtun => Some(("boringtun-cli", "boringtun-cli")),
        Subject::Gotatun => Some(("gotatun-cli", "gotatun")),
        _ => None,
    }
}

fn build_by(tool: &str, arguments: &[&str]) -> Result<Command, String> {
    let mut command = program(tool).map_err(|_| format!("{tool} is not installed"))?;
    command.args(arguments);
    Ok(command)
}

/// The version that was built: as Go recorded it, or as the program says.
pub(crate) fn version(subject: Subject, path: &Path) -> String {
    let text = |mut command: Command| {
        let output = command.output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    };
    if crate_name(subject).is_some() {
        let mut command = Command::new(path);
        command.arg("--version");
        return text(command).trim().to_owned();
    }
    let recorded = program("go").map(|mut go| {
        go.arg("version").arg("-m").arg(path);
        text(go)
    });
    let recorded = recorded.unwrap_or_default();
    let module = recorded.lines().find_map(|line| line.trim().strip_prefix("mod"));
    let version = module.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("of unknown version");
    format!("wireguard-go {version}")
}

/// Runs a device in the foreground.
pub(crate) fn command(subject: Subject, path: &Path, device: &str) -> Command {
    let mut command = Command::new(path);
    command.args(["--foreground", device]).env("LOG_LEVEL", "error");
    if crate_name(subject).is_some() {
        command.arg("--disable-drop-privileges");
    }
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

/// Where a device is configured.
pub(crate) fn socket(device: &str) -> PathBuf {
    Path::new(SOCKETS).join(format!("{device}.sock"))
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
    let path = socket(device);
    let connected = || UnixStream::connect(&path);
    wait_until("the device's socket", Duration::from_secs(5), || connected().is_ok())?;
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
        false => Err(TestbedError::Output { command: format!("the socket of {device}"), output: answer }),
    }
}

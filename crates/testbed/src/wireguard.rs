//! The configuration of programs that speak WireGuard in user space, through their sockets.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::{MAX_WAIT, TestbedError, program, wait_until};

/// Where their sockets are, in every namespace.
const SOCKETS: &str = "/var/run/wireguard";

/// A key pair in hexadecimal digits, as the sockets want it.
#[derive(Clone)]
pub struct WireGuardKeys {
    private: String,
    public: String,
}

impl WireGuardKeys {
    /// The private key, in hexadecimal digits.
    pub fn private(&self) -> &str {
        &self.private
    }

    /// The public key, in hexadecimal digits.
    pub fn public(&self) -> &str {
        &self.public
    }
}

/// Two key pairs, made by openssl.
pub fn wireguard_keys(directory: &Path) -> Result<[WireGuardKeys; 2], TestbedError> {
    Ok([keys(directory)?, keys(directory)?])
}

fn keys(directory: &Path) -> Result<WireGuardKeys, TestbedError> {
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
    Ok(WireGuardKeys { private: hex(&private)?, public: hex(&public)? })
}

fn hex(der: &[u8]) -> Result<String, TestbedError> {
    let key: &[u8; 32] = der.last_chunk().ok_or_else(|| TestbedError::Output {
        command: "openssl".to_owned(),
        output: format!("a key of {} bytes", der.len()),
    })?;
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where a device is configured.
pub fn wireguard_socket(device: &str) -> PathBuf {
    Path::new(SOCKETS).join(format!("{device}.sock"))
}

/// Whether a device can be configured. Its socket alone is no sign of that: before its process listens, `wg` takes it for one that
/// was left behind, and removes it.
pub fn wireguard_listens(device: &str) -> bool {
    UnixStream::connect(wireguard_socket(device)).is_ok()
}

/// Removes sockets that processes left which are gone: those of devices called `wgPID`, an `s` or `c`, and
/// perhaps a number.
pub(crate) fn sweep_wireguard_sockets(is_alive: impl Fn(u32) -> bool) {
    let entries = std::fs::read_dir(SOCKETS).into_iter().flatten().flatten();
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix("wg").and_then(|rest| rest.split(['s', 'c']).next());
        if name.ends_with(".sock") && owner.and_then(|pid| pid.parse().ok()).is_some_and(|pid| !is_alive(pid))
        {
            let _ = std::fs::remove_file(Path::new(SOCKETS).join(name));
        }
    }
}

/// Gives a device its keys and its peer (wireguard.com, "Cross-platform Userspace Implementation").
pub fn configure_wireguard(
    device: &str,
    own: &WireGuardKeys,
    port: Option<u16>,
    peer: &WireGuardKeys,
    endpoint: Option<&str>,
    allowed: &str,
) -> Result<(), TestbedError> {
    let mut request = format!("set=1\nprivate_key={}\n", own.private);
    if let Some(port) = port {
        request += &format!("listen_port={port}\n");
    }
    request += &format!("public_key={}\nallowed_ip={allowed}/32\n", peer.public);
    if let Some(endpoint) = endpoint {
        request += &format!("endpoint={endpoint}\n");
    }
    set(device, &request)
}

/// Has a device's socket for datagrams bound to another port.
pub fn set_wireguard_port(device: &str, port: u16) -> Result<(), TestbedError> {
    set(device, &format!("set=1\nlisten_port={port}\n"))
}

/// Sends an operation without the empty line at its end, and waits for the answer.
fn set(device: &str, operation: &str) -> Result<(), TestbedError> {
    let path = wireguard_socket(device);
    wait_until("the device's socket", MAX_WAIT, || wireguard_listens(device))?;
    let request = format!("{operation}\n");
    let mut answer = String::new();
    let mut exchange = || -> std::io::Result<()> {
        let mut socket = UnixStream::connect(&path)?;
        socket.set_read_timeout(Some(MAX_WAIT))?;
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

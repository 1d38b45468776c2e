//! Tunnels that speak WireGuard: built by the tools of their languages, configured through their sockets.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{TestbedError, program, wait_until};

use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version_at};
use crate::error::LabError;
use crate::ground::{Ground, INNER, OUTER, PORT, bring_up};

/// What wireguard-go and wg-quick choose for an outer MTU of 1500.
const MTU: u16 = 1420;
/// Where the programs put their sockets.
const SOCKETS: &str = "/var/run/wireguard";

/// A program that speaks WireGuard.
#[derive(Debug)]
struct WireGuard {
    name: &'static str,
    /// Who builds it, and from what.
    build: [&'static str; 4],
    /// What it is called below the directory of tools.
    path: &'static str,
    /// What it takes beside `--foreground` and the device.
    argument: Option<&'static str>,
}

const ALL: [WireGuard; 3] = [
    WireGuard {
        name: "wireguard-go",
        build: ["go", "install", "-v", "golang.zx2c4.com/wireguard@latest"],
        // Go calls it by the last part of the module's path.
        path: "wireguard",
        argument: None,
    },
    WireGuard {
        name: "boringtun",
        build: ["cargo", "install", "--locked", "boringtun-cli"],
        path: "bin/boringtun-cli",
        argument: Some("--disable-drop-privileges"),
    },
    WireGuard {
        name: "gotatun",
        build: ["cargo", "install", "--locked", "gotatun-cli"],
        path: "bin/gotatun",
        argument: Some("--disable-drop-privileges"),
    },
];

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    ALL.into_iter().map(|subject| Box::new(subject) as Box<dyn Subject>).collect()
}

impl WireGuard {
    fn path(&self, tools: &Tools) -> PathBuf {
        tools.directory.join(self.path)
    }

    fn command(&self, tools: &Tools, device: &str) -> Command {
        let mut command = Command::new(self.path(tools));
        command.args(["--foreground", device]).args(self.argument).env("LOG_LEVEL", "error");
        command
    }

    fn version(&self, tools: &Tools) -> Option<String> {
        let path = self.path(tools);
        match self.build[0] {
            "go" => path.is_file().then(|| go_version(&path)),
            _ => version_at(&path, &["--version"]),
        }
    }
}

/// The version that was built, as Go recorded it.
fn go_version(path: &Path) -> String {
    let output = program("go").ok().and_then(|mut go| go.arg("version").arg("-m").arg(path).output().ok());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let module = text.lines().find_map(|line| line.trim().strip_prefix("mod"));
    module.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("of unknown version").to_owned()
}

impl Subject for WireGuard {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn about(&self) -> String {
        format!("{}, ChaCha20-Poly1305", self.name)
    }

    fn availability(&self, tools: &Tools) -> Availability {
        match self.version(tools) {
            Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
            None if program(self.build[0]).is_err() => {
                Availability::Impossible(format!("{} is not installed, which builds it", self.build[0]))
            }
            None => Availability::Installable(self.build.join(" ")),
        }
    }

    fn start(&self, ground: &mut Ground, tools: &Tools) -> Result<Tunnel, LabError> {
        let keys = pair(ground.directory.path())?;
        let devices = ["s", "c"].map(|end| format!("wg{}{end}", std::process::id()));
        ground.leftovers = devices.iter().map(|device| socket(device)).collect();
        ground.start_server(self.command(tools, &devices[0]))?;
        configure(&devices[0], &keys[0], Some(PORT), &keys[1], None, INNER[1])?;
        bring_up(&ground.server, &devices[0], INNER[0], MTU)?;
        let endpoint = format!("{}:{PORT}", OUTER[0]);
        let command = self.command(tools, &devices[1]);
        let first_reply = ground.start_client(command, |client| {
            configure(&devices[1], &keys[1], None, &keys[0], Some(&endpoint), INNER[0])?;
            bring_up(client, &devices[1], INNER[1], MTU)
        })?;
        Ok(Tunnel { inner: true, first_reply: Some(first_reply) })
    }
}

/// A key pair, in the hexadecimal digits of the sockets' language.
struct Keys {
    private: String,
    public: String,
}

/// Two key pairs, made by openssl.
fn pair(directory: &Path) -> Result<[Keys; 2], TestbedError> {
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
fn socket(device: &str) -> PathBuf {
    Path::new(SOCKETS).join(format!("{device}.sock"))
}

/// Gives a device its keys and its peer (wireguard.com, "Cross-platform Userspace Implementation").
fn configure(
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

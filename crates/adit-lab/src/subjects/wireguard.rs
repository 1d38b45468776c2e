//! Tunnels that speak WireGuard: built by the tools of their languages, configured through their sockets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use adit_testbed::{configure_wireguard, program, wireguard_keys, wireguard_socket};

use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version_at};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, Testbed, bring_up};

/// What wireguard-go and wg-quick choose for an outer MTU of 1500.
pub(crate) const MTU: u16 = 1420;

/// Tells the devices of several tunnels apart.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A program that speaks WireGuard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireGuard {
    name: &'static str,
    /// What gets it.
    build: &'static [&'static str],
    /// What it is called below the directory of tools; where Debian puts it if it is its package.
    path: &'static str,
    /// What it takes beside `--foreground` and the device.
    argument: Option<&'static str>,
}

const ALL: [WireGuard; 4] = [
    WireGuard {
        name: "wireguard-go",
        build: &["go", "install", "-v", "golang.zx2c4.com/wireguard@latest"],
        // Go calls it by the last part of the module's path.
        path: "wireguard",
        argument: None,
    },
    WireGuard {
        name: "wireguard-go-debian",
        build: &["apt-get", "install", "--yes", "wireguard-go"],
        path: "/usr/bin/wireguard-go",
        argument: None,
    },
    WireGuard {
        name: "boringtun",
        build: &["cargo", "install", "--locked", "boringtun-cli"],
        path: "bin/boringtun-cli",
        argument: Some("--disable-drop-privileges"),
    },
    WireGuard {
        name: "gotatun",
        build: &["cargo", "install", "--locked", "gotatun-cli"],
        path: "bin/gotatun",
        argument: Some("--disable-drop-privileges"),
    },
];

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    ALL.into_iter().map(|subject| Box::new(subject) as Box<dyn Subject>).collect()
}

/// The one of that name.
pub(crate) fn find(name: &str) -> Option<WireGuard> {
    ALL.into_iter().find(|subject| subject.name == name)
}

impl WireGuard {
    fn builder(&self) -> &'static str {
        self.build.first().copied().unwrap_or_default()
    }

    fn lacks_builder(&self) -> String {
        let (what, from) = match self.builder() {
            "go" => ("go", "Go 1.21 or later is at https://go.dev/dl"),
            "cargo" => ("cargo", "Rust is at https://rustup.rs"),
            other => return format!("there is no {other}"),
        };
        format!("there is no {what} in PATH; {from}, and `adit-lab setup` builds it then")
    }

    fn path(&self, tools: &Tools) -> PathBuf {
        tools.directory.join(self.path)
    }

    /// What runs a device in the foreground.
    pub(crate) fn command(&self, tools: &Tools, device: &str) -> Command {
        let mut command = Command::new(self.path(tools));
        command.args(["--foreground", device]).args(self.argument).env("LOG_LEVEL", "error");
        command
    }

    /// The version that is installed, if one is.
    pub(crate) fn version(&self, tools: &Tools) -> Option<String> {
        let path = self.path(tools);
        match self.builder() {
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
            None if program(self.builder()).is_err() => Availability::Impossible(self.lacks_builder()),
            None => Availability::Installable(self.build.join(" ")),
        }
    }

    fn start(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, LabError> {
        let keys = wireguard_keys(testbed.directory.path())?;
        // Their sockets are in one folder, whatever namespace they are in.
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % 1000;
        let devices = ["s", "c"].map(|end| format!("wg{}{end}{number}", std::process::id()));
        testbed.leftovers = devices.iter().map(|device| wireguard_socket(device)).collect();
        testbed.start_server(self.command(tools, &devices[0]))?;
        configure_wireguard(&devices[0], &keys[0], Some(PORT), &keys[1], None, INNER[1])?;
        bring_up(&testbed.server, &devices[0], INNER[0], MTU)?;
        let endpoint = format!("{}:{PORT}", OUTER[0]);
        let command = self.command(tools, &devices[1]);
        let started = testbed.start_client(command, |client| {
            configure_wireguard(&devices[1], &keys[1], None, &keys[0], Some(&endpoint), INNER[0])?;
            bring_up(client, &devices[1], INNER[1], MTU)
        })?;
        Ok(Tunnel::up(started))
    }
}

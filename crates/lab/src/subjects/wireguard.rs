//! Tunnels that speak WireGuard: adit's own, and those built by the tools of their languages. All are configured through
//! their sockets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use adit_testbed::{
    TestbedError, configure_wireguard, program, wireguard_keys, wireguard_listens, wireguard_socket,
};

use super::{Availability, Subject, Tools, Tunnel, adit, installing, lacks_tun, version_at};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, TIMEOUT, Testbed, bring_up};

/// The MTU that wireguard-go and wg-quick choose for an outer MTU of 1500.
pub(crate) const MTU: u16 = 1420;

/// While a program starts, its socket is looked for this often.
const SOCKET_INTERVAL: Duration = Duration::from_micros(250);

/// Tells the devices of several tunnels apart.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A program that speaks WireGuard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    name: &'static str,
    origin: Origin,
}

/// Where a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The program is the measured adit.
    Adit,
    /// `adit-lab setup` gets it.
    Tool {
        /// By this command.
        build: &'static [&'static str],
        /// Its path below the directory of tools; where Debian puts it if it is its package.
        path: &'static str,
        /// Its argument beside `--foreground` and the device.
        argument: Option<&'static str>,
    },
}

const ADIT: Program = Program { name: "adit-wireguard", origin: Origin::Adit };
const WIREGUARD_GO: Program = Program {
    name: "wireguard-go",
    origin: Origin::Tool {
        build: &["go", "install", "-v", "golang.zx2c4.com/wireguard@latest"],
        // Go calls it by the last part of the module's path.
        path: "wireguard",
        argument: None,
    },
};
const DEBIAN: Program = Program {
    name: "wireguard-go-debian",
    origin: Origin::Tool {
        build: &["apt-get", "install", "--yes", "wireguard-go"],
        path: "/usr/bin/wireguard-go",
        argument: None,
    },
};
const BORINGTUN: Program = Program {
    name: "boringtun",
    origin: Origin::Tool {
        build: &["cargo", "install", "--locked", "boringtun-cli"],
        path: "bin/boringtun-cli",
        argument: Some("--disable-drop-privileges"),
    },
};
const GOTATUN: Program = Program {
    name: "gotatun",
    origin: Origin::Tool {
        build: &["cargo", "install", "--locked", "gotatun-cli"],
        path: "bin/gotatun",
        argument: Some("--disable-drop-privileges"),
    },
};

/// The programs that are measured at both ends.
const ALL: [Program; 5] = [ADIT, WIREGUARD_GO, DEBIAN, BORINGTUN, GOTATUN];
/// The programs that are measured with adit's at the other end: the current ones of others.
const PEERS: [Program; 3] = [WIREGUARD_GO, BORINGTUN, GOTATUN];

/// A tunnel between two programs that speak WireGuard, or between two processes of one.
#[derive(Clone, Copy, Debug)]
struct WireGuard {
    server: Program,
    client: Program,
}

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    let same = ALL.into_iter().map(|program| WireGuard { server: program, client: program });
    let mixed = PEERS.into_iter().flat_map(|peer| {
        [WireGuard { server: peer, client: ADIT }, WireGuard { server: ADIT, client: peer }]
    });
    same.chain(mixed).map(|subject| Box::new(subject) as Box<dyn Subject>).collect()
}

/// The program of that name.
fn find(name: &str) -> Option<Program> {
    ALL.into_iter().find(|program| program.name == name)
}

/// The program of that name, got as `adit-lab setup` gets it if it is not there. The error says why it cannot be.
pub(crate) fn get(name: &str, tools: &Tools) -> Result<Program, String> {
    let program = find(name).ok_or_else(|| format!("no program that speaks WireGuard is called {name}"))?;
    match program.availability(tools) {
        Availability::Installed(_) => Ok(program),
        Availability::Installable(how) if installing::run(&how, tools) => Ok(program),
        other => Err(other.to_string()),
    }
}

/// Waits until a device can be configured. The device is asked so often that the measured time of a start does not
/// depend on when it was asked.
pub(crate) fn wait_for_socket(device: &str) -> Result<(), TestbedError> {
    let start = Instant::now();
    while !wireguard_listens(device) {
        if start.elapsed() > TIMEOUT {
            let what = format!("the socket of {device}");
            return Err(TestbedError::TimedOut { what, waited: TIMEOUT });
        }
        std::thread::sleep(SOCKET_INTERVAL);
    }
    Ok(())
}

/// How to get the program that builds a program.
fn lacks_builder(builder: &str) -> String {
    let (what, from) = match builder {
        "go" => ("go", "Go 1.21 or later is at https://go.dev/dl"),
        "cargo" => ("cargo", "Rust is at https://rustup.rs"),
        other => return format!("there is no {other}"),
    };
    format!("there is no {what} in PATH; {from}, and `adit-lab setup` builds it then")
}

impl Program {
    fn path(&self, tools: &Tools) -> PathBuf {
        match self.origin {
            Origin::Adit => tools.adit.clone(),
            Origin::Tool { path, .. } => tools.directory.join(path),
        }
    }

    /// The command that runs a device in the foreground. State that outlasts the process is kept below
    /// `state`.
    pub(crate) fn command(&self, tools: &Tools, device: &str, state: &Path) -> Command {
        let mut command = Command::new(self.path(tools));
        match self.origin {
            Origin::Adit => command.args(["wireguard", "--foreground", device]),
            Origin::Tool { argument, .. } => command.args(["--foreground", device]).args(argument),
        };
        command.env("LOG_LEVEL", "error").env("STATE_DIRECTORY", state);
        command
    }

    /// The version that is installed, if one is.
    pub(crate) fn version(&self, tools: &Tools) -> Option<String> {
        let path = self.path(tools);
        match self.origin {
            Origin::Tool { build: ["go", ..], .. } => path.is_file().then(|| go_version(&path)),
            Origin::Adit | Origin::Tool { .. } => version_at(&path, &["--version"]),
        }
    }

    /// Whether it can run here.
    pub(crate) fn availability(&self, tools: &Tools) -> Availability {
        if let Some(version) = self.version(tools) {
            return lacks_tun().unwrap_or(Availability::Installed(version));
        }
        match self.origin {
            Origin::Adit => Availability::Unbuilt(adit::unbuilt(tools)),
            Origin::Tool { build, .. } => {
                let builder = build.first().copied().unwrap_or_default();
                match program(builder) {
                    Ok(_) => Availability::Installable(build.join(" ")),
                    Err(_) => Availability::Impossible(lacks_builder(builder)),
                }
            }
        }
    }

    /// Its name in plans, where it is at both ends.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its name in a sentence.
    fn words(&self) -> &'static str {
        if self.origin == Origin::Adit { "adit's WireGuard" } else { self.name }
    }

    /// Its name in the name of a subject with two programs.
    fn short(&self) -> &'static str {
        if self.origin == Origin::Adit { "adit" } else { self.name }
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
        match self.server == self.client {
            true => self.server.name.to_owned(),
            false => format!("{}-to-{}", self.client.short(), self.server.short()),
        }
    }

    fn about(&self) -> String {
        let (client, server) = (self.client.words(), self.server.words());
        match self.server == self.client {
            true => format!("{server}, ChaCha20-Poly1305"),
            false => format!("{client} as the client of {server}, ChaCha20-Poly1305"),
        }
    }

    fn availability(&self, tools: &Tools) -> Availability {
        match (self.client.availability(tools), self.server.availability(tools)) {
            (Availability::Installed(client), Availability::Installed(server)) => {
                let both = if client == server { client } else { format!("{client}; {server}") };
                Availability::Installed(both)
            }
            (Availability::Installed(_), lacking) | (lacking, _) => lacking,
        }
    }

    fn start(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, LabError> {
        let state = testbed.directory.path().to_owned();
        let keys = wireguard_keys(&state)?;
        // Their sockets are in one folder, from all namespaces.
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % 1000;
        let devices = ["s", "c"].map(|end| format!("wg{}{end}{number}", std::process::id()));
        testbed.leftovers = devices.iter().map(|device| wireguard_socket(device)).collect();
        testbed.start_server(self.server.command(tools, &devices[0], &state))?;
        configure_wireguard(&devices[0], &keys[0], Some(PORT), &keys[1], None, INNER[1])?;
        bring_up(&testbed.server, &devices[0], INNER[0], MTU)?;
        let endpoint = format!("{}:{PORT}", OUTER[0]);
        let command = self.client.command(tools, &devices[1], &state);
        let started = testbed.start_client(command, |client| {
            wait_for_socket(&devices[1])?;
            configure_wireguard(&devices[1], &keys[1], None, &keys[0], Some(&endpoint), INNER[0])?;
            bring_up(client, &devices[1], INNER[1], MTU)
        })?;
        Ok(Tunnel::up(started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_of_both_ends() {
        let names: Vec<String> = all().iter().map(|subject| subject.name()).collect();
        assert_eq!(names[..2], ["adit-wireguard", "wireguard-go"]);
        assert_eq!(names[5..7], ["adit-to-wireguard-go", "wireguard-go-to-adit"]);
        assert_eq!(names.len(), 5 + 6);
        let about = all()[5].about();
        assert_eq!(about, "adit's WireGuard as the client of wireguard-go, ChaCha20-Poly1305");
    }

    #[test]
    fn a_tunnel_of_two_programs_needs_both() {
        let nowhere = Tools {
            directory: "/".into(),
            load: "/".into(),
            adit: "/nonexistent/adit".into(),
            lab: "/".into(),
            external: "/".into(),
            miragevpn: None,
        };
        let unbuilt = |subject: WireGuard| matches!(subject.availability(&nowhere), Availability::Unbuilt(_));
        assert!(unbuilt(WireGuard { server: ADIT, client: ADIT }));
        assert!(unbuilt(WireGuard { server: BORINGTUN, client: ADIT }));
        assert!(!unbuilt(WireGuard { server: ADIT, client: BORINGTUN }), "the client is named first");
    }
}

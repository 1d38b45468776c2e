//! Two interfaces, each in a namespace of its own.

use std::io::Read as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use adit_testbed::{
    MAX_WAIT, Namespace, Ping, Scratch, TestbedError, connect, program, wait_until, wait_until_reachable,
    wireguard_listens, wireguard_socket,
};
use adit_wireguard::PrivateKey;

/// The programs that the tests drive besides `ip`.
pub(super) const PROGRAMS: [&str; 1] = ["wg"];
/// How long anything may take.
pub(super) const WAIT: Duration = MAX_WAIT;
/// The device that joins the namespaces.
const WIRE: &str = "wire";
/// The port of every interface: they are in namespaces of their own.
pub(super) const PORT: u16 = 51820;

/// The program that runs an interface. `scripts/install-deps` has the versions of those that it builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Adit,
    /// Debian's wireguard-go, of 2022.
    WireGuardGoOfDebian,
    WireGuardGo,
    BoringTun,
    GotaTun,
    /// Linux's own, which has no process.
    Kernel,
}

/// A program that `scripts/install-deps` built.
macro_rules! built {
    ($name:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/bin/", $name)
    };
}

impl Program {
    /// Where it is, or its name where Debian has it.
    pub(super) fn path(self) -> &'static str {
        match self {
            Program::Adit => env!("CARGO_BIN_EXE_adit-wireguard"),
            Program::WireGuardGoOfDebian => "wireguard-go",
            // Go calls it by the last part of the module's path.
            Program::WireGuardGo => built!("wireguard"),
            Program::BoringTun => built!("boringtun-cli"),
            Program::GotaTun => built!("gotatun"),
            Program::Kernel => "ip",
        }
    }

    /// The command that runs an interface, in the background unless an option says otherwise.
    pub(super) fn command(self) -> Command {
        let mut command = program(self.path()).unwrap();
        if self == Program::BoringTun {
            // Else its sockets keep an address that the machine has no longer (boringtun#187).
            command.arg("--disable-connected-udp");
        }
        // boringtun and gotatun: they remain root, and write no log.
        command.env("WG_SUDO", "true").env("WG_LOG_FILE", "/dev/null");
        for variable in ["LOG_LEVEL", "WG_PROCESS_FOREGROUND", "WG_TUN_FD", "WG_UAPI_FD"] {
            command.env_remove(variable);
        }
        command
    }
}

/// An interface in a namespace.
pub(super) struct End {
    pub(super) namespace: Namespace,
    pub(super) device: String,
    pub(super) public_key: String,
    pub(super) key_file: PathBuf,
    /// The directory in which the daemon keeps its state over restarts.
    pub(super) state: PathBuf,
    pub(super) scratch: Scratch,
    pub(super) program: Program,
    number: u8,
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

/// The name of a device that no other test has: the sockets of all namespaces are in one directory.
pub(super) fn device(end: char) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("wg{}{end}{number}", std::process::id())
}

impl End {
    /// A namespace and a key. Nothing runs.
    pub(super) fn create(number: u8, program: Program) -> Self {
        let scratch = Scratch::create("wireguard").unwrap();
        let namespace = Namespace::create(&format!("wg{number}")).unwrap();
        let (key_file, state) = (scratch.path().join("key"), scratch.path().join("state"));
        let key = PrivateKey::new(random()).unwrap();
        std::fs::write(&key_file, format!("{}\n", *key.to_base64())).unwrap();
        let public_key = key.public_key().to_base64();
        let device = device(if number == 1 { 's' } else { 'c' });
        End { namespace, device, public_key, key_file, state, scratch, program, number }
    }

    /// `10.77.0.N`, the address within the tunnel.
    pub(super) fn inner(&self) -> IpAddr {
        format!("10.77.0.{}", self.number).parse().unwrap()
    }

    pub(super) fn inner_v6(&self) -> IpAddr {
        format!("fd00:77::{}", self.number).parse().unwrap()
    }

    /// The address of its end of the wire.
    pub(super) fn outer(&self) -> String {
        format!("10.9.0.{}", self.number)
    }

    pub(super) fn outer_v6(&self) -> String {
        format!("[fd00:9::{}]", self.number)
    }

    /// The command that runs its interface.
    pub(super) fn command(&self) -> Command {
        let mut command = self.program.command();
        command.arg(&self.device).env("STATE_DIRECTORY", &self.state);
        command
    }

    /// Starts the program as `wg-quick` does: it has gone into the background when this returns, and lets go of its
    /// output.
    pub(super) fn start(&self) -> Result<String, TestbedError> {
        if self.program == Program::Kernel {
            return self.namespace.ip(&["link", "add", &self.device, "type", "wireguard"]);
        }
        if self.program == Program::BoringTun {
            // It does not make the directory of its socket (boringtun#389).
            std::fs::create_dir_all("/var/run/wireguard").unwrap();
        }
        self.namespace.run(self.command())
    }

    /// Gives the interface its addresses and takes it up.
    pub(super) fn bring_up(&self) {
        let [address, address_v6] = [format!("{}/24", self.inner()), format!("{}/64", self.inner_v6())];
        let device = &self.device;
        let lines = [
            format!("address add {address} dev {device}"),
            format!("address add {address_v6} dev {device} nodad"),
            format!("link set {device} mtu 1420 up"),
        ];
        self.namespace.ip_lines(&lines).unwrap();
    }

    /// Ends the program and begins again, without anything that was configured.
    pub(super) fn restart(&self) {
        if self.program == Program::Kernel {
            self.namespace.ip(&["link", "delete", &self.device]).unwrap();
        }
        for process in self.daemons() {
            let mut kill = program("kill").unwrap();
            kill.arg(process.to_string());
            self.namespace.run(kill).unwrap();
        }
        wait_until("the daemon to end", WAIT, || self.processes().is_empty()).unwrap();
        // Not every program removes its own.
        let _ = std::fs::remove_file(wireguard_socket(&self.device));
        self.start().unwrap();
        self.set_key();
    }

    /// Runs `wg` with these words, in which `DEV` stands for the device.
    pub(super) fn wg(&self, words: &str) -> Result<String, TestbedError> {
        let mut command = program("wg")?;
        command.args(words.split(' ').map(|word| if word == "DEV" { &self.device } else { word }));
        self.namespace.run(command)
    }

    /// Gives the interface its key and its port.
    pub(super) fn set_key(&self) {
        let key = self.key_file.display();
        self.wg(&format!("set DEV private-key {key} listen-port {PORT}")).unwrap();
    }

    /// Makes the other end its peer, reached at `endpoint` if that is known.
    pub(super) fn add_peer(&self, other: &End, endpoint: Option<String>) {
        let (key, address, address_v6) = (&other.public_key, other.inner(), other.inner_v6());
        let endpoint = endpoint.map(|endpoint| format!(" endpoint {endpoint}:{PORT}")).unwrap_or_default();
        let words = format!("set DEV peer {key} allowed-ips {address}/32,{address_v6}/128{endpoint}");
        self.wg(&words).unwrap();
    }

    /// Makes the other end its peer anew, with these settings beside its addresses. boringtun cannot change a peer.
    pub(super) fn replace_peer(&self, other: &End, settings: &str) {
        let (key, address, address_v6) = (&other.public_key, other.inner(), other.inner_v6());
        self.wg(&format!("set DEV peer {key} remove")).unwrap();
        self.wg(&format!("set DEV peer {key} allowed-ips {address}/32,{address_v6}/128 {settings}")).unwrap();
    }

    /// Where its peer is, as `wg` shows it.
    pub(super) fn endpoint(&self, other: &End) -> String {
        let shown = self.wg("show DEV endpoints").unwrap();
        let endpoint = shown.trim().strip_prefix(&format!("{}\t", other.public_key));
        endpoint.map(str::to_owned).unwrap_or(shown)
    }

    /// Whether its daemon serves `wg`.
    pub(super) fn is_served(&self) -> bool {
        wireguard_listens(&self.device)
    }

    /// The processes in its namespace.
    pub(super) fn processes(&self) -> Vec<u32> {
        // One that has ended and is not waited for has no program.
        let has_program = |number: &u32| std::fs::read_link(format!("/proc/{number}/exe")).is_ok();
        self.namespace.processes().unwrap().into_iter().filter(has_program).collect()
    }

    /// The processes among these that help another.
    pub(super) fn helpers(&self) -> Vec<u32> {
        let mut processes = self.processes();
        processes.retain(|process| is_helper(*process));
        processes
    }

    /// The processes among these that help no other.
    pub(super) fn daemons(&self) -> Vec<u32> {
        let mut processes = self.processes();
        processes.retain(|process| !is_helper(*process));
        processes
    }

    /// Waits until the daemon, its device and its socket are gone.
    pub(super) fn wait_until_gone(&self) {
        wait_until("the daemon to end", WAIT, || self.processes().is_empty()).unwrap();
        assert!(!wireguard_socket(&self.device).exists(), "the socket was left");
        // A process that was killed has lost its program before its descriptors.
        let has_device = || self.namespace.devices().unwrap().contains(&self.device);
        wait_until("the device to go", WAIT, || !has_device()).unwrap();
    }

    /// Both inner addresses of the other end answer.
    pub(super) fn reaches(&self, other: &End) {
        for target in [other.inner(), other.inner_v6()] {
            wait_until_reachable(&self.namespace, target, WAIT).unwrap();
            let report = Ping::new(20, Duration::from_millis(5)).run(&self.namespace, target).unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
    }

    /// The IPv4 address of the other end answers.
    pub(super) fn reaches_v4(&self, other: &End) {
        wait_until_reachable(&self.namespace, other.inner(), WAIT).unwrap();
    }

    /// Whether the other end answers within a second.
    pub(super) fn is_answered(&self, target: IpAddr) -> bool {
        let ping = Ping { timeout: Duration::from_millis(500), ..Ping::new(3, Duration::from_millis(100)) };
        ping.run(&self.namespace, target).unwrap().received > 0
    }
}

/// Two ends that are each other's peers, up. The second knows where the first is; the first learns it.
pub(super) fn pair(programs: [Program; 2]) -> [End; 2] {
    let ends = joined(programs);
    for end in &ends {
        end.start().unwrap();
        end.set_key();
    }
    let [first, second] = &ends;
    first.add_peer(second, None);
    second.add_peer(first, Some(first.outer()));
    ends.iter().for_each(End::bring_up);
    ends
}

/// Two ends with a wire between them. Nothing runs.
pub(super) fn joined(programs: [Program; 2]) -> [End; 2] {
    let ends = [End::create(1, programs[0]), End::create(2, programs[1])];
    connect(
        &ends[0].namespace,
        &["10.9.0.1/24", "fd00:9::1/64"],
        &ends[1].namespace,
        &["10.9.0.2/24", "fd00:9::2/64"],
        WIRE,
    )
    .unwrap();
    ends
}

/// Whether the command of a process is `adit helper`.
fn is_helper(process: u32) -> bool {
    let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"helper")
}

//! A namespace with a virtual machine that runs an appliance.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adit_testbed::{
    Authority, Kernel, KeyKind, Machine, Namespace, Process, Purpose, RunningMachine, Scratch, Validity,
    program, wait_until_reachable,
};

/// How long a machine may take to boot and to connect, on a computer that is busy with other tests.
pub(super) const LIMIT: Duration = Duration::from_secs(300);
/// The memory of a machine in MiB. The program of the tests is larger than a release's.
const MEMORY: u32 = 256;

/// The parameter by which a kernel does not test its ciphers: that is a third of an emulated boot.
pub(super) const WITHOUT_SELF_TESTS: &str = "cryptomgr.notests=1";

/// Most bytes of a kernel with its initramfs.
const MOST: u64 = 32 << 20;

/// An image that was made.
pub(super) struct Built {
    pub(super) folder: PathBuf,
    /// Bytes of the kernel and the initramfs.
    pub(super) size: u64,
    /// The sizes of the parts, in words.
    pub(super) report: String,
}

/// A namespace, and the files of a test.
pub(super) struct Bed {
    pub(super) namespace: Namespace,
    pub(super) scratch: Scratch,
    kernel: PathBuf,
    modules: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

/// Held by the bed whose machine runs: emulated processors take all of this system's.
static TURN: Mutex<()> = Mutex::new(());

impl Bed {
    /// A bed for a test, or none where a machine cannot run here.
    pub(super) fn for_test(test: &str) -> Option<Self> {
        Bed::for_test_with(test, &[])
    }

    /// A bed for a test that drives further programs.
    pub(super) fn for_test_with(test: &str, programs: &[&str]) -> Option<Self> {
        let (kernel, modules) = Kernel::Bookworm.for_test(test)?;
        if !adit_testbed::can_run(test, &[&["wg", "openssl"], programs].concat()) {
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (namespace, scratch) =
            (Namespace::create("appliance").unwrap(), Scratch::create("appliance").unwrap());
        Some(Bed { namespace, scratch, kernel, modules, _turn: turn })
    }

    /// A private and a public key of WireGuard.
    pub(super) fn keys(&self) -> [String; 2] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "key=$(wg genkey) && echo $key && echo $key | wg pubkey"]);
        let words = self.namespace.run(shell).unwrap();
        let mut words = words.split_whitespace().map(str::to_owned);
        [words.next().unwrap(), words.next().unwrap()]
    }

    /// The configurations of a WireGuard server at 10.9.0.1 with the inner address 10.77.0.1, and of its client at 10.77.0.2.
    pub(super) fn write_wireguard(&self) -> [PathBuf; 2] {
        self.write_wireguard_to("10.9.0.1")
    }

    /// [`Bed::write_wireguard`], where the client sends everything into the tunnel, by the rules of wg-quick.
    pub(super) fn write_full_tunnel(&self) -> [PathBuf; 2] {
        let [server, client] = self.write_wireguard();
        let text = std::fs::read_to_string(&client).unwrap();
        let text = text.replace("AllowedIPs = 10.77.0.0/24, fd00:77::/64", "AllowedIPs = 0.0.0.0/0, ::/0");
        let text = text.replace("[Interface]", "[Interface]\n#adit: full-tunnel = wg-quick");
        std::fs::write(&client, text).unwrap();
        [server, client]
    }

    /// The configurations of a WireGuard server, and of its client that calls it there.
    pub(super) fn write_wireguard_to(&self, endpoint: &str) -> [PathBuf; 2] {
        let [[server, server_public], [client, client_public]] = [self.keys(), self.keys()];
        let server = format!(
            "[Interface]\nPrivateKey = {server}\nAddress = 10.77.0.1/24, fd00:77::1/64\nListenPort = 51820\n[Peer]\nPublicKey = {client_public}\n\
             AllowedIPs = 10.77.0.2/32, fd00:77::2/128\n"
        );
        let client = format!(
            "[Interface]\nPrivateKey = {client}\nAddress = 10.77.0.2/24, fd00:77::2/64\n[Peer]\nPublicKey = {server_public}\n\
             AllowedIPs = 10.77.0.0/24, fd00:77::/64\nEndpoint = {endpoint}:51820\nPersistentKeepalive = 1\n"
        );
        // The sockets of all namespaces' devices are in one folder.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let write = |end: char, text: &str| {
            self.scratch.write(&format!("wg{}{end}{number}.conf", std::process::id()), text).unwrap()
        };
        [write('s', &server), write('c', &client)]
    }

    /// The configurations of an OpenVPN server with the inner address 10.78.0.1, and of a client that calls it there.
    pub(super) fn write_openvpn(&self, remote: &str) -> [PathBuf; 2] {
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        let blocks = |name: &str, purpose| {
            let identity = authority.issue(name, purpose, Validity::Now).unwrap();
            let parts =
                [("ca", &authority.certificate), ("cert", &identity.certificate), ("key", &identity.key)];
            parts.map(|(name, text)| format!("<{name}>\n{text}</{name}>\n")).concat()
        };
        let server = format!(
            "dev tun\nproto udp\nserver 10.78.0.0 255.255.255.0\ntopology subnet\ndh none\nverb 3\nkeepalive 1 5\n{}",
            blocks("server", Purpose::Server)
        );
        let client = format!(
            "client\ndev tun\nproto udp\nremote {remote} 1194\nremote-cert-tls server\nverb 3\nconnect-retry 1 2\n\
             server-poll-timeout 10\n{}",
            blocks("client", Purpose::Client)
        );
        let write = |name: &str, text: &str| self.scratch.write(name, text).unwrap();
        [write("server.conf", &server), write("client.conf", &client)]
    }

    /// The swanctl files of a responder and of an initiator with these networks behind them, at these addresses.
    pub(super) fn write_ipsec(&self, networks: [&str; 2], addresses: [&str; 2]) -> [PathBuf; 2] {
        [0, 1].map(|own| {
            let other = 1 - own;
            let start = if own == 1 { "start" } else { "none" };
            let text = format!(
                "connections {{\n office {{\n local_addrs = {}\n remote_addrs = {}\n local {{\n auth = psk\n id = end{own}.example\n }}\n \
                 remote {{\n auth = psk\n id = end{other}.example\n }}\n children {{\n net {{\n local_ts = {}\n remote_ts = {}\n \
                 start_action = {start}\n }}\n }}\n }}\n}}\nsecrets {{\n ike-office {{\n secret = \"a long secret of both ends\"\n }}\n}}\n",
                addresses[own], addresses[other], networks[own], networks[other],
            );
            self.scratch.write(&format!("swanctl{}-{own}.conf", std::process::id()), &text).unwrap()
        })
    }

    /// Waits until an address answers through the tunnel.
    pub(super) fn wait_for_answer(&self, machine: &RunningMachine, address: &str) {
        let reached = wait_until_reachable(&self.namespace, address.parse().unwrap(), LIMIT);
        assert!(reached.is_ok(), "{reached:?}\n{}", machine.process.log());
    }

    /// A folder of that name with copies of these files.
    pub(super) fn folder(&self, name: &str, files: &[&Path]) -> PathBuf {
        let folder = self.scratch.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        for file in files {
            std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
        }
        folder
    }

    /// A disk of ext4 with that label and these files.
    pub(super) fn disk(&self, label: &str, files: &[&Path]) -> PathBuf {
        let folder = self.folder(&format!("content of {label}"), files);
        let disk = self.scratch.path().join(format!("{label}.disk"));
        std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
        let mut make = program("mkfs.ext4").unwrap();
        make.args(["-q", "-L", label, "-d"]).arg(&folder).arg(&disk);
        let output = make.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        disk
    }

    /// A disk of ext4 with that label and no free space.
    pub(super) fn full_disk(&self, label: &str) -> PathBuf {
        let disk = self.scratch.path().join("disk");
        let content = self.scratch.path().join("content");
        std::fs::create_dir(&content).unwrap();
        // One file takes all blocks, of 1 KiB each: the largest for which there is room beside the file system's own.
        let fits = (800..1000).rev().any(|size| {
            std::fs::write(content.join("large"), vec![1; size << 10]).unwrap();
            std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
            let mut make = program("mkfs.ext4").unwrap();
            make.args(["-q", "-b", "1024", "-m", "0", "-O", "^has_journal", "-L", label, "-d"]);
            make.arg(&content).arg(&disk).output().unwrap().status.success()
        });
        assert!(fits, "no file system could be made");
        disk
    }

    /// Makes an image of configurations, with further arguments.
    pub(super) fn build(&self, files: &[&Path], arguments: &[&str]) -> PathBuf {
        let program = Path::new(env!("CARGO_BIN_EXE_adit"));
        self.build_by(program, files, &[&["--compress", "gzip"], arguments].concat()).folder
    }

    /// Makes an image of that program, which is compressed by xz if the arguments do not say otherwise.
    pub(super) fn build_by(&self, program: &Path, files: &[&Path], arguments: &[&str]) -> Built {
        let folder = self.scratch.path().join("image");
        let mut command = Command::new(program);
        command.args(["appliance", "build", "--kernel"]).arg(&self.kernel);
        command.arg("--modules").arg(&self.modules).args(arguments).arg(&folder).args(files);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let size = |name| std::fs::metadata(folder.join(name)).unwrap().len();
        let built = Built {
            size: size("vmlinuz") + size("initramfs"),
            report: String::from_utf8_lossy(&output.stdout).into_owned(),
            folder,
        };
        assert!(built.size <= MOST, "{} bytes", built.size);
        built
    }

    /// Boots an image with one network device, whose other end `tap0` has these addresses.
    pub(super) fn boot(&self, image: &Path, addresses: &[&str]) -> RunningMachine {
        self.start(&machine(image), addresses)
    }

    /// Boots an image with so many MiB of memory, and with no further parameter.
    pub(super) fn boot_in(&self, image: &Path, addresses: &[&str], memory: u32) -> RunningMachine {
        self.start(&Machine { memory, parameters: String::new(), ..machine(image) }, addresses)
    }

    /// Boots the EFI program of an image by a firmware, with disks behind the one that has the program.
    pub(super) fn boot_efi(&self, image: &Path, addresses: &[&str], disks: Vec<PathBuf>) -> RunningMachine {
        let efi = adit_testbed::Image::Efi(image.join("adit.efi"));
        self.start(&Machine { image: efi, disks, ..machine(image) }, addresses)
    }

    /// Boots an image with two network devices; the other end of the second is `tap1`.
    pub(super) fn boot_router(&self, image: &Path, addresses: &[&str]) -> RunningMachine {
        let taps = ["tap0", "tap1"].map(str::to_owned).to_vec();
        self.start(&Machine { taps, ..machine(image) }, addresses)
    }

    /// Boots that machine; the other end of its first network device has these addresses.
    pub(super) fn start(&self, machine: &Machine, addresses: &[&str]) -> RunningMachine {
        let running = machine.start(&self.namespace).unwrap();
        for address in addresses {
            self.namespace.ip(&["address", "add", address, "dev", "tap0"]).unwrap();
        }
        running
    }

    /// Runs `adit up` in the namespace.
    pub(super) fn up(&self, file: &Path) -> Process {
        let mut command = program(env!("CARGO_BIN_EXE_adit")).unwrap();
        command.env("STATE_DIRECTORY", self.scratch.path()).arg("up").arg(file);
        self.namespace.spawn("adit", command).unwrap()
    }
}

/// Those of the TCP ports of an address that do not answer that no program listens there.
pub(super) fn open_tcp_ports(
    namespace: &Namespace,
    address: &str,
    ports: impl Iterator<Item = u16> + Send,
) -> Vec<u16> {
    let is_refused = |port: &u16| {
        let result = TcpStream::connect((address, *port));
        result.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    namespace.enter(|| ports.filter(|port| !is_refused(port)).collect()).unwrap()
}

/// A machine that boots an image, with one network device.
pub(super) fn machine(image: &Path) -> Machine {
    Machine {
        image: adit_testbed::Image::Kernel(image.to_owned()),
        memory: MEMORY,
        taps: vec!["tap0".to_owned()],
        disks: Vec::new(),
        shared: None,
        parameters: WITHOUT_SELF_TESTS.to_owned(),
    }
}

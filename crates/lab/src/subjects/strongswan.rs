//! strongSwan: IKEv2 by its daemon, and ESP in user space or by the kernel.

use std::process::Command;
use std::time::Duration;

use adit_testbed::{Namespace, TestbedError, program, wait_until};

use super::kernel::{self, Ability};
use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version_at};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, Testbed};

/// Where Debian puts the daemon.
const CHARON: &str = "/usr/lib/ipsec/charon";
/// The plugin that does ESP in user space.
const LIBIPSEC: &str = "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so";
const PACKAGES: &str = "apt-get install --yes strongswan-charon strongswan-swanctl libcharon-extra-plugins";
/// How long the daemon may take to listen.
const TIMEOUT: Duration = Duration::from_secs(60);
const ENDS: [&str; 2] = ["server", "client"];

/// strongSwan at both ends.
#[derive(Debug)]
struct StrongSwan {
    suffix: &'static str,
    cipher: &'static str,
    /// The proposal in swanctl.conf's language.
    proposal: &'static str,
    /// ESP by the kernel, not by the plugin `kernel-libipsec`.
    kernel: bool,
}

/// Suffix, cipher and proposal.
const CIPHERS: [[&str; 3]; 3] = [
    ["", "AES-256-GCM", "aes256gcm16"],
    ["-aes128", "AES-128-GCM", "aes128gcm16"],
    ["-chacha20", "ChaCha20-Poly1305", "chacha20poly1305"],
];

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = Vec::new();
    for kernel in [false, true] {
        for [suffix, cipher, proposal] in CIPHERS {
            all.push(Box::new(StrongSwan { suffix, cipher, proposal, kernel }));
        }
    }
    all
}

/// The files and sockets of one end.
struct End<'a> {
    testbed: &'a Testbed,
    number: usize,
}

impl End<'_> {
    fn path(&self, what: &str) -> String {
        format!("{}/{}.{what}", self.testbed.directory.path().display(), ENDS[self.number])
    }

    fn socket(&self) -> String {
        format!("unix://{}", self.path("vici"))
    }

    fn write(&self, proposal: &str, kernel: bool) -> Result<(), TestbedError> {
        let (own, other) = (self.number, 1 - self.number);
        let libipsec = if kernel { "" } else { "kernel-libipsec " };
        let daemon = format!(
            "charon {{\n load = random nonce openssl gcm chapoly kdf {libipsec}kernel-netlink socket-default vici\n \
             install_virtual_ip = no\n plugins {{ vici {{ socket = {} }} }}\n}}\n",
            self.socket()
        );
        let connection = format!(
            "connections {{ t {{\n version = 2\n local_addrs = {}\n remote_addrs = {}\n \
             proposals = aes256gcm16-prfsha384-x25519\n local {{\n auth = psk\n id = {}\n }}\n \
             remote {{\n auth = psk\n id = {}\n }}\n children {{ c {{\n local_ts = {}/32\n remote_ts = {}/32\n \
             esp_proposals = {proposal}\n }} }}\n }} }}\nsecrets {{ ike-1 {{ secret = \"measured here\" }} }}\n",
            OUTER[own], OUTER[other], ENDS[own], ENDS[other], INNER[own], INNER[other]
        );
        let directory = &self.testbed.directory;
        directory.write(&format!("{}.conf", ENDS[own]), &daemon)?;
        directory.write(&format!("{}.connection", ENDS[own]), &connection).map(drop)
    }

    /// The daemon. It keeps its process id below /run, so each end has a /run of its own.
    fn daemon(&self) -> Result<Command, TestbedError> {
        let mut command = program("unshare")?;
        let script = format!("mount -t tmpfs none /run && exec {CHARON}");
        command.args(["-m", "sh", "-c", &script]).env("STRONGSWAN_CONF", self.path("conf"));
        Ok(command)
    }

    fn control(&self, namespace: &Namespace, arguments: &[&str]) -> Result<(), TestbedError> {
        let mut command = program("swanctl")?;
        command.args(arguments).args(["--uri", &self.socket()]).env("STRONGSWAN_CONF", self.path("conf"));
        namespace.run(command).map(drop)
    }

    /// Tells the daemon its connection as soon as it listens.
    fn load(&self, namespace: &Namespace) -> Result<(), TestbedError> {
        let socket = self.path("vici");
        wait_until("charon's socket", TIMEOUT, || std::path::Path::new(&socket).exists())?;
        self.control(namespace, &["--load-all", "--file", &self.path("connection")])
    }
}

impl Subject for StrongSwan {
    fn name(&self) -> String {
        format!("strongswan{}{}", if self.kernel { "-kernel" } else { "" }, self.suffix)
    }

    fn about(&self) -> String {
        let place = if self.kernel { "by the kernel" } else { "in user space (kernel-libipsec)" };
        format!("strongSwan with ESP {place}, {}", self.cipher)
    }

    fn stand_in(&self) -> Option<String> {
        (!self.kernel).then(|| "strongSwan with the kernel's ESP".to_owned())
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        if self.kernel
            && let Some(lacks) = kernel::lacks(Ability::Esp)
        {
            return lacks;
        }
        let there = [CHARON, LIBIPSEC].iter().all(|path| std::path::Path::new(path).exists());
        let charon = std::path::Path::new(CHARON);
        match version_at(charon, &["--version"]).filter(|_| there && program("swanctl").is_ok()) {
            Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
            None => Availability::Installable(PACKAGES.to_owned()),
        }
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        for (namespace, address) in [(&testbed.server, INNER[0]), (&testbed.client, INNER[1])] {
            namespace.ip(&["address", "add", &format!("{address}/32"), "dev", "lo"])?;
        }
        let commands = [0, 1].map(|number| {
            let end = End { testbed, number };
            end.write(self.proposal, self.kernel).and_then(|()| end.daemon())
        });
        let [server, client] = commands;
        testbed.start_server(server?)?;
        End { testbed, number: 0 }.load(&testbed.server)?;
        let shared = &*testbed;
        let started = shared.started_client(client?, |namespace| {
            let end = End { testbed: shared, number: 1 };
            end.load(namespace)?;
            end.control(namespace, &["--initiate", "--child", "c", "--timeout", "10"])
        })?;
        let (process, started) = started;
        testbed.processes.push(process);
        Ok(Tunnel::up(started))
    }
}

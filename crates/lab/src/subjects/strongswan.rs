//! strongSwan's daemon: its files, its start, and its control by `swanctl`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Namespace, Scratch, TestbedError, program, wait_until};

use super::kernel::{self, Ability};
use super::{Availability, lacks_tun, version_at};

/// Where Debian puts the daemon.
const CHARON: &str = "/usr/lib/ipsec/charon";
/// The plugin that does ESP in user space.
const LIBIPSEC: &str = "/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so";
const PACKAGES: &str = "apt-get install --yes strongswan-charon strongswan-swanctl libcharon-extra-plugins";
/// How long the daemon may take to listen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The place of ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The plugin `kernel-libipsec`.
    UserSpace,
    /// The kernel.
    Kernel,
}

/// Whether the daemon can run here, with ESP in that place.
pub(crate) fn availability(place: Place) -> Availability {
    if place == Place::Kernel
        && let Some(lacks) = kernel::lacks(Ability::Esp)
    {
        return lacks;
    }
    let there = [CHARON, LIBIPSEC].iter().all(|path| Path::new(path).exists());
    match version_at(Path::new(CHARON), &["--version"]).filter(|_| there && program("swanctl").is_ok()) {
        Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
        None => Availability::Installable(PACKAGES.to_owned()),
    }
}

/// A daemon with its files and its socket in `directory`.
pub(crate) struct Daemon<'a> {
    pub(crate) directory: &'a Scratch,
    /// The start of the names of its files.
    pub(crate) name: &'a str,
}

impl Daemon<'_> {
    fn path(&self, what: &str) -> String {
        format!("{}/{}.{what}", self.directory.path().display(), self.name)
    }

    fn socket(&self) -> String {
        format!("unix://{}", self.path("vici"))
    }

    /// Writes its own file. Gives the command that starts it.
    ///
    /// It keeps its process id below /run, so each has a /run of its own.
    pub(crate) fn command(&self, place: Place) -> Result<Command, TestbedError> {
        let libipsec = if place == Place::Kernel { "" } else { "kernel-libipsec " };
        let own = format!(
            "charon {{\n load = random nonce openssl gcm chapoly kdf pem pkcs1 pkcs8 x509 pubkey constraints {libipsec}kernel-netlink \
             socket-default vici\n install_virtual_ip = no\n plugins {{ vici {{ socket = {} }} }}\n}}\n",
            self.socket()
        );
        self.directory.write(&format!("{}.conf", self.name), &own)?;
        let mut command = program("unshare")?;
        let script = format!("mount -t tmpfs none /run && exec {CHARON}");
        command.args(["-m", "sh", "-c", &script]).env("STRONGSWAN_CONF", self.path("conf"));
        Ok(command)
    }

    /// Runs `swanctl`, with the directories of certificates in [`Self::directory`].
    pub(crate) fn control(&self, namespace: &Namespace, arguments: &[&str]) -> Result<(), TestbedError> {
        let mut command = program("swanctl")?;
        command.args(arguments).args(["--uri", &self.socket()]);
        command.env("STRONGSWAN_CONF", self.path("conf")).env("SWANCTL_DIR", self.directory.path());
        namespace.run(command).map(drop)
    }

    /// Gives the daemon the connections of this file as soon as it listens.
    pub(crate) fn load(&self, namespace: &Namespace, file: &Path) -> Result<(), TestbedError> {
        let socket = self.path("vici");
        wait_until("charon's socket", TIMEOUT, || Path::new(&socket).exists())?;
        self.control(namespace, &["--load-all", "--file", &file.display().to_string()])
    }
}

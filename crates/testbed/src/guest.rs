//! A virtual machine with a kernel of Debian's, for what this system's kernel has not.

mod initramfs;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::programs::{can_run, program, run, skip};
use crate::systems::system;
use crate::{Process, Root, Scratch, TestbedError};
use initramfs::Initramfs;

/// The emulator, which needs no rights of the processor.
const QEMU: &str = "qemu-system-x86_64";
/// Lines of the guest's console that an error shows.
const SHOWN: usize = 40;
/// Begins the line after the command's output.
const ENDED: &str = "guest: exit status ";

/// The guest's first process. It mounts what programs need, runs `/guest/run` with its output to the channel `results`, and tells
/// of its end.
const INIT: &str = "#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
ln -s /proc/self/fd /dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${stream%%:*} /dev/${stream#*:}; done
mount -t devpts devpts /dev/pts
for folder in /dev/shm /tmp /run; do mount -t tmpfs tmpfs $folder; done
for module in virtio_pci virtio_console tun; do modprobe $module; done
for port in /sys/class/virtio-ports/*; do
    if [ \"$(cat $port/name)\" = results ]; then results=/dev/${port##*/}; fi
done
ip link set lo up
{ sh /guest/run; echo \"guest: exit status $?\"; } >$results 2>&1
echo o >/proc/sysrq-trigger
sleep 60
";

/// A kernel of Debian's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Debian 12's (Linux 6.1).
    Bookworm,
    /// Debian 13's (Linux 6.12).
    Trixie,
    /// Debian unstable's, which has OpenVPN's data channel (`ovpn`).
    Unstable,
}

impl Kernel {
    fn suite(self) -> &'static str {
        match self {
            Kernel::Bookworm => "bookworm",
            Kernel::Trixie => "trixie",
            Kernel::Unstable => "sid",
        }
    }
}

/// A virtual machine that is to run a command: a kernel, the programs of Debian unstable's root, and files of this system.
#[derive(Clone, Debug)]
pub struct Guest {
    kernel: Kernel,
    files: Vec<PathBuf>,
}

/// The result of a command in a guest.
#[derive(Clone, Debug)]
pub struct GuestReport {
    /// The command's exit status, or 128 and the number of the signal that ended it.
    pub status: i32,
    /// Both outputs of the command.
    pub output: String,
}

impl Guest {
    /// A guest with that kernel and no files of this system.
    pub fn new(kernel: Kernel) -> Self {
        Self { kernel, files: Vec::new() }
    }

    /// Whether a test can have guests here; else it says why, as [`can_run`] does. Makes the kernel and the root.
    pub fn is_ready(&self, test: &str) -> bool {
        if !can_run(test, &[QEMU, "setpriv", "mmdebstrap", "apt-get", "depmod", "strip"]) {
            return false;
        }
        let made = system("kernel", self.kernel.suite()).and_then(|_| Root::named("unstable"));
        made.map_err(|error| skip(test, &error.to_string())).is_ok()
    }

    /// Puts a program of this system into the guest, at the path that it has here and without its debug information.
    #[must_use]
    pub fn with_program(mut self, path: &Path) -> Self {
        self.files.push(path.to_owned());
        self
    }

    /// Boots the guest, runs the command in it, and ends the guest. An error if that takes longer than `limit`.
    pub fn run(&self, command: &Command, limit: Duration) -> Result<GuestReport, TestbedError> {
        let scratch = Scratch::create("guest")?;
        let kernel = system("kernel", self.kernel.suite())?;
        let initramfs = self.initramfs(&scratch, &kernel, command)?;
        let console = scratch.path().join("console");
        let mut process = Process::spawn("guest", emulator(&kernel.join("vmlinuz"), &initramfs, &console)?)?;
        let ended = process.wait_for_line(0, ENDED, limit).map_err(|error| with_console(error, &console))?;
        let status = ended.rsplit(ENDED).next().and_then(|status| status.trim().parse().ok());
        let log = process.log();
        let output = log.split(ENDED).next().unwrap_or_default().to_owned();
        Ok(GuestReport { status: status.unwrap_or(-1), output })
    }

    /// The guest's files, as one archive in `scratch`.
    fn initramfs(
        &self,
        scratch: &Scratch,
        kernel: &Path,
        command: &Command,
    ) -> Result<PathBuf, TestbedError> {
        let path = scratch.path().join("initramfs");
        let mut archive = Initramfs::create(&path)?;
        archive.tree(
            Root::named("unstable")?.path(),
            "",
            &["dev", "proc", "sys", "tmp", "run", "var/cache", "var/lib/apt"],
        )?;
        archive.tree(&kernel.join("modules/lib/modules"), "usr/lib/modules", &[])?;
        for file in &self.files {
            let stripped = scratch.path().join("stripped");
            run(program("strip")?.args(["--strip-debug", "-o"]).arg(&stripped).arg(file))?;
            archive.file(&stripped, file)?;
        }
        archive.script("init", INIT)?;
        archive.script("guest/run", &shell_script(command))?;
        archive.finish()?;
        Ok(path)
    }
}

/// QEMU with that kernel. The channel `results` is its standard output. It ends with the thread that started it.
fn emulator(kernel: &Path, initramfs: &Path, console: &Path) -> Result<Command, TestbedError> {
    let mut command = program("setpriv")?;
    command.args(["--pdeathsig", "KILL"]).arg(program(QEMU)?.get_program());
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1536"]);
    command.args(["-nodefaults", "-no-user-config", "-nic", "none", "-display", "none", "-no-reboot"]);
    command.args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
    let mut serial = OsStr::new("file:").to_owned();
    serial.push(console);
    command.arg("-serial").arg(serial);
    command.args(["-chardev", "file,id=results,path=/dev/stdout", "-device", "virtio-serial-pci"]);
    command.args(["-device", "virtserialport,chardev=results,name=results"]);
    Ok(command)
}

/// The command as a script, with the variables that it sets.
fn shell_script(command: &Command) -> String {
    let quoted = |word: &OsStr| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"));
    let mut script = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = writeln!(script, "export {}={}", name.to_string_lossy(), quoted(value));
        }
    }
    script += "exec";
    for word in std::iter::once(command.get_program()).chain(command.get_args()) {
        let _ = write!(script, " {}", quoted(word));
    }
    script + "\n"
}

/// The error with the last of what the guest's kernel said.
fn with_console(error: TestbedError, console: &Path) -> TestbedError {
    let text = std::fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(SHOWN)..].join("\n");
    TestbedError::Output { command: QEMU.to_owned(), output: format!("{error}\nits console:\n{tail}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_becomes_a_script() {
        let mut command = Command::new("/bin/say");
        command.args(["it's", "$HOME"]).env("NAME", "a b").env_remove("OTHER");
        assert_eq!(shell_script(&command), "export NAME='a b'\nexec '/bin/say' 'it'\\''s' '$HOME'\n");
    }
}

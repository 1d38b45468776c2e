//! A virtual machine with a kernel of Debian's, for what this system's kernel has not.

mod emulator;
mod initramfs;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::programs::{can_run, program, run, skip};
use crate::systems::system;
use crate::{Process, Root, Scratch, TestbedError};
pub(crate) use emulator::{EMULATED, QEMU};
use emulator::{Files, Processors, emulator};
use initramfs::Initramfs;

/// Lines of the guest's console that an error shows.
const SHOWN: usize = 40;
/// Begins the line after the command's output.
const ENDED: &str = "guest: exit status ";

/// The guest's first process. It mounts what programs need, runs `/guest/run` with its output to the channel `results`, sends by
/// the channel `files` what `/guest/pack` writes, and says how `/guest/run` ended.
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
mkdir /run/lock
for module in virtio_pci virtio_console tun; do modprobe $module; done
for port in /sys/class/virtio-ports/*; do
    case $(cat $port/name) in
        results) results=/dev/${port##*/} ;;
        files) files=/dev/${port##*/} ;;
    esac
done
ip link set lo up
{ sh /guest/run; status=$?; sh /guest/pack >$files; echo \"guest: exit status $status\"; } >$results 2>&1
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
    /// All kernels, the oldest first.
    pub const ALL: [Kernel; 3] = [Kernel::Bookworm, Kernel::Trixie, Kernel::Unstable];

    /// The suite of Debian that it is of.
    pub fn suite(self) -> &'static str {
        match self {
            Kernel::Bookworm => "bookworm",
            Kernel::Trixie => "trixie",
            Kernel::Unstable => "sid",
        }
    }
}

/// A kernel's file in its folder.
const IMAGE: &str = "vmlinuz";
/// The end of the name of a suite's kernel for all machines.
const FOR_ALL_MACHINES: &str = "-amd64";
/// The root whose programs a guest has.
const ROOT: &str = "unstable";
/// MiB of a guest's memory, which holds all of its files.
const MEMORY: u32 = 1536;

/// A virtual machine that is to run a command: a kernel, the programs of a root, and files of this system.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel's name in `scripts/debian-systems`.
    kernel: String,
    /// The first one's files count where several have a path.
    roots: Vec<String>,
    memory: u32,
    counts: bool,
    programs: Vec<PathBuf>,
    files: Vec<File>,
    returned: Option<Returned>,
}

/// A file of this system, and the path that it has in a guest.
#[derive(Clone, Debug)]
struct File {
    from: PathBuf,
    to: PathBuf,
}

/// A folder that a guest fills, and where its content comes here.
#[derive(Clone, Debug)]
struct Returned {
    from: PathBuf,
    to: PathBuf,
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
    /// The programs by which guests are made, beside `ip`.
    pub const NEEDED: [&str; 7] = [QEMU, "setpriv", "mmdebstrap", "apt-get", "depmod", "strip", "tar"];

    /// A guest with that kernel, the root `unstable`, 1536 MiB of memory and no files of this system.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel: kernel.suite().to_owned(),
            roots: vec![ROOT.to_owned()],
            memory: MEMORY,
            counts: false,
            programs: Vec::new(),
            files: Vec::new(),
            returned: None,
        }
    }

    /// Whether a test can have guests here; else it says why, as [`can_run`] does. Makes the kernel and the root.
    pub fn is_ready(&self, test: &str) -> bool {
        if !can_run(test, &Self::NEEDED) {
            return false;
        }
        let roots = || self.roots.iter().try_for_each(|root| Root::named(root).map(drop));
        let made = system("kernel", &self.kernel).and_then(|_| roots());
        made.map_err(|error| skip(test, &error.to_string())).is_ok()
    }

    /// Takes the suite's kernel for all machines in the place of the one for virtual machines, which has neither PPP nor L2TP.
    #[must_use]
    pub fn with_kernel_for_all_machines(mut self) -> Self {
        self.kernel += FOR_ALL_MACHINES;
        self
    }

    /// Takes the programs of another root of `scripts/debian-systems`, and so many MiB of memory.
    #[must_use]
    pub fn with_root(mut self, root: &str, memory_mib: u32) -> Self {
        (self.roots, self.memory) = (vec![root.to_owned()], memory_mib);
        self
    }

    /// Adds the files of a further root, whose packages need not agree with those of the others. It is of the same suite; where an
    /// earlier root has a path, its file stays.
    #[must_use]
    pub fn with_further_root(mut self, root: &str) -> Self {
        self.roots.push(root.to_owned());
        self
    }

    /// Has the guest's clock count the instructions of its processor, of which there is one then, and skip to the next timer where
    /// the guest sleeps: what waits takes no time here, and how busy this machine is changes nothing there. With KVM, which cannot
    /// count them, the guest has this machine's clock.
    #[must_use]
    pub fn with_virtual_clock(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Whether the guest's clock is going to be virtual: [`Guest::with_virtual_clock`] asks for it, and KVM does not work here.
    pub fn has_virtual_clock(&self) -> Result<bool, TestbedError> {
        let image = system("kernel", &self.kernel)?.join(IMAGE);
        Ok(Processors::choose(&image, self.counts) == Processors::Counted)
    }

    /// Puts a program of this system into the guest, at the path that it has here and without its symbols.
    #[must_use]
    pub fn with_program(mut self, path: &Path) -> Self {
        self.programs.push(path.to_owned());
        self
    }

    /// Puts a file of this system into the guest, at the path `to`, which is not below `/tmp` or `/run`.
    #[must_use]
    pub fn with_file(mut self, from: &Path, to: &Path) -> Self {
        self.files.push(File { from: from.to_owned(), to: to.to_owned() });
        self
    }

    /// When the command has ended, puts the content of the guest's folder `from` into the folder `to` of this system.
    #[must_use]
    pub fn with_returned_folder(mut self, from: &Path, to: &Path) -> Self {
        self.returned = Some(Returned { from: from.to_owned(), to: to.to_owned() });
        self
    }

    /// Boots the guest, runs the command in it, and ends the guest. An error if that takes longer than `limit`.
    pub fn run(&self, command: &Command, limit: Duration) -> Result<GuestReport, TestbedError> {
        self.run_and_show(command, limit, |_| ())
    }

    /// [`Guest::run`], with each line of the command's output as it comes.
    pub fn run_and_show(
        &self,
        command: &Command,
        limit: Duration,
        show: impl FnMut(&str),
    ) -> Result<GuestReport, TestbedError> {
        let scratch = Scratch::create("guest")?;
        let kernel = system("kernel", &self.kernel)?;
        let initramfs = self.initramfs(&scratch, &kernel, command)?;
        let (image, console) = (kernel.join(IMAGE), scratch.path().join("console"));
        let folder = scratch.path().join("folder");
        let files = Files { kernel: &image, initramfs: &initramfs, console: &console, folder: &folder };
        let processors = Processors::choose(&image, self.counts);
        let mut process = Process::spawn("guest", emulator(&files, processors, self.memory)?)?;
        let report = follow(&mut process, limit, show).map_err(|error| with_console(error, &console))?;
        if let Some(Returned { to, .. }) = &self.returned {
            std::fs::create_dir_all(to).map_err(|source| TestbedError::File { path: to.clone(), source })?;
            run(program("tar")?.arg("-xf").arg(&folder).arg("-C").arg(to))?;
        }
        Ok(report)
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
        for root in &self.roots {
            let without = &["dev", "proc", "sys", "tmp", "run", "var/cache", "var/lib/apt"];
            archive.tree(Root::named(root)?.path(), "", without)?;
        }
        archive.tree(&kernel.join("modules/lib/modules"), "usr/lib/modules", &[])?;
        for File { from, to } in &self.files {
            archive.file(from, to)?;
        }
        for file in &self.programs {
            let stripped = scratch.path().join("stripped");
            run(program("strip")?.args(["--strip-all", "-o"]).arg(&stripped).arg(file))?;
            archive.file(&stripped, file)?;
        }
        archive.script("init", INIT)?;
        archive.script("guest/run", &shell_script(command))?;
        let mut pack = Command::new("true");
        if let Some(Returned { from, .. }) = &self.returned {
            pack = Command::new("tar");
            pack.arg("-cC").arg(from).arg(".");
        }
        archive.script("guest/pack", &shell_script(&pack))?;
        archive.finish()?;
        Ok(path)
    }
}

/// Reads a guest's channel `results` to the line that says how the command ended.
fn follow(
    process: &mut Process,
    limit: Duration,
    mut show: impl FnMut(&str),
) -> Result<GuestReport, TestbedError> {
    let (start, mut output, mut number) = (Instant::now(), String::new(), 0);
    loop {
        let line = process.wait_for_line(number, "", limit.saturating_sub(start.elapsed()));
        let line = line.map_err(|error| without_end(error, limit))?;
        if let Some((rest, status)) = line.split_once(ENDED) {
            output += rest;
            return Ok(GuestReport { status: status.trim().parse().unwrap_or(-1), output });
        }
        show(&line);
        output += &line;
        output.push('\n');
        number += 1;
    }
}

/// The error that no further line came, as one about the line that says how the command ended.
fn without_end(error: TestbedError, limit: Duration) -> TestbedError {
    match error {
        TestbedError::NoLine { label, ended, log, .. } => {
            TestbedError::NoLine { label, pattern: ENDED.trim_end().to_owned(), waited: limit, ended, log }
        }
        other => other,
    }
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

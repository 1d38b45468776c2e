//! A virtual machine that boots a kernel and an initramfs of a test's own, with network devices in namespaces.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::guest::{EMULATED, QEMU};
use crate::programs::{can_run, program, skip};
use crate::systems::system;
use crate::{Kernel, MAX_WAIT, Namespace, Process, Scratch, TestbedError, wait_until};

/// The prompt of the emulator's monitor.
const PROMPT: &str = "(qemu) ";

/// The firmware of virtual machines that boots EFI programs (Debian: `ovmf`).
const FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE.fd";
/// The program that shares a folder with a virtual machine: of Debian 12's QEMU, and of later releases' package `virtiofsd`.
const SHARING: [&str; 2] = ["/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd"];

/// The file that a firmware boots of a disk (UEFI specification, section 3.5.1.1).
const BOOTED: &str = "EFI/BOOT/BOOTX64.EFI";

/// The program that a virtual machine boots.
#[derive(Clone, Debug)]
pub enum Image {
    /// A folder with the files `vmlinuz` and `initramfs`.
    Kernel(PathBuf),
    /// An EFI program. The machine's first disk has it.
    Efi(PathBuf),
}

/// The program that a virtual machine boots, and the machine's devices.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The program.
    pub image: Image,
    /// Memory in MiB.
    pub memory: u32,
    /// TAP devices of the namespace, each the other end of one of the machine's network devices, in this order.
    pub taps: Vec<String>,
    /// Raw files that are the machine's disks.
    pub disks: Vec<PathBuf>,
    /// A folder that the machine mounts by virtio-fs, where [`Machine::can_share`].
    pub shared: Option<SharedFolder>,
    /// Further words of the kernel's command line; an EFI program has its own. The first process has those of the form
    /// `NAME=VALUE`, without a dot in the name, in its environment.
    pub parameters: String,
}

/// A folder that a virtual machine mounts by virtio-fs.
#[derive(Clone, Debug)]
pub struct SharedFolder {
    /// The folder.
    pub folder: PathBuf,
    /// The name by which the machine mounts the folder.
    pub tag: String,
}

/// A virtual machine that runs. Its console is its process's output; it ends with this guard.
#[derive(Debug)]
pub struct RunningMachine {
    /// The emulator. Its lines are the machine's console.
    pub process: Process,
    monitor: PathBuf,
    _sharing: Option<Process>,
    _scratch: Scratch,
}

impl Kernel {
    /// The kernel for a test: its file, and its folder of modules. Where there is none, that is said as [`can_run`] does.
    pub fn for_test(self, test: &str) -> Option<(PathBuf, PathBuf)> {
        if !can_run(test, &[QEMU, "apt-get", "depmod"]) {
            return None;
        }
        let files = system("kernel", self.suite()).and_then(|folder| {
            let modules = folder.join("modules/lib/modules");
            let version = std::fs::read_dir(&modules).and_then(|mut entries| entries.next().transpose());
            let version = version.map_err(|source| TestbedError::File { path: modules.clone(), source })?;
            let version = version.map(|entry| entry.path()).unwrap_or(modules);
            Ok((folder.join("vmlinuz"), version))
        });
        files.map_err(|error| skip(test, &error.to_string())).ok()
    }
}

impl Machine {
    /// Parameters for a kernel whose console is a test's, and that ends the emulator instead of waiting after a panic.
    pub const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off";

    /// Whether a test can boot EFI programs here; else it says why, as [`can_run`] does.
    pub fn can_boot_efi(test: &str) -> bool {
        let found = Path::new(FIRMWARE).is_file();
        if !found {
            skip(test, &format!("there is no {FIRMWARE}: install the package ovmf"));
        }
        found
    }

    /// Whether a test can share a folder with a machine here; else it says why, as [`can_run`] does.
    pub fn can_share(test: &str) -> bool {
        let found = sharing_program().is_some();
        if !found {
            skip(test, &format!("there is none of {}: install the package virtiofsd", SHARING.join(", ")));
        }
        found
    }

    /// Starts the machine, whose processor is emulated. Each TAP device is made in the namespace, without an address.
    pub fn start(&self, namespace: &Namespace) -> Result<RunningMachine, TestbedError> {
        let scratch = Scratch::create("guest")?;
        let monitor = scratch.path().join("monitor");
        for tap in &self.taps {
            namespace.ip(&["tuntap", "add", "dev", tap, "mode", "tap"])?;
            namespace.ip(&["link", "set", tap, "up"])?;
        }
        let sharing = self.shared.as_ref().map(|shared| share(shared, namespace, &scratch)).transpose()?;
        let process = namespace.spawn("machine", self.emulator(&monitor, &scratch)?)?;
        Ok(RunningMachine { process, monitor, _sharing: sharing, _scratch: scratch })
    }

    fn emulator(&self, monitor: &Path, scratch: &Scratch) -> Result<Command, TestbedError> {
        let mut command = program(QEMU)?;
        command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", EMULATED, "-smp", "1", "-m"]);
        command.arg(self.memory.to_string());
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-chardev", "file,id=console,path=/dev/stdout", "-serial", "chardev:console"]);
        command.arg("-monitor").arg(format!("unix:{},server,nowait", monitor.display()));
        match &self.image {
            Image::Kernel(folder) => {
                let parameters = format!("{} {}", Self::PARAMETERS, self.parameters);
                command.args(["-append", &parameters, "-kernel"]).arg(folder.join("vmlinuz"));
                command.arg("-initrd").arg(folder.join("initramfs"));
            }
            Image::Efi(program) => {
                let folder = scratch.path().join("efi");
                boot_folder(&folder, program)
                    .map_err(|source| TestbedError::File { path: folder.clone(), source })?;
                command.args(["-drive", &format!("if=pflash,format=raw,readonly=on,file={FIRMWARE}")]);
                command.args(["-drive", &format!("format=raw,if=virtio,file=fat:rw:{}", folder.display())]);
            }
        }
        command.args(["-device", "virtio-rng-pci"]);
        for (number, tap) in self.taps.iter().enumerate() {
            command.arg("-netdev").arg(format!("tap,id=net{number},ifname={tap},script=no,downscript=no"));
            command.arg("-device").arg(format!("virtio-net-pci,netdev=net{number},id=card{number}"));
        }
        for disk in &self.disks {
            command.arg("-drive").arg(format!("file={},format=raw,if=virtio", disk.display()));
        }
        if let Some(SharedFolder { tag, .. }) = &self.shared {
            // The program that shares the folder reads and writes the machine's memory.
            let memory = format!("memory-backend-memfd,id=memory,size={}M,share=on", self.memory);
            command.args(["-object", &memory, "-machine", "memory-backend=memory", "-chardev"]);
            command.arg(format!("socket,id=shared,path={}", socket_of_sharing(scratch).display()));
            command.args(["-device", &format!("vhost-user-fs-pci,chardev=shared,tag={tag}")]);
        }
        Ok(command)
    }
}

fn sharing_program() -> Option<&'static str> {
    SHARING.into_iter().find(|path| Path::new(path).is_file())
}

fn socket_of_sharing(scratch: &Scratch) -> PathBuf {
    scratch.path().join("shared")
}

/// Starts the program that shares a folder, and waits until the emulator can connect to it.
fn share(shared: &SharedFolder, namespace: &Namespace, scratch: &Scratch) -> Result<Process, TestbedError> {
    let socket = socket_of_sharing(scratch);
    let mut command = program(sharing_program().unwrap_or(SHARING[0]))?;
    command.arg(format!("--socket-path={}", socket.display()));
    command.arg("-o").arg(format!("source={}", shared.folder.display()));
    let process = namespace.spawn("virtiofsd", command)?;
    wait_until("the socket of virtiofsd", MAX_WAIT, || socket.exists())?;
    Ok(process)
}

/// Makes a folder, as the content of a disk from which a firmware boots the program.
fn boot_folder(folder: &Path, program: &Path) -> std::io::Result<()> {
    let booted = folder.join(BOOTED);
    std::fs::create_dir_all(booted.parent().unwrap_or(folder))?;
    std::fs::copy(program, booted).map(drop)
}

impl RunningMachine {
    /// Waits until the console has a line with these words.
    pub fn wait_for(&mut self, words: &str, limit: Duration) -> Result<String, TestbedError> {
        self.process.wait_for_line(0, words, limit)
    }

    /// Presses the power button.
    pub fn press_power_button(&self) -> Result<(), TestbedError> {
        self.order("system_powerdown")
    }

    /// Takes the cable of a network device out, or puts it in.
    pub fn set_link(&self, number: usize, connected: bool) -> Result<(), TestbedError> {
        self.order(&format!("set_link card{number} {}", if connected { "on" } else { "off" }))
    }

    /// Gives the emulator's monitor an order, and waits until the monitor has carried it out.
    fn order(&self, order: &str) -> Result<(), TestbedError> {
        wait_until("the emulator's monitor", MAX_WAIT, || self.monitor.exists())?;
        let exchange = || -> std::io::Result<()> {
            let mut monitor = UnixStream::connect(&self.monitor)?;
            monitor.set_read_timeout(Some(MAX_WAIT))?;
            monitor.write_all(format!("{order}\n").as_bytes())?;
            let (mut heard, mut buffer) = (String::new(), [0; 1024]);
            // One prompt before the order, and one behind it. An emulator that ends closes the connection.
            while heard.matches(PROMPT).count() < 2 {
                match monitor.read(&mut buffer)? {
                    0 => break,
                    length => heard += &String::from_utf8_lossy(&buffer[..length]),
                }
            }
            Ok(())
        };
        exchange().map_err(|source| TestbedError::File { path: self.monitor.clone(), source })
    }
}

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
}

/// A virtual machine that runs. Its console is its process's output; it ends with this guard.
#[derive(Debug)]
pub struct RunningMachine {
    /// The emulator. Its lines are the machine's console.
    pub process: Process,
    monitor: PathBuf,
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

    /// Starts the machine, whose processor is emulated. Each TAP device is made in the namespace, without an address.
    pub fn start(&self, namespace: &Namespace) -> Result<RunningMachine, TestbedError> {
        let scratch = Scratch::create("guest")?;
        let monitor = scratch.path().join("monitor");
        for tap in &self.taps {
            namespace.ip(&["tuntap", "add", "dev", tap, "mode", "tap"])?;
            namespace.ip(&["link", "set", tap, "up"])?;
        }
        let process = namespace.spawn("machine", self.emulator(&monitor, &scratch)?)?;
        Ok(RunningMachine { process, monitor, _scratch: scratch })
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
                command.args(["-append", Self::PARAMETERS, "-kernel"]).arg(folder.join("vmlinuz"));
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
        Ok(command)
    }
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

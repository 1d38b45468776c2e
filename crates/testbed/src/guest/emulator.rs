//! QEMU, and how a guest's processors run in it.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::programs::{note, program};
use crate::{Process, TestbedError};

/// The emulator, which needs no rights of the processor.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// The device by which the processor itself runs a guest.
const KVM: &str = "/dev/kvm";
/// How long a kernel may take by [`KVM`] until it looks for its root file system.
const TRIAL: Duration = Duration::from_secs(5);
/// The file beside a kernel that says, of one start of this system, why a kernel does not boot by [`KVM`]: a trial takes a processor.
const REMEMBERED: &str = "without-kvm";
/// The start of this system (random(4)).
const START: &str = "/proc/sys/kernel/random/boot_id";
/// The last words of a kernel without a root file system (Linux, `init/do_mounts.c`).
const NO_ROOT: &str = "Unable to mount root fs";
/// The kernel's parameters: its console is the serial port, and it ends QEMU instead of waiting after a panic.
const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off";

/// An emulated processor. TCG copies memory byte by byte where it has fast string operations, and Linux uses these then; SMAP ends a
/// block of translated code at each access to a program's memory; LA57 makes page tables a level deeper.
pub(crate) const EMULATED: &str = "max,-erms,-fsrm,-smap,-la57";
/// Further parameters for an emulated processor. Most of a boot is the kernel's tests of its ciphers, and the others leave out what is
/// done for each page, copy and system call.
const EMULATED_PARAMETERS: &str = "cryptomgr.notests=1 init_on_alloc=0 hardened_usercopy=off randomize_kstack_offset=off \
     transparent_hugepage=never apparmor=0 psi=0 nowatchdog tsc=reliable";

/// How a guest's processors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// By the machine's processor (KVM).
    Own,
    /// Emulated (TCG), by this machine's clock.
    Emulated,
    /// Emulated, by a clock that counts instructions and skips to the next timer where the guest sleeps (QEMU's `icount`).
    Counted,
}

impl Processors {
    /// KVM where it works, else emulated ones.
    pub(super) fn choose(kernel: &Path, counted: bool) -> Self {
        match (kvm_works(kernel), counted) {
            (true, _) => Processors::Own,
            (false, false) => Processors::Emulated,
            (false, true) => Processors::Counted,
        }
    }

    /// The kernel's parameters.
    fn parameters(self) -> String {
        match self {
            Processors::Own => PARAMETERS.to_owned(),
            Processors::Emulated | Processors::Counted => format!("{PARAMETERS} {EMULATED_PARAMETERS}"),
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Processors::Own => &["-accel", "kvm", "-cpu", "max", "-smp", "2"],
            Processors::Emulated => &["-accel", "tcg,thread=multi", "-cpu", EMULATED, "-smp", "2"],
            // An instruction takes 4 ns.
            Processors::Counted => &[
                "-accel",
                "tcg,thread=single",
                "-cpu",
                EMULATED,
                "-smp",
                "1",
                "-icount",
                "shift=2,sleep=off",
            ],
        }
    }
}

/// Whether [`KVM`] gives a guest. It is tried once, with a kernel that has no root file system. Where it does not, that is said.
fn kvm_works(kernel: &Path) -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let start = std::fs::read_to_string(START).unwrap_or_default();
        let why =
            remembered(&kernel.with_file_name(REMEMBERED), &start, || without_kvm(Path::new(KVM), kernel));
        why.map(|why| note(&why)).is_none()
    })
}

/// What `file` says of this start of the system, or else what `find` finds, which the file says from then on.
fn remembered(file: &Path, start: &str, find: impl FnOnce() -> Option<String>) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    match text.strip_prefix(start) {
        Some(why) if !why.is_empty() => Some(why.to_owned()),
        _ => find().inspect(|why| {
            // It is found again where it cannot be written.
            let _ = std::fs::write(file, format!("{start}{why}"));
        }),
    }
}

/// Why guests are emulated where the device of KVM is that one, and what is not tested then; nothing if they are not.
fn without_kvm(device: &Path, kernel: &Path) -> Option<String> {
    let why = match File::options().read(true).write(true).open(device) {
        Err(error) => error.to_string(),
        Ok(_) if boots(kernel).is_ok() => return None,
        Ok(_) => format!("a kernel does not boot by it within {TRIAL:?}"),
    };
    let device = device.display();
    Some(format!(
        "{device}: {why}; guests are emulated, and nothing in them runs on this machine's processor"
    ))
}

/// Whether a kernel comes as far as its root file system by [`KVM`].
fn boots(kernel: &Path) -> Result<(), TestbedError> {
    let mut command = machine(kernel, Processors::Own)?;
    command.args(["-smp", "1", "-m", "256", "-serial", "file:/dev/stdout"]);
    Process::spawn("a trial of KVM", command)?.wait_for_line(0, NO_ROOT, TRIAL).map(drop)
}

/// Which files a guest's QEMU reads and writes.
pub(super) struct Files<'a> {
    pub(super) kernel: &'a Path,
    pub(super) initramfs: &'a Path,
    /// The output of the kernel.
    pub(super) console: &'a Path,
    /// The bytes that the guest sends by its channel `files`.
    pub(super) folder: &'a Path,
}

/// QEMU with those files. The channel `results` is its standard output. It ends with the thread that started it.
pub(super) fn emulator(
    files: &Files<'_>,
    processors: Processors,
    memory_mib: u32,
) -> Result<Command, TestbedError> {
    let mut command = machine(files.kernel, processors)?;
    command.arg("-initrd").arg(files.initramfs).args(["-m", &memory_mib.to_string()]);
    command.arg("-serial").arg(written_to("file:", files.console));
    command.args(["-device", "virtio-serial-pci"]);
    command.args(["-chardev", "file,id=results,path=/dev/stdout"]);
    command.args(["-device", "virtserialport,chardev=results,name=results"]);
    command.arg("-chardev").arg(written_to("file,id=files,path=", files.folder));
    command.args(["-device", "virtserialport,chardev=files,name=files"]);
    Ok(command)
}

/// QEMU with a kernel and no device.
fn machine(kernel: &Path, processors: Processors) -> Result<Command, TestbedError> {
    let mut command = program("setpriv")?;
    command.args(["--pdeathsig", "KILL"]).arg(program(QEMU)?.get_program());
    command.args(["-machine", "q35"]).args(processors.arguments());
    command.args(["-nodefaults", "-no-user-config", "-nic", "none", "-display", "none", "-no-reboot"]);
    command.arg("-kernel").arg(kernel).args(["-append", &processors.parameters()]);
    Ok(command)
}

/// An argument that ends with a path.
fn written_to(words: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = OsStr::new(words).to_owned();
    argument.push(path);
    argument
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn what_is_found_of_kvm_is_remembered_until_the_next_start() {
        let scratch = Scratch::create("kvm").unwrap();
        let file = scratch.path().join(REMEMBERED);
        let find = |start, found: Option<&str>| remembered(&file, start, || found.map(str::to_owned));
        assert_eq!(find("first\n", None), None, "it works");
        assert_eq!(find("first\n", Some("why")).as_deref(), Some("why"), "and no longer");
        assert_eq!(find("first\n", None).as_deref(), Some("why"), "remembered");
        assert_eq!(find("second\n", None), None, "another start");
    }

    /// A file that is there, and a kernel that is not.
    #[test]
    fn where_no_kernel_boots_by_kvm_it_is_said_that_guests_are_emulated() {
        let why = without_kvm(Path::new("/dev/null"), Path::new("/nowhere/vmlinuz")).unwrap();
        assert_eq!(
            why,
            "/dev/null: a kernel does not boot by it within 5s; guests are emulated, and nothing in them runs on this machine's \
             processor"
        );
    }

    #[test]
    fn without_a_device_of_kvm_it_is_said_that_guests_are_emulated() {
        let why = without_kvm(Path::new("/nowhere/kvm"), Path::new("/nowhere/vmlinuz")).unwrap();
        assert_eq!(
            why,
            "/nowhere/kvm: No such file or directory (os error 2); guests are emulated, and nothing in them runs on this \
             machine's processor"
        );
    }
}

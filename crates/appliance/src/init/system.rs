//! The kernel's file systems and modules.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_remount};

use super::log::Log;
use super::paths;

/// A file system to mount.
struct FileSystem {
    kind: &'static str,
    place: &'static str,
    data: &'static CStr,
}

/// In this order. What is in memory has a bound of its own, so that a process that writes too much fails alone.
const FILE_SYSTEMS: [FileSystem; 5] = [
    FileSystem { kind: "devtmpfs", place: "/dev", data: c"mode=0755" },
    FileSystem { kind: "proc", place: "/proc", data: c"" },
    FileSystem { kind: "sysfs", place: "/sys", data: c"" },
    FileSystem { kind: "tmpfs", place: "/run", data: c"mode=0755,size=4m" },
    FileSystem { kind: "tmpfs", place: paths::STATE, data: c"mode=0700,size=4m" },
];

/// Mounts the kernel's file systems. No program is run of any of them.
pub(super) fn mount_all(log: &Log) {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    for FileSystem { kind, place, data } in FILE_SYSTEMS {
        let flags = if kind == "devtmpfs" { flags } else { flags | MountFlags::NODEV };
        // The kernel may have mounted /dev itself.
        match mount(kind, place, kind, flags, data) {
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => log.say(format_args!("{place} cannot be mounted: {error}")),
        }
    }
}

/// Makes the image's own files read-only. There is no file left to write but below `/run` and in the folder of the state.
pub(super) fn seal(log: &Log) {
    if let Err(error) = mount_remount("/", MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, c"") {
        log.say(format_args!("the image's files stay writable: {error}"));
    }
}

/// Loads the image's modules in their order, with their parameters of the kernel's command line. A module whose hardware is not
/// there is no fault.
pub(super) fn load_modules(log: &Log) {
    let folder = Path::new(paths::MODULES);
    let list = std::fs::read_to_string(folder.join(paths::LIST_OF_MODULES)).unwrap_or_default();
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    for name in list.lines() {
        match load(&folder.join(name), &parameters(&command_line, name)) {
            Ok(()) => {}
            Err(error) if is_no_fault(&error) => {}
            Err(error) => log.say(format_args!("module {name}: {error}")),
        }
    }
}

fn load(path: &Path, parameters: &CStr) -> io::Result<()> {
    Ok(rustix::system::finit_module(File::open(path)?, parameters, 0)?)
}

/// The parameters of a module, whose file is `NAME.ko`: the words `NAME.PARAMETER=VALUE` of the kernel's command line, of which the kernel
/// itself takes those of modules that are built in (Linux, Documentation/admin-guide/kernel-parameters.rst).
fn parameters(command_line: &str, file: &str) -> CString {
    let name = file.trim_end_matches(".ko");
    let of_module = command_line.split_whitespace().filter_map(|word| {
        let (module, parameter) = word.split_once('.')?;
        (module.replace('-', "_") == name).then_some(parameter)
    });
    // A command line has no zero in it.
    CString::new(of_module.collect::<Vec<_>>().join(" ")).unwrap_or_default()
}

/// The module is loaded or built in, or the machine has no such device.
fn is_no_fault(error: &io::Error) -> bool {
    let errors = [Errno::EXIST, Errno::NODEV, Errno::NXIO, Errno::BUSY];
    error.raw_os_error().is_some_and(|code| errors.iter().any(|known| known.raw_os_error() == code))
}

/// Names the machine.
pub(super) fn set_hostname(name: Option<&str>, log: &Log) {
    if let Err(error) = rustix::system::sethostname(name.unwrap_or(super::network::HOSTNAME).as_bytes()) {
        log.say(format_args!("the machine cannot be named: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_gets_its_parameters_of_the_kernels_command_line() {
        let line = "console=ttyS0 soft-dog.margin=15 9p.a=1 soft_dog.quiet panic=-1\n";
        for (file, expected) in [("soft_dog.ko", c"margin=15 quiet"), ("9p.ko", c"a=1"), ("tun.ko", c"")] {
            assert_eq!(parameters(line, file).as_c_str(), expected, "{file}");
        }
    }
}

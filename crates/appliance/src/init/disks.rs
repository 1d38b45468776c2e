//! Disks: one that keeps the state, and one, or a folder of the machine below, that has the configurations.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use super::log::Log;
use super::paths;

/// The labels of the disks; that of the configurations is the tag of a shared folder, too.
const STATE: &str = "adit-state";
const CONFIGURATIONS: &str = "adit-config";
/// ext4's superblock: where its number is, its number, and where its label is (Linux, Documentation/filesystems/ext4/super.rst).
const MAGIC_AT: u64 = 1024 + 0x38;
const MAGIC: [u8; 2] = [0x53, 0xef];
const LABEL_AT: u64 = 1024 + 0x78;
/// A folder of the machine below: kinds of file systems and their options.
const SHARED: [(&str, &CStr); 2] = [("virtiofs", c""), ("9p", c"trans=virtio,version=9p2000.L")];
/// The endings of configurations.
const ENDINGS: [&str; 2] = ["conf", "ovpn"];

/// Mounts the disk of the state over the folder in memory, if the machine has one.
pub(super) fn mount_state(log: &Log) {
    let Some(disk) = labelled(STATE) else { return };
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV;
    match mount(&disk, paths::STATE, "ext4", flags, c"") {
        Ok(()) => log.say(format_args!("the state is kept on {}", disk.display())),
        Err(error) => log.say(format_args!("{}: {error}; the state is kept in memory", disk.display())),
    }
}

/// Mounts the configurations that are not in the image, read-only, and gives those that are to run.
pub(super) fn mount_configurations(log: &Log) -> Vec<PathBuf> {
    if !mount_disk() && !mount_shared() {
        return Vec::new();
    }
    let entries = fs::read_dir(paths::DISK).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| is_configuration(path)).collect();
    files.sort();
    log.say(format_args!("{} configurations are on a disk of their own", files.len()));
    files
}

fn mount_disk() -> bool {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV;
    labelled(CONFIGURATIONS).is_some_and(|disk| mount(&disk, paths::DISK, "ext4", flags, c"").is_ok())
}

fn mount_shared() -> bool {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV;
    SHARED.iter().any(|(kind, options)| mount(CONFIGURATIONS, paths::DISK, *kind, flags, *options).is_ok())
}

fn is_configuration(path: &Path) -> bool {
    let ending = path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    ending && path.file_name().is_some_and(|name| name != paths::SETTINGS_ON_DISK)
}

/// The disk whose file system has that label.
fn labelled(label: &str) -> Option<PathBuf> {
    let entries = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let disks = entries.map(|entry| Path::new("/dev").join(entry.file_name()));
    disks
        .into_iter()
        .find(|disk| File::open(disk).and_then(|file| label_of(&file)).is_ok_and(|of| of == label))
}

/// The label of a file system of ext4.
fn label_of(file: &File) -> io::Result<String> {
    let (mut magic, mut label) = ([0; 2], [0; 16]);
    file.read_exact_at(&mut magic, MAGIC_AT)?;
    file.read_exact_at(&mut label, LABEL_AT)?;
    if magic != MAGIC {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let text: Vec<u8> = label.into_iter().take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn a_disk_is_known_by_the_label_of_its_file_system() {
        let scratch = Scratch::create("label").unwrap();
        let path = scratch.path().join("disk");
        let mut bytes = vec![0; 4096];
        fs::write(&path, &bytes).unwrap();
        assert!(label_of(&File::open(&path).unwrap()).is_err());
        bytes[1080..1082].copy_from_slice(&MAGIC);
        bytes[1144..1154].copy_from_slice(STATE.as_bytes());
        fs::write(&path, &bytes).unwrap();
        assert_eq!(label_of(&File::open(&path).unwrap()).unwrap(), STATE);
    }

    #[test]
    fn the_machines_settings_are_no_configuration() {
        for (name, expected) in
            [("a.conf", true), ("b.ovpn", true), ("appliance.conf", false), ("ca.pem", false)]
        {
            assert_eq!(is_configuration(&Path::new(paths::DISK).join(name)), expected, "{name}");
        }
    }
}

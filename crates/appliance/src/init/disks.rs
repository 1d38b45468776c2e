//! Disks: one that keeps the state, and one, or a folder of the machine below, that has the configurations.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use super::log::Log;
use super::paths;

/// The labels of the disks; that of the configurations is the tag of a shared folder, too.
const STATE: &str = "adit-state";
const CONFIGURATIONS: &str = "adit-config";
/// A kind of file systems, and where they have their label.
struct Kind {
    /// The name by which it is mounted.
    name: &'static str,
    /// Where its number is in bytes, and the number.
    magic_at: u64,
    magic: &'static [u8],
    /// Where its label is, and how long it is.
    label_at: u64,
    label: usize,
}

/// ext4 (Linux, Documentation/filesystems/ext4/super.rst), FAT32, and FAT12 or FAT16 ("FAT: General Overview of On-Disk Format",
/// version 1.03).
const KINDS: [Kind; 4] = [
    Kind { name: "ext4", magic_at: 1024 + 0x38, magic: &[0x53, 0xef], label_at: 1024 + 0x78, label: 16 },
    Kind { name: "vfat", magic_at: 82, magic: b"FAT32", label_at: 71, label: 11 },
    Kind { name: "vfat", magic_at: 54, magic: b"FAT16", label_at: 43, label: 11 },
    Kind { name: "vfat", magic_at: 54, magic: b"FAT12", label_at: 43, label: 11 },
];
/// A folder of the machine below: kinds of file systems and their options.
const SHARED: [(&str, &CStr); 2] = [("virtiofs", c""), ("9p", c"trans=virtio,version=9p2000.L")];
/// The endings of configurations.
const ENDINGS: [&str; 2] = ["conf", "ovpn"];

/// Mounts the disk of the state over the folder in memory, if the machine has one.
pub(super) fn mount_state(log: &Log) {
    let Some(Disk { path: disk, kind: "ext4" }) = labelled(STATE) else { return };
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
    labelled(CONFIGURATIONS).is_some_and(|disk| mount(&disk.path, paths::DISK, disk.kind, flags, c"").is_ok())
}

fn mount_shared() -> bool {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV;
    SHARED.iter().any(|(kind, options)| mount(CONFIGURATIONS, paths::DISK, *kind, flags, *options).is_ok())
}

fn is_configuration(path: &Path) -> bool {
    let ending = path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    ending && path.file_name().is_some_and(|name| name != paths::SETTINGS_ON_DISK)
}

/// A disk with a file system.
struct Disk {
    path: PathBuf,
    /// The kind of the file system.
    kind: &'static str,
}

/// The disk whose file system has that label. FAT's labels are of capitals.
fn labelled(label: &str) -> Option<Disk> {
    let entries = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    entries.map(|entry| Path::new("/dev").join(entry.file_name())).find_map(|path| {
        let (kind, of) = File::open(&path).ok().and_then(|file| label_of(&file))?;
        of.eq_ignore_ascii_case(label).then_some(Disk { path, kind })
    })
}

/// The kind and the label of a file system.
fn label_of(file: &File) -> Option<(&'static str, String)> {
    let read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).is_ok().then_some(bytes)
    };
    let kind = KINDS.iter().find(|kind| {
        read(kind.magic_at, kind.magic.len()).is_some_and(|magic| magic.as_slice() == kind.magic)
    })?;
    let label: Vec<u8> = read(kind.label_at, kind.label)?.into_iter().take_while(|byte| *byte != 0).collect();
    Some((kind.name, String::from_utf8_lossy(&label).trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn a_disk_is_known_by_the_label_of_its_file_system() {
        let scratch = Scratch::create("label").unwrap();
        let path = scratch.path().join("disk");
        let of = |changes: &[(usize, &[u8])]| {
            let mut bytes = vec![0; 4096];
            for (at, text) in changes {
                bytes[*at..at + text.len()].copy_from_slice(text);
            }
            fs::write(&path, &bytes).unwrap();
            label_of(&File::open(&path).unwrap())
        };
        assert_eq!(of(&[]), None);
        let kept = Some(("ext4", STATE.to_owned()));
        assert_eq!(of(&[(1080, &[0x53, 0xef]), (1144, STATE.as_bytes())]), kept);
        let configurations = Some(("vfat", "ADIT-CONFIG".to_owned()));
        assert_eq!(of(&[(82, b"FAT32   "), (71, b"ADIT-CONFIG")]), configurations);
        assert_eq!(of(&[(54, b"FAT16   "), (43, b"ADIT-CONFIG")]), configurations);
        assert_eq!(of(&[(54, b"FAT12   "), (43, b"NO NAME    ")]), Some(("vfat", "NO NAME".to_owned())));
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

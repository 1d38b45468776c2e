//! Images: a kernel, the program, its libraries, the kernel's modules and the files of the tunnels.

mod compression;
mod efi;
mod modules;
mod program;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use adit_cpio::Archive;
use thiserror::Error;

pub use self::compression::Compression;
use self::program::Loadable;
use crate::init::paths;
use crate::settings::Settings;

/// The rights of a program, of a file, and of a file that may hold secrets.
const PROGRAM: u32 = 0o755;
const FILE: u32 = 0o644;
const SECRET: u32 = 0o600;

/// An image that is to be made.
#[derive(Clone, Debug)]
pub struct Image {
    /// The folder that gets the files `vmlinuz`, `initramfs` and, where there is a stub, `adit.efi`. It is made if it is not there.
    pub out: PathBuf,
    /// The configurations that the machine runs, in this order.
    pub files: Vec<PathBuf>,
    /// Files and folders that the configurations name, which lie beside them in the image.
    pub with: Vec<PathBuf>,
    /// The settings of the machine; without them each Ethernet device gets its addresses by DHCP and router advertisements.
    pub settings: Option<PathBuf>,
    /// The kernel's file.
    pub kernel: PathBuf,
    /// The folder of the kernel's modules, `/lib/modules/VERSION`.
    pub modules: PathBuf,
    /// Further modules to load.
    pub more_modules: Vec<String>,
    /// How the initramfs is compressed.
    pub compression: Compression,
    /// The kernel's command line in the EFI program.
    pub command_line: String,
    /// The stub of the EFI program, `linuxx64.efi.stub` of systemd; without it there is no EFI program.
    pub stub: Option<PathBuf>,
}

/// The sizes of an image's parts in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The kernel.
    pub kernel: u64,
    /// The kernel's modules, compressed.
    pub modules: u64,
    /// The program, its libraries and the files of the tunnels, compressed.
    pub program: u64,
    /// The EFI program, if there is one.
    pub efi: Option<u64>,
}

/// Why there is no image.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file is not what it has to be.
    #[error("{path}: {fault}", path = path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The fault, and what would be right.
        fault: String,
    },
    /// The settings of the machine are wrong.
    #[error("{path}:{fault}", path = path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// The line and its fault.
        fault: String,
    },
    /// The kernel lacks a module.
    #[error("{folder}: the kernel has no module {name}: name the kernel's folder of modules with --modules", folder = folder.display())]
    NoModule {
        /// The folder of the kernel's modules.
        folder: PathBuf,
        /// The module.
        name: String,
    },
    /// The initramfs cannot be packed.
    #[error("the initramfs cannot be packed: {0}")]
    Pack(#[from] io::Error),
    /// Two files have one name.
    #[error("{path}: another file has its name, and all lie in one folder of the image: give it another", path = path.display())]
    Twice {
        /// The second of them.
        path: PathBuf,
    },
}

/// Makes an image. Files that are there already are replaced.
///
/// # Errors
/// The file that cannot be read or written, or is wrong.
pub fn build(image: &Image) -> Result<Sizes, ImageError> {
    let kernel = read(&image.kernel)?;
    let stub = image.stub.as_deref().map(read).transpose()?;
    let compressed = |archive: &[u8]| image.compression.apply(archive);
    let (program, modules) = (compressed(&program_part(image)?), compressed(&modules_part(image)?));
    fs::create_dir_all(&image.out).map_err(|source| ImageError::Read { path: image.out.clone(), source })?;
    let initramfs = [program.as_slice(), &modules].concat();
    write(&image.out.join("vmlinuz"), &kernel)?;
    write(&image.out.join("initramfs"), &initramfs)?;
    let efi = match (stub, &image.stub) {
        (Some(stub), Some(path)) => {
            let parts =
                efi::Parts { kernel: &kernel, initramfs: &initramfs, command_line: &image.command_line };
            let program = efi::program(stub, &parts)
                .map_err(|fault| ImageError::Wrong { path: path.clone(), fault: fault.to_owned() })?;
            write(&image.out.join("adit.efi"), &program)?;
            Some(program.len() as u64)
        }
        _ => None,
    };
    Ok(Sizes {
        kernel: kernel.len() as u64,
        modules: modules.len() as u64,
        program: program.len() as u64,
        efi,
    })
}

/// The archive of the program, its libraries and the files of the tunnels.
fn program_part(image: &Image) -> Result<Vec<u8>, ImageError> {
    let mut archive = Archive::new(Vec::new());
    for folder in paths::EMPTY_FOLDERS {
        archive.folder(Path::new(folder))?;
    }
    add_program(&mut archive)?;
    archive.link(Path::new("init"), Path::new(paths::PROGRAM))?;
    archive.file(in_archive(paths::BUILT), FILE, seconds_now().to_string().as_bytes())?;
    archive.link(Path::new("etc/resolv.conf"), Path::new(paths::RESOLV_CONF))?;
    archive.link(Path::new("var/run"), Path::new("/run"))?;
    if let Some(path) = &image.settings {
        let text = read(path)?;
        let fault = |fault| ImageError::Settings { path: path.clone(), fault };
        Settings::read(&String::from_utf8_lossy(&text)).map_err(fault)?;
        archive.file(in_archive(paths::SETTINGS), SECRET, &text)?;
    }
    add_files(&mut archive, image)?;
    Ok(archive.finish()?)
}

/// Seconds since 1970.
fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Adds this program, its loader and its libraries.
fn add_program(archive: &mut Archive<Vec<u8>>) -> Result<(), ImageError> {
    let own = PathBuf::from("/proc/self/exe");
    let program = loadable(&own)?;
    archive.file(in_archive(paths::PROGRAM), PROGRAM, &program.bytes)?;
    let Some(loader) = program.loader else { return Ok(()) };
    let maps = PathBuf::from("/proc/self/maps");
    let text = fs::read_to_string(&maps).map_err(|source| ImageError::Read { path: maps, source })?;
    let loader_file = fs::canonicalize(&loader).unwrap_or_else(|_| loader.clone());
    for path in program::libraries(&text).iter().filter(|path| **path != loader_file).chain([&loader]) {
        archive.file(in_archive(&path.to_string_lossy()), PROGRAM, &loadable(path)?.bytes)?;
    }
    Ok(())
}

fn loadable(path: &Path) -> Result<Loadable, ImageError> {
    Loadable::read(read(path)?).map_err(|fault| ImageError::Wrong { path: path.to_owned(), fault })
}

/// Adds the configurations, a list of their names, and the files beside them.
fn add_files(archive: &mut Archive<Vec<u8>>, image: &Image) -> Result<(), ImageError> {
    let mut names = Vec::new();
    let mut list = String::new();
    for path in &image.files {
        let name = name_of(path, &mut names)?;
        archive.file(in_archive(&format!("{}/{name}", paths::CONFIGURATIONS)), SECRET, &read(path)?)?;
        list += &format!("{name}\n");
    }
    archive.file(in_archive(paths::LIST), FILE, list.as_bytes())?;
    for path in &image.with {
        let name = name_of(path, &mut names)?;
        add_tree(archive, path, &format!("{}/{name}", paths::CONFIGURATIONS))?;
    }
    Ok(())
}

/// The name of a file in the image, where none but this file has it.
fn name_of(path: &Path, names: &mut Vec<String>) -> Result<String, ImageError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let wrong = |fault: &str| ImageError::Wrong { path: path.to_owned(), fault: fault.to_owned() };
    let name = name.ok_or_else(|| wrong("it has no name of its own: give a file"))?;
    if name.contains('\n') {
        return Err(wrong("its name has an end of a line in it"));
    }
    if names.contains(&name) {
        return Err(ImageError::Twice { path: path.to_owned() });
    }
    names.push(name.clone());
    Ok(name)
}

/// Adds a file, or a folder with all that is in it.
fn add_tree(archive: &mut Archive<Vec<u8>>, from: &Path, to: &str) -> Result<(), ImageError> {
    if !from.is_dir() {
        archive.file(in_archive(to), SECRET, &read(from)?)?;
        return Ok(());
    }
    archive.folder(in_archive(to))?;
    let entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|source| ImageError::Read { path: from.to_owned(), source })?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        add_tree(archive, &entry.path(), &format!("{to}/{}", entry.file_name().to_string_lossy()))?;
    }
    Ok(())
}

/// The archive of the kernel's modules, with a list of them in the order of loading.
fn modules_part(image: &Image) -> Result<Vec<u8>, ImageError> {
    let mut archive = Archive::new(Vec::new());
    let mut list = String::new();
    for module in modules::collect(&image.modules, &image.more_modules)? {
        archive.file(in_archive(&format!("{}/{}.ko", paths::MODULES, module.name)), FILE, &module.bytes)?;
        list += &format!("{}.ko\n", module.name);
    }
    archive.file(
        in_archive(&format!("{}/{}", paths::MODULES, paths::LIST_OF_MODULES)),
        FILE,
        list.as_bytes(),
    )?;
    Ok(archive.finish()?)
}

/// Paths of an archive begin at its root.
fn in_archive(path: &str) -> &Path {
    Path::new(path.trim_start_matches('/'))
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    fs::read(path).map_err(|source| ImageError::Read { path: path.to_owned(), source })
}

/// The file may hold keys, so that it is for its owner alone.
fn write(path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
    let _ = fs::remove_file(path);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(SECRET).open(path);
    file.and_then(|mut file| file.write_all(bytes))
        .map_err(|source| ImageError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;

//! The kernel's modules that an image holds, in the order in which they are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use super::ImageError;

/// Modules without which an image has no network or no tunnel.
const NEEDED: [&str; 3] = ["virtio_pci", "virtio_net", "tun"];
/// Modules that an image holds where the kernel has them: disks, folders of the machine below, a console, randomness, the power
/// button, watchdogs, the firewall, and network cards of other emulators.
const WANTED: [&str; 34] = [
    "virtio_blk",
    "virtio_console",
    "virtio_rng",
    "virtio_mmio",
    "button",
    "evdev",
    "ext4",
    "vfat",
    "nls_cp437",
    "nls_ascii",
    "virtiofs",
    "9p",
    "9pnet_virtio",
    "i6300esb",
    "iTCO_wdt",
    "softdog",
    "rtc_cmos",
    "nf_tables",
    "nft_chain_nat",
    "nft_masq",
    "nft_ct",
    "nft_fib_ipv4",
    "nft_fib_ipv6",
    "nft_reject_inet",
    "nf_conntrack",
    "e1000",
    "e1000e",
    "vmxnet3",
    "hv_netvsc",
    "hv_storvsc",
    "xen_netfront",
    "xen_blkfront",
    "ena",
    "gve",
];
/// The largest module in bytes, uncompressed.
const LARGEST: u64 = 64 << 20;

/// A module of an image.
#[derive(Debug)]
pub(super) struct Module {
    /// Its name, with `_` for `-`.
    pub(super) name: String,
    /// Its file, uncompressed.
    pub(super) bytes: Vec<u8>,
}

/// The modules of the kernel whose modules lie in `folder` (`/lib/modules/VERSION`): the needed and wanted ones and `more`, with
/// those that they depend on, in the order of loading.
///
/// # Errors
/// When a needed module or one of `more` is missing, or a file cannot be read.
pub(super) fn collect(folder: &Path, more: &[String]) -> Result<Vec<Module>, ImageError> {
    let text = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|source| ImageError::Read { path, source })
    };
    let listed = text("modules.dep")?;
    let dependencies = Dependencies::read(&listed);
    let built_in: BTreeSet<String> =
        text("modules.builtin").unwrap_or_default().lines().map(name_of).collect();
    let needed = NEEDED.iter().map(|name| (*name, true));
    let more = more.iter().map(|name| (name.as_str(), true));
    let wanted = WANTED.iter().map(|name| (*name, false));
    let mut order = Order { dependencies: &dependencies, paths: Vec::new(), seen: BTreeSet::new() };
    for (name, must) in needed.chain(more).chain(wanted) {
        let name = name.replace('-', "_");
        match dependencies.path(&name) {
            Some(path) => order.add(path),
            None if must && !built_in.contains(&name) => {
                return Err(ImageError::NoModule { folder: folder.to_owned(), name });
            }
            None => {}
        }
    }
    order.paths.iter().map(|path| read(&folder.join(path))).collect()
}

/// `modules.dep`: the paths of modules, each with the paths of those that it needs.
struct Dependencies<'a> {
    needs: BTreeMap<&'a str, Vec<&'a str>>,
    paths: BTreeMap<String, &'a str>,
}

impl<'a> Dependencies<'a> {
    fn read(text: &'a str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let needs: BTreeMap<&str, Vec<&str>> =
            lines.map(|(path, needs)| (path, needs.split_whitespace().collect())).collect();
        let paths = needs.keys().map(|path| (name_of(path), *path)).collect();
        Dependencies { needs, paths }
    }

    fn path(&self, name: &str) -> Option<&'a str> {
        self.paths.get(name).copied()
    }
}

/// Modules in the order of loading: each behind those that it needs.
struct Order<'a> {
    dependencies: &'a Dependencies<'a>,
    paths: Vec<&'a str>,
    seen: BTreeSet<&'a str>,
}

impl<'a> Order<'a> {
    fn add(&mut self, path: &'a str) {
        if !self.seen.insert(path) {
            return;
        }
        for needed in self.dependencies.needs.get(path).into_iter().flatten() {
            self.add(needed);
        }
        self.paths.push(path);
    }
}

/// The name of the module of a file, such as `virtio_net` of `kernel/drivers/net/virtio-net.ko.xz`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split(".ko").next().unwrap_or_default().replace('-', "_")
}

/// Reads a module, which may be compressed.
fn read(path: &Path) -> Result<Module, ImageError> {
    let failed = |source| ImageError::Read { path: path.to_owned(), source };
    let file = std::fs::read(path).map_err(failed)?;
    let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Module { name: name_of(&path.to_string_lossy()), bytes: uncompressed(file, &ending).map_err(failed)? })
}

fn uncompressed(file: Vec<u8>, ending: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match ending {
        "xz" => lzma_rust2::XzReader::new(file.as_slice(), true).take(LARGEST).read_to_end(&mut bytes)?,
        "gz" => flate2::read::GzDecoder::new(file.as_slice()).take(LARGEST).read_to_end(&mut bytes)?,
        "zst" => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(file.as_slice());
            decoder.map_err(std::io::Error::other)?.take(LARGEST).read_to_end(&mut bytes)?
        }
        _ => return Ok(file),
    };
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use adit_testbed::Scratch;

    use super::*;

    fn folder(dependencies: &str) -> Scratch {
        let scratch = Scratch::create("modules").unwrap();
        scratch.write("modules.dep", dependencies).unwrap();
        scratch.write("modules.builtin", "kernel/drivers/virtio/virtio_pci.ko\n").unwrap();
        for path in dependencies.lines().filter_map(|line| line.split(':').next()) {
            scratch.write(path, path).unwrap();
        }
        scratch
    }

    #[test]
    fn modules_are_behind_those_that_they_need_and_what_is_built_in_is_no_module() {
        let scratch = folder(
            "net-failover.ko: failover.ko\nfailover.ko:\nvirtio_net.ko: net-failover.ko failover.ko\ntun.ko:\n",
        );
        let modules = collect(scratch.path(), &["failover".to_owned()]).unwrap();
        let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["failover", "net_failover", "virtio_net", "tun"]);
        assert_eq!(modules[1].bytes, b"net-failover.ko");
    }

    #[test]
    fn a_module_that_is_missing_is_named() {
        let scratch = folder("virtio_net.ko:\n");
        let error = collect(scratch.path(), &[]).unwrap_err().to_string();
        assert!(error.contains("tun"), "{error}");
        let scratch = folder("virtio_net.ko:\ntun.ko:\n");
        let error = collect(scratch.path(), &["ib-core".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("ib_core"), "{error}");
    }

    #[test]
    fn compressed_modules_are_unpacked() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(b"module").unwrap();
        assert_eq!(uncompressed(encoder.finish().unwrap(), "gz").unwrap(), b"module");
        // `printf module | xz`, `printf module | zstd`.
        let xz = "fd377a585a000004e6d6b4460200210116000000742fe5a30100056d6f64756c650000003450330772fc7cbd00011e06c12fa41d1fb6f37d01\
                  0000000004595a";
        let zstd = "28b52ffd04583100006d6f64756c655d89a98d";
        for (packed, ending) in [(xz, "xz"), (zstd, "zst")] {
            let pairs = packed.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let packed = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            assert_eq!(uncompressed(packed, ending).unwrap(), b"module", "{ending}");
        }
        assert!(uncompressed(b"no archive".to_vec(), "xz").is_err());
        assert!(uncompressed(b"no archive".to_vec(), "zst").is_err());
        assert_eq!(uncompressed(b"module".to_vec(), "ko").unwrap(), b"module");
    }
}

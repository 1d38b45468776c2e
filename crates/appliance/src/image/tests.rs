//! Images are read back: the files that they hold.

use std::collections::BTreeMap;
use std::io::Read as _;

use adit_testbed::Scratch;

use super::*;

/// A kernel that is a text, and modules that are.
fn image(scratch: &Scratch, files: &[PathBuf]) -> Image {
    let modules = scratch.path().join("modules");
    fs::create_dir(&modules).unwrap();
    fs::write(modules.join("modules.dep"), "virtio_pci.ko:\nvirtio_net.ko: virtio_pci.ko\ntun.ko:\n")
        .unwrap();
    for name in ["virtio_pci.ko", "virtio_net.ko", "tun.ko"] {
        fs::write(modules.join(name), name).unwrap();
    }
    Image {
        out: scratch.path().join("out"),
        files: files.to_vec(),
        with: Vec::new(),
        settings: None,
        kernel: scratch.write("vmlinuz", "kernel").unwrap(),
        modules,
        more_modules: Vec::new(),
        compression: Compression::Gzip,
        command_line: String::new(),
        stub: None,
    }
}

/// The mode and the size of each entry of the archives of an initramfs.
fn entries(initramfs: &[u8]) -> BTreeMap<String, (u32, usize)> {
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(initramfs).read_to_end(&mut bytes).unwrap();
    let (mut entries, mut rest) = (BTreeMap::new(), bytes.as_slice());
    while let Some(header) = rest.get(..110) {
        let field = |number: usize| {
            let text = std::str::from_utf8(&header[6 + number * 8..][..8]).unwrap();
            usize::from_str_radix(text, 16).unwrap()
        };
        let (mode, size, length) = (field(1) as u32, field(6), field(11));
        let name = String::from_utf8(rest[110..110 + length - 1].to_vec()).unwrap();
        let content = (110 + length).next_multiple_of(4);
        rest = rest.get((content + size).next_multiple_of(4)..).unwrap_or_default();
        if name != "TRAILER!!!" {
            entries.insert(name, (mode, size));
        }
    }
    entries
}

/// The only files that can be run are the program and the libraries that its loader gives it.
#[test]
fn an_image_has_no_other_program_and_its_configurations_are_for_root_alone() {
    let scratch = Scratch::create("image").unwrap();
    let file = scratch.write("office.conf", "secret").unwrap();
    let image = image(&scratch, &[file]);
    let sizes = build(&image).unwrap();
    let initramfs = fs::read(image.out.join("initramfs")).unwrap();
    assert_eq!(sizes.program + sizes.modules, initramfs.len() as u64);
    let entries = entries(&initramfs);
    let regular = entries.iter().filter(|(_, (mode, _))| mode & 0o170_000 == 0o100_000);
    let (programs, others): (Vec<_>, Vec<_>) = regular.partition(|(_, (mode, _))| mode & 0o111 != 0);
    assert!(programs.iter().any(|(name, _)| *name == "adit"), "{programs:?}");
    for (name, _) in programs.iter().filter(|(name, _)| *name != "adit") {
        assert!(name.contains(".so"), "{name} is neither adit nor a library");
    }
    let others: BTreeMap<&str, u32> =
        others.into_iter().map(|(name, (mode, _))| (name.as_str(), *mode)).collect();
    let wanted = [
        ("etc/adit.built", 0o644),
        ("etc/adit.list", 0o644),
        ("etc/adit/office.conf", 0o600),
        ("lib/modules/list", 0o644),
        ("lib/modules/tun.ko", 0o644),
        ("lib/modules/virtio_net.ko", 0o644),
        ("lib/modules/virtio_pci.ko", 0o644),
    ];
    assert_eq!(others, wanted.map(|(name, rights)| (name, 0o100_000 | rights)).into());
    assert_eq!(entries["init"].0 & 0o170_000, 0o120_000);
    // The image holds keys.
    let rights = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(image.out.join("initramfs")).unwrap().permissions(),
    );
    assert_eq!(rights & 0o777, 0o600);
}

#[test]
fn folders_lie_beside_the_configurations_and_two_files_of_one_name_are_refused() {
    let scratch = Scratch::create("image").unwrap();
    let file = scratch.write("a.conf", "").unwrap();
    let mut image = image(&scratch, std::slice::from_ref(&file));
    fs::create_dir_all(scratch.path().join("keys/deep")).unwrap();
    scratch.write("keys/deep/key.pem", "key").unwrap();
    image.with.push(scratch.path().join("keys"));
    build(&image).unwrap();
    let found = entries(&fs::read(image.out.join("initramfs")).unwrap());
    assert_eq!(found["etc/adit/keys/deep/key.pem"], (0o100_600, 3));
    image.with.push(file);
    assert!(build(&image).unwrap_err().to_string().contains("a.conf: another file has its name"));
}

#[test]
fn wrong_settings_are_refused_with_file_and_line() {
    let scratch = Scratch::create("image").unwrap();
    let mut image = image(&scratch, &[]);
    image.settings = Some(scratch.write("appliance.conf", "[eth0]\naddress = here\n").unwrap());
    let error = build(&image).unwrap_err().to_string();
    assert!(error.contains("appliance.conf:2: `address = here`"), "{error}");
}

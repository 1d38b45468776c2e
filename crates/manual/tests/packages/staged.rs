//! The files that packages install (`scripts/stage`), with the pages of this program. The program itself does not
//! matter here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{Scratch, can_run, program};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The files that `adit` installs beside its pages, completions and documents.
const ADIT: &[&str] = &[
    "etc/adit",
    "usr/bin/adit",
    "usr/bin/adit-wireguard",
    "usr/lib/systemd/system/adit@.service",
    "usr/lib/sysusers.d/adit.conf",
    "usr/lib/tmpfiles.d/adit.conf",
];

/// The files that `adit-auth` installs.
const AUTH: &[&str] = &["usr/libexec/adit/adit-ldap", "usr/libexec/adit/adit-pam"];

/// The files that `adit-openvpn` installs.
const OPENVPN: &[&str] = &[
    "etc/apparmor.d/local/openvpn",
    "etc/openvpn/client",
    "etc/openvpn/server",
    "usr/lib/systemd/system-generators/openvpn-generator",
    "usr/lib/systemd/system/openvpn-client@.service",
    "usr/lib/systemd/system/openvpn-client@.service.d/10-adit.conf",
    "usr/lib/systemd/system/openvpn-server@.service",
    "usr/lib/systemd/system/openvpn-server@.service.d/10-adit.conf",
    "usr/lib/systemd/system/openvpn.service",
    "usr/lib/systemd/system/openvpn@.service",
    "usr/lib/systemd/system/openvpn@.service.d/10-adit.conf",
    "usr/lib/tmpfiles.d/adit-openvpn.conf",
    "usr/sbin/openvpn",
    "usr/share/man/man8/openvpn.8",
];

/// The commands of upstream's units (distro/systemd) and of Debian's, which drop-ins and monitoring count on.
const COMMANDS: &[(&str, &str)] = &[
    (
        "openvpn-server@",
        "/usr/sbin/openvpn --status %t/openvpn-server/status-%i.log --status-version 2 --suppress-timestamps --config %i.conf",
    ),
    ("openvpn-client@", "/usr/sbin/openvpn --suppress-timestamps --nobind --config %i.conf"),
    (
        "openvpn@",
        "/usr/sbin/openvpn --daemon ovpn-%i --status /run/openvpn/%i.status 10 --cd /etc/openvpn --config /etc/openvpn/%i.conf --writepid /run/openvpn/%i.pid",
    ),
    ("adit@", "/usr/bin/adit up /etc/adit/%i.conf"),
];

/// As exposed as a unit may be, by `systemd-analyze security` (in tenths).
const MOST_EXPOSED: u32 = 30;

fn stage() -> Scratch {
    let scratch = Scratch::create("staged").unwrap();
    let pages = scratch.path().join("pages");
    let made = Command::new(env!("CARGO_BIN_EXE_adit-manual")).arg(&pages).status().unwrap();
    assert!(made.success());
    fs::write(pages.join("LICENCES.txt"), "").unwrap();
    let binary = scratch.write("adit", "").unwrap();
    for name in ["adit-pam", "adit-ldap"] {
        scratch.write(name, "").unwrap();
    }
    let to = scratch.path().join("stage");
    let mut stage = Command::new(Path::new(ROOT).join("scripts/stage"));
    let output = stage.arg(binary).arg(&pages).arg(&to).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    scratch
}

/// Files, links and empty directories below `root`.
fn listing(root: &Path) -> BTreeSet<String> {
    fn add(root: &Path, directory: &Path, found: &mut BTreeSet<String>) {
        let entries: Vec<PathBuf> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        if entries.is_empty() {
            found.insert(directory.strip_prefix(root).unwrap().display().to_string());
        }
        for path in entries {
            if path.is_dir() && !path.is_symlink() {
                add(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let mut found = BTreeSet::new();
    add(root, root, &mut found);
    found
}

#[test]
fn everything_has_its_place() {
    let scratch = stage();
    let [adit, auth, openvpn] = ["adit", "adit-auth", "adit-openvpn"]
        .map(|package| listing(&scratch.path().join("stage").join(package)));
    let expected = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(openvpn, expected(OPENVPN));
    assert_eq!(auth, expected(AUTH));
    let own: BTreeSet<String> = adit.iter().filter(|file| !file.starts_with("usr/share/")).cloned().collect();
    assert_eq!(own, expected(ADIT));
    for file in [
        "usr/share/man/man1/adit.1",
        "usr/share/man/man1/adit-up.1",
        "usr/share/man/man8/adit-openvpn.8",
        "usr/share/man/man8/adit-wireguard.8",
        "usr/share/bash-completion/completions/adit",
        "usr/share/zsh/vendor-completions/_adit-wireguard",
        "usr/share/fish/vendor_completions.d/adit.fish",
        "usr/share/doc/adit/README.md",
        "usr/share/doc/adit/docs/use/INSTALL.md",
    ] {
        assert!(adit.contains(file), "{file}: {adit:?}");
    }
    let link = |path: &str| fs::read_link(scratch.path().join("stage").join(path)).unwrap();
    assert_eq!(link("adit/usr/bin/adit-wireguard"), Path::new("adit"));
    assert_eq!(link("adit-openvpn/usr/sbin/openvpn"), Path::new("../bin/adit"));
    assert_eq!(link("adit-openvpn/usr/share/man/man8/openvpn.8"), Path::new("adit-openvpn.8"));
}

#[test]
fn units_run_the_commands_that_are_expected_of_them() {
    for (unit, command) in COMMANDS {
        let text =
            fs::read_to_string(Path::new(ROOT).join(format!("packaging/systemd/{unit}.service"))).unwrap();
        let line = format!("\nExecStart={command}\n");
        assert!(text.contains(&line) && text.contains("\nType=notify\n"), "{unit}");
    }
}

#[test]
fn units_expose_little() {
    if !can_run("units", &["systemd-analyze"]) {
        return;
    }
    for (unit, _) in COMMANDS {
        let file = Path::new(ROOT).join(format!("packaging/systemd/{unit}.service"));
        let mut analyze = program("systemd-analyze").unwrap();
        analyze.args(["security", "--offline=true", "--no-pager"]).arg(file);
        let output = analyze.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let overall = said.lines().find_map(|line| line.split_once("service: ")).unwrap().1;
        let exposure = overall.split(' ').next().unwrap().replace('.', "").parse::<u32>().unwrap();
        assert!(exposure <= MOST_EXPOSED, "{unit}: {overall}");
    }
}

#[test]
fn the_account_and_the_directories_are_made() {
    if !can_run("accounts", &["systemd-sysusers", "systemd-tmpfiles"]) {
        return;
    }
    let scratch = Scratch::create("accounts").unwrap();
    let root = scratch.path().join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    // Both look up names in the files of that root.
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\n").unwrap();
    let run = |name: &str, arguments: &[&str], file: &str| {
        let (installed, short) = (root.join("usr/lib").join(file), file.rsplit('/').next().unwrap());
        fs::create_dir_all(installed.parent().unwrap()).unwrap();
        fs::copy(Path::new(ROOT).join("packaging").join(file), installed).unwrap();
        let mut command = program(name).unwrap();
        command.arg(format!("--root={}", root.display())).args(arguments).arg(short);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("systemd-sysusers", &[], "sysusers.d/adit.conf");
    let accounts = fs::read_to_string(root.join("etc/passwd")).unwrap();
    let account = accounts.lines().find(|line| line.starts_with("adit:")).unwrap();
    assert!(account.ends_with(":adit VPN:/nonexistent:/usr/sbin/nologin"), "{account}");
    for file in ["tmpfiles.d/adit.conf", "tmpfiles.d/adit-openvpn.conf"] {
        run("systemd-tmpfiles", &["--create"], file);
    }
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    let modes = ["run/adit", "run/openvpn", "run/openvpn-server", "run/openvpn-client"].map(mode);
    assert_eq!(modes, [0o755, 0o755, 0o710, 0o710]);
}

/// `openvpn.service` wants the units that `AUTOSTART` names. The generator reads absolute paths: its own copy reads the
/// test's.
#[test]
fn the_generator_starts_what_autostart_names() {
    let scratch = Scratch::create("generator").unwrap();
    let at = |path: &str| scratch.path().join(path);
    fs::create_dir_all(at("etc/openvpn")).unwrap();
    fs::create_dir_all(at("etc/default")).unwrap();
    let text = fs::read_to_string(Path::new(ROOT).join("packaging/systemd/openvpn-generator")).unwrap();
    let own =
        scratch.write("generator", &text.replace("/etc/", &format!("{}/etc/", scratch.path().display())));
    let own = own.unwrap();
    let wanted = |number: usize| {
        let out = at(&format!("out{number}"));
        fs::create_dir(&out).unwrap();
        assert!(Command::new("sh").arg(&own).arg(&out).status().unwrap().success());
        let Ok(entries) = fs::read_dir(out.join("openvpn.service.wants")) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert!(wanted(0).is_empty(), "there is no file");
    for name in ["a", "b"] {
        fs::write(at(&format!("etc/openvpn/{name}.conf")), "").unwrap();
    }
    assert_eq!(wanted(1), ["openvpn@a.service", "openvpn@b.service"]);
    let autostart =
        |value: &str| fs::write(at("etc/default/openvpn"), format!("AUTOSTART=\"{value}\"\n")).unwrap();
    autostart("b missing");
    assert_eq!(wanted(2), ["openvpn@b.service"]);
    autostart("none");
    assert!(wanted(3).is_empty());
}

#[test]
fn the_packages_have_the_version_of_the_program() {
    let log = fs::read_to_string(Path::new(ROOT).join("packaging/debian/changelog")).unwrap();
    assert!(log.starts_with(&format!("adit ({}) ", env!("CARGO_PKG_VERSION"))), "{log}");
}

#[test]
fn shell_scripts_can_be_read() {
    let folder = Path::new(ROOT).join("packaging/debian");
    let mut scripts: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.to_string_lossy().ends_with("inst") || path.to_string_lossy().ends_with("rm"));
    assert!(scripts.len() >= 6, "{scripts:?}");
    for name in ["stage", "licences", "make-packages", "test-packages", "test-packages-inside"] {
        scripts.push(Path::new(ROOT).join("scripts").join(name));
    }
    for script in scripts {
        assert!(
            Command::new("sh").arg("-n").arg(&script).status().unwrap().success(),
            "{}",
            script.display()
        );
    }
}

//! kill -9, an error and a full disk at each write of `init`, `add-client`, `revoke` and `renew`, with the program as
//! it is installed: the same command, repeated, reaches the state that was asked for, or names the next step.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use adit_testbed::{Scratch, can_run};
use adit_wireguard::{AllowedIp, PublicKey};

/// Has a fault come in a debug build: see `src/setup/files/fault.rs`.
const FAULT: &str = "ADIT_TEST_FAULT";

/// The commands, and the state before them.
const COMMANDS: [(&[&str], Before); 11] = [
    (&["init", "DIR", "--endpoint", "vpn.example"], Before::Nothing),
    (&["add-client", "DIR", "alice"], Before::Server),
    (&["revoke", "DIR", "alice"], Before::Client),
    (&["renew", "DIR"], Before::Client),
    (&["renew", "DIR", "alice"], Before::Client),
    (&["renew", "DIR", "--ca"], Before::Client),
    (&["init", "DIR", "--endpoint", "vpn.example", "--wireguard", "--dev", DEVICE], Before::Nothing),
    (&["init", "DIR", "--wireguard", "--dev", DEVICE], Before::Client),
    (&["add-client", "DIR", "alice", "--wireguard", "--qr"], Before::WireGuard),
    (&["revoke", "DIR", "alice"], Before::WireGuardClient),
    (&["renew", "DIR", "alice", "--wireguard"], Before::WireGuardClient),
];

/// The files that are there when a command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    Nothing,
    Server,
    /// A server and its client `alice`.
    Client,
    /// A server, its client `alice`, and a WireGuard server that has no peer of her name.
    WireGuard,
    /// She has WireGuard as well, and images of the QR code.
    WireGuardClient,
}

/// No interface of that name runs, so no running interface gets a test's orders.
const DEVICE: &str = "adit-faults";
/// The file of the WireGuard server.
const SERVER_FILE: &str = "adit-faults.conf";

fn adit(command: &[&str], dir: &Path, fault: Option<&str>) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_adit"));
    let dir = dir.to_str().unwrap();
    program.args(command.iter().map(|word| if *word == "DIR" { dir } else { word }));
    program.envs(fault.map(|fault| (FAULT, fault))).output().unwrap()
}

fn good(command: &[&str], dir: &Path) {
    let output = adit(command, dir, None);
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// A directory in which a command has all that it needs, `vpn` in it; and the files that the server and alice had
/// before, as `kept.conf` and `kept.ovpn`, with WireGuard `kept-wireguard.conf`.
fn template(scratch: &Scratch, before: Before) -> PathBuf {
    let dir = scratch.path().join("vpn");
    for (needed, command) in [
        (Before::Server, COMMANDS[0].0),
        (Before::Client, COMMANDS[1].0),
        (Before::WireGuard, COMMANDS[7].0),
        (Before::WireGuardClient, COMMANDS[8].0),
    ] {
        if before >= needed {
            good(command, &dir);
        }
    }
    for (file, kept, needed) in [
        ("clients/alice.ovpn", "kept.ovpn", Before::Client),
        ("server.conf", "kept.conf", Before::Client),
        ("clients/alice.conf", "kept-wireguard.conf", Before::WireGuardClient),
    ] {
        if before >= needed {
            fs::copy(dir.join(file), dir.join(kept)).unwrap();
        }
    }
    dir
}

fn copy(from: &Path, to: &Path) {
    if from.exists() {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }
}

/// The inline block of a directive in a configuration.
fn block(dir: &Path, configuration: &str, directive: &str) -> String {
    let text = fs::read_to_string(dir.join(configuration)).unwrap();
    let (_, rest) = text.split_once(&format!("<{directive}>\n")).unwrap();
    rest.split_once(&format!("</{directive}>")).unwrap().0.to_owned()
}

/// A renewed configuration has another certificate and key than before, and the one from before is good as well.
fn check_renewed(dir: &Path, new: &str, old: &str) {
    for directive in ["cert", "key"] {
        assert_ne!(block(dir, new, directive), block(dir, old, directive), "{new}: {directive}");
    }
    assert_eq!(verdict(dir, old), Ok(()));
}

/// The certificate in pki/ca.crt is in a configuration, which had another before, and has its own as before.
fn check_authority(dir: &Path, new: &str, old: &str) {
    let authority = fs::read_to_string(dir.join("pki/ca.crt")).unwrap();
    assert_eq!(block(dir, new, "ca"), authority);
    assert_ne!(block(dir, old, "ca"), authority);
    assert_eq!(block(dir, new, "cert"), block(dir, old, "cert"));
}

/// The verdict of OpenSSL on the certificate in a configuration, by the authority and the revocation list of `dir`.
fn verdict(dir: &Path, configuration: &str) -> Result<(), String> {
    let scratch = Scratch::create("verdict").unwrap();
    let certificate = scratch.write("certificate", &block(dir, configuration, "cert")).unwrap();
    let output = Command::new("openssl")
        .args(["verify", "-crl_check", "-CAfile"])
        .arg(dir.join("pki/ca.crt"))
        .arg("-CRLfile")
        .arg(dir.join("crl.pem"))
        .arg(certificate)
        .output()
        .unwrap();
    if output.status.success() { Ok(()) } else { Err(said(&output)) }
}

fn is_shut_out(dir: &Path) -> bool {
    let kept = dir.join("kept-wireguard.conf");
    let has_key = kept.exists() && peers(dir).contains(&public_key(&kept));
    !has_key && verdict(dir, "kept.ovpn").is_err_and(|why| why.contains("certificate revoked"))
}

/// The public keys in the WireGuard server's file.
fn peers(dir: &Path) -> Vec<PublicKey> {
    wireguard(&dir.join(SERVER_FILE)).peers.iter().map(|peer| peer.public_key).collect()
}

fn wireguard(path: &Path) -> adit_wireguard_config::Config {
    let parsed = adit_wireguard_config::parse(&fs::read(path).unwrap(), "it").unwrap();
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
    parsed.config
}

/// The public key of a client's or a server's WireGuard file.
fn public_key(path: &Path) -> PublicKey {
    wireguard(path).interface.private_key.unwrap().public_key()
}

/// alice is the only peer, by the key and the address in her file; and her images are there.
fn check_wireguard_client(dir: &Path) {
    let (file, server) = (dir.join("clients/alice.conf"), dir.join(SERVER_FILE));
    assert_eq!(peers(dir), [public_key(&file)]);
    let (client, server_config) = (wireguard(&file), wireguard(&server));
    let (ours, theirs) = (&client.peers[0], &server_config.peers[0]);
    assert_eq!((ours.public_key, &ours.preshared_key), (public_key(&server), &theirs.preshared_key));
    let hosts = client.interface.addresses.iter().map(|net| AllowedIp::Add(*net));
    assert_eq!(hosts.collect::<Vec<_>>(), theirs.allowed_ips);
    for image in ["alice.png", "alice.svg"] {
        assert!(dir.join("clients").join(image).exists(), "{image}");
    }
}

/// Checks the purpose of WireGuard's commands.
fn check_wireguard(command: &[&str], dir: &Path) {
    let (file, kept) = (dir.join("clients/alice.conf"), dir.join("kept-wireguard.conf"));
    match command {
        ["init", .., "--wireguard", _, _] => {
            assert!(fs::read_to_string(dir.join("server.conf")).unwrap().contains("dev adit-faults\n"));
            assert!(peers(dir).is_empty());
        }
        ["add-client", .., "--wireguard", "--qr"] => check_wireguard_client(dir),
        ["renew", .., "--wireguard"] => {
            check_wireguard_client(dir);
            assert_ne!(public_key(&file), public_key(&kept));
            assert_eq!(wireguard(&file).interface.addresses, wireguard(&kept).interface.addresses);
        }
        ["revoke", ..] => assert!(!file.exists() && !dir.join("clients/alice.png").exists()),
        _ => {}
    }
}

/// The state that a command is for.
fn check(command: &[&str], dir: &Path) {
    assert_eq!(verdict(dir, "server.conf"), Ok(()), "{command:?}");
    good(&["check", "DIR"], &dir.join("server.conf"));
    let profile = dir.join("clients/alice.ovpn");
    match command[0] {
        "init" => {}
        "revoke" => assert!(is_shut_out(dir) && !profile.exists(), "{command:?}"),
        _ if profile.exists() => {
            assert_eq!(verdict(dir, "clients/alice.ovpn"), Ok(()), "{command:?}");
            good(&["check", "DIR"], &profile);
        }
        name => assert_ne!(name, "add-client", "no profile"),
    }
    let pairs = [("server.conf", "kept.conf"), ("clients/alice.ovpn", "kept.ovpn")];
    check_wireguard(command, dir);
    match command {
        [.., "--wireguard"] => {}
        ["renew", _] => check_renewed(dir, pairs[0].0, pairs[0].1),
        ["renew", _, "--ca"] => pairs.iter().for_each(|(new, old)| check_authority(dir, new, old)),
        ["renew", ..] => check_renewed(dir, pairs[1].0, pairs[1].1),
        _ => {}
    }
    for directory in [dir.parent().unwrap(), dir, &dir.join("pki"), &dir.join("clients")] {
        for entry in fs::read_dir(directory).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with('.'), "{command:?}: {name}");
        }
    }
}

/// Repeats a command that a fault ended.
fn repeat(command: &[&str], dir: &Path, fault: &str) {
    let output = adit(command, dir, None);
    // The fault came after the last step that counts: the command says so, and names the step that may come
    // next.
    let is_done = output.status.code() == Some(2)
        && ["`adit init` made it already", "choose another name"].iter().any(|it| said(&output).contains(it));
    assert!(output.status.success() || is_done, "{command:?} after {fault}: {}", said(&output));
    check(command, dir);
}

/// Has a fault come at each change of each command in turn.
fn at_each_write(fault: &str, is_fault: impl Fn(&Output) -> bool) {
    for (command, before) in COMMANDS {
        let scratch = Scratch::create("faults").unwrap();
        let template = template(&scratch, before);
        for number in 0.. {
            let scratch = Scratch::create("faults").unwrap();
            let dir = scratch.path().join("vpn");
            copy(&template, &dir);
            let order = format!("{fault} {number}");
            let output = adit(command, &dir, Some(&order));
            let reported = output.status.success();
            if reported && command[0] == "revoke" {
                assert!(is_shut_out(&dir), "{order}: reported as shut out");
            }
            if reported && !is_fault(&output) {
                assert!(number > 4, "{command:?} makes {number} changes only");
                check(command, &dir);
                break;
            }
            assert!(is_fault(&output), "{command:?}, {order}: {}", said(&output));
            repeat(command, &dir, &order);
        }
    }
}

#[test]
fn killed_at_each_write() {
    if can_run("killed_at_each_write", &["openssl"]) {
        at_each_write("kill", |output| output.status.signal() == Some(9));
    }
}

#[test]
fn an_error_at_each_write() {
    if can_run("an_error_at_each_write", &["openssl"]) {
        at_each_write("error", |output| said(output).contains("Input/output error"));
    }
}

#[test]
fn disk_full_from_each_write_on() {
    if can_run("disk_full_from_each_write_on", &["openssl"]) {
        at_each_write("full", |output| said(output).contains("No space left on device"));
    }
}

/// A disk that is full, in truth: a tmpfs in a mount namespace of this test's own.
#[test]
fn full_disk() {
    if !can_run("full_disk", &["openssl", "unshare", "mount"]) {
        return;
    }
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "full_disk_in_a_mount_namespace", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    assert!(output.status.success() && said(&output).contains("1 passed"), "{}", said(&output));
}

#[test]
#[ignore = "started by `full_disk`"]
fn full_disk_in_a_mount_namespace() {
    let mount = Scratch::create("disk").unwrap();
    let disk = mount.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let options = "size=512k,nr_inodes=64,mode=700";
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&disk).status().unwrap();
    assert!(mounted.success());
    for (command, before) in COMMANDS {
        let scratch = Scratch::create("faults").unwrap();
        let template = template(&scratch, before);
        for shortage in [Shortage::Space, Shortage::Files] {
            let failed = run_short_of(shortage, command, &template, &disk);
            assert!(failed > 0, "{command:?} needs no {shortage:?}");
        }
    }
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
}

/// The resource of which a disk has too little.
#[derive(Clone, Copy, Debug)]
enum Shortage {
    Space,
    Files,
}

/// Runs a command with room for one page, or file, more each time until it succeeds. How often it failed.
fn run_short_of(shortage: Shortage, command: &[&str], template: &Path, disk: &Path) -> usize {
    for room in 0.. {
        let dir = disk.join("vpn");
        copy(template, &dir);
        let filling = fill(shortage, disk, room);
        let output = adit(command, &dir, None);
        let succeeded = output.status.success();
        if succeeded && command[0] == "revoke" {
            assert!(is_shut_out(&dir), "room for {room}: reported as shut out");
        }
        if !succeeded {
            assert!(said(&output).contains("No space left on device"), "{command:?}: {}", said(&output));
        }
        fs::remove_dir_all(filling).unwrap();
        if succeeded {
            check(command, &dir);
        } else {
            repeat(command, &dir, &format!("a full disk, {shortage:?}, room for {room}"));
        }
        fs::remove_dir_all(&dir).unwrap();
        if succeeded {
            return room;
        }
    }
    unreachable!("rooms are without number")
}

/// Fills the disk up to so many pages or files. Gives the directory that does so.
fn fill(shortage: Shortage, disk: &Path, room: usize) -> PathBuf {
    const PAGE: usize = 4096;
    let filling = disk.join("filling");
    fs::create_dir(&filling).unwrap();
    match shortage {
        Shortage::Space => {
            let mut file = File::create(filling.join("file")).unwrap();
            let mut pages = 0;
            while file.write_all(&[0; PAGE]).is_ok() {
                pages += 1;
            }
            file.set_len(u64::try_from(PAGE * (pages - room.min(pages))).unwrap()).unwrap();
        }
        Shortage::Files => {
            let files: Vec<PathBuf> = (0..1000)
                .map(|number| filling.join(number.to_string()))
                .take_while(|path| File::create(path).is_ok())
                .collect();
            files.iter().take(room).for_each(|path| fs::remove_file(path).unwrap());
        }
    }
    filling
}

//! `adit init` and `adit add-client`, run as a user runs them; the files that they make must work with
//! OpenVPN.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use adit_openvpn_config::parse;
use adit_testbed::{
    MAX_WAIT, Namespace, Ping, Scratch, can_run, connect, openvpn_command, wait_until_reachable,
};

fn adit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_adit")).args(arguments).output().unwrap()
}

fn good(arguments: &[&str]) {
    let output = adit(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a command that must fail with this exit code, and returns its message.
fn bad(arguments: &[&str], code: i32) -> String {
    let output = adit(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The second word of the first line that starts with `directive`.
fn value(text: &str, directive: &str) -> String {
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let found = lines.find_map(|mut words| (words.next() == Some(directive)).then(|| words.next()));
    found.flatten().unwrap_or_else(|| panic!("no `{directive}`")).to_string()
}

/// A name that cannot be that of a service is refused before anything is made. (That it runs:
/// scripts/test-packages.)
#[test]
fn what_cannot_start_is_not_made() {
    let scratch = Scratch::create("init-start").unwrap();
    let dir = scratch.path().join("my office");
    let said = bad(&["init", dir.to_str().unwrap(), "--endpoint", "vpn.example", "--start"], 2);
    assert!(said.contains("letters, digits"), "{said}");
    assert!(!dir.exists());
    bad(&["init", dir.to_str().unwrap(), "--endpoint", "vpn.example", "--start", "--wireguard"], 2);
    assert!(!dir.exists());
}

#[test]
fn makes_what_only_its_owner_reads_and_overwrites_nothing() {
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    bad(&["init", path, "--endpoint", "vpn example"], 2);
    assert!(!dir.exists());
    good(&["init", path, "--endpoint", "vpn.example:443", "--proto", "tcp"]);
    for name in ["pki", "clients"] {
        assert_eq!(mode(&dir.join(name)), 0o700, "{name}");
    }
    // The way to the list of revoked certificates, and not even a look at the other names.
    assert_eq!(mode(&dir), 0o711);
    for name in ["server.conf", "pki/ca.key", "pki/tls-crypt-v2.key", "pki/index.json"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
    // Public, and a server that gave up root's rights reads the list again.
    for name in ["crl.pem", "pki/ca.crt"] {
        assert_eq!(mode(&dir.join(name)), 0o644, "{name}");
    }
    let before = fs::read(dir.join("server.conf")).unwrap();
    assert!(bad(&["init", path, "--endpoint", "vpn.example"], 2).contains("not empty"));
    assert_eq!(fs::read(dir.join("server.conf")).unwrap(), before);

    good(&["add-client", path, "alice"]);
    let profile = dir.join("clients/alice.ovpn");
    assert_eq!(mode(&profile), 0o600);
    let text = fs::read_to_string(&profile).unwrap();
    assert!(text.contains("\nproto tcp\nremote vpn.example 443 tcp\n"));
    assert!(!text.contains("explicit-exit-notify"));
    assert!(bad(&["add-client", path, "alice"], 2).contains("choose another name"));
    assert!(bad(&["add-client", path, "Alice"], 2).contains("choose another name"));
    bad(&["add-client", path, "../alice"], 2);
    assert_eq!(fs::read_to_string(&profile).unwrap(), text);
    let index = fs::read_to_string(dir.join("pki/index.json")).unwrap();
    assert_eq!(index.matches("\"serial\"").count(), 2, "{index}");
    // Nothing temporary is left, beside it or in it.
    for directory in [scratch.path(), &dir, &dir.join("clients"), &dir.join("pki")] {
        for entry in fs::read_dir(directory).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(!name.to_string_lossy().starts_with('.'), "{name:?}");
        }
    }
}

/// Libraries that look for a host's name take it from there, and no longer from the common name.
#[test]
fn certificates_hold_their_name_as_a_host_name() {
    if !can_run("certificates_hold_their_name_as_a_host_name", &["openssl"]) {
        return;
    }
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    good(&["init", path, "--endpoint", "vpn.example"]);
    for (name, file, expected) in [
        ("adit-server", "server.conf", Some("DNS:adit-server")),
        ("bob.laptop", "clients/bob.laptop.ovpn", Some("DNS:bob.laptop")),
        // No host can have such a name.
        ("x@y.example", "clients/x@y.example.ovpn", None),
    ] {
        if file.starts_with("clients") {
            good(&["add-client", path, name]);
        }
        let said = certificate(&scratch, &fs::read_to_string(dir.join(file)).unwrap());
        assert!(said.contains(&format!("CN = {name}\n")), "{said}");
        let found = said.lines().map(str::trim).find(|line| line.starts_with("DNS:"));
        assert_eq!(found, expected, "{said}");
    }
}

/// The text of `openssl` for the certificate in a configuration.
fn certificate(scratch: &Scratch, text: &str) -> String {
    let (_, rest) = text.split_once("<cert>\n").unwrap();
    let file = scratch.write("certificate.pem", rest.split_once("</cert>").unwrap().0).unwrap();
    let output = Command::new("openssl").args(["x509", "-noout", "-text", "-in"]).arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn init_that_fails_leaves_nothing() {
    let scratch = Scratch::create("init").unwrap();
    let file = scratch.write("file", "mine").unwrap();
    assert!(bad(&["init", file.to_str().unwrap(), "--endpoint", "vpn.example"], 2).contains("exists"));
    let below = file.join("vpn");
    bad(&["init", below.to_str().unwrap(), "--endpoint", "vpn.example"], 2);
    let orphan = scratch.path().join("missing/vpn");
    assert!(bad(&["init", orphan.to_str().unwrap(), "--endpoint", "vpn.example"], 1).contains("cannot make"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);

    let empty = scratch.path().join("empty");
    fs::create_dir(&empty).unwrap();
    good(&["init", empty.to_str().unwrap(), "--endpoint", "vpn.example"]);
    assert_eq!(mode(&empty), 0o711);
}

#[test]
fn add_client_that_fails_frees_the_name() {
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    good(&["init", path, "--endpoint", "vpn.example"]);
    // Without its directory the profile cannot be written.
    fs::remove_dir(dir.join("clients")).unwrap();
    bad(&["add-client", path, "alice"], 1);
    fs::create_dir(dir.join("clients")).unwrap();
    good(&["add-client", path, "alice"]);

    fs::write(dir.join("pki/index.json"), "{").unwrap();
    assert!(bad(&["add-client", path, "bob"], 1).contains("restore it from a copy"));
}

/// A directory as adit made it before each client had a key of its own: one tls-crypt key for all.
#[test]
fn add_client_works_in_an_older_directory() {
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    good(&["init", path, "--endpoint", "vpn.example"]);
    fs::remove_file(dir.join("pki/tls-crypt-v2.key")).unwrap();
    let key = adit_testbed::static_key().unwrap();
    fs::write(dir.join("pki/tls-crypt.key"), &key).unwrap();
    good(&["add-client", path, "alice"]);
    let text = fs::read_to_string(dir.join("clients/alice.ovpn")).unwrap();
    let second_line = key.lines().filter(|line| !line.starts_with(['#', '-'])).nth(1).unwrap();
    assert!(text.contains("<tls-crypt>\n") && text.contains(second_line), "the key of all");
    assert!(!text.contains("tls-crypt-v2"));

    fs::remove_file(dir.join("pki/tls-crypt.key")).unwrap();
    assert!(bad(&["add-client", path, "bob"], 1).contains("pki/tls-crypt-v2.key"));
}

/// The list could not be written: the same command completes the revocation that the index has (M8).
#[test]
fn revoke_that_failed_can_be_repeated() {
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    good(&["init", path, "--endpoint", "vpn.example"]);
    good(&["add-client", path, "alice"]);
    // No file takes the name of a directory.
    let list = dir.join("crl.pem");
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    assert!(bad(&["revoke", path, "alice"], 1).contains("crl.pem"));
    fs::remove_dir(&list).unwrap();
    let output = adit(&["revoke", path, "alice"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("interrupted before crl.pem listed alice; it does now"), "{said}");
    assert!(fs::read_to_string(&list).unwrap().contains("X509 CRL"));
    assert!(!dir.join("clients/alice.ovpn").exists());
    good(&["revoke", path, "alice"]);
    bad(&["revoke", path, "bob"], 2);
}

#[test]
fn add_client_leaves_other_directories_alone() {
    let scratch = Scratch::create("init").unwrap();
    let path = scratch.path().to_str().unwrap();
    assert!(bad(&["add-client", path, "alice"], 2).contains("was not made by `adit init`"));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn clients_made_at_once_do_not_lose_each_other() {
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    good(&["init", path, "--endpoint", "vpn.example"]);
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || good(&["add-client", path, &format!("client{number}")]));
        }
    });
    let index = fs::read_to_string(dir.join("pki/index.json")).unwrap();
    for number in 0..4 {
        assert!(index.contains(&format!("\"client{number}\"")), "{index}");
        assert!(dir.join(format!("clients/client{number}.ovpn")).exists());
    }
}

/// A VPN made by `adit init` with one client, and two namespaces to run it in.
struct Pair {
    scratch: Scratch,
    server_side: Namespace,
    client_side: Namespace,
}

impl Pair {
    fn create(proto: &str, endpoint: &str, addresses: (&str, &str)) -> Self {
        Pair::create_with(&["--proto", proto, "--endpoint", endpoint], addresses)
    }

    /// Makes a pair with these arguments of `init`.
    fn create_with(init: &[&str], addresses: (&str, &str)) -> Self {
        let scratch = Scratch::create("init").unwrap();
        // OpenVPN finds the list of revoked certificates by its path, when it is root no more.
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let dir = scratch.path().join("vpn");
        let path = dir.to_str().unwrap();
        good(&[&["init", path], init].concat());
        good(&["add-client", path, "alice"]);
        let server_side = Namespace::create("server").unwrap();
        let client_side = Namespace::create("client").unwrap();
        connect(&server_side, &[addresses.0], &client_side, &[addresses.1], "outer").unwrap();
        Pair { scratch, server_side, client_side }
    }

    fn server_conf(&self) -> PathBuf {
        self.scratch.path().join("vpn/server.conf")
    }

    fn profile(&self) -> PathBuf {
        self.scratch.path().join("vpn/clients/alice.ovpn")
    }

    /// Runs these programs with these files, and pings the server through the tunnel both ways.
    fn run(&self, (server, server_up): (Command, &str), (client, client_up): (Command, &str)) {
        let wait = MAX_WAIT;
        let mut server = self.server_side.spawn("server", server).unwrap();
        server.wait_for_line(0, server_up, wait).unwrap();
        let mut client = self.client_side.spawn("client", client).unwrap();
        client.wait_for_line(0, client_up, wait).unwrap();
        let text = fs::read_to_string(self.server_conf()).unwrap();
        // The network is 10.X.Y.0, where X and Y may be 0.
        let v4 = format!("{}.1", value(&text, "server").strip_suffix(".0").unwrap());
        // Beside WireGuard `server-ipv6` is written out.
        let v6 = match text.contains("\nifconfig-ipv6 ") {
            true => value(&text, "ifconfig-ipv6").trim_end_matches("/64").to_owned(),
            false => format!("{}1", value(&text, "server-ipv6").trim_end_matches("/64")),
        };
        for inner in [v4, v6] {
            let inner: IpAddr = inner.parse().unwrap();
            wait_until_reachable(&self.client_side, inner, wait).unwrap();
            let report = Ping::new(5, Duration::from_millis(50)).run(&self.client_side, inner).unwrap();
            assert!(report.is_clean(), "{inner}: {report:?}");
        }
        for process in [&server, &client] {
            assert_eq!(process.count_lines(0, "WARNING"), 0, "{}", process.log());
            assert_eq!(process.count_lines(0, "warning: "), 0, "{}", process.log());
        }
    }
}

/// OpenVPN with that file, and the text that it writes when it is up.
fn openvpn(file: &Path) -> (Command, &'static str) {
    (openvpn_command(file).unwrap(), "Initialization Sequence Completed")
}

/// `adit up` with that file, and the text that it writes when it is up.
fn adit_up(file: &Path) -> (Command, &'static str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(file);
    (command, "tunnel up: ")
}

#[test]
fn openvpn_runs_both_files_unchanged() {
    if !can_run("openvpn_runs_both_files_unchanged", &["ip", "openvpn"]) {
        return;
    }
    let pair = Pair::create("udp", "10.97.0.1", ("10.97.0.1/24", "10.97.0.2/24"));
    pair.run(openvpn(&pair.server_conf()), openvpn(&pair.profile()));
    let pair = Pair::create("tcp", "[fd00:97::1]:443", ("fd00:97::1/64", "fd00:97::2/64"));
    pair.run(openvpn(&pair.server_conf()), openvpn(&pair.profile()));
}

#[test]
fn adit_runs_both_files_unchanged() {
    if !can_run("adit_runs_both_files_unchanged", &["ip", "openvpn"]) {
        return;
    }
    let pair = Pair::create("udp", "10.97.0.1", ("10.97.0.1/24", "10.97.0.2/24"));
    pair.run(adit_up(&pair.server_conf()), adit_up(&pair.profile()));
    pair.run(openvpn(&pair.server_conf()), adit_up(&pair.profile()));
    let pair = Pair::create("tcp", "[fd00:97::1]:443", ("fd00:97::1/64", "fd00:97::2/64"));
    pair.run(adit_up(&pair.server_conf()), adit_up(&pair.profile()));
    pair.run(adit_up(&pair.server_conf()), openvpn(&pair.profile()));
}

/// The authority's new certificate and the old one are good for each other's ends.
#[test]
fn a_renewed_authority_serves_old_and_new_profiles() {
    if !can_run("a_renewed_authority_serves_old_and_new_profiles", &["ip", "openvpn"]) {
        return;
    }
    let pair = Pair::create("udp", "10.97.0.1", ("10.97.0.1/24", "10.97.0.2/24"));
    let old = pair.scratch.path().join("old.ovpn");
    fs::copy(pair.profile(), &old).unwrap();
    let dir = pair.scratch.path().join("vpn");
    let output = adit(&["renew", dir.to_str().unwrap(), "--ca"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("all certificates stay valid"), "{said}");
    assert_ne!(fs::read(&old).unwrap(), fs::read(pair.profile()).unwrap());
    pair.run(adit_up(&pair.server_conf()), openvpn(&old));
    pair.run(openvpn(&pair.server_conf()), adit_up(&old));
    pair.run(openvpn(&pair.server_conf()), adit_up(&pair.profile()));
}

/// With a device of a fixed name, and a pool that leaves room.
#[test]
fn a_server_that_shares_its_tunnel_with_wireguard_runs() {
    if !can_run("a_server_that_shares_its_tunnel_with_wireguard_runs", &["ip", "openvpn"]) {
        return;
    }
    let pair =
        Pair::create_with(&["--endpoint", "10.97.0.1", "--wireguard"], ("10.97.0.1/24", "10.97.0.2/24"));
    pair.run(openvpn(&pair.server_conf()), openvpn(&pair.profile()));
    pair.run(adit_up(&pair.server_conf()), adit_up(&pair.profile()));
}

#[test]
fn openvpn_runs_what_adit_prints() {
    if !can_run("openvpn_runs_what_adit_prints", &["ip", "openvpn"]) {
        return;
    }
    let pair = Pair::create("udp", "10.97.0.1", ("10.97.0.1/24", "10.97.0.2/24"));
    let printed = |path: &Path| {
        let parsed = parse("made", &fs::read(path).unwrap(), &|_| Err("inline only".into())).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        pair.scratch.write(name, &parsed.config.to_text()).unwrap()
    };
    pair.run(openvpn(&printed(&pair.server_conf())), openvpn(&printed(&pair.profile())));
}

#[test]
fn check_tells_what_becomes_of_a_file() {
    let scratch = Scratch::create("check").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    good(&["init", path, "--endpoint", "vpn.example"]);
    let server = dir.join("server.conf");
    let output = adit(&["check", server.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("can be used"), "{said}");
    assert!(said.contains("ignored `dh`") && !said.contains("used `dev`"), "{said}");

    let text = fs::read_to_string(&server).unwrap() + "plugin x.so\nbogus\n";
    let file = scratch.write("wrong.conf", &text).unwrap();
    let said = bad(&["check", file.to_str().unwrap()], 2);
    assert!(said.contains("`plugin` cannot be used") && said.contains("`bogus`"), "{said}");
    assert!(!said.contains("PRIVATE KEY"), "{said}");
    assert_eq!(said, bad(&["up", file.to_str().unwrap()], 2).replacen("adit: ", &prefix(&file), 1));
}

#[test]
fn check_tells_what_is_wrong_with_a_wireguard_file() {
    use std::os::unix::fs::PermissionsExt as _;
    const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let scratch = Scratch::create("check").unwrap();
    let text = format!(
        "# made by hand\n[Interface]\nPrivateKey = {KEY}\nAddress = 10.0.0.2/24\n\n[Peer]\nPublicKey = {KEY}\n\
         AllowedIPs = 10.0.0.9/24\nEndpoint = 192.0.2.1:51820\n"
    );
    let file = scratch.write("wg0.conf", &text).unwrap();
    let path = file.to_str().unwrap();
    let check = |mode: u32, arguments: &[&str]| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let output = adit(&[&["check", path], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = check(0o600, &[]);
    let cut = format!(
        "{path}:8: used `AllowedIPs`: bits beyond the prefix length are cut: it is taken as 10.0.0.0/24\n"
    );
    assert!(said.starts_with(&cut) && said.ends_with("wg0.conf: can be used\n"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    let exposed = check(0o644, &[]);
    assert!(exposed.contains("group or others accessible: chmod 600"), "{exposed}");
    assert!(check(0o600, &["--all"]).contains("wg0.conf:3: used `PrivateKey`\n"));

    let wrong =
        scratch.write("wg1.conf", &text.replace("Address", "Adress").replace("0.9/24", "0.9/33")).unwrap();
    let said = bad(&["check", wrong.to_str().unwrap()], 2);
    assert!(said.contains("wg1.conf:4: Adress: ") && said.contains("wg1.conf:8: AllowedIPs: "), "{said}");
    assert!(!said.contains("AQEB"), "a key shows: {said}");
    let misnamed = scratch.write("wg0.ovpn", &text).unwrap();
    let said = bad(&["check", misnamed.to_str().unwrap()], 2);
    assert!(said.contains("wg0.ovpn: the interface has the name of its file"), "{said}");
}

/// How `check` begins where `up` says the problems alone.
fn prefix(file: &Path) -> String {
    format!("adit: {}: cannot be used:\n", file.display())
}

/// The files that `init` makes run without root's rights.
#[test]
fn the_server_runs_as_a_user_that_is_not_root() {
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let path = dir.to_str().unwrap();
    let said = bad(&["init", path, "--endpoint", "vpn.example", "--user", "no-such-user"], 2);
    assert!(said.contains("useradd --system") && !dir.exists(), "{said}");
    good(&["init", path, "--endpoint", "vpn.example"]);
    let text = fs::read_to_string(dir.join("server.conf")).unwrap();
    assert_ne!(value(&text, "user"), "root");
    assert_ne!(value(&text, "group"), "root");
    let named = scratch.path().join("named");
    good(&["init", named.to_str().unwrap(), "--endpoint", "vpn.example", "--user", "daemon"]);
    let text = fs::read_to_string(named.join("server.conf")).unwrap();
    assert_eq!((value(&text, "user").as_str(), value(&text, "group").as_str()), ("daemon", "daemon"));
    // Also where the umask is strict.
    let strict = scratch.path().join("strict");
    let script = format!("umask 077; exec \"$0\" init {} --endpoint vpn.example", strict.display());
    let status = Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_adit")]).status().unwrap();
    assert!(status.success());
    assert_eq!((mode(&strict), mode(&strict.join("crl.pem"))), (0o711, 0o644));
}

/// With consent the user is made by useradd(8), whose message comes back.
#[test]
fn a_user_is_made_with_consent_alone() {
    let scratch = Scratch::create("init").unwrap();
    let dir = scratch.path().join("vpn");
    let called = scratch.path().join("called");
    // In place of the system's, which would change the machine.
    let text = format!("#!/bin/sh\necho \"$@\" >{}\necho 'no room' >&2\nexit 1\n", called.display());
    let fake = scratch.write("useradd", &text).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let init = |further: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
        command.args([
            "init",
            dir.to_str().unwrap(),
            "--endpoint",
            "vpn.example",
            "--user",
            "adit-test-user",
        ]);
        let output = command.args(further).env("PATH", scratch.path()).output().unwrap();
        assert!(!output.status.success() && !dir.exists());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = init(&[]);
    assert!(said.contains("there is no user adit-test-user") && !called.exists(), "{said}");
    let said = init(&["--create-user"]);
    assert!(said.contains("the user adit-test-user cannot be made: no room"), "{said}");
    let arguments = fs::read_to_string(&called).unwrap();
    assert!(arguments.starts_with("--system ") && arguments.ends_with(" adit-test-user\n"), "{arguments}");
}

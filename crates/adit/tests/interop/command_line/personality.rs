//! `openvpn`: adit by that name, called as services and programs call OpenVPN, beside Debian's OpenVPN 2.6.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use adit_core::configuration::Kind;
use adit_openvpn_config::{Directive, directives};
use adit_testbed::{MAX_WAIT, Namespace, Process, Scratch, can_run, program, wait_until};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;

/// adit, called `openvpn`.
struct Personality {
    directory: Scratch,
    program: PathBuf,
}

impl Personality {
    fn create() -> Self {
        let directory = Scratch::create("personality").unwrap();
        let program = directory.path().join("openvpn");
        symlink(env!("CARGO_BIN_EXE_adit"), &program).unwrap();
        Personality { directory, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(&self.program).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts the program there; its log is its standard output.
    fn start(&self, namespace: &Namespace, label: &str, arguments: &[&str]) -> Process {
        let mut shell = program("sh").unwrap();
        shell.args(["-c", "exec \"$0\" \"$@\" 2>/dev/null"]).arg(&self.program).args(arguments);
        namespace.spawn(label, shell).unwrap()
    }
}

/// The exit code and the standard output.
fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8(output.stdout.clone()).unwrap())
}

fn openvpn(arguments: &[&str]) -> Output {
    program("openvpn").unwrap().args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn wrong_usage_ends_as_with_openvpn() {
    if !can_run("wrong usage", &PROGRAMS) {
        return;
    }
    let ours = Personality::create();
    for arguments in [
        &["--bogus"][..],
        &["bogus", "x"],
        &["--verb"],
        &["--verb", "1", "2"],
        &["--config", "/nonexistent"],
        &["/nonexistent"],
        &["--client"],
        &["--client", "--remote", "a"],
        &["--genkey", "foo"],
        &["--genkey", "tls-crypt-v2-client", "/dev/null"],
        &["--mktun"],
        &["--bogus", "--version"],
    ] {
        let (theirs, ours) = (said(&openvpn(arguments)), ours.run(arguments));
        assert_eq!(theirs.0, Some(1), "{arguments:?}: {}", theirs.1);
        assert!(theirs.1.contains("Options error: "), "{arguments:?}: {}", theirs.1);
        let (code, text) = said(&ours);
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        assert!(text.starts_with("Options error: "), "{arguments:?}: {text}");
        assert!(text.ends_with("\nUse --help for more information.\n"), "{arguments:?}: {text}");
        assert!(ours.stderr.is_empty(), "{arguments:?}: all is on the standard output");
    }
    for arguments in [&[][..], &["--help"]] {
        let (theirs, ours) = (said(&openvpn(arguments)), said(&ours.run(arguments)));
        assert_eq!(ours.0, theirs.0, "{arguments:?}");
        assert!(ours.1.starts_with("OpenVPN 2.6.") && theirs.1.starts_with("OpenVPN 2.6."), "{arguments:?}");
    }
}

#[test]
fn commands_answer_as_openvpns() {
    if !can_run("commands", &PROGRAMS) {
        return;
    }
    let ours = Personality::create();
    for arguments in [
        &["--version"][..],
        &["--version", "--bogus"],
        &["--show-ciphers"],
        &["--show-digests"],
        &["--show-tls"],
        &["--show-groups"],
        &["--show-curves"],
        &["--show-engines"],
        &["--show-gateway"],
    ] {
        let (theirs, ours) = (said(&openvpn(arguments)), said(&ours.run(arguments)));
        assert_eq!(ours.0, theirs.0, "{arguments:?}: {}", ours.1);
        assert!(!ours.1.is_empty(), "{arguments:?}");
    }
    // Each line that adit shows of a cipher or digest is one of OpenVPN's.
    for (arguments, mark) in [(["--show-ciphers"], " bit key"), (["--show-digests"], "digest size")] {
        let (theirs, ours) = (said(&openvpn(&arguments)).1, said(&ours.run(&arguments)).1);
        let lines: Vec<&str> = ours.lines().filter(|line| line.contains(mark)).collect();
        assert!(lines.len() > 4, "{ours}");
        for line in lines {
            assert!(theirs.lines().any(|known| known == line), "{line}");
        }
    }
    let by_subcommand =
        Command::new(env!("CARGO_BIN_EXE_adit")).args(["openvpn", "--version"]).output().unwrap();
    assert_eq!(said(&by_subcommand), said(&ours.run(&["--version"])));
}

/// Keys that one of the programs makes can be used by both.
#[test]
fn keys_are_made_for_both() {
    if !can_run("genkey", &PROGRAMS) {
        return;
    }
    let ours = Personality::create();
    let file = |name: &str| path(&ours.path(name)).to_owned();
    let good = |output: Output| {
        let (code, text) = said(&output);
        assert_eq!(code, Some(0), "{text}");
        text
    };
    let [server, client, their_server, more] = ["server", "client", "their-server", "more"].map(file);
    good(ours.run(&["--genkey", "tls-crypt-v2-server", &server]));
    good(openvpn(&["--tls-crypt-v2", &server, "--genkey", "tls-crypt-v2-client", &client]));
    good(openvpn(&["--genkey", "tls-crypt-v2-server", &their_server]));
    good(ours.run(&[
        "--tls-crypt-v2",
        &their_server,
        "--genkey",
        "tls-crypt-v2-client",
        &client,
        "dGVzdA==",
    ]));
    good(ours.run(&["--genkey", "--secret", &more]));
    let words = ["--dev", "null", "--cipher", "AES-256-CBC"];
    let test = [&["--test-crypto", "--secret", more.as_str()], &words[..]].concat();
    good(openvpn(&test));
    assert!(
        good(ours.run(&["--genkey", "secret", "/dev/stdout"]))
            .starts_with("#\n# 2048 bit OpenVPN static key\n#\n")
    );
    assert!(
        good(ours.run(&["--genkey", "auth-token"]))
            .starts_with("-----BEGIN OpenVPN auth-token server key-----\n")
    );
}

#[test]
fn a_client_says_what_programs_wait_for_and_ends_with_0() {
    if !can_run("openvpn as a client", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build(&Options::BASE, Program::OpenVpn, &[Program::Adit]).unwrap();
    bed.server.start().unwrap();
    let (ours, client) = (Personality::create(), &bed.clients[0]);
    let config = path(client.config()).to_owned();
    let begin = |arguments: &[&str]| ours.start(&client.namespace, "openvpn", arguments);
    let mut process = begin(&["--suppress-timestamps", "--config", &config]);
    process.wait_for_line(0, "Initialization Sequence Completed", WAIT).unwrap();
    assert!(
        process.log().contains("Peer Connection Initiated with [AF_INET]10.9.1.1:1194"),
        "{}",
        process.log()
    );
    assert!(process.log().starts_with("OpenVPN 2.6."), "{}", process.log());
    assert_eq!(process.terminate(WAIT).unwrap().code(), Some(0));
    let last = process.last_line("").unwrap();
    assert!(
        last.contains("SIGTERM[soft,exit-with-notification] received, process exiting"),
        "{}",
        process.log()
    );
    client.no_device_left().unwrap();

    // A lone file, and the time before each line.
    let mut process = begin(&[&config]);
    process.wait_for_line(0, "Initialization Sequence Completed", WAIT).unwrap();
    let line = process.last_line("Initialization Sequence Completed").unwrap();
    let form: String = line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "0000-00-00 00:00:00 Initialization Sequence Completed");
    assert_eq!(process.terminate(WAIT).unwrap().code(), Some(0));
}

/// The process that was called ends with 0 when the server listens, and with 1 when it cannot.
#[test]
fn a_daemon_is_there_when_the_call_ends() {
    if !can_run("openvpn as a daemon", &PROGRAMS) {
        return;
    }
    let bed = Bed::build(&Options::BASE, Program::Adit, &[Program::OpenVpn]).unwrap();
    let ours = Personality::create();
    let namespace = &bed.server.namespace;
    let [log, pid_file] = ["log", "pid"].map(|name| path(&ours.path(name)).to_owned());
    let config = bed.server.config();
    let (directory, name) = (path(config.parent().unwrap()), config.file_name().unwrap().to_str().unwrap());
    let words = [
        "--daemon",
        "ovpn-test",
        "--log",
        &log,
        "--cd",
        directory,
        "--config",
        name,
        "--writepid",
        &pid_file,
        // Scripts that write: the first before the call ends, the second when it has ended.
        "--script-security",
        "2",
        "--up",
        "/bin/echo",
        "--down",
        "/bin/echo",
    ];
    let call = |more: &[&str]| {
        let mut process = ours.start(namespace, "daemon", &[&words, more].concat());
        process.wait(WAIT).unwrap().code()
    };
    assert_eq!(call(&["--user", "adit-no-such-user"]), Some(1));
    assert_eq!(call(&["--bogus"]), Some(1));
    assert!(!Path::new(&pid_file).exists());

    assert_eq!(call(&[]), Some(0));
    assert!(namespace.is_bound(false, 1194).unwrap(), "it listens already");
    let pid = std::fs::read_to_string(&pid_file).unwrap().trim().to_owned();
    let runs = || Path::new("/proc").join(&pid).exists();
    assert!(runs());
    let is_told = || std::fs::read_to_string(&log).unwrap().contains("Initialization Sequence Completed");
    wait_until("the log to say so", WAIT, is_told).unwrap();
    assert!(program("kill").unwrap().arg(&pid).status().unwrap().success());
    wait_until("the daemon to end", WAIT, || !runs()).unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(!said.contains("the script"), "{said}");
    bed.server.no_device_left().unwrap();
}

/// A device that is made for others is there until it is removed.
#[test]
fn devices_are_made_and_removed() {
    if !can_run("mktun", &PROGRAMS) {
        return;
    }
    let (ours, namespace) = (Personality::create(), Namespace::create("mktun").unwrap());
    let call = |arguments: &[&str]| ours.start(&namespace, "mktun", arguments).wait(WAIT).unwrap().code();
    let has = || namespace.devices().unwrap().contains(&"kept0".to_owned());
    assert_eq!(call(&["--mktun", "--dev", "kept0", "--dev-type", "tun", "--user", "nobody"]), Some(0));
    assert!(has());
    let mut theirs = program("openvpn").unwrap();
    theirs.args(["--rmtun", "--dev", "kept0", "--dev-type", "tun"]);
    assert_eq!(namespace.spawn("openvpn", theirs).unwrap().wait(WAIT).unwrap().code(), Some(0));
    assert!(!has());
    assert_eq!(call(&["--rmtun", "--dev", "kept0", "--dev-type", "tun"]), Some(1));
    let mut theirs = program("openvpn").unwrap();
    theirs.args(["--mktun", "--dev", "kept0", "--dev-type", "tun"]);
    assert_eq!(namespace.spawn("openvpn", theirs).unwrap().wait(WAIT).unwrap().code(), Some(0));
    assert_eq!(call(&["--rmtun", "--dev", "kept0", "--dev-type", "tun"]), Some(0));
    assert!(!has());
}

/// Options of other versions of OpenVPN, or of Windows: Debian's OpenVPN 2.6 knows none of these, and adit does without them,
/// or has them.
const NOT_OF_2_6: &[&str] = &[
    "allow-deprecated-insecure-static-crypto",
    "allow-nonadmin",
    "block-outside-dns",
    "dhcp-pre-release",
    "dhcp-release",
    "dhcp-renew",
    "dns-updown",
    "ip-win32",
    "iproute",
    "key-method",
    "keysize",
    "ncp-disable",
    "override-username",
    "pause-exit",
    "register-dns",
    "route-table",
    "service",
    "show-adapters",
    "show-net",
    "show-net-up",
    "show-valid-subnets",
    "tap-sleep",
    "tls-crypt-v2-max-age",
    "win-sys",
    "windows-driver",
];

/// Options that take other numbers of arguments than with OpenVPN 2.6, and why.
const OTHER_NUMBERS: &[(&str, &str)] = &[
    ("auth-gen-token", "OpenVPN passes over further words"),
    ("auth-user-pass-verify", "OpenVPN refuses more words later, with another error"),
    ("bind", "OpenVPN 2.6 knows `bind ipv6only`"),
    ("bind-dev", "as auth-gen-token"),
    ("client-connect", "as auth-user-pass-verify"),
    ("client-crresponse", "as auth-user-pass-verify"),
    ("client-disconnect", "as auth-user-pass-verify"),
    ("compat-mode", "OpenVPN passes over a second word"),
    ("compat-names", "as auth-gen-token"),
    ("crl-verify", "OpenVPN's second word is `dir` alone, which adit demands too"),
    ("disable-dco", "as auth-gen-token"),
    ("dns", "OpenVPN refuses a single word later"),
    ("down", "as auth-user-pass-verify"),
    ("http-proxy", "OpenVPN refuses a single word later"),
    ("http-proxy-option", "OpenVPN refuses a single word later"),
    ("http-proxy-retry", "as auth-gen-token"),
    ("http-proxy-user-pass", "as auth-gen-token"),
    ("ipchange", "as auth-user-pass-verify"),
    ("learn-address", "as auth-user-pass-verify"),
    ("local", "OpenVPN 2.7 has more"),
    ("pkcs11-cert-private", "OpenVPN takes none, too, and does nothing then"),
    ("pkcs11-protected-authentication", "as pkcs11-cert-private"),
    ("replay-window", "OpenVPN 2.6 takes none for its default"),
    ("route-pre-down", "as auth-user-pass-verify"),
    ("route-up", "as auth-user-pass-verify"),
    ("setenv", "`setenv opt` takes what the directive takes"),
    ("socket-flags", "as replay-window"),
    ("socks-proxy-retry", "as auth-gen-token"),
    ("static-challenge", "OpenVPN 2.7 has more"),
    ("tls-crypt", "as compat-mode"),
    ("tls-verify", "as auth-user-pass-verify"),
    ("tun-mtu-max", "as compat-mode"),
    ("up", "as auth-user-pass-verify"),
];

/// Options whose effect cannot be tried beside a command.
const ACTS_AT_ONCE: &[&str] = &[
    "cd",
    "config",
    "connection",
    "daemon",
    "echo",
    "help",
    "log",
    "log-append",
    "parameter",
    "syslog",
    "version",
];

/// Every option with no to five arguments: OpenVPN has it, and takes so many, where adit's table says so.
#[test]
fn the_table_takes_as_many_arguments_as_openvpn() {
    if !can_run("the table", &PROGRAMS) {
        return;
    }
    let is_tried = |known: &&Directive| {
        (known.kind() != Kind::Refused || known.is_command()) && !ACTS_AT_ONCE.contains(&known.name)
    };
    let (mut lists, mut other) = (0, Vec::new());
    for known in directives().iter().filter(is_tried) {
        let (least, most) = known.arity();
        let differs = (0..=5).filter(|count| {
            let name = format!("--{}", known.name);
            let arguments = [&[name.as_str()], &vec!["1"; *count][..], &["--show-engines"]].concat();
            let theirs =
                !said(&openvpn(&arguments)).1.contains("Unrecognized option or missing or extra parameter");
            theirs != (*count >= least && most.is_none_or(|most| *count <= most))
        });
        let differs = differs.count();
        lists += 6;
        if differs > 0 {
            other.push(known.name);
        }
    }
    assert!(lists > 900, "{lists} lists");
    other.sort_unstable();
    let mut expected: Vec<&str> =
        OTHER_NUMBERS.iter().map(|(name, _)| *name).chain(NOT_OF_2_6.iter().copied()).collect();
    expected.sort_unstable();
    assert_eq!(other, expected);
}

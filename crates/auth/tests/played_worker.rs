//! The judges, started as a server's process could have its helper start them if others had taken it over: with the command of the
//! configuration, with any files behind it, and with any values of the variables. No login passes but the right one, one short line is
//! written, and no other file is opened or made.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use adit_testbed::{Scratch, can_run, program};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

const PROGRAMS: [&str; 2] = ["unshare", "mount"];

/// The password of the only user, and of a file that no program may read.
const PASSWORD: &str = "s3 cret";
const LOGIN: &str = "ann\ns3 cret\n";
const ADDRESS: &str = "192.0.2.7";

/// The longest line of a judge.
const LONGEST_LINE: usize = 1200;

/// As many files of one run as a helper makes.
const MOST_FILES: usize = 6;

const CHECK: &str = "#!/bin/sh\n\
    [ \"$PAM_USER $PAM_RHOST\" = 'ann 192.0.2.7' ] && [ \"$(tr -d '\\0')\" = 's3 cret' ]\n";

struct Bed {
    scratch: Scratch,
    /// A directory that no judge has to do with, and what happens in it.
    others: PathBuf,
    seen: Inotify,
}

impl Bed {
    fn new() -> Self {
        let scratch = Scratch::create("judges").unwrap();
        for directory in ["pam.d", "others", "logins"] {
            fs::create_dir(scratch.path().join(directory)).unwrap();
        }
        let check = scratch.write("check", CHECK).unwrap();
        fs::set_permissions(&check, fs::Permissions::from_mode(0o755)).unwrap();
        let service = format!(
            "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
            check.display()
        );
        scratch.write("pam.d/simple", &service).unwrap();
        // It would be a good login.
        scratch.write("others/secret", LOGIN).unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = format!(
            "<LDAP>\nURL ldap://127.0.0.1:{closed}\nTimeout 2\n</LDAP>\n\
             <Authorization>\nBaseDN \"ou=People\"\nSearchFilter \"(uid=%u)\"\n</Authorization>\n"
        );
        scratch.write("ldap.conf", &configuration).unwrap();
        let others = scratch.path().join("others");
        let seen = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
        seen.add_watch(&others, AddWatchFlags::IN_ALL_EVENTS).unwrap();
        Bed { scratch, others, seen }
    }

    fn login(&self, content: &[u8]) -> PathBuf {
        let path = self.scratch.path().join("logins/login");
        fs::write(&path, content).unwrap();
        path
    }

    /// Runs a judge whose services are those of the test.
    fn run(&self, judge: &OsStr, arguments: &[OsString], values: &[(&str, OsString)]) -> Output {
        let mounted = "mount --bind \"$0\" /etc/pam.d && exec \"$@\"";
        let mut command = program("unshare").unwrap();
        command.args(["--mount", "sh", "-c", mounted]).arg(self.scratch.path().join("pam.d"));
        command.arg(judge).args(arguments).envs(values.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.others).output().unwrap()
    }

    /// No other file was opened, made or changed.
    fn is_untouched(&self) -> bool {
        self.seen.read_events().is_err()
    }
}

/// A judge, and what the configuration says of it.
struct Judge {
    program: &'static str,
    configured: OsString,
}

fn judges(bed: &Bed) -> [Judge; 2] {
    [
        Judge { program: env!("CARGO_BIN_EXE_adit-pam"), configured: "simple".into() },
        Judge {
            program: env!("CARGO_BIN_EXE_adit-ldap"),
            configured: bed.scratch.path().join("ldap.conf").into(),
        },
    ]
}

/// Words of a login that programs might obey.
fn words(others: &Path) -> Vec<Vec<u8>> {
    let made = others.join("made").display().to_string();
    let secret = others.join("secret").display().to_string();
    let texts = [
        secret.clone(),
        format!("file://{secret}"),
        format!("@{secret}"),
        format!("../others/secret\t{secret}"),
        format!("$(touch {made})"),
        format!("`touch {made}`"),
        format!("; touch {made};"),
        format!("| touch {made} |"),
        format!("' && touch {made} && '"),
        "*)(uid=*".to_owned(),
        "\\2a\\00".to_owned(),
        "%u%s%n%999999d".to_owned(),
        "-o --help".to_owned(),
        "SCRV1:d3Jvbmc=:czMgY3JldA==".to_owned(),
        "SCRV1:::".to_owned(),
        "SCRV1:AA==:AA==".to_owned(),
        "CRV1::d3Jvbmc=::czMgY3JldA==".to_owned(),
        "a\r".to_owned(),
        "\u{1b}[2J\u{202e}".to_owned(),
        "USERNAME PASSWORD OTP".to_owned(),
        String::new(),
        "x".repeat(30_000),
    ];
    let raw = [b"\0".to_vec(), b"ann\0root".to_vec(), vec![0xff, 0xfe, b'a'], (1..=255).collect()];
    texts.into_iter().map(String::into_bytes).chain(raw).collect()
}

/// The contents of files with a login: each word in each place, and files that are none.
fn contents(others: &Path) -> Vec<Vec<u8>> {
    let login = |user: &[u8], password: &[u8]| [user, b"\n", password, b"\n"].concat();
    let mut all: Vec<Vec<u8>> =
        [&b""[..], b"\n", b"\n\n", b"ann", b"ann\n", b"ann\ns3 cret\nmore\n", b"\ns3 cret\n"]
            .map(<[u8]>::to_vec)
            .to_vec();
    all.extend([vec![b'a'; 65_537], vec![b'\n'; 65_536], login(b"ann", &[b'p'; 60_000])]);
    for word in words(others) {
        all.extend([login(&word, PASSWORD.as_bytes()), login(b"ann", &word), login(&word, &word)]);
    }
    all
}

/// A login that does not pass leaves one line for the log, which gives nothing away and commands no terminal.
#[track_caller]
fn is_refused(bed: &Bed, output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 3)), "{:?}: {said}", output.status);
    assert!(output.stdout.is_empty() && said.len() <= LONGEST_LINE, "{} bytes", said.len());
    let line = said.strip_suffix('\n').unwrap_or(&said);
    // Tabs stay, as in every line (`adit_core::escaped`).
    assert!(!line.contains(|c: char| c != '\t' && adit_core::is_unprintable(c)), "{line:?}");
    assert!(!line.contains(PASSWORD), "{line}");
    assert!(bed.is_untouched(), "another file was used: {line}");
}

#[test]
fn whatever_a_judge_is_given_only_the_right_login_passes_and_no_other_file_is_used() {
    if !can_run("played judges", &PROGRAMS) {
        return;
    }
    let bed = Bed::new();
    let values = [("untrusted_ip", OsString::from(ADDRESS)), ("common_name", "client1".into())];
    for judge in judges(&bed) {
        let run = |files: &[PathBuf], values: &[(&str, OsString)]| {
            let files = files.iter().map(|file| file.clone().into_os_string());
            let arguments: Vec<OsString> = std::iter::once(judge.configured.clone()).chain(files).collect();
            bed.run(OsStr::new(judge.program), &arguments, values)
        };
        if judge.program.ends_with("adit-pam") {
            let right = run(&[bed.login(LOGIN.as_bytes())], &values);
            assert!(right.status.success() && bed.is_untouched(), "{right:?}");
        }
        for content in contents(&bed.others) {
            is_refused(&bed, &run(&[bed.login(&content)], &values));
        }
        // Without the file, and with further ones.
        let login = bed.login(LOGIN.as_bytes());
        is_refused(&bed, &run(&[], &values));
        for count in 2..=MOST_FILES {
            is_refused(&bed, &run(&vec![login.clone(); count], &values));
        }
        for word in words(&bed.others).into_iter().filter(|word| !word.contains(&0)) {
            let other = ["untrusted_ip", "untrusted_ip6", "common_name", "home", "ldapconf"]
                .map(|name| (name, OsString::from_vec(word.clone())));
            is_refused(&bed, &run(std::slice::from_ref(&login), &other));
        }
    }
}

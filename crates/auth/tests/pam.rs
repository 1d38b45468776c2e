//! `adit-pam` with the system's PAM: services in a directory of the test's own, which a mount namespace has as `/etc/pam.d`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;
use std::{fs, str};

use adit_testbed::{Scratch, can_run, program};

const PROGRAMS: [&str; 3] = ["unshare", "mount", "openssl"];

/// Takes the password `s3 cret` of any user, from one address, and a one-time password if it is asked for.
const SCRIPT: &str = "#!/bin/sh\n\
    [ \"$PAM_USER $PAM_RHOST\" = 'ann 192.0.2.7' ] && [ \"$(tr -d '\\0')\" = \"$1\" ]\n";

struct Bed {
    scratch: Scratch,
}

impl Bed {
    /// Makes a bed with these services, in whose text `@` is the test's directory.
    fn new(services: &[(&str, &str)]) -> Self {
        let scratch = Scratch::create("pam").unwrap();
        fs::create_dir(scratch.path().join("pam.d")).unwrap();
        let check = scratch.write("check", SCRIPT).unwrap();
        fs::set_permissions(&check, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in services {
            let text = text.replace('@', &scratch.path().display().to_string());
            scratch.write(&format!("pam.d/{name}"), &text).unwrap();
        }
        Bed { scratch }
    }

    /// Runs `adit-pam` with these arguments for a login from 192.0.2.7. `mounts` are further files of the test's directory,
    /// each with the place where it is mounted.
    fn run(&self, arguments: &str, password: &str, mounts: &str) -> Output {
        let login = self.scratch.write("login", &format!("ann\n{password}\n")).unwrap();
        let mounted = format!(
            "cd '{}' && for pair in pam.d:/etc/pam.d {mounts}; do mount --bind \"${{pair%%:*}}\" \"${{pair#*:}}\" || exit 9; \
             done; exec \"$@\"",
            self.scratch.path().display()
        );
        let mut command = program("unshare").unwrap();
        command.args(["--mount", "sh", "-c", &mounted, "sh", env!("CARGO_BIN_EXE_adit-pam")]);
        command.args(arguments.split_whitespace()).arg(login);
        command.env("untrusted_ip", "192.0.2.7").env("common_name", "client1");
        command.output().unwrap()
    }

    /// The exit code, and what was said.
    fn verdict(&self, arguments: &str, password: &str) -> (Option<i32>, String) {
        let output = self.run(arguments, password, "");
        (output.status.code(), str::from_utf8(&output.stderr).unwrap().to_owned())
    }
}

#[test]
fn a_service_judges_a_password() {
    if !can_run("PAM", &PROGRAMS) {
        return;
    }
    let bed = Bed::new(&[
        (
            "simple",
            "auth required pam_exec.so quiet expose_authtok @/check [s3 cret]\naccount required pam_permit.so\n",
        ),
        ("no-account", "auth required pam_permit.so\naccount required pam_deny.so\n"),
    ]);
    assert_eq!(bed.verdict("simple", "s3 cret"), (Some(0), String::new()));
    let (code, said) = bed.verdict("simple", "wrong");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("adit-pam: ann: PAM service simple: ") && !said.contains("wrong"), "{said}");
    // The account is checked after a good password, too.
    assert_eq!(bed.verdict("no-account", "s3 cret").0, Some(1));
    let (code, said) = bed.verdict("simple", "");
    assert_eq!((code, said.as_str()), (Some(1), "adit-pam: ann: it gave an empty password\n"));
}

/// The user and a one-time password are asked for by questions; `pam_exec` asks `Password: `.
#[test]
fn pairs_answer_questions() {
    if !can_run("PAM's questions", &PROGRAMS) {
        return;
    }
    let account = "account required pam_permit.so\n";
    let ask = "auth required pam_permit.so\nauth required pam_exec.so quiet expose_authtok @/check";
    let bed =
        Bed::new(&[("asks", &format!("{ask} s3\n{account}")), ("code", &format!("{ask} 123456\n{account}"))]);
    let packed = "SCRV1:czM=:MTIzNDU2";
    assert_eq!(bed.verdict("asks login USERNAME password PASSWORD", packed), (Some(0), String::new()));
    assert_eq!(bed.verdict("code login USERNAME password OTP", packed), (Some(0), String::new()));
    assert_eq!(bed.verdict("code login USERNAME password PASSWORD", packed).0, Some(1));
    assert_eq!(bed.verdict("asks login COMMONNAME password PASSWORD", packed).0, Some(1), "another user");
    assert_eq!(bed.verdict("asks login USERNAME", packed).0, Some(1), "a question without an answer");
    assert_eq!(bed.verdict("asks login", packed).0, Some(3), "a question alone");
}

/// `pam_exec` accepts any password here, as `pam_unix` with `nullok` accepts an empty one.
#[test]
fn an_empty_password_with_a_one_time_password_that_is_not_asked_for_is_refused() {
    if !can_run("PAM's questions", &PROGRAMS) {
        return;
    }
    let account = "account required pam_permit.so\n";
    let asks = format!("auth required pam_exec.so quiet expose_authtok /bin/cat\n{account}");
    let bed =
        Bed::new(&[("asks", &asks), ("asks-nothing", &format!("auth required pam_permit.so\n{account}"))]);
    let packed = "SCRV1::MTIzNDU2";
    let refused = "adit-pam: ann: it gave an empty password";
    for (arguments, more) in [
        ("asks", ""),
        ("asks login USERNAME password PASSWORD", ""),
        ("asks login USERNAME password PASSWORD code OTP", ", and PAM service asks did not ask"),
        ("asks-nothing login USERNAME code OTP", ", and PAM service asks-nothing did not ask"),
    ] {
        let (code, said) = bed.verdict(arguments, packed);
        assert_eq!(code, Some(1), "{arguments}: {said}");
        assert!(said.starts_with(&format!("{refused}{more}")), "{arguments}: {said}");
    }
    assert_eq!(bed.verdict("asks login USERNAME password OTP", packed), (Some(0), String::new()));
}

/// With the files of accounts in the namespace, too.
#[test]
fn pam_unix_judges_a_password() {
    if !can_run("pam_unix", &PROGRAMS) {
        return;
    }
    let bed = Bed::new(&[("openvpn", "auth required pam_unix.so nodelay\naccount required pam_unix.so\n")]);
    let hash = program("openssl").unwrap().args(["passwd", "-6", "s3 cret"]).output().unwrap();
    let hash = str::from_utf8(&hash.stdout).unwrap().trim();
    bed.scratch.write("passwd", "root:x:0:0:root:/root:/bin/sh\nann:x:4711:4711::/:/bin/sh\n").unwrap();
    bed.scratch
        .write("shadow", &format!("root:*:19000:0:99999:7:::\nann:{hash}:19000:0:99999:7:::\n"))
        .unwrap();
    let mounts = "passwd:/etc/passwd shadow:/etc/shadow";
    for (password, expected) in [("s3 cret", 0), ("s3 cres", 1)] {
        let output = bed.run("openvpn", password, mounts);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{password}: {said}");
    }
}

//! Where the log goes, and the notifications of a service manager.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Process, Scratch, can_run};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;

/// A client whose file fails late: it is in the log too.
#[test]
fn a_failure_is_in_the_log() {
    if !can_run("log", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("log").unwrap();
    let path = scratch.write("log", "older\n").unwrap();
    for (directive, keeps) in [("log-append", true), ("log", false)] {
        let line = format!(
            "{directive} {}\nsuppress-timestamps\nconnect-retry-max 1\nserver-poll-timeout 1\n",
            path.display()
        );
        let mut bed =
            Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |_, [_, client]| {
                client.push_str(&line);
            })
            .unwrap();
        bed.clients[0].start().unwrap();
        let status = bed.clients[0].process().wait(WAIT).unwrap();
        assert_eq!(status.code(), Some(1));
        let reported = bed.clients[0].process().log();
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(reported.contains("connect-retry-max allows"), "{reported}");
        assert!(log.contains("\nconnecting to 10.9.1.1") || log.starts_with("connecting to"), "{log}");
        assert!(
            log.lines().last().unwrap().starts_with("error: ") && log.contains("connect-retry-max"),
            "{log}"
        );
        assert_eq!(log.starts_with("older\n"), keeps, "{log}");
    }
}

#[test]
fn a_service_manager_gets_the_state() {
    if !can_run("sd_notify", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("notify").unwrap();
    let path = scratch.path().join("socket");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(WAIT)).unwrap();
    let bed = Bed::build(&Options::BASE, Program::Adit, &[Program::Adit]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(bed.server.config()).env("NOTIFY_SOCKET", &path);
    let mut process: Process = bed.server.namespace.spawn("server", command).unwrap();
    let hear = || {
        let mut buf = [0; 500];
        let len = manager.recv(&mut buf).unwrap();
        String::from_utf8_lossy(&buf[..len]).into_owned()
    };
    assert_eq!(hear(), "STATUS=set up");
    assert!(hear().starts_with("STATUS=tunnel up: tun0 with 10.8.0.1/24"));
    assert_eq!(hear(), "READY=1");
    process.terminate(WAIT).unwrap();
    assert!(hear().starts_with("STATUS=tunnel down"));
    assert_eq!(hear(), "STOPPING=1");
}

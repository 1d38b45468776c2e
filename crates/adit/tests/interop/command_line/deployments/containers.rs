//! Containers: gluetun, which waits for lines of the log, and haugene's transmission-openvpn, whose scripts read the environment.

use adit_testbed::{Authority, KeyKind, Scratch, can_run, wait_until};

use super::{COMPLETED, Call, RECORD, WAIT, by_both, calls};
use crate::authentication::passwords::script;
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

/// An address that no host has, and that no answer comes from.
const NO_HOST: &str = "192.0.2.9";

/// The lines that gluetun adds to a provider's file. `AUTH` is a file with a username and a password.
const GLUETUN: &str = "tls-exit\nauth-nocache\nmute-replay-warnings\nauth-retry nointeract\nsuppress-timestamps\n\
    auth-user-pass AUTH\npull-filter ignore \"auth-token\"\nping 10\nverify-x509-name server name\nfast-io\nmssfix 1320\n\
    sndbuf 524288\nrcvbuf 524288\npersist-tun\npersist-key\npull-filter ignore \"tun-ipv6\"\npull-filter ignore \"route-ipv6\"\n\
    pull-filter ignore \"ifconfig-ipv6\"\nsetenv CLIENT_CERT 0\n";

/// The event at gluetun's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Connects,
    WrongPassword,
    NoAnswer,
    OtherAuthority,
}

/// The lines that gluetun looks for in each case.
const WANTED: [(Event, &[&str]); 4] = [
    (Event::Connects, &[COMPLETED]),
    (Event::WrongPassword, &["AUTH: Received control message: AUTH_FAILED"]),
    (
        Event::NoAnswer,
        &[
            "TLS Error: TLS key negotiation failed to occur within 5 seconds (check your network connectivity)",
            "TLS Error: TLS handshake failed",
        ],
    ),
    (Event::OtherAuthority, &["TLS Error: TLS handshake failed"]),
];

/// Runs gluetun's client until it has said all this.
fn gluetun(program: Program, event: Event, wanted: &[&str]) {
    let scratch = Scratch::create("gluetun").unwrap();
    let judge = script(&scratch, "judge", "[ \"$(sed -n 2p \"$1\")\" = good ]\n");
    let password = if event == Event::WrongPassword { "bad" } else { "good" };
    let auth = scratch.write("auth", &format!("ann\n{password}\n")).unwrap();
    let other = Authority::create(KeyKind::Ecdsa).unwrap();
    let mut bed =
        Bed::build_with(&Options::BASE, Program::OpenVpn, &[program], |authority, [server, client]| {
            server.push_str(&format!(
                "script-security 2\nauth-user-pass-verify {} via-file\n",
                judge.display()
            ));
            client.push_str(&GLUETUN.replace("AUTH", auth.to_str().unwrap()));
            match event {
                Event::NoAnswer => *client = client.replace("remote 10.9.1.1", &format!("remote {NO_HOST}")),
                Event::OtherAuthority => *client = client.replace(&authority.certificate, &other.certificate),
                Event::Connects | Event::WrongPassword => {}
            }
        })
        .unwrap();
    bed.server.namespace.ip(&["route", "add", "blackhole", NO_HOST]).unwrap();
    bed.server.start().unwrap();
    let client = &bed.clients[0];
    client.namespace.ip(&["route", "add", "default", "via", "10.9.1.1"]).unwrap();
    let mut command = program.called_as("openvpn2.6", &scratch);
    command.arg("--config").arg(client.config());
    let mut process = client.namespace.spawn(&format!("gluetun ({program:?}, {event:?})"), command).unwrap();
    for line in wanted {
        process.wait_for_line(0, line, WAIT).unwrap();
    }
    match event {
        Event::Connects => {
            assert_eq!(process.terminate(WAIT).unwrap().code(), Some(0), "{program:?}");
            // OpenVPN writes it where the signal interrupts its wait for packets, which is most of the time.
            if program == Program::Adit {
                process
                    .wait_for_line(0, "event_wait : Interrupted system call (fd=-1,code=4)", WAIT)
                    .unwrap();
            }
            for line in [
                "SIGTERM received, sending exit notification to peer",
                "SIGTERM[soft,exit-with-notification] received, process exiting",
            ] {
                process.wait_for_line(0, line, WAIT).unwrap();
            }
        }
        // `auth-retry nointeract`.
        Event::WrongPassword => assert!(process.is_running(), "{program:?}: {}", process.log()),
        // `tls-exit`.
        Event::NoAnswer | Event::OtherAuthority => {
            process.wait(WAIT).unwrap();
        }
    }
}

#[test]
fn gluetun_sees_the_lines_that_it_waits_for() {
    if !can_run("gluetun", &PROGRAMS) {
        return;
    }
    std::thread::scope(|scope| {
        let threads = WANTED
            .map(|(event, wanted)| scope.spawn(move || by_both(|program| gluetun(program, event, wanted))));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// The lines that haugene adds to a provider's file.
const HAUGENE: &str = "auth-user-pass AUTH\ninactive 3600\nping 10\nping-exit 60\nresolv-retry 15\nremap-usr1 SIGTERM\n\
    pull-filter ignore \"route-ipv6\"\npull-filter ignore \"ifconfig-ipv6\"\nmanagement SOCKET unix\n";

/// Its command lines, the older one first. `SCRIPT` is its script.
const COMMAND_LINES: [&[&str]; 2] = [
    &["--script-security", "2", "--up-delay", "--up", "SCRIPT", "--down", "SCRIPT"],
    &["--script-security", "2", "--route-up", "SCRIPT", "--route-pre-down", "SCRIPT"],
];

/// The calls of haugene's script, from the start to the end.
fn haugene(program: Program, words: &[&str]) -> Vec<Call> {
    let scratch = Scratch::create("haugene").unwrap();
    let record = script(&scratch, "record", RECORD);
    let auth = scratch.write("auth", "ann\ngood\n").unwrap();
    let socket = scratch.path().join("socket");
    let mut bed = Bed::build_with(&Options::BASE, Program::OpenVpn, &[program], |_, [server, client]| {
        server.push_str("push \"dhcp-option DNS 10.8.0.1\"\npush \"route 10.20.0.0 255.255.0.0\"\n");
        let lines = HAUGENE.replace("AUTH", auth.to_str().unwrap());
        client.push_str(&lines.replace("SOCKET", socket.to_str().unwrap()));
    })
    .unwrap();
    bed.server.start().unwrap();
    let client = &bed.clients[0];
    client.namespace.ip(&["route", "add", "default", "via", "10.9.1.1"]).unwrap();
    let mut command = program.called_as("openvpn", &scratch);
    command.args(words.iter().map(|word| word.replace("SCRIPT", record.to_str().unwrap())));
    command.arg("--config").arg(client.config());
    let mut process = client.namespace.spawn(&format!("haugene ({program:?})"), command).unwrap();
    process.wait_for_line(0, COMPLETED, WAIT).unwrap();
    wait_until("the first script", WAIT, || !calls(&scratch).is_empty()).unwrap();
    assert_eq!(process.terminate(WAIT).unwrap().code(), Some(0), "{}", process.log());
    client.no_device_left().unwrap();
    calls(&scratch)
}

#[test]
fn haugenes_scripts_are_called_as_by_openvpn() {
    if !can_run("haugene", &PROGRAMS) {
        return;
    }
    for words in COMMAND_LINES {
        let [openvpn, adit] = by_both(|program| haugene(program, words));
        assert_eq!(openvpn.len(), 2, "{openvpn:?}");
        for (theirs, ours) in openvpn.iter().zip(&adit) {
            assert_eq!(ours, theirs, "{words:?}");
        }
        assert_eq!(adit.len(), 2, "{adit:?}");
        let (event, first) = &adit[0];
        for name in ["dev", "ifconfig_local", "ifconfig_netmask", "tun_mtu", "foreign_option_1"] {
            assert!(first.get(name).is_some_and(|value| !value.is_empty()), "{name} at {event}: {first:?}");
        }
    }
}

//! Commands of any tunnel, and of a server's. The answers of OpenVPN 2.6.14 to the same commands are the
//! model.

use std::time::{Duration, Instant};

use adit_core::{Command, Severity};
use adit_openvpn::request::{ClientEvent, ClientStep, Reply};
use zeroize::Zeroizing;

use super::super::session::Session;
use super::super::testing::{Order, context, desk_of};
use super::answers;
use crate::management::output::Output;
use crate::status_file::Form;

#[test]
fn a_server_answers_as_openvpn_does() {
    let (mut context, _) = desk_of(Form::Clients(1));
    for (command, answer) in [
        ("pid", &*format!("SUCCESS: pid={}", std::process::id())),
        ("pid 'a b' c", &*format!("SUCCESS: pid={}", std::process::id())),
        ("FOO bar", "ERROR: unknown command, enter 'help' for more options"),
        ("load-stats", "SUCCESS: nclients=3,bytesin=1000,bytesout=2000"),
        ("nclients", "SUCCESS: nclients=3"),
        ("status 9", "ERROR: bad status format version number"),
        ("kill", "ERROR: the 'kill' command requires 1 parameter"),
        ("kill nobody", "ERROR: common name 'nobody' not found"),
        ("kill a:b", "ERROR: error parsing IP address: a"),
        ("kill :", "ERROR: kill parse"),
        ("kill 192.0.2.9:5", "ERROR: client at address 192.0.2.9:5 not found"),
        ("kill 192.0.2.9:0", "ERROR: port number is out of range: 192.0.2.9:0"),
        ("client-kill x", "ERROR: cannot parse CID"),
        ("client-kill 77", "ERROR: client-kill command failed"),
        ("state x", "ERROR: state parameter must be 'on' or 'off' or some number n or 'all'"),
        ("state on", "SUCCESS: real-time state notification set to ON"),
        ("log", "ERROR: the 'log' command requires at least 1 parameter"),
        ("log off", "SUCCESS: real-time log notification set to OFF"),
        ("log 0", "ERROR: log parameter must be 'on' or 'off' or some number n or 'all'"),
        ("echo all", "END"),
        ("verb", "SUCCESS: verb=1"),
        ("verb 99", "ERROR: verb level is out of range"),
        ("mute", "SUCCESS: mute=0"),
        ("mute 3", "SUCCESS: mute level changed"),
        ("mute", "SUCCESS: mute=3"),
        ("hold", "SUCCESS: hold=0"),
        ("hold on", "SUCCESS: hold flag set to ON"),
        ("hold", "SUCCESS: hold=1"),
        ("hold x", "ERROR: bad hold command parameter"),
        ("hold release", "SUCCESS: hold release succeeded"),
        ("username a", "ERROR: the 'username' command requires 2 parameters"),
        ("username Auth b", "ERROR: no username is currently needed at this time"),
        ("password Auth b", "ERROR: no password is currently needed at this time"),
        ("auth-retry", "SUCCESS: auth-retry=none"),
        ("auth-retry foo", "ERROR: bad auth-retry parameter"),
        ("signal", "ERROR: the 'signal' command requires 1 parameter"),
        ("signal FOO", "ERROR: signal 'FOO' is not a known signal type"),
        ("signal SIGUSR2", "SUCCESS: signal SIGUSR2 thrown"),
        ("bytecount 5", "SUCCESS: bytecount interval changed"),
        ("version 5", "SUCCESS: Management client version set to 5"),
        ("net", "ERROR: Sorry, this command is currently only implemented on Windows"),
        ("pk-sig", "ERROR: The pk-sig command is not currently available"),
        ("needok a ok", "ERROR: no needok-confirmation is currently needed at this time"),
        ("needstr a b", "ERROR: no needstr-string is currently needed at this time"),
        ("pkcs11-id-count", ">PKCS11ID-COUNT:0"),
        ("pkcs11-id-get 1", ">PKCS11ID-ENTRY:'1'"),
        ("pkcs11-id-get", "ERROR: the 'pkcs11-id-get' command requires 1 parameter"),
        ("forget-passwords", "SUCCESS: Passwords were forgotten"),
        ("remote ACCEPT", "ERROR: The 'remote' command is not supported by the current daemon mode"),
        ("cr-response eA==", "ERROR: The 'cr-response' command is not supported by the current daemon mode"),
    ] {
        assert_eq!(answers(&mut context, command), [answer], "{command}");
    }
    assert!(answers(&mut context, "version 2").is_empty() && answers(&mut context, "").is_empty());
    assert!(answers(&mut context, "kill \"x")[0].starts_with("ERROR: "));
    for command in ["help", "version"] {
        assert_eq!(answers(&mut context, command).last().map(String::as_str), Some("END"));
    }
}

#[test]
fn the_state_has_the_form_that_is_asked_for() {
    let (mut server, _) = desk_of(Form::Clients(2));
    for (command, form) in [
        ("status", "Clients(2)"),
        ("status 0", "Clients(2)"),
        ("status 1", "Clients(1)"),
        ("status 3", "Clients(3)"),
    ] {
        assert_eq!(answers(&mut server, command), [form, "END"], "{command}");
    }
    let (mut client, _) = desk_of(Form::Statistics);
    assert_eq!(answers(&mut client, "status 2"), ["Statistics", "END"]);
    assert_eq!(answers(&mut client, "load-stats"), ["SUCCESS: nclients=0,bytesin=1000,bytesout=2000"]);
    for name in ["kill", "client-kill", "nclients"] {
        let expected = format!("ERROR: The '{name}' command is not supported by the current daemon mode");
        assert_eq!(answers(&mut client, &format!("{name} 1")), [expected]);
    }
    // Before there is a tunnel.
    assert!(answers(&mut context(), "status")[0].ends_with("is not supported by the current daemon mode"));
    assert_eq!(answers(&mut context(), "load-stats"), ["SUCCESS: nclients=0,bytesin=0,bytesout=0"]);
    assert_eq!(answers(&mut context(), "signal SIGUSR1"), ["ERROR: signal 'SIGUSR1' is currently ignored"]);
}

#[test]
fn clients_are_killed_by_name_address_and_number() {
    let long = "x".repeat(300);
    for (command, answer, victims, message) in [
        ("kill anna", "SUCCESS: common name 'anna' found, 2 client(s) killed", &[0, 1][..], "RESTART"),
        ("kill 192.0.2.1:4000", "SUCCESS: 1 client(s) at address 192.0.2.1:4000 killed", &[0][..], "RESTART"),
        (
            "kill tcp:192.0.2.2:4000",
            "SUCCESS: 1 client(s) at address tcp:192.0.2.2:4000 killed",
            &[1][..],
            "RESTART",
        ),
        ("kill udp:192.0.2.2:4000", "ERROR: client at address udp:192.0.2.2:4000 not found", &[][..], ""),
        (
            "kill [2001:db8::1]:5000",
            "SUCCESS: 1 client(s) at address [2001:db8::1]:5000 killed",
            &[2][..],
            "RESTART",
        ),
        ("client-kill 42", "SUCCESS: client-kill command succeeded", &[2][..], "RESTART"),
        ("client-kill 50", "SUCCESS: client-kill command succeeded", &[10][..], "RESTART"),
        ("client-kill 51", "ERROR: client-kill command failed", &[][..], ""),
        ("client-kill 40 HALT,bye", "SUCCESS: client-kill command succeeded", &[0][..], "HALT,bye"),
        (&*format!("client-kill 40 {long}"), "ERROR: client-kill command failed", &[][..], ""),
    ] {
        let (mut context, told) = desk_of(Form::Clients(1));
        // A program judges client 50, which is not in yet.
        let step = ClientStep::AuthRequest { key: 1, again: false, password: Zeroizing::default() };
        context.pending_auths.note(&ClientEvent { client: 50, step, env: Vec::new() });
        assert_eq!(answers(&mut context, command), [answer]);
        let kill = |id: &u64| Reply::KillClient { client: id + 40, message: message.to_owned() };
        let expected: Vec<Order> = victims.iter().map(|id| Order::Reply(kill(id))).collect();
        assert_eq!(*told.lock().expect("no thread panicked"), expected, "{command}");
    }
}

#[test]
fn settings_are_pushed_to_clients() {
    let success = |clients| {
        vec![
            format!("SUCCESS: {clients} client(s) updated"),
            "SUCCESS: push-update command succeeded".to_owned(),
        ]
    };
    let failure =
        || vec!["ERROR: no client updated".to_owned(), "ERROR: push-update command failed".to_owned()];
    let (mut context, _) = desk_of(Form::Clients(1));
    for (command, answer) in [
        ("push-update-broad \"route 10.1.0.0,-dns\"", success(2)),
        ("push-update-cid 40 -dns", success(1)),
        ("push-update-cid 41 -dns", failure()),
        ("push-update-broad bad", failure()),
        ("push-update-cid x -dns", vec!["ERROR: push-update-cid fail during cid parsing".to_owned()]),
    ] {
        assert_eq!(answers(&mut context, command), answer, "{command}");
    }
    let (mut client, _) = desk_of(Form::Statistics);
    let answer = answers(&mut client, "push-update-broad -dns");
    assert_eq!(
        answer,
        ["ERROR: The 'push-update-broad' command is not supported by the current daemon mode"]
    );
}

#[test]
fn signals_become_commands() {
    for (signal, order) in [
        ("SIGTERM", Order::Command(Command::Shutdown)),
        ("SIGINT", Order::Command(Command::Shutdown)),
        ("SIGUSR1", Order::Command(Command::Restart)),
        ("SIGHUP", Order::Reload),
    ] {
        let (mut context, told) = desk_of(Form::Statistics);
        assert_eq!(
            answers(&mut context, &format!("signal {signal}")),
            [format!("SUCCESS: signal {signal} thrown")]
        );
        assert_eq!(*told.lock().expect("no thread panicked"), [order]);
    }
}

#[test]
fn bytes_are_told_every_so_often() {
    for (form, lines) in [
        (Form::Statistics, &[">BYTECOUNT:1000,2000"][..]),
        (
            Form::Clients(1),
            &[">BYTECOUNT_CLI:40,100,200", ">BYTECOUNT_CLI:41,101,201", ">BYTECOUNT_CLI:42,102,202"][..],
        ),
    ] {
        let ((mut context, _), mut out) = (desk_of(form), Output::default());
        let now = Instant::now();
        let mut session = Session::new(None, now, &context, &mut out);
        assert_eq!(session.due(), None);
        session.receive(b"bytecount 5\n");
        session.work(&mut context, &mut out);
        out.sent(usize::MAX);
        let mut look = |session: &mut Session, seconds| {
            session.look_at_time(now + Duration::from_secs(seconds), &context, &mut out);
            let text = String::from_utf8_lossy(out.waiting()).into_owned();
            out.sent(usize::MAX);
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(look(&mut session, 4).is_empty());
        assert_eq!(look(&mut session, 6), lines);
        assert!(look(&mut session, 10).is_empty());
        assert_eq!(look(&mut session, 12), lines);
        session.receive(b"bytecount 0\n");
        session.work(&mut self::context(), &mut Output::default());
        assert_eq!(session.due(), None);
    }
}

#[test]
fn the_log_and_its_level_are_at_hand() {
    let (mut context, _) = desk_of(Form::Clients(1));
    let notes = context.journal.clone();
    context.log.listen(Box::new(move |severity, text| notes.note_line(severity, text)));
    answers(&mut context, "verb 0");
    context.log.log(Severity::Info, "not written");
    answers(&mut context, "verb 6");
    let mut copy = context.log.clone();
    copy.log(Severity::Warning, "written");
    let lines = answers(&mut context, "log all");
    assert!(lines.iter().any(|line| line.ends_with(",W,written")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("not written")), "{lines:?}");
    answers(&mut context, "password Auth 's3 cret'");
    let lines = answers(&mut context, "log 3");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("password ...")), "{lines:?}");
    assert!(!format!("{lines:?}").contains("s3 cret"));
}

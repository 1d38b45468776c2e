//! Questions to the person at a client, and its actions after a refusal.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, Terminal, can_run, program, wait_until};

use crate::authentication::passwords::{GOOD, WRONG, bed, script};
use crate::bed::{Bed, PROGRAMS};
use crate::certificates::requirements::{block, output};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;
/// `s3 cret` and `8675309`, packed.
const PACKED: &str = "SCRV1:czMgY3JldA==:ODY3NTMwOQ==";
/// The time to answer a question: at OpenVPN's server since the handshake began (`send_auth_pending_messages`), and at
/// its client and ours since the question. Otherwise 5 s: too short where many tests share few processors.
const PATIENT: &str = "hand-window 30\nreneg-sec 0\n";
const PROGRAM_PAIRS: [[Program; 2]; 3] =
    [[Program::OpenVpn, Program::Adit], [Program::Adit, Program::OpenVpn], [Program::Adit, Program::Adit]];

/// Starts both ends, the client at a terminal.
fn start(bed: &mut Bed) -> Terminal {
    bed.server.start().unwrap();
    bed.clients[0].start_at_terminal().unwrap()
}

fn answer(bed: &Bed, terminal: &mut Terminal, question: &str, time: usize, line: &str) {
    let answered = terminal.answer(question, time, line, WAIT);
    assert!(answered.is_ok(), "{}\n{}", terminal.shown(), bed.logs());
}

fn comes_up(bed: &mut Bed, client: Program) {
    let came = bed.clients[0].process().wait_for_line(0, client.up_line(), WAIT);
    assert!(came.is_ok(), "{}", bed.logs());
}

/// The client's own question: the answer is packed with the password, and not shown.
#[test]
fn a_static_challenge() {
    if !can_run("static-challenge", &PROGRAMS) {
        return;
    }
    for [server, client] in PROGRAM_PAIRS {
        let scratch = Scratch::create("verify").unwrap();
        let verifier = script(&scratch, "verify", &format!("[ \"$(sed -n 2p \"$1\")\" = {PACKED} ]\n"));
        let lines = format!("{GOOD}static-challenge \"Token PIN?\" 0\n");
        let mut bed = bed(server, client, &verifier, "", &lines);
        let mut terminal = start(&mut bed);
        answer(&bed, &mut terminal, "Token PIN?", 1, "8675309");
        comes_up(&mut bed, client);
        assert!(!terminal.shown().contains("8675309"), "{}", terminal.shown());
    }
}

/// Ctrl-C at the first question, of either kind: the client ends at once, by that signal, and the terminal shows typed
/// text again. The shell that it is started from goes on, so that the terminal is not reset when its session ends.
#[test]
fn an_interrupted_question_leaves_the_terminal_as_it_was() {
    if !can_run("interrupted questions", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("challenge").unwrap();
    for question in ["Password: ", "Password of the private key: "] {
        let locks = question.ends_with("key: ");
        let bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::Adit], |_, [_, client]| {
            if !locks {
                return client.push_str("auth-user-pass\n");
            }
            let key = block(client, "key");
            let plain = scratch.write("key.pem", &key).unwrap();
            let mut command = program("openssl").unwrap();
            command.args(["pkcs8", "-topk8", "-passout", "pass:open sesame", "-in"]).arg(plain);
            *client = client.replace(&key, &output(command));
        })
        .unwrap();
        let client = &bed.clients[0];
        let mut shell = program("sh").unwrap();
        shell.args(["-c", "trap : INT; \"$@\"; echo \"ended with $?\"; stty -a", "sh"]);
        shell.args([env!("CARGO_BIN_EXE_adit"), "up"]).arg(client.config());
        let (mut terminal, mut process) = Terminal::spawn(&client.namespace, "client", &shell).unwrap();
        if !locks {
            terminal.answer("Username: ", 1, "ann", WAIT).unwrap();
        }
        terminal.interrupt(question, WAIT).unwrap();
        let ended = process.wait_for_line(0, "ended with 130", WAIT);
        assert!(ended.is_ok(), "{}\n{}", process.log(), terminal.shown());
        let shows = process.wait_for_line(0, " echo echoe ", WAIT);
        assert!(shows.is_ok(), "{}\n{}", process.log(), terminal.shown());
    }
}

/// No person is there to answer: the client reports that at once, with the line.
#[test]
fn a_static_challenge_without_a_terminal() {
    if !can_run("static-challenge", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let verifier = script(&scratch, "verify", "exit 0\n");
    let lines = format!("{GOOD}static-challenge \"Token PIN?\" 1 concat\n");
    let mut bed = bed(Program::OpenVpn, Program::Adit, &verifier, "", &lines);
    bed.clients[0].start_without_terminal().unwrap();
    let status = bed.clients[0].process().wait(WAIT).unwrap();
    let log = bed.clients[0].process().log();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("client1.conf:") && log.contains("there is no terminal to ask at"), "{log}");
}

/// The server's question in place of letting the client in.
#[test]
fn a_dynamic_challenge() {
    if !can_run("dynamic challenges", &PROGRAMS) {
        return;
    }
    for [server, client] in PROGRAM_PAIRS {
        let scratch = Scratch::create("verify").unwrap();
        let verifier = script(
            &scratch,
            "verify",
            "case \"$(sed -n 1p \"$1\")/$(sed -n 2p \"$1\")\" in\n\
             'ann/s3 cret') printf 'CRV1:R,E:Om01u7:YmVydGE=:PIN: of the day?' >\"$auth_failed_reason_file\"; exit 1;;\n\
             berta/CRV1::Om01u7::8675309) exit 0;;\nesac\nexit 1\n",
        );
        // OpenVPN ends at the first refusal otherwise, and takes the password from a block before the question.
        let lines = format!("{GOOD}auth-retry interact\n");
        let mut bed = bed(server, client, &verifier, "", &lines);
        let mut terminal = start(&mut bed);
        answer(&bed, &mut terminal, "PIN: of the day?", 1, "8675309");
        comes_up(&mut bed, client);
    }
}

/// A script that asks for a code, and one that verifies it.
fn asks_for_a_code(scratch: &Scratch) -> [String; 2] {
    let ask = "printf '60\\ncrtext\\nCR_TEXT:R,E:Code of today?\\n' >\"$auth_pending_file\"\nexit 2\n";
    let verifier = "echo \"$script_type $username\" >\"$HERE/env\"\n\
                 [ \"$(cat \"$1\")\" = ODY3NTMwOQ== ] && printf 1 >\"$auth_control_file\"\n";
    let [ask, verifier] = [script(scratch, "ask", ask), script(scratch, "code", verifier)];
    [ask.display().to_string(), format!("{PATIENT}client-crresponse {}\n", verifier.display())]
}

/// A question while the server waits, answered at the terminal.
#[test]
fn a_question_while_the_server_waits() {
    if !can_run("crtext", &PROGRAMS) {
        return;
    }
    for server in [Program::OpenVpn, Program::Adit] {
        for code in ["8675309", "1"] {
            let scratch = Scratch::create("verify").unwrap();
            let [ask, line] = asks_for_a_code(&scratch);
            let mut bed = bed(server, Program::Adit, ask.as_ref(), &line, &format!("{GOOD}{PATIENT}"));
            let mut terminal = start(&mut bed);
            answer(&bed, &mut terminal, "Code of today?", 1, code);
            if code == "1" {
                let reported = bed.clients[0].process().wait_for_line(0, "AUTH_FAILED", WAIT);
                assert!(reported.is_ok(), "{}", bed.logs());
                continue;
            }
            comes_up(&mut bed, Program::Adit);
            let env = std::fs::read_to_string(scratch.path().join("env")).unwrap();
            assert_eq!(env, "client-crresponse ann\n");
        }
    }
}

/// OpenVPN's client is asked, and answers, by its management socket.
#[test]
fn an_openvpn_client_answers_adit_servers_question() {
    if !can_run("crtext", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let [ask, line] = asks_for_a_code(&scratch);
    let socket = scratch.path().join("management");
    let socket_line = format!("management {} unix\n", socket.display());
    let lines = format!("{GOOD}{PATIENT}setenv IV_SSO crtext\npush-peer-info\n{socket_line}");
    let mut bed = bed(Program::Adit, Program::OpenVpn, ask.as_ref(), &line, &lines);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    // The file is there before the program listens.
    let mut connected = None;
    wait_until("the management socket", WAIT, || {
        connected = UnixStream::connect(&socket).ok();
        connected.is_some()
    })
    .unwrap();
    let mut management = connected.unwrap();
    management.set_read_timeout(Some(WAIT)).unwrap();
    let said = BufReader::new(management.try_clone().unwrap()).lines().map_while(Result::ok);
    let asked = said.into_iter().find(|line| line.contains("CR_TEXT"));
    assert_eq!(asked.as_deref(), Some(">INFOMSG:CR_TEXT:R,E:Code of today?"), "{}", bed.logs());
    management.write_all(b"cr-response ODY3NTMwOQ==\n").unwrap();
    comes_up(&mut bed, Program::OpenVpn);
}

/// A server that takes its time says no in the end.
#[test]
fn a_refusal_that_was_put_off() {
    if !can_run("deferred refusals", &PROGRAMS) {
        return;
    }
    let body = "(sleep 0.5; printf 0 >\"$auth_control_file\") >/dev/null 2>&1 &\nexit 2\n";
    for [server, client] in PROGRAM_PAIRS {
        let scratch = Scratch::create("verify").unwrap();
        let verifier = script(&scratch, "verify", body);
        let mut bed = bed(server, client, &verifier, "", GOOD);
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let ended = bed.clients[0].process().wait(WAIT);
        let log = bed.clients[0].process().log();
        assert!(ended.is_ok() && log.contains("AUTH_FAILED"), "{}", bed.logs());
        assert!(!log.contains(client.up_line()), "{log}");
    }
}

/// `auth-retry nointeract`: refused once, accepted at the second attempt with the same password.
#[test]
fn a_refused_client_tries_again() {
    if !can_run("auth-retry nointeract", &PROGRAMS) {
        return;
    }
    for server in [Program::OpenVpn, Program::Adit] {
        let scratch = Scratch::create("verify").unwrap();
        let body = "[ -e \"$HERE/calls\" ] && exit 0\n: >\"$HERE/calls\"\nexit 1\n";
        let verifier = script(&scratch, "verify", body);
        // Without the bound it would wait for 10 s.
        let lines = format!("{GOOD}auth-retry nointeract\nconnect-retry 1 1\n");
        let mut bed = bed(server, Program::Adit, &verifier, "", &lines);
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        comes_up(&mut bed, Program::Adit);
        assert!(bed.clients[0].process().log().contains("AUTH_FAILED"), "{}", bed.logs());
    }
}

/// `auth-retry interact`: refused, asked for another password, accepted.
#[test]
fn a_refused_client_is_asked_again() {
    if !can_run("auth-retry interact", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let verifier = script(&scratch, "verify", "[ \"$(sed -n 2p \"$1\")\" = 's3 cret' ]\n");
    let lines = format!("{WRONG}auth-retry interact\n");
    let mut bed = bed(Program::OpenVpn, Program::Adit, &verifier, "", &lines);
    let mut terminal = start(&mut bed);
    answer(&bed, &mut terminal, "Username: ", 1, "ann");
    answer(&bed, &mut terminal, "Password: ", 1, "s3 cret");
    comes_up(&mut bed, Program::Adit);
    let shown = terminal.shown();
    assert!(shown.contains("AUTH_FAILED") && shown.contains("ann") && !shown.contains("s3 cret"), "{shown}");
}

/// `auth-gen-token`: each renegotiation is accepted by the last token and gives another one; the script sees none.
#[test]
fn openvpn_server_renews_adit_clients_token() {
    if !can_run("token renewal", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let verifier = script(&scratch, "verify", "echo >>\"$HERE/calls\"\n");
    let options = Options::BASE;
    let mut bed = Bed::build_with(&options, Program::OpenVpn, &[Program::Adit], |_, [server, client]| {
        // OpenVPN wants a token to live for two `hand-window`s at least, and that is `reneg-sec` here.
        *server = server.replace("reneg-sec 10", "reneg-sec 5").replace("hand-window 5", "hand-window 2");
        server.push_str(&format!(
            "script-security 2\nauth-user-pass-verify {} via-file\nauth-gen-token 3600\n",
            verifier.display()
        ));
        client.push_str(GOOD);
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let renewed = bed.clients[0].process().wait_for_line(0, "renegotiated keys (number 2)", WAIT);
    assert!(renewed.is_ok(), "{}", bed.logs());
    let calls = std::fs::read_to_string(scratch.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 1, "{}", bed.logs());
    assert!(!bed.logs().contains("AUTH_FAILED"), "{}", bed.logs());
}

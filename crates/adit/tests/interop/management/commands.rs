//! `management`: the same commands get answers of the same shape from adit as from OpenVPN.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until, wait_until_reachable};

use crate::authentication::passwords::script;
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

const WAIT: Duration = MAX_WAIT;
/// signal(7).
const SIGTERM: i32 = 15;

/// A client of a management socket.
pub(crate) struct Talk<S>(BufReader<S>);

impl Talk<UnixStream> {
    /// Connects to a socket that will be there soon, and reads its first line.
    pub(crate) fn at(path: &std::path::Path) -> Self {
        Talk::within(path, WAIT)
    }

    /// Connects; neither the connection nor an answer takes longer than `wait`.
    pub(crate) fn within(path: &std::path::Path, wait: Duration) -> Self {
        let mut stream = None;
        wait_until("the management socket", wait, || {
            stream = UnixStream::connect(path).ok();
            stream.is_some()
        })
        .unwrap();
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(wait)).unwrap();
        let mut talk = Talk(BufReader::new(stream));
        // OpenVPN 2.6 and adit have version 5, 2.7 has a later one.
        talk.until(">INFO:OpenVPN Management Interface Version ");
        talk
    }
}

impl<S: Read + Write> Talk<S> {
    /// Sends a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.strip_suffix("\r\n");
        line.unwrap_or_else(|| panic!("the end of each line is CRLF: {line:?}")).to_owned()
    }

    /// The next line that begins so.
    pub(crate) fn until(&mut self, start: &str) -> String {
        loop {
            let line = self.line();
            if line.starts_with(start) {
                return line;
            }
        }
    }

    /// The next line that begins so and has these words.
    pub(crate) fn until_with(&mut self, start: &str, words: &str) -> String {
        loop {
            let line = self.until(start);
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The answer to a command, without the events that come meanwhile.
    pub(crate) fn answer(&mut self, command: &str) -> Vec<String> {
        self.say(command);
        let mut lines: Vec<String> = Vec::new();
        loop {
            let line = self.line();
            if line.starts_with('>') {
                continue;
            }
            let last = line == "END" || line.starts_with("SUCCESS: ") || line.starts_with("ERROR: ");
            lines.push(line);
            if last {
                return lines;
            }
        }
    }
}

/// The first column without its numbers, and how many columns there are. Names of versions are left out.
fn shape(line: &str) -> (String, usize) {
    let by = if line.contains('\t') { '\t' } else { ',' };
    let mut first: String = line.split(by).next().unwrap_or_default().to_owned();
    if let Some((name, _)) = first.split_once("Version: ") {
        first = name.to_owned();
    }
    let first: String = first.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
    let columns = if first == "TITLE" { 2 } else { line.split(by).count() };
    (first, columns)
}

fn shapes(lines: &[String]) -> Vec<(String, usize)> {
    lines.iter().map(|line| shape(line)).collect()
}

/// The commands, in the order of asking.
const COMMANDS: [&str; 60] = [
    "pid",
    "version",
    "status",
    "status 1",
    "status 2",
    "status 3",
    "status 9",
    "load-stats",
    "nclients",
    "state",
    "state all",
    "state 2",
    "state x",
    "state on",
    "state off",
    "log",
    "log off",
    "log x",
    "echo",
    "echo all",
    "hold",
    "hold on",
    "hold",
    "hold off",
    "hold x",
    "verb 99",
    "mute",
    "mute 3",
    "mute 0",
    "bytecount",
    "bytecount 0",
    "username a",
    "username Auth b",
    "password Auth b",
    "auth-retry",
    "signal",
    "signal FOO",
    "kill",
    "kill nobody",
    "kill 192.0.2.1:5",
    "kill a:5",
    "kill :",
    "client-kill x",
    "client-kill 77",
    "client-auth",
    "client-auth 77 0\nEND",
    "client-auth 77 0\npush x\nEND",
    "client-auth-nt 77",
    "client-auth-nt 77 0",
    "client-auth-nt x 0",
    "client-auth-nt 77 x",
    "client-deny 77 0",
    "client-deny 77 0 no",
    "client-deny x 0 no",
    "client-pending-auth 77 0 x",
    "client-pending-auth 77 0 x 5",
    "client-pending-auth 77 0 x y",
    "env-filter 2",
    "net",
    "foo",
];

/// A server with a management socket, which is given, too, and a client of adit's that reaches the server.
pub(super) fn managed(server: Program) -> (Scratch, PathBuf, Bed) {
    managed_with(server, Program::Adit)
}

/// A server with a management socket, which is given, too, and a client that reaches the server.
pub(super) fn managed_with(server: Program, client: Program) -> (Scratch, PathBuf, Bed) {
    let scratch = Scratch::create("management").unwrap();
    let socket = scratch.path().join("socket");
    let line = format!("management {} unix\n", socket.display());
    let mut bed = Bed::build_with(&Options::BASE, server, &[client], |_, [server, _]| {
        server.push_str(&line);
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let there = wait_until_reachable(&bed.clients[0].namespace, SERVER_INNER[0].parse().unwrap(), WAIT);
    assert!(there.is_ok(), "{}", bed.logs());
    (scratch, socket, bed)
}

/// The answers of a server of that program to all commands, with one client, which is sent away at last.
fn server_answers(server: Program) -> Vec<(&'static str, Vec<String>)> {
    let (_scratch, socket, _bed) = managed(server);
    let mut talk = Talk::at(&socket);
    let mut answers: Vec<_> = COMMANDS.iter().map(|command| (*command, talk.answer(command))).collect();
    let second = UnixStream::connect(&socket).unwrap();
    if server == Program::OpenVpn {
        // A connection that is open keeps others waiting.
        second.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!((&second).read(&mut [0; 8]).is_err(), "one at a time");
    }
    second.set_read_timeout(Some(WAIT)).unwrap();
    let mut second = Talk(BufReader::new(second));
    if server == Program::Adit {
        second.until(">INFO:");
        assert_eq!(second.answer("nclients"), talk.answer("nclients"), "two at once");
    }
    answers.push(("kill client1", talk.answer("kill client1")));
    talk.say("quit");
    assert_eq!(talk.0.read_line(&mut String::new()).unwrap(), 0, "it is over");
    if server == Program::OpenVpn {
        second.until(">INFO:");
    }
    answers
}

#[test]
fn a_server_answers_as_openvpn_does() {
    if !can_run("management", &PROGRAMS) {
        return;
    }
    let [ours, theirs] = [Program::Adit, Program::OpenVpn].map(server_answers);
    for ((command, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        let order = |lines: &[String]| {
            let mut shapes = shapes(lines);
            // Routes come in any order.
            if command.starts_with("status") {
                shapes.sort();
            }
            shapes
        };
        assert_eq!(order(ours), order(theirs), "{command}\nours: {ours:#?}\ntheirs: {theirs:#?}");
    }
}

/// By TCP and with a password. Both clients get a message that they were killed, and reconnect at once.
#[test]
fn killed_clients_come_back() {
    if !can_run("management", &PROGRAMS) {
        return;
    }
    let programs = [Program::OpenVpn, Program::Adit];
    let scratch = Scratch::create("management").unwrap();
    let password = scratch.write("password", "s3 cret\n").unwrap();
    std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
    let line = format!("management 127.0.0.1 7505 {}\n", password.display());
    let clients = Cell::new(0);
    let socket = |number| scratch.path().join(format!("client{number}"));
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &programs, |_, [server, client]| {
        if !server.contains(&line) {
            server.push_str(&line);
        }
        client.push_str(&format!("connect-retry 1\nmanagement {} unix\n", socket(clients.get()).display()));
        clients.set(clients.get() + 1);
    })
    .unwrap();
    bed.server.start().unwrap();
    for client in &mut bed.clients {
        client.start().unwrap();
    }
    for (number, program) in programs.iter().enumerate() {
        let up = bed.clients[number].process().wait_for_line(0, program.up_line(), WAIT);
        assert!(up.is_ok(), "{}", bed.logs());
    }
    let stream = bed.server.namespace.enter(|| TcpStream::connect("127.0.0.1:7505")).unwrap().unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let mut talk = Talk(BufReader::new(stream));
    for word in ["wrong", "s3 cret"] {
        let mut prompt = [0; 15];
        talk.0.read_exact(&mut prompt).unwrap();
        assert_eq!(prompt, *b"ENTER PASSWORD:");
        talk.say(word);
    }
    talk.until("SUCCESS: password is correct");
    talk.until(">INFO:");
    for (number, program) in programs.iter().enumerate() {
        let process = bed.clients[number].process();
        let mark = process.mark();
        let said = talk.answer(&format!("kill client{}", number + 1));
        assert!(said[0].ends_with("found, 1 client(s) killed"), "{said:?}");
        let back = bed.clients[number].process().wait_for_line(mark, program.up_line(), WAIT);
        assert!(back.is_ok(), "{}", bed.logs());
        // The log may be a moment ahead.
        let mut states = Vec::new();
        let noted = wait_until("the states", WAIT, || {
            states = Talk::at(&socket(number)).answer("state all");
            let named = |name: &str| states.iter().filter(|state| state.contains(name)).count();
            (named(",RECONNECTING,"), named(",CONNECTED,SUCCESS,")) == (1, 2)
        });
        assert!(noted.is_ok(), "{states:?}");
    }
    talk.answer("state on");
    assert_eq!(talk.answer("signal SIGTERM"), ["SUCCESS: signal SIGTERM thrown"]);
    talk.until(">STATE:");
    let ended = bed.server.process().wait(WAIT).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", bed.logs());
}

/// A client is held, then asks for its password, as a front end expects it.
#[test]
fn a_front_end_starts_a_client() {
    if !can_run("management", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("management").unwrap();
    let verifier = script(
        &scratch,
        "verify",
        "[ \"$(sed -n 1p \"$1\")\" = ann ] && [ \"$(sed -n 2p \"$1\")\" = 's3 \"cret' ]\n",
    );
    let heard = [Program::OpenVpn, Program::Adit].map(|client| {
        let socket = scratch.path().join(format!("{client:?}"));
        let lines = format!(
            "management {} unix\nmanagement-hold\nmanagement-query-passwords\nauth-user-pass\n",
            socket.display()
        );
        let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[client], |_, [server, client]| {
            let verifier = verifier.display();
            server.push_str(&format!("script-security 2\nauth-user-pass-verify {verifier} via-file\n"));
            client.push_str(&lines);
        })
        .unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let mut talk = Talk::at(&socket);
        let held = talk.until(">HOLD:");
        assert_eq!(talk.answer("hold"), ["SUCCESS: hold=1"]);
        talk.answer("state on");
        talk.say("hold release");
        let asked = talk.until(">PASSWORD:");
        talk.say("username \"Auth\" ann");
        let named = talk.until("SUCCESS: 'Auth'");
        talk.say("password \"Auth\" \"s3 \\\"cret\"");
        let reported = talk.until("SUCCESS: 'Auth'");
        let mut states = Vec::new();
        while states.last().is_none_or(|state: &String| !state.contains(",CONNECTED,")) {
            states.push(talk.until(">STATE:"));
        }
        let connected = shape(&states.pop().unwrap()).1;
        let status = shapes(&talk.answer("status 2"));
        let load = shapes(&talk.answer("load-stats"));
        bed.clients[0].process().terminate(WAIT).unwrap();
        (held, asked, named, reported, connected, status, load)
    });
    let [theirs, ours] = heard;
    assert_eq!(ours, theirs);
}

/// However early it ends, the socket's file goes with it, and the process ends as the signal says.
#[test]
fn a_held_tunnel_leaves_no_socket_behind() {
    if !can_run("management", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("management").unwrap();
    let cases = [
        ("management-hold\n", ">HOLD:"),
        ("management-query-passwords\nauth-user-pass\n", ">PASSWORD:Need 'Auth'"),
    ];
    for (number, (lines, waits)) in cases.into_iter().enumerate() {
        let socket = scratch.path().join(format!("socket{number}"));
        let lines = format!("management {} unix\n{lines}", socket.display());
        let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::Adit], |_, [_, client]| {
            client.push_str(&lines);
        })
        .unwrap();
        bed.clients[0].start().unwrap();
        let mut talk = Talk::at(&socket);
        talk.until(waits);
        let status = bed.clients[0].process().terminate(WAIT).unwrap();
        assert_eq!(status.signal(), Some(SIGTERM), "{}", bed.logs());
        assert!(!socket.exists(), "{lines}");
    }
}

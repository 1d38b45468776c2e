//! Several programs at the socket at once.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_core::Command;
use adit_openvpn::request::{ClientDecision, ClientEvent, ClientStep, Reply, Request};
use adit_openvpn_config::ManagementAddress;
use zeroize::Zeroizing;

use super::super::journal::Journal;
use super::super::listener::ManagementListener;
use super::super::serve::{OnLeave, start};
use super::super::testing::{Order, desk_of, settings};
use super::super::{SocketPassword, pipe};
use super::{Watcher, watcher};
use crate::status_file::Form;

/// A management socket of a played server.
struct Socket {
    path: PathBuf,
    watcher: Watcher,
    journal: Journal,
    orders: Arc<Mutex<Vec<Order>>>,
    thread: Option<JoinHandle<()>>,
}

impl Socket {
    fn new(name: &str, password: SocketPassword, on_leave: OnLeave) -> Self {
        let settings = settings(name);
        let ManagementAddress::Unix(path) = settings.address.clone() else { panic!("a Unix socket") };
        let listener = ManagementListener::open(&settings).unwrap_or_else(|(_, why)| panic!("{why}"));
        let (mut context, orders) = desk_of(Form::Clients(1));
        let (waker, woken) = pipe().expect("a pipe");
        let journal = Journal::new(1, waker);
        context.journal = journal.clone();
        let watcher = watcher(&context, true);
        let thread = start(listener, woken, context, password, on_leave).expect("a thread");
        Socket { path, watcher, journal, orders, thread: Some(thread) }
    }

    fn connect(&self) -> Program {
        let stream = UnixStream::connect(&self.path).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        Program(BufReader::new(stream))
    }

    /// A program that has read the greeting.
    fn program(&self) -> Program {
        let mut program = self.connect();
        program.read_to(">INFO:");
        program
    }

    /// A client asks to be let in.
    fn asks(&mut self, client: u64) {
        let step = ClientStep::AuthRequest { key: 1, again: false, password: Zeroizing::default() };
        let event = ClientEvent { client, step, env: Vec::new() };
        self.watcher.request(&Request::Client(Box::new(event)), "tun0");
    }

    /// Waits for that many orders to the tunnel, and takes them.
    fn orders(&self, number: usize) -> Vec<Order> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let mut orders = self.orders.lock().expect("no thread panicked");
            if orders.len() >= number || Instant::now() > until {
                return std::mem::take(&mut *orders);
            }
            drop(orders);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.journal.close();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread ends");
        }
    }
}

/// A program at the socket.
struct Program(BufReader<UnixStream>);

impl Program {
    fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).expect("a line is sent");
    }

    /// The next line that begins so.
    fn read_to(&mut self, start: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let length = self.0.read_line(&mut line).unwrap_or_else(|error| panic!("{start}: {error}"));
            assert!(length > 0, "the connection was closed before {start}");
            if line.starts_with(start) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Leaves, and waits until the connection is closed.
    fn quit(mut self) {
        self.say("quit");
        while self.0.read_line(&mut String::new()).expect("an end") > 0 {}
    }

    /// The answer to a command.
    fn ask(&mut self, command: &str) -> String {
        self.say(command);
        let mut line = String::new();
        while !line.starts_with("SUCCESS:") && !line.starts_with("ERROR:") {
            line.clear();
            assert!(self.0.read_line(&mut line).expect("an answer") > 0, "{command}: closed");
        }
        line.trim_end().to_owned()
    }
}

const CLAIMED: &str = "ERROR: client-auth command failed: another program answers for this client";

fn accepted(client: u64) -> Order {
    Order::Reply(Reply::ClientDecision { client, key: 1, decision: ClientDecision::Accept(None) })
}

/// A program that judges clients, as openvpn-auth-oauth2, beside one that watches, as openvpn-monitor.
#[test]
fn all_programs_hear_of_a_client_and_the_first_that_answers_judges_it() {
    let mut socket = Socket::new("two", None, OnLeave::default());
    let [mut judge, mut other] = [socket.program(), socket.program()];
    socket.asks(7);
    assert_eq!(judge.read_to(">CLIENT:CONNECT"), ">CLIENT:CONNECT,7,1");
    assert_eq!(other.read_to(">CLIENT:CONNECT"), ">CLIENT:CONNECT,7,1");
    assert!(judge.ask("client-pending-auth 7 1 WEB_AUTH::https://a.example 60").starts_with("SUCCESS:"));
    assert_eq!(other.ask("client-auth 7 1\nEND"), CLAIMED);
    assert_eq!(other.ask("client-auth-nt 7 1"), CLAIMED.replace("auth", "auth-nt"));
    assert_eq!(other.ask("client-deny 7 1 no"), CLAIMED.replace("auth", "deny"));
    assert!(other.ask("load-stats").starts_with("SUCCESS: nclients=3"), "it may look");
    assert_eq!(judge.ask("client-auth-nt 7 1"), "SUCCESS: client-auth command succeeded");
    assert_eq!(socket.orders(2)[1..], [accepted(7)]);
    // One client has one judge, another client may have another.
    socket.asks(8);
    assert_eq!(other.read_to(">CLIENT:CONNECT"), ">CLIENT:CONNECT,8,1");
    assert_eq!(other.ask("client-auth-nt 8 1"), "SUCCESS: client-auth command succeeded");
    assert_eq!(judge.read_to(">CLIENT:CONNECT"), ">CLIENT:CONNECT,8,1");
    assert_eq!(socket.orders(1), [accepted(8)]);
}

#[test]
fn where_a_judge_leaves_another_program_judges() {
    let mut socket = Socket::new("judge", None, OnLeave::default());
    let [mut judge, mut other] = [socket.program(), socket.program()];
    socket.asks(7);
    assert!(judge.ask("client-pending-auth 7 1 x 60").starts_with("SUCCESS:"));
    assert_eq!(other.ask("client-auth 7 1\nEND"), CLAIMED);
    judge.quit();
    assert_eq!(other.ask("client-auth-nt 7 1"), "SUCCESS: client-auth command succeeded");
    assert_eq!(socket.orders(2)[1..], [accepted(7)]);
}

/// `management-signal` and `management-forget-disconnect`.
#[test]
fn the_last_program_that_leaves_has_the_tunnel_connect_anew() {
    let socket = Socket::new("last", None, OnLeave { restart: true, forget: true });
    let mut stays = socket.program();
    for _ in 0..3 {
        socket.program().quit();
    }
    assert!(stays.ask("pid").starts_with("SUCCESS: pid="));
    assert_eq!(socket.orders(0), []);
    drop(stays);
    let restart = [Order::Reply(Reply::ForgetPasswords), Order::Command(Command::Restart)];
    assert_eq!(socket.orders(2), restart);
}

/// The log, the states and the echo messages that one program follows are sent to no other.
#[test]
fn a_program_hears_what_it_asked_for() {
    let socket = Socket::new("follow", None, OnLeave::default());
    let [mut follows, mut does_not] = [socket.program(), socket.program()];
    assert!(follows.ask("state on").starts_with("SUCCESS:"));
    socket.journal.note(super::super::journal::Kind::State, "CONNECTED");
    assert!(follows.read_to(">STATE:").ends_with(",CONNECTED"));
    socket.journal.say(">NOTIFY:x");
    let mut heard = String::new();
    while !heard.ends_with(">NOTIFY:x\r\n") {
        assert!(does_not.0.read_line(&mut heard).expect("a line") > 0, "closed");
    }
    assert!(!heard.contains(">STATE:"), "{heard}");
}

/// Connections that do not give the password leave room for those that know it, and are bounded.
#[test]
fn programs_are_bounded() {
    let socket = Socket::new("bound", Some(Zeroizing::new("secret".to_owned())), OnLeave::default());
    let without: Vec<Program> = (0..3).map(|_| socket.connect()).collect();
    let mut programs: Vec<Program> = (0..13)
        .map(|_| {
            let mut program = socket.connect();
            program.say("secret");
            program.read_to("ENTER PASSWORD:SUCCESS: password is correct");
            program
        })
        .collect();
    // The seventeenth waits until one leaves.
    let mut late = socket.connect();
    late.say("secret");
    assert!(programs[0].ask("pid").starts_with("SUCCESS:"));
    late.0.get_mut().set_read_timeout(Some(Duration::from_millis(50))).expect("a limit");
    assert!(late.0.read_line(&mut String::new()).is_err(), "it waits");
    late.0.get_mut().set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    drop(without);
    late.read_to("ENTER PASSWORD:SUCCESS:");
}

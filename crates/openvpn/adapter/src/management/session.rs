//! One client at the management socket: its password, its lines, and what goes back to it.

use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::client_auth::Settings;
use super::output::Output;
use super::program::ProgramId;
use super::texts::TextBlock;
use super::words::{Input, Line, MAX_LINE, words};
use super::{CommandContext, commands};

/// Wrong passwords before the client is sent away (OpenVPN manage.h).
const TRIES: u32 = 3;
/// Longest password that can match, in bytes.
const MAX_PASSWORD: usize = 1024;
/// How long a client may take to give the password.
const PASSWORD_TIMEOUT: Duration = Duration::from_secs(60);

/// `bytecount`.
struct ByteCount {
    every: Duration,
    next: Instant,
}

/// The next step with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The client stays.
    Stay,
    /// The client asked to go.
    Leave,
    /// The client is sent away: it does not know the password.
    Reject,
    /// The client is sent away: it speaks HTTP, as a browser does that a web page sends here.
    SpeaksHttp,
}

/// Whether a line is the start of an HTTP request, or a header that each has. No command begins like that.
///
/// A web page can have a browser on this machine send any lines to a local TCP port, behind those of HTTP.
fn is_http(line: &str) -> bool {
    const METHODS: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];
    let is_request = line.split_once(' ').is_some_and(|(method, _)| METHODS.contains(&method));
    is_request || line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("host:"))
}

/// A client.
pub(super) struct Session {
    password: Option<Zeroizing<String>>,
    /// Its number, once it needs no password any more.
    program: Option<ProgramId>,
    tries: u32,
    since: Instant,
    input: Input,
    block: Option<Block>,
    bytecount: Option<ByteCount>,
    /// How little of a client's environment it wants to hear (`env-filter`).
    env_filter: i64,
}

/// Lines that belong together, up to `END`.
enum Block {
    /// The lines are passed over, and then this is answered.
    Skipped(String),
    /// The lines of `client-auth`.
    Settings(Settings),
    /// The lines of a signature or a certificate.
    Text(TextBlock),
}

impl Session {
    /// A client has come; `password` is what it must know first.
    pub(super) fn new(
        password: Option<Zeroizing<String>>,
        now: Instant,
        context: &CommandContext,
        out: &mut Output,
    ) -> Self {
        let mut session = Session {
            password,
            program: None,
            tries: 0,
            since: now,
            input: Input::new(),
            block: None,
            bytecount: None,
            env_filter: 0,
        };
        match session.password {
            None => session.greet(context, out),
            Some(_) => out.prompt(),
        }
        session
    }

    fn greet(&mut self, context: &CommandContext, out: &mut Output) {
        self.program = Some(context.journal.enter());
        out.line(">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info");
        for line in context.questions.greeting() {
            out.line(&line);
        }
    }

    /// Its number among the programs, if it needs no password, or knew it.
    pub(super) fn program(&self) -> Option<ProgramId> {
        self.program
    }

    /// The connection is over: questions that the program has not answered are left to others.
    pub(super) fn leave(&mut self, context: &CommandContext) {
        if let Some(program) = self.program.take() {
            context.journal.leave(program);
            context.pending_auths.leave(program);
            context.questions.leave(program);
        }
    }

    /// How much more it may say now.
    pub(super) fn room(&self, out: &Output) -> usize {
        if out.is_full() || self.input.has_line() { 0 } else { self.input.room() }
    }

    /// Takes what was received.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.input.add(bytes);
    }

    /// Whether there is work that waits for nothing but room.
    pub(super) fn is_busy(&self, out: &Output) -> bool {
        !out.is_full() && self.input.has_line()
    }

    /// Carries out what was said, as long as there is room for answers.
    pub(super) fn work(&mut self, context: &mut CommandContext, out: &mut Output) -> Next {
        while !out.is_full() {
            let Some(line) = self.input.line() else { break };
            let next = match line {
                Line::TooLong => {
                    out.line(&format!("ERROR: the line is longer than {MAX_LINE} bytes"));
                    Next::Stay
                }
                Line::Text(text) if is_http(&text) => return Next::SpeaksHttp,
                Line::Text(text) if self.password.is_some() => self.check(&text, context, out),
                Line::Text(text) => self.obey(&text, context, out),
            };
            if next != Next::Stay {
                return next;
            }
        }
        Next::Stay
    }

    fn check(&mut self, text: &str, context: &mut CommandContext, out: &mut Output) -> Next {
        if self.password.as_ref().is_some_and(|password| is_same(password, text)) {
            self.password = None;
            out.line("SUCCESS: password is correct");
            self.greet(context, out);
            return Next::Stay;
        }
        self.tries += 1;
        if self.tries >= TRIES {
            return Next::Reject;
        }
        out.prompt();
        Next::Stay
    }

    fn obey(&mut self, text: &str, context: &mut CommandContext, out: &mut Output) -> Next {
        match (&mut self.block, text) {
            (None, _) => {}
            (Some(Block::Settings(settings)), "END") => {
                settings.end(context, out);
                self.block = None;
                return Next::Stay;
            }
            (Some(Block::Skipped(answer)), "END") => {
                out.line(answer);
                self.block = None;
                return Next::Stay;
            }
            (Some(Block::Text(text)), "END") => {
                text.end(context, out);
                self.block = None;
                return Next::Stay;
            }
            (Some(Block::Text(text)), line) => {
                text.add(line);
                return Next::Stay;
            }
            (Some(Block::Settings(settings)), line) => {
                settings.add(line);
                return Next::Stay;
            }
            (Some(Block::Skipped(_)), _) => return Next::Stay,
        }
        match words(text) {
            Ok(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                commands::run(&words, self, context, out)
            }
            Err(answer) => {
                out.line(&answer);
                Next::Stay
            }
        }
    }

    /// Passes over lines until `END`, and answers then.
    pub(super) fn skip_block(&mut self, answer: String) {
        self.block = Some(Block::Skipped(answer));
    }

    /// Takes lines until `END`.
    pub(super) fn take_block(&mut self, settings: Settings) {
        self.block = Some(Block::Settings(settings));
    }

    /// Takes the lines of an answer until `END`.
    pub(super) fn take_text(&mut self, text: TextBlock) {
        self.block = Some(Block::Text(text));
    }

    /// Sets the filter of clients' environments: only variables that pass it are sent from now on.
    pub(super) fn filter_env(&mut self, level: i64) {
        self.env_filter = level;
    }

    /// The filter of clients' environments.
    pub(super) fn env_filter(&self) -> i64 {
        self.env_filter
    }

    /// Tells the bytes that passed every so often; not at all if that is no time.
    pub(super) fn count_bytes(&mut self, every: Duration) {
        let next = Instant::now() + every;
        self.bytecount = Some(ByteCount { every, next }).filter(|_| !every.is_zero());
    }

    /// When [`Session::look_at_time`] is next due.
    pub(super) fn due(&self) -> Option<Instant> {
        let timeout = self.password.as_ref().map(|_| self.since + PASSWORD_TIMEOUT);
        let bytecount = self.bytecount.as_ref().map(|count| count.next);
        [timeout, bytecount].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn look_at_time(&mut self, now: Instant, context: &CommandContext, out: &mut Output) -> Next {
        if self.password.is_some() && now >= self.since + PASSWORD_TIMEOUT {
            return Next::Reject;
        }
        if let Some(count) = self.bytecount.as_mut().filter(|count| now >= count.next) {
            count.next = now + count.every;
            if !out.is_full() {
                commands::tell_bytes(context, out);
            }
        }
        Next::Stay
    }
}

/// Takes as long whatever the two are.
fn is_same(password: &str, given: &str) -> bool {
    let padded = |text: &str| {
        let mut bytes = Zeroizing::new([0u8; MAX_PASSWORD]);
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        bytes
    };
    let (one, other) = (padded(password), padded(given));
    let as_long = (password.len() as u64).ct_eq(&(given.len() as u64));
    bool::from(one.as_slice().ct_eq(other.as_slice()) & as_long) && given.len() <= MAX_PASSWORD
}

#[cfg(test)]
mod tests {
    use super::super::output::MOST_WAITING;
    use super::super::testing::context;
    use super::*;

    fn text(out: &mut Output) -> String {
        let text = String::from_utf8_lossy(out.waiting()).into_owned();
        out.sent(usize::MAX);
        text
    }

    #[test]
    fn a_password_is_asked_for_first() {
        let (mut context, mut out) = (context(), Output::default());
        let password = Some(Zeroizing::new("s3 cret".to_owned()));
        let mut session = Session::new(password, Instant::now(), &context, &mut out);
        session.receive(b"pid\r\n");
        assert_eq!(session.work(&mut context, &mut out), Next::Stay);
        assert_eq!(text(&mut out), "ENTER PASSWORD:ENTER PASSWORD:");
        session.receive(b"s3 cret\nsta");
        assert_eq!(session.work(&mut context, &mut out), Next::Stay);
        let said = text(&mut out);
        assert!(
            said.starts_with("SUCCESS: password is correct\r\n>INFO:OpenVPN Management Interface Version 5"),
            "{said}"
        );
        session.receive(b"te x\n");
        session.work(&mut context, &mut out);
        assert_eq!(
            text(&mut out),
            "ERROR: state parameter must be 'on' or 'off' or some number n or 'all'\r\n"
        );
        assert_eq!(session.due(), None);
    }

    #[test]
    fn who_does_not_know_the_password_goes() {
        let (mut context, mut out) = (context(), Output::default());
        let now = Instant::now();
        let new = |out: &mut Output, context: &CommandContext| {
            Session::new(Some(Zeroizing::new("right".to_owned())), now, context, out)
        };
        let mut session = new(&mut out, &context);
        session.receive(b"wrong\n\nRight\nright\n");
        assert_eq!(session.work(&mut context, &mut out), Next::Reject);
        assert_eq!(text(&mut out), "ENTER PASSWORD:".repeat(3));
        let mut session = new(&mut out, &context);
        assert_eq!(session.look_at_time(now, &context, &mut out), Next::Stay);
        assert_eq!(session.look_at_time(now + PASSWORD_TIMEOUT, &context, &mut out), Next::Reject);
    }

    /// The bytes of a browser for a web page that posts commands to the socket's port: none of it is obeyed.
    #[test]
    fn a_client_that_speaks_http_is_sent_away() {
        let password = || Some(Zeroizing::new("right".to_owned()));
        for start in
            ["POST / HTTP/1.1", "GET /x HTTP/1.1", "OPTIONS * HTTP/1.1", "Host: 127.0.0.1:7505", "host:x"]
        {
            for password in [None, password()] {
                let (mut context, mut out) = (context(), Output::default());
                let mut session = Session::new(password, Instant::now(), &context, &mut out);
                text(&mut out);
                session.receive(format!("{start}\r\nright\r\nverb 7\r\n").as_bytes());
                assert_eq!(session.work(&mut context, &mut out), Next::SpeaksHttp, "{start}");
                assert_eq!((text(&mut out).as_str(), context.log.verb()), ("", 1), "{start}");
            }
        }
        for other in ["get x", "GETS x", "hold", "password Auth GET", "", "é"] {
            assert!(!is_http(other), "{other}");
        }
    }

    #[test]
    fn passwords_are_the_same_or_not() {
        let long = "x".repeat(MAX_PASSWORD + 1);
        assert!(is_same("", "") && is_same("a b", "a b"));
        for (one, other) in [("a", "b"), ("a", "a\0"), ("a", ""), ("", "a"), (&long, &long)] {
            assert!(!is_same(one, other));
        }
    }

    #[test]
    fn who_does_not_read_is_not_answered() {
        let (mut context, mut out) = (context(), Output::default());
        let mut session = Session::new(None, Instant::now(), &context, &mut out);
        let mut asked = 0;
        while session.room(&out) > 5 {
            session.receive(b"help\n");
            session.work(&mut context, &mut out);
            asked += 1;
        }
        assert!(out.is_full() && out.waiting().len() < MOST_WAITING + 10_000, "{asked}");
        session.receive(b"help\n");
        session.work(&mut context, &mut out);
        assert!(!session.is_busy(&out) && session.room(&out) == 0);
        out.sent(usize::MAX);
        assert!(session.is_busy(&out), "it is done when there is room");
    }

    #[test]
    fn a_block_is_passed_over() {
        let (mut context, mut out) = (context(), Output::default());
        let mut session = Session::new(None, Instant::now(), &context, &mut out);
        text(&mut out);
        session.receive(b"client-auth 0 0\npush \"route 10.0.0.0\"\nkill x\nEND\nfoo\n");
        session.work(&mut context, &mut out);
        let said = text(&mut out);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{said}");
        assert!(lines[0].contains("'client-auth' command is not supported"), "{said}");
        assert_eq!(lines[1], "ERROR: unknown command, enter 'help' for more options");
    }
}

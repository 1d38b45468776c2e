//! The commands by which a program at the socket judges a server's clients (`management-client-auth`).

use std::time::Duration;

use adit_core::Severity;
use adit_openvpn::request::{ClientDecision, PeerSettings, Reply};
use adit_openvpn_config::parse_client_file;
use zeroize::Zeroizing;

use super::CommandContext;
use super::program::ProgramId;
use super::session::Session;
use crate::management::output::Output;
use crate::status_file::Form;

/// Longest text for one client in bytes.
const MAX_SETTINGS: usize = 64 << 10;
/// Longest text of `client-pending-auth` in bytes (OpenVPN push.c: with `INFO_PRE,` and its end no more than 1,024).
const MAX_EXTRA: usize = 1013;

/// The client and its keys that a command is about.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    client: u64,
    key: u32,
}

impl Subject {
    /// Reads the first two arguments. An error is what to answer.
    fn read(arguments: &[&str]) -> Result<Self, &'static str> {
        let number = |index: usize| arguments.get(index).copied().unwrap_or_default();
        Ok(Subject {
            client: number(0).parse().map_err(|_| "ERROR: cannot parse CID")?,
            key: number(1).parse().map_err(|_| "ERROR: cannot parse KID")?,
        })
    }
}

/// The lines of `client-auth`, up to `END`.
pub(super) struct Settings {
    /// Or why it will come to nothing.
    subject: Result<Subject, &'static str>,
    program: ProgramId,
    /// Never grows beyond its first size, so that no copy of a secret is left behind.
    text: Zeroizing<String>,
    too_long: bool,
}

impl Settings {
    fn new(subject: Result<Subject, &'static str>, program: ProgramId) -> Self {
        Settings {
            subject,
            program,
            text: Zeroizing::new(String::with_capacity(MAX_SETTINGS)),
            too_long: false,
        }
    }

    /// One more line.
    pub(super) fn add(&mut self, line: &str) {
        if self.text.len() + line.len() >= MAX_SETTINGS {
            self.too_long = true;
        } else {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// `END`.
    pub(super) fn end(&self, context: &mut CommandContext, out: &mut Output) {
        match self.subject {
            Ok(_) if self.too_long => {
                tell_fault(context, &format!("the text is longer than {MAX_SETTINGS} bytes"));
                out.line(&answer("client-auth", false));
            }
            Ok(subject) => accept(subject, self.program, &self.text, context, out),
            Err(why) => out.line(why),
        }
    }
}

/// Runs one of these commands; it has as many arguments as it needs.
pub(super) fn run(
    name: &str,
    arguments: &[&str],
    session: &mut Session,
    context: &mut CommandContext,
    out: &mut Output,
) {
    if !is_server(context) {
        let unsupported = crate::management::output::unsupported(name);
        match name {
            "client-auth" => session.skip_block(unsupported),
            _ => out.line(&unsupported),
        }
        return;
    }
    let Some(program) = session.program() else { return };
    let subject = Subject::read(arguments);
    let text = |index: usize| arguments.get(index).copied().unwrap_or_default();
    match (name, subject) {
        ("client-auth", subject) => session.take_block(Settings::new(subject, program)),
        (_, Err(why)) => out.line(why),
        (_, Ok(subject)) if !is_judge(subject, program, context) => out.line(&claimed(name)),
        ("client-auth-nt", Ok(subject)) => accept(subject, program, "", context, out),
        ("client-deny", Ok(subject)) => {
            let (reason, told) = (text(2).to_owned(), text(3).to_owned());
            let there = context.pending_auths.is_there(subject.client, subject.key);
            let denied = there && decide(subject, ClientDecision::Deny { reason, told }, context);
            if denied {
                context.pending_auths.judged(subject.client);
            }
            out.line(&answer(name, denied));
        }
        (_, Ok(subject)) => put_off(subject, text(2), text(3), context, out),
    }
}

fn is_server(context: &CommandContext) -> bool {
    context.tunnel().as_ref().is_some_and(|tunnel| matches!(tunnel.form(), Form::Clients(_)))
}

fn answer(name: &str, done: bool) -> String {
    match done {
        true => format!("SUCCESS: {name} command succeeded"),
        false => format!("ERROR: {name} command failed"),
    }
}

/// Whether the program judges these keys: no other program answered first.
fn is_judge(Subject { client, key }: Subject, program: ProgramId, context: &CommandContext) -> bool {
    context.pending_auths.claim(client, key, program)
}

/// The answer to a program where another program judges.
fn claimed(name: &str) -> String {
    format!("ERROR: {name} command failed: another program answers for this client")
}

fn decide(Subject { client, key }: Subject, decision: ClientDecision, context: &CommandContext) -> bool {
    context
        .tunnel()
        .as_ref()
        .is_some_and(|tunnel| tunnel.reply(Reply::ClientDecision { client, key, decision }))
}

fn tell_fault(context: &mut CommandContext, why: &str) {
    context
        .log
        .log(Severity::Error, format_args!("management: client-auth: {why}; the client is not let in by it"));
}

/// Lets a client in, with these settings.
fn accept(subject: Subject, program: ProgramId, text: &str, context: &mut CommandContext, out: &mut Output) {
    if !is_judge(subject, program, context) {
        return out.line(&claimed("client-auth"));
    }
    let settings = match settings(text, context) {
        Ok(settings) => settings,
        Err(why) => {
            tell_fault(context, &why);
            return out.line(&answer("client-auth", false));
        }
    };
    let waits = context.pending_auths.waits(subject.client, subject.key);
    let accepted = waits && decide(subject, ClientDecision::Accept(settings), context);
    if accepted {
        context.pending_auths.judged(subject.client);
    }
    out.line(&answer("client-auth", accepted));
}

/// The settings of the lines, which are as those of a client's file.
fn settings(text: &str, context: &mut CommandContext) -> Result<Option<Box<PeerSettings>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match parse_client_file("client-auth", text.as_bytes()) {
        Ok((settings, doubts)) => {
            for doubt in doubts {
                context.log.log(Severity::Warning, format_args!("management: {doubt}"));
            }
            Ok(Some(Box::new(settings)))
        }
        Err(failure) => Err(failure.to_string()),
    }
}

/// The client is to do something first.
fn put_off(subject: Subject, extra: &str, timeout: &str, context: &CommandContext, out: &mut Output) {
    let Ok(seconds) = timeout.parse::<u32>() else { return out.line("ERROR: cannot parse TIMEOUT") };
    let decision =
        ClientDecision::Pending { text: extra.to_owned(), timeout: Duration::from_secs(seconds.into()) };
    let good = extra.len() <= MAX_EXTRA && context.pending_auths.waits(subject.client, subject.key);
    match good && decide(subject, decision, context) {
        true => out.line(&answer("client-pending-auth", true)),
        false => {
            out.line(&format!("{}. Extra parameter might be too long", answer("client-pending-auth", false)))
        }
    }
}

/// `env-filter`.
pub(super) fn env_filter(given: Option<&str>, session: &mut Session, out: &mut Output) {
    // As in OpenVPN, what is no number is none.
    let level = given.and_then(|level| level.parse().ok()).unwrap_or_default();
    session.filter_env(level);
    out.line(&format!("SUCCESS: env_filter_level={level}"));
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use adit_openvpn::request::{ClientEvent, ClientStep, PushChange};

    use super::super::testing::{Order, context, desk_of};
    use super::*;

    fn asks(context: &CommandContext, client: u64, key: u32) {
        let step = ClientStep::AuthRequest { key, again: false, password: Zeroizing::default() };
        context.pending_auths.note(&ClientEvent { client, step, env: Vec::new() });
    }

    fn answers(context: &mut CommandContext, command: &str) -> String {
        let mut out = Output::default();
        let mut session = Session::new(None, Instant::now(), context, &mut out);
        out.sent(usize::MAX);
        session.receive(command.as_bytes());
        session.receive(b"\n");
        session.work(context, &mut out);
        session.leave(context);
        String::from_utf8_lossy(out.waiting()).trim_end().replace("\r\n", "\n")
    }

    const ACCEPTED: &str = "SUCCESS: client-auth command succeeded";
    const FAILED: &str = "ERROR: client-auth command failed";
    const LATER: &str = "SUCCESS: client-pending-auth command succeeded";
    const NEVER: &str = "ERROR: client-pending-auth command failed. Extra parameter might be too long";

    #[test]
    fn clients_are_judged() {
        let long = format!("client-pending-auth 5 1 {} 60", "x".repeat(MAX_EXTRA + 1));
        for (command, answer, told) in [
            ("client-auth-nt 5 1", ACCEPTED, Some(ClientDecision::Accept(None))),
            ("client-auth 5 1\nEND", ACCEPTED, Some(ClientDecision::Accept(None))),
            ("client-auth-nt 5 2", FAILED, None),
            ("client-auth-nt 6 1", FAILED, None),
            ("client-auth 5 2\nend\n END\nEND", FAILED, None),
            ("client-auth-nt x 1", "ERROR: cannot parse CID", None),
            ("client-auth-nt 5 -1", "ERROR: cannot parse KID", None),
            ("client-auth 5 x\npush y\nEND", "ERROR: cannot parse KID", None),
            ("client-auth-nt 5", "ERROR: the 'client-auth-nt' command requires 2 parameters", None),
            ("client-auth 5 1\nbogus\nEND", FAILED, None),
            (
                "client-deny 5 1 \"log this\" 'TEMP[backoff 3]:say that'",
                "SUCCESS: client-deny command succeeded",
                Some(ClientDecision::Deny {
                    reason: "log this".to_owned(),
                    told: "TEMP[backoff 3]:say that".to_owned(),
                }),
            ),
            (
                "client-deny 5 1 no",
                "SUCCESS: client-deny command succeeded",
                Some(ClientDecision::Deny { reason: "no".to_owned(), told: String::new() }),
            ),
            ("client-deny 5 2 no", "ERROR: client-deny command failed", None),
            ("client-deny 5 1", "ERROR: the 'client-deny' command requires at least 3 parameters", None),
            (
                "client-pending-auth 5 1 WEB_AUTH::https://a.example/ 60",
                LATER,
                Some(ClientDecision::Pending {
                    text: "WEB_AUTH::https://a.example/".to_owned(),
                    timeout: Duration::from_secs(60),
                }),
            ),
            ("client-pending-auth 5 1 x long", "ERROR: cannot parse TIMEOUT", None),
            ("client-pending-auth 5 2 x 60", NEVER, None),
            (&*long, NEVER, None),
        ] {
            let (mut context, heard) = desk_of(Form::Clients(1));
            asks(&context, 5, 1);
            assert_eq!(answers(&mut context, command), answer, "{command}");
            let decided = |decision| Order::Reply(Reply::ClientDecision { client: 5, key: 1, decision });
            let expected: Vec<Order> = told.into_iter().map(decided).collect();
            assert_eq!(*heard.lock().expect("no thread panicked"), expected, "{command}");
        }
    }

    #[test]
    fn lines_hold_for_one_client() {
        let (mut context, heard) = desk_of(Form::Clients(1));
        asks(&context, 5, 1);
        let command =
            "client-auth 5 1\npush \"route 10.9.0.0 255.255.0.0\"\niroute 10.7.0.0 255.255.0.0\nEND";
        assert_eq!(answers(&mut context, command), ACCEPTED);
        let heard = heard.lock().expect("no thread panicked");
        let [Order::Reply(Reply::ClientDecision { decision: ClientDecision::Accept(Some(settings)), .. })] =
            &heard[..]
        else {
            panic!("{heard:?}")
        };
        assert_eq!(settings.push, [PushChange::Add("route 10.9.0.0 255.255.0.0".to_owned())]);
        assert_eq!(settings.routes, ["10.7.0.0/16".parse().expect("a network")]);
    }

    #[test]
    fn lines_have_an_end() {
        let (mut context, heard) = desk_of(Form::Clients(1));
        asks(&context, 5, 1);
        let lines = format!("push \"{}\"\n", "x".repeat(1000)).repeat(MAX_SETTINGS / 1000 + 1);
        let mut out = Output::default();
        let mut session = Session::new(None, Instant::now(), &context, &mut out);
        out.sent(usize::MAX);
        for line in format!("client-auth 5 1\n{lines}END\n").split_inclusive('\n') {
            session.receive(line.as_bytes());
            session.work(&mut context, &mut out);
        }
        assert_eq!(String::from_utf8_lossy(out.waiting()), format!("{FAILED}\r\n"));
        assert!(heard.lock().expect("no thread panicked").is_empty());
        // The next command is one again.
        assert_eq!(answers(&mut context, "client-auth-nt 5 1"), ACCEPTED);
    }

    #[test]
    fn the_first_yes_counts_and_every_no() {
        let (mut context, heard) = desk_of(Form::Clients(1));
        asks(&context, 5, 1);
        assert_eq!(answers(&mut context, "client-auth-nt 5 1"), ACCEPTED);
        assert_eq!(answers(&mut context, "client-auth-nt 5 1"), FAILED);
        assert_eq!(answers(&mut context, "client-pending-auth 5 1 x 60"), NEVER);
        assert_eq!(answers(&mut context, "client-deny 5 1 no"), "SUCCESS: client-deny command succeeded");
        assert_eq!(heard.lock().expect("no thread panicked").len(), 2);
        context.pending_auths.note(&ClientEvent {
            client: 5,
            step: ClientStep::Disconnected,
            env: Vec::new(),
        });
        assert_eq!(answers(&mut context, "client-deny 5 1 no"), "ERROR: client-deny command failed");
    }

    #[test]
    fn only_servers_have_clients() {
        let unsupported =
            |name: &str| format!("ERROR: The '{name}' command is not supported by the current daemon mode");
        for mut context in [context(), desk_of(Form::Statistics).0] {
            for command in ["client-auth 0 0\npush x\nEND", "client-auth-nt 0 0", "client-deny 0 0 no"] {
                let name = command.split(' ').next().unwrap_or_default();
                assert_eq!(answers(&mut context, command), unsupported(name));
            }
            assert_eq!(answers(&mut context, "env-filter"), "SUCCESS: env_filter_level=0");
            assert_eq!(answers(&mut context, "env-filter 2"), "SUCCESS: env_filter_level=2");
            assert_eq!(answers(&mut context, "env-filter x"), "SUCCESS: env_filter_level=0");
        }
    }

    #[test]
    fn what_is_said_of_clients_is_not_logged() {
        let (mut context, _) = desk_of(Form::Clients(1));
        let notes = context.journal.clone();
        context.log.listen(Box::new(move |severity, text| notes.note_line(severity, text)));
        answers(&mut context, "verb 6");
        asks(&context, 5, 1);
        answers(&mut context, "client-pending-auth 5 1 WEB_AUTH::https://a.example/?secret 60");
        answers(&mut context, "client-auth 5 1\npush \"auth-token secret\"\nEND");
        let lines = answers(&mut context, "log all");
        assert!(lines.contains("client-pending-auth 5 1 ...") && !lines.contains("secret"), "{lines}");
    }
}

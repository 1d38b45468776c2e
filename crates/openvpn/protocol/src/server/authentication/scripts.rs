//! The scripts that judge a client (`auth-user-pass-verify`, `plugin`, `tls-verify`): their input, and their answers.

use adit_core::Instant;
use adit_pki::certificate::subject_text;
use base64ct::{Base64, Encoding as _};
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::management::sanitized;
use super::{AuthRequest, AuthResult, Authentication, Check, Kind, Verified, printable, refused};
use crate::access::PasswordScript;
use crate::environment::Environment;
use crate::request::{Event, Request, Script, ScriptFile, ScriptId, ScriptOutcome, ScriptPriority};

/// The exit code by which a script puts off its answer (OpenVPN run_command.h).
const DEFERRED: i32 = 2;
/// The exit code of a program in the place of a `plugin` that could not judge, as its directory was not reached.
const BACK_END_FAILED: i32 = 3;
/// Exit codes of a shell that cannot run a command, or whose command a signal has ended (POSIX, "Exit Status for Commands").
const SHELL_FAULTS: [std::ops::RangeInclusive<i32>; 2] = [126..=127, 129..=159];

impl Authentication {
    /// `tls-verify`, for each certificate shown, the client's own last.
    pub(super) fn check_certificates(&mut self, request: &AuthRequest<'_>, events: &mut impl Extend<Event>) {
        let Some(argv) = self.params.access.tls_verify.clone() else { return };
        for (depth, der) in request.chain.iter().enumerate().rev() {
            let subject = X509Certificate::from_der(der)
                .map(|(_, certificate)| subject_text(certificate.subject()))
                .unwrap_or_default();
            let mut argv = argv.clone();
            argv.extend([depth.to_string(), subject]);
            let env = self.told.clone().finish("tls-verify");
            let files = if self.params.access.export_certificates { vec![exported(der)] } else { Vec::new() };
            let script = self.script(argv, env, files, false);
            self.start(script, Kind::Certificate, events);
        }
    }

    pub(super) fn password_script(
        &mut self,
        request: &AuthRequest<'_>,
        script: &PasswordScript,
        token: Option<Option<Verified>>,
    ) -> Script {
        let hello = request.hello;
        let mut env = self.told.clone();
        if self.params.access.tokens.as_ref().is_some_and(|tokens| tokens.external) {
            self.tell_login(&mut env, token);
        }
        let control = |variable| ScriptFile {
            content: Zeroizing::default(),
            is_argument: false,
            variable: Some(variable),
        };
        let mut files = vec![
            control("auth_control_file"),
            control("auth_pending_file"),
            control("auth_failed_reason_file"),
        ];
        if script.by_file {
            let mut content =
                Zeroizing::new(Vec::with_capacity(request.user.len() + hello.password.len() + 2));
            content.extend_from_slice(request.username(&self.params.access).as_bytes());
            content.push(b'\n');
            // One line each, as in OpenVPN: characters that end a line are left out.
            content.extend_from_slice(sanitized(&hello.password).as_bytes());
            content.push(b'\n');
            files.push(ScriptFile { content, is_argument: true, variable: None });
        }
        let mut run = self.script(script.argv.clone(), env.finish("user-pass-verify"), files, true);
        if !script.by_file {
            run.secrets.push(("password", sanitized(&hello.password)));
        }
        run
    }

    pub(super) fn environment(&self, request: &AuthRequest<'_>) -> Environment {
        let mut env = Environment::new(&self.params.access.env);
        env.peer_info(&request.hello.peer_info);
        env.certificates(request.chain);
        env.place(request.path, false);
        if let Some(name) = request.certified {
            env.set("common_name", name);
        }
        if self.params.access.wants_password() {
            env.set("username", request.username(&self.params.access));
        }
        env
    }

    pub(super) fn script(
        &mut self,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        files: Vec<ScriptFile>,
        defers: bool,
    ) -> Script {
        let timeout = self.params.control.rekey.handshake;
        Script {
            id: self.next_script(),
            source: self.source,
            priority: if self.open { ScriptPriority::Authenticated } else { ScriptPriority::Unauthenticated },
            argv,
            env,
            secrets: Vec::new(),
            files,
            settings: None,
            defers,
            in_order: None,
            beside: None,
            timeout,
        }
    }

    pub(super) fn start(&mut self, script: Script, kind: Kind, events: &mut impl Extend<Event>) {
        self.checks.push(Check { script: script.id, kind, deferred: false });
        events.extend([Event::Request(Request::RunScript(Box::new(script)))]);
    }

    /// A script answered. `None` if it was not one of those that are waited for.
    pub(in crate::server) fn script_done(
        &mut self,
        now: Instant,
        id: ScriptId,
        outcome: &ScriptOutcome,
        events: &mut impl Extend<Event>,
    ) -> Option<AuthResult> {
        let index = self.checks.iter().position(|check| check.script == id)?;
        let kind = self.checks.get(index)?.kind;
        let passed = match (&outcome.exit, deferred_result(outcome)) {
            (Ok(0), _) => true,
            (Ok(DEFERRED), Some(result)) if kind == Kind::Password => result,
            (Ok(DEFERRED), None) if kind == Kind::Password => {
                self.checks.get_mut(index)?.deferred = true;
                return Some(self.put_off(now, outcome, events));
            }
            _ => false,
        };
        if passed {
            self.checks.remove(index);
            events.extend([Event::Request(Request::CancelScript(id))]);
            return Some(self.settled());
        }
        self.forget(events);
        let reason = reason(kind, outcome);
        if is_fault(&outcome.exit) || kind == Kind::BackEnd && outcome.exit == Ok(BACK_END_FAILED) {
            return Some(AuthResult::Failed { reason });
        }
        Some(refused(&self.words_for_client(outcome), reason))
    }

    /// The script's text for the client (`auth_failed_reason_file`).
    fn words_for_client(&self, outcome: &ScriptOutcome) -> String {
        let words = printable(outcome.files.get(2).map_or(&[][..], Vec::as_slice));
        if words.starts_with("TEMP") && !self.knows_temporary { String::new() } else { words }
    }
}

/// A certificate for a script, as PEM (RFC 7468).
fn exported(der: &[u8]) -> ScriptFile {
    let text = Base64::encode_string(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for (number, letter) in text.chars().enumerate() {
        if number > 0 && number % 64 == 0 {
            pem.push('\n');
        }
        pem.push(letter);
    }
    pem.push_str("\n-----END CERTIFICATE-----\n");
    ScriptFile { content: Zeroizing::new(pem.into_bytes()), is_argument: false, variable: Some("peer_cert") }
}

fn reason(kind: Kind, outcome: &ScriptOutcome) -> String {
    let what = match kind {
        Kind::Password => "auth-user-pass-verify",
        Kind::BackEnd => "plugin",
        Kind::Certificate => "tls-verify",
        Kind::Response => "client-crresponse",
    };
    match &outcome.exit {
        Ok(code) if is_fault(&outcome.exit) => format!("{what} failed (exit code {code})"),
        Ok(code) => format!("{what} says no (exit code {code})"),
        Err(why) => format!("{what}: {why}"),
    }
}

/// Whether a script ended so by a fault of its own or of the system, and not as it refuses a client.
pub(in crate::server) fn is_fault(exit: &Result<i32, String>) -> bool {
    exit.as_ref().map_or(true, |code| SHELL_FAULTS.iter().any(|faults| faults.contains(code)))
}

/// The verdict in the first file, as soon as it has one: `1` is yes, `2` not yet, all else no.
pub(in crate::server) fn deferred_result(outcome: &ScriptOutcome) -> Option<bool> {
    outcome.files.first()?.first().filter(|first| **first != b'2').map(|first| *first == b'1')
}

//! `tls-verify`: a script judges each of the server's certificates, the authority's first, before the server is told anything.

use std::collections::VecDeque;

use adit_core::Instant;
use adit_pki::certificate::subject_text;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{Connection, Outcome};
use crate::environment::Environment;
use crate::request::{Event, Request, Script, ScriptId, ScriptOutcome};

/// Certificates that are being judged.
pub(super) struct Judging {
    owner: u64,
    next: u32,
    asked: Option<Asked>,
}

/// The script was asked about the certificate at this depth.
struct Asked {
    script: ScriptId,
    key_id: u8,
    chain: Vec<CertificateDer<'static>>,
    depth: usize,
}

impl Judging {
    /// `owner` names this connection to those who run scripts.
    pub(super) fn new(owner: u64) -> Self {
        Judging { owner, next: 0, asked: None }
    }

    /// The result is not needed any more.
    pub(super) fn cancel(&self, events: &mut VecDeque<Event>) {
        events.extend(self.asked.as_ref().map(|asked| Event::Request(Request::CancelScript(asked.script))));
    }
}

impl Connection {
    /// The server has shown its certificates in that exchange.
    pub(super) fn judge(&mut self, now: Instant, key_id: u8, events: &mut VecDeque<Event>) {
        self.judging.cancel(events);
        let chain = self.channel.peer_certificates();
        self.ask_about(now, (key_id, chain.len(), chain), events);
    }

    /// Asks about the certificate below that depth; there the last was found good.
    fn ask_about(
        &mut self,
        now: Instant,
        (key_id, above, chain): (u8, usize, Vec<CertificateDer<'static>>),
        events: &mut VecDeque<Event>,
    ) {
        self.judging.asked = None;
        let scripts = self.params.local.scripts.as_deref();
        let Some((scripts, argv)) = scripts.and_then(|it| Some((it, it.tls_verify.clone()?))) else {
            return self.channel.say_hello(now, key_id);
        };
        let Some(depth) = above.checked_sub(1) else { return self.channel.say_hello(now, key_id) };
        let subject = chain.get(depth).and_then(|der| X509Certificate::from_der(der).ok());
        let subject = subject.map(|(_, certificate)| subject_text(certificate.subject())).unwrap_or_default();
        let mut env = Environment::new(&scripts.env);
        env.place(self.path, false);
        env.certificates_from(depth, &chain);
        if depth == 0 {
            env.set("common_name", self.channel.peer_name().unwrap_or_default());
        }
        let script = ScriptId { owner: self.judging.owner, number: self.judging.next };
        self.judging.next = self.judging.next.wrapping_add(1);
        self.judging.asked = Some(Asked { script, key_id, chain, depth });
        events.push_back(Event::Request(Request::RunScript(Box::new(Script {
            id: script,
            source: Some(self.path.remote().ip()),
            authenticated: false,
            argv: argv.into_iter().chain([depth.to_string(), subject]).collect(),
            env: env.finish("tls-verify"),
            secrets: Vec::new(),
            files: Vec::new(),
            settings: None,
            defers: false,
            in_order: None,
            beside: None,
            timeout: self.params.control.hand_window,
        }))));
    }

    /// A script has ended.
    pub(in crate::client) fn script_done(
        &mut self,
        now: Instant,
        id: ScriptId,
        outcome: &ScriptOutcome,
        events: &mut VecDeque<Event>,
    ) {
        let Some(asked) = self.judging.asked.take_if(|asked| asked.script == id) else { return };
        let Asked { key_id, chain, depth, .. } = asked;
        let why = match &outcome.exit {
            Ok(0) => return self.ask_about(now, (key_id, depth, chain), events),
            Ok(code) => format!("it ended with exit code {code}"),
            Err(why) => why.clone(),
        };
        let reason = format!("tls-verify refuses the server's certificate at depth {depth}: {why}");
        self.verdict = Some(match self.params.tls_exit {
            true => Outcome::Fatal(format!("{reason} (tls-exit)")),
            false => Outcome::Retry { reason, advance: true },
        });
    }
}

//! `tls-verify`: a script judges each of the server's certificates, the authority's first, before the client sends
//! anything of itself.

use adit_core::Instant;
use adit_pki::certificate::subject_text;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::news::news;
use super::{Connection, Outcome};
use crate::environment::Environment;
use crate::outbox::Outbox;
use crate::request::{ConnectionFailure, Event, Request, Script, ScriptId, ScriptOutcome, ScriptPriority};

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
    pub(super) fn cancel(&self, events: &mut Outbox) {
        events.extend(self.asked.as_ref().map(|asked| Event::Request(Request::CancelScript(asked.script))));
    }
}

impl Connection {
    /// The server has shown its certificates in that exchange.
    pub(super) fn judge(&mut self, now: Instant, key_id: u8, events: &mut Outbox) {
        self.judging.cancel(events);
        let chain = self.channel.peer_certificates();
        self.ask_about(now, (key_id, chain.len(), chain), events);
    }

    /// Asks about the certificate below that depth; there the last was found good.
    fn ask_about(
        &mut self,
        now: Instant,
        (key_id, above, chain): (u8, usize, Vec<CertificateDer<'static>>),
        events: &mut Outbox,
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
            priority: ScriptPriority::Unauthenticated,
            argv: argv.into_iter().chain([depth.to_string(), subject]).collect(),
            env: env.finish("tls-verify"),
            secrets: Vec::new(),
            files: Vec::new(),
            settings: None,
            defers: false,
            in_order: None,
            beside: None,
            timeout: self.params.control.rekey.handshake,
        }))));
    }

    /// A script has ended.
    pub(in crate::client) fn script_done(
        &mut self,
        now: Instant,
        id: ScriptId,
        outcome: &ScriptOutcome,
        events: &mut Outbox,
    ) {
        let Some(asked) = self.judging.asked.take_if(|asked| asked.script == id) else { return };
        let Asked { key_id, chain, depth, .. } = asked;
        let why = match &outcome.exit {
            Ok(0) => return self.ask_about(now, (key_id, depth, chain), events),
            Ok(code) => format!("it ended with exit code {code}"),
            Err(why) => why.clone(),
        };
        let reason = format!("tls-verify refuses the server's certificate at depth {depth}: {why}");
        news(Request::ConnectionFailed(ConnectionFailure::Tls(None)), events);
        self.verdict = Some(match self.params.tls_exit {
            true => Outcome::Fatal(format!("{reason} (tls-exit)")),
            false => Outcome::Retry { reason, advance: true },
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use adit_core::{Instant, Path, Transport};
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng as _;
    use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

    use crate::client_hello::{client_hello, server_hello};
    use crate::control_channel::{ControlChannel, ControlOutput};
    use crate::testing::{Authority, client_params, server_params};
    use crate::wire::Sid;
    use crate::wrap::WrapConfig;

    /// Otherwise the server would be connected while the script still judges it.
    #[test]
    fn a_server_that_speaks_before_it_was_judged_is_refused() {
        let authority = Authority::new();
        let credentials = authority.issue("alice", ClientAuth);
        let mut client = client_params(&credentials, WrapConfig::Plain, Transport::Udp);
        client.control.holds_hello = true;
        let server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        let now = Instant::ORIGIN + Duration::from_secs(1);
        let path = Path::Udp { socket: 0, remote: ([192, 0, 2, 1], 1194).into() };
        let hello = client_hello(&client, path);
        let control = Arc::new(client.control.clone());
        let mut ours = ControlChannel::client(now, control, hello, ChaCha20Rng::from_seed([1; 32])).unwrap();
        let mut datagram = Vec::new();
        assert!(ours.poll_transmit(now, &mut datagram));
        let sid = Sid(datagram[1..9].try_into().unwrap());
        let (control, rng) = (Arc::new(server.control.clone()), ChaCha20Rng::from_seed([2; 32]));
        let mut theirs = ControlChannel::server(now, control, WrapConfig::Plain, (sid, None), rng).unwrap();
        theirs.handle(now, &datagram).unwrap();
        let mut outputs = Vec::new();
        for _ in 0..20 {
            datagram.clear();
            while theirs.poll_transmit(now, &mut datagram) {
                // It takes no more once it has failed.
                let _ = ours.handle(now, &datagram);
                datagram.clear();
            }
            while ours.poll_transmit(now, &mut datagram) {
                let _ = theirs.handle(now, &datagram);
                datagram.clear();
            }
            let new: Vec<_> = std::iter::from_fn(|| ours.poll_output()).collect();
            if new.iter().any(|output| matches!(output, ControlOutput::Judge { key_id: 0 })) {
                theirs.answer_hello(now, 0, server_hello(&server, path, false));
            }
            outputs.extend(new);
        }
        let count = |is: fn(&ControlOutput) -> bool| outputs.iter().filter(|output| is(output)).count();
        assert_eq!(count(|output| matches!(output, ControlOutput::Judge { .. })), 1);
        assert_eq!(count(|output| matches!(output, ControlOutput::Established { .. })), 0);
        let reason = outputs.iter().find_map(|output| match output {
            ControlOutput::Failed { reason, .. } => Some(reason.as_str()),
            _ => None,
        });
        assert!(reason.is_some_and(|reason| reason.contains("came before ours")), "{reason:?}");
    }
}

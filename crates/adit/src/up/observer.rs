//! What happens in the tunnel, as lines of the log.

use adit_core::{Ended, Event, Protocol, Severity};
use adit_io::{Handle, Observer};

use super::clients::Clients;
use super::credentials::CredentialPrompt;
use super::management::Watcher;
use super::notify::Notifier;
use super::scripts::Scripts;
use crate::log::Logger;

/// Writes events to the log, and does what the protocol asks of the program.
pub(super) struct LogObserver<P> {
    log: Logger,
    notifier: Notifier,
    handle: Handle<P>,
    clients: Option<Clients>,
    prompt: Option<CredentialPrompt>,
    scripts: Option<Scripts>,
    watcher: Option<Watcher>,
}

impl<P> LogObserver<P> {
    /// `clients` answers a server that asks about its clients, `prompt` a client that needs
    /// a password or an answer, `watcher` the management client.
    pub(super) fn new(
        (log, notifier): (Logger, Notifier),
        handle: Handle<P>,
        clients: Option<Clients>,
        (prompt, scripts): (Option<CredentialPrompt>, Option<Scripts>),
        watcher: Option<Watcher>,
    ) -> Self {
        LogObserver { log, notifier, handle, clients, prompt, scripts, watcher }
    }
}

impl<P: Protocol + 'static> Observer for LogObserver<P> {
    fn event(&mut self, event: &Event, tun_name: &str) {
        if let Some(watcher) = &mut self.watcher {
            watcher.event(event, tun_name);
        }
        match event {
            Event::Report(report) => self.log.log(report.severity, report),
            Event::Up(settings) => {
                let addresses: Vec<String> = settings.addresses.iter().map(ToString::to_string).collect();
                let addresses =
                    if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") };
                let text = format_args!("tunnel up: {tun_name} with {addresses}, MTU {}", settings.mtu);
                self.notifier.status(&text.to_string());
                self.log.log(Severity::Info, text);
            }
            Event::Down => {
                let text = format_args!("tunnel down: {tun_name}");
                self.notifier.status(&text.to_string());
                self.log.log(Severity::Info, text);
            }
            Event::PeerUp { info, .. } => {
                let addresses: Vec<String> = info.addresses.iter().map(ToString::to_string).collect();
                let text = format_args!(
                    "{}: {} connected ({}; {}{}; {})",
                    info.path,
                    info.name,
                    addresses.join(", "),
                    info.cipher,
                    if info.epochs { ", epochs" } else { "" },
                    info.tls
                );
                self.log.log(Severity::Info, text);
            }
            Event::PeerDown { peer, reason } => {
                self.log.log(Severity::Debug, format_args!("peer {} down: {reason}", peer.0));
            }
            Event::WantPeerSettings { peer, name } => {
                if let Some(clients) = &self.clients {
                    clients.look_up(*peer, name.clone());
                }
            }
            Event::Leased(entry) => {
                if let Some(clients) = &self.clients {
                    clients.leased(entry.clone());
                }
            }
            Event::RunScript(script) => {
                if let Some(scripts) = &self.scripts {
                    scripts.run(script, tun_name);
                }
            }
            Event::DropScript(id) => {
                if let Some(scripts) = &self.scripts {
                    scripts.forget(*id);
                }
            }
            Event::AskCredentials { reason } => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.ask(reason.clone(), self.handle.clone());
                }
            }
            Event::AskResponse(challenge) => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.answer(challenge, self.handle.clone());
                }
            }
            Event::Ended(Ended::Shutdown) => {
                self.notifier.stopping();
                self.log.log(Severity::Info, "ended on request");
            }
            // `adit up` says why as its last word.
            Event::Ended(Ended::Failed(_)) | Event::Data(_) | Event::Open { .. } | Event::Close { .. } => {}
            // Who is at the management socket hears of it.
            Event::Client(_) => {}
        }
    }
}

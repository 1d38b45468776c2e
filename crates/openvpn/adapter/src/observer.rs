//! The events of the tunnel, as lines of the log.

use adit_core::{Ended, Protocol, Severity, TunnelSettings};
use adit_io::{Handle, Observer};
use adit_openvpn::request::{Event, Request};

use super::back_ends::Programs;
use super::clients::Clients;
use super::credentials::CredentialPrompt;
use super::external_key::Signing;
use super::management::Watcher;
use super::proxies::ProxyPrompt;
use super::scripts::environment;
use super::tunnel_scripts::TunnelScripts;
use crate::log_lines::Lines;
use crate::status_source::StatusSource;
use adit_host::log::Logger;
use adit_host::notify::Notifier;

/// The parties that the protocol can ask.
pub(crate) struct Asks {
    /// For a username, a password or an answer.
    pub(crate) prompt: Option<CredentialPrompt>,
    /// For the username and the password of a proxy.
    pub(crate) proxy_prompt: Option<ProxyPrompt>,
    /// To run programs.
    pub(crate) programs: Programs,
    /// To make a step of a TLS handshake, as our key is held elsewhere.
    pub(crate) signing: Option<Signing>,
}

/// Writes events to the log, and does what the protocol asks of the program.
pub(crate) struct LogObserver<P: Protocol> {
    log: Logger,
    lines: Lines,
    notifier: Notifier,
    handle: Handle<P>,
    clients: Option<Clients>,
    asks: Asks,
    tunnel_scripts: Option<TunnelScripts>,
    watcher: Option<Watcher>,
}

impl<P: Protocol> LogObserver<P> {
    /// `clients` answers a server that asks about its clients, `asks` what else a protocol asks; `watcher` is for the management
    /// client.
    pub(crate) fn new(
        (log, notifier): (Logger, Notifier),
        handle: Handle<P>,
        clients: Option<Clients>,
        asks: Asks,
        tunnel_scripts: Option<TunnelScripts>,
        watcher: Option<Watcher>,
    ) -> Self {
        let lines = Lines::default();
        LogObserver { log, lines, notifier, handle, clients, asks, tunnel_scripts, watcher }
    }

    /// The driver has ended: the last script runs. Says why the tunnel failed, if a script has made it fail.
    pub(crate) fn finish(&mut self, tun_name: &str) -> Option<String> {
        self.tunnel_scripts.as_mut()?.finish(tun_name)
    }

    fn tell_tunnel_scripts(&mut self, event: &Event, tun_name: &str) {
        let Some(scripts) = &mut self.tunnel_scripts else { return };
        match event {
            Event::Open { .. } => scripts.connecting(tun_name),
            Event::Report(_) => scripts.settle_loss(tun_name),
            Event::PeerDown { .. } => scripts.peer_down(),
            Event::Up(_) => scripts.up(tun_name),
            Event::Down => scripts.down(tun_name),
            _ => {}
        }
    }
}

impl<P: StatusSource> Observer<P> for LogObserver<P> {
    fn event(&mut self, event: &Event, tun_name: &str) {
        if let Some(watcher) = &mut self.watcher {
            watcher.event(event);
        }
        self.tell_tunnel_scripts(event, tun_name);
        self.lines.tell(event, self.clients.is_some(), &mut self.log);
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
                    if info.detail.epochs { ", epochs" } else { "" },
                    info.detail.tls
                );
                self.log.log(Severity::Info, text);
            }
            Event::PeerDown { peer, reason } => {
                self.log.log(Severity::Debug, format_args!("peer {} down: {reason}", peer.0));
            }
            Event::Ended(Ended::Shutdown) => {
                self.notifier.stopping();
                // In OpenVPN's manner, its own line has said so and is the last one.
                if self.log.manner().is_own() {
                    self.log.log(Severity::Info, "ended on request");
                }
            }
            // `adit up` says why as its last word.
            Event::Ended(Ended::Failed(_)) | Event::Open { .. } | Event::Close { .. } => {}
            // They go elsewhere: to the data plane, to `request`, to the other endpoints.
            Event::Data(_) | Event::Request(_) | Event::LeasesMoved => {}
        }
    }

    fn device_ready(&mut self, settings: &TunnelSettings, tun_name: &str) -> bool {
        self.tunnel_scripts.as_mut().is_none_or(|scripts| scripts.device_ready(settings, tun_name))
    }

    fn going_down(&mut self, tun_name: &str) {
        if let Some(scripts) = &mut self.tunnel_scripts {
            scripts.going_down(tun_name);
        }
    }

    /// A server's `up` has failed: it never begins.
    fn started(&mut self) -> Result<(), String> {
        self.tunnel_scripts.as_ref().and_then(TunnelScripts::failure).map_or(Ok(()), Err)
    }

    fn request(&mut self, request: Request, tun_name: &str) {
        self.lines.request(&request, &mut self.log);
        if let Some(scripts) = &mut self.tunnel_scripts {
            scripts.request(&request, tun_name);
        }
        if let Some(reply) = self.watcher.as_mut().and_then(|watcher| watcher.request(&request, tun_name)) {
            self.handle.reply(reply);
        }
        match request {
            Request::PeerSettings { peer, name } => {
                if let Some(clients) = &self.clients {
                    clients.look_up(peer, name);
                }
            }
            Request::Leased(entry) => {
                if let Some(clients) = &self.clients {
                    clients.leased(entry);
                }
            }
            Request::RunScript(script) => {
                // As in OpenVPN, where a client's device comes after its server has authenticated itself.
                let device = if self.clients.is_some() { tun_name } else { "" };
                self.asks.programs.run(*script, device);
            }
            Request::CancelScript(id) => self.asks.programs.forget(id),
            Request::Credentials { reason } => {
                if let Some(prompt) = &mut self.asks.prompt {
                    prompt.ask(reason, self.handle.clone());
                }
            }
            Request::Challenge(challenge) => {
                if let Some(prompt) = &mut self.asks.prompt {
                    prompt.answer(&challenge, self.handle.clone());
                }
            }
            Request::ProxyCredentials { remote, refused } => {
                if let Some(prompt) = &mut self.asks.proxy_prompt {
                    prompt.ask((remote, refused), self.handle.clone());
                }
            }
            Request::ProxyCredentialsNotNeeded => {
                if let Some(prompt) = &self.asks.proxy_prompt {
                    prompt.withdraw();
                }
            }
            Request::TlsStep(step) => {
                if let Some(signing) = &self.asks.signing {
                    signing.make(step);
                }
            }
            // The tunnel's scripts hear of these, and those about a server's clients of its routes.
            Request::TunnelFacts(facts) => {
                if let (Some(scripts), true) = (&self.asks.programs.scripts, self.clients.is_some()) {
                    scripts.add_environment(environment(*facts));
                }
            }
            Request::PeerFacts(_) | Request::Signal(_) => {}
            // For the log in OpenVPN's manner.
            Request::ConnectionFailed(_) | Request::ClientFailed(_) | Request::ExitNotice { .. } => {}
            // The management client hears of these, or is asked.
            Request::Client(_)
            | Request::Progress(_)
            | Request::MayGoOn { .. }
            | Request::Remote(_)
            | Request::ServerInfo(_)
            | Request::AuthFailed(_)
            | Request::ServerNotice(_)
            | Request::Echo(_) => {}
        }
    }
}

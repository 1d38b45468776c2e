//! The settings that each kind of tunnel takes of a configuration that is read again.

use std::sync::PoisonError;

use adit_core::{Command, Protocol, Severity, UnixTime};
use adit_guard::Gathered;
use adit_io::Handle;
use adit_openvpn::credentials::Credentials;
use adit_openvpn::request::Reply;
use adit_openvpn::{Client, Server, StaticTunnel};
use adit_openvpn_config::{ClientConfig, Config, KeyPassword, Remote, Role};
use adit_pki::Revocations;
use zeroize::Zeroizing;

use super::super::external_key::ExternalKey;
use super::super::revocations::{self, Other};
use super::super::unlock;
use super::super::{attempts, proxies, static_tunnel, translate};
use super::{Prepared, Reconfigure, Source};
use crate::expiry::Expiry;
use crate::fault::Fault;
use adit_host::configuration;

/// The certificate and key of a new configuration: those in use if nothing was said about them anew.
fn credentials(
    (old, new): (&Config, &Config),
    gathered: &Gathered,
    in_use: &Credentials,
) -> Result<Credentials, Fault> {
    let (before, now) = (&old.tls, &new.tls);
    let same = (&before.ca, &before.identity, &before.pkcs12) == (&now.ca, &now.identity, &now.pkcs12);
    if same {
        return Ok(in_use.clone());
    }
    let password = match &now.key_password {
        KeyPassword::Prompt => None,
        KeyPassword::File(path) => gathered.files.iter().find(|(name, _)| name == path),
    };
    let password = password.and_then(|(_, content)| content.as_ref().ok());
    let line =
        password.map(|text| String::from_utf8_lossy(text).lines().next().unwrap_or_default().to_owned());
    let mut credentials = unlock::again(new, line.map(Zeroizing::new))?;
    // Its holder, and with it the certificate, stays.
    if now.external.is_some() {
        credentials.certificate.clone_from(&in_use.certificate);
    }
    Ok(credentials)
}

/// Certificates and revocation lists of a tunnel with TLS.
#[derive(Clone)]
pub(crate) struct Trust {
    pub(crate) credentials: Credentials,
    /// The key of `credentials`, where it is held elsewhere.
    pub(crate) key: Option<ExternalKey>,
    pub(crate) lists: Option<Revocations>,
    pub(crate) expiry: Expiry,
}

impl Trust {
    /// The authorities of another configuration, and its lists if they are others.
    fn changed(
        &self,
        (old, new): (&Config, &Config),
        (gathered, source): (&Gathered, &Source),
    ) -> Result<(Self, Option<Other>), Fault> {
        let credentials = credentials((old, new), gathered, &self.credentials)?;
        let mut trust = Trust { credentials, ..self.clone() };
        if old.tls.crl == new.tls.crl {
            return Ok((trust, None));
        }
        let other = revocations::again(new.tls.crl.as_ref(), &source.file, &source.files, &self.expiry)
            .map_err(|why| ("crl-verify", why))?;
        trust.lists.clone_from(&other.lists);
        Ok((trust, Some(other)))
    }

    /// Warns of what has no effect, and before these expire.
    fn note(&self, config: &Config, source: &Source) {
        let mut log = source.log.clone();
        for warning in translate::warnings(config, &self.credentials, self.lists.as_ref()) {
            log.log(Severity::Warning, warning);
        }
        self.expiry.note_certificates(&self.credentials);
    }

    /// Watches these lists from now on, if there are others.
    fn watch<P: Protocol<Reply = Reply> + 'static>(
        &self,
        other: Option<Other>,
        crl: &revocations::Watch,
        handle: &Handle<P>,
    ) {
        if let Some(other) = other {
            crl.change(other, handle.clone(), (&self.credentials.ca, &self.expiry));
        }
    }
}

/// For a configuration of another kind of tunnel, which `changes::compare` refuses.
fn nothing() -> Result<Prepared, Fault> {
    Ok(Prepared::new(|| {}))
}

/// A configuration with the routes to names that were looked up at the start.
fn with_looked_up(config: &Config, source: &Source) -> Config {
    let mut config = config.clone();
    config.routes.extend(source.looked_up.iter().cloned());
    config
}

/// The remotes of a client, in the order in which they are tried.
#[derive(Clone)]
pub(crate) struct Remotes(Vec<Remote>);

impl Remotes {
    /// The remotes of a client's configuration.
    pub(crate) fn of(config: &Config) -> Self {
        match &config.role {
            Role::Client(client) => Remotes(client.remotes.clone()),
            Role::Server(_) | Role::PointToPoint(_) => Remotes(Vec::new()),
        }
    }

    /// Puts those of the new configuration into the order in which they are tried: that of before, if they are the same.
    /// Gives where each stands in the file, if they are others.
    fn take(&mut self, old: &Config, new: &mut Config) -> Result<Option<Vec<usize>>, Fault> {
        let (Role::Client(before), Role::Client(client)) = (&old.role, &mut new.role) else {
            return Ok(None);
        };
        let of = |client: &ClientConfig| {
            (client.remotes.clone(), client.remote_random, client.remote_random_hostname)
        };
        if of(before) == of(client) {
            client.remotes.clone_from(&self.0);
            return Ok(None);
        }
        let mut in_file: Vec<Option<Remote>> = client.remotes.iter().cloned().map(Some).collect();
        attempts::shuffle(new).map_err(|_| ("remote-random", "no randomness from the system".to_owned()))?;
        *self = Remotes::of(new);
        let place = |remote: &Remote| {
            let place = in_file.iter().position(|other| other.as_ref() == Some(remote))?;
            in_file.get_mut(place)?.take();
            Some(place)
        };
        Ok(Some(self.0.iter().filter_map(place).collect()))
    }
}

/// A server's part.
pub(crate) struct ServerKind {
    pub(crate) handle: Handle<Server>,
    pub(crate) trust: Trust,
    /// Makes tokens, if the file has no key for them.
    pub(crate) secret: Zeroizing<[u8; 32]>,
    pub(crate) wall: UnixTime,
}

impl Reconfigure for ServerKind {
    const CONNECTS: bool = false;

    fn prepare(&mut self, old: &Config, new: &Config, with: (&Gathered, &Source)) -> Result<Prepared, Fault> {
        let Role::Server(server) = &new.role else { return nothing() };
        let source = with.1;
        let (trust, other) = self.trust.changed((old, new), with)?;
        let lists = trust.lists.clone();
        let params =
            translate::server_params(new, server, &trust.credentials, lists, &self.secret, self.wall)
                .map_err(|error| (error.directive(), error.to_string()))?;
        trust.note(new, source);
        self.trust = trust.clone();
        let (files, crl, handle) = (source.per_client.clone(), source.crl.clone(), self.handle.clone());
        let directory = server.per_client.directory.as_deref();
        let directory = directory.map(|directory| configuration::find(&source.file, directory));
        let exclusive = server.per_client.exclusive;
        Ok(Prepared::new(move || {
            if let Some(files) = files {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                (files.directory, files.exclusive) = (directory, exclusive);
            }
            handle.change(Box::new(move |server, _| server.reconfigure(params)));
            trust.watch(other, &crl, &handle);
        }))
    }

    fn restart(&self) {
        self.handle.command(Command::Restart);
    }
}

/// A client's part.
pub(crate) struct ClientKind {
    pub(crate) handle: Handle<Client>,
    pub(crate) remotes: Remotes,
    pub(crate) trust: Trust,
    pub(crate) wall: UnixTime,
}

impl Reconfigure for ClientKind {
    const CONNECTS: bool = true;

    fn prepare(&mut self, old: &Config, new: &Config, with: (&Gathered, &Source)) -> Result<Prepared, Fault> {
        let source = with.1;
        let (trust, other) = self.trust.changed((old, new), with)?;
        // Before the remotes of the start take the place of the file's: they hold the answers that were given for proxies.
        let asks_later = proxies::ask_later(new);
        let mut new = with_looked_up(new, source);
        let mut remotes = self.remotes.clone();
        let others = remotes.take(old, &mut new)?;
        let Role::Client(client) = &new.role else { return nothing() };
        let lists = trust.lists.clone();
        let own = (&trust.credentials, trust.key.as_ref());
        let mut params =
            translate::client_params(&new, client, own, source.resolve_timeout, lists, self.wall)
                .map_err(|error| (error.directive(), error.to_string()))?;
        attempts::say_what_can_be_asked(client, &mut params);
        attempts::ask_before_attempts((&new, asks_later), &mut params);
        trust.note(&new, source);
        (self.trust, self.remotes) = (trust.clone(), remotes);
        let (crl, handle) = (source.crl.clone(), self.handle.clone());
        let commit = move || {
            handle.change(Box::new(move |client, _| client.reconfigure(params)));
            trust.watch(other, &crl, &handle);
        };
        Ok(Prepared { remotes: others, commit: Box::new(commit) })
    }

    fn restart(&self) {
        self.handle.command(Command::Restart);
    }
}

/// The part of the listening end of a point-to-point tunnel.
pub(crate) struct PointKind {
    pub(crate) handle: Handle<Server>,
    pub(crate) trust: Trust,
    pub(crate) wall: UnixTime,
}

impl Reconfigure for PointKind {
    const CONNECTS: bool = false;

    fn prepare(&mut self, old: &Config, new: &Config, with: (&Gathered, &Source)) -> Result<Prepared, Fault> {
        let Role::PointToPoint(point) = &new.role else { return nothing() };
        let source = with.1;
        let (trust, other) = self.trust.changed((old, new), with)?;
        let new = with_looked_up(new, source);
        // Where the other end may be is known to the protocol.
        let beside = (self.wall, None);
        let params =
            translate::point_to_point_params(&new, point, &trust.credentials, trust.lists.clone(), beside)
                .map_err(|error| (error.directive(), error.to_string()))?;
        trust.note(&new, source);
        self.trust = trust.clone();
        let (crl, handle) = (source.crl.clone(), self.handle.clone());
        Ok(Prepared::new(move || {
            handle.change(Box::new(move |server, _| server.reconfigure(params)));
            trust.watch(other, &crl, &handle);
        }))
    }

    fn restart(&self) {
        self.handle.command(Command::Restart);
    }
}

/// The part of a tunnel with a static key that waits, or of one that connects.
pub(crate) struct StaticKind<const CONNECTS: bool> {
    pub(crate) handle: Handle<StaticTunnel>,
    pub(crate) remotes: Remotes,
    pub(crate) wall: UnixTime,
}

impl<const CONNECTS: bool> Reconfigure for StaticKind<CONNECTS> {
    const CONNECTS: bool = CONNECTS;

    fn prepare(
        &mut self,
        old: &Config,
        new: &Config,
        (_, source): (&Gathered, &Source),
    ) -> Result<Prepared, Fault> {
        let Some(secret) = &new.secret else { return nothing() };
        let mut new = with_looked_up(new, source);
        let others = self.remotes.take(old, &mut new)?;
        // Where the other end may be is known to the protocol.
        let params = static_tunnel::params(&new, secret, source.resolve_timeout, (self.wall, None));
        let handle = self.handle.clone();
        let commit = move || {
            handle.change(Box::new(move |tunnel, _| tunnel.reconfigure(params)));
        };
        Ok(Prepared { remotes: others, commit: Box::new(commit) })
    }

    fn restart(&self) {
        self.handle.command(Command::Restart);
    }
}

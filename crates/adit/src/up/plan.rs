//! From a configuration to a protocol with its parameters.

use std::sync::Arc;
use std::time::Duration;

use adit_config::openvpn::{
    ClientConfig, Config, Parsed, PointToPointConfig, Role, ServerConfig, SharedSecret,
};
use adit_core::{Severity, UnixTime};
use adit_openvpn::credentials::{CredentialError, Credentials};
use adit_openvpn::params::ClientParams;
use adit_openvpn::{Client, Server, StaticTunnel};
use adit_pki::Revocations;
use rand_core::{OsRng, TryRngCore as _};
use zeroize::Zeroizing;

use super::credentials::CredentialPrompt;
use super::external_key::{self, ExternalKey};
use super::management::{Management, PendingQueries};
use super::peer_names::PeerNames;
use super::proxies::ProxyPrompt;
use super::reload::{self, ClientKind, PointKind, Reloads, Remotes, ServerKind, StaticKind, Trust};
use super::run::{Own, Watched};
use super::startup::Member;
use super::terminal::Terminal;
use super::tunnel::{Tunnel, no_randomness};
use super::{Expiry, Failure, clients, proxies, revocations, static_tunnel, translate, unlock};

/// What a server may ask the person at the terminal, in OpenVPN's words: to open a page, or a question.
const QUESTIONS: &str = "webauth,openurl,crtext";

/// What a protocol over TLS is made of, whichever end it is.
struct Ingredients {
    credentials: Credentials,
    /// The key of `credentials`, where it is held elsewhere.
    key: Option<ExternalKey>,
    lists: Option<Revocations>,
    watched: Watched,
    questions: Option<Arc<PendingQueries>>,
    /// The wall clock at the origin of our own.
    wall: UnixTime,
    seed: [u8; 32],
}

impl Tunnel<'_> {
    /// Makes the protocol that the configuration asks for, and runs it until it ends.
    ///
    /// # Errors
    /// Why it did not come up, or ended unasked.
    pub(super) fn run_plan(
        mut self,
        management: Option<Management>,
        member: Member<'_>,
    ) -> Result<(), Failure> {
        // What is learnt now may be wrong.
        let asks_later = proxies::ask_later(&self.parsed.config);
        self.learn_proxy_passwords(management.as_ref(), &member)?;
        let parsed = Arc::clone(&self.parsed);
        if let Some(secret) = &parsed.config.secret {
            return self.run_static(secret, management, member);
        }
        let ingredients = self.ingredients(management.as_ref(), &member)?;
        match &parsed.config.role {
            Role::Client(client) => self.run_client((client, asks_later), ingredients, management, member),
            Role::Server(server) => self.run_server(server, ingredients, management, member),
            Role::PointToPoint(point) => self.run_point_to_point(point, ingredients, management, member),
        }
    }

    /// Reads the passwords of proxies, and asks for those of `stdin`.
    fn learn_proxy_passwords(
        &mut self,
        management: Option<&Management>,
        member: &Member<'_>,
    ) -> Result<(), Failure> {
        let questions = management.and_then(Management::questions);
        let config = &mut Arc::make_mut(&mut self.parsed).config;
        let learnt = proxies::read_files(config, self.file)
            .and_then(|()| proxies::ask(config, questions.as_deref(), &member.startup().early));
        learnt.map_err(|(directive, why)| self.at_line(directive, &why))
    }

    fn run_static(
        self,
        secret: &SharedSecret,
        management: Option<Management>,
        member: Member<'_>,
    ) -> Result<(), Failure> {
        let (config, seed, wall) = (&self.parsed.config, seed()?, wall());
        let names = PeerNames::look_up(config);
        let only_from = names.as_ref().map(PeerNames::addresses);
        let timeout = resolve_timeout(&self.parsed);
        let params = static_tunnel::params(config, secret, timeout, (wall, only_from));
        let expiry = Expiry::new(self.file, &config.role);
        let watched = Watched { revocations: None, expiry, names };
        let (remotes, waits) = (Remotes::of(config), matches!(config.role, Role::PointToPoint(_)));
        let reloads: Reloads<StaticTunnel> = Box::new(move |source, handle| match waits {
            true => reload::reload(source, StaticKind::<false> { handle, remotes, wall }),
            false => reload::reload(source, StaticKind::<true> { handle, remotes, wall }),
        });
        let with = (Own::default(), management, reloads);
        self.run_protocol(watched, with, member, |now| StaticTunnel::new(params, now, seed))
    }

    /// Certificates, keys and lists; asks for what is encrypted.
    fn ingredients(
        &self,
        management: Option<&Management>,
        member: &Member<'_>,
    ) -> Result<Ingredients, Failure> {
        let (config, seed) = (&self.parsed.config, seed()?);
        let expiry = Expiry::new(self.file, &config.role);
        let (lists, mut source) = revocations::load(config.tls.crl.as_ref(), self.file, &expiry)
            .map_err(|error| self.at_line("crl-verify", &error))?;
        let questions = management.and_then(Management::questions);
        let mut log = self.log.clone();
        let early = &member.startup().early;
        let at_line = |(directive, why): unlock::Fault| self.at_line(directive, &why);
        let mut credentials =
            unlock::credentials(config, self.file, &mut log, early, questions.as_deref()).map_err(at_line)?;
        let key = external_key::find(config, &mut credentials, management, early).map_err(at_line)?;
        expiry.note_certificates(&credentials);
        source.iter_mut().for_each(|source| source.set_authorities(&credentials.ca));
        for warning in translate::warnings(config, &credentials, lists.as_ref()) {
            log.log(Severity::Warning, warning);
        }
        let names = PeerNames::look_up(config);
        let watched = Watched { revocations: source, expiry, names };
        Ok(Ingredients { credentials, key, lists, watched, questions, wall: wall(), seed })
    }

    fn run_client(
        mut self,
        (client, asks_later): (&ClientConfig, bool),
        with: Ingredients,
        management: Option<Management>,
        member: Member<'_>,
    ) -> Result<(), Failure> {
        let Ingredients { credentials, key, lists, watched, questions, wall, seed } = with;
        let timeout = resolve_timeout(&self.parsed);
        let own = (&credentials, key.as_ref());
        let mut params = translate::client_params(&self.parsed.config, client, own, timeout, lists, wall)
            .map_err(|error| self.locate(&error))?;
        let proxy_prompt = ProxyPrompt::new(client, questions.clone());
        let prompt = CredentialPrompt::new(client.auth.as_ref(), self.file, questions);
        if let Some(auth) = &mut params.auth {
            let answer = prompt.first(&mut self.log, &member.startup().early);
            let answer = answer.map_err(|why| self.at_line("auth-user-pass", &why))?;
            auth.credentials = Some(answer);
            if prompt.is_program() {
                (auth.by_program, auth.challenge) = (true, None);
            } else if auth.challenge.is_some() {
                Terminal::open().map_err(|why| self.at_line("static-challenge", &why))?;
            }
        }
        say_what_can_be_asked(client, &mut params);
        ask_before_attempts((&self.parsed.config, asks_later), &mut params);
        let (expiry, lists) = (watched.expiry.clone(), params.control.revocations.clone());
        let remotes = Remotes::of(&self.parsed.config);
        let signs = key.clone();
        let reloads: Reloads<Client> = Box::new(move |source, handle| {
            let trust = Trust { credentials, key, lists, expiry };
            reload::reload(source, ClientKind { handle, remotes, trust, wall })
        });
        let own = Own { prompt: Some(prompt), proxy_prompt: Some(proxy_prompt), key: signs };
        let with = (own, management, reloads);
        self.run_protocol(watched, with, member, |now| Client::new(params, now, seed))
    }

    fn run_server(
        self,
        server: &ServerConfig,
        with: Ingredients,
        management: Option<Management>,
        member: Member<'_>,
    ) -> Result<(), Failure> {
        let Ingredients { credentials, lists, watched, wall, seed, .. } = with;
        let mut secret = Zeroizing::new([0; 32]);
        OsRng.try_fill_bytes(secret.as_mut_slice()).map_err(no_randomness)?;
        let mut params =
            translate::server_params(&self.parsed.config, server, &credentials, lists, &secret, wall)
                .map_err(|error| self.locate(&error))?;
        let remembered = clients::read_pool_file(server.per_client.pool_file.as_ref())
            .map_err(|error| Failure::World(format!("ifconfig-pool-persist: {error}")))?;
        params.per_client.remembered = remembered;
        let (expiry, lists) = (watched.expiry.clone(), params.control.revocations.clone());
        let reloads: Reloads<Server> = Box::new(move |source, handle| {
            let trust = Trust { credentials, key: None, lists, expiry };
            reload::reload(source, ServerKind { handle, trust, secret, wall })
        });
        let with = (Own::default(), management, reloads);
        let pool = self.shared.as_ref().map(|shared| shared.pool.clone()).unwrap_or_default();
        self.run_protocol(watched, with, member, move |now| Server::with_pool(params, &pool, now, seed))
    }

    fn run_point_to_point(
        self,
        point: &PointToPointConfig,
        with: Ingredients,
        management: Option<Management>,
        member: Member<'_>,
    ) -> Result<(), Failure> {
        let Ingredients { credentials, lists, watched, wall, seed, .. } = with;
        let only_from = watched.names.as_ref().map(PeerNames::addresses);
        let beside = (wall, only_from);
        let params =
            translate::point_to_point_params(&self.parsed.config, point, &credentials, lists.clone(), beside)
                .map_err(|error| self.locate(&error))?;
        let expiry = watched.expiry.clone();
        let reloads: Reloads<Server> = Box::new(move |source, handle| {
            let trust = Trust { credentials, key: None, lists, expiry };
            reload::reload(source, PointKind { handle, trust, wall })
        });
        let with = (Own::default(), management, reloads);
        self.run_protocol(watched, with, member, |now| Server::new(params, now, seed))
    }

    /// An error of the credentials, with the line of the directive at fault.
    fn locate(&self, error: &CredentialError) -> Failure {
        self.at_line(error.directive(), error)
    }
}

/// How long names that do not exist are looked for. A misspelt one shall not go unnoticed for ever, unless the file
/// says so.
pub(super) fn resolve_timeout(parsed: &Parsed) -> Option<Duration> {
    let mentioned = parsed.report.iter().any(|entry| entry.directive == "resolv-retry");
    match &parsed.config.role {
        Role::Client(client) if mentioned => client.resolve_retry,
        _ => Some(Duration::ZERO),
    }
}

/// Tells the server what it may ask of the person at the terminal.
pub(super) fn say_what_can_be_asked(client: &ClientConfig, params: &mut ClientParams) {
    let says = params.peer_info.iter().any(|(name, _)| name == "IV_SSO");
    if client.pull && Terminal::is_there() && !says {
        params.peer_info.push(("IV_SSO".to_owned(), QUESTIONS.to_owned()));
    }
}

/// Has the client ask at the management socket, if there is one, before it connects, and for what a proxy wants to know, if the
/// configuration leaves that open ([`proxies::ask_later`]).
pub(super) fn ask_before_attempts((config, asks_later): (&Config, bool), params: &mut ClientParams) {
    params.asks_for_proxy_credentials = asks_later;
    let Some(management) = &config.process.management else { return };
    params.asks_to_go_on = true;
    params.asks_for_remote = management.query_remote || management.query_proxy;
}

/// The wall clock at the origin of our own.
fn wall() -> UnixTime {
    UnixTime(adit_io::unix_at_origin().as_secs())
}

fn seed() -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    OsRng.try_fill_bytes(&mut seed).map_err(no_randomness)?;
    Ok(seed)
}

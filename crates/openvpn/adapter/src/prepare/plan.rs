//! The parameters of the protocol of an OpenVPN configuration: certificates, keys, lists, and all others.

use std::path::Path;

use adit_core::UnixTime;
use adit_openvpn::credentials::{CredentialError, Credentials};
use adit_openvpn::params::{ClientParams, ServerParams, StaticParams};
use adit_openvpn_config::{
    ClientConfig, Config, ExternalIdentity, ManagementCertificate, Parsed, PointToPointConfig, Role,
    ServerConfig, SharedSecret,
};
use adit_pki::Revocations;
use rand_core::{OsRng, TryRngCore as _};
use zeroize::Zeroizing;

use super::{at_line, stand_in};
use crate::asking::Asking;
use crate::attempts::{ask_before_attempts, resolve_timeout, say_what_can_be_asked};
use crate::credentials::CredentialPrompt;
use crate::expiry::Expiry;
use crate::external_key::{self, ExternalKey};
use crate::fault::Fault;
use crate::peer_names::PeerNames;
use crate::place::place;
use crate::proxies::{self, ProxyPrompt};
use crate::unlock;
use crate::watched::Watched;
use crate::{clients, revocations, static_tunnel, translate};
use adit_host::failure::{Failure, no_randomness};
use adit_host::remarks::Notes;
use adit_host::terminal::Terminal;

/// A protocol with its parameters.
pub(crate) enum Plan {
    /// A static key.
    Static { params: Box<StaticParams>, watched: Watched, wall: UnixTime, seed: [u8; 32] },
    /// The end that connects.
    Client { params: Box<ClientParams>, prompt: CredentialPrompt, proxy_prompt: ProxyPrompt, with: Secured },
    /// A server, which makes tokens with the secret.
    Server { params: Box<ServerParams>, secret: Zeroizing<[u8; 32]>, with: Secured },
    /// The waiting end of a point-to-point tunnel.
    PointToPoint { params: Box<ServerParams>, with: Secured },
}

impl Plan {
    /// The parts of it that may change while the tunnel runs.
    pub(crate) fn watched(&self) -> &Watched {
        match self {
            Plan::Static { watched, .. } => watched,
            Plan::Client { with, .. } | Plan::Server { with, .. } | Plan::PointToPoint { with, .. } => {
                &with.watched
            }
        }
    }
}

/// The parts of which a protocol over TLS is made, at either end.
pub(crate) struct Secured {
    /// Our certificate and key, and the authorities that we trust.
    pub(crate) credentials: Credentials,
    /// The key of `credentials`, where it is held elsewhere.
    pub(crate) key: Option<ExternalKey>,
    /// The revocation lists.
    pub(crate) lists: Option<Revocations>,
    /// The revocation lists, expiry dates and names of the peer, which may change while the tunnel runs.
    pub(crate) watched: Watched,
    /// The Unix time at the origin of adit's own clock.
    pub(crate) wall: UnixTime,
    /// The seed of the protocol's random numbers.
    pub(crate) seed: [u8; 32],
}

/// Makes the parameters that the configuration asks for. Passwords of proxies are put into the configuration.
///
/// # Errors
/// The first thing that cannot be used, with its line.
pub(crate) fn plan(
    parsed: &mut Parsed,
    file: &Path,
    asking: &Asking<'_>,
    notes: &mut dyn Notes,
) -> Result<Plan, Failure> {
    // This is asked of the configuration before passwords are put into it, as those may be wrong.
    let asks_later = proxies::ask_later(&parsed.config);
    learn_proxy_passwords(parsed, file, asking)?;
    let parsed = &*parsed;
    if let Some(secret) = &parsed.config.secret {
        return static_plan(parsed, file, secret, asking);
    }
    let with = secured(parsed, file, asking, notes)?;
    match &parsed.config.role {
        Role::Client(client) => {
            let source = Source { parsed, file };
            client_plan(&source, (client, asks_later), with, asking, notes)
        }
        Role::Server(server) => server_plan(parsed, file, server, with),
        Role::PointToPoint(point) => point_to_point_plan(parsed, file, point, with),
    }
}

/// A configuration and its file.
struct Source<'a> {
    parsed: &'a Parsed,
    file: &'a Path,
}

/// Reads the passwords of proxies, and asks for those of `stdin`.
fn learn_proxy_passwords(parsed: &mut Parsed, file: &Path, asking: &Asking<'_>) -> Result<(), Failure> {
    let config = &mut parsed.config;
    let learnt = proxies::read_files(config, file).and_then(|()| match asking {
        Asking::Now(_, waiting) => proxies::ask(config, asking.questions().as_deref(), *waiting),
        Asking::Never => Ok(()),
    });
    learnt.map_err(|(directive, why)| at_line(parsed, file, directive, &why))
}

fn static_plan(
    parsed: &Parsed,
    file: &Path,
    secret: &SharedSecret,
    asking: &Asking<'_>,
) -> Result<Plan, Failure> {
    let (config, seed, wall) = (&parsed.config, seed()?, wall());
    let names = peer_names(config, asking);
    let only_from = names.as_ref().map(PeerNames::addresses);
    let params = static_tunnel::params(config, secret, resolve_timeout(parsed), (wall, only_from));
    let expiry = Expiry::new(file, &config.role);
    let watched = Watched { revocations: None, expiry, names };
    Ok(Plan::Static { params: Box::new(params), watched, wall, seed })
}

/// Reads certificates, keys and lists; asks for the password of an encrypted key.
fn secured(
    parsed: &Parsed,
    file: &Path,
    asking: &Asking<'_>,
    notes: &mut dyn Notes,
) -> Result<Secured, Failure> {
    let (config, seed) = (&parsed.config, seed()?);
    let expiry = Expiry::new(file, &config.role);
    let (lists, mut source) = revocations::load(config.tls.crl.as_ref(), file, &expiry)
        .map_err(|error| at_line(parsed, file, "crl-verify", &error))?;
    let (credentials, key) = own(parsed, file, asking, notes)?;
    expiry.note_certificates(&credentials);
    source.iter_mut().for_each(|source| source.set_authorities(&credentials.ca));
    for warning in translate::warnings(config, &credentials, lists.as_ref()) {
        notes.warn(&warning);
    }
    let watched = Watched { revocations: source, expiry, names: peer_names(config, asking) };
    Ok(Secured { credentials, key, lists, watched, wall: wall(), seed })
}

/// Our certificate and key. With [`Asking::Never`], others stand in for those that are not known before the start ([`held_back`]).
fn own(
    parsed: &Parsed,
    file: &Path,
    asking: &Asking<'_>,
    notes: &mut dyn Notes,
) -> Result<(Credentials, Option<ExternalKey>), Failure> {
    let config = &parsed.config;
    let fault = |(directive, why): Fault| at_line(parsed, file, directive, &why);
    external_key::judge(config).map_err(fault)?;
    if let Asking::Never = asking
        && let Some((directive, why)) = held_back(config)
    {
        let text = format_args!("{directive}: {why}");
        notes.left_open(&at_line(parsed, file, directive, &text).why());
        let ca = config.tls.ca.as_ref().map(|pem| pem.text().as_bytes().to_vec());
        return Ok((stand_in::credentials(ca.unwrap_or_default())?, None));
    }
    let mut credentials = unlock::credentials(config, file, asking, notes).map_err(fault)?;
    let key = match asking {
        Asking::Now(management, waiting) => {
            external_key::find(config, &mut credentials, *management, *waiting).map_err(fault)?
        }
        Asking::Never => external_key::without_asking(config, &mut credentials),
    };
    Ok((credentials, key))
}

/// The directive because of which our certificate and key are not known before the start, if there is one, and the reason.
fn held_back(config: &Config) -> Option<(&'static str, &'static str)> {
    match &config.tls.external {
        Some(ExternalIdentity::Management(identity)) => match identity.certificate {
            ManagementCertificate::Given(_) => None,
            ManagementCertificate::Asked { .. } => {
                Some(("management-external-cert", "the program at the management socket has the certificate"))
            }
        },
        Some(ExternalIdentity::Pkcs11(_)) => {
            Some(("pkcs11-providers", "the certificate and its key are on a token"))
        }
        None => unlock::asks_for_password(config)
            .map(|directive| (directive, "it is encrypted, and its password is asked for at the start")),
    }
}

fn client_plan(
    source: &Source<'_>,
    (client, asks_later): (&ClientConfig, bool),
    with: Secured,
    asking: &Asking<'_>,
    notes: &mut dyn Notes,
) -> Result<Plan, Failure> {
    let Source { parsed, file } = *source;
    let own = (&with.credentials, with.key.as_ref());
    let timeout = resolve_timeout(parsed);
    let mut params =
        translate::client_params(&parsed.config, client, own, timeout, with.lists.clone(), with.wall)
            .map_err(|error| locate(parsed, file, &error))?;
    let proxy_prompt = ProxyPrompt::new(client, asking.questions());
    let prompt = CredentialPrompt::new(client.auth.as_ref(), file, asking.questions());
    if let Some(auth) = &mut params.auth {
        let answer = prompt.first(asking, notes);
        auth.credentials = answer.map_err(|why| at_line(parsed, file, "auth-user-pass", &why))?;
        if auth.credentials.is_none() {
            let place = place(parsed, file, &["auth-user-pass"]);
            notes.left_open(&format_args!(
                "{place}: auth-user-pass: what is missing is asked for at the start"
            ));
        }
        if prompt.is_program() {
            (auth.by_program, auth.challenge) = (true, None);
        } else if auth.challenge.is_some() && matches!(asking, Asking::Now(..)) {
            Terminal::open().map_err(|why| at_line(parsed, file, "static-challenge", &why))?;
        }
    }
    say_what_can_be_asked(client, &mut params);
    ask_before_attempts((&parsed.config, asks_later), &mut params);
    Ok(Plan::Client { params: Box::new(params), prompt, proxy_prompt, with })
}

fn server_plan(parsed: &Parsed, file: &Path, server: &ServerConfig, with: Secured) -> Result<Plan, Failure> {
    let mut secret = Zeroizing::new([0; 32]);
    OsRng.try_fill_bytes(secret.as_mut_slice()).map_err(no_randomness)?;
    let lists = with.lists.clone();
    let params =
        translate::server_params(&parsed.config, server, &with.credentials, lists, &secret, with.wall);
    let mut params = params.map_err(|error| locate(parsed, file, &error))?;
    params.per_client.remembered =
        clients::read_pool_file(server.per_client.pool_file.as_ref()).map_err(|error| {
            let error = format!("ifconfig-pool-persist: {error}");
            at_line(parsed, file, "ifconfig-pool-persist", &error)
        })?;
    Ok(Plan::Server { params: Box::new(params), secret, with })
}

fn point_to_point_plan(
    parsed: &Parsed,
    file: &Path,
    point: &PointToPointConfig,
    with: Secured,
) -> Result<Plan, Failure> {
    let only_from = with.watched.names.as_ref().map(PeerNames::addresses);
    let (lists, beside) = (with.lists.clone(), (with.wall, only_from));
    let params = translate::point_to_point_params(&parsed.config, point, &with.credentials, lists, beside)
        .map_err(|error| locate(parsed, file, &error))?;
    Ok(Plan::PointToPoint { params: Box::new(params), with })
}

/// The addresses of the only peer, for which name servers are asked.
fn peer_names(config: &Config, asking: &Asking<'_>) -> Option<PeerNames> {
    match asking {
        Asking::Now(..) => PeerNames::look_up(config),
        Asking::Never => None,
    }
}

/// An error of the credentials, with the line of the directive at fault.
fn locate(parsed: &Parsed, file: &Path, error: &CredentialError) -> Failure {
    at_line(parsed, file, error.directive(), error)
}

/// The Unix time at the origin of adit's own clock.
fn wall() -> UnixTime {
    UnixTime(adit_io::unix_at_origin().as_secs())
}

fn seed() -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    OsRng.try_fill_bytes(&mut seed).map_err(no_randomness)?;
    Ok(seed)
}

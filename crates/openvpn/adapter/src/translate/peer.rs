//! The requirements on a peer's certificate.

use std::time::Duration;

use adit_openvpn::credentials::{self, Credentials};
use adit_openvpn_config as file;
use adit_openvpn_config::Config;
use adit_pki::{CertificateDemand, NameFields, PeerRequirements, Purpose, Revocations};
use rustls_pki_types::CertificateDer;

use crate::scripts;

/// Certificates in `ca` and revocation lists that have no effect, for the log.
pub(crate) fn warnings(
    config: &Config,
    credentials: &Credentials,
    lists: Option<&Revocations>,
) -> Vec<String> {
    let purpose = match &config.role {
        file::Role::Client(_) => Purpose::Server,
        file::Role::Server(_) | file::Role::PointToPoint(_) => Purpose::Client,
    };
    let now = rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(adit_io::unix_now().0));
    credentials::warnings(credentials, purpose, now, lists)
}

/// The authorities for scripts: where there are scripts, they may get the issuer of a certificate.
pub(super) fn authorities(config: &Config, credentials: &Credentials) -> Vec<CertificateDer<'static>> {
    let by_server = matches!(&config.role, file::Role::Server(server) if scripts::any(&server.access) || server.access.management);
    match by_server || config.scripts.commands().next().is_some() {
        true => credentials.authorities(),
        false => Vec::new(),
    }
}

fn demand(config: &Config) -> CertificateDemand {
    match &config.role {
        file::Role::Client(_) | file::Role::PointToPoint(_) => CertificateDemand::Require,
        file::Role::Server(server) => server.access.certificates,
    }
}

pub(super) fn requirements(config: &Config, revocations: Option<Revocations>) -> PeerRequirements {
    let peer = &config.tls.peer;
    PeerRequirements {
        require_usage: peer.usage,
        key_usages: peer.key_usages.clone(),
        extended_usage: peer.extended_usage.clone(),
        fingerprints: peer.fingerprints.clone(),
        issuer_fingerprints: peer.issuer_fingerprints.clone(),
        name: peer.name.clone(),
        name_fields: name_fields(config),
        demand: demand(config),
        revocations,
    }
}

pub(super) fn name_fields(config: &Config) -> NameFields {
    NameFields::new(config.tls.peer.name_fields.clone())
}

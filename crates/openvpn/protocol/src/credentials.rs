//! The way from PEM text to a TLS configuration.

use std::sync::Arc;

use adit_pki::inspect::{OutOfDate, out_of_date};
use adit_pki::signature::{CertificateKey, KeyError, KeyHolder, OwnKey};
use adit_pki::tls::{TlsKey, TlsVerifier};
use adit_pki::{
    Authorities, AuthorityWarning, KeyKind, PeerRequirements, PrivateKey, PrivateKeyError, Purpose,
    Revocations, UnmatchedList, Verifier, pem, private_key,
};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{
    CipherSuite, ClientConfig, NamedGroup, ProtocolVersion, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};
use thiserror::Error;
use webpki::aws_lc_rs as algorithms;
use zeroize::Zeroizing;

use crate::tls::CertificateJudge;

/// The credentials of one end, and the authorities by which it judges its peer, as PEM.
#[derive(Clone)]
pub struct Credentials {
    /// `ca`: one or more trusted certificates. May be empty where fingerprints decide.
    pub ca: Vec<u8>,
    /// `cert`: our certificate, intermediates after it. Empty for a client that shows none.
    pub certificate: Vec<u8>,
    /// `key`: our private key (PKCS#8, PKCS#1 or SEC1), not encrypted. Empty without a certificate.
    pub private_key: Zeroizing<Vec<u8>>,
}

impl Credentials {
    /// The certificates in `ca`; none if they cannot be read.
    pub fn authorities(&self) -> Vec<CertificateDer<'static>> {
        pem::certificates(&self.ca).unwrap_or_default()
    }
}

/// Why credentials cannot be used. Names the configuration's directive.
#[derive(Debug, Error)]
pub enum CredentialError {
    /// The PEM text does not hold what it should.
    #[error("{directive}: {reason}")]
    Pem {
        /// `ca`, `cert` or `key`.
        directive: &'static str,
        /// The fault.
        reason: String,
    },
    /// Our own certificate is outside its validity.
    #[error("cert: our own certificate ({subject}) {problem}; the other end would refuse it: get a new one")]
    Validity {
        /// Its subject.
        subject: String,
        /// `expired at ...` or `is not valid before ...`.
        problem: String,
    },
    /// The private key is not the certificate's.
    #[error(
        "key: this private key does not belong to the certificate in cert; they were mixed up or one is outdated"
    )]
    Mismatch,
    /// The key that is held elsewhere cannot be used.
    #[error("the key of our certificate is held elsewhere, and cannot be used: {0}")]
    External(String),
    /// TLS refuses the combination.
    #[error("TLS cannot be set up with these certificates: {0}")]
    Tls(#[from] rustls::Error),
}

impl CredentialError {
    /// The directive at fault: `ca`, `cert` or `key`.
    pub fn directive(&self) -> &'static str {
        match self {
            CredentialError::Pem { directive, .. } => directive,
            CredentialError::Validity { .. } | CredentialError::Tls(_) | CredentialError::External(_) => {
                "cert"
            }
            CredentialError::Mismatch => "key",
        }
    }
}

/// The surroundings of the credentials.
#[derive(Clone)]
pub struct TlsEnvironment {
    /// Cryptography; its suites and groups are offered in its order.
    pub provider: Arc<CryptoProvider>,
    /// The clock by which certificates are judged.
    pub time: Arc<dyn TimeProvider>,
    /// `tls-version-min` and `tls-version-max`, as the versions they leave.
    pub versions: Vec<&'static SupportedProtocolVersion>,
}

/// AWS-LC with the key exchange that withstands quantum computers first. A peer that does not know it takes
/// the share of X25519 that goes along.
pub fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let hybrid = aws_lc_rs::kx_group::X25519MLKEM768;
    provider.kx_groups.retain(|group| group.name() != hybrid.name());
    provider.kx_groups.insert(0, hybrid);
    provider
}

/// The algorithms of Suite B (RFC 6460), at both of its levels.
static SUITE_B: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[algorithms::ECDSA_P256_SHA256, algorithms::ECDSA_P384_SHA384],
    mapping: &[
        (SignatureScheme::ECDSA_NISTP384_SHA384, &[algorithms::ECDSA_P384_SHA384]),
        (SignatureScheme::ECDSA_NISTP256_SHA256, &[algorithms::ECDSA_P256_SHA256]),
    ],
};

/// Takes away the algorithms that Suite B does not allow (`tls-cert-profile suiteb`).
pub fn restrict_to_suite_b(provider: &mut CryptoProvider) {
    provider.signature_verification_algorithms = SUITE_B;
    provider.cipher_suites.retain(|suite| {
        matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_256_GCM_SHA384
                | CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        )
    });
    provider.kx_groups.retain(|group| matches!(group.name(), NamedGroup::secp384r1 | NamedGroup::secp256r1));
}

impl TlsEnvironment {
    /// AWS-LC, TLS 1.2 and 1.3, and that clock.
    pub fn new(time: Arc<dyn TimeProvider>) -> Self {
        TlsEnvironment { provider: Arc::new(provider()), time, versions: rustls::ALL_VERSIONS.to_vec() }
    }
}

/// The TLS configuration of a client.
pub fn client_tls(
    credentials: &Credentials,
    requirements: PeerRequirements,
    environment: &TlsEnvironment,
) -> Result<Arc<ClientConfig>, CredentialError> {
    let parts = Parts::parse(credentials, &requirements, environment)?;
    client_config(parts.authorities, parts.identity, requirements, environment)
}

/// The TLS configuration of a client whose private key `holder` has; `credentials` have none. A connection that it makes
/// needs [`crate::params::ControlParams::signs_outside`].
///
/// # Errors
/// When the credentials cannot be used, or their key makes no signatures that the versions of TLS allow.
pub fn client_tls_with_external_key(
    credentials: &Credentials,
    holder: Arc<dyn KeyHolder>,
    requirements: PeerRequirements,
    environment: &TlsEnvironment,
) -> Result<Arc<ClientConfig>, CredentialError> {
    let authorities = trusted(credentials, &requirements)?;
    let chain = own_chain(credentials, environment)?;
    let own = chain.first().ok_or_else(|| pem_error("cert", "there is no certificate in it"))?;
    let external = |error: KeyError| CredentialError::External(error.to_string());
    let key = CertificateKey::new(own.clone(), holder).map_err(external)?;
    if let KeyKind::RsaPss { .. } = key.kind() {
        let why = format!("it is {}, which signs from a file alone (key)", key.kind());
        return Err(CredentialError::External(why));
    }
    let key = TlsKey::new(key);
    let mut environment = environment.clone();
    if !key.can_do_tls13() {
        environment.versions.retain(|version| version.version != ProtocolVersion::TLSv1_3);
        if environment.versions.is_empty() {
            return Err(CredentialError::External(
                "it makes RSA signatures by PKCS #1 v1.5 alone, which TLS 1.3 does not allow, and tls-version-min excludes TLS 1.2: \
                 set tls-version-min to 1.2, or use a key that signs by PSS (management-external-key pss)"
                    .to_owned(),
            ));
        }
    }
    let certified = CertifiedKey::new(chain, Arc::new(key));
    client_config(authorities, Some(certified), requirements, &environment)
}

fn client_config(
    authorities: Option<Authorities>,
    certified: Option<CertifiedKey>,
    requirements: PeerRequirements,
    environment: &TlsEnvironment,
) -> Result<Arc<ClientConfig>, CredentialError> {
    let algorithms = environment.provider.signature_verification_algorithms;
    let verifier = Verifier::new(Purpose::Server, authorities, requirements, algorithms.all);
    let verifier = TlsVerifier::new(CertificateJudge(verifier), algorithms);
    let config = ClientConfig::builder_with_details(environment.provider.clone(), environment.time.clone())
        .with_protocol_versions(&environment.versions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match certified {
        Some(certified) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))),
        None => config.with_no_client_auth(),
    };
    // Each OpenVPN key exchange is a full handshake; the peer is known by its certificate, not by a host name.
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// The TLS configuration of a server that asks each client for a certificate.
pub fn server_tls(
    credentials: &Credentials,
    requirements: PeerRequirements,
    environment: &TlsEnvironment,
) -> Result<Arc<ServerConfig>, CredentialError> {
    let parts = Parts::parse(credentials, &requirements, environment)?;
    let algorithms = environment.provider.signature_verification_algorithms;
    let verifier = Verifier::new(Purpose::Client, parts.authorities, requirements, algorithms.all);
    let verifier = TlsVerifier::new(CertificateJudge(verifier), algorithms);
    let identity = parts
        .identity
        .ok_or_else(|| pem_error("cert", "a server needs a certificate and its key (`cert`, `key`)"))?;
    let mut config =
        ServerConfig::builder_with_details(environment.provider.clone(), environment.time.clone())
            .with_protocol_versions(&environment.versions)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    // OpenVPN's servers decide, too (ssl_openssl.c, SSL_OP_CIPHER_SERVER_PREFERENCE).
    config.ignore_client_order = true;
    Ok(Arc::new(config))
}

/// Warnings for the log, one sentence each: certificates in `ca` by which no peer with this purpose can be verified, and
/// revocation lists of other authorities or such as do less than theirs may expect.
pub fn warnings(
    credentials: &Credentials,
    purpose: Purpose,
    now: UnixTime,
    lists: Option<&Revocations>,
) -> Vec<String> {
    // Text that cannot be read is an error when TLS is set up.
    let Ok(authorities) = authorities(&credentials.ca) else { return Vec::new() };
    let mut warnings: Vec<String> =
        authorities.warnings(purpose, now).iter().map(authority_warning).collect();
    warnings.extend(lists.into_iter().flat_map(|lists| list_warnings(&authorities, lists)));
    warnings
}

/// Warnings for the log, one sentence each: revocation lists of authorities that are not in `ca`, and such as do less than their
/// authority may expect.
pub fn warnings_of_lists(ca: &[u8], lists: &Revocations) -> Vec<String> {
    authorities(ca).map_or_else(|_| Vec::new(), |authorities| list_warnings(&authorities, lists))
}

fn authority_warning(warning: &AuthorityWarning) -> String {
    match warning {
        AuthorityWarning::Faulty(_) => format!("ca: {warning}"),
        AuthorityWarning::NoRoot { subject, issuer } => format!(
            "ca: {subject} is an intermediate certificate, and no self-signed CA certificate above it is in ca, so that it verifies nothing: add that of {issuer}"
        ),
    }
}

fn list_warnings(authorities: &Authorities, lists: &Revocations) -> Vec<String> {
    let warning = |UnmatchedList { issuer, trusted }| {
        format!(
            "crl-verify: the revocation list of {issuer} revokes nothing that a CA certificate in ca has issued, as none has that name; ca holds {}",
            trusted.join("; ")
        )
    };
    let lists = lists.current();
    let others = lists.warnings().into_iter().map(|warning| format!("crl-verify: {warning}"));
    authorities.unmatched_lists(&lists).into_iter().map(warning).chain(others).collect()
}

struct Parts {
    /// `None` where fingerprints decide alone.
    authorities: Option<Authorities>,
    identity: Option<CertifiedKey>,
}

impl Parts {
    fn parse(
        credentials: &Credentials,
        requirements: &PeerRequirements,
        environment: &TlsEnvironment,
    ) -> Result<Self, CredentialError> {
        let authorities = trusted(credentials, requirements)?;
        if credentials.certificate.is_empty() && credentials.private_key.is_empty() {
            return Ok(Parts { authorities, identity: None });
        }
        let chain = own_chain(credentials, environment)?;
        Ok(Parts { authorities, identity: Some(identity(chain, &credentials.private_key, environment)?) })
    }
}

/// The authorities that we trust; `None` where fingerprints decide alone.
fn trusted(
    credentials: &Credentials,
    requirements: &PeerRequirements,
) -> Result<Option<Authorities>, CredentialError> {
    match credentials.ca.is_empty() && !requirements.fingerprints.is_empty() {
        true => Ok(None),
        false => authorities(&credentials.ca).map(Some),
    }
}

/// Our certificate, which is valid now, and those that link it to an authority.
fn own_chain(
    credentials: &Credentials,
    environment: &TlsEnvironment,
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let chain = certificates("cert", &credentials.certificate)?;
    if let (Some(own), Some(now)) = (chain.first(), environment.time.current_time()) {
        check_validity(own, now)?;
    }
    Ok(chain)
}

fn authorities(ca: &[u8]) -> Result<Authorities, CredentialError> {
    Authorities::new(certificates("ca", ca)?)
        .map_err(|error| pem_error("ca", format!("a certificate in it cannot be used as a CA: {error}")))
}

fn pem_error(directive: &'static str, reason: impl Into<String>) -> CredentialError {
    CredentialError::Pem { directive, reason: reason.into() }
}

fn certificates(
    directive: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    pem::certificates(pem).map_err(|error| pem_error(directive, error.to_string()))
}

/// Our certificates with their private key.
fn identity(
    chain: Vec<CertificateDer<'static>>,
    pem: &[u8],
    environment: &TlsEnvironment,
) -> Result<CertifiedKey, CredentialError> {
    let key_error = |error: PrivateKeyError| pem_error("key", error.to_string());
    let refused = |error: rustls::Error| match error {
        rustls::Error::InconsistentKeys(_) => CredentialError::Mismatch,
        rustls::Error::General(reason) => match private_key::form(pem) {
            Some(form) => key_error(PrivateKeyError::Refused { form, reason }),
            None => key_error(PrivateKeyError::Damaged),
        },
        other => CredentialError::Tls(other),
    };
    match PrivateKey::read(pem).map_err(key_error)? {
        PrivateKey::Plain(key) => CertifiedKey::from_der(chain, key, &environment.provider).map_err(refused),
        key @ PrivateKey::RsaPss { .. } => {
            let key = OwnKey::new(&key).map_err(|reason| refused(rustls::Error::General(reason)))?;
            rsa_pss_identity(chain, key)
        }
    }
}

/// Our certificates with a private key for PSS alone.
fn rsa_pss_identity(
    chain: Vec<CertificateDer<'static>>,
    key: OwnKey,
) -> Result<CertifiedKey, CredentialError> {
    let own = chain.first().ok_or_else(|| pem_error("cert", "there is no certificate in it"))?;
    let unfit = |error| match error {
        KeyError::Holder(_) => CredentialError::Mismatch,
        other => pem_error("cert", other.to_string()),
    };
    let key = CertificateKey::new(own.clone(), Arc::new(key)).map_err(unfit)?;
    // A signature shows whether the key is the certificate's.
    let signed = key.schemes().first().map(|scheme| key.sign(*scheme, b"adit"));
    match signed {
        Some(Ok(_)) => Ok(CertifiedKey::new(chain, Arc::new(TlsKey::new(key)))),
        _ => Err(CredentialError::Mismatch),
    }
}

fn check_validity(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CredentialError> {
    let found = out_of_date(certificate, now)
        .map_err(|error| pem_error("cert", format!("the certificate cannot be read: {error}")))?;
    match found {
        None => Ok(()),
        Some(OutOfDate { subject, problem }) => Err(CredentialError::Validity { subject, problem }),
    }
}

#[cfg(test)]
mod tests {
    use rustls::SignatureAlgorithm;

    use super::*;

    macro_rules! data {
        ($name:literal) => {
            include_bytes!(concat!("../../../pki/tests/data/", $name))
        };
    }

    #[test]
    fn a_key_for_pss_alone_belongs_to_its_certificate() {
        let of = |certificate: &[u8]| {
            let chain = vec![CertificateDer::from(certificate.to_vec())];
            identity(chain, data!("private_key/rsa-pss.key"), &crate::testing::environment())
        };
        let own = of(data!("signature/rsa-pss.der")).unwrap();
        assert_eq!(own.key.algorithm(), SignatureAlgorithm::RSA);
        assert!(own.key.choose_scheme(&[SignatureScheme::RSA_PSS_SHA256]).is_none());
        for other in [&data!("signature/rsa.der")[..], data!("signature/p256.der")] {
            assert!(matches!(of(other), Err(CredentialError::Mismatch)));
        }
    }
}

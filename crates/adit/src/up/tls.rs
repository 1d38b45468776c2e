//! What TLS may use: versions, suites, groups and algorithms, as the configuration leaves them.

use std::sync::Arc;
use std::time::Duration;

use adit_config::openvpn as file;
use adit_config::openvpn::{CertProfile, Config};
use adit_openvpn::credentials::{TlsEnvironment, provider, restrict_to_suite_b};
use rustls::crypto::aws_lc_rs;
use rustls::time_provider::TimeProvider;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// The machine's clock, for certificates.
#[derive(Debug)]
struct SystemTime;

impl TimeProvider for SystemTime {
    fn current_time(&self) -> Option<rustls_pki_types::UnixTime> {
        Some(rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(adit_io::unix_now().0)))
    }
}

/// TLS as `tls-version-min`, `tls-cipher`, `tls-ciphersuites`, `tls-groups` and `tls-cert-profile` leave it.
pub(super) fn environment(config: &Config) -> TlsEnvironment {
    let tls = &config.tls;
    let mut provider = provider();
    provider.cipher_suites.retain(|suite| {
        let allowed = match suite {
            SupportedCipherSuite::Tls13(_) => &tls.suites,
            SupportedCipherSuite::Tls12(_) => &tls.ciphers,
        };
        allowed.is_empty() || allowed.iter().any(|name| name.id == u16::from(suite.suite()))
    });
    if !tls.groups.is_empty() {
        let all = aws_lc_rs::ALL_KX_GROUPS;
        let group =
            |name: &file::TlsName| all.iter().copied().find(|group| u16::from(group.name()) == name.id);
        provider.kx_groups = tls.groups.iter().filter_map(group).collect();
    }
    if tls.cert_profile == CertProfile::SuiteB {
        restrict_to_suite_b(&mut provider);
    }
    TlsEnvironment { provider: Arc::new(provider), time: Arc::new(SystemTime), versions: versions(config) }
}

fn versions(config: &Config) -> Vec<&'static SupportedProtocolVersion> {
    let (min, max) = (config.tls.version_min, config.tls.version_max.unwrap_or(file::TlsVersion::V1_3));
    let all = [
        (file::TlsVersion::V1_3, &rustls::version::TLS13),
        (file::TlsVersion::V1_2, &rustls::version::TLS12),
    ];
    all.into_iter().filter(|(version, _)| (min..=max).contains(version)).map(|(_, version)| version).collect()
}

//! The settings of TLS: versions, suites, groups and algorithms, as the configuration leaves them.

use std::sync::Arc;
use std::time::Duration;

use adit_openvpn::credentials::{TlsEnvironment, provider, restrict_to_suite_b};
use adit_openvpn_config as file;
use adit_openvpn_config::{CertProfile, Config};
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
pub(crate) fn environment(config: &Config) -> TlsEnvironment {
    let tls = &config.tls;
    let mut provider = provider();
    let named = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls13(_) => &tls.suites,
        SupportedCipherSuite::Tls12(_) => &tls.ciphers,
    };
    let place = |suite: &SupportedCipherSuite| {
        named(suite).iter().position(|name| name.id == u16::from(suite.suite()))
    };
    provider.cipher_suites.retain(|suite| named(suite).is_empty() || place(suite).is_some());
    // Stable: where a list is empty, our own order stays.
    let is_old = |suite: &SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls12(_));
    provider.cipher_suites.sort_by_key(|suite| (is_old(suite), place(suite)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempts::tests::config;

    /// The numbers of versions, of suites of TLS 1.3 and of TLS 1.2, and of groups, in the order of offering.
    fn left_by(lines: &str) -> [Vec<u16>; 4] {
        let TlsEnvironment { provider, versions, .. } = environment(&config(lines));
        let suites = |of_1_3: bool| {
            let suites = provider.cipher_suites.iter();
            let of_it = suites.filter(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)) == of_1_3);
            of_it.map(|suite| u16::from(suite.suite())).collect()
        };
        [
            versions.iter().map(|version| u16::from(version.version)).collect(),
            suites(true),
            suites(false),
            provider.kx_groups.iter().map(|group| u16::from(group.name())).collect(),
        ]
    }

    #[test]
    fn what_the_directives_name_is_left_and_nothing_else() {
        let [versions, suites, ciphers, groups] = left_by("");
        assert_eq!(versions, [0x0304, 0x0303]);
        assert!(suites.len() == 3 && ciphers.len() > 4, "{suites:x?} {ciphers:x?}");
        assert_eq!(groups[0], 0x11ec, "X25519MLKEM768 first");
        assert_eq!(left_by("tls-version-min 1.3\n")[0], [0x0304]);
        assert_eq!(left_by("tls-version-max 1.2\n")[0], [0x0303]);

        let left = left_by("tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256\n");
        assert_eq!((&left[1], &left[2]), (&vec![0x1303], &ciphers));
        let lines = "tls-cipher TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384\n";
        let [_, left, named, _] = left_by(lines);
        assert_eq!((left, named), (suites, vec![0xc02f, 0xc02c]), "in the order in which they are named");
        let lines = "tls-cipher ECDHE-ECDSA-AES256-GCM-SHA384:TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256\n";
        assert_eq!(left_by(lines)[2], [0xc02c, 0xc02f]);
        let lines = "tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256\n";
        assert_eq!(left_by(lines)[1], [0x1303, 0x1301]);
        assert_eq!(left_by("tls-groups secp384r1:X25519\n")[3], [0x0018, 0x001d]);
    }
}

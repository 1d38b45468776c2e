//! Entry points for the fuzz targets to the crate's private decoders, with what each promises. Built for
//! fuzzers and tests alone; the tests show that each entry point reaches its decoder.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Dns, IpNet, is_domain, is_unprintable};
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier as _;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::TokenParams;
use crate::auth_token::{SESSION_ID_LEN, TokenSession, is_token, verify};
use crate::authorities::Authorities;
use crate::certificate::{self, NameFields};
use crate::key_state::KeyStateError;
use crate::params::{Keepalive, LocalSettings};
use crate::pushed::{Pushed, Refused};
use crate::verify::PeerVerifier;
use crate::{NameField, PeerRequirements, Purpose};

/// Reads the options of a push reply, one by one. Gives how many were taken.
///
/// # Panics
///
/// If what they amount to is no tunnel that could be set up, or holds an option that must not be pushed.
pub fn pushed(options: &[&str], route_nopull: bool) -> usize {
    let mut pushed = Pushed::default();
    let mut taken = 0;
    for option in options {
        match pushed.apply(option) {
            Ok(()) => taken += 1,
            Err(Refused::Ignored(why) | Refused::Fatal(why)) => assert!(!why.is_empty()),
        }
    }
    assert!(pushed.peer_id.is_none_or(|id| id < 1 << 24));
    assert!(pushed.tun_mtu.is_none_or(|mtu| (576..=1600).contains(&mtu)));
    let kept = pushed.keepalive(Keepalive::default());
    assert!(kept.ping != Some(Duration::ZERO) && kept.timeout != Some(Duration::ZERO));
    let server = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let settings = pushed.settings(&LocalSettings::default(), route_nopull, 1500, server);
    assert!(settings.addresses.len() <= 2);
    assert!(settings.routes.iter().all(|route| route.destination == route.destination.trunc()));
    let Dns { search, only_for, .. } = &settings.dns;
    assert!(search.iter().chain(only_for).all(|domain| is_domain(domain)), "{:?}", settings.dns);
    if route_nopull {
        assert!(settings.routes.is_empty() && settings.redirect.is_none());
        assert_eq!(settings.dns, Dns::default());
    }
    let of = |v4| settings.addresses.iter().filter(|it| matches!(it, IpNet::V4(_)) == v4).count();
    assert!(of(true) <= 1 && of(false) <= 1);
    taken
}

/// Judges a password that may be a token. Gives whether it is one of ours.
///
/// # Panics
///
/// If something is taken for a token that is none.
pub fn token(params: &TokenParams, username: &str, password: &str, now: u64) -> bool {
    let Some(verified) = verify(params, username, password, now) else { return false };
    assert!(is_token(password) && (!verified.nameless || !username.is_empty()));
    true
}

/// Makes a token at `made` for a client that came at `since`, and judges it.
///
/// # Panics
///
/// If it is not what it was made as, or if it is still good with one letter changed.
pub fn own_token(params: &TokenParams, username: &str, [since, made, now]: [u64; 3], change: usize) {
    let session = TokenSession { id: [7; SESSION_ID_LEN], since };
    let token = session.token(params, username, made);
    let verified = verify(params, username, &token, now).expect("our own token");
    assert!(verified.session == session && !verified.nameless);
    assert!(verified.expired || (made..=made.saturating_add(params.renewal.as_secs() * 2)).contains(&now));
    let other = [username, "x"].concat();
    assert_eq!(verify(params, &other, &token, now).is_some(), username.is_empty(), "the token of another");
    let mut letters: Vec<char> = token.chars().collect();
    let index = change % letters.len();
    letters[index] = if letters[index] == 'A' { 'B' } else { 'A' };
    let forged: String = letters.into_iter().collect();
    assert_eq!(verify(params, username, &forged, now), None, "a changed token");
}

/// Reads a certificate, valid or not, in every way that it is read in. Gives whether it is one at all.
///
/// # Panics
///
/// If a name or a subject holds what must not reach a script or a log.
pub fn certificate(der: &[u8]) -> bool {
    let oid = |dotted: &str| NameField::Subject(dotted.to_owned());
    let fields = [oid("2.5.4.3"), oid("0.9.2342.19200300.100.1.1"), NameField::Serial];
    let emails = [NameField::SubjectEmail, NameField::IssuerEmail];
    let whole = CertificateDer::from(der);
    for field in fields.into_iter().chain(emails) {
        let name = NameFields::new(vec![field]).name(&whole);
        assert!(
            name.is_none_or(|name| {
                !name.is_empty() && name.len() <= 64 && !name.contains(is_unprintable)
            })
        );
    }
    let Ok((_, parsed)) = X509Certificate::from_der(der) else { return false };
    for name in [parsed.subject(), parsed.issuer()] {
        let text = certificate::subject_text(name);
        assert!(!text.contains(is_unprintable), "{text:?}");
        assert_eq!(certificate::has_nul(name), text.replace("\\\\", "").contains("\\00"), "{text:?}");
    }
    let _ = (certificate::key_usage(&parsed), certificate::extended_key_usage(&parsed));
    assert_eq!(certificate::fingerprint(der).len(), 95);
    true
}

/// Judges the certificates that a client shows, its own first, by those in `ca`, all in DER, at that time (in seconds
/// since 1970). `None` if one in `ca` cannot be read.
///
/// # Panics
///
/// If the reason of a refusal holds what must not reach a log.
pub fn path(ca: &[Vec<u8>], shown: &[Vec<u8>], requirements: PeerRequirements, now: u64) -> Option<bool> {
    let der = |certificates: &[Vec<u8>]| -> Vec<CertificateDer<'static>> {
        certificates.iter().cloned().map(CertificateDer::from).collect()
    };
    let authorities = Authorities::new(der(ca)).ok()?;
    let now = rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(now));
    let warnings = authorities.warnings(Purpose::Client, now);
    assert!(warnings.iter().all(|text| !text.contains(is_unprintable)), "{warnings:?}");
    let provider = Arc::new(crate::credentials::provider());
    let verifier = PeerVerifier::new(Purpose::Client, Some(authorities), requirements, provider);
    let shown = der(shown);
    let (leaf, others) = shown.split_first()?;
    let verdict = verifier.verify_client_cert(leaf, others, now).map_err(KeyStateError::from);
    if let Err(error) = &verdict {
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains(is_unprintable), "{text:?}");
    }
    Some(verdict.is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;
    use crate::support::paths::{Case, case};
    use crate::support::{Authority, WALL, judged};

    fn is_judged_rightly(bytes: [u8; 4]) {
        let Case { ca, shown, requirements, good } = case(bytes);
        assert_eq!(path(&ca, &shown, requirements, WALL), Some(good), "{bytes:02x?}");
    }

    /// Each fault by itself, in each layout.
    #[test]
    fn paths_with_one_fault() {
        for layout in 0..=255 {
            is_judged_rightly([0, 0, 0, layout]);
            for (place, bit) in (0..3).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
                let mut bytes = [0, 0, 0, layout];
                bytes[place] = 1 << bit;
                is_judged_rightly(bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn paths_with_many_faults(bytes: [u8; 4]) {
            is_judged_rightly(bytes);
        }
    }

    #[test]
    fn each_entry_point_reaches_its_decoder() {
        let options = ["ifconfig 10.8.0.2 255.255.255.0", "topology subnet", "dhcp-option DOMAIN $(x)"];
        assert_eq!(pushed(&options, false), 2);
        let params = judged::tokens();
        assert!(!token(&params, "ann", "s3 cret", 5));
        for change in 0..100 {
            own_token(&params, "ann", [1, 2, 3], change);
        }
        let pem = Authority::new().issue("alice", ClientAuth).certificate;
        let der = CertificateDer::from_pem_slice(&pem).unwrap();
        assert!(certificate(&der) && !certificate(&der[1..]));
    }
}

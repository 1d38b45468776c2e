//! Certificates and private keys of the file as the machine takes them.

use std::sync::Arc;

use adit_ike::eap::{TlsCredentials, TlsVersions};
use adit_ike::machine::{CertificatePolicy, OwnCertificate, PeerCertificates};
use adit_ike_config::{
    Config, Connection, Document, LocalRound, Place, RemoteRound, Revocation, Scheme, SchemeKey,
    SendCertificate, SignatureRules,
};
use adit_pki::signature::{Digest, Sha1};
use adit_pki::{
    Authorities, PeerRequirements, Purpose, Revocations, SIGNATURE_ALGORITHMS, Verifier, pem,
    public_key_digest,
};
use rustls_pki_types::CertificateDer;

use super::private_keys;
use super::problems::Problems;

type Certificates = Vec<CertificateDer<'static>>;

/// The certificate by which this end proves its identity.
pub(super) fn of_this_end(
    config: &Config,
    of: &Connection,
    round: &LocalRound,
    problems: &mut Problems,
) -> Option<OwnCertificate> {
    if !round.pubkeys.is_empty() {
        problems.add(
            round.places.of("pubkeys"),
            "raw public keys are not supported yet: give a certificate in `certs`",
        );
        return None;
    }
    let place = round.places.of("certs");
    let credentials = &config.credentials;
    let (name, found) = match (round.certs.as_slice(), credentials.containers.as_slice()) {
        ([document], _) => (&document.name, certificates(document)),
        ([], [container]) => (&container.document.name, private_keys::certificates_of(container)),
        _ => {
            let text = "one certificate of this end is needed: `certs = FILE`, a file in the folder `x509`, or one file in the folder \
                        `pkcs12`";
            problems.add(place, text);
            return None;
        }
    };
    let found = found.and_then(|all| {
        let (own, chain) = all.split_first().ok_or("there is no certificate in it")?;
        Ok(OwnCertificate {
            key: private_keys::of(own, credentials)?,
            chain: chain.to_vec(),
            policy: policy(of.send_cert),
            sha1: Sha1::Refused,
        })
    });
    problems.unless(place, name, found)
}

/// The certificates that are accepted of the peer.
pub(super) fn of_the_peer(
    config: &Config,
    of: &Connection,
    round: &RemoteRound,
    problems: &mut Problems,
) -> Option<PeerCertificates> {
    let place = |key| round.places.of(key);
    let missing = [
        (
            "revocation",
            round.revocation != Revocation::Relaxed,
            "write `relaxed`: lists are those in the folder `x509crl`",
        ),
        (
            "ca_id",
            round.ca_id.is_some(),
            "authorities are not chosen by identity yet: name their certificates in `cacerts`",
        ),
        (
            "pubkeys",
            !round.pubkeys.is_empty(),
            "raw public keys are not supported yet: give a certificate in `certs`",
        ),
    ];
    for (key, _, why) in missing.into_iter().filter(|(_, is_set, _)| *is_set) {
        problems.add(place(key), format!("`{key}`: {why}"));
    }
    let known = all(&round.certs, place("certs"), problems)?;
    let named = if round.cacerts.is_empty() { &config.credentials.authorities } else { &round.cacerts };
    let trusted = all(named, place("cacerts"), problems)?;
    if trusted.is_empty() && known.is_empty() {
        let text = "no authority is trusted: put the certificate of the peer's authority into the folder `x509ca`, or name the peer's \
                    certificate in `certs`";
        problems.add(round.places.section(), text);
        return None;
    }
    let requested: Vec<[u8; 20]> = trusted.iter().filter_map(public_key_digest).collect();
    let requested = if of.send_certreq { requested } else { Vec::new() };
    // A certificate that is named is trusted by itself (`certs` in swanctl.conf(5)).
    let is_named = !known.is_empty() && round.cacerts.is_empty();
    let authorities = if is_named { Ok(None) } else { Authorities::new(trusted).map(Some) };
    let authorities = problems.unless(place("cacerts"), "x509ca", authorities)?;
    let requirements = PeerRequirements {
        fingerprints: known.iter().map(|certificate| Digest::Sha256.of(certificate)).collect(),
        revocations: problems.unless(place("revocation"), "x509crl", revocations(config))?,
        ..PeerRequirements::default()
    };
    let verifier = Verifier::new(Purpose::Any, authorities, requirements, SIGNATURE_ALGORITHMS);
    Some(PeerCertificates { verifier: Arc::new(verifier), known, requested, sha1: Sha1::Refused })
}

/// The certificates of both ends for EAP-TLS, in the place of a proof in IKE.
pub(super) fn for_tls(
    config: &Config,
    of: &Connection,
    (local, remote): (&LocalRound, &RemoteRound),
    problems: &mut Problems,
) -> Option<Arc<TlsCredentials>> {
    let own = of_this_end(config, of, local, problems);
    let accepted = of_the_peer(config, of, remote, problems);
    let (OwnCertificate { key, chain, .. }, PeerCertificates { verifier, .. }) = (own?, accepted?);
    Some(Arc::new(TlsCredentials { key, chain, verifier, versions: TlsVersions::Both }))
}

/// Whether SHA-1 is accepted for peers that do not know RFC 7427 (`ike:rsa-sha1`). Other rules for signatures are refused: they would
/// not be kept.
pub(super) fn sha1(rules: &SignatureRules, place: &Place, problems: &mut Problems) -> Option<Sha1> {
    let rsa = Scheme { key: SchemeKey::Rsa, digest: Some(adit_core::Digest::Sha1) };
    let accepts_sha1 = SignatureRules { of_auth: vec![rsa], ..SignatureRules::default() };
    match rules {
        rules if *rules == SignatureRules::default() => Some(Sha1::Refused),
        rules if *rules == accepts_sha1 => Some(Sha1::Accepted),
        _ => {
            problems.add(
                place,
                "rules for signatures and keys are not supported yet: write `auth = pubkey`, or `ike:rsa-sha1` for a peer that does not \
                 know RFC 7427",
            );
            None
        }
    }
}

const fn policy(policy: SendCertificate) -> CertificatePolicy {
    match policy {
        SendCertificate::IfAsked => CertificatePolicy::IfAsked,
        SendCertificate::Always => CertificatePolicy::Always,
        SendCertificate::Never => CertificatePolicy::Never,
    }
}

fn all(documents: &[Document], place: &Place, problems: &mut Problems) -> Option<Certificates> {
    let mut found = Vec::new();
    for document in documents {
        let place = document.place.as_ref().unwrap_or(place);
        found.extend(problems.unless(place, &document.name, certificates(document))?);
    }
    Some(found)
}

/// The certificates of a file in PEM, or the certificate of a file in DER.
fn certificates(document: &Document) -> Result<Certificates, String> {
    let bytes = document.content.bytes();
    match bytes.first() {
        // A SEQUENCE.
        Some(0x30) => Ok(vec![CertificateDer::from(bytes.to_vec())]),
        _ => pem::certificates(bytes).map_err(|error| error.to_string()),
    }
}

/// The revocation lists of the file, if there are any.
fn revocations(config: &Config) -> Result<Option<Revocations>, String> {
    let lists = &config.credentials.revocation_lists;
    let text: Vec<u8> = lists.iter().flat_map(|list| [list.content.bytes(), &b"\n"[..]].concat()).collect();
    if lists.is_empty() {
        return Ok(None);
    }
    let read = Revocations::from_lists(&text);
    read.map(Some).map_err(|error| format!("{error}; lists are read as PEM"))
}

//! An authority of certificates for tests.

use std::sync::Arc;

use adit_pki::signature::{CertificateKey, OwnKey, Sha1};
use adit_pki::{
    Authorities, PeerRequirements, PrivateKey, Purpose, Revocations, SIGNATURE_ALGORITHMS, Verifier,
    public_key_digest,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, SignatureAlgorithm,
};
use rustls_pki_types::CertificateDer;
use time::{Duration, OffsetDateTime};

use super::world::{A, WALL, identity};
use crate::machine::{
    CertificatePolicy, Connection, LocalProof, OwnCertificate, PeerCertificates, RemoteProof,
};

/// A certificate that signs others.
pub(super) struct Authority {
    pub(super) certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// The validity of a certificate that is issued.
#[derive(Clone, Copy)]
pub(super) enum Validity {
    Now,
    Over,
    Later,
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(WALL as i64).unwrap()
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = (now() - Duration::days(10), now() + Duration::days(1000));
    params
}

impl Authority {
    pub(super) fn root(name: &str) -> Self {
        let (params, key) = (ca_params(name), KeyPair::generate().unwrap());
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// An authority that this one has signed.
    pub(super) fn below(&self, name: &str) -> Self {
        let (params, key) = (ca_params(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate with that host name, with its key.
    pub(super) fn issue(&self, name: &str, key: &KeyPair, validity: Validity) -> OwnCertificate {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.serial_number = Some(SerialNumber::from(7_u64));
        let (first, last) = match validity {
            Validity::Now => (-5, 5),
            Validity::Over => (-5, -1),
            Validity::Later => (1, 5),
        };
        (params.not_before, params.not_after) = (now() + Duration::days(first), now() + Duration::days(last));
        let certificate = params.signed_by(key, &self.issuer).unwrap().der().clone();
        let private = PrivateKey::read(key.serialize_pem().as_bytes()).unwrap();
        let holder = Arc::new(OwnKey::new(&private).unwrap());
        OwnCertificate {
            key: CertificateKey::new(certificate, holder).unwrap(),
            chain: Vec::new(),
            policy: CertificatePolicy::Always,
            sha1: Sha1::Refused,
        }
    }

    /// A list that revokes the certificates of [`Authority::issue`].
    pub(super) fn revokes_all(&self) -> Revocations {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(7_u64),
            revocation_time: now() - Duration::days(1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now() - Duration::days(1),
            next_update: now() + Duration::days(30),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Revocations::from_lists(params.signed_by(&self.issuer).unwrap().pem().unwrap().as_bytes()).unwrap()
    }

    /// The acceptance of certificates below this authority.
    pub(super) fn accepts(&self, revocations: Option<Revocations>) -> PeerCertificates {
        let authorities = Authorities::new(vec![self.certificate.clone()]).unwrap();
        let requirements = PeerRequirements { revocations, ..PeerRequirements::default() };
        let verifier = Verifier::new(Purpose::Any, Some(authorities), requirements, SIGNATURE_ALGORITHMS);
        PeerCertificates {
            verifier: Arc::new(verifier),
            known: Vec::new(),
            requested: vec![public_key_digest(&self.certificate).unwrap()],
            sha1: Sha1::Refused,
        }
    }
}

pub(super) fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

pub(super) fn key_of(algorithm: &'static SignatureAlgorithm) -> KeyPair {
    KeyPair::generate_for(algorithm).unwrap()
}

/// The connection of an end that proves its identity by `own` and accepts `accepted`.
pub(super) fn certified(end: usize, own: OwnCertificate, accepted: PeerCertificates) -> Connection {
    let mut connection = super::world::connection(end);
    let name = if end == A { "a.example" } else { "b.example" };
    connection.local_auth.identity = identity(name);
    connection.local_auth.proof = LocalProof::Certificate(own);
    connection.remote_auth.proof = RemoteProof::Certificate(accepted);
    connection
}

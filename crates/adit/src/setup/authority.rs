use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    RevokedCertParams, SanType, SerialNumber,
};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use super::index::{Index, Issue};
use super::{SetupError, names, random, read};

/// Ten years: a new certificate of the authority has to be brought to every client.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// The longest that today's TLS stacks take for a leaf (825 days).
const LEAF_LIFE: Duration = Duration::days(825);
/// Certificates are valid from a little before now, for clients whose clocks are late.
const EARLY: Duration = Duration::hours(1);

/// Whose certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A server's.
    Server,
    /// A client's.
    Client,
}

/// The certificate authority of one VPN. Its `Debug` must not exist: it holds the key.
pub(super) struct Authority {
    /// Its certificate as PEM.
    pub(super) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
pub(super) struct Issued {
    /// The certificate.
    pub(super) certificate: String,
    /// Its private key.
    pub(super) key: Zeroizing<String>,
}

impl Authority {
    /// A new authority.
    pub(super) fn create(now: OffsetDateTime) -> Result<Self, SetupError> {
        let failed = failed("make the certificate authority");
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(&failed)?;
        let tag = hex(random::<4>()?.as_slice());
        let params = authority_params(&format!("adit CA {tag}"), now)?;
        let certificate = params.self_signed(&key).map_err(&failed)?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, key) })
    }

    /// The authority from its files.
    pub(super) fn load(certificate: &str, key: &str) -> Result<Self, SetupError> {
        let failed = failed("read the certificate authority");
        let key = KeyPair::from_pem(key).map_err(&failed)?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(&failed)?;
        Ok(Authority { certificate: certificate.into(), issuer })
    }

    /// Gives the authority a new certificate with a later end. Its name and key stay, so that all that it signed stays
    /// valid under either certificate (RFC 5280 §6.1 looks at the name and key of a trust anchor alone).
    ///
    /// # Errors
    /// When `adit init` did not make the one it has, whose name may have other parts.
    pub(super) fn renew(&mut self, now: OffsetDateTime) -> Result<(), SetupError> {
        let failed = failed(RENEW);
        let foreign = || {
            SetupError::Certificate {
            what: RENEW,
            why: "`adit init` did not make pki/ca.crt; renew it, with the same name and key, by the program that made it"
                .into(),
        }
        };
        let name = read::common_name(&self.certificate).ok_or_else(foreign)?;
        let params = authority_params(&name, now)?;
        let renewed = params.self_signed(self.issuer.key()).map_err(&failed)?.pem();
        if !read::is_same_authority(&renewed, &self.certificate) {
            return Err(foreign());
        }
        self.certificate = renewed;
        Ok(())
    }

    /// The authority's private key as PEM.
    pub(super) fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.issuer.key().serialize_pem())
    }

    /// Issues a certificate with a new key and notes it in the index.
    pub(super) fn issue(
        &self,
        kind: Kind,
        name: &str,
        now: OffsetDateTime,
        index: &mut Index,
    ) -> Result<Issued, SetupError> {
        let failed = failed("make a certificate");
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(&failed)?;
        let mut serial_number = serial()?;
        while index.has_serial(&hex(&serial_number.to_bytes())) {
            serial_number = serial()?;
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        params.subject_alt_names = alternative_names(name).map_err(&failed)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match kind {
            Kind::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Kind::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial_number.clone());
        (params.not_before, params.not_after) = validity(now, LEAF_LIFE);
        let certificate = params.signed_by(&key, &self.issuer).map_err(&failed)?.pem();
        let serial = hex(&serial_number.to_bytes());
        index.add(Issue::new(serial, name, kind, params.not_before, params.not_after));
        Ok(Issued { certificate, key: Zeroizing::new(key.serialize_pem()) })
    }
}

impl Authority {
    /// The list of all certificates that were revoked, as PEM. It is good for as long as the authority: it is
    /// made anew at each revocation, and one that ran out would shut everybody out.
    pub(super) fn revocation_list(
        &self,
        index: &mut Index,
        now: OffsetDateTime,
    ) -> Result<String, SetupError> {
        let failed = failed("make the list of revoked certificates");
        index.lists += 1;
        let now = now.replace_nanosecond(0).unwrap_or(now);
        let revoked = |(serial, time): (Vec<u8>, OffsetDateTime)| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: time.replace_nanosecond(0).unwrap_or(time),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now - EARLY,
            next_update: now + AUTHORITY_LIFE,
            crl_number: SerialNumber::from(index.lists),
            issuing_distribution_point: None,
            revoked_certs: index.revoked(now).into_iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(&failed)
    }
}

/// What could not be done.
const RENEW: &str = "renew the certificate of the authority";

/// What the certificate of an authority says.
fn authority_params(name: &str, now: OffsetDateTime) -> Result<CertificateParams, SetupError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.serial_number = Some(serial()?);
    (params.not_before, params.not_after) = validity(now, AUTHORITY_LIFE);
    Ok(params)
}

fn failed(what: &'static str) -> impl Fn(rcgen::Error) -> SetupError {
    move |error| SetupError::Certificate { what, why: error.to_string() }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// The name once more, for libraries that look for a host's name there alone (RFC 9525 §2). A name that no host can
/// have is the common name only.
fn alternative_names(name: &str) -> Result<Vec<SanType>, rcgen::Error> {
    let host = names::is_host_name(name).then(|| name.try_into().map(SanType::DnsName));
    host.into_iter().collect()
}

/// A random serial number: positive, not zero, at most 16 bytes (RFC 5280 §4.1.2.2 allows 20).
fn serial() -> Result<SerialNumber, SetupError> {
    let mut bytes = random::<16>()?;
    bytes[0] = (bytes[0] & 0x7F) | 0x40;
    Ok(SerialNumber::from_slice(bytes.as_slice()))
}

fn validity(now: OffsetDateTime, life: Duration) -> (OffsetDateTime, OffsetDateTime) {
    // Certificates count whole seconds.
    let now = now.replace_nanosecond(0).unwrap_or(now);
    (now - EARLY, now - EARLY + life)
}

/// Bytes as a number in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

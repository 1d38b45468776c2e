//! Issuing: a certificate authority, the certificates that it signs, and its revocation list.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    RevokedCertParams, SanType, SerialNumber,
};
use thiserror::Error;
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

use crate::inspect::{self, hex};
use crate::purpose::Purpose;

/// Ten years: a new certificate of the authority has to be brought to every client.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// The longest that today's TLS stacks take for a leaf (825 days).
const LEAF_LIFE: Duration = Duration::days(825);
/// iKEIntermediate, which older Windows and macOS demand of an IKE server's certificate.
const IKE_INTERMEDIATE: [u64; 9] = [1, 3, 6, 1, 5, 5, 8, 2, 2];
/// Certificates are valid from a little before now, for clients whose clocks are late.
const BACKDATED: Duration = Duration::hours(1);

/// Why something could not be issued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IssueError {
    /// The key, or the content to sign, cannot be read or made.
    #[error("{0}")]
    Failed(String),
    /// The authority's certificate was made by another program: its name may have parts that a new one would lack.
    #[error("the certificate of the authority was made by another program")]
    Foreign,
}

impl From<rcgen::Error> for IssueError {
    fn from(error: rcgen::Error) -> Self {
        IssueError::Failed(error.to_string())
    }
}

/// A serial number: positive, not zero, 16 bytes (RFC 5280 §4.1.2.2 allows 20).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serial([u8; 16]);

impl Serial {
    /// The serial number that these random bytes make.
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[0] = (bytes[0] & 0x7F) | 0x40;
        Serial(bytes)
    }

    /// The number in hexadecimal.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    fn number(&self) -> SerialNumber {
        SerialNumber::from_slice(&self.0)
    }
}

/// The content of a certificate that is to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The purpose, which is the extended key usage.
    pub purpose: Purpose,
    /// The common name.
    pub name: &'a str,
    /// The names and addresses by which the peers of an IKE daemon know the owner.
    pub ike_names: &'a [IkeName],
}

/// A name of an IKE daemon, as an alternative name of the subject (RFC 4945 section 5.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IkeName {
    /// A host name, or another name that the peer sends as one.
    Dns(String),
    /// A mail address.
    Mail(String),
    /// An address.
    Address(IpAddr),
}

/// A certificate authority. Its `Debug` must not exist: it holds the key.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub struct Issued {
    /// The certificate as PEM.
    pub certificate: String,
    /// Its private key as PEM.
    pub key: Zeroizing<String>,
    /// First moment of validity.
    pub not_before: OffsetDateTime,
    /// Last moment of validity.
    pub not_after: OffsetDateTime,
}

impl Authority {
    /// A new authority of that common name, with a new key.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn create(name: &str, serial: &Serial, now: OffsetDateTime) -> Result<Self, IssueError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let params = authority_params(name, serial, now);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, key) })
    }

    /// The authority with that certificate and key, both as PEM.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn load(certificate: &str, key: &str) -> Result<Self, IssueError> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?;
        Ok(Authority { certificate: certificate.into(), issuer })
    }

    /// Gives the authority a new certificate with a later end. Its name and key stay, so that all that it signed stays
    /// valid under either certificate (RFC 5280 §6.1 looks at the name and key of a trust anchor alone).
    ///
    /// # Errors
    /// [`IssueError::Foreign`] when its name has other parts than those that [`create`](Self::create) writes.
    pub fn renew(&mut self, serial: &Serial, now: OffsetDateTime) -> Result<(), IssueError> {
        let name = inspect::common_name(&self.certificate).ok_or(IssueError::Foreign)?;
        let params = authority_params(&name, serial, now);
        let renewed = params.self_signed(self.issuer.key())?.pem();
        if !inspect::is_same_authority(&renewed, &self.certificate) {
            return Err(IssueError::Foreign);
        }
        self.certificate = renewed;
        Ok(())
    }

    /// Its certificate as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its private key as PEM.
    pub fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.issuer.key().serialize_pem())
    }

    /// Issues a certificate for that purpose and common name, with a new key on P-256.
    ///
    /// # Errors
    /// If no key can be made, or if the name is none.
    pub fn issue(
        &self,
        purpose: Purpose,
        name: &str,
        serial: &Serial,
        now: OffsetDateTime,
    ) -> Result<Issued, IssueError> {
        self.issue_as(&Wanted { purpose, name, ike_names: &[] }, serial, now)
    }

    /// Issues a certificate with that content and a new key on P-256.
    ///
    /// # Errors
    /// If no key can be made, or if a name is none.
    pub fn issue_as(
        &self,
        wanted: &Wanted<'_>,
        serial: &Serial,
        now: OffsetDateTime,
    ) -> Result<Issued, IssueError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(wanted.name);
        params.subject_alt_names = match wanted.ike_names {
            [] => alternative_names(wanted.name)?,
            names => ike_alternative_names(names)?,
        };
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match wanted.purpose {
            Purpose::Server if wanted.ike_names.is_empty() => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Purpose::Server => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::Other(IKE_INTERMEDIATE.to_vec()),
            ],
            Purpose::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Purpose::Any => Vec::new(),
        };
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial.number());
        let (not_before, not_after) = validity(now, LEAF_LIFE);
        (params.not_before, params.not_after) = (not_before, not_after);
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: Zeroizing::new(key.serialize_pem()), not_before, not_after })
    }

    /// The list number `number` of the certificates with these serial numbers, which were revoked at these times, as PEM.
    /// It is good for as long as an authority: it is made anew at each revocation, and one that is out of date would keep
    /// all peers out.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn revocation_list(
        &self,
        number: u64,
        revoked: impl IntoIterator<Item = (Vec<u8>, OffsetDateTime)>,
        now: OffsetDateTime,
    ) -> Result<String, IssueError> {
        let now = whole_seconds(now);
        let revoked = revoked.into_iter().map(|(serial, time)| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: whole_seconds(time),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: now - BACKDATED,
            next_update: now + AUTHORITY_LIFE,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }
}

/// The content of an authority's certificate.
fn authority_params(name: &str, serial: &Serial, now: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.serial_number = Some(serial.number());
    (params.not_before, params.not_after) = validity(now, AUTHORITY_LIFE);
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// The name once more, for libraries that look for a host's name there alone (RFC 9525 §2). A name that no host can
/// have is the common name only.
fn alternative_names(name: &str) -> Result<Vec<SanType>, rcgen::Error> {
    let host = is_host_name(name).then(|| name.try_into().map(SanType::DnsName));
    host.into_iter().collect()
}

fn ike_alternative_names(names: &[IkeName]) -> Result<Vec<SanType>, rcgen::Error> {
    let name = |name: &IkeName| {
        Ok(match name {
            IkeName::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
            IkeName::Mail(name) => SanType::Rfc822Name(name.as_str().try_into()?),
            IkeName::Address(address) => SanType::IpAddress(*address),
        })
    };
    names.iter().map(name).collect()
}

/// Whether a host may have that name (RFC 1123 §2.1): labels of letters, digits and inner hyphens, and the last of them
/// not of digits alone, as then it would be an IPv4 address.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253 && name.split('.').all(is_label) && !last.chars().all(|c| c.is_ascii_digit())
}

fn validity(now: OffsetDateTime, lifetime: Duration) -> (OffsetDateTime, OffsetDateTime) {
    let now = whole_seconds(now);
    (now - BACKDATED, now - BACKDATED + lifetime)
}

/// Certificates and lists count whole seconds.
fn whole_seconds(time: OffsetDateTime) -> OffsetDateTime {
    time.replace_nanosecond(0).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        let longest_label = "a".repeat(63);
        for name in ["alice", "adit-server", "bob.laptop", "9a", "3com.example", longest_label.as_str()] {
            assert!(is_host_name(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in
            ["", "x@y.example", "a_b", "a-", "a.-b", "a..b", "a.", "7", "192.0.2.1", "ä", long.as_str()]
        {
            assert!(!is_host_name(name), "{name}");
        }
    }

    #[test]
    fn what_is_issued_is_judged_good_until_it_is_revoked() {
        use rustls_pki_types::UnixTime;

        use crate::{Authorities, PeerRequirements, Revocations, Verifier, pem};

        let now = OffsetDateTime::from_unix_timestamp(1_767_225_600).unwrap();
        let serial = |last| {
            Serial::from_random([0xff; 15].into_iter().chain([last]).collect::<Vec<_>>().try_into().unwrap())
        };
        let mut authority = Authority::create("an authority", &serial(1), now).unwrap();
        let issued = authority.issue(Purpose::Client, "anna", &serial(2), now).unwrap();
        assert_eq!(inspect::serial(&issued.certificate), Some(serial(2).to_hex()));
        assert_eq!(inspect::not_after(&issued.certificate), Some(issued.not_after));
        let judge = |authority: &Authority, purpose, revoked: &[u8]| {
            let list = revoked.iter().map(|last| (serial(*last).0.to_vec(), now));
            let list = authority.revocation_list(1, list, now).unwrap();
            let requirements = PeerRequirements {
                require_usage: true,
                revocations: Some(Revocations::from_lists(list.as_bytes()).unwrap()),
                ..PeerRequirements::default()
            };
            let ca =
                Authorities::new(pem::certificates(authority.certificate().as_bytes()).unwrap()).unwrap();
            let verifier = Verifier::new(purpose, Some(ca), requirements, crate::SIGNATURE_ALGORITHMS);
            let shown = pem::certificates(issued.certificate.as_bytes()).unwrap();
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_767_225_600));
            verifier.verify(&shown[0], &[], now)
        };
        assert_eq!(judge(&authority, Purpose::Client, &[3]), Ok(()));
        assert_eq!(judge(&authority, Purpose::Client, &[3, 2]), Err(crate::Refusal::Revoked));
        assert_eq!(judge(&authority, Purpose::Server, &[]), Err(crate::Refusal::WrongPurpose));
        let before = authority.certificate().to_owned();
        authority.renew(&serial(4), now).unwrap();
        assert!(
            before != authority.certificate() && inspect::is_same_authority(&before, authority.certificate())
        );
        assert_eq!(judge(&authority, Purpose::Client, &[]), Ok(()));
    }

    #[test]
    fn the_certificate_of_an_ike_server_has_the_names_and_usages_that_native_clients_demand() {
        use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

        let now = OffsetDateTime::from_unix_timestamp(1_767_225_600).unwrap();
        let serial = |last| Serial::from_random([last; 16]);
        let authority = Authority::create("an authority", &serial(1), now).unwrap();
        let ike_names = [IkeName::Dns("192.0.2.1".to_owned()), IkeName::Address([192, 0, 2, 1].into())];
        let wanted = Wanted { purpose: Purpose::Server, name: "adit-server", ike_names: &ike_names };
        let issued = authority.issue_as(&wanted, &serial(2), now).unwrap();
        assert!(issued.not_after - issued.not_before <= Duration::days(825), "Apple refuses longer ones");
        let der = crate::pem::certificates(issued.certificate.as_bytes()).unwrap().remove(0);
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        let [GeneralName::DNSName("192.0.2.1"), GeneralName::IPAddress([192, 0, 2, 1])] =
            names.value.general_names[..]
        else {
            panic!("{:?}", names.value)
        };
        let usage = certificate.extended_key_usage().unwrap().unwrap().value;
        let other: Vec<String> = usage.other.iter().map(ToString::to_string).collect();
        assert!(usage.server_auth && other == ["1.3.6.1.5.5.8.2.2"], "{usage:?}");
    }
}

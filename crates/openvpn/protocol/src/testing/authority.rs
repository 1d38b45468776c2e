use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use rustls::pki_types::UnixTime as PkiTime;
use rustls::time_provider::TimeProvider;

use crate::credentials::{Credentials, TlsEnvironment};

/// 2026-01-01 in seconds since 1970, inside the certificates' validity.
pub const WALL: u64 = 1_767_225_600;

#[derive(Debug)]
struct FixedTime(u64);

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<PkiTime> {
        Some(PkiTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

/// The clock of TLS stands still at [`WALL`].
pub fn environment() -> TlsEnvironment {
    TlsEnvironment::new(Arc::new(FixedTime(WALL)))
}

/// The serial number of a name's certificate.
pub fn serial(name: &str) -> u64 {
    name.bytes().fold(1 << 62, |number, byte| number ^ (number << 5) ^ u64::from(byte)) >> 1
}

/// One authority and the certificates that it signs.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

impl Authority {
    /// A new one, with a key of its own.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { params, key, pem }
    }

    /// A certificate and key for that name, good for that end.
    pub fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Credentials {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        params.serial_number = Some(SerialNumber::from(serial(name)));
        self.sign(params)
    }

    /// A list that revokes these serial numbers, good until the end of that year.
    pub fn revoke(&self, serials: &[u64], until: i32) -> Vec<u8> {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: rcgen::date_time_ymd(2025, 6, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2025, 6, 1),
            next_update: rcgen::date_time_ymd(until, 12, 31),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let issuer = Issuer::from_params(&self.params, &self.key);
        list.signed_by(&issuer).unwrap().pem().unwrap().into_bytes()
    }

    /// A certificate as described, with a new key.
    pub fn sign(&self, params: CertificateParams) -> Credentials {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Credentials {
            ca: self.pem.clone().into_bytes(),
            certificate: certificate.pem().into_bytes(),
            private_key: key.serialize_pem().into_bytes().into(),
        }
    }
}

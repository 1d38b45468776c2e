//! Certificates that are the same in every run: fixed Ed25519 keys, serials and dates. Ed25519 signatures
//! take no randomness and always have the same length.

use std::sync::OnceLock;

use adit_openvpn::credentials::Credentials;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, SerialNumber,
};
use rustls_pki_types::PrivatePkcs8KeyDer;

/// The bytes before the 32 bytes of an Ed25519 key in PKCS#8 (RFC 8410 §7).
const PKCS8_ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The most clients a simulation has.
pub(crate) const MAX_CLIENTS: usize = 200;

/// Credentials of the server (number 0) and of clients 1 to [`MAX_CLIENTS`].
///
/// # Errors
/// When a certificate cannot be made, as text.
pub(crate) fn credentials(number: usize) -> Result<&'static Credentials, String> {
    static ALL: OnceLock<Result<Vec<Credentials>, String>> = OnceLock::new();
    let all = ALL.get_or_init(|| issue_all().map_err(|error| format!("making certificates: {error}")));
    let all = all.as_ref().map_err(Clone::clone)?;
    all.get(number).ok_or_else(|| format!("there is no identity number {number}"))
}

/// The name in client number `number`'s certificate.
pub(crate) fn client_name(number: usize) -> String {
    format!("client-{number}")
}

fn key(number: u8) -> Result<KeyPair, Error> {
    let mut der = PKCS8_ED25519.to_vec();
    der.extend([number ^ 0xa5; 32]);
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(der), &PKCS_ED25519)
}

fn params(number: u8, name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from(u64::from(number) + 1));
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    params
}

fn issue_all() -> Result<Vec<Credentials>, Error> {
    let authority_key = key(255)?;
    let mut authority = params(255, "authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = authority.self_signed(&authority_key)?.pem().into_bytes();
    let issuer = Issuer::from_params(&authority, &authority_key);
    let mut all = Vec::new();
    for number in 0..=MAX_CLIENTS {
        let (name, usage) = match number {
            0 => ("server".to_owned(), ExtendedKeyUsagePurpose::ServerAuth),
            _ => (client_name(number), ExtendedKeyUsagePurpose::ClientAuth),
        };
        let number = number as u8;
        let key = key(number)?;
        let mut params = params(number, &name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        all.push(Credentials {
            ca: ca.clone(),
            certificate: params.signed_by(&key, &issuer)?.pem().into_bytes(),
            private_key: key.serialize_pem().into_bytes().into(),
        });
    }
    Ok(all)
}

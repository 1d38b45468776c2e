//! Certificates that a peer shows: names and usages, read before and after the chain is verified, hold nothing that a
//! script or a log could trip over.
#![no_main]

#[path = "../../crates/pki/tests/support/certificate.rs"]
mod certificate;

use std::sync::LazyLock;

use certificate::read;
use libfuzzer_sys::fuzz_target;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};

/// A certificate with all that is read.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.distinguished_name.push(DnType::OrganizationName, "Example");
    params.subject_alt_names = vec![SanType::Rfc822Name("alice@example.com".try_into().unwrap())];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
});

fuzz_target!(|data: &[u8]| {
    read(data);
    // The bytes in the place of some of a whole certificate's.
    let Some((&[high, low, cut], rest)) = data.split_first_chunk() else { return };
    let at = usize::from(u16::from_be_bytes([high, low])) % WHOLE.len();
    let behind = WHOLE.get(at + usize::from(cut)..).unwrap_or_default();
    read(&[&WHOLE[..at], rest, behind].concat());
});

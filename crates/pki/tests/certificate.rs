//! The values that are read from a certificate, which hold nothing that a script or a log could misread.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/certificate.rs"]
mod support;

use rcgen::{CertificateParams, DnType, KeyPair};

#[test]
fn whole_and_damaged_certificates() {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "alice");
    let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
    assert!(support::read(&der) && !support::read(&der[1..]));
    for place in 0..der.len() {
        let mut damaged = der.clone();
        damaged[place] ^= 0x11;
        support::read(&damaged);
    }
}

#[test]
fn a_value_that_is_no_string_is_shown_and_is_no_text_with_a_nul() {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "al\0ce");
    let mut der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
    assert!(support::read(&der));
    let string = [&[0x0c, 5][..], b"al\0ce"].concat();
    for place in 0..der.len() {
        if der[place..].starts_with(&string) {
            // OCTET STRING.
            der[place] = 4;
        }
    }
    assert!(support::read(&der));
}

//! What is read from a certificate, which holds nothing that a script or a log could trip over.
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

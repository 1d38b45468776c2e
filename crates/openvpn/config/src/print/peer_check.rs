//! The requirements on the peer's certificate.

use adit_pki::{NameCheck, NameField};

use super::Out;
use crate::model::PeerCheck;

/// The directives that say it.
pub(super) fn print_peer_check(out: &mut Out, peer: &PeerCheck, is_server: bool) {
    if peer.usage {
        out.one("remote-cert-tls", if is_server { "client" } else { "server" });
    }
    if let Some(usages) = &peer.key_usages {
        let words: Vec<String> = usages.iter().map(|bits| format!("{bits:02x}")).collect();
        out.line("remote-cert-ku", &words);
    }
    if let Some(oid) = &peer.extended_usage {
        out.one("remote-cert-eku", oid);
    }
    for bytes in &peer.fingerprints {
        out.one("peer-fingerprint", hexadecimal(bytes));
    }
    for bytes in &peer.issuer_fingerprints {
        let digest = if bytes.len() == 20 { "SHA1" } else { "SHA256" };
        out.line("verify-hash", &[hexadecimal(bytes).as_str(), digest]);
    }
    if let Some(check) = &peer.name {
        let (value, kind) = match check {
            NameCheck::Subject(value) => (value, "subject"),
            NameCheck::CommonName(value) => (value, "name"),
            NameCheck::CommonNamePrefix(value) => (value, "name-prefix"),
        };
        out.line("verify-x509-name", &[value.as_str(), kind]);
    }
    if !peer.name_fields.is_empty() {
        let word = |field: &NameField| match field {
            NameField::Subject(oid) => oid.clone(),
            NameField::Serial => "serialNumber".to_owned(),
            NameField::SubjectEmail => "ext:subjectAltName".to_owned(),
            NameField::IssuerEmail => "ext:issuerAltName".to_owned(),
        };
        let words: Vec<String> = peer.name_fields.iter().map(word).collect();
        out.line("x509-username-field", &words);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

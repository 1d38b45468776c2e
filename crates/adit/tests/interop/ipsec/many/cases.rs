//! The tables of rows.

use super::super::authority::{ED25519, P256, P384, P521, RSA};
use super::super::bed::Program;

/// A connection.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// `proposals` and `esp_proposals`.
    pub(super) ike: &'static str,
    pub(super) esp: &'static str,
    pub(super) proof: Proof,
    /// The end that has the fault, and the fault.
    pub(super) fault: Option<(Program, Fault)>,
}

impl Case {
    /// Whether it has that fault.
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault.is_some_and(|(_, own)| own == fault)
    }
}

/// The proof of both identities.
#[derive(Clone, Copy)]
pub(super) enum Proof {
    SharedKey,
    /// By certificates with keys of that kind. strongSwan has that `auth`.
    Certificate(&'static str, &'static str),
}

/// A difference from a connection that comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another key of both ends.
    Secret,
    /// A certificate of an authority that the other end does not trust.
    Authority,
    /// A certificate for another name.
    Name,
    /// A certificate of before.
    Expired,
    /// A certificate that the other end's revocation list names.
    Revoked,
    /// An identity that the other end does not know.
    Identity,
    /// Other proposals for IKE, and for ESP.
    Ike,
    Esp,
    /// Networks that have nothing in common with the other end's.
    Selectors,
}

const IKE: &str = "aes256gcm16-prfsha384-x25519";
const ESP: &str = "aes256gcm16";

const fn suite(name: &'static str, ike: &'static str, esp: &'static str) -> Case {
    Case { name, ike, esp, proof: Proof::SharedKey, fault: None }
}

const fn key(name: &'static str, kind: &'static str, auth: &'static str) -> Case {
    Case { name, ike: IKE, esp: ESP, proof: Proof::Certificate(kind, auth), fault: None }
}

/// The connections that come up.
pub(super) fn good() -> Vec<Case> {
    vec![
        suite("AES-128-GCM, P-256", "aes128gcm16-prfsha256-ecp256", "aes128gcm16"),
        suite("AES-192-GCM, MODP-2048", "aes192gcm16-prfsha384-modp2048", "aes192gcm16"),
        suite("AES-256-GCM, P-384", "aes256gcm16-prfsha512-ecp384", "aes256gcm16-ecp384"),
        suite("ChaCha20-Poly1305, P-521", "chacha20poly1305-prfsha256-ecp521", "chacha20poly1305"),
        suite("AES-128-CBC with SHA-256, MODP-3072", "aes128-sha256-modp3072", "aes128-sha256"),
        suite("AES-128-CBC with SHA-384", "aes128-sha384-x25519", "aes128-sha384"),
        suite("AES-128-CBC with SHA-512, MODP-4096", "aes128-sha512-modp4096", "aes128-sha512"),
        suite("AES-192-CBC with SHA-256", "aes192-sha256-x25519", "aes192-sha256"),
        suite("AES-192-CBC with SHA-384", "aes192-sha384-ecp256", "aes192-sha384"),
        suite("AES-192-CBC with SHA-512", "aes192-sha512-ecp384", "aes192-sha512"),
        suite("AES-256-CBC with SHA-256", "aes256-sha256-x25519", "aes256-sha256"),
        suite("AES-256-CBC with SHA-384", "aes256-sha384-prfsha512-ecp521", "aes256-sha384"),
        suite("AES-256-CBC with SHA-512", "aes256-sha512-prfsha256-x25519", "aes256-sha512"),
        key("RSA with PKCS#1 of strongSwan", RSA, "pubkey"),
        key("RSA with PSS", RSA, "ike:rsa/pss-sha512"),
        key("ECDSA P-256", P256, "pubkey"),
        key("ECDSA P-384", P384, "pubkey"),
        key("ECDSA P-521", P521, "pubkey"),
        key("Ed25519", ED25519, "pubkey"),
    ]
}

/// The connections that come up beside Linux's ESP: each kind of cipher, also with extended sequence numbers, and of key.
pub(super) fn of_linux() -> Vec<Case> {
    vec![
        suite("AES-128-GCM", IKE, "aes128gcm16"),
        suite("AES-256-GCM", IKE, ESP),
        suite("AES-256-GCM with ESN", IKE, "aes256gcm16-esn"),
        suite("ChaCha20-Poly1305", IKE, "chacha20poly1305"),
        suite("ChaCha20-Poly1305 with ESN", IKE, "chacha20poly1305-esn"),
        suite("AES-128-CBC with SHA-256", IKE, "aes128-sha256"),
        suite("AES-256-CBC with SHA-384", IKE, "aes256-sha384"),
        suite("AES-256-CBC with SHA-512", IKE, "aes256-sha512"),
        suite("AES-256-CBC with SHA-256 and ESN", IKE, "aes256-sha256-esn"),
        key("RSA with PSS", RSA, "ike:rsa/pss-sha512"),
        key("ECDSA P-256", P256, "pubkey"),
        key("Ed25519", ED25519, "pubkey"),
    ]
}

/// The connections that do not come up, with the fault at that end.
pub(super) fn bad(faulty: Program) -> Vec<Case> {
    let shared = |name, fault| Case { fault: Some((faulty, fault)), ..suite(name, IKE, ESP) };
    let signed = |name, kind, fault| Case { fault: Some((faulty, fault)), ..key(name, kind, "pubkey") };
    vec![
        shared("another shared key", Fault::Secret),
        shared("an unknown identity", Fault::Identity),
        shared("other proposals for IKE", Fault::Ike),
        shared("other proposals for ESP", Fault::Esp),
        shared("other networks", Fault::Selectors),
        signed("RSA of another authority", RSA, Fault::Authority),
        signed("P-256 of another authority", P256, Fault::Authority),
        signed("P-384 of another authority", P384, Fault::Authority),
        signed("P-521 of another authority", P521, Fault::Authority),
        signed("Ed25519 of another authority", ED25519, Fault::Authority),
        signed("a certificate for another name", P256, Fault::Name),
        signed("an expired certificate", P256, Fault::Expired),
        signed("a revoked certificate", P384, Fault::Revoked),
    ]
}

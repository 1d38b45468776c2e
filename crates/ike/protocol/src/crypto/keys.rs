//! The keys of IKE SAs and of child SAs (RFC 7296 sections 2.14, 2.17 and 2.18).

use std::fmt;

use adit_core::{Cipher, Digest};
use zeroize::Zeroizing;

use super::prf::{Secret, prf, prf_plus};
use crate::suite::{ChildSuite, IkeSuite};
use crate::wire::Spi;

/// Bytes of the salt behind the key of an AEAD (RFC 5282 section 7.1, RFC 7634 section 2).
const SALT_LEN: usize = 4;

/// The nonces of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Nonces<'a> {
    /// That of the exchange's initiator.
    pub initiator: &'a [u8],
    /// That of its responder.
    pub responder: &'a [u8],
}

/// The keys of one direction.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DirectionKeys {
    /// The key of the cipher.
    pub encryption: Secret,
    /// The salt of an AEAD; empty for other ciphers.
    pub salt: Secret,
    /// The key of the HMAC beside a cipher that is no AEAD; else empty.
    pub integrity: Secret,
}

impl fmt::Debug for DirectionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectionKeys(..)")
    }
}

/// The keys of an IKE SA.
#[derive(Clone)]
pub struct IkeKeys {
    /// `SK_d`, of which further keys are derived.
    pub derivation: Secret,
    /// `SK_ai` and `SK_ei`: of messages of the initiator of the IKE SA.
    pub initiator: DirectionKeys,
    /// `SK_ar` and `SK_er`: of messages of its responder.
    pub responder: DirectionKeys,
    /// `SK_pi`, which the initiator's proof of its identity covers.
    pub initiator_proof: Secret,
    /// `SK_pr`, which the responder's proof of its identity covers.
    pub responder_proof: Secret,
}

impl fmt::Debug for IkeKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IkeKeys(..)")
    }
}

/// `SKEYSEED` of a first exchange, of the secret that the key exchange gave.
pub fn first_seed(digest: Digest, nonces: &Nonces<'_>, secret: &[u8]) -> Secret {
    let key = [nonces.initiator, nonces.responder].concat();
    prf(digest, &key, &[secret])
}

/// The secrets of the key exchanges of one SA.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The secret of the first key exchange; empty if there is none.
    pub first: Secret,
    /// The secrets of the additional key exchanges, one after the other (RFC 9370 section 2.2.4); empty if there is none.
    pub additional: Secret,
}

impl From<Secret> for Secrets {
    fn from(first: Secret) -> Self {
        Secrets { first, additional: Secret::default() }
    }
}

/// `SKEYSEED` of a rekey. The digest and `SK_d` are those of the IKE SA that is rekeyed.
pub fn rekey_seed(digest: Digest, derivation: &[u8], nonces: &Nonces<'_>, secrets: &Secrets) -> Secret {
    let Secrets { first, additional } = secrets;
    prf(digest, derivation, &[first, nonces.initiator, nonces.responder, additional])
}

/// Key material that is cut into keys, one after the other.
struct Material<'a>(&'a [u8]);

impl Material<'_> {
    fn cut(&mut self, length: usize) -> Secret {
        let (key, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        Zeroizing::new(key.to_vec())
    }
}

const fn salt_len(cipher: Cipher) -> usize {
    if cipher.is_aead() { SALT_LEN } else { 0 }
}

fn integrity_len(integrity: Option<Digest>) -> usize {
    integrity.map_or(0, Digest::output_len)
}

impl IkeKeys {
    /// The keys of `SKEYSEED`. The SPIs are those of the new IKE SA.
    pub fn derive(
        suite: &IkeSuite,
        seed: &[u8],
        nonces: &Nonces<'_>,
        initiator: Spi,
        responder: Spi,
    ) -> Self {
        let (digest, proof_len) = (suite.prf, suite.prf.output_len());
        let (integrity, key, salt) =
            (integrity_len(suite.integrity), suite.cipher.key_len(), salt_len(suite.cipher));
        let length = proof_len * 3 + (integrity + key + salt) * 2;
        let parts = [nonces.initiator, nonces.responder, &initiator.0, &responder.0];
        let Some(stream) = prf_plus(digest, seed, &parts, length) else {
            unreachable!("at most 448 bytes, a PRF has at least 20")
        };
        let mut material = Material(&stream);
        let derivation = material.cut(proof_len);
        let integrity = [material.cut(integrity), material.cut(integrity)];
        let mut direction = |integrity| {
            let encryption = material.cut(key);
            DirectionKeys { encryption, salt: material.cut(salt), integrity }
        };
        let [initiator, responder] = integrity.map(&mut direction);
        let [initiator_proof, responder_proof] = [material.cut(proof_len), material.cut(proof_len)];
        IkeKeys { derivation, initiator, responder, initiator_proof, responder_proof }
    }
}

impl IkeKeys {
    /// Forgets the keys of messages, which a [`super::Protection`] has.
    pub(crate) fn forget_directions(&mut self) {
        (self.initiator, self.responder) = (DirectionKeys::default(), DirectionKeys::default());
    }

    /// Forgets the keys of proofs: both ends have proved their identities.
    pub(crate) fn forget_proofs(&mut self) {
        (self.initiator_proof, self.responder_proof) = (Secret::default(), Secret::default());
    }

    /// The keys with a PPK in those that further keys and proofs are made of (RFC 8784 section 3).
    #[must_use]
    pub fn with_ppk(&self, digest: Digest, ppk: &[u8]) -> Self {
        let mix = |key: &Secret| {
            let Some(mixed) = prf_plus(digest, ppk, &[key], digest.output_len()) else {
                unreachable!("one output of the PRF")
            };
            mixed
        };
        IkeKeys {
            derivation: mix(&self.derivation),
            initiator_proof: mix(&self.initiator_proof),
            responder_proof: mix(&self.responder_proof),
            ..self.clone()
        }
    }
}

/// The keys of a child SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildKeys {
    /// Of packets of the initiator of the exchange that made the child SA.
    pub initiator: DirectionKeys,
    /// Of packets of its responder.
    pub responder: DirectionKeys,
}

impl ChildKeys {
    /// The keys of a child SA. The digest and `SK_d` are those of the IKE SA; `secrets` are those of the exchange's own key
    /// exchanges.
    pub fn derive(
        suite: &ChildSuite,
        digest: Digest,
        derivation: &[u8],
        secrets: &Secrets,
        nonces: &Nonces<'_>,
    ) -> Self {
        let (integrity, key, salt) =
            (integrity_len(suite.integrity), suite.cipher.key_len(), salt_len(suite.cipher));
        let length = (integrity + key + salt) * 2;
        let parts = [&secrets.first, nonces.initiator, nonces.responder, &secrets.additional];
        let Some(stream) = prf_plus(digest, derivation, &parts, length) else {
            unreachable!("at most 192 bytes, a PRF has at least 20")
        };
        let mut material = Material(&stream);
        let mut direction = || {
            let (encryption, salt) = (material.cut(key), material.cut(salt));
            DirectionKeys { encryption, salt, integrity: material.cut(integrity) }
        };
        ChildKeys { initiator: direction(), responder: direction() }
    }
}

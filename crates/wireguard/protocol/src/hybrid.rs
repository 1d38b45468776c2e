//! The key exchange X25519MLKEM768 within a session, and how its result becomes the preshared key of a later handshake.
//!
//! The result is secret if any one of the three inputs is: the secret of ML-KEM-768, that of X25519, and the
//! configured preshared key. They are mixed one after the other, as Noise's `MixKey` mixes secrets in
//! (noiseprotocol.org, §5.2), beginning with a hash of all public values.

use ml_kem::kem::{Decapsulate as _, KeyExport as _};
use ml_kem::ml_kem_768::{Ciphertext, DecapsulationKey, EncapsulationKey};
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::{self, Hash, KeyPair, MAC_LEN, Refused, Secret, kdf};
use crate::inner::{CIPHERTEXT_LEN, ENCAPSULATION_KEY_LEN};
use crate::keys::{PresharedKey, PublicKey};

const LABEL: &[u8] = b"adit X25519MLKEM768 preshared key v1";
const CONFIRMED: &[u8] = b"done";

/// Bytes of randomness of an offer: `d` and `z` (FIPS 203, algorithm 19).
pub(crate) const OFFER_SEED_LEN: usize = 64;
/// Bytes of randomness of an encapsulation: `m` (FIPS 203, algorithm 20).
pub(crate) const ANSWER_SEED_LEN: usize = 32;

/// The ends of an exchange.
#[derive(Clone, Copy)]
pub(crate) struct Parties<'a> {
    /// The static key of the end that offers: the session's responder.
    pub(crate) offerer: &'a PublicKey,
    /// The static key of the end that answers: the session's initiator.
    pub(crate) answerer: &'a PublicKey,
    /// The configured key; zeros if there is none.
    pub(crate) preshared: &'a PresharedKey,
}

/// The result of an exchange at both ends.
#[derive(Clone)]
pub(crate) struct Agreed {
    /// The preshared key of later handshakes.
    pub(crate) preshared: PresharedKey,
    /// The key of the marks by which initiations name it.
    pub(crate) mark: Secret,
    /// The proof that an end has it.
    pub(crate) tag: [u8; MAC_LEN],
}

/// All public values but the offerer's X25519 key.
fn transcript(
    parties: &Parties<'_>,
    encapsulation_key: &[u8; ENCAPSULATION_KEY_LEN],
    public: &PublicKey,
    ciphertext: &[u8; CIPHERTEXT_LEN],
) -> Hash {
    let Parties { offerer, answerer, .. } = parties;
    crypto::hash(&[LABEL, &offerer.0, &answerer.0, encapsulation_key, &public.0, ciphertext])
}

fn combine(
    transcript: &Hash,
    offerer: &PublicKey,
    kem: &Secret,
    x25519: &Secret,
    configured: &PresharedKey,
) -> Agreed {
    let start = crypto::hash(&[transcript, &offerer.0]);
    let [chain] = kdf(&start, kem.as_slice());
    let [chain] = kdf(chain.as_slice(), x25519.as_slice());
    let [preshared, mark, confirm] = kdf(chain.as_slice(), configured.as_bytes());
    let tag = crypto::mac(confirm.as_slice(), &[CONFIRMED]);
    Agreed { preshared: PresharedKey::new(*preshared), mark, tag }
}

/// An offer that waits for its answer.
pub(crate) struct Offer {
    key: Box<DecapsulationKey>,
    encapsulation_key: Box<[u8; ENCAPSULATION_KEY_LEN]>,
}

impl Offer {
    pub(crate) fn new(seed: &Zeroizing<[u8; OFFER_SEED_LEN]>) -> Self {
        let mut words: ml_kem::Seed = (**seed).into();
        let key = Box::new(DecapsulationKey::from_seed(words));
        words.as_mut_slice().zeroize();
        let mut encapsulation_key = Box::new([0; ENCAPSULATION_KEY_LEN]);
        encapsulation_key.copy_from_slice(&key.encapsulation_key().to_bytes());
        Offer { key, encapsulation_key }
    }

    pub(crate) fn encapsulation_key(&self) -> &[u8; ENCAPSULATION_KEY_LEN] {
        &self.encapsulation_key
    }

    /// Takes the answer. `ephemeral` is fresh: its public key goes into the last message.
    pub(crate) fn finish(
        &self,
        parties: &Parties<'_>,
        ephemeral: &KeyPair,
        public: &PublicKey,
        ciphertext: &[u8; CIPHERTEXT_LEN],
    ) -> Result<Agreed, Refused> {
        let mut shared = self.key.decapsulate(&Ciphertext::from(*ciphertext));
        let kem: Secret = Zeroizing::new(shared.into());
        shared.as_mut_slice().zeroize();
        let x25519 = ephemeral.agree(public)?;
        let transcript = transcript(parties, &self.encapsulation_key, public, ciphertext);
        Ok(combine(&transcript, &ephemeral.public, &kem, &x25519, parties.preshared))
    }
}

/// An answer that waits for the offerer's last message.
pub(crate) struct Answer {
    ephemeral: KeyPair,
    kem: Secret,
    transcript: Hash,
}

impl Answer {
    /// Answers an offer. `ephemeral` and `seed` are fresh. Gives the part of the message besides the public
    /// key.
    ///
    /// # Errors
    /// The offered key is none (FIPS 203, §7.2).
    pub(crate) fn new(
        parties: &Parties<'_>,
        ephemeral: KeyPair,
        seed: &Zeroizing<[u8; ANSWER_SEED_LEN]>,
        encapsulation_key: &[u8; ENCAPSULATION_KEY_LEN],
    ) -> Result<(Self, [u8; CIPHERTEXT_LEN]), Refused> {
        let key = EncapsulationKey::new(&(*encapsulation_key).into()).map_err(|_| Refused)?;
        let mut message: ml_kem::B32 = (**seed).into();
        let (ciphertext, mut shared) = key.encapsulate_deterministic(&message);
        message.as_mut_slice().zeroize();
        let kem: Secret = Zeroizing::new(shared.into());
        shared.as_mut_slice().zeroize();
        let ciphertext: [u8; CIPHERTEXT_LEN] = ciphertext.into();
        let transcript = transcript(parties, encapsulation_key, &ephemeral.public, &ciphertext);
        Ok((Answer { ephemeral, kem, transcript }, ciphertext))
    }

    pub(crate) fn public(&self) -> &PublicKey {
        &self.ephemeral.public
    }

    /// The result that follows from the offerer's public key. The caller compares its tag with the offerer's.
    pub(crate) fn finish(&self, parties: &Parties<'_>, public: &PublicKey) -> Result<Agreed, Refused> {
        let x25519 = self.ephemeral.agree(public)?;
        Ok(combine(&self.transcript, public, &self.kem, &x25519, parties.preshared))
    }
}

#[cfg(test)]
mod tests;

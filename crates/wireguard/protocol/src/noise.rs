//! The handshake's cryptography, Noise_IKpsk2 (whitepaper §5.4.1 to §5.4.5; noiseprotocol.org). Nothing here has state
//! beyond one handshake: other modules decide which peers may connect, and when.

use zeroize::Zeroizing;

use crate::crypto::{self, Hash, KeyPair, Refused, Secret, TAG_LEN, kdf};
use crate::keys::{KEY_LEN, PresharedKey, PublicKey};
use crate::tai64n::Tai64n;
use crate::wire::{INITIATION_LEN, Initiation, RESPONSE_LEN, Response, STATIC_LEN, TIMESTAMP_LEN};

const CONSTRUCTION: &[u8] = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";

/// The keys of a session.
pub(crate) struct SessionKeys {
    pub(crate) seal: Secret,
    pub(crate) open: Secret,
}

/// Noise's symmetric state: the chaining key and the hash of all so far.
#[derive(Clone)]
struct Symmetric {
    chain: Secret,
    hash: Hash,
}

impl Symmetric {
    fn new(responder: &PublicKey) -> Self {
        let chain = crypto::hash(&[CONSTRUCTION]);
        let hash = crypto::hash(&[&chain, IDENTIFIER]);
        Symmetric { chain: Zeroizing::new(chain), hash: crypto::hash(&[&hash, &responder.0]) }
    }

    fn mix_hash(&mut self, data: &[u8]) {
        self.hash = crypto::hash(&[&self.hash, data]);
    }

    fn mix_ephemeral(&mut self, ephemeral: &[u8; KEY_LEN]) {
        [self.chain] = kdf(self.chain.as_slice(), ephemeral);
        self.mix_hash(ephemeral);
    }

    /// Mixes a shared secret in, without a key to seal with.
    fn mix(&mut self, secret: &Secret) {
        [self.chain] = kdf(self.chain.as_slice(), secret.as_slice());
    }

    /// Mixes a shared secret in, and gives the key for the next field.
    fn mix_key(&mut self, secret: &Secret) -> Secret {
        let [chain, key] = kdf(self.chain.as_slice(), secret.as_slice());
        self.chain = chain;
        key
    }

    fn mix_preshared(&mut self, preshared: &PresharedKey) -> Secret {
        let [chain, tau, key] = kdf(self.chain.as_slice(), preshared.as_bytes());
        self.chain = chain;
        self.mix_hash(tau.as_slice());
        key
    }

    fn seal(&mut self, key: &Secret, plain: &[u8], sealed: &mut [u8]) -> Result<(), Refused> {
        crypto::seal(key, &self.hash, plain, sealed)?;
        self.mix_hash(sealed);
        Ok(())
    }

    fn open(&mut self, key: &Secret, sealed: &[u8], plain: &mut [u8]) -> Result<(), Refused> {
        crypto::open(key, &self.hash, sealed, plain)?;
        self.mix_hash(sealed);
        Ok(())
    }

    /// The initiator's key to seal with, and the responder's.
    fn split(&self) -> [Secret; 2] {
        kdf(self.chain.as_slice(), &[])
    }
}

/// An initiation that waits for its response.
pub(crate) struct Initiated {
    symmetric: Symmetric,
    ephemeral: KeyPair,
}

/// Makes an initiation, without its macs. `static_shared` is the agreement of both static keys; `ephemeral` is fresh.
pub(crate) fn initiate(
    own: &PublicKey,
    responder: &PublicKey,
    static_shared: &Secret,
    ephemeral: KeyPair,
    timestamp: Tai64n,
    sender: u32,
) -> Result<(Initiated, [u8; INITIATION_LEN]), Refused> {
    let mut symmetric = Symmetric::new(responder);
    symmetric.mix_ephemeral(&ephemeral.public.0);
    let key = symmetric.mix_key(&ephemeral.agree(responder)?);
    let mut sealed_static = [0; STATIC_LEN];
    symmetric.seal(&key, &own.0, &mut sealed_static)?;
    let key = symmetric.mix_key(static_shared);
    let mut sealed_timestamp = [0; TIMESTAMP_LEN];
    symmetric.seal(&key, &timestamp.0, &mut sealed_timestamp)?;
    let message = Initiation::write(sender, &ephemeral.public.0, &sealed_static, &sealed_timestamp);
    Ok((Initiated { symmetric, ephemeral }, message))
}

impl Initiated {
    /// Verifies a response, without its macs, and derives the session's keys.
    pub(crate) fn finish(
        &self,
        own: &KeyPair,
        preshared: &PresharedKey,
        message: &Response<'_>,
    ) -> Result<SessionKeys, Refused> {
        let mut symmetric = self.symmetric.clone();
        let ephemeral = PublicKey(*message.ephemeral());
        symmetric.mix_ephemeral(&ephemeral.0);
        symmetric.mix(&self.ephemeral.agree(&ephemeral)?);
        symmetric.mix(&own.agree(&ephemeral)?);
        let key = symmetric.mix_preshared(preshared);
        symmetric.open(&key, message.sealed_empty(), &mut [])?;
        let [seal, open] = symmetric.split();
        Ok(SessionKeys { seal, open })
    }
}

/// An initiation whose sender is named, but not proved.
pub(crate) struct Named {
    symmetric: Symmetric,
    /// The public key that the sender claims.
    pub(crate) initiator: PublicKey,
    ephemeral: PublicKey,
}

/// Reads the sender's public key from an initiation, without its macs.
pub(crate) fn name(own: &KeyPair, message: &Initiation<'_>) -> Result<Named, Refused> {
    let mut symmetric = Symmetric::new(&own.public);
    let ephemeral = PublicKey(*message.ephemeral());
    symmetric.mix_ephemeral(&ephemeral.0);
    let key = symmetric.mix_key(&own.agree(&ephemeral)?);
    let mut initiator = PublicKey([0; KEY_LEN]);
    symmetric.open(&key, message.sealed_static(), &mut initiator.0)?;
    Ok(Named { symmetric, initiator, ephemeral })
}

/// An initiation of a proved sender. It may still be a replay.
pub(crate) struct Proved {
    symmetric: Symmetric,
    initiator: PublicKey,
    ephemeral: PublicKey,
    pub(crate) timestamp: Tai64n,
}

impl Named {
    /// Verifies that the sender has the named key.
    pub(crate) fn prove(
        mut self,
        static_shared: &Secret,
        message: &Initiation<'_>,
    ) -> Result<Proved, Refused> {
        let key = self.symmetric.mix_key(static_shared);
        let mut timestamp = Tai64n([0; 12]);
        self.symmetric.open(&key, message.sealed_timestamp(), &mut timestamp.0)?;
        let Named { symmetric, initiator, ephemeral } = self;
        Ok(Proved { symmetric, initiator, ephemeral, timestamp })
    }
}

impl Proved {
    /// Makes the response, without its macs, and derives the session's keys. `ephemeral` is fresh.
    pub(crate) fn respond(
        mut self,
        ephemeral: &KeyPair,
        preshared: &PresharedKey,
        (sender, receiver): (u32, u32),
    ) -> Result<(SessionKeys, [u8; RESPONSE_LEN]), Refused> {
        self.symmetric.mix_ephemeral(&ephemeral.public.0);
        self.symmetric.mix(&ephemeral.agree(&self.ephemeral)?);
        self.symmetric.mix(&ephemeral.agree(&self.initiator)?);
        let key = self.symmetric.mix_preshared(preshared);
        let mut sealed_empty = [0; TAG_LEN];
        self.symmetric.seal(&key, &[], &mut sealed_empty)?;
        let [open, seal] = self.symmetric.split();
        let message = Response::write(sender, receiver, &ephemeral.public.0, &sealed_empty);
        Ok((SessionKeys { seal, open }, message))
    }
}

#[cfg(test)]
mod tests;

//! A key that a program at the management socket holds (`management-external-key`).

use std::fmt;
use std::sync::Arc;

use adit_openvpn_config::SignatureForms;
use adit_pki::KeyKind;
use adit_pki::signature::{KeyHolder, Scheme};
use rand_core::{OsRng, TryRngCore as _};

use super::CurrentStep;
use super::encoding::{Kind, digest_info, pkcs1_block, pss_block};
use crate::management::PendingQueries;

/// The program, and what it can sign.
pub(super) struct ManagementKey {
    questions: Option<Arc<PendingQueries>>,
    forms: SignatureForms,
    current: Arc<CurrentStep>,
}

impl ManagementKey {
    /// Without `questions` nothing can be signed.
    pub(super) fn new(
        questions: Option<Arc<PendingQueries>>,
        forms: SignatureForms,
        current: Arc<CurrentStep>,
    ) -> Self {
        ManagementKey { questions, forms, current }
    }
}

impl fmt::Debug for ManagementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagementKey").field("forms", &self.forms).finish_non_exhaustive()
    }
}

impl KeyHolder for ManagementKey {
    fn signs_by(&self, scheme: Scheme) -> bool {
        let forms = self.forms;
        match Kind::of(scheme) {
            Some(Kind::Pkcs1(_)) => forms.pkcs1 || forms.nopadding,
            Some(Kind::Pss(_)) => forms.pss || forms.nopadding,
            Some(Kind::Ecdsa(_) | Kind::Ed25519) => true,
            None => false,
        }
    }

    fn sign(&self, key: KeyKind, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, String> {
        let scheme = Kind::of(scheme).ok_or_else(|| format!("adit does not sign by {scheme}"))?;
        let mut salt = vec![0; scheme.hash().map_or(0, |hash| hash.length())];
        OsRng.try_fill_bytes(&mut salt).map_err(|error| format!("no randomness from the system: {error}"))?;
        let (data, algorithm) = question(self.forms, scheme, key, message, &salt)?;
        let questions = self.questions.as_ref().ok_or("there is no management socket to ask at")?;
        questions.ask_for_signature(&data, &algorithm, &*self.current)
    }
}

/// The question, and how the data is to be signed, in the words of OpenVPN's doc/management-notes.txt ("COMMAND --
/// pk-sig") and xkey_helper.c (`xkey_management_sign`). `salt` is that of PSS, if adit pads.
fn question(
    forms: SignatureForms,
    kind: Kind,
    key: KeyKind,
    message: &[u8],
    salt: &[u8],
) -> Result<(Vec<u8>, String), String> {
    let whole = |algorithm: String| (message.to_vec(), format!("{algorithm},data=message"));
    let unpadded = |block: Vec<u8>| (block, "RSA_NO_PADDING".to_owned());
    Ok(match kind {
        Kind::Ed25519 => whole("ED25519".to_owned()),
        Kind::Ecdsa(hash) if forms.digest => whole(format!("ECDSA,hashalg={}", hash.name())),
        Kind::Ecdsa(hash) => (hash.digest(message), "ECDSA".to_owned()),
        Kind::Pkcs1(hash) if forms.pkcs1 && forms.digest => {
            whole(format!("RSA_PKCS1_PADDING,hashalg={}", hash.name()))
        }
        Kind::Pkcs1(hash) if forms.pkcs1 => (digest_info(hash, message), "RSA_PKCS1_PADDING".to_owned()),
        Kind::Pkcs1(hash) => unpadded(pkcs1_block(hash, message, bits(key)?)?),
        Kind::Pss(hash) if forms.pss => {
            let algorithm = format!("RSA_PKCS1_PSS_PADDING,hashalg={},saltlen=digest", hash.name());
            match forms.digest {
                true => whole(algorithm),
                false => (hash.digest(message), algorithm),
            }
        }
        Kind::Pss(hash) => unpadded(pss_block(hash, message, salt, bits(key)?)?),
    })
}

/// The length of an RSA key's modulus.
fn bits(key: KeyKind) -> Result<usize, String> {
    match key {
        KeyKind::Rsa { bits } => Ok(bits),
        other => Err(format!("a key of {other:?} makes no RSA signature")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pkcs11::Hash;

    const RSA: KeyKind = KeyKind::Rsa { bits: 2048 };

    fn forms(words: &str) -> SignatureForms {
        let has = |word| words.split(' ').any(|it| it == word);
        SignatureForms {
            nopadding: has("nopadding"),
            pkcs1: has("pkcs1"),
            pss: has("pss"),
            digest: has("digest"),
        }
    }

    #[test]
    fn a_program_is_asked_in_openvpns_words() {
        let pkcs1 = Kind::Pkcs1(Hash::Sha256);
        let pss = Kind::Pss(Hash::Sha384);
        for (words, kind, key, length, algorithm) in [
            ("pkcs1", pkcs1, RSA, 19 + 32, "RSA_PKCS1_PADDING"),
            ("pkcs1 digest", pkcs1, RSA, 7, "RSA_PKCS1_PADDING,hashalg=SHA256,data=message"),
            ("nopadding", pkcs1, RSA, 256, "RSA_NO_PADDING"),
            ("nopadding", pss, RSA, 256, "RSA_NO_PADDING"),
            ("nopadding pss", pss, RSA, 48, "RSA_PKCS1_PSS_PADDING,hashalg=SHA384,saltlen=digest"),
            ("pss digest", pss, RSA, 7, "RSA_PKCS1_PSS_PADDING,hashalg=SHA384,saltlen=digest,data=message"),
            ("pkcs1", Kind::Ecdsa(Hash::Sha256), KeyKind::EcdsaP256, 32, "ECDSA"),
            ("digest", Kind::Ecdsa(Hash::Sha512), KeyKind::EcdsaP521, 7, "ECDSA,hashalg=SHA512,data=message"),
            ("pkcs1", Kind::Ed25519, KeyKind::Ed25519, 7, "ED25519,data=message"),
        ] {
            let asked = question(forms(words), kind, key, b"message", &[1; 48]);
            let asked = asked.map(|(data, algorithm)| (data.len(), algorithm));
            assert_eq!(asked, Ok((length, algorithm.to_owned())), "{words} {kind:?}");
        }
        assert!(question(forms("nopadding"), pss, KeyKind::Ed25519, b"", &[1; 48]).is_err());
    }
}

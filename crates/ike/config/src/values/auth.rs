//! `auth`: the method of authentication, with rules for signatures.

use adit_core::Digest;

use super::{numbers, shown};
use crate::model::{EapMethod, Method, Scheme, SchemeKey, SignatureRules};

const EAP_METHODS: [(&str, EapMethod); 4] = [
    ("eap-mschapv2", EapMethod::MsChapV2),
    ("eap-tls", EapMethod::Tls),
    ("eap", EapMethod::Any),
    ("eap-dynamic", EapMethod::Dynamic),
];

/// A method of authentication.
///
/// # Errors
/// It is none, or one that adit does not have.
pub(crate) fn method(text: &str) -> Result<Method, String> {
    let lower = text.to_ascii_lowercase();
    if lower == "psk" {
        return Ok(Method::SharedKey);
    }
    if let Some((_, method)) = EAP_METHODS.iter().find(|(name, _)| *name == lower) {
        return Ok(Method::Eap(*method));
    }
    if lower.starts_with("eap") {
        return Err(format!(
            "`{}`: of the methods of EAP adit has eap-mschapv2 and eap-tls; write one of them, pubkey or psk",
            shown(text)
        ));
    }
    if lower.starts_with("xauth") {
        return Err(format!(
            "`{}`: XAuth is a part of IKEv1, which adit does not have; write pubkey or psk",
            shown(text)
        ));
    }
    signatures(&lower).map(Method::Signature)
}

/// The words of a method by signatures, read from the left.
#[derive(Default)]
struct Reader {
    rules: SignatureRules,
    /// The kind of key of the digests that follow.
    key: Option<SchemeKey>,
    /// The digests that follow are those of AUTH payloads (`ike:`).
    is_of_auth: bool,
    /// The next word may be the fewest bits of a key.
    may_be_bits: bool,
}

fn signatures(text: &str) -> Result<SignatureRules, String> {
    let mut reader = Reader::default();
    for word in text.split('-') {
        let is_known = reader.key(word) || reader.bits(word) || reader.digest(word);
        if !is_known {
            return Err(format!(
                "`{}` is no method: write psk, pubkey, or rules for signatures such as rsa-2048-sha256 or ike:ecdsa-sha384",
                shown(word)
            ));
        }
    }
    let mut rules = reader.rules;
    // As strongSwan: without rules for AUTH payloads, the rules for chains hold for them, too.
    if rules.of_auth.is_empty() {
        rules.of_auth.clone_from(&rules.of_chain);
    }
    Ok(rules)
}

impl Reader {
    fn key(&mut self, word: &str) -> bool {
        let (is_of_auth, name) = word.strip_prefix("ike:").map_or((false, word), |name| (true, name));
        let key = match name {
            "pubkey" => SchemeKey::Any,
            "rsa" => SchemeKey::Rsa,
            "rsa/pss" => SchemeKey::RsaPss,
            "ecdsa" => SchemeKey::Ecdsa,
            "ed25519" => SchemeKey::Ed25519,
            _ => return false,
        };
        (self.key, self.is_of_auth, self.may_be_bits) = (Some(key), is_of_auth, true);
        true
    }

    fn bits(&mut self, word: &str) -> bool {
        let bits = numbers::number_u32(word).ok().filter(|bits| *bits > 0 && self.may_be_bits);
        self.may_be_bits = false;
        let Some(bits) = bits else { return false };
        match self.key {
            Some(SchemeKey::Rsa | SchemeKey::RsaPss) => self.rules.least_rsa_bits = Some(bits),
            Some(SchemeKey::Ecdsa) => self.rules.least_ecdsa_bits = Some(bits),
            _ => return false,
        }
        true
    }

    fn digest(&mut self, word: &str) -> bool {
        let digest = match (word, self.key) {
            ("identity", Some(SchemeKey::Ed25519 | SchemeKey::Any)) => None,
            (_, Some(SchemeKey::Ed25519)) | ("identity", _) => return false,
            _ => match Digest::from_name(word) {
                Some(digest) => Some(digest),
                None => return false,
            },
        };
        let Some(key) = self.key else { return false };
        let key = if digest.is_none() { SchemeKey::Ed25519 } else { key };
        let rules = if self.is_of_auth { &mut self.rules.of_auth } else { &mut self.rules.of_chain };
        rules.push(Scheme { key, digest });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> SignatureRules {
        match method(text) {
            Ok(Method::Signature(rules)) => rules,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn methods_have_rules_for_signatures() {
        assert_eq!(method("PSK"), Ok(Method::SharedKey));
        assert_eq!((rules("pubkey"), rules("rsa")), (SignatureRules::default(), SignatureRules::default()));
        let scheme = |key, digest| Scheme { key, digest: Some(digest) };
        let both = rules("rsa-2048-sha256-ecdsa-256-sha384");
        let expected = vec![scheme(SchemeKey::Rsa, Digest::Sha256), scheme(SchemeKey::Ecdsa, Digest::Sha384)];
        assert_eq!((both.least_rsa_bits, both.least_ecdsa_bits), (Some(2048), Some(256)));
        assert_eq!((&both.of_chain, &both.of_auth), (&expected, &expected));
        let own = rules("pubkey-sha256-ike:rsa/pss-sha512-ike:ed25519-identity");
        assert_eq!(own.of_chain, [scheme(SchemeKey::Any, Digest::Sha256)]);
        let ed25519 = Scheme { key: SchemeKey::Ed25519, digest: None };
        assert_eq!(own.of_auth, [scheme(SchemeKey::RsaPss, Digest::Sha512), ed25519]);
    }

    #[test]
    fn methods_of_eap_have_their_names() {
        for (text, expected) in [
            ("eap", EapMethod::Any),
            ("EAP-MSCHAPv2", EapMethod::MsChapV2),
            ("eap-tls", EapMethod::Tls),
            ("eap-dynamic", EapMethod::Dynamic),
        ] {
            assert_eq!(method(text), Ok(Method::Eap(expected)), "{text}");
        }
    }

    #[test]
    fn other_methods_are_refused_with_the_way_out() {
        for (text, part) in [
            ("eap-ttls", "adit has eap-mschapv2 and eap-tls"),
            ("eap-radius", "adit has eap-mschapv2 and eap-tls"),
            ("eap-mschapv2-sha256", "adit has eap-mschapv2 and eap-tls"),
            ("xauth", "a part of IKEv1"),
            ("secret", "`secret` is no method"),
            ("pubkey-sha257", "`sha257` is no method"),
            ("pubkey-2048", "`2048` is no method"),
            ("rsa-sha256-2048", "`2048` is no method"),
            ("sha256", "`sha256` is no method"),
            ("", "`` is no method"),
        ] {
            assert!(method(text).is_err_and(|why| why.contains(part)), "{text}: {:?}", method(text));
        }
    }
}

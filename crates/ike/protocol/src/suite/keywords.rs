//! Proposals as configuration files write them: `aes256gcm16-prfsha384-ecp384`. The words are those of swanctl.conf.

use adit_core::{Cipher, Digest};
use thiserror::Error;

use super::{ADDITIONAL, Algorithm, Algorithms, Group};
use crate::wire::{ProtocolId, TransformType};

/// Most proposals of a list: their numbers have one byte, and peers take fewer than that.
const MAX_PROPOSALS: usize = 32;
/// The proposals that `default` stands for.
const DEFAULT_IKE: &str = "aes256gcm16-aes128gcm16-chacha20poly1305-prfsha384-prfsha256-prfsha512-x25519-ecp256-ecp384-ecp521-modp3072-modp2048-modp4096,\
    aes256-aes128-sha256-sha384-sha512-x25519-ecp256-ecp384-ecp521-modp3072-modp2048-modp4096";
const DEFAULT_ESP: &str = "aes256gcm16-aes128gcm16-chacha20poly1305,aes256-aes128-sha256-sha384-sha512";
/// The beginnings of words for algorithms that are not supported, with what to write instead.
const NOT_SUPPORTED: [(&str, &str); 13] = [
    ("modp", "modp2048, modp3072, modp4096, ecp256, ecp384, ecp521 or x25519"),
    ("mlkem512", "mlkem768 or mlkem1024"),
    ("x448", "x25519"),
    ("curve448", "x25519"),
    ("ecp", "ecp256, ecp384 or ecp521"),
    ("3des", "aes256gcm16"),
    ("des", "aes256gcm16"),
    ("null", "aes256gcm16"),
    ("camellia", "aes256gcm16"),
    ("md5", "sha256"),
    ("prf", "prfsha256, prfsha384 or prfsha512"),
    ("aesxcbc", "sha256"),
    ("aes", "aes128, aes192 or aes256, alone or followed by gcm16"),
];

/// The reason why a list of proposals was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadKeyword {
    /// The word is not known.
    #[error(
        "`{0}` is no algorithm; known are aes128, aes192, aes256 (also with gcm16), chacha20poly1305, sha256, sha384, sha512, sha1, \
        prfsha256, prfsha384, prfsha512, prfsha1, ecp256, ecp384, ecp521, x25519, modp2048, modp3072, modp4096, mlkem768, mlkem1024, ke1_ to ke7_, esn, noesn"
    )]
    Unknown(String),
    /// The word stands for an algorithm that is not supported.
    #[error("`{word}` is not supported; write {instead}")]
    NotSupported {
        /// The word.
        word: String,
        /// The words that are supported instead.
        instead: &'static str,
    },
    /// The word has no place in a proposal of that protocol.
    #[error("`{word}` has no place in a proposal for {protocol}")]
    Misplaced {
        /// The word.
        word: String,
        /// The protocol.
        protocol: ProtocolId,
    },
    /// The proposal lacks a kind of algorithm.
    #[error("`{proposal}` has no {missing}")]
    Missing {
        /// The proposal.
        proposal: String,
        /// The missing kind of algorithm, with an example.
        missing: &'static str,
    },
    /// AEADs and other ciphers stand in one proposal (RFC 7296 section 3.3: they need different proposals).
    #[error(
        "`{0}` has ciphers with and without authentication of their own; write two proposals with a comma between them"
    )]
    Mixed(String),
    /// There are too many proposals, or none.
    #[error("{0} proposals, allowed are 1 to {MAX_PROPOSALS}")]
    Count(usize),
}

/// Proposals for an IKE SA, by commas.
///
/// A PRF that is left out is that of the integrity algorithm. With an AEAD, words of integrity algorithms stand for PRFs.
///
/// # Errors
/// A word is wrong, a proposal is incomplete or mixed, or there are too many proposals or none.
pub fn ike_proposals(text: &str) -> Result<Vec<Algorithms>, BadKeyword> {
    proposals(text, DEFAULT_IKE, ike_proposal)
}

/// Proposals for a child SA with ESP, by commas. Sequence numbers have 32 bits if nothing is said.
///
/// # Errors
/// A word is wrong, a proposal is incomplete or mixed, or there are too many proposals or none.
pub fn esp_proposals(text: &str) -> Result<Vec<Algorithms>, BadKeyword> {
    proposals(text, DEFAULT_ESP, esp_proposal)
}

fn proposals(
    text: &str,
    default: &str,
    parse: fn(&str) -> Result<Algorithms, BadKeyword>,
) -> Result<Vec<Algorithms>, BadKeyword> {
    let words = text
        .split(',')
        .map(str::trim)
        .flat_map(|word| if word == "default" { default } else { word }.split(','));
    let proposals: Vec<Algorithms> =
        words.filter(|word| !word.is_empty()).map(parse).collect::<Result<_, _>>()?;
    let count = proposals.len();
    if (1..=MAX_PROPOSALS).contains(&count) { Ok(proposals) } else { Err(BadKeyword::Count(count)) }
}

/// The words of a proposal.
#[derive(Default)]
struct Words {
    ciphers: Vec<Cipher>,
    integrity: Vec<Digest>,
    prfs: Vec<Digest>,
    /// Methods of key exchange and of additional ones.
    exchanges: Vec<Algorithm>,
    /// Whether sequence numbers have 64 bits.
    sequence_numbers: Vec<bool>,
}

fn words(proposal: &str, protocol: ProtocolId) -> Result<Words, BadKeyword> {
    let mut words = Words::default();
    for word in proposal.split('-') {
        let digest =
            |word: &str| Digest::from_name(&word.replace("sha2_", "sha")).filter(|d| *d != Digest::Sha224);
        let is_ike = protocol == ProtocolId::IKE;
        if let Some(cipher) = cipher(word) {
            words.ciphers.push(cipher);
        } else if let Some(digest) = word.strip_prefix("prf").and_then(digest).filter(|_| is_ike) {
            words.prfs.push(digest);
        } else if let Some(digest) = word.starts_with("sha").then(|| digest(word)).flatten() {
            words.integrity.push(digest);
        } else if let Some(exchange) = exchange(word) {
            words.exchanges.push(exchange);
        } else if let "esn" | "noesn" = word
            && !is_ike
        {
            words.sequence_numbers.push(word == "esn");
        } else {
            return Err(bad_word(word, protocol));
        }
    }
    Ok(words)
}

fn bad_word(word: &str, protocol: ProtocolId) -> BadKeyword {
    let word = word.to_owned();
    let is_known =
        ["prfsha1", "prfsha256", "prfsha384", "prfsha512", "esn", "noesn"].contains(&word.as_str());
    if is_known {
        return BadKeyword::Misplaced { word, protocol };
    }
    let instead = NOT_SUPPORTED.iter().find(|(start, _)| word.starts_with(start));
    match instead {
        Some(&(_, instead)) => BadKeyword::NotSupported { word, instead },
        None => BadKeyword::Unknown(word),
    }
}

fn cipher(word: &str) -> Option<Cipher> {
    match word {
        "aes128" | "aes" => Some(Cipher::Aes128Cbc),
        "aes192" => Some(Cipher::Aes192Cbc),
        "aes256" => Some(Cipher::Aes256Cbc),
        "aes128gcm16" | "aes128gcm128" | "aes128gcm" => Some(Cipher::Aes128Gcm),
        "aes192gcm16" | "aes192gcm128" | "aes192gcm" => Some(Cipher::Aes192Gcm),
        "aes256gcm16" | "aes256gcm128" | "aes256gcm" => Some(Cipher::Aes256Gcm),
        "chacha20poly1305" => Some(Cipher::ChaCha20Poly1305),
        _ => None,
    }
}

/// A method of key exchange, with `keN_` in front of an additional one, for which `none` may stand.
fn exchange(word: &str) -> Option<Algorithm> {
    let group = |word| {
        Group::ALL
            .into_iter()
            .find(|group| group.keyword() == word || word == "curve25519" && *group == Group::X25519)
    };
    let Some((number, method)) = word.strip_prefix("ke").and_then(|rest| rest.split_once('_')) else {
        return Some(Algorithm::group(TransformType::KEY_EXCHANGE, Some(group(word)?)));
    };
    let number: usize = number.parse().ok()?;
    let kind = *ADDITIONAL.get(number.checked_sub(1)?)?;
    let method = if method == "none" { None } else { Some(group(method)?) };
    Some(Algorithm::group(kind, method))
}

/// Whether all ciphers of a proposal are AEADs. Proposals without a cipher, and those that mix AEADs with others, are refused.
fn is_aead(proposal: &str, words: &Words) -> Result<bool, BadKeyword> {
    let aeads = words.ciphers.iter().filter(|cipher| cipher.is_aead()).count();
    if words.ciphers.is_empty() {
        return Err(missing(proposal, "cipher, such as aes256gcm16"));
    }
    if aeads != 0 && aeads != words.ciphers.len() {
        return Err(BadKeyword::Mixed(proposal.to_owned()));
    }
    Ok(aeads != 0)
}

fn missing(proposal: &str, missing: &'static str) -> BadKeyword {
    BadKeyword::Missing { proposal: proposal.to_owned(), missing }
}

fn ike_proposal(proposal: &str) -> Result<Algorithms, BadKeyword> {
    let mut words = words(proposal, ProtocolId::IKE)?;
    let is_aead = is_aead(proposal, &words)?;
    if words.prfs.is_empty() {
        words.prfs.clone_from(&words.integrity);
    }
    if words.prfs.is_empty() {
        return Err(missing(proposal, "PRF, such as prfsha256"));
    }
    if !words.exchanges.iter().any(|exchange| exchange.kind == TransformType::KEY_EXCHANGE) {
        return Err(missing(proposal, "key exchange, such as ecp256"));
    }
    let integrity = if is_aead { Vec::new() } else { integrity(proposal, &words)? };
    let ciphers = words.ciphers.iter().map(|cipher| Algorithm::cipher(*cipher));
    let prfs = words.prfs.iter().filter_map(|digest| Algorithm::prf(*digest));
    let all = ciphers.chain(prfs).chain(integrity).chain(words.exchanges.iter().copied());
    Ok(Algorithms { protocol: ProtocolId::IKE, all: once_each(all) })
}

fn esp_proposal(proposal: &str) -> Result<Algorithms, BadKeyword> {
    let mut words = words(proposal, ProtocolId::ESP)?;
    let is_aead = is_aead(proposal, &words)?;
    if words.sequence_numbers.is_empty() {
        words.sequence_numbers.push(false);
    }
    let integrity = if is_aead { Vec::new() } else { integrity(proposal, &words)? };
    let ciphers = words.ciphers.iter().map(|cipher| Algorithm::cipher(*cipher));
    let numbers = words.sequence_numbers.iter().map(|extended| Algorithm::sequence_numbers(*extended));
    let all = ciphers.chain(integrity).chain(words.exchanges.iter().copied()).chain(numbers);
    Ok(Algorithms { protocol: ProtocolId::ESP, all: once_each(all) })
}

fn integrity(proposal: &str, words: &Words) -> Result<Vec<Algorithm>, BadKeyword> {
    if words.integrity.is_empty() {
        return Err(missing(proposal, "integrity algorithm, such as sha256"));
    }
    Ok(words.integrity.iter().filter_map(|digest| Algorithm::integrity(*digest)).collect())
}

/// The algorithms without repetitions.
fn once_each(all: impl Iterator<Item = Algorithm>) -> Vec<Algorithm> {
    all.fold(Vec::new(), |mut all, algorithm| {
        if !all.contains(&algorithm) {
            all.push(algorithm);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(proposal: &Algorithms) -> Vec<(u8, u16, Option<u16>)> {
        proposal.all.iter().map(|algorithm| (algorithm.kind.0, algorithm.id, algorithm.key_bits)).collect()
    }

    #[test]
    fn words_stand_for_the_numbers_of_the_registry() {
        let proposals =
            ike_proposals("aes256gcm16-prfsha384-ecp384-ke1_mlkem768, aes128-sha256-x25519").unwrap();
        let [aead, cbc] = proposals.as_slice() else { panic!("two proposals") };
        assert_eq!(numbers(aead), [(1, 20, Some(256)), (2, 6, None), (4, 20, None), (6, 36, None)]);
        assert_eq!(numbers(cbc), [(1, 12, Some(128)), (2, 5, None), (3, 12, None), (4, 31, None)]);
        let esp = esp_proposals("chacha20poly1305-curve25519-esn-noesn").unwrap();
        assert_eq!(numbers(&esp[0]), [(1, 28, None), (4, 31, None), (5, 1, None), (5, 0, None)]);
        let esp = esp_proposals("aes192-sha1-sha2_512-sha512").unwrap();
        assert_eq!(numbers(&esp[0]), [(1, 12, Some(192)), (3, 2, None), (3, 14, None), (5, 0, None)]);
        let skipped = ike_proposals("aes256gcm16-sha256-ecp256-ke2_mlkem1024-ke2_none").unwrap();
        assert_eq!(numbers(&skipped[0])[1..], [(2, 5, None), (4, 19, None), (7, 37, None), (7, 0, None)]);
    }

    #[test]
    fn default_stands_for_proposals_with_and_without_an_aead() {
        assert_eq!(ike_proposals("default").unwrap(), ike_proposals(DEFAULT_IKE).unwrap());
        assert_eq!(esp_proposals("aes256gcm16,default").unwrap().len(), 3);
    }

    #[test]
    fn errors_name_the_word_and_what_would_be_right() {
        let error = |text: &str| ike_proposals(text).unwrap_err().to_string();
        assert_eq!(
            error("aes256-sha256-modp1024"),
            "`modp1024` is not supported; write modp2048, modp3072, modp4096, ecp256, ecp384, ecp521 or x25519"
        );
        assert!(error("aes256-sha257-ecp256").starts_with("`sha257` is no algorithm; known are aes128,"));
        assert_eq!(error("aes256-sha256"), "`aes256-sha256` has no key exchange, such as ecp256");
        assert_eq!(error("aes256gcm16-ecp256"), "`aes256gcm16-ecp256` has no PRF, such as prfsha256");
        assert_eq!(
            error("aes256-ecp256-prfsha256"),
            "`aes256-ecp256-prfsha256` has no integrity algorithm, such as sha256"
        );
        assert!(error("aes256-aes256gcm16-sha256-ecp256").contains("write two proposals"));
        assert_eq!(error(" "), "0 proposals, allowed are 1 to 32");
        assert_eq!(error("aes256-sha256-ecp256-esn"), "`esn` has no place in a proposal for IKE");
        let error = esp_proposals("aes256gcm16-prfsha256").unwrap_err().to_string();
        assert_eq!(error, "`prfsha256` has no place in a proposal for ESP");
        for word in ["ke0_ecp256", "ke8_ecp256", "ke_ecp256", "ke1_none2", "sha224", "SHA256"] {
            assert!(ike_proposals(&format!("aes256-sha256-ecp256-{word}")).is_err(), "{word}");
        }
    }
}

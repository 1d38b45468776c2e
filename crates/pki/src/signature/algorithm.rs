//! Schemes as `AlgorithmIdentifier`s (RFC 7427 appendix A, RFC 8420 appendix A).

use thiserror::Error;

use super::{Digest, Scheme};
use crate::der_values::{Value, Values, dotted, tag};

/// The content of the object identifiers of schemes (RFC 8017 appendix C, RFC 5758 section 3.2, RFC 8410 section 3).
const ECDSA: [(&[u8], Digest); 4] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1], Digest::Sha1),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], Digest::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], Digest::Sha384),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], Digest::Sha512),
];
const RSA_PKCS1: [(&[u8], Digest); 4] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], Digest::Sha1),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], Digest::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], Digest::Sha384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], Digest::Sha512),
];
const RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10];
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 8];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// The content of the object identifiers of digests.
const DIGESTS: [(&[u8], Digest); 4] = [
    (&[0x2b, 0x0e, 3, 2, 0x1a], Digest::Sha1),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1], Digest::Sha256),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2], Digest::Sha384),
    (&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3], Digest::Sha512),
];
/// The salt of RSASSA-PSS where its parameters name no length, in bytes (RFC 8017 appendix A.2.3).
const DEFAULT_SALT: usize = 20;

/// The reason why an `AlgorithmIdentifier` names no [`Scheme`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AlgorithmError {
    /// The `AlgorithmIdentifier` is none in DER.
    #[error("it is no AlgorithmIdentifier in DER")]
    Malformed,
    /// The `AlgorithmIdentifier` names an algorithm that is not supported.
    #[error("it names an algorithm that is not supported")]
    Unknown,
    /// Its parameters are not those of the algorithm, or name something that is not supported.
    #[error(
        "its parameters are not supported: RSA (PSS) is supported with MGF1 by the same digest, and a salt as long as the digest"
    )]
    Parameters,
}

impl Digest {
    /// The digest with this dotted object identifier.
    pub(super) fn from_dotted(dotted_oid: &str) -> Option<Self> {
        DIGESTS.iter().find(|(oid, _)| dotted(oid) == dotted_oid).map(|(_, digest)| *digest)
    }
}

impl Scheme {
    /// The `AlgorithmIdentifier`, in DER.
    pub fn algorithm_identifier(self) -> Vec<u8> {
        let oid = |table: &[(&'static [u8], Digest)], digest| {
            table.iter().find(|(_, it)| *it == digest).map_or(&[][..], |(oid, _)| *oid)
        };
        match self {
            Scheme::Ed25519 => sequence(&[element(tag::OBJECT_IDENTIFIER, ED25519)]),
            Scheme::Ecdsa(digest) => sequence(&[element(tag::OBJECT_IDENTIFIER, oid(&ECDSA, digest))]),
            Scheme::RsaPkcs1(digest) => {
                sequence(&[element(tag::OBJECT_IDENTIFIER, oid(&RSA_PKCS1, digest)), element(tag::NULL, &[])])
            }
            Scheme::RsaPss(digest) => {
                let parameters = pss_parameters(oid(&DIGESTS, digest), digest);
                sequence(&[element(tag::OBJECT_IDENTIFIER, RSA_PSS), parameters])
            }
        }
    }

    /// The scheme that an `AlgorithmIdentifier` in DER names.
    ///
    /// # Errors
    /// When it is malformed, or names something else.
    pub fn from_algorithm_identifier(der: &[u8]) -> Result<Self, AlgorithmError> {
        let fields = Values::inside(tag::SEQUENCE, der).ok_or(AlgorithmError::Malformed)?;
        Algorithm::read(fields).ok_or(AlgorithmError::Malformed)?.scheme()
    }
}

/// An object identifier with its parameters.
pub(super) struct Algorithm<'a> {
    oid: &'a [u8],
    parameters: Option<Value<'a>>,
}

impl<'a> Algorithm<'a> {
    fn read(mut fields: Values<'a>) -> Option<Self> {
        let oid = fields.take(tag::OBJECT_IDENTIFIER)?.content;
        let parameters = if fields.is_empty() { None } else { Some(fields.next()?) };
        fields.is_empty().then_some(Algorithm { oid, parameters })
    }

    /// Parameters of NULL, or none: signers write one or the other (RFC 4055 section 2.1).
    fn has_no_parameters(&self) -> bool {
        self.parameters.is_none_or(|it| it.tag == tag::NULL && it.content.is_empty())
    }

    fn scheme(&self) -> Result<Scheme, AlgorithmError> {
        let find = |table: &[(&[u8], Digest)]| table.iter().find(|(oid, _)| *oid == self.oid).map(|it| it.1);
        let bare =
            |scheme| if self.has_no_parameters() { Ok(scheme) } else { Err(AlgorithmError::Parameters) };
        if let Some(digest) = find(&RSA_PKCS1) {
            return bare(Scheme::RsaPkcs1(digest));
        }
        if let Some(digest) = find(&ECDSA) {
            return bare(Scheme::Ecdsa(digest));
        }
        match self.oid {
            ED25519 if self.parameters.is_none() => Ok(Scheme::Ed25519),
            ED25519 => Err(AlgorithmError::Parameters),
            RSA_PSS => match self.parameters {
                Some(it) if it.tag == tag::SEQUENCE => pss(it.content).map(Scheme::RsaPss),
                _ => Err(AlgorithmError::Parameters),
            },
            _ => Err(AlgorithmError::Unknown),
        }
    }
}

/// The limits that `RSASSA-PSS-params` set (RFC 4055 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PssParameters {
    pub(crate) digest: Digest,
    pub(crate) mask_digest: Digest,
    pub(crate) salt: usize,
}

impl PssParameters {
    /// The parameters in the content of the sequence. `None`: they are malformed, or name digests or functions that are not
    /// supported.
    pub(crate) fn read(content: &[u8]) -> Option<Self> {
        let mut fields = Values::new(content);
        let digest = match fields.take(tag::CONTEXT_0) {
            None => Digest::Sha1,
            Some(it) => digest_of(only(it, tag::SEQUENCE)?)?,
        };
        let mask_digest = match fields.take(tag::CONTEXT_1) {
            None => Digest::Sha1,
            Some(it) => mask_digest_of(only(it, tag::SEQUENCE)?)?,
        };
        let salt = match fields.take(tag::CONTEXT_2) {
            None => DEFAULT_SALT,
            Some(it) => match only(it, tag::INTEGER)? {
                [length] if *length < 0x80 => usize::from(*length),
                _ => return None,
            },
        };
        let has_usual_trailer = match fields.take(tag::CONTEXT_3) {
            None => true,
            Some(it) => only(it, tag::INTEGER)? == [1],
        };
        (fields.is_empty() && has_usual_trailer).then_some(PssParameters { digest, mask_digest, salt })
    }
}

/// The digest of PSS parameters for signatures.
fn pss(content: &[u8]) -> Result<Digest, AlgorithmError> {
    let parameters = PssParameters::read(content);
    let fits = |it: &PssParameters| it.mask_digest == it.digest && it.salt == it.digest.output_len();
    parameters.filter(fits).map(|it| it.digest).ok_or(AlgorithmError::Parameters)
}

/// The content of the only value inside of another.
fn only(outer: Value<'_>, tag: u8) -> Option<&[u8]> {
    let mut inside = Values::new(outer.content);
    let value = inside.take(tag)?;
    inside.is_empty().then_some(value.content)
}

/// The digest in the content of an `AlgorithmIdentifier`.
fn digest_of(content: &[u8]) -> Option<Digest> {
    let algorithm = Algorithm::read(Values::new(content))?;
    let (_, digest) = DIGESTS.iter().find(|(oid, _)| *oid == algorithm.oid)?;
    algorithm.has_no_parameters().then_some(*digest)
}

/// The digest of MGF1 in the content of an `AlgorithmIdentifier`.
fn mask_digest_of(content: &[u8]) -> Option<Digest> {
    let algorithm = Algorithm::read(Values::new(content))?;
    let parameters = algorithm.parameters.filter(|it| algorithm.oid == MGF1 && it.tag == tag::SEQUENCE)?;
    digest_of(parameters.content)
}

fn pss_parameters(oid: &[u8], digest: Digest) -> Vec<u8> {
    let hash = sequence(&[element(tag::OBJECT_IDENTIFIER, oid), element(tag::NULL, &[])]);
    let mask = sequence(&[element(tag::OBJECT_IDENTIFIER, MGF1), hash.clone()]);
    let salt = element(tag::INTEGER, &[digest.output_len() as u8]);
    let fields = [(tag::CONTEXT_0, hash), (tag::CONTEXT_1, mask), (tag::CONTEXT_2, salt)];
    sequence(&fields.map(|(tag, value)| element(tag, &value)))
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(tag::SEQUENCE, &parts.concat())
}

/// An element of DER with a content of less than 128 bytes, as all here are.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    debug_assert!(content.len() < 0x80, "a long form of the length");
    [&[tag, content.len() as u8][..], content].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// The encodings that RFC 7427 prints in appendix A and RFC 8420 in appendix A.
    const PRINTED: [(Scheme, &str); 10] = [
        (Scheme::RsaPkcs1(Digest::Sha1), "300d 0609 2a864886f70d010105 0500"),
        (Scheme::RsaPkcs1(Digest::Sha256), "300d 0609 2a864886f70d01010b 0500"),
        (Scheme::RsaPkcs1(Digest::Sha384), "300d 0609 2a864886f70d01010c 0500"),
        (Scheme::RsaPkcs1(Digest::Sha512), "300d 0609 2a864886f70d01010d 0500"),
        (Scheme::Ecdsa(Digest::Sha1), "3009 0607 2a8648ce3d0401"),
        (Scheme::Ecdsa(Digest::Sha256), "300a 0608 2a8648ce3d040302"),
        (Scheme::Ecdsa(Digest::Sha384), "300a 0608 2a8648ce3d040303"),
        (Scheme::Ecdsa(Digest::Sha512), "300a 0608 2a8648ce3d040304"),
        (
            Scheme::RsaPss(Digest::Sha256),
            "3041 0609 2a864886f70d01010a 3034 a00f 300d 0609 608648016503040201 0500 \
             a11c 301a 0609 2a864886f70d010108 300d 0609 608648016503040201 0500 a203 020120",
        ),
        (Scheme::Ed25519, "3005 0603 2b6570"),
    ];

    #[test]
    fn schemes_are_written_and_read_as_the_standards_print_them() {
        for (scheme, hex) in PRINTED {
            let der = bytes(hex);
            assert_eq!(scheme.algorithm_identifier(), der, "{scheme}");
            assert_eq!(Scheme::from_algorithm_identifier(&der), Ok(scheme));
        }
        for scheme in [Scheme::RsaPss(Digest::Sha384), Scheme::RsaPss(Digest::Sha512)] {
            assert_eq!(Scheme::from_algorithm_identifier(&scheme.algorithm_identifier()), Ok(scheme));
        }
    }

    #[test]
    fn null_and_no_parameters_are_the_same() {
        let without = bytes("300b 0609 2a864886f70d01010b");
        assert_eq!(Scheme::from_algorithm_identifier(&without), Ok(Scheme::RsaPkcs1(Digest::Sha256)));
        let with = bytes("300c 0608 2a8648ce3d040302 0500");
        assert_eq!(Scheme::from_algorithm_identifier(&with), Ok(Scheme::Ecdsa(Digest::Sha256)));
    }

    #[test]
    fn other_parameters_of_pss_are_refused() {
        // RFC 7427 appendix A.4.1 and A.4.2: SHA-1 with a salt of 20 bytes is PSS with SHA-1, which [`verify`] refuses.
        for sha1 in [
            "300d 0609 2a864886f70d01010a 3000",
            "303e 0609 2a864886f70d01010a 3031 a00b 3009 0605 2b0e03021a 0500 a118 3016 0609 2a864886f70d010108 \
             3009 0605 2b0e03021a 0500 a203 020114 a303 020101",
        ] {
            assert_eq!(Scheme::from_algorithm_identifier(&bytes(sha1)), Ok(Scheme::RsaPss(Digest::Sha1)));
        }
        let good = Scheme::RsaPss(Digest::Sha256).algorithm_identifier();
        for (what, at, byte) in [
            ("a shorter salt", good.len() - 1, 20),
            ("a negative salt", good.len() - 1, 0xe0),
            ("another mask function", 46, 9),
            ("another digest of the mask", 59, 2),
            ("another digest", 29, 3),
            ("another tag", 15, 0xa4),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(Scheme::from_algorithm_identifier(&bad), Err(AlgorithmError::Parameters), "{what}");
        }
        let none = bytes("300b 0609 2a864886f70d01010a");
        assert_eq!(Scheme::from_algorithm_identifier(&none), Err(AlgorithmError::Parameters));
    }

    #[test]
    fn what_names_no_scheme_is_refused() {
        for (hex, error) in [
            ("", AlgorithmError::Malformed),
            ("3000", AlgorithmError::Malformed),
            ("3005 0603 2b6570 00", AlgorithmError::Malformed),
            ("3009 0603 2b6570 0500 0500", AlgorithmError::Malformed),
            ("3005 0603 2b6571", AlgorithmError::Unknown),
            ("3007 0603 2b6570 0500", AlgorithmError::Parameters),
            ("300e 0609 2a864886f70d01010b 0501 00", AlgorithmError::Parameters),
        ] {
            assert_eq!(Scheme::from_algorithm_identifier(&bytes(hex)), Err(error), "{hex}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(der in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(scheme) = Scheme::from_algorithm_identifier(&der) {
                prop_assert_eq!(Scheme::from_algorithm_identifier(&scheme.algorithm_identifier()), Ok(scheme));
            }
        }
    }
}

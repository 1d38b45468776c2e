//! The kinds of private keys in files, and whether adit can sign with them.

use std::fmt;

use crate::der_values::{Values, bits, dotted, tag};
use crate::object_names::short_name;

/// The lengths of RSA keys in bits with which AWS-LC signs.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// The kind of a private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// RSA.
    Rsa {
        /// The length of the modulus in bits.
        bits: usize,
    },
    /// RSA for PSS signatures alone (RFC 4055).
    RsaPss {
        /// The length of the modulus in bits.
        bits: usize,
        /// The digest that the key is limited to, as a dotted OID.
        digest: Option<String>,
    },
    /// ECDSA.
    Ec {
        /// The curve's dotted OID; `None` if its parameters are written out instead of its name.
        curve: Option<String>,
    },
    /// Ed25519.
    Ed25519,
    /// Another algorithm, by its dotted OID.
    Other(String),
    /// A key of ssh's.
    OpenSsh,
}

const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const DSA: &str = "1.2.840.10040.4.1";
/// P-256, P-384 and P-521, on which AWS-LC signs for TLS.
const CURVES: [&str; 3] = ["1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"];
/// SHA-256, SHA-384 and SHA-512.
pub(crate) const PSS_DIGESTS: [&str; 3] =
    ["2.16.840.1.101.3.4.2.1", "2.16.840.1.101.3.4.2.2", "2.16.840.1.101.3.4.2.3"];

impl KeyForm {
    /// The kind of a key in a PEM block with this label; `None` if it cannot be read.
    pub(crate) fn of(label: &str, der: &[u8]) -> Option<Self> {
        match label {
            "RSA PRIVATE KEY" => Some(KeyForm::Rsa { bits: modulus_bits(der)? }),
            "EC PRIVATE KEY" => Some(KeyForm::Ec { curve: sec1_curve(der)? }),
            "DSA PRIVATE KEY" => Some(KeyForm::Other(DSA.to_owned())),
            "OPENSSH PRIVATE KEY" => Some(KeyForm::OpenSsh),
            "PRIVATE KEY" => KeyForm::of_pkcs8(der),
            _ => None,
        }
    }

    /// The kind of a key in PKCS#8 (RFC 5958).
    fn of_pkcs8(der: &[u8]) -> Option<Self> {
        let mut fields = Values::inside(tag::SEQUENCE, der)?;
        fields.take(tag::INTEGER)?;
        let mut algorithm = Values::new(fields.take(tag::SEQUENCE)?.content);
        let key = fields.take(tag::OCTET_STRING)?.content;
        let oid = dotted(algorithm.take(tag::OBJECT_IDENTIFIER)?.content);
        Some(match oid.as_str() {
            RSA => KeyForm::Rsa { bits: modulus_bits(key)? },
            RSA_PSS => KeyForm::RsaPss { bits: modulus_bits(key)?, digest: pss_digest(algorithm) },
            EC => KeyForm::Ec { curve: algorithm.take(tag::OBJECT_IDENTIFIER).map(|it| dotted(it.content)) },
            ED25519 => KeyForm::Ed25519,
            _ => KeyForm::Other(oid),
        })
    }

    /// Whether adit can sign with a key of this kind.
    pub(crate) fn can_sign(&self) -> bool {
        match self {
            KeyForm::Rsa { bits } => RSA_BITS.contains(bits),
            KeyForm::RsaPss { bits, digest } => {
                RSA_BITS.contains(bits)
                    && digest.as_ref().is_none_or(|digest| PSS_DIGESTS.contains(&digest.as_str()))
            }
            KeyForm::Ec { curve } => curve.as_ref().is_some_and(|curve| CURVES.contains(&curve.as_str())),
            KeyForm::Ed25519 => true,
            KeyForm::Other(_) | KeyForm::OpenSsh => false,
        }
    }

    /// The advice about a key that adit cannot sign with.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            KeyForm::Ec { curve: None } => {
                "write the curve's name in place of its parameters: openssl ec -in KEY -param_enc named_curve -out NEWKEY"
            }
            KeyForm::OpenSsh => {
                "if it is the certificate's key, convert it: ssh-keygen -p -m PEM -f KEY, then openssl pkey -in KEY -out NEWKEY"
            }
            KeyForm::Rsa { bits } if bits < RSA_BITS.start() => {
                "RSA keys shorter than 2048 bits can be broken, and adit signs with none: ask for a new certificate with a new \
                 key: openssl req -new -newkey rsa:2048 -noenc -keyout NEWKEY -out REQUEST"
            }
            _ => {
                "ask for a new certificate with a key on P-256, which every OpenVPN accepts: openssl req -new -newkey ec \
                 -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout NEWKEY -out REQUEST"
            }
        }
    }
}

impl fmt::Display for KeyForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |oid: &str| short_name(oid).map_or_else(|| oid.to_owned(), str::to_owned);
        match self {
            KeyForm::Rsa { bits } => write!(f, "an RSA key of {bits} bits"),
            KeyForm::RsaPss { bits, digest: None } => write!(f, "an RSA-PSS key of {bits} bits"),
            KeyForm::RsaPss { bits, digest: Some(digest) } => {
                write!(f, "an RSA-PSS key of {bits} bits for {}", name(digest))
            }
            KeyForm::Ec { curve: Some(curve) } => write!(f, "an EC key on the curve {}", name(curve)),
            KeyForm::Ec { curve: None } => {
                f.write_str("an EC key with the parameters of its curve written out")
            }
            KeyForm::Ed25519 => f.write_str("an Ed25519 key"),
            KeyForm::Other(oid) if oid == DSA => f.write_str("a DSA key"),
            KeyForm::Other(oid) if short_name(oid) == Some("ED448") => f.write_str("an Ed448 key"),
            KeyForm::Other(oid) => write!(f, "a key of the algorithm {}", name(oid)),
            KeyForm::OpenSsh => f.write_str("an OpenSSH key"),
        }
    }
}

/// The length of the modulus of an RSAPrivateKey (RFC 8017 appendix A.1.2).
fn modulus_bits(der: &[u8]) -> Option<usize> {
    let mut fields = Values::inside(tag::SEQUENCE, der)?;
    fields.take(tag::INTEGER)?;
    Some(bits(fields.take(tag::INTEGER)?.content))
}

/// The curve of an ECPrivateKey (RFC 5915 §3); `None` inside if it is not named.
fn sec1_curve(der: &[u8]) -> Option<Option<String>> {
    let mut fields = Values::inside(tag::SEQUENCE, der)?;
    fields.take(tag::INTEGER)?;
    fields.take(tag::OCTET_STRING)?;
    let mut parameters = Values::new(fields.take(tag::CONTEXT_0)?.content);
    Some(parameters.take(tag::OBJECT_IDENTIFIER).map(|it| dotted(it.content)))
}

/// The digest in RSASSA-PSS-params (RFC 4055 §3.1), where there are some. Without one in them it is SHA-1.
fn pss_digest(mut algorithm: Values<'_>) -> Option<String> {
    let mut parameters = Values::new(algorithm.take(tag::SEQUENCE)?.content);
    let digest = parameters.take(tag::CONTEXT_0).and_then(|it| {
        let mut algorithm = Values::new(Values::new(it.content).take(tag::SEQUENCE)?.content);
        Some(dotted(algorithm.take(tag::OBJECT_IDENTIFIER)?.content))
    });
    Some(digest.unwrap_or_else(|| "1.3.14.3.2.26".to_owned()))
}

//! Algorithms: the numbers of IANA's registry that are supported, proposals of them, and the choice of one proposal (RFC 7296
//! sections 2.7 and 3.3).
//!
//! Supported are AES-GCM with a tag of 16 bytes, ChaCha20-Poly1305 (RFC 7634) and AES-CBC with HMAC; the PRFs HMAC-SHA1 and
//! HMAC-SHA2; the groups P-256, P-384, P-521 (RFC 5903) and X25519 (RFC 8031), MODP of 2048, 3072 and 4096 bits (RFC 3526), and
//! ML-KEM-768 and ML-KEM-1024. Shorter finite fields are too weak (RFC 8247 section 2.4).

mod choose;
mod keywords;

pub use choose::{BadAnswer, Chosen, Preference, accept, choose};
pub use keywords::{BadKeyword, esp_proposals, ike_proposals};

use adit_core::{Cipher, Digest};

use crate::wire::{self, AttributeValue, KEY_LENGTH, ProtocolId, Transform, TransformType};

/// The number that stands for no algorithm: no integrity algorithm beside an AEAD, no key exchange, 32-bit sequence numbers.
pub(crate) const NONE: u16 = 0;
/// The number of 64-bit sequence numbers.
const EXTENDED: u16 = 1;
/// The kinds of transforms of additional key exchanges (RFC 9370 section 2.2.1), in order.
pub(crate) const ADDITIONAL: [TransformType; 7] = [
    TransformType::ADDITIONAL_KEY_EXCHANGE_1,
    TransformType::ADDITIONAL_KEY_EXCHANGE_2,
    TransformType::ADDITIONAL_KEY_EXCHANGE_3,
    TransformType::ADDITIONAL_KEY_EXCHANGE_4,
    TransformType::ADDITIONAL_KEY_EXCHANGE_5,
    TransformType::ADDITIONAL_KEY_EXCHANGE_6,
    TransformType::ADDITIONAL_KEY_EXCHANGE_7,
];

/// An algorithm as proposals name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Algorithm {
    /// Its kind.
    pub kind: TransformType,
    /// Its number within the kind.
    pub id: u16,
    /// The length of its key in bits, where the number does not say it.
    pub key_bits: Option<u16>,
}

impl Algorithm {
    const fn new(kind: TransformType, id: u16) -> Self {
        Algorithm { kind, id, key_bits: None }
    }

    const fn cipher(cipher: Cipher) -> Self {
        let (id, bits) = match cipher {
            Cipher::Aes128Cbc => (12, Some(128)),
            Cipher::Aes192Cbc => (12, Some(192)),
            Cipher::Aes256Cbc => (12, Some(256)),
            Cipher::Aes128Gcm => (20, Some(128)),
            Cipher::Aes192Gcm => (20, Some(192)),
            Cipher::Aes256Gcm => (20, Some(256)),
            Cipher::ChaCha20Poly1305 => (28, None),
        };
        Algorithm { kind: TransformType::ENCRYPTION, id, key_bits: bits }
    }

    /// `None`: SHA-224 has no number.
    const fn prf(digest: Digest) -> Option<Self> {
        let id = match digest {
            Digest::Sha1 => 2,
            Digest::Sha224 => return None,
            Digest::Sha256 => 5,
            Digest::Sha384 => 6,
            Digest::Sha512 => 7,
        };
        Some(Algorithm::new(TransformType::PRF, id))
    }

    /// `None`: SHA-224 has no number.
    const fn integrity(digest: Digest) -> Option<Self> {
        let id = match digest {
            Digest::Sha1 => 2,
            Digest::Sha224 => return None,
            Digest::Sha256 => 12,
            Digest::Sha384 => 13,
            Digest::Sha512 => 14,
        };
        Some(Algorithm::new(TransformType::INTEGRITY, id))
    }

    const fn group(kind: TransformType, group: Option<Group>) -> Self {
        let id = match group {
            Some(group) => group.number(),
            None => NONE,
        };
        Algorithm::new(kind, id)
    }

    const fn sequence_numbers(is_extended: bool) -> Self {
        Algorithm::new(TransformType::SEQUENCE_NUMBERS, if is_extended { EXTENDED } else { NONE })
    }

    fn as_cipher(self) -> Option<Cipher> {
        Cipher::ALL.into_iter().find(|cipher| Algorithm::cipher(*cipher) == self)
    }

    /// `None`: it has an attribute that is not known (RFC 7296 section 3.3.6).
    fn of(transform: &Transform) -> Option<Self> {
        let key_bits = match transform.attributes.as_slice() {
            [] => None,
            [attribute] if attribute.kind == KEY_LENGTH => match attribute.value {
                AttributeValue::Short(bits) => Some(bits),
                AttributeValue::Long(_) => return None,
            },
            _ => return None,
        };
        Some(Algorithm { kind: transform.kind, id: transform.id, key_bits })
    }
}

/// A method of key exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Diffie-Hellman on P-256.
    P256,
    /// Diffie-Hellman on P-384.
    P384,
    /// Diffie-Hellman on P-521.
    P521,
    /// X25519.
    X25519,
    /// Diffie-Hellman in a finite field of 2048 bits.
    Modp2048,
    /// Diffie-Hellman in a finite field of 3072 bits.
    Modp3072,
    /// Diffie-Hellman in a finite field of 4096 bits.
    Modp4096,
    /// ML-KEM-768 (FIPS 203).
    MlKem768,
    /// ML-KEM-1024 (FIPS 203).
    MlKem1024,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 9] = [
        Group::P256,
        Group::P384,
        Group::P521,
        Group::X25519,
        Group::Modp2048,
        Group::Modp3072,
        Group::Modp4096,
        Group::MlKem768,
        Group::MlKem1024,
    ];

    /// Its number in KE payloads and transforms.
    pub const fn number(self) -> u16 {
        match self {
            Group::P256 => 19,
            Group::P384 => 20,
            Group::P521 => 21,
            Group::X25519 => 31,
            Group::Modp2048 => 14,
            Group::Modp3072 => 15,
            Group::Modp4096 => 16,
            Group::MlKem768 => 36,
            Group::MlKem1024 => 37,
        }
    }

    /// The method with that number.
    pub fn from_number(number: u16) -> Option<Self> {
        Group::ALL.into_iter().find(|group| group.number() == number)
    }

    /// Its name in proposals of configuration files.
    pub const fn keyword(self) -> &'static str {
        match self {
            Group::P256 => "ecp256",
            Group::P384 => "ecp384",
            Group::P521 => "ecp521",
            Group::X25519 => "x25519",
            Group::Modp2048 => "modp2048",
            Group::Modp3072 => "modp3072",
            Group::Modp4096 => "modp4096",
            Group::MlKem768 => "mlkem768",
            Group::MlKem1024 => "mlkem1024",
        }
    }

    /// The number of bytes that the initiator sends.
    pub const fn initiator_len(self) -> usize {
        match self {
            Group::P256 => 64,
            Group::P384 => 96,
            Group::P521 => 132,
            Group::X25519 => 32,
            Group::Modp2048 => 256,
            Group::Modp3072 => 384,
            Group::Modp4096 => 512,
            Group::MlKem768 => 1184,
            Group::MlKem1024 => 1568,
        }
    }

    /// The number of bytes that the responder sends.
    pub const fn responder_len(self) -> usize {
        match self {
            Group::MlKem768 => 1088,
            Group::P256
            | Group::P384
            | Group::P521
            | Group::X25519
            | Group::Modp2048
            | Group::Modp3072
            | Group::Modp4096
            | Group::MlKem1024 => self.initiator_len(),
        }
    }
}

/// A proposal that this end makes or takes: algorithms of one protocol, of which one of each kind is chosen. Those of a
/// kind stand in order of preference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Algorithms {
    protocol: ProtocolId,
    all: Vec<Algorithm>,
}

impl Algorithms {
    /// IKE or ESP.
    pub const fn protocol(&self) -> ProtocolId {
        self.protocol
    }

    /// The methods of key exchange, in order of preference.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        self.of_kind(TransformType::KEY_EXCHANGE).filter_map(|algorithm| Group::from_number(algorithm.id))
    }

    /// Whether it has additional key exchanges (RFC 9370).
    pub fn has_additional(&self) -> bool {
        self.all.iter().any(|algorithm| ADDITIONAL.contains(&algorithm.kind) && algorithm.id != NONE)
    }

    /// The proposal without additional key exchanges.
    #[must_use]
    pub fn without_additional(&self) -> Self {
        let all =
            self.all.iter().filter(|algorithm| !ADDITIONAL.contains(&algorithm.kind)).copied().collect();
        Algorithms { protocol: self.protocol, all }
    }

    /// The proposal without key exchanges, for the child SA that is made with the IKE SA (RFC 7296 section 1.2).
    #[must_use]
    pub fn without_key_exchange(&self) -> Self {
        let is_exchange = |kind| kind == TransformType::KEY_EXCHANGE || ADDITIONAL.contains(&kind);
        let all = self.all.iter().filter(|algorithm| !is_exchange(algorithm.kind)).copied().collect();
        Algorithms { protocol: self.protocol, all }
    }

    /// The proposal as it is sent.
    pub fn to_wire(&self, number: u8, spi: &[u8]) -> wire::Proposal {
        to_wire(number, self.protocol, spi, &self.all)
    }

    fn of_kind(&self, kind: TransformType) -> impl Iterator<Item = Algorithm> {
        self.all.iter().filter(move |algorithm| algorithm.kind == kind).copied()
    }
}

fn to_wire(number: u8, protocol: ProtocolId, spi: &[u8], all: &[Algorithm]) -> wire::Proposal {
    let transform = |algorithm: &Algorithm| Transform::new(algorithm.kind, algorithm.id, algorithm.key_bits);
    wire::Proposal { number, protocol, spi: spi.to_vec(), transforms: all.iter().map(transform).collect() }
}

/// The algorithms of an IKE SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IkeSuite {
    /// The cipher that encrypts its messages.
    pub cipher: Cipher,
    /// The digest of the HMAC that authenticates them, beside a cipher that does not.
    pub integrity: Option<Digest>,
    /// The digest of the HMAC that derives keys.
    pub prf: Digest,
    /// The key exchange.
    pub group: Group,
    /// The additional key exchanges, in order.
    pub additional: Vec<Group>,
}

/// The algorithms of a child SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildSuite {
    /// The cipher that encrypts packets.
    pub cipher: Cipher,
    /// The digest of the HMAC that authenticates them, beside a cipher that does not.
    pub integrity: Option<Digest>,
    /// The key exchange, if the child SA has one of its own.
    pub group: Option<Group>,
    /// The additional key exchanges, in order.
    pub additional: Vec<Group>,
    /// Whether sequence numbers have 64 bits.
    pub has_extended_sequence_numbers: bool,
}

/// The bytes of an HMAC with that digest on the wire: all of SHA-1's but 8, half of SHA-2's (RFC 2404, RFC 4868).
pub const fn checksum_len(digest: Digest) -> usize {
    match digest {
        Digest::Sha1 => 12,
        _ => digest.output_len() / 2,
    }
}

/// The algorithms of a choice, by kind.
struct OfChoice<'a>(&'a [Algorithm]);

impl OfChoice<'_> {
    fn find(&self, kind: TransformType) -> Option<Algorithm> {
        self.0.iter().find(|algorithm| algorithm.kind == kind).copied()
    }

    fn cipher(&self) -> Option<(Cipher, Option<Digest>)> {
        let cipher = self.find(TransformType::ENCRYPTION)?.as_cipher()?;
        let chosen = self.find(TransformType::INTEGRITY).filter(|algorithm| algorithm.id != NONE);
        let digest = |algorithm| {
            Digest::ALL.into_iter().find(|digest| Algorithm::integrity(*digest) == Some(algorithm))
        };
        let integrity = chosen.and_then(digest);
        (cipher.is_aead() == integrity.is_none()).then_some((cipher, integrity))
    }

    fn additional(&self) -> Vec<Group> {
        ADDITIONAL.into_iter().filter_map(|kind| Group::from_number(self.find(kind)?.id)).collect()
    }
}

impl IkeSuite {
    /// `None`: an algorithm is missing.
    fn of(all: &[Algorithm]) -> Option<Self> {
        let choice = OfChoice(all);
        let (cipher, integrity) = choice.cipher()?;
        let prf = choice.find(TransformType::PRF)?;
        let prf = Digest::ALL.into_iter().find(|digest| Algorithm::prf(*digest) == Some(prf))?;
        let group = Group::from_number(choice.find(TransformType::KEY_EXCHANGE)?.id)?;
        Some(IkeSuite { cipher, integrity, prf, group, additional: choice.additional() })
    }
}

impl ChildSuite {
    /// `None`: an algorithm is missing.
    fn of(all: &[Algorithm]) -> Option<Self> {
        let choice = OfChoice(all);
        let (cipher, integrity) = choice.cipher()?;
        let exchange = choice.find(TransformType::KEY_EXCHANGE);
        let group = exchange.and_then(|exchange| Group::from_number(exchange.id));
        let has_extended_sequence_numbers = choice.find(TransformType::SEQUENCE_NUMBERS)?.id == EXTENDED;
        let additional = choice.additional();
        Some(ChildSuite { cipher, integrity, group, additional, has_extended_sequence_numbers })
    }
}

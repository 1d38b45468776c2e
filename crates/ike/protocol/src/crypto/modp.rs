//! Diffie-Hellman in the finite fields of RFC 3526 (MODP), by constant-time arithmetic.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::{Zeroize as _, Zeroizing};

use super::exchange::ExchangeError;
use super::prf::Secret;
use crate::suite::Group;

/// The generator of all groups (RFC 3526).
const GENERATOR: u8 = 2;

/// A group: its prime in hexadecimal, and the bytes of a private key, twice as many bits as the strength of the group (RFC 3526
/// section 8).
struct Field {
    prime: &'static str,
    exponent_len: usize,
}

/// The group of RFC 3526 section 3.
const MODP_2048: Field = Field {
    prime: "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd\
     ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed\
     ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f\
     83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b\
     e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510\
     15728e5a8aacaa68ffffffffffffffff",
    exponent_len: 32,
};
/// The group of RFC 3526 section 4.
const MODP_3072: Field = Field {
    prime: "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd\
     ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed\
     ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f\
     83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b\
     e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510\
     15728e5a8aaac42dad33170d04507a33a85521abdf1cba64ecfb850458dbef0a8aea71575d060c7db3970f85a6e1e4c7\
     abf5ae8cdb0933d71e8c94e04a25619dcee3d2261ad2ee6bf12ffa06d98a0864d87602733ec86a64521f2b18177b200c\
     bbe117577a615d6c770988c0bad946e208e24fa074e5ab3143db5bfce0fd108e4b82d120a93ad2caffffffffffffffff",
    exponent_len: 40,
};
/// The group of RFC 3526 section 5.
const MODP_4096: Field = Field {
    prime: "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd\
     ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed\
     ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f\
     83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b\
     e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510\
     15728e5a8aaac42dad33170d04507a33a85521abdf1cba64ecfb850458dbef0a8aea71575d060c7db3970f85a6e1e4c7\
     abf5ae8cdb0933d71e8c94e04a25619dcee3d2261ad2ee6bf12ffa06d98a0864d87602733ec86a64521f2b18177b200c\
     bbe117577a615d6c770988c0bad946e208e24fa074e5ab3143db5bfce0fd108e4b82d120a92108011a723c12a787e6d7\
     88719a10bdba5b2699c327186af4e23c1a946834b6150bda2583e9ca2ad44ce8dbbbc2db04de8ef92e8efc141fbecaa6\
     287c59474e6bc05d99b2964fa090c3a2233ba186515be7ed1f612970cee2d7afb81bdd762170481cd0069127d5b05aa9\
     93b4ea988d8fddc186ffb7dc90a6c08f4df435c934063199ffffffffffffffff",
    exponent_len: 48,
};

/// `None`: the group is no finite field.
const fn field(group: Group) -> Option<Field> {
    match group {
        Group::Modp2048 => Some(MODP_2048),
        Group::Modp3072 => Some(MODP_3072),
        Group::Modp4096 => Some(MODP_4096),
        Group::P256 | Group::P384 | Group::P521 | Group::X25519 | Group::MlKem768 | Group::MlKem1024 => None,
    }
}

/// A private key with its public value.
pub(super) struct Pair {
    pub(super) private: Secret,
    pub(super) public: Vec<u8>,
}

/// A fresh private key. `fill` gives secret random bytes.
pub(super) fn pair(group: Group, fill: &mut dyn FnMut(&mut [u8])) -> Result<Pair, ExchangeError> {
    let refused = ExchangeError::PrivateKey(group);
    let mut private = Zeroizing::new(vec![0; field(group).ok_or(refused)?.exponent_len]);
    fill(&mut private);
    if let Some(first) = private.first_mut() {
        // The exponent is neither 0 nor 1.
        *first |= 0x80;
    }
    let mut generator = vec![0; group.initiator_len()];
    if let Some(last) = generator.last_mut() {
        *last = GENERATOR;
    }
    let public = power(group, &generator, &private).ok_or(refused)?.to_vec();
    Ok(Pair { private, public })
}

/// The shared secret, as long as the prime (RFC 7296 section 2.14). The peer's value is as long, too, and is neither 0 nor 1 nor
/// the prime less 1, nor beyond (RFC 6989 section 2.1).
pub(super) fn agree(group: Group, private: &[u8], public: &[u8]) -> Result<Secret, ExchangeError> {
    let refused = ExchangeError::Value(group);
    let mut greatest = prime(group).ok_or(refused)?;
    if let Some(last) = greatest.last_mut() {
        // The prime is odd.
        *last -= 1;
    }
    let is_small =
        public.split_last().is_none_or(|(last, rest)| *last < 2 && rest.iter().all(|byte| *byte == 0));
    if public.len() != greatest.len() || is_small || public >= greatest.as_slice() {
        return Err(refused);
    }
    power(group, public, private).ok_or(refused)
}

fn prime(group: Group) -> Option<Vec<u8>> {
    let hex = field(group)?.prime.as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    hex.chunks(2).map(byte).collect()
}

/// `base` to the power `exponent`, as long as the prime. The time depends on the lengths alone.
fn power(group: Group, base: &[u8], exponent: &[u8]) -> Option<Secret> {
    let prime = prime(group)?;
    let bits = u32::try_from(prime.len() * 8).ok()?;
    let number = |bytes: &[u8], bits| BoxedUint::from_be_slice(bytes, bits).ok();
    let modulus = Option::<Odd<BoxedUint>>::from(Odd::new(number(&prime, bits)?))?;
    let params = BoxedMontyParams::new_vartime(modulus);
    let exponent_bits = u32::try_from(exponent.len() * 8).ok()?;
    let mut exponent = number(exponent, exponent_bits)?;
    let mut result = BoxedMontyForm::new(number(base, bits)?, &params).pow(&exponent);
    let mut plain = result.retrieve();
    let mut bytes = plain.to_be_bytes();
    let secret = Zeroizing::new(bytes.to_vec());
    exponent.zeroize();
    result.zeroize();
    plain.zeroize();
    bytes.zeroize();
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(start: u8) -> impl FnMut(&mut [u8]) {
        move |bytes| bytes.iter_mut().zip(start..).for_each(|(byte, value)| *byte = value)
    }

    const GROUPS: [Group; 3] = [Group::Modp2048, Group::Modp3072, Group::Modp4096];

    #[test]
    fn both_ends_agree() {
        for group in GROUPS {
            let [one, other] = [1, 100].map(|start| pair(group, &mut fill(start)).unwrap());
            assert_eq!(one.public.len(), group.initiator_len());
            let secret = agree(group, &one.private, &other.public).unwrap();
            assert_eq!(secret, agree(group, &other.private, &one.public).unwrap());
            assert_eq!(secret.len(), group.initiator_len());
        }
    }

    /// Python's `pow` gave the digest of the secret.
    #[test]
    fn secrets_are_those_of_another_implementation() {
        use sha2::{Digest as _, Sha256};
        for (group, expected) in GROUPS.into_iter().zip(DIGESTS) {
            let [one, other] = [1, 100].map(|start| pair(group, &mut fill(start)).unwrap());
            let secret = agree(group, &one.private, &other.public).unwrap();
            let digest: String = Sha256::digest(&secret).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, expected);
        }
    }

    const DIGESTS: [&str; 3] = [
        "a407948a6b2eabed73ba854e646bdbacdcb0d8e40e4867a930ce4f404b489d96",
        "2c25d0dc19126f04403834b1b6a0bc2f15b14190b4420ed874f0a584b538c123",
        "9de0fb2158568cb6041d417a2048d642cc7c6396d912b1f08233f6d95bc9f793",
    ];

    /// CVE-2023-41913 of strongSwan: an over-long value. And the values of RFC 6989 section 2.1.
    #[test]
    fn degenerate_values_are_refused() {
        for group in GROUPS {
            let own = pair(group, &mut fill(1)).unwrap();
            let prime = prime(group).unwrap();
            let small = |value: u8| {
                let mut bytes = vec![0; prime.len()];
                *bytes.last_mut().unwrap() = value;
                bytes
            };
            let mut below = prime.clone();
            *below.last_mut().unwrap() -= 1;
            let longer = [&[0], own.public.as_slice()].concat();
            for value in
                [small(0), small(1), below, prime.clone(), vec![0xff; prime.len()], longer, vec![2], vec![]]
            {
                let refused = agree(group, &own.private, &value).unwrap_err();
                assert_eq!(refused, ExchangeError::Value(group));
            }
            assert!(agree(group, &own.private, &small(2)).is_ok());
        }
    }
}

//! The computations of MS-CHAPv2 (RFC 2759 section 8) and of its keys (RFC 3079 section 3). MD4, DES and SHA-1 are weak: the exchange
//! runs only inside an IKE SA whose responder has proved its identity by a certificate.

use des::Des;
use des::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use md4::Md4;
use sha1::{Digest as _, Sha1};
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::Secret;

/// RFC 2759 section 8.7.
const MAGIC_SIGNING: &[u8] = b"Magic server to client signing constant";
const MAGIC_ITERATION: &[u8] = b"Pad to make it do more than one iteration";
/// RFC 3079 section 3.4.
const MAGIC_MASTER: &[u8] = b"This is the MPPE Master Key";
const MAGIC_SERVER_RECEIVES: &[u8] =
    b"On the client side, this is the send key; on the server side, it is the receive key.";
const MAGIC_SERVER_SENDS: &[u8] =
    b"On the client side, this is the receive key; on the server side, it is the send key.";
/// Bytes of the padding between the parts of a key (`SHSpad1`, `SHSpad2`).
const PAD_LEN: usize = 40;
/// Bytes of each key within the MSK.
const KEY_LEN: usize = 16;
/// Bytes of an MSK (RFC 3748 section 7.10).
const MSK_LEN: usize = 64;

type Hash = Zeroizing<[u8; 16]>;

/// The challenges of both sides, and the name without its domain.
pub(crate) struct Challenges<'a> {
    pub(crate) authenticator: &'a [u8; 16],
    pub(crate) peer: &'a [u8; 16],
    pub(crate) name: &'a [u8],
}

fn sha1(parts: &[&[u8]]) -> Zeroizing<[u8; 20]> {
    let mut hash = Sha1::new();
    parts.iter().for_each(|part| hash.update(part));
    Zeroizing::new(hash.finalize().into())
}

/// `HashNtPasswordHash` (section 8.4).
pub(crate) fn hash_of_hash(hash: &[u8; 16]) -> Hash {
    Zeroizing::new(Md4::digest(hash).into())
}

/// `ChallengeHash` (section 8.2).
pub(crate) fn challenge_hash(challenges: &Challenges<'_>) -> [u8; 8] {
    let hash = sha1(&[challenges.peer, challenges.authenticator, challenges.name]);
    let mut challenge = [0; 8];
    challenge.iter_mut().zip(hash.iter()).for_each(|(out, byte)| *out = *byte);
    challenge
}

/// `ChallengeResponse` (section 8.5): the challenge under three keys of DES, which the hash gives.
pub(crate) fn nt_response(challenge: &[u8; 8], hash: &[u8; 16]) -> [u8; 24] {
    let mut padded = Zeroizing::new([0; 21]);
    padded.iter_mut().zip(hash).for_each(|(out, byte)| *out = *byte);
    let (keys, _) = padded.as_chunks::<7>();
    let mut response = [0; 24];
    let (blocks, _) = response.as_chunks_mut::<8>();
    for (block, key) in blocks.iter_mut().zip(keys) {
        let mut out = (*challenge).into();
        Des::new(&expand(key).into()).encrypt_block(&mut out);
        *block = out.into();
    }
    response
}

/// A key of DES from its 56 bits: 7 in front of each parity bit, which DES ignores (section 8.6).
fn expand(key: &[u8; 7]) -> [u8; 8] {
    let bits = key.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let mut expanded = [0; 8];
    for (index, byte) in expanded.iter_mut().enumerate() {
        *byte = ((bits >> (49 - 7 * index)) as u8) << 1;
    }
    expanded
}

/// `GenerateAuthenticatorResponse` (section 8.7), without `S=` in front.
pub(crate) fn authenticator_response(
    double: &[u8; 16],
    response: &[u8; 24],
    challenges: &Challenges<'_>,
) -> String {
    let first = sha1(&[double, response, MAGIC_SIGNING]);
    let digest = sha1(&[first.as_slice(), &challenge_hash(challenges), MAGIC_ITERATION]);
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The MSK: the keys that the authenticator receives and sends by (RFC 3079 section 3), filled up with zero bytes.
pub(crate) fn master_keys(double: &[u8; 16], response: &[u8; 24]) -> Secret {
    let mut master = sha1(&[double, response, MAGIC_MASTER]);
    let [mut receives, mut sends] = [MAGIC_SERVER_RECEIVES, MAGIC_SERVER_SENDS]
        .map(|magic| sha1(&[&master[..KEY_LEN], &[0; PAD_LEN], magic, &[0xf2; PAD_LEN]]));
    let mut msk = Zeroizing::new(Vec::with_capacity(MSK_LEN));
    msk.extend_from_slice(&receives[..KEY_LEN]);
    msk.extend_from_slice(&sends[..KEY_LEN]);
    msk.resize(MSK_LEN, 0);
    [&mut master, &mut receives, &mut sends].into_iter().for_each(|key| key.zeroize());
    msk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eap::NtHash;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    const AUTHENTICATOR: [u8; 16] = 0x5B5D_7C7D_7B3F_2F3E_3C2C_6021_3226_2628_u128.to_be_bytes();
    const PEER: [u8; 16] = 0x2140_2324_255E_262A_2829_5F2B_3A33_7C7E_u128.to_be_bytes();

    /// RFC 2759 section 9.2.
    #[test]
    fn the_vectors_of_rfc_2759_come_out() {
        let challenges = Challenges { authenticator: &AUTHENTICATOR, peer: &PEER, name: b"User" };
        let challenge = challenge_hash(&challenges);
        assert_eq!(hex(&challenge), "D02E4386BCE91226");
        let hash = NtHash::of_password("clientPass").0;
        assert_eq!(hex(&*hash), "44EBBA8D5312B8D611474411F56989AE");
        let response = nt_response(&challenge, &hash);
        assert_eq!(hex(&response), "82309ECD8D708B5EA08FAA3981CD83544233114A3D85D6DF");
        let double = hash_of_hash(&hash);
        assert_eq!(hex(&*double), "41C00C584BD2D91C4017A2A12FA59F3F");
        let proof = authenticator_response(&double, &response, &challenges);
        assert_eq!(proof, "407A5589115FD0D6209F510FE9C04566932CDA56");
    }

    /// RFC 3079 section 3.5.3 has the key that the authenticator sends by.
    #[test]
    fn the_msk_has_the_keys_of_rfc_3079() {
        let challenges = Challenges { authenticator: &AUTHENTICATOR, peer: &PEER, name: b"User" };
        let hash = NtHash::of_password("clientPass").0;
        let msk = master_keys(&hash_of_hash(&hash), &nt_response(&challenge_hash(&challenges), &hash));
        assert_eq!(hex(&msk[16..32]), "8B7CDC149B993A1BA118CB153F56DCCB");
        assert_eq!((msk.len(), &msk[32..]), (64, &[0; 32][..]));
        assert_ne!(msk[..16], msk[16..32]);
    }
}

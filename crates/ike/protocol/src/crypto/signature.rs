//! The proof of an identity by the key of a certificate (RFC 7296 section 2.15): digital signatures (RFC 7427, method 14), ECDSA by
//! curve (RFC 4754, methods 9 to 11), and RSA with PKCS #1 v1.5 (method 1). The latter may have SHA-1,
//! where the configuration accepts that. AWS-LC verifies it by the exact encoding, which it makes itself and compares whole.

use adit_core::Digest as Prf;
use adit_pki::KeyKind;
use adit_pki::signature::{
    AlgorithmError, CertificateKey, Digest, Scheme, Sha1, SignError, SignatureError, Signed, ecdsa_from_pair,
    ecdsa_to_pair, verify,
};
use rustls_pki_types::CertificateDer;
use thiserror::Error;

use super::announced::AnnouncedMethods;
use super::auth::SignedOctets;
use crate::wire::{AuthMethod, Authentication};

/// The hashes of digital signatures, by their numbers in `SIGNATURE_HASH_ALGORITHMS` (RFC 7427 section 4; 5: RFC 8420 section 2).
const HASHES: [(u16, Option<Digest>); 5] = [
    (1, Some(Digest::Sha1)),
    (2, Some(Digest::Sha256)),
    (3, Some(Digest::Sha384)),
    (4, Some(Digest::Sha512)),
    (5, None),
];

/// The hashes of the digital signatures that an end verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureHashes(Vec<Option<Digest>>);

impl SignatureHashes {
    /// The hashes that this end announces: SHA-256, SHA-384 and SHA-512, and none for Ed25519.
    pub fn own() -> Self {
        let is_own = |hash: &Option<Digest>| *hash != Some(Digest::Sha1);
        SignatureHashes(HASHES.into_iter().map(|(_, hash)| hash).filter(is_own).collect())
    }

    /// The hashes in the data of a notify `SIGNATURE_HASH_ALGORITHMS`. Unknown numbers are skipped.
    pub fn decode(data: &[u8]) -> Self {
        let number = |pair: &[u8]| Some(u16::from_be_bytes(pair.try_into().ok()?));
        let hash = |number: u16| HASHES.into_iter().find(|(it, _)| *it == number).map(|(_, hash)| hash);
        SignatureHashes(data.chunks_exact(2).filter_map(number).filter_map(hash).collect())
    }

    /// The data of a notify `SIGNATURE_HASH_ALGORITHMS`.
    pub fn encode(&self) -> Vec<u8> {
        let ours = HASHES.into_iter().filter(|(_, hash)| self.0.contains(hash));
        ours.flat_map(|(number, _)| number.to_be_bytes()).collect()
    }

    fn has(&self, scheme: Scheme) -> bool {
        self.0.contains(&scheme.digest())
    }
}

/// The reason why there is no proof, or why it is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProofError {
    /// The peer verifies no signature that the key makes.
    #[error(
        "the peer verifies no signature that {0} makes: it announces no hash of the key's digital signatures (RFC 7427)"
    )]
    NoScheme(KeyKind),
    /// The key's holder did not sign.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The proof is by another method than a signature.
    #[error("the proof is {0}, and a signature by the certificate's key is expected")]
    Method(AuthMethod),
    /// The `AlgorithmIdentifier` of a digital signature is not accepted.
    #[error("the algorithm of the digital signature: {0}")]
    Algorithm(#[from] AlgorithmError),
    /// The digital signature has a hash that this end did not announce.
    #[error("the digital signature is of the scheme {0}, whose hash was not announced")]
    NotAnnounced(Scheme),
    /// The proof is cut short.
    #[error("the proof is malformed")]
    Malformed,
    /// The certificate's key did not make the signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

/// The method of ECDSA on a curve without RFC 7427, with its scheme and the length of a number in bytes (RFC 4754 section 7).
struct CurveMethod {
    method: AuthMethod,
    kind: KeyKind,
    scheme: Scheme,
    length: usize,
}

const CURVE_METHODS: [CurveMethod; 3] = [
    CurveMethod {
        method: AuthMethod::ECDSA_P256,
        kind: KeyKind::EcdsaP256,
        scheme: Scheme::Ecdsa(Digest::Sha256),
        length: 32,
    },
    CurveMethod {
        method: AuthMethod::ECDSA_P384,
        kind: KeyKind::EcdsaP384,
        scheme: Scheme::Ecdsa(Digest::Sha384),
        length: 48,
    },
    CurveMethod {
        method: AuthMethod::ECDSA_P521,
        kind: KeyKind::EcdsaP521,
        scheme: Scheme::Ecdsa(Digest::Sha512),
        length: 66,
    },
];

/// The signatures that a peer verifies.
#[derive(Clone, Copy, Debug)]
pub struct PeerHashes<'a> {
    /// The hashes that the peer announced. `None`: it announced none, and takes no digital signatures.
    pub hashes: Option<&'a SignatureHashes>,
    /// The methods that the peer announced (RFC 9593). If none of them fits the key, [`Self::hashes`] alone decide, as without the list.
    pub announced: Option<&'a AnnouncedMethods>,
    /// Whether a peer that announced none gets RSA with SHA-1 (method 1).
    pub sha1: Sha1,
}

/// A way to prove an identity by the key of a certificate.
#[derive(Clone, Copy)]
enum Way {
    Digital(Scheme),
    Curve(&'static CurveMethod),
    RsaSha1,
}

impl Way {
    fn is_in(self, announced: &AnnouncedMethods) -> bool {
        match self {
            Way::Digital(scheme) => announced.has_scheme(scheme),
            Way::Curve(curve) => announced.has_method(curve.method),
            Way::RsaSha1 => announced.has_method(AuthMethod::RSA_SIGNATURE),
        }
    }

    /// The way that the key is best at, of those that the peer takes. `None`: the peer takes none.
    fn of(key: &CertificateKey, peer: PeerHashes<'_>) -> Option<Self> {
        let takes = |scheme: &Scheme| peer.hashes.is_some_and(|hashes| hashes.has(*scheme));
        let mut digital = key.schemes().iter().copied().filter(takes).map(Way::Digital);
        let is_rsa = matches!(key.kind(), KeyKind::Rsa { .. });
        let takes_sha1 = is_rsa && peer.hashes.is_none() && peer.sha1 == Sha1::Accepted;
        let curve =
            CURVE_METHODS.iter().find(|it| it.kind == key.kind() && key.schemes().contains(&it.scheme));
        let mut others = takes_sha1.then_some(Way::RsaSha1).into_iter().chain(curve.map(Way::Curve));
        let is_announced = |way: &Way| peer.announced.is_some_and(|announced| way.is_in(announced));
        let announced = digital.clone().chain(others.clone()).find(is_announced);
        announced.or_else(|| if peer.hashes.is_some() { digital.next() } else { others.next() })
    }
}

/// The content of an AUTH payload by the key of a certificate. May wait as long as the key's holder does.
///
/// # Errors
/// When the peer verifies no signature of the key, or the key's holder does not sign.
pub fn certificate_proof(
    prf: Prf,
    key: &CertificateKey,
    octets: &SignedOctets<'_>,
    peer: PeerHashes<'_>,
) -> Result<Authentication, ProofError> {
    let message = octets.to_bytes(prf);
    match Way::of(key, peer).ok_or_else(|| ProofError::NoScheme(key.kind()))? {
        Way::Digital(scheme) => {
            let signature = key.sign(scheme, &message)?;
            let algorithm = scheme.algorithm_identifier();
            let data = [&[algorithm.len() as u8][..], &algorithm, &signature].concat();
            Ok(Authentication { method: AuthMethod::DIGITAL_SIGNATURE, data })
        }
        Way::RsaSha1 => {
            Ok(Authentication { method: AuthMethod::RSA_SIGNATURE, data: key.sign_sha1(&message)? })
        }
        Way::Curve(CurveMethod { method, scheme, length, .. }) => {
            let signature = key.sign(*scheme, &message)?;
            let data = ecdsa_to_pair(&signature, *length).ok_or(ProofError::Malformed)?;
            Ok(Authentication { method: *method, data })
        }
    }
}

/// Verifies an AUTH payload by the key of the peer's certificate. Whether the certificate is trusted is another question. `sha1` is
/// for method 1 alone, by which peers without RFC 7427 sign with SHA-1.
///
/// # Errors
/// When the key did not make the proof, or the proof is of a kind that is not accepted.
pub fn verify_certificate_proof(
    prf: Prf,
    certificate: &CertificateDer<'_>,
    octets: &SignedOctets<'_>,
    proof: &Authentication,
    sha1: Sha1,
) -> Result<(), ProofError> {
    let message = octets.to_bytes(prf);
    let check = |scheme, signature: &[u8], sha1| {
        verify(certificate, &Signed { message: &message, scheme, signature }, sha1)
    };
    match proof.method {
        AuthMethod::DIGITAL_SIGNATURE => {
            let (length, rest) = proof.data.split_first().ok_or(ProofError::Malformed)?;
            let (algorithm, signature) =
                rest.split_at_checked(usize::from(*length)).ok_or(ProofError::Malformed)?;
            let scheme = Scheme::from_algorithm_identifier(algorithm)?;
            if !SignatureHashes::own().has(scheme) {
                return Err(ProofError::NotAnnounced(scheme));
            }
            Ok(check(scheme, signature, Sha1::Refused)?)
        }
        AuthMethod::RSA_SIGNATURE => {
            let verdict = |digest| check(Scheme::RsaPkcs1(digest), &proof.data, sha1);
            // The proof does not name its hash (RFC 7296 section 3.8).
            let mut refused = SignatureError::Sha1;
            for digest in Digest::ALL {
                match verdict(digest) {
                    Ok(()) => return Ok(()),
                    Err(error) => refused = error,
                }
            }
            Err(refused.into())
        }
        method => {
            let curve = CURVE_METHODS.iter().find(|it| it.method == method);
            let CurveMethod { kind, scheme, length, .. } = curve.ok_or(ProofError::Method(method))?;
            if proof.data.len() != 2 * length {
                return Err(ProofError::Malformed);
            }
            if KeyKind::of(certificate).map_err(SignatureError::Certificate)? != *kind {
                return Err(ProofError::Method(method));
            }
            let signature = ecdsa_from_pair(&proof.data).ok_or(ProofError::Malformed)?;
            Ok(check(*scheme, &signature, Sha1::Refused)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use adit_pki::PrivateKey;
    use adit_pki::signature::OwnKey;

    use super::*;
    use crate::wire::{IdType, Identification};

    macro_rules! data {
        ($name:literal) => {
            include_bytes!(concat!("../../../../pki/tests/data/", $name)).as_slice()
        };
    }

    /// A certificate and its key, by OpenSSL.
    struct Identity {
        certificate: &'static [u8],
        key: &'static [u8],
    }

    const RSA: Identity =
        Identity { certificate: data!("signature/rsa.der"), key: data!("private_key/rsa2048.key") };
    const P256: Identity =
        Identity { certificate: data!("signature/p256.der"), key: data!("private_key/prime256v1.key") };
    const P384: Identity =
        Identity { certificate: data!("signature/p384.der"), key: data!("private_key/secp384r1.key") };
    const P521: Identity =
        Identity { certificate: data!("signature/p521.der"), key: data!("signature/secp521r1.key") };
    const ED25519: Identity =
        Identity { certificate: data!("signature/ed25519.der"), key: data!("private_key/ed25519.key") };
    const RSA_PSS: Identity =
        Identity { certificate: data!("signature/rsa-pss.der"), key: data!("private_key/rsa-pss.key") };

    impl Identity {
        fn certificate(&self) -> CertificateDer<'static> {
            CertificateDer::from(self.certificate)
        }

        fn key(&self) -> CertificateKey {
            let key = OwnKey::new(&PrivateKey::read(self.key).expect("a key")).expect("a good key");
            CertificateKey::new(self.certificate(), Arc::new(key)).expect("its key")
        }
    }

    fn identity() -> Identification {
        Identification { kind: IdType::FQDN, data: b"gateway.example".to_vec() }
    }

    /// Calls with the octets over that message.
    fn with_octets<T>(message: &[u8], act: impl FnOnce(&SignedOctets<'_>) -> T) -> T {
        let identity = identity();
        act(&SignedOctets {
            message,
            received: None,
            peer_nonce: &[7; 32],
            proof_key: &[9; 32],
            identity: &identity,
            intermediate: &[],
        })
    }

    fn prove(by: &Identity, hashes: Option<&SignatureHashes>) -> Result<Authentication, ProofError> {
        let peer = PeerHashes { hashes, announced: None, sha1: Sha1::Refused };
        with_octets(b"first", |octets| certificate_proof(Prf::Sha256, &by.key(), octets, peer))
    }

    fn judge(by: &Identity, message: &[u8], proof: &Authentication, sha1: Sha1) -> Result<(), ProofError> {
        with_octets(message, |octets| {
            verify_certificate_proof(Prf::Sha256, &by.certificate(), octets, proof, sha1)
        })
    }

    #[test]
    fn a_digital_signature_of_each_kind_of_key_proves_the_identity() {
        for by in [RSA, RSA_PSS, P256, P384, P521, ED25519] {
            let mut proof = prove(&by, Some(&SignatureHashes::own())).expect("a proof");
            assert_eq!(proof.method, AuthMethod::DIGITAL_SIGNATURE);
            assert_eq!(judge(&by, b"first", &proof, Sha1::Refused), Ok(()));
            let forged = Err(ProofError::Signature(SignatureError::Forged));
            assert_eq!(judge(&by, b"other", &proof, Sha1::Refused), forged);
            *proof.data.last_mut().expect("a signature") ^= 1;
            assert_eq!(judge(&by, b"first", &proof, Sha1::Refused), forged);
        }
    }

    #[test]
    fn a_peer_without_rfc_7427_gets_two_numbers_on_the_keys_curve() {
        for (by, method, length) in [
            (P256, AuthMethod::ECDSA_P256, 64),
            (P384, AuthMethod::ECDSA_P384, 96),
            (P521, AuthMethod::ECDSA_P521, 132),
        ] {
            let mut proof = prove(&by, None).expect("a proof");
            assert_eq!((proof.method, proof.data.len()), (method, length));
            assert_eq!(judge(&by, b"first", &proof, Sha1::Refused), Ok(()));
            assert!(judge(&by, b"other", &proof, Sha1::Refused).is_err());
            assert_eq!(judge(&ED25519, b"first", &proof, Sha1::Refused), Err(ProofError::Method(method)));
            proof.data.pop();
            assert_eq!(judge(&by, b"first", &proof, Sha1::Refused), Err(ProofError::Malformed));
        }
        for by in [RSA, ED25519] {
            assert!(matches!(prove(&by, None), Err(ProofError::NoScheme(_))), "SHA-1, or no method");
        }
    }

    #[test]
    fn a_signature_has_a_hash_that_the_peer_announced() {
        let only = |number: u16| SignatureHashes::decode(&number.to_be_bytes());
        let scheme = |proof: &Authentication| {
            Scheme::from_algorithm_identifier(&proof.data[1..=usize::from(proof.data[0])])
        };
        for (number, digest) in [(2, Digest::Sha256), (3, Digest::Sha384), (4, Digest::Sha512)] {
            let proof = prove(&RSA, Some(&only(number))).expect("a proof");
            assert_eq!(scheme(&proof), Ok(Scheme::RsaPss(digest)));
        }
        assert!(matches!(prove(&P256, Some(&only(3))), Err(ProofError::NoScheme(KeyKind::EcdsaP256))));
        assert!(matches!(prove(&RSA, Some(&only(1))), Err(ProofError::NoScheme(_))), "SHA-1 alone");
        assert!(matches!(prove(&ED25519, Some(&only(4))), Err(ProofError::NoScheme(_))));
        assert!(prove(&ED25519, Some(&only(5))).is_ok());
    }

    /// The proof of a peer that announces these methods, by that key.
    fn prove_to(
        by: &Identity,
        announced: &AnnouncedMethods,
        hashes: Option<&SignatureHashes>,
    ) -> Authentication {
        let peer = PeerHashes { hashes, announced: Some(announced), sha1: Sha1::Accepted };
        with_octets(b"first", |octets| certificate_proof(Prf::Sha256, &by.key(), octets, peer))
            .expect("a proof")
    }

    #[test]
    fn a_proof_is_by_a_method_that_the_peer_announced() {
        let own = SignatureHashes::own();
        let digital = |scheme: Scheme| {
            let algorithm = scheme.algorithm_identifier();
            [&[3 + algorithm.len() as u8, 14, 0], algorithm.as_slice()].concat()
        };
        let scheme = |proof: &Authentication| {
            Scheme::from_algorithm_identifier(&proof.data[1..=usize::from(proof.data[0])]).expect("a scheme")
        };
        // RSA: by PKCS #1 v1.5 where that is announced alone, by the best of several, and not by SHA-1 beside RFC 7427.
        let pkcs1 = digital(Scheme::RsaPkcs1(Digest::Sha256));
        let pss = digital(Scheme::RsaPss(Digest::Sha384));
        let by_rsa = |data: &[u8]| prove_to(&RSA, &AnnouncedMethods::decode(data), Some(&own));
        assert_eq!(scheme(&by_rsa(&pkcs1)), Scheme::RsaPkcs1(Digest::Sha256));
        assert_eq!(scheme(&by_rsa(&[pkcs1.clone(), pss].concat())), Scheme::RsaPss(Digest::Sha384));
        assert_eq!(scheme(&by_rsa(&[3, 1, 0])), Scheme::RsaPss(Digest::Sha512));
        // ECDSA: by the method of the curve where digital signatures are not announced.
        let by_curve = prove_to(&P256, &AnnouncedMethods::decode(&[3, 9, 0]), Some(&own));
        assert_eq!(by_curve.method, AuthMethod::ECDSA_P256);
        let by_name = digital(Scheme::Ecdsa(Digest::Sha256));
        let by_name = prove_to(&P256, &AnnouncedMethods::decode(&by_name), Some(&own));
        assert_eq!(scheme(&by_name), Scheme::Ecdsa(Digest::Sha256));
        // A list without a method of the key: the hashes decide.
        for data in [&[][..], &[2, 2], &[3, 10, 0], &digital(Scheme::Ed25519)] {
            let announced = AnnouncedMethods::decode(data);
            assert_eq!(scheme(&prove_to(&RSA, &announced, Some(&own))), Scheme::RsaPss(Digest::Sha512));
            assert_eq!(prove_to(&P256, &announced, None).method, AuthMethod::ECDSA_P256);
        }
        // An algorithm whose hash the peer did not announce is none (RFC 7427 section 4).
        let sha512 = SignatureHashes::decode(&[0, 4]);
        let announced = AnnouncedMethods::decode(&pkcs1);
        assert_eq!(scheme(&prove_to(&RSA, &announced, Some(&sha512))), Scheme::RsaPss(Digest::Sha512));
        for by in [RSA, RSA_PSS, P256, P384, P521, ED25519] {
            let proof = prove_to(&by, &AnnouncedMethods::certificates(Sha1::Refused), Some(&own));
            assert_eq!(judge(&by, b"first", &proof, Sha1::Refused), Ok(()), "what is announced is verified");
        }
    }

    #[test]
    fn hashes_are_written_as_the_standards_number_them() {
        assert_eq!(SignatureHashes::own().encode(), [0, 2, 0, 3, 0, 4, 0, 5]);
        let peers = SignatureHashes::decode(&[0, 9, 0, 4, 0, 2, 1]);
        assert_eq!(peers.encode(), [0, 2, 0, 4], "an unknown number and half a number are skipped");
    }

    #[test]
    fn sha_1_is_verified_by_method_1_alone_and_where_it_is_accepted() {
        // OpenSSL signed the octets.
        let data = include_bytes!("../../tests/data/rsa-sha1-proof.sig").to_vec();
        let proof = Authentication { method: AuthMethod::RSA_SIGNATURE, data: data.clone() };
        assert_eq!(judge(&RSA, b"first", &proof, Sha1::Accepted), Ok(()));
        assert!(judge(&RSA, b"first", &proof, Sha1::Refused).is_err());
        assert!(judge(&RSA, b"other", &proof, Sha1::Accepted).is_err());
        let scheme = Scheme::RsaPkcs1(Digest::Sha1);
        let data = [&[15][..], &scheme.algorithm_identifier(), &data].concat();
        let proof = Authentication { method: AuthMethod::DIGITAL_SIGNATURE, data };
        assert_eq!(judge(&RSA, b"first", &proof, Sha1::Accepted), Err(ProofError::NotAnnounced(scheme)));
        let key = RSA.key();
        let octets = with_octets(b"first", |octets| octets.to_bytes(Prf::Sha256));
        let by_sha256 = key.sign(Scheme::RsaPkcs1(Digest::Sha256), &octets).expect("a signature");
        let proof = Authentication { method: AuthMethod::RSA_SIGNATURE, data: by_sha256 };
        assert_eq!(judge(&RSA, b"first", &proof, Sha1::Refused), Ok(()));
        assert!(judge(&RSA, b"other", &proof, Sha1::Refused).is_err());
    }

    #[test]
    fn a_peer_without_rfc_7427_gets_sha_1_of_rsa_where_it_is_accepted() {
        let prove = |by: &Identity, hashes: Option<&SignatureHashes>| {
            let peer = PeerHashes { hashes, announced: None, sha1: Sha1::Accepted };
            with_octets(b"first", |octets| certificate_proof(Prf::Sha256, &by.key(), octets, peer))
        };
        let proof = prove(&RSA, None).expect("a proof");
        assert_eq!(proof.method, AuthMethod::RSA_SIGNATURE);
        // OpenSSL made the same one.
        assert_eq!(proof.data, include_bytes!("../../tests/data/rsa-sha1-proof.sig"));
        assert!(judge(&RSA, b"first", &proof, Sha1::Refused).is_err());
        let announced = prove(&RSA, Some(&SignatureHashes::own())).expect("a proof");
        assert_eq!(announced.method, AuthMethod::DIGITAL_SIGNATURE);
        assert!(judge(&RSA, b"first", &announced, Sha1::Refused).is_ok(), "SHA-2 where the peer knows it");
        assert_eq!(prove(&P256, None).map(|proof| proof.method), Ok(AuthMethod::ECDSA_P256));
        for by in [RSA_PSS, ED25519] {
            assert!(matches!(prove(&by, None), Err(ProofError::NoScheme(_))));
        }
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let proof = |method, data: &[u8]| Authentication { method, data: data.to_vec() };
        for (proof, error) in [
            (proof(AuthMethod::SHARED_KEY, &[0; 32]), ProofError::Method(AuthMethod::SHARED_KEY)),
            (proof(AuthMethod::NULL, &[]), ProofError::Method(AuthMethod::NULL)),
            (proof(AuthMethod::DIGITAL_SIGNATURE, &[]), ProofError::Malformed),
            (proof(AuthMethod::DIGITAL_SIGNATURE, &[9, 0x30]), ProofError::Malformed),
            (
                proof(AuthMethod::DIGITAL_SIGNATURE, &[2, 0x30, 0, 1]),
                ProofError::Algorithm(AlgorithmError::Malformed),
            ),
            (proof(AuthMethod::ECDSA_P256, &[0; 64]), ProofError::Malformed),
        ] {
            assert_eq!(judge(&P256, b"first", &proof, Sha1::Accepted), Err(error));
        }
    }
}

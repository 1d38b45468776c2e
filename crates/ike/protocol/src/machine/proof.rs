//! The proofs of identities in `IKE_AUTH`: by pre-shared keys, and by certificates.

use std::net::IpAddr;

use adit_core::{Digest, printable};
use rustls_pki_types::{CertificateDer, UnixTime};
use subtle::ConstantTimeEq as _;

use super::params::{
    CertificatePolicy, LocalAuth, LocalProof, OwnCertificate, PeerCertificates, PeerIdentity, RemoteAuth,
    RemoteProof,
};
use super::payloads::{Payloads, notify};
use crate::crypto::{
    AnnouncedMethods, PeerHashes, SignatureHashes, SignedOctets, certificate_proof, is_named, not_named,
    shared_key_proof, verify_certificate_proof,
};
use crate::wire::{
    AuthMethod, Authentication, Certificate, CertificateEncoding, IdType, Identification, NotifyType, Payload,
};

/// The identities, the certificates and the proof of a message.
#[derive(Clone, Default)]
pub(crate) struct Claim<'a> {
    pub(crate) initiator: Option<&'a Identification>,
    pub(crate) responder: Option<&'a Identification>,
    pub(crate) proof: Option<&'a Authentication>,
    /// The certificates in X.509; that of the identity is the first.
    pub(crate) certificates: Vec<CertificateDer<'a>>,
    /// Whether the message asks for certificates.
    pub(crate) asks: bool,
    /// The name of the initiator's PPK (RFC 8784), with its kind in front.
    pub(crate) ppk_identity: Option<&'a [u8]>,
    /// The proof for a responder that does not have the PPK.
    pub(crate) no_ppk_proof: Option<&'a [u8]>,
    /// Whether the initiator takes EAP as the only proof of the responder (RFC 5998).
    pub(crate) takes_eap_only: bool,
    /// The methods that the initiator announces (RFC 9593).
    pub(crate) announced: Option<&'a [u8]>,
}

impl<'a> Claim<'a> {
    pub(crate) fn of(payloads: &'a [Payload]) -> Self {
        let mut claim = Claim::default();
        for payload in payloads {
            match payload {
                Payload::IdInitiator(identity) => claim.initiator = claim.initiator.or(Some(identity)),
                Payload::IdResponder(identity) => claim.responder = claim.responder.or(Some(identity)),
                Payload::Authentication(proof) => claim.proof = claim.proof.or(Some(proof)),
                Payload::Certificate(certificate)
                    if certificate.encoding == CertificateEncoding::X509_SIGNATURE =>
                {
                    claim.certificates.push(CertificateDer::from(certificate.data.as_slice()));
                }
                Payload::CertificateRequest(_) => claim.asks = true,
                Payload::Notify(notify) if notify.kind == NotifyType::PPK_IDENTITY => {
                    claim.ppk_identity = Some(&notify.data);
                }
                Payload::Notify(notify) if notify.kind == NotifyType::EAP_ONLY_AUTHENTICATION => {
                    claim.takes_eap_only = true;
                }
                Payload::Notify(notify) if notify.kind == NotifyType::SUPPORTED_AUTH_METHODS => {
                    claim.announced = Some(&notify.data);
                }
                Payload::Notify(notify) if notify.kind == NotifyType::NO_PPK_AUTH => {
                    claim.no_ppk_proof = Some(&notify.data);
                }
                _ => {}
            }
        }
        claim
    }

    /// Whether the proof is by this pre-shared key.
    pub(crate) fn is_proven_by_key(&self, prf: Digest, key: &[u8], octets: &SignedOctets<'_>) -> bool {
        let expected = shared_key_proof(prf, key, octets);
        self.proof.is_some_and(|proof| {
            proof.method == AuthMethod::SHARED_KEY && bool::from(proof.data.ct_eq(expected.as_slice()))
        })
    }
}

/// The parts of the authentication that the peer supports, as the first exchange shows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerSupport {
    /// The hashes of digital signatures. `None`: the peer does not know RFC 7427.
    pub(crate) hashes: Option<SignatureHashes>,
    /// The methods that the peer announced (RFC 9593); empty: it announced none.
    pub(crate) announced: AnnouncedMethods,
    /// Whether the peer asks for certificates.
    pub(crate) asks: bool,
    /// Whether the peer makes IKE SAs without a child SA (RFC 6023).
    pub(crate) is_childless: bool,
    /// Whether the peer has a PPK (RFC 8784).
    pub(crate) uses_ppk: bool,
    /// Whether the peer knows `IKE_INTERMEDIATE` (RFC 9242).
    pub(crate) knows_intermediate: bool,
}

impl PeerSupport {
    /// The parts that the peer's first message shows.
    pub(crate) fn of(payloads: Payloads<'_>) -> Self {
        let hashes = payloads.notify(NotifyType::SIGNATURE_HASH_ALGORITHMS);
        PeerSupport {
            hashes: hashes.map(|hashes| SignatureHashes::decode(&hashes.data)),
            announced: announced_in(payloads).unwrap_or_default(),
            asks: payloads.0.iter().any(|payload| matches!(payload, Payload::CertificateRequest(_))),
            is_childless: payloads.notify(NotifyType::CHILDLESS_IKEV2_SUPPORTED).is_some(),
            uses_ppk: payloads.notify(NotifyType::USE_PPK).is_some(),
            knows_intermediate: payloads.notify(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED).is_some(),
        }
    }
}

/// A proof of this end, with the certificates that it needs.
pub(crate) struct Proven {
    pub(crate) certificates: Vec<Payload>,
    /// `None`: this end proves its identity by EAP, in further messages.
    pub(crate) proof: Option<Authentication>,
}

impl LocalAuth {
    /// Whether this is the identity of this end.
    pub(crate) fn is(&self, identity: &Identification) -> bool {
        PeerIdentity::Exactly(self.identity.clone()).accepts(identity)
    }
}

impl LocalProof {
    /// Proves the identity of this end.
    ///
    /// # Errors
    /// The reason for the log.
    pub(crate) fn prove(
        &self,
        prf: Digest,
        octets: &SignedOctets<'_>,
        peer: &PeerSupport,
    ) -> Result<Proven, String> {
        match self {
            LocalProof::SharedKey(key) => {
                let data = shared_key_proof(prf, &key.0, octets).to_vec();
                let proof = Authentication { method: AuthMethod::SHARED_KEY, data };
                Ok(Proven { certificates: Vec::new(), proof: Some(proof) })
            }
            LocalProof::Certificate(own) => {
                let (hashes, announced) = (peer.hashes.as_ref(), Some(&peer.announced));
                let peer_hashes = PeerHashes { hashes, announced, sha1: own.sha1 };
                let proof = certificate_proof(prf, &own.key, octets, peer_hashes)
                    .map_err(|error| error.to_string())?;
                Ok(Proven { certificates: own.payloads(peer), proof: Some(proof) })
            }
            LocalProof::Eap(_) => Ok(Proven { certificates: Vec::new(), proof: None }),
        }
    }
}

impl OwnCertificate {
    /// The certificates that are sent to the peer.
    fn payloads(&self, peer: &PeerSupport) -> Vec<Payload> {
        let are_sent = match self.policy {
            CertificatePolicy::Always => true,
            CertificatePolicy::IfAsked => peer.asks,
            CertificatePolicy::Never => false,
        };
        let all = [self.key.certificate()].into_iter().chain(&self.chain).filter(|_| are_sent);
        let payload = |certificate: &CertificateDer<'_>| {
            let data = certificate.to_vec();
            Payload::Certificate(Certificate { encoding: CertificateEncoding::X509_SIGNATURE, data })
        };
        all.map(payload).collect()
    }
}

/// The payload that asks for certificates of these authorities (RFC 7296 section 3.7). `None`: there are no authorities.
pub(crate) fn request_certificates(digests: &[[u8; 20]]) -> Option<Payload> {
    let (encoding, data) = (CertificateEncoding::X509_SIGNATURE, digests.concat());
    (!data.is_empty()).then_some(Payload::CertificateRequest(Certificate { encoding, data }))
}

/// The payload that announces these methods (RFC 9593 section 3.2). `None`: there are none.
pub(crate) fn announce(methods: &AnnouncedMethods) -> Option<Payload> {
    let data = methods.encode();
    (!data.is_empty()).then(|| notify(NotifyType::SUPPORTED_AUTH_METHODS, data))
}

/// The methods that payloads announce.
pub(crate) fn announced_in(payloads: Payloads<'_>) -> Option<AnnouncedMethods> {
    let announced = payloads.notify(NotifyType::SUPPORTED_AUTH_METHODS)?;
    Some(AnnouncedMethods::decode(&announced.data))
}

impl RemoteAuth {
    /// The payload that asks the peer for its certificates.
    pub(crate) fn request(&self) -> Option<Payload> {
        request_certificates(self.requested())
    }

    /// The methods by which the peer may authenticate; none with EAP, which has its own choice of methods.
    pub(crate) fn announced(&self) -> AnnouncedMethods {
        match &self.proof {
            RemoteProof::SharedKey(_) => AnnouncedMethods::shared_key(),
            RemoteProof::Certificate(accepted) => AnnouncedMethods::certificates(accepted.sha1),
            RemoteProof::Eap(_) => AnnouncedMethods::default(),
        }
    }

    /// Whether the peer proves its identity by a signature.
    pub(crate) fn is_by_signature(&self) -> bool {
        matches!(self.proof, RemoteProof::Certificate(_))
    }

    /// The digests of the public keys of the authorities that this end names when it asks for certificates.
    pub(crate) fn requested(&self) -> &[[u8; 20]] {
        match &self.proof {
            RemoteProof::Certificate(accepted) => &accepted.requested,
            RemoteProof::SharedKey(_) | RemoteProof::Eap(_) => &[],
        }
    }

    /// Judges the peer's proof of the identity in the octets.
    ///
    /// # Errors
    /// The reason why the identity is not proved, for the log.
    pub(crate) fn verify(
        &self,
        prf: Digest,
        claim: &Claim<'_>,
        octets: &SignedOctets<'_>,
        wall: UnixTime,
    ) -> Result<(), String> {
        if !self.identity.accepts(octets.identity) {
            return Err("another identity is expected".to_owned());
        }
        match &self.proof {
            RemoteProof::SharedKey(key) => {
                let is_proven = claim.is_proven_by_key(prf, &key.0, octets);
                is_proven.then_some(()).ok_or_else(|| self.no_key_proof(claim))
            }
            RemoteProof::Certificate(accepted) => accepted.verify(prf, claim, octets, wall),
            RemoteProof::Eap(_) => Err(match claim.proof.map(|proof| proof.method) {
                Some(method) => format!("it proves by {method}, and EAP is expected"),
                None => "an initiator alone proves its identity by EAP".to_owned(),
            }),
        }
    }

    fn no_key_proof(&self, claim: &Claim<'_>) -> String {
        match claim.proof.map(|proof| proof.method) {
            Some(AuthMethod::SHARED_KEY) => "compare the pre-shared keys of both ends".to_owned(),
            Some(method) => format!("it proves by {method}, and a pre-shared key is expected"),
            None => "it sends no proof".to_owned(),
        }
    }
}

impl PeerCertificates {
    fn verify(
        &self,
        prf: Digest,
        claim: &Claim<'_>,
        octets: &SignedOctets<'_>,
        wall: UnixTime,
    ) -> Result<(), String> {
        let proof = claim.proof.ok_or("it sends no proof")?;
        if proof.method == AuthMethod::SHARED_KEY {
            return Err("it proves by a pre-shared key, and a certificate is expected".to_owned());
        }
        let (certificate, chain) = match claim.certificates.split_first() {
            Some((certificate, chain)) => (certificate, chain),
            None => {
                let known = self.known.iter().find(|it| is_named(it, octets.identity));
                (known.ok_or("it sends no certificate")?, &[][..])
            }
        };
        if !is_named(certificate, octets.identity) {
            return Err(not_named(certificate));
        }
        self.verifier.verify(certificate, chain, wall).map_err(|refusal| refusal.to_string())?;
        verify_certificate_proof(prf, certificate, octets, proof, self.sha1)
            .map_err(|error| error.to_string())
    }
}

/// Most characters of an identity in the log.
const MAX_SHOWN: usize = 128;

/// The name of an identity, as other protocols have it: of a subject the common name, else the value.
pub(crate) fn name_of(identity: &Identification) -> String {
    let text = identity_text(identity);
    let value = text.split_once(' ').map_or(text.as_str(), |(_, value)| value);
    let common = |part: &str| part.trim().strip_prefix("CN=").map(str::to_owned);
    let common = value.split(',').find_map(common).filter(|_| identity.kind == IdType::DER_ASN1_DN);
    common.unwrap_or_else(|| value.to_owned())
}

/// An identity for the log.
pub(crate) fn identity_text(identity: &Identification) -> String {
    let value = match identity.kind {
        IdType::DER_ASN1_DN => adit_pki::name_text(&identity.data).unwrap_or_else(|| "unreadable".to_owned()),
        IdType::IPV4_ADDR | IdType::IPV6_ADDR => address_text(&identity.data),
        _ => printable(&String::from_utf8_lossy(&identity.data)),
    };
    let shown: String = value.chars().take(MAX_SHOWN).collect();
    format!("{} {shown}", identity.kind)
}

/// An identity as a file of swanctl writes it, for the log: with its kind where the value alone is taken for another one.
pub(crate) fn name_in_file(identity: &Identification) -> String {
    let text = identity_text(identity);
    let value = text.split_once(' ').map_or(text.as_str(), |(_, value)| value);
    match identity.kind {
        IdType::KEY_ID => format!("keyid:{value}"),
        IdType::FQDN if value.parse::<IpAddr>().is_ok() || value.contains(['@', '=']) => {
            format!("fqdn:{value}")
        }
        IdType::DER_ASN1_DN => format!("\"{value}\""),
        _ => value.to_owned(),
    }
}

fn address_text(data: &[u8]) -> String {
    let v4 = <[u8; 4]>::try_from(data).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(data).map(IpAddr::from);
    v4.or(v6).map_or_else(|_| "unreadable".to_owned(), |address| address.to_string())
}

use adit_core::Digest;

use super::{Document, Identity, IdentityPattern, Places};

/// A section `local…`: a proof of identity that this end gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRound {
    /// The name of the section.
    pub name: String,
    /// Its lines.
    pub places: Places,
    /// `round`: its number, by which rounds are sorted.
    pub round: u32,
    /// `auth`: the method.
    pub auth: Method,
    /// `id`. `None`: the subject of the certificate, or our address with a pre-shared key.
    pub id: Option<Identity>,
    /// `certs` and the subsections `cert…`: the certificates to choose from.
    pub certs: Vec<Document>,
    /// `pubkeys`: the public keys to choose from, in place of certificates.
    pub pubkeys: Vec<Document>,
    /// `eap_id`: the name that this end says in EAP. `None`: its identity.
    pub eap_id: Option<Identity>,
    /// `aaa_id`: the identity that the peer's certificate must have in EAP-TLS. `None`: the peer's identity.
    pub aaa_id: Option<Identity>,
}

/// A section `remote…`: a proof of identity that the peer must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteRound {
    /// The name of the section.
    pub name: String,
    /// Its lines.
    pub places: Places,
    /// `round`: its number, by which rounds are sorted.
    pub round: u32,
    /// `auth`: the method.
    pub auth: Method,
    /// `id`: the identities that the peer may prove.
    pub id: IdentityPattern,
    /// `certs` and the subsections `cert…`: the certificates that the peer may have. Without any: each that a trusted authority has
    /// signed.
    pub certs: Vec<Document>,
    /// `cacerts` and the subsections `cacert…`: the authorities of which one must have signed the peer's chain. Without any: each
    /// trusted authority.
    pub cacerts: Vec<Document>,
    /// `ca_id`: an identity that an authority of the peer's chain must have.
    pub ca_id: Option<IdentityPattern>,
    /// `pubkeys`: the public keys that the peer may have.
    pub pubkeys: Vec<Document>,
    /// `eap_id`: the names that the peer may say in EAP. `None`: it is not asked, and its identity is its name.
    pub eap_id: Option<IdentityPattern>,
    /// `revocation`: what holds if it is not known whether the peer's certificate was revoked.
    pub revocation: Revocation,
}

/// `auth`: a method of authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// A pre-shared key (`psk`).
    SharedKey,
    /// A signature, by a certificate or a raw public key (`pubkey`, `rsa…`, `ecdsa…`, `ike:…`).
    Signature(SignatureRules),
    /// A name with a password or a certificate, by EAP.
    Eap(EapMethod),
}

/// A method of EAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EapMethod {
    /// A password (`eap-mschapv2`).
    MsChapV2,
    /// A certificate (`eap-tls`).
    Tls,
    /// Whatever this end has credentials for; of a peer, a password (`eap`).
    Any,
    /// Whatever this end has credentials for; of a peer, also a certificate of the authorities that the section names
    /// (`eap-dynamic`).
    Dynamic,
}

impl Default for Method {
    fn default() -> Self {
        Method::Signature(SignatureRules::default())
    }
}

/// The signatures that are allowed. Where there are no rules, each signature that adit makes and takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureRules {
    /// The signatures of AUTH payloads. Empty: any.
    pub of_auth: Vec<Scheme>,
    /// The signatures within chains of certificates, and their keys. Empty: any.
    pub of_chain: Vec<Scheme>,
    /// The fewest bits of RSA keys within chains.
    pub least_rsa_bits: Option<u32>,
    /// The fewest bits of ECDSA keys within chains.
    pub least_ecdsa_bits: Option<u32>,
}

/// A kind of key with a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The kind of key.
    pub key: SchemeKey,
    /// The digest. `None`: the signature has none of its own (Ed25519).
    pub digest: Option<Digest>,
}

/// A kind of key, with the padding of RSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeKey {
    /// Any key (`pubkey`).
    Any,
    /// RSA with PKCS#1 padding.
    Rsa,
    /// RSA with PSS padding.
    RsaPss,
    /// ECDSA.
    Ecdsa,
    /// Ed25519.
    Ed25519,
}

/// `revocation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revocation {
    /// A certificate that a revocation list names is refused.
    #[default]
    Relaxed,
    /// Also a certificate that names where its revocation list is, if no such list is there.
    IfUri,
    /// Also each certificate of whose authority there is no current revocation list.
    Strict,
}

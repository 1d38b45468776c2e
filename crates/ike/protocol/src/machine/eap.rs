//! EAP within `IKE_AUTH` (RFC 7296 section 2.16): the initiator proves a name by EAP, after the responder has proved its identity by
//! a certificate or by a pre-shared key. Then both ends prove once more, by the key that EAP made.
//!
//! The responder takes nothing but `IKE_AUTH` before the end of EAP, and makes no child SA before both proofs. A connection with EAP at
//! both ends has no other proof of the responder (RFC 5998): it says its identity alone, and its certificate in EAP-TLS must have that
//! identity. Such a connection has no EAP-MSCHAPv2, which is too weak for it.

mod initiator;
mod responder;

use crate::wire::{Eap, IdType, Identification, Payload};

/// The EAP message among payloads.
fn eap_in(payloads: &[Payload]) -> Option<&Eap> {
    payloads.iter().find_map(|payload| match payload {
        Payload::Eap(eap) => Some(eap),
        _ => None,
    })
}

/// An EAP identity as an identity of IKE: the subject of a certificate in DER, or text by the rules of swanctl.conf for names.
fn identity_of(name: &[u8]) -> Identification {
    let kind = match name {
        _ if adit_pki::name_text(name).is_some() => IdType::DER_ASN1_DN,
        _ if name.contains(&b'@') => IdType::RFC822_ADDR,
        _ => IdType::FQDN,
    };
    Identification { kind, data: name.to_vec() }
}

/// The text of an EAP identity.
fn text_of(claimed: &Identification) -> String {
    let subject = adit_pki::name_text(&claimed.data).filter(|_| claimed.kind == IdType::DER_ASN1_DN);
    subject.unwrap_or_else(|| String::from_utf8_lossy(&claimed.data).into_owned())
}

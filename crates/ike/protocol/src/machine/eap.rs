//! EAP within `IKE_AUTH` (RFC 7296 section 2.16): the initiator proves a name by EAP, after the responder has proved its identity by
//! a certificate or by a pre-shared key. Then both ends prove once more, by the key that EAP made.
//!
//! The responder takes nothing but `IKE_AUTH` before the end of EAP, and makes no child SA before both proofs. EAP without a proof of
//! the responder (RFC 5998) is neither asked for nor accepted, as EAP-MSCHAPv2 is too weak for it.

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

/// An EAP identity as an identity of IKE, by the rules of swanctl.conf for names.
fn identity_of(name: &str) -> Identification {
    let kind = if name.contains('@') { IdType::RFC822_ADDR } else { IdType::FQDN };
    Identification { kind, data: name.as_bytes().to_vec() }
}

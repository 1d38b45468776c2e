//! Messages of EAP (RFC 3748 section 4), as the methods see them.

use std::fmt;

use super::MAX_DATA;
use crate::wire::{Eap, EapCode};

/// The kind of the data of a request or a response (RFC 3748 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EapType(pub u8);

impl EapType {
    /// The name of the peer.
    pub const IDENTITY: EapType = EapType(1);
    /// A text for the user.
    pub const NOTIFICATION: EapType = EapType(2);
    /// The peer does not take the method, and names others.
    pub const NAK: EapType = EapType(3);
    /// EAP-TLS.
    pub const TLS: EapType = EapType(13);
    /// EAP-MSCHAPv2.
    pub const MS_CHAP_V2: EapType = EapType(26);
}

impl fmt::Display for EapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("Identity"),
            2 => f.write_str("Notification"),
            3 => f.write_str("Nak"),
            13 => f.write_str("EAP-TLS"),
            21 => f.write_str("EAP-TTLS"),
            25 => f.write_str("PEAP"),
            26 => f.write_str("EAP-MSCHAPv2"),
            number => write!(f, "EAP type {number}"),
        }
    }
}

/// A message of EAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Request(EapType, &'a [u8]),
    Response(EapType, &'a [u8]),
    Success,
    Failure,
}

impl<'a> Message<'a> {
    /// The message that a payload holds.
    ///
    /// # Errors
    /// The reason why it is none.
    pub(super) fn decode(eap: &'a Eap) -> Result<Self, String> {
        if eap.data.len() > MAX_DATA {
            return Err(format!("an EAP message of {} bytes, at most {MAX_DATA} are taken", eap.data.len()));
        }
        match (eap.code, eap.data.split_first()) {
            (EapCode::REQUEST, Some((kind, data))) => Ok(Message::Request(EapType(*kind), data)),
            (EapCode::RESPONSE, Some((kind, data))) => Ok(Message::Response(EapType(*kind), data)),
            (EapCode::SUCCESS, None) => Ok(Message::Success),
            (EapCode::FAILURE, None) => Ok(Message::Failure),
            (code, _) => Err(format!("a malformed EAP message ({code}, {} bytes)", eap.data.len())),
        }
    }
}

/// A request or a response.
pub(super) fn encode(code: EapCode, identifier: u8, kind: EapType, data: &[u8]) -> Eap {
    Eap { code, identifier, data: [&[kind.0], data].concat() }
}

/// A success or a failure.
pub(super) const fn encode_end(code: EapCode, identifier: u8) -> Eap {
    Eap { code, identifier, data: Vec::new() }
}

//! The packets of EAP-MSCHAPv2 (draft-kamath-pppext-eap-mschapv2 section 2), behind the kind of the EAP message.

use crate::eap::MAX_NAME;

/// Bytes of a challenge.
const CHALLENGE_LEN: u8 = 16;
/// Bytes of a response: the peer's challenge, 8 reserved bytes, the NT response, and flags.
const RESPONSE_LEN: u8 = 49;
/// The name that this end's challenges carry.
const NAME: &str = "adit";

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpCode(pub(crate) u8);

impl OpCode {
    pub(crate) const CHALLENGE: OpCode = OpCode(1);
    pub(crate) const RESPONSE: OpCode = OpCode(2);
    pub(crate) const SUCCESS: OpCode = OpCode(3);
    pub(crate) const FAILURE: OpCode = OpCode(4);
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    Challenge {
        number: u8,
        challenge: &'a [u8; 16],
    },
    Response {
        peer_challenge: &'a [u8; 16],
        response: &'a [u8; 24],
        name: &'a [u8],
    },
    Success {
        text: &'a [u8],
    },
    Failure {
        text: &'a [u8],
    },
    /// The peer's answer to a success or a failure.
    Acknowledgement(OpCode),
}

impl<'a> Packet<'a> {
    /// Decodes the packet of a response (`is_response`) or of a request.
    ///
    /// # Errors
    /// It is malformed: a length that is not that of its content (CVE-2025-62291), or an unknown kind.
    pub(crate) fn decode(data: &'a [u8], is_response: bool) -> Result<Self, String> {
        let malformed = || "a malformed message of EAP-MSCHAPv2".to_owned();
        let (code, rest) = data.split_first().ok_or_else(malformed)?;
        let code = OpCode(*code);
        if is_response && rest.is_empty() && [OpCode::SUCCESS, OpCode::FAILURE].contains(&code) {
            return Ok(Packet::Acknowledgement(code));
        }
        let ([number, high, low], body) = rest.split_first_chunk::<3>().ok_or_else(malformed)?;
        if usize::from(u16::from_be_bytes([*high, *low])) != data.len() {
            return Err(malformed());
        }
        let packet = match (code, is_response) {
            (OpCode::CHALLENGE, false) => challenge_in(*number, body),
            (OpCode::RESPONSE, true) => response_in(body),
            (OpCode::SUCCESS, false) => Some(Packet::Success { text: body }),
            (OpCode::FAILURE, false) => Some(Packet::Failure { text: body }),
            _ => None,
        };
        packet.ok_or_else(malformed)
    }
}

fn challenge_in(number: u8, body: &[u8]) -> Option<Packet<'_>> {
    let (length, rest) = body.split_first()?;
    let (challenge, name) = rest.split_first_chunk()?;
    (*length == CHALLENGE_LEN && name.len() <= MAX_NAME).then_some(Packet::Challenge { number, challenge })
}

fn response_in(body: &[u8]) -> Option<Packet<'_>> {
    let (length, rest) = body.split_first()?;
    let (peer_challenge, rest) = rest.split_first_chunk()?;
    let (_reserved, rest) = rest.split_first_chunk::<8>()?;
    let (response, rest) = rest.split_first_chunk()?;
    let (_flags, name) = rest.split_first()?;
    let is_good = *length == RESPONSE_LEN && name.len() <= MAX_NAME;
    is_good.then_some(Packet::Response { peer_challenge, response, name })
}

fn encode(code: OpCode, number: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u16::try_from(body.len() + 4).unwrap_or(u16::MAX).to_be_bytes();
    [&[code.0, number], length.as_slice(), &body].concat()
}

pub(crate) fn challenge(number: u8, challenge: &[u8; 16]) -> Vec<u8> {
    encode(OpCode::CHALLENGE, number, &[&[CHALLENGE_LEN], challenge, NAME.as_bytes()])
}

pub(crate) fn response(number: u8, peer: &[u8; 16], response: &[u8; 24], name: &str) -> Vec<u8> {
    encode(OpCode::RESPONSE, number, &[&[RESPONSE_LEN], peer, &[0; 8], response, &[0], name.as_bytes()])
}

pub(crate) fn message(code: OpCode, number: u8, text: &str) -> Vec<u8> {
    encode(code, number, &[text.as_bytes()])
}

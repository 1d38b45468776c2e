//! The possible results of a first packet, read from the fields that every wrapping leaves in the clear.
//!
//! Removing the wrapping is the most expensive step for an initial packet. Where it would be refused whatever is inside, it is
//! refused before that.

use adit_core::{Path, Rejected, Transport};

use crate::params::ServerParams;
use crate::wire::{HEADER_LEN, Header, Opcode};
use crate::wrap::CRYPT_OVERHEAD;
use crate::wrap::v2::{ASK_FOR_WRAPPED_KEY, negotiates_early};

/// The acknowledgement of a first packet, the session id that it goes with, and the answer's own packet id: as
/// `ControlBody` encodes them.
const ANSWER_BODY: usize = 1 + 4 + 8 + 4;

/// The result of a packet, if its content is as good as it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreCheck {
    /// An answer; `larger` than the packet, or not.
    Answer { larger: bool },
    /// A control channel at once, without a proof of the address: a tls-crypt-v2 client before OpenVPN 2.6.
    ControlChannel,
    /// The result depends on the content.
    Open,
}

/// The result that this packet can have.
///
/// # Errors
/// If it is refused in any case.
pub(super) fn pre_check(params: &ServerParams, path: Path, datagram: &[u8]) -> Result<PreCheck, Rejected> {
    let opcode = datagram.first().and_then(|byte| Header::from_byte(*byte)).map(|header| header.opcode);
    let answer = |overhead, payload: &[u8]| PreCheck::Answer {
        larger: answer_length(overhead, payload) > datagram.len(),
    };
    Ok(match (path.transport(), opcode, &params.admission.v2) {
        (Transport::Udp, Some(Opcode::HardResetClientV2), None) => {
            answer(params.control.wrap.overhead(), &[])
        }
        (Transport::Udp, Some(Opcode::HardResetClientV3), Some(v2)) => match packet_id(datagram) {
            Some(id) if negotiates_early(id) => answer(CRYPT_OVERHEAD, &ASK_FOR_WRAPPED_KEY),
            Some(_) if v2.force_cookie => {
                return Err(Rejected::Unexpected("a client too old for the cookie (force-cookie)"));
            }
            Some(_) => PreCheck::ControlChannel,
            None => PreCheck::Open,
        },
        _ => PreCheck::Open,
    })
}

/// Length of the answer to a first packet.
pub(super) fn answer_length(overhead: usize, payload: &[u8]) -> usize {
    HEADER_LEN + overhead + ANSWER_BODY + payload.len()
}

/// The packet id of tls-crypt, which is in the clear.
fn packet_id(datagram: &[u8]) -> Option<u32> {
    datagram.get(HEADER_LEN..)?.first_chunk().map(|id| u32::from_be_bytes(*id))
}

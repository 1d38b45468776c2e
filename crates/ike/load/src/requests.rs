//! The requests that attackers forge.

use std::net::SocketAddr;

use adit_core::{Instant, Protocol as _, UnixTime};
use adit_ike::machine::Sockets;
use adit_ike::wire::{ExchangeType, Message, Notify, NotifyType, Payload};
use adit_load::{Kind, LoadError, SERIES, seed};

use crate::credentials::Credentials;
use crate::initiators::{InnerAddresses, both, connection, endpoint, fault};

/// The number that the machine knows its socket by.
const SOCKET: u32 = 0;
/// Where the responder's SPI is in the header of a message, and the exchange type (RFC 7296 section 3.1).
const RESPONDER_SPI: std::ops::Range<usize> = 8..16;
const EXCHANGE_TYPE: usize = 18;

/// The kinds of requests that attackers send to port 500 of a responder: first requests, each with an SPI, a nonce and a public value
/// of its own, and what can be made of these without an answer.
///
/// # Errors
/// A request cannot be made.
pub fn requests() -> Result<Vec<Kind>, LoadError> {
    let first: Vec<Vec<u8>> = (0..SERIES).map(first_request).collect::<Result<_, _>>()?;
    let with_cookie = first.iter().map(|request| with_cookie(request)).collect::<Result<_, _>>()?;
    let cut = |request: &Vec<u8>| request.get(..request.len() / 2).unwrap_or_default().to_vec();
    Ok(vec![
        Kind { name: "IKE_SA_INIT, cookie wrong", datagrams: with_cookie },
        Kind { name: "IKE_SA_INIT, cut short", datagrams: first.iter().map(cut).collect() },
        Kind { name: "IKE_AUTH without an IKE SA", datagrams: first.iter().map(|it| unknown(it)).collect() },
        Kind { name: "IKE_SA_INIT, cookie missing", datagrams: first },
    ])
}

/// The first request of the initiator with this number.
fn first_request(number: u32) -> Result<Vec<u8>, LoadError> {
    let mut machine = endpoint(Sockets { plain: both(SOCKET), ..Sockets::default() }, UnixTime(0))?;
    let responder = SocketAddr::from(([192, 0, 2, 1], 500));
    let connection = connection(&Credentials::SharedKey, number, responder, InnerAddresses::Own)?;
    machine.add_connection(connection).map_err(fault)?;
    machine.handle_timeout(Instant::ORIGIN);
    let mut request = Vec::new();
    machine.poll_transmit(&mut request).ok_or_else(|| fault("it has no request"))?;
    Ok(request)
}

/// A request with a cookie that no responder made, in front of all other payloads (RFC 7296 section 2.6).
fn with_cookie(request: &[u8]) -> Result<Vec<u8>, LoadError> {
    let mut message = Message::decode(request).map_err(fault)?;
    message.payloads.insert(0, Payload::Notify(Notify::new(NotifyType::COOKIE, seed().to_vec())));
    Ok(message.encode())
}

/// A request of an IKE SA that the responder does not have.
fn unknown(request: &[u8]) -> Vec<u8> {
    let mut request = request.to_vec();
    request
        .iter_mut()
        .skip(RESPONDER_SPI.start)
        .zip(seed())
        .take(RESPONDER_SPI.len())
        .for_each(|(byte, random)| *byte = random | 1);
    request.iter_mut().skip(EXCHANGE_TYPE).take(1).for_each(|byte| *byte = ExchangeType::IKE_AUTH.0);
    request
}

#[cfg(test)]
mod tests {
    use adit_core::Path;
    use adit_ike::machine::StartAction;

    use super::*;

    /// A responder of the first initiator.
    fn responder() -> adit_ike::machine::Endpoint {
        let mut responder =
            endpoint(Sockets { plain: both(SOCKET), ..Sockets::default() }, UnixTime(0)).unwrap();
        let remote = ([192, 0, 2, 1], 500).into();
        let mut own = connection(&Credentials::SharedKey, 0, remote, InnerAddresses::Own).unwrap();
        own.remotes.clear();
        for child in &mut own.children {
            std::mem::swap(&mut child.local, &mut child.remote);
            child.start = StartAction::None;
        }
        responder.add_connection(own).unwrap();
        responder
    }

    /// The answer to the first of each kind while the responder asks for cookies, with its outcome.
    #[test]
    fn a_responder_refuses_each_kind_for_its_own_reason_and_answers_nothing_longer() {
        let mut responder = responder();
        let path = Path::Udp { socket: SOCKET, remote: ([192, 0, 2, 9], 9).into() };
        let kinds = requests().unwrap();
        let last = kinds.last().unwrap();
        assert_eq!(last.name, "IKE_SA_INIT, cookie missing");
        // Cookies are asked for from the third half-open IKE SA of a source on.
        for request in &last.datagrams[1..4] {
            responder.handle_datagram(Instant::ORIGIN, path, request).unwrap();
        }
        while responder.poll_transmit(&mut Vec::new()).is_some() {}
        let mut reasons = Vec::new();
        for kind in &kinds {
            let mut different = kind.datagrams.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), SERIES as usize, "{}", kind.name);
            let request = &kind.datagrams[0];
            let refused = responder.handle_datagram(Instant::ORIGIN, path, request).unwrap_err();
            let mut answer = Vec::new();
            responder.poll_transmit(&mut answer);
            assert!(answer.len() < request.len(), "{}: {} bytes", kind.name, answer.len());
            reasons.push((refused.to_string(), !answer.is_empty()));
        }
        let expected = [("cookie", true), ("IKE message", false), ("not known", false), ("cookie", true)];
        for ((reason, is_answered), (word, answer)) in reasons.iter().zip(expected) {
            assert!(reason.contains(word) && *is_answered == answer, "{reasons:?}");
        }
    }
}

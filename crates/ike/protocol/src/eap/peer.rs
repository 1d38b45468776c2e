//! The peer's side of EAP, which the initiator of an IKE SA is.

use super::message::{EapType, Message, encode};
use super::mschapv2::PeerSide;
use super::users::NtHash;
use super::{Fill, MAX_ROUNDS};
use crate::crypto::Secret;
use crate::wire::{Eap, EapCode};

/// The name and the password of a peer.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The name, with a domain in front (`DOMAIN\name`) where the authenticator wants one. At most [`super::MAX_NAME`] bytes.
    pub name: String,
    /// The hash of the password.
    pub hash: NtHash,
}

/// The peer's side of one run.
pub struct Peer {
    credentials: Credentials,
    side: PeerSide,
    rounds: u32,
}

/// The next step of a peer.
pub enum PeerTurn {
    /// A response for the authenticator.
    Response(Eap),
    /// Both sides have proved that they know the password, and have this key.
    Success(Secret),
}

impl Peer {
    /// The side with these credentials.
    pub const fn new(credentials: Credentials) -> Self {
        Peer { credentials, side: PeerSide::new(), rounds: 0 }
    }

    /// A message of the authenticator.
    ///
    /// # Errors
    /// The reason why the peer does not go on, for the log.
    pub fn handle(&mut self, eap: &Eap, fill: Fill<'_>) -> Result<PeerTurn, String> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(format!("it sends more than {MAX_ROUNDS} messages of EAP"));
        }
        let response =
            |kind, data: &[u8]| Ok(PeerTurn::Response(encode(EapCode::RESPONSE, eap.identifier, kind, data)));
        match Message::decode(eap)? {
            Message::Request(EapType::IDENTITY, _) => {
                response(EapType::IDENTITY, self.credentials.name.as_bytes())
            }
            Message::Request(EapType::NOTIFICATION, _) => response(EapType::NOTIFICATION, &[]),
            Message::Request(EapType::MS_CHAP_V2, data) => {
                let Credentials { name, hash } = &self.credentials;
                let data = self.side.handle(name, hash, data, fill)?;
                response(EapType::MS_CHAP_V2, &data)
            }
            Message::Request(EapType(kind), _) if kind > EapType::NAK.0 => {
                response(EapType::NAK, &[EapType::MS_CHAP_V2.0])
            }
            Message::Request(kind, _) => Err(format!("it asks for {kind}")),
            Message::Success => {
                let key = self.side.key().ok_or("it sends a success, and has proved nothing")?;
                Ok(PeerTurn::Success(key.clone()))
            }
            Message::Failure => {
                Err(self.side.refusal().unwrap_or("it refuses the user (EAP failure)").to_owned())
            }
            Message::Response(..) => Err("it sends an EAP response".to_owned()),
        }
    }
}

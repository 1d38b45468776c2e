//! The peer's side of EAP, which the initiator of an IKE SA is.

use std::sync::Arc;

use rustls_pki_types::UnixTime;

use super::message::{EapType, Message, encode};
use super::step::Answer;
use super::tls::{self, Setup, TlsCredentials};
use super::users::NtHash;
use super::{Fill, MAX_ROUNDS, mschapv2};
use crate::crypto::Secret;
use crate::wire::{Eap, EapCode, Identification};

/// The name of a peer, with the credentials of the methods that it takes. At least one method has credentials.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The name: text with a domain in front (`DOMAIN\name`) where the authenticator wants one, at most [`super::MAX_NAME`] bytes, or
    /// the subject of a certificate in DER, at most [`super::MAX_SUBJECT`] bytes. A password belongs to text.
    pub name: Vec<u8>,
    /// The hash of the password, for EAP-MSCHAPv2.
    pub password: Option<NtHash>,
    /// The certificates, for EAP-TLS.
    pub tls: Option<Arc<TlsCredentials>>,
    /// The identity that the authenticator's certificate must have in EAP-TLS. `None`: the identity of the end that asks.
    pub authenticator: Option<Identification>,
}

impl Credentials {
    /// Whether the methods prove the authenticator's identity to the peer with a strength that needs no other proof (RFC 5998
    /// section 4): EAP-TLS does, and EAP-MSCHAPv2 does not.
    pub const fn are_mutual(&self) -> bool {
        self.password.is_none()
    }

    /// The methods, in order of preference.
    fn methods(&self) -> Vec<u8> {
        let tls = self.tls.as_ref().map(|_| EapType::TLS.0);
        tls.into_iter().chain(self.password.as_ref().map(|_| EapType::MS_CHAP_V2.0)).collect()
    }
}

/// The surroundings of a peer when a message comes.
pub struct Surroundings<'a> {
    /// A source of secret randomness.
    pub fill: Fill<'a>,
    /// The time by which certificates are judged.
    pub wall: UnixTime,
    /// The identity that the authenticator must prove where the method proves one.
    pub authenticator: &'a Identification,
}

/// The peer's side of one run.
pub struct Peer {
    credentials: Credentials,
    side: Side,
    rounds: u32,
}

/// The method that the authenticator has chosen.
enum Side {
    None,
    Password(mschapv2::PeerSide),
    Tls(Box<tls::PeerSide>),
}

/// The next step of a peer.
pub enum PeerTurn {
    /// A response for the authenticator.
    Response(Eap),
    /// Both sides have proved what the method asks for, and have this key.
    Success(Secret),
}

impl Peer {
    /// The side with these credentials.
    pub const fn new(credentials: Credentials) -> Self {
        Peer { credentials, side: Side::None, rounds: 0 }
    }

    /// A message of the authenticator.
    ///
    /// # Errors
    /// The reason why the peer does not go on, for the log.
    pub fn handle(&mut self, eap: &Eap, surroundings: Surroundings<'_>) -> Result<PeerTurn, String> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(format!("it sends more than {MAX_ROUNDS} messages of EAP"));
        }
        let response =
            |kind, data: &[u8]| Ok(PeerTurn::Response(encode(EapCode::RESPONSE, eap.identifier, kind, data)));
        match Message::decode(eap)? {
            Message::Request(EapType::IDENTITY, _) => response(EapType::IDENTITY, &self.credentials.name),
            Message::Request(EapType::NOTIFICATION, _) => response(EapType::NOTIFICATION, &[]),
            Message::Request(kind, data) if kind.0 > EapType::NAK.0 => {
                let wanted = self.credentials.methods();
                if !wanted.contains(&kind.0) && matches!(self.side, Side::None) {
                    return response(EapType::NAK, &wanted);
                }
                let data = self.answer(kind, data, surroundings)?;
                response(kind, &data)
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

    /// The answer of the method, which is the one that the authenticator has begun with.
    fn answer(&mut self, kind: EapType, data: &[u8], surroundings: Surroundings<'_>) -> Answer {
        let Credentials { name, password, tls, authenticator: own } = &self.credentials;
        let Surroundings { fill, wall, authenticator } = surroundings;
        if matches!(self.side, Side::None) {
            self.side = match kind {
                EapType::TLS => Side::Tls(Box::default()),
                _ => Side::Password(mschapv2::PeerSide::new()),
            };
        }
        match (&mut self.side, kind, password, tls) {
            (Side::Password(side), EapType::MS_CHAP_V2, Some(hash), _) => {
                let name = std::str::from_utf8(name).map_err(|_| "the own name is no text")?;
                side.handle(name, hash, data, fill)
            }
            (Side::Tls(side), EapType::TLS, _, Some(credentials)) => {
                let other = own.as_ref().unwrap_or(authenticator);
                side.handle(&Setup { credentials, other, wall }, data)
            }
            _ => Err(format!("it changes to {kind} after another method")),
        }
    }
}

impl Side {
    /// The key, once the method has ended well.
    fn key(&self) -> Option<&Secret> {
        match self {
            Side::None => None,
            Side::Password(side) => side.key(),
            Side::Tls(side) => side.key(),
        }
    }

    /// The reason why one end refuses the other.
    fn refusal(&self) -> Option<&str> {
        match self {
            Side::None => None,
            Side::Password(side) => side.refusal(),
            Side::Tls(side) => side.refusal(),
        }
    }
}

//! The authenticator's side of EAP: it asks for the name, runs the method, and decides.

use super::message::{EapType, Message, encode, encode_end};
use super::mschapv2::{AuthenticatorSide, Step};
use super::users::User;
use super::{Fill, MAX_NAME, MAX_ROUNDS};
use crate::crypto::Secret;
use crate::wire::{Eap, EapCode};

/// The authenticator of one peer.
pub struct Authenticator {
    identifier: u8,
    rounds: u32,
    state: State,
}

enum State {
    /// Nothing was asked yet, or the name is known.
    Idle,
    Identity,
    Method(Box<AuthenticatorSide>),
    Ended,
}

/// The next step of an authenticator.
pub enum Turn {
    /// The peer has said its name. [`Authenticator::authenticate`] goes on.
    Named(String),
    /// A request for the peer.
    Request(Eap),
    /// The password was wrong. The request says so, and the peer may try another one or not.
    Wrong(Eap),
    /// The peer has proved its name.
    Success {
        /// The success for the peer.
        message: Eap,
        /// The key that both sides have.
        msk: Secret,
    },
    /// The peer has not proved its name.
    Failure {
        /// The failure for the peer.
        message: Eap,
        /// The reason for the log.
        reason: String,
    },
}

impl Authenticator {
    /// An authenticator whose first request has that number.
    pub const fn new(identifier: u8) -> Self {
        Authenticator { identifier, rounds: 0, state: State::Idle }
    }

    /// The request for the peer's name.
    pub fn ask_for_name(&mut self) -> Eap {
        self.state = State::Identity;
        encode(EapCode::REQUEST, self.identifier, EapType::IDENTITY, &[])
    }

    /// Begins the method for a name that the peer has said.
    pub fn authenticate(&mut self, claimed: &str, user: User, fill: Fill<'_>) -> Eap {
        self.identifier = self.identifier.wrapping_add(1);
        let (side, data) = AuthenticatorSide::begin(claimed, user, self.identifier, fill);
        self.state = State::Method(Box::new(side));
        encode(EapCode::REQUEST, self.identifier, EapType::MS_CHAP_V2, &data)
    }

    /// Takes no password of the peer any more.
    pub fn refuse_all(&mut self) {
        if let State::Method(side) = &mut self.state {
            side.refuse_all();
        }
    }

    /// A message of the peer.
    pub fn handle(&mut self, eap: &Eap, fill: Fill<'_>) -> Turn {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return self.fail(format!("more than {MAX_ROUNDS} messages of EAP"));
        }
        let (kind, data) = match Message::decode(eap) {
            Ok(Message::Response(kind, data)) if eap.identifier == self.identifier => (kind, data),
            Ok(_) => return self.fail("an EAP message that is no response to this end's request".to_owned()),
            Err(reason) => return self.fail(reason),
        };
        match (&mut self.state, kind) {
            (State::Identity, EapType::IDENTITY) => match name(data) {
                Ok(name) => {
                    self.state = State::Idle;
                    Turn::Named(name)
                }
                Err(reason) => self.fail(reason),
            },
            (State::Method(side), EapType::MS_CHAP_V2) => {
                let step = side.handle(data, fill);
                self.take(step)
            }
            (State::Method(_), EapType::NAK) => {
                let wanted: Vec<String> = data.iter().map(|kind| EapType(*kind).to_string()).collect();
                self.fail(format!("it does not take EAP-MSCHAPv2, and asks for {}", wanted.join(", ")))
            }
            _ => self.fail(format!("it answers with {kind}, which was not asked for")),
        }
    }

    fn take(&mut self, step: Step) -> Turn {
        match step {
            Step::Request(data) => Turn::Request(self.request(&data)),
            Step::Retry(data) | Step::Refuse(data) => Turn::Wrong(self.request(&data)),
            Step::Success(msk) => {
                self.state = State::Ended;
                Turn::Success { message: encode_end(EapCode::SUCCESS, self.identifier), msk }
            }
            Step::Failure(reason) => self.fail(reason),
        }
    }

    fn request(&mut self, data: &[u8]) -> Eap {
        self.identifier = self.identifier.wrapping_add(1);
        encode(EapCode::REQUEST, self.identifier, EapType::MS_CHAP_V2, data)
    }

    /// Ends the run with a failure.
    pub fn fail(&mut self, reason: String) -> Turn {
        self.state = State::Ended;
        Turn::Failure { message: encode_end(EapCode::FAILURE, self.identifier), reason }
    }
}

/// The name in a response (RFC 3748 section 5.1): text up to the first zero byte.
fn name(data: &[u8]) -> Result<String, String> {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let name = data.get(..end).unwrap_or_default();
    match std::str::from_utf8(name) {
        Ok(name) if (1..=MAX_NAME).contains(&name.len()) => Ok(name.to_owned()),
        Ok(name) => Err(format!("a name of {} bytes, allowed are 1 to {MAX_NAME}", name.len())),
        Err(_) => Err("a name that is no UTF-8".to_owned()),
    }
}

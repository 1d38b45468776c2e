//! The authenticator's side of EAP: it asks for the name, runs a method, and decides.

use super::message::{EapType, Message, encode, encode_end};
use super::step::Step;
use super::tls::TlsOffer;
use super::users::User;
use super::{Fill, MAX_NAME, MAX_ROUNDS, MAX_SUBJECT, mschapv2, tls};
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
    Method(Method),
    Ended,
}

/// A method that has begun.
struct Method {
    side: Side,
    /// Whether the peer has answered it: then the peer asks for no other one (RFC 3748 section 5.3.1).
    is_answered: bool,
    /// The peer's name and its user, if EAP-MSCHAPv2 may take the place of the method.
    password: Option<Box<(String, User)>>,
}

enum Side {
    Password(Box<mschapv2::AuthenticatorSide>),
    Tls(Box<tls::AuthenticatorSide>),
}

/// The methods that an authenticator offers to a peer; at least one.
#[derive(Clone, Debug)]
pub struct Methods {
    /// The name that the peer has said, as text.
    pub claimed: String,
    /// The user of that name, for EAP-MSCHAPv2.
    pub user: Option<User>,
    /// The certificates, for EAP-TLS, which is offered first.
    pub tls: Option<TlsOffer>,
}

/// The next step of an authenticator.
pub enum Turn {
    /// The peer has said its name: text, or the subject of a certificate in DER. [`Authenticator::authenticate`] goes on.
    Named(Vec<u8>),
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
        /// The method.
        by: EapType,
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

    /// Begins a method for a name that the peer has said. Without any method, the peer is refused.
    pub fn authenticate(&mut self, methods: Methods, fill: Fill<'_>) -> Turn {
        let Methods { claimed, user, tls } = methods;
        let user = user.map(|user| Box::new((claimed, user)));
        match (tls, user) {
            (Some(offer), password) => {
                let (side, data) = tls::AuthenticatorSide::begin(offer);
                let side = Side::Tls(Box::new(side));
                self.state = State::Method(Method { side, is_answered: false, password });
                Turn::Request(self.request(EapType::TLS, &data))
            }
            (None, Some(password)) => self.ask_for_password(*password, fill),
            (None, None) => self.fail("there is no method of EAP for it".to_owned()),
        }
    }

    fn ask_for_password(&mut self, (claimed, user): (String, User), fill: Fill<'_>) -> Turn {
        let number = self.identifier.wrapping_add(1);
        let (side, data) = mschapv2::AuthenticatorSide::begin(&claimed, user, number, fill);
        let side = Side::Password(Box::new(side));
        self.state = State::Method(Method { side, is_answered: false, password: None });
        Turn::Request(self.request(EapType::MS_CHAP_V2, &data))
    }

    /// Takes no password of the peer any more.
    pub fn refuse_all(&mut self) {
        if let State::Method(Method { side: Side::Password(side), .. }) = &mut self.state {
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
            (State::Method(method), EapType::NAK) => {
                let other = method.password.take();
                let other = other.filter(|_| !method.is_answered && data.contains(&EapType::MS_CHAP_V2.0));
                match other {
                    Some(password) => self.ask_for_password(*password, fill),
                    None => self.no_method(data),
                }
            }
            (State::Method(method), kind) if kind == method.side.kind() => {
                method.is_answered = true;
                let step = match &mut method.side {
                    Side::Password(side) => side.handle(data, fill),
                    Side::Tls(side) => side.handle(data),
                };
                self.take(kind, step)
            }
            _ => self.fail(format!("it answers with {kind}, which was not asked for")),
        }
    }

    /// The peer takes no method that is offered, and asks for these.
    fn no_method(&mut self, wanted: &[u8]) -> Turn {
        let State::Method(method) = &self.state else { return self.fail("there is no method".to_owned()) };
        let kind = method.side.kind();
        let wanted: Vec<String> = wanted.iter().map(|kind| EapType(*kind).to_string()).collect();
        self.fail(format!("it does not take {kind}, and asks for {}", wanted.join(", ")))
    }

    fn take(&mut self, by: EapType, step: Step) -> Turn {
        match step {
            Step::Request(data) => Turn::Request(self.request(by, &data)),
            Step::Retry(data) | Step::Refuse(data) => Turn::Wrong(self.request(by, &data)),
            Step::Success(msk) => {
                self.state = State::Ended;
                Turn::Success { message: encode_end(EapCode::SUCCESS, self.identifier), msk, by }
            }
            Step::Failure(reason) => self.fail(reason),
        }
    }

    fn request(&mut self, kind: EapType, data: &[u8]) -> Eap {
        self.identifier = self.identifier.wrapping_add(1);
        encode(EapCode::REQUEST, self.identifier, kind, data)
    }

    /// Ends the run with a failure.
    pub fn fail(&mut self, reason: String) -> Turn {
        self.state = State::Ended;
        Turn::Failure { message: encode_end(EapCode::FAILURE, self.identifier), reason }
    }
}

impl Side {
    const fn kind(&self) -> EapType {
        match self {
            Side::Password(_) => EapType::MS_CHAP_V2,
            Side::Tls(_) => EapType::TLS,
        }
    }
}

/// The name in a response (RFC 3748 section 5.1): the subject of a certificate as strongSwan sends it, or text up to the first zero
/// byte.
fn name(data: &[u8]) -> Result<Vec<u8>, String> {
    if data.len() <= MAX_SUBJECT && adit_pki::name_text(data).is_some() {
        return Ok(data.to_vec());
    }
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let name = data.get(..end).unwrap_or_default();
    match std::str::from_utf8(name) {
        Ok(_) if (1..=MAX_NAME).contains(&name.len()) => Ok(name.to_vec()),
        Ok(_) => Err(format!("a name of {} bytes, allowed are 1 to {MAX_NAME}", name.len())),
        Err(_) => Err("a name that is no UTF-8".to_owned()),
    }
}

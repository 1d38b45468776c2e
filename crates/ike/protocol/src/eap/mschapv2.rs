//! EAP-MSCHAPv2 (draft-kamath-pppext-eap-mschapv2): MS-CHAPv2 (RFC 2759) in EAP.

mod crypto;
mod packet;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use self::crypto::{
    Challenges, authenticator_response, challenge_hash, hash_of_hash, master_keys, nt_response,
};
pub(super) use self::packet::{OpCode, Packet};
use super::Fill;
use super::step::{Answer, Step};
use super::users::{NtHash, User, is_same_user, without_domain};
use crate::crypto::Secret;

/// The most passwords that a peer may try within one run of the method, after the first.
const MAX_RETRIES: u8 = 2;
/// The error for a wrong name or password (RFC 2759 section 6).
const WRONG_PASSWORD: &str = "691";

/// The authenticator's side.
pub(super) struct AuthenticatorSide {
    user: User,
    /// The name that the peer said.
    claimed: String,
    challenge: [u8; 16],
    number: u8,
    retries: u8,
    state: State,
}

/// The message that the authenticator waits for.
enum State {
    Response,
    /// The password was wrong: another response, or the acknowledgement.
    AfterFailure,
    /// The password was right: the acknowledgement.
    AfterSuccess(Secret),
}

impl AuthenticatorSide {
    /// Begins the method with its challenge.
    pub(super) fn begin(claimed: &str, user: User, number: u8, fill: Fill<'_>) -> (Self, Vec<u8>) {
        let mut challenge = [0; 16];
        fill(&mut challenge);
        let request = packet::challenge(number, &challenge);
        let claimed = claimed.to_owned();
        (
            AuthenticatorSide {
                user,
                claimed,
                challenge,
                number,
                retries: MAX_RETRIES,
                state: State::Response,
            },
            request,
        )
    }

    /// Takes no password any more.
    pub(super) fn refuse_all(&mut self) {
        self.user.hash = None;
    }

    /// A response of the peer.
    pub(super) fn handle(&mut self, data: &[u8], fill: Fill<'_>) -> Step {
        let packet = match Packet::decode(data, true) {
            Ok(packet) => packet,
            Err(reason) => return Step::Failure(reason),
        };
        match (&self.state, packet) {
            (
                State::Response | State::AfterFailure,
                Packet::Response { peer_challenge, response, name, .. },
            ) => self.judge(peer_challenge, response, name, fill),
            (State::AfterFailure, Packet::Acknowledgement(OpCode::FAILURE)) => {
                Step::Failure(format!("{}: the name or the password is wrong", self.claimed_text()))
            }
            (State::AfterSuccess(key), Packet::Acknowledgement(OpCode::SUCCESS)) => {
                Step::Success(key.clone())
            }
            (State::AfterSuccess(_), Packet::Acknowledgement(OpCode::FAILURE)) => {
                Step::Failure("it does not accept this end's proof of the password".to_owned())
            }
            _ => Step::Failure("it answers EAP-MSCHAPv2 with a message that is not due".to_owned()),
        }
    }

    fn claimed_text(&self) -> String {
        adit_core::printable(&self.claimed)
    }

    /// Compares a response with the one that the password gives. An unknown name takes as long as a wrong password.
    fn judge(&mut self, peer: &[u8; 16], response: &[u8; 24], name: &[u8], fill: Fill<'_>) -> Step {
        let mut nothing = Zeroizing::new([0; 16]);
        fill(&mut *nothing);
        let hash = self.user.hash.clone().unwrap_or(NtHash(nothing));
        let name = String::from_utf8_lossy(name).into_owned();
        let hashed = without_domain(&name).as_bytes();
        let challenges = Challenges { authenticator: &self.challenge, peer, name: hashed };
        let expected = nt_response(&challenge_hash(&challenges), &hash.0);
        let is_right: bool = expected.ct_eq(response).into();
        if is_right && self.user.hash.is_some() && is_same_user(&name, &self.claimed) {
            let double = hash_of_hash(&hash.0);
            let text = authenticator_response(&double, response, &challenges);
            self.state = State::AfterSuccess(master_keys(&double, response));
            return Step::Request(packet::message(
                OpCode::SUCCESS,
                self.number,
                &format!("S={text} M=Welcome"),
            ));
        }
        let may_retry = self.retries > 0;
        self.retries = self.retries.saturating_sub(1);
        // A retry answers a new challenge.
        fill(&mut self.challenge);
        let challenge: String = self.challenge.iter().map(|byte| format!("{byte:02X}")).collect();
        let text = format!(
            "E={WRONG_PASSWORD} R={} C={challenge} V=3 M=Wrong name or password",
            u8::from(may_retry)
        );
        let request = packet::message(OpCode::FAILURE, self.number, &text);
        if !may_retry {
            self.refuse_all();
        }
        self.state = State::AfterFailure;
        if may_retry { Step::Retry(request) } else { Step::Refuse(request) }
    }
}

/// The peer's side.
pub(super) struct PeerSide {
    sent: Option<Sent>,
    key: Option<Secret>,
    refusal: Option<String>,
}

/// A response that waits for the authenticator's proof.
struct Sent {
    authenticator: [u8; 16],
    peer: [u8; 16],
    response: [u8; 24],
}

impl PeerSide {
    pub(super) const fn new() -> Self {
        PeerSide { sent: None, key: None, refusal: None }
    }

    /// The key, once the authenticator has proved that it knows the password.
    pub(super) fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    /// The reason why the authenticator refuses the user.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// A request of the authenticator.
    pub(super) fn handle(&mut self, name: &str, hash: &NtHash, data: &[u8], fill: Fill<'_>) -> Answer {
        match Packet::decode(data, false)? {
            Packet::Challenge { number, challenge } if self.sent.is_none() => {
                let mut peer = [0; 16];
                fill(&mut peer);
                let hashed = without_domain(name).as_bytes();
                let challenges = Challenges { authenticator: challenge, peer: &peer, name: hashed };
                let response = nt_response(&challenge_hash(&challenges), &hash.0);
                self.sent = Some(Sent { authenticator: *challenge, peer, response });
                Ok(packet::response(number, &peer, &response, name))
            }
            Packet::Success { text } => self.verify(name, hash, text),
            Packet::Failure { text } => {
                self.refusal = Some(refusal(text));
                self.key = None;
                Ok(vec![OpCode::FAILURE.0])
            }
            _ => Err("it sends a message of EAP-MSCHAPv2 that is not due".to_owned()),
        }
    }

    /// The authenticator's proof that it knows the password (RFC 2759 section 8.7).
    fn verify(&mut self, name: &str, hash: &NtHash, text: &[u8]) -> Answer {
        let sent = self.sent.as_ref().ok_or("it sends a success before a challenge")?;
        let hashed = without_domain(name).as_bytes();
        let challenges = Challenges { authenticator: &sent.authenticator, peer: &sent.peer, name: hashed };
        let double = hash_of_hash(&hash.0);
        let expected = authenticator_response(&double, &sent.response, &challenges);
        let found = text.strip_prefix(b"S=").and_then(|text| text.get(..expected.len()));
        let is_right =
            found.is_some_and(|found| found.to_ascii_uppercase().ct_eq(expected.as_bytes()).into());
        if !is_right {
            return Err("it does not prove that it knows the password".to_owned());
        }
        self.key = Some(master_keys(&double, &sent.response));
        Ok(vec![OpCode::SUCCESS.0])
    }
}

/// The reason for the log that a failure says.
fn refusal(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let error = text.split(' ').find_map(|word| word.strip_prefix("E="));
    match error {
        Some(WRONG_PASSWORD) => "it refuses the name or the password (error 691)".to_owned(),
        Some("646") => "it refuses the user at this hour (error 646)".to_owned(),
        Some("647") => "the account is disabled (error 647)".to_owned(),
        Some("648") => "the password has expired (error 648)".to_owned(),
        Some("649") => "the user has no permission to dial in (error 649)".to_owned(),
        _ => format!("it refuses the user: {}", adit_core::printable(&text)),
    }
}

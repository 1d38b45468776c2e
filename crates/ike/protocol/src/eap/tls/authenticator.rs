//! The authenticator's side of EAP-TLS, the TLS server.

use std::sync::Arc;

use rustls_pki_types::UnixTime;

use super::connection::{Received, Setup, TlsRun};
use super::credentials::TlsCredentials;
use super::packet::{BEGIN, Packet};
use crate::crypto::Secret;
use crate::eap::step::Step;
use crate::wire::Identification;

/// The authenticator's side.
pub(in crate::eap) struct AuthenticatorSide {
    setup: TlsOffer,
    run: Option<TlsRun>,
    state: State,
}

/// EAP-TLS with a peer that has said its identity.
#[derive(Clone, Debug)]
pub struct TlsOffer {
    /// The certificates of this end.
    pub credentials: Arc<TlsCredentials>,
    /// The identity that the peer's certificate must have.
    pub peer: Identification,
    /// The time by which certificates are judged.
    pub wall: UnixTime,
}

/// The message that the authenticator waits for.
enum State {
    Handshake,
    /// The handshake has ended: the acknowledgement.
    Confirming(Secret),
    /// An alert was sent: any message.
    Refusing(String),
}

impl AuthenticatorSide {
    /// Begins the method.
    pub(in crate::eap) fn begin(setup: TlsOffer) -> (Self, Vec<u8>) {
        (AuthenticatorSide { setup, run: None, state: State::Handshake }, BEGIN.to_vec())
    }

    /// A response of the peer.
    pub(in crate::eap) fn handle(&mut self, data: &[u8]) -> Step {
        if let State::Refusing(reason) = &self.state {
            return Step::Failure(reason.clone());
        }
        self.go_on(data).unwrap_or_else(|reason| self.refuse(reason))
    }

    fn go_on(&mut self, data: &[u8]) -> Result<Step, String> {
        let packet = Packet::decode(data)?;
        if self.run.is_none() {
            let TlsOffer { credentials, peer, wall } = &self.setup;
            let setup = Setup { credentials, other: peer, wall: *wall };
            self.run = Some(TlsRun::server(&setup).map_err(|error| error.to_string())?);
        }
        let run = self.run.as_mut().ok_or("there is no TLS")?;
        let not_due = || "it sends a message of EAP-TLS that is not due".to_owned();
        match (run.receive(&packet)?, &self.state) {
            (Received::Fragment(packet), _) => Ok(Step::Request(packet)),
            (Received::Acknowledgement, State::Confirming(msk)) => Ok(Step::Success(msk.clone())),
            (Received::Message(plaintext), State::Handshake) if plaintext.is_empty() => {
                if !run.is_handshaking() {
                    self.state = State::Confirming(run.msk()?);
                    if run.is_confirmed_by_record() {
                        run.confirm()?;
                    }
                }
                run.send().map(Step::Request).ok_or_else(not_due)
            }
            _ => Err(not_due()),
        }
    }

    /// Tells the peer by an alert, if TLS has one for it.
    fn refuse(&mut self, reason: String) -> Step {
        match self.run.as_mut().and_then(TlsRun::send) {
            Some(alert) => {
                self.state = State::Refusing(reason);
                Step::Request(alert)
            }
            None => Step::Failure(reason),
        }
    }
}

//! The responder's side: it asks the initiator for a name and a proof by EAP.

use std::sync::Arc;

use adit_core::{Path, Severity};

use super::{eap_in, identity_of, text_of};
use crate::crypto::{SignedOctets, shared_key_proof};
use crate::eap::{Authenticator, EapType, Methods, TlsOffer, Turn, User};
use crate::machine::auth::{Proved, refuse_second};
use crate::machine::context::Context;
use crate::machine::eap_runs::Responding;
use crate::machine::guesses::Guesser;
use crate::machine::params::{Connection, EapUsers, PeerIdentity, RemoteProof};
use crate::machine::payloads::Payloads;
use crate::machine::proof::{Claim, identity_text};
use crate::machine::requests::HalfOpen;
use crate::machine::sa::{IkeSa, Phase};
use crate::suite::{Preference, choose};
use crate::wire::{AuthMethod, Authentication, ExchangeType, Identification, NotifyType, Payload};

impl IkeSa {
    /// Runs EAP, where the connection asks for it. Gives the half-open IKE SA back if it does not.
    pub(crate) fn run_eap(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        mut half_open: Box<HalfOpen>,
        payloads: &[Payload],
    ) -> Option<Box<HalfOpen>> {
        match half_open.eap.take() {
            Some(run) if run.msk.is_some() => self.prove_by_eap(cx, path, &half_open, &run, payloads),
            Some(run) => self.go_on_with_eap(cx, path, half_open, run, payloads),
            None => return self.begin_eap(cx, path, half_open, payloads),
        }
        None
    }

    fn begin_eap(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        half_open: Box<HalfOpen>,
        payloads: &[Payload],
    ) -> Option<Box<HalfOpen>> {
        let claim = Claim::of(payloads);
        let (None, Some(identity)) = (claim.proof, claim.initiator) else { return Some(half_open) };
        let found = self.find_connection(cx.connections, &claim, &half_open.proposal);
        let Some((number, connection)) = found else { return Some(half_open) };
        let RemoteProof::Eap(accepted) = &connection.remote_auth.proof else { return Some(half_open) };
        let proven = match connection.is_eap_only() {
            true => identity_alone(connection, &claim),
            false => self.prove_responder(connection, &half_open, &claim),
        };
        let mut answer = match proven {
            Ok(answer) => answer,
            Err(reason) => {
                let reason = format!("this end cannot prove its identity: {reason}");
                self.refuse_initiator(cx, path, &claim, &reason);
                return None;
            }
        };
        let mut identifier = [0];
        cx.fill()(&mut identifier);
        let [identifier] = identifier;
        let mut run = Box::new(Responding {
            authenticator: Authenticator::new(identifier),
            request: payloads.to_vec(),
            identity: identity.clone(),
            connection: number,
            claimed: identity.clone(),
            user: None,
            is_wrong: false,
            msk: None,
        });
        let first = match accepted.names {
            Some(_) => run.authenticator.ask_for_name(),
            None => match authenticate(cx, path, &mut run, accepted) {
                Turn::Request(request) => request,
                turn => {
                    self.refuse_user(cx, path, &run, turn);
                    return None;
                }
            },
        };
        answer.push(Payload::Eap(first));
        self.ask(cx, path, half_open, run, &answer);
        None
    }

    /// Sends a request of EAP, and waits for the response.
    fn ask(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        mut half_open: Box<HalfOpen>,
        run: Box<Responding>,
        answer: &[Payload],
    ) {
        half_open.eap = Some(run);
        self.phase = Phase::HalfOpen(half_open);
        self.respond(cx, path, ExchangeType::IKE_AUTH, answer);
    }

    fn go_on_with_eap(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        half_open: Box<HalfOpen>,
        mut run: Box<Responding>,
        payloads: &[Payload],
    ) {
        let Some(eap) = eap_in(payloads) else {
            let turn = run.authenticator.fail("it sends no EAP message".to_owned());
            return self.refuse_user(cx, path, &run, turn);
        };
        let turn = run.authenticator.handle(eap, &mut cx.fill());
        let turn = match turn {
            Turn::Named(name) => match self.connection_for(cx, &half_open, &mut run, &name) {
                Ok(accepted) => authenticate(cx, path, &mut run, accepted),
                Err(reason) => run.authenticator.fail(reason),
            },
            turn => turn,
        };
        let next = match turn {
            Turn::Request(eap) => eap,
            Turn::Wrong(eap) => {
                count_guess(cx, path, &mut run);
                // The peer may go away without an answer, as strongSwan does.
                self.log_wrong(cx, &mut run);
                eap
            }
            Turn::Success { message, msk, by } => {
                run.msk = Some(msk);
                run.user = run.user.take().filter(|_| by != EapType::TLS);
                message
            }
            Turn::Named(_) | Turn::Failure { .. } => return self.refuse_user(cx, path, &run, turn),
        };
        self.ask(cx, path, half_open, run, &[Payload::Eap(next)]);
    }

    /// Logs the first wrong password of a run.
    fn log_wrong(&self, cx: &mut Context<'_>, run: &mut Responding) {
        if std::mem::replace(&mut run.is_wrong, true) {
            return;
        }
        let (claimed, name) = (identity_text(&run.identity), adit_core::printable(&text_of(&run.claimed)));
        let text =
            format!("{claimed} did not prove its name by EAP: {name}: the name or the password is wrong");
        self.log(cx, Severity::Warning, &text);
    }

    fn refuse_user(&mut self, cx: &mut Context<'_>, path: Path, run: &Responding, turn: Turn) {
        let Turn::Failure { message, reason } = turn else { return };
        if !run.is_wrong {
            let claimed = identity_text(&run.identity);
            self.log(cx, Severity::Warning, &format!("{claimed} did not prove its name by EAP: {reason}"));
        }
        self.phase = Phase::Failed;
        self.respond(cx, path, ExchangeType::IKE_AUTH, &[Payload::Eap(message)]);
    }

    /// The users of the connection for the name that the initiator says. Of several connections with EAP, the first that names the
    /// user comes first. This end has proved its identity already, so that the connection has the same one.
    ///
    /// # Errors
    /// No connection accepts the name.
    fn connection_for<'c>(
        &self,
        cx: &Context<'c>,
        half_open: &HalfOpen,
        run: &mut Responding,
        name: &[u8],
    ) -> Result<&'c EapUsers, String> {
        let first = cx.connections.get(run.connection).ok_or("the connection was removed")?;
        let address = self.path.remote().ip();
        let proposal = std::slice::from_ref(&half_open.proposal);
        let claimed = identity_of(name);
        let allows = |connection: &Connection| {
            connection.local_auth.identity == first.local_auth.identity
                && connection.is_eap_only() == first.is_eap_only()
                && connection.remote_auth.identity.accepts(&run.identity)
                && (connection.is_at(address) || connection.may_come_from(address))
                && choose(&connection.ike, proposal, Preference::Own).is_some()
        };
        let mut best: Option<(u8, usize, &EapUsers)> = None;
        let named = cx.connections.named(&run.identity);
        for (number, connection) in named.filter(|(_, connection)| allows(connection)) {
            let RemoteProof::Eap(accepted) = &connection.remote_auth.proof else { continue };
            let Some(names) = &accepted.names else { continue };
            if !has_user(accepted, names, &claimed) {
                continue;
            }
            let rank = names.precision();
            if best.is_none_or(|(before, ..)| before < rank) {
                best = Some((rank, number, accepted));
            }
        }
        let text = adit_core::printable(&text_of(&claimed));
        let (_, number, accepted) =
            best.ok_or_else(|| format!("no connection accepts the EAP identity {text}"))?;
        (run.connection, run.claimed) = (number, claimed);
        Ok(accepted)
    }

    /// The initiator's proof by the key of EAP. With it the IKE SA is there.
    fn prove_by_eap(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        half_open: &HalfOpen,
        run: &Responding,
        payloads: &[Payload],
    ) {
        let (Some(msk), Some(channel)) = (&run.msk, &self.channel) else { return };
        let claim = Claim::of(payloads);
        let prf = channel.suite.prf;
        let octets = SignedOctets {
            message: &half_open.peer_message,
            received: self.transcript.received(&half_open.own_message),
            peer_nonce: &half_open.nonces[1],
            proof_key: &channel.keys.initiator_proof,
            identity: &run.identity,
            intermediate: &self.transcript.octets(),
        };
        let claimed = Claim { initiator: Some(&run.identity), ..Claim::default() };
        if !claim.is_proven_by_key(prf, msk, &octets) {
            return self.refuse_initiator(cx, path, &claimed, "its proof by the key of EAP is wrong");
        }
        let Some(connection) = cx.connections.get(run.connection) else {
            return self.refuse_initiator(cx, path, &claimed, "the connection was removed");
        };
        let identity =
            run.user.as_ref().map_or_else(|| run.claimed.clone(), |user| identity_of(user.as_bytes()));
        let is_initial_contact = Payloads(&run.request).notify(NotifyType::INITIAL_CONTACT).is_some();
        let refused = self
            .check_transcript(connection)
            .and_then(|()| refuse_second(cx, run.connection, connection, &identity, is_initial_contact));
        let number =
            refused.and_then(|()| cx.peer_of(run.connection, &identity, path, Payloads(&run.request)));
        let number = match number {
            Ok(number) => number,
            Err(reason) => return self.refuse_initiator(cx, path, &claimed, &reason),
        };
        let own = SignedOctets {
            message: &half_open.own_message,
            received: self.transcript.received(&half_open.peer_message),
            peer_nonce: &half_open.nonces[0],
            proof_key: &channel.keys.responder_proof,
            identity: &connection.local_auth.identity,
            ..octets
        };
        let data = shared_key_proof(prf, msk, &own).to_vec();
        let answer = vec![Payload::Authentication(Authentication { method: AuthMethod::SHARED_KEY, data })];
        self.connection = Some(number);
        self.ike_identity = Some(run.identity.clone()).filter(|of_ike| *of_ike != identity);
        self.peer_identity = Some(identity);
        self.initiator_proved(cx, path, Proved { half_open, connection, answer, payloads: &run.request });
    }
}

/// The responder's identity without a proof, for an initiator that takes EAP alone (RFC 5998).
fn identity_alone(connection: &Connection, claim: &Claim<'_>) -> Result<Vec<Payload>, String> {
    let identity = Payload::IdResponder(connection.local_auth.identity.clone());
    let text =
        "the initiator does not take EAP as the only proof of this end (EAP_ONLY_AUTHENTICATION, RFC 5998)";
    claim.takes_eap_only.then(|| vec![identity]).ok_or_else(|| text.to_owned())
}

/// Whether the connection accepts the name, as that of a user or as that of a certificate.
fn has_user(accepted: &EapUsers, names: &PeerIdentity, claimed: &Identification) -> bool {
    let user = accepted.users.as_ref().map(|users| users.find(&text_of(claimed)).name);
    user.is_some_and(|user| names.accepts(&identity_of(user.as_bytes())))
        || accepted.tls.is_some() && names.accepts(claimed)
}

/// Begins a method for the name that the initiator has said. A name or a source with too many wrong passwords is treated like a
/// name that is not known.
fn authenticate(cx: &mut Context<'_>, path: Path, run: &mut Responding, accepted: &EapUsers) -> Turn {
    let claimed = text_of(&run.claimed);
    let user = accepted.users.as_ref().map(|users| {
        let user = users.find(&claimed);
        let guesser = Guesser { name: &user.name, source: path.remote().ip() };
        let is_permitted = cx.shared.guesses.permits(cx.shared.now, guesser);
        User { hash: user.hash.filter(|_| is_permitted), ..user }
    });
    run.user = user.as_ref().map(|user| user.name.clone());
    let is_accepted = accepted.names.as_ref().is_none_or(|names| names.accepts(&run.claimed));
    let tls = accepted.tls.as_ref().filter(|_| is_accepted).map(|credentials| TlsOffer {
        credentials: Arc::clone(credentials),
        peer: run.claimed.clone(),
        wall: cx.shared.wall(),
    });
    run.authenticator.authenticate(Methods { claimed, user, tls }, &mut cx.fill())
}

/// Counts a wrong password. At the limit, the run takes no further one.
fn count_guess(cx: &mut Context<'_>, path: Path, run: &mut Responding) {
    let Some(name) = &run.user else { return };
    let guesser = Guesser { name, source: path.remote().ip() };
    let mut key = [0; 32];
    cx.fill()(&mut key);
    let now = cx.shared.now;
    cx.shared.guesses.count(now, guesser, &mut |bytes| {
        bytes.iter_mut().zip(key).for_each(|(out, byte)| *out = byte);
    });
    if !cx.shared.guesses.permits(now, guesser) {
        run.authenticator.refuse_all();
    }
}

#[cfg(test)]
impl Responding {
    /// Puts another key in place of the one that both ends have.
    pub(crate) fn change_key(&mut self) {
        if let Some(msk) = &mut self.msk {
            msk.fill(1);
        }
    }

    /// The user whose password is asked for.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

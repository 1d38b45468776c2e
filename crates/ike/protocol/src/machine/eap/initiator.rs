//! The initiator's side: it proves a name by EAP.

use super::eap_in;
use crate::crypto::{SignedOctets, shared_key_proof};
use crate::eap::{PeerTurn, Surroundings};
use crate::machine::auth::no_proof;
use crate::machine::context::Context;
use crate::machine::eap_runs::Initiating;
use crate::machine::params::RemoteProof;
use crate::machine::payloads::Payloads;
use crate::machine::proof::{Claim, identity_text};
use crate::machine::requests::AuthRequest;
use crate::machine::sa::{IkeSa, Request};
use crate::wire::{AuthMethod, Authentication, ExchangeType, Identification, Payload};

impl IkeSa {
    /// A response of `IKE_AUTH`, if this end proves its identity by EAP.
    pub(crate) fn handle_eap_response(
        &mut self,
        cx: &mut Context<'_>,
        mut request: AuthRequest,
        payloads: &[Payload],
    ) {
        let Some(mut run) = request.eap.take() else { return };
        if run.msk.is_some() {
            return self.finish_eap(cx, request, &run, payloads);
        }
        let next = match run.responder {
            None => self.responder_of(cx, &request, payloads).map(|identity| run.responder = Some(identity)),
            Some(_) => Ok(()),
        };
        let next = next.and_then(|()| self.next_eap(cx, &request, &mut run, payloads));
        match next {
            Ok(payload) => {
                request.eap = Some(run);
                let request = Request::Auth(Box::new(request));
                self.request(cx, ExchangeType::IKE_AUTH, &[payload], request);
            }
            Err(reason) => cx.remove(reason),
        }
    }

    /// The identity that the responder proves before EAP begins. With EAP alone (RFC 5998), the identity that it will prove by EAP.
    ///
    /// # Errors
    /// It does not prove an identity that the connection accepts.
    fn responder_of(
        &self,
        cx: &Context<'_>,
        request: &AuthRequest,
        payloads: &[Payload],
    ) -> Result<Identification, String> {
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let (connection, channel) = connection.zip(self.channel.as_ref()).ok_or("there are no keys")?;
        let claim = Claim::of(payloads);
        let remote = &connection.remote_auth;
        let is_by_eap = matches!(remote.proof, RemoteProof::Eap(_));
        if claim.proof.is_none() && !(is_by_eap && eap_in(payloads).is_some()) {
            return Err(no_proof(Payloads(payloads)));
        }
        let identity = claim.responder.or_else(|| remote.identity.exact()).ok_or("it says no identity")?;
        let found = identity_text(identity);
        if is_by_eap {
            let is_accepted = remote.identity.accepts(identity);
            let text = || format!("its identity ({found}) is another one than is expected");
            return is_accepted.then(|| identity.clone()).ok_or_else(text);
        }
        let octets = SignedOctets {
            message: &request.first.peer,
            received: self.transcript.received(&request.first.own),
            peer_nonce: &request.first.nonces[0],
            proof_key: &channel.keys.responder_proof,
            identity,
            intermediate: &self.transcript.octets(),
        };
        let judged = remote.verify(channel.suite.prf, &claim, &octets, cx.shared.wall());
        judged.map_err(|reason| format!("its proof or its identity ({found}) is wrong: {reason}"))?;
        Ok(identity.clone())
    }

    /// The next payload: an EAP response, or after the success this end's proof.
    fn next_eap(
        &self,
        cx: &mut Context<'_>,
        request: &AuthRequest,
        run: &mut Initiating,
        payloads: &[Payload],
    ) -> Result<Payload, String> {
        let eap = eap_in(payloads).ok_or_else(|| no_proof(Payloads(payloads)))?;
        let wall = cx.shared.wall();
        let authenticator = run.responder.as_ref().ok_or("the responder's identity is not known")?;
        let turn = run.peer.handle(eap, Surroundings { fill: &mut cx.fill(), wall, authenticator })?;
        let msk = match turn {
            PeerTurn::Response(eap) => return Ok(Payload::Eap(eap)),
            PeerTurn::Success(msk) => msk,
        };
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        let (connection, channel) = connection.zip(self.channel.as_ref()).ok_or("there are no keys")?;
        let octets = SignedOctets {
            message: &request.first.own,
            received: self.transcript.received(&request.first.peer),
            peer_nonce: &request.first.nonces[1],
            proof_key: &channel.keys.initiator_proof,
            identity: &connection.local_auth.identity,
            intermediate: &self.transcript.octets(),
        };
        let data = shared_key_proof(channel.suite.prf, &msk, &octets).to_vec();
        run.msk = Some(msk);
        Ok(Payload::Authentication(Authentication { method: AuthMethod::SHARED_KEY, data }))
    }

    /// The response with the responder's proof by the key of EAP.
    fn finish_eap(
        &mut self,
        cx: &mut Context<'_>,
        request: AuthRequest,
        run: &Initiating,
        payloads: &[Payload],
    ) {
        let (Some(msk), Some(identity), Some(channel)) = (&run.msk, &run.responder, &self.channel) else {
            return;
        };
        let claim = Claim::of(payloads);
        if claim.proof.is_none() {
            return cx.remove(no_proof(Payloads(payloads)));
        }
        let octets = SignedOctets {
            message: &request.first.peer,
            received: self.transcript.received(&request.first.own),
            peer_nonce: &request.first.nonces[0],
            proof_key: &channel.keys.responder_proof,
            identity,
            intermediate: &self.transcript.octets(),
        };
        if !claim.is_proven_by_key(channel.suite.prf, msk, &octets) {
            return self.give_up(cx, "its proof by the key of EAP is wrong".to_owned());
        }
        self.responder_proved(cx, request, identity.clone(), payloads);
    }
}

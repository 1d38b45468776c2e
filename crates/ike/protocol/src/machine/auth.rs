//! The authentication by a pre-shared key, with the first child SA (`IKE_AUTH`, RFC 7296 sections 1.2 and 2.15).

use adit_core::{Path, Severity};
use subtle::ConstantTimeEq as _;

use super::child::{Child, Offer};
use super::context::{Context, Payloads, notify};
use super::init::offers;
use super::params::Connection;
use super::sa::{IkeSa, Phase, Request};
use crate::crypto::{Nonces, Secret, SignedOctets, shared_key_proof};
use crate::suite::{Preference, choose};
use crate::wire::{AuthMethod, Authentication, ExchangeType, Identification, NotifyType, Payload, Proposal};

/// An initiator's proof, which waits for the responder's.
pub(crate) struct AuthRequest {
    peer_message: Vec<u8>,
    nonces: [Vec<u8>; 2],
    child_spi: u32,
}

/// The values that a responder keeps until the initiator proves its identity.
pub(crate) struct HalfOpen {
    /// The proposal that was chosen.
    pub(crate) proposal: Proposal,
    pub(crate) peer_message: Vec<u8>,
    pub(crate) own_message: Vec<u8>,
    pub(crate) nonces: [Vec<u8>; 2],
}

/// The identities and the proof of a message.
struct Claim<'a> {
    initiator: Option<&'a Identification>,
    responder: Option<&'a Identification>,
    proof: Option<&'a Authentication>,
}

impl<'a> Claim<'a> {
    fn of(payloads: &'a [Payload]) -> Self {
        let mut claim = Claim { initiator: None, responder: None, proof: None };
        for payload in payloads {
            match payload {
                Payload::IdInitiator(identity) => claim.initiator = claim.initiator.or(Some(identity)),
                Payload::IdResponder(identity) => claim.responder = claim.responder.or(Some(identity)),
                Payload::Authentication(proof) => claim.proof = claim.proof.or(Some(proof)),
                _ => {}
            }
        }
        claim
    }
}

fn is_right(proof: Option<&Authentication>, expected: &Secret) -> bool {
    proof.is_some_and(|proof| {
        proof.method == AuthMethod::SHARED_KEY && bool::from(proof.data.ct_eq(expected.as_slice()))
    })
}

impl IkeSa {
    /// The initiator's proof, with the offer of a child SA.
    pub(crate) fn send_auth(
        &mut self,
        cx: &mut Context<'_>,
        own_message: Vec<u8>,
        peer_message: Vec<u8>,
        nonces: [Vec<u8>; 2],
    ) {
        let Some(index) = self.connection else { return };
        let (Some(connection), Some(channel)) = (cx.connections.get(index), &self.channel) else { return };
        let octets = SignedOctets {
            message: &own_message,
            peer_nonce: &nonces[1],
            proof_key: &channel.keys.initiator_proof,
            identity: &connection.local_id,
        };
        let proof = shared_key_proof(channel.suite.prf, &connection.shared_key.0, &octets);
        let child_spi = cx.shared.child_spi();
        let esp: Vec<_> = connection.esp.iter().map(|own| own.without_key_exchange()).collect();
        let is_only = cx.peers.get(index).is_none_or(|peer| peer.sa.is_none());
        let mut payloads = vec![Payload::IdInitiator(connection.local_id.clone())];
        payloads.extend(is_only.then(|| notify(NotifyType::INITIAL_CONTACT, Vec::new())));
        payloads.extend([
            Payload::IdResponder(connection.remote_id.clone()),
            Payload::Authentication(Authentication { method: AuthMethod::SHARED_KEY, data: proof.to_vec() }),
            Payload::SecurityAssociation(offers(&esp, &child_spi.to_be_bytes())),
            Payload::SelectorsInitiator(connection.local.iter().map(|traffic| traffic.selector()).collect()),
            Payload::SelectorsResponder(
                connection.remote_traffic.iter().map(|traffic| traffic.selector()).collect(),
            ),
        ]);
        let request = AuthRequest { peer_message, nonces, child_spi };
        self.request(cx, ExchangeType::IKE_AUTH, &payloads, Request::Auth(Box::new(request)));
    }

    /// The responder's proof.
    pub(crate) fn handle_auth_response(
        &mut self,
        cx: &mut Context<'_>,
        request: AuthRequest,
        payloads: &[Payload],
    ) {
        let Some(connection) = self.connection.and_then(|index| cx.connections.get(index)) else { return };
        let Some(channel) = &self.channel else { return };
        let claim = Claim::of(payloads);
        let errors = Payloads(payloads);
        if claim.proof.is_none() {
            let error = errors.error().map_or_else(|| "no proof".to_owned(), |error| error.kind.to_string());
            return cx.remove(format!("it answers the authentication with {error}"));
        }
        let identity = claim.responder.unwrap_or(&connection.remote_id);
        let octets = SignedOctets {
            message: &request.peer_message,
            peer_nonce: &request.nonces[0],
            proof_key: &channel.keys.responder_proof,
            identity,
        };
        let expected = shared_key_proof(channel.suite.prf, &connection.shared_key.0, &octets);
        if !is_right(claim.proof, &expected) || *identity != connection.remote_id {
            let found = identity_text(identity);
            return cx.remove(format!(
                "its proof or its identity ({found}) is wrong: compare the pre-shared keys"
            ));
        }
        self.establish(cx, false);
        let nonces = Nonces { initiator: &request.nonces[0], responder: &request.nonces[1] };
        let offer =
            Offer { own_spi: request.child_spi, is_initiator: true, secret: Secret::default(), nonces };
        let own = connection.esp.iter().map(|own| own.without_key_exchange()).collect::<Vec<_>>();
        match self.accept_child(cx, &own, &offer, payloads) {
            Ok(child) => self.install_child(cx, child, true),
            Err(reason) => {
                self.log(cx, Severity::Error, &format!("there is no child SA: {reason}"));
                self.close(cx, "there is no child SA");
            }
        }
    }

    /// The initiator's proof at a responder.
    pub(crate) fn handle_auth_request(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        let phase = std::mem::replace(&mut self.phase, Phase::Connecting);
        let (Phase::HalfOpen(half_open), Some(channel)) = (phase, &self.channel) else { return };
        let claim = Claim::of(payloads);
        let found = self.find_connection(cx.connections, &claim, &half_open.proposal);
        // An unknown identity takes as long as a wrong key.
        let nobody = Identification { kind: crate::wire::IdType::NULL, data: Vec::new() };
        let shared_key = found.map_or(&[][..], |(_, connection)| &connection.shared_key.0);
        let octets = SignedOctets {
            message: &half_open.peer_message,
            peer_nonce: &half_open.nonces[1],
            proof_key: &channel.keys.initiator_proof,
            identity: claim.initiator.unwrap_or(&nobody),
        };
        let expected = shared_key_proof(channel.suite.prf, shared_key, &octets);
        let verified = is_right(claim.proof, &expected);
        let Some((index, connection)) = found.filter(|_| verified) else {
            let claimed = claim.initiator.map_or_else(|| "no identity".to_owned(), identity_text);
            let text = format!("{claimed} did not prove its identity by a pre-shared key of this end");
            self.log(cx, Severity::Warning, &text);
            let failed = notify(NotifyType::AUTHENTICATION_FAILED, Vec::new());
            self.phase = Phase::Failed;
            return self.respond(cx, path, ExchangeType::IKE_AUTH, &[failed]);
        };
        self.connection = Some(index);
        let octets = SignedOctets {
            message: &half_open.own_message,
            peer_nonce: &half_open.nonces[0],
            proof_key: &channel.keys.responder_proof,
            identity: &connection.local_id,
        };
        let proof = shared_key_proof(channel.suite.prf, &connection.shared_key.0, &octets);
        let mut answer = vec![
            Payload::IdResponder(connection.local_id.clone()),
            Payload::Authentication(Authentication { method: AuthMethod::SHARED_KEY, data: proof.to_vec() }),
        ];
        let is_initial_contact = Payloads(payloads).notify(NotifyType::INITIAL_CONTACT).is_some();
        self.establish(cx, is_initial_contact);
        let nonces = Nonces { initiator: &half_open.nonces[0], responder: &half_open.nonces[1] };
        let esp: Vec<_> = connection.esp.iter().map(|own| own.without_key_exchange()).collect();
        let chosen =
            Payloads(payloads).proposals().and_then(|offered| choose(&esp, offered, Preference::Own));
        let made = self.make_child(cx, chosen, payloads, None, &nonces);
        match made {
            Ok((child, parts)) => {
                answer.extend(parts);
                self.respond(cx, path, ExchangeType::IKE_AUTH, &answer);
                self.install_child(cx, child, true);
            }
            // The IKE SA stays, without a child SA (RFC 7296 section 1.2).
            Err(error) => {
                self.log(cx, Severity::Error, &format!("there is no child SA: {}", Child::refusal(&error)));
                answer.push(error);
                self.respond(cx, path, ExchangeType::IKE_AUTH, &answer);
            }
        }
    }

    /// The connection with both identities. It must allow the chosen proposal, which was chosen before the identities were known.
    fn find_connection<'c>(
        &self,
        connections: &'c [Connection],
        claim: &Claim<'_>,
        proposal: &Proposal,
    ) -> Option<(usize, &'c Connection)> {
        let allows = |connection: &Connection| {
            Some(&connection.remote_id) == claim.initiator
                && claim.responder.is_none_or(|identity| *identity == connection.local_id)
                && choose(&connection.ike, std::slice::from_ref(proposal), Preference::Own).is_some()
        };
        connections.iter().enumerate().find(|(_, connection)| allows(connection))
    }
}

/// An identity for the log.
fn identity_text(identity: &Identification) -> String {
    let value = String::from_utf8_lossy(&identity.data);
    format!("{} {}", identity.kind, adit_core::printable(&value))
}

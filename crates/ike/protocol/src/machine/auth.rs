//! The authentication, with the first child SA (`IKE_AUTH`, RFC 7296 sections 1.2 and 2.15).

use adit_core::{Path, Severity};

use super::child::{Exchange, Offer, proposals};
use super::child_sa::ChildSa;
use super::connections::Connections;
use super::context::{Context, Effect};
use super::eap_runs::Initiating;
use super::guesses::Guesser;
use super::init::offers;
use super::params::{Childless, Connection, RemoteProof, Unique};
use super::payloads::{Payloads, notify};
use super::peer::{EndKind, Ending};
use super::ppk::{ppk_for, ppk_identity};
use super::proof::{Claim, PeerSupport, Proven, announce, identity_text, name_in_file};
use super::requests::{AuthRequest, HalfOpen, OfferedChild};
use super::sa::{IkeSa, Phase, Request};
use super::transcript::FirstMessages;
use crate::crypto::{AnnouncedMethods, IkeKeys, Nonces, Secrets, SignedOctets};
use crate::suite::{Preference, choose};
use crate::wire::{AuthMethod, ExchangeType, Identification, NotifyType, Payload, Proposal};

/// An initiator that has proved its identity, with the first request of `IKE_AUTH` and the first payloads of the answer.
pub(crate) struct Proved<'a> {
    pub(crate) half_open: &'a HalfOpen,
    pub(crate) connection: &'a Connection,
    pub(crate) answer: Vec<Payload>,
    pub(crate) payloads: &'a [Payload],
}

/// The proof of an initiator, after it was judged.
struct Judged<'c> {
    number: usize,
    connection: &'c Connection,
    identity: Identification,
    /// The keys with the PPK, if both ends use it.
    mixed: Option<IkeKeys>,
}

impl IkeSa {
    /// Uses the keys with the PPK from now on.
    pub(crate) fn mix(&mut self, mixed: Option<IkeKeys>) {
        if let (Some(channel), Some(mixed)) = (&mut self.channel, mixed) {
            channel.keys = mixed;
            self.uses_ppk = true;
        }
    }

    /// The initiator's proof, with the offer of a child SA.
    pub(crate) fn send_auth(&mut self, cx: &mut Context<'_>, first: FirstMessages) {
        let Some(number) = self.connection else { return };
        let (Some(connection), Some(channel)) = (cx.connections.get(number), &self.channel) else { return };
        if let Err(reason) = self.check_transcript(connection) {
            return cx.remove(reason);
        }
        let local = &connection.local_auth;
        let ppk = match ppk_for(connection, &self.peer_support) {
            Ok(ppk) => ppk,
            Err(reason) => return cx.remove(reason),
        };
        let mixed = ppk.map(|ppk| channel.keys.with_ppk(channel.suite.prf, &ppk.key.0));
        let intermediate = self.transcript.octets();
        let without_ppk = SignedOctets {
            message: &first.own,
            received: self.transcript.received(&first.peer),
            peer_nonce: &first.nonces[1],
            proof_key: &channel.keys.initiator_proof,
            identity: &local.identity,
            intermediate: &intermediate,
        };
        let proof_key = mixed.as_ref().map_or(without_ppk.proof_key, |mixed| &mixed.initiator_proof);
        let octets = SignedOctets { proof_key, ..without_ppk };
        let optional = ppk.filter(|ppk| !ppk.is_required);
        let second = optional.map(|_| local.proof.prove(channel.suite.prf, &without_ppk, &self.peer_support));
        let proven = match local.proof.prove(channel.suite.prf, &octets, &self.peer_support) {
            Ok(proven) => proven,
            Err(error) => return cx.remove(format!("this end cannot prove its identity: {error}")),
        };
        let eap = Initiating::of(&local.proof);
        let state = cx.peers.get(&number);
        let is_only = state.is_none_or(|peer| peer.sa.is_none());
        let mut payloads = vec![Payload::IdInitiator(local.identity.clone())];
        payloads.extend(proven.certificates);
        payloads.extend(is_only.then(|| notify(NotifyType::INITIAL_CONTACT, Vec::new())));
        payloads.extend(connection.remote_auth.request());
        payloads.extend(connection.remote_auth.identity.exact().cloned().map(Payload::IdResponder));
        payloads.extend(proven.proof.map(Payload::Authentication));
        let eap_only = NotifyType::EAP_ONLY_AUTHENTICATION;
        payloads.extend(connection.is_eap_only().then(|| notify(eap_only, Vec::new())));
        payloads.extend(connection.mobike.then(|| notify(NotifyType::MOBIKE_SUPPORTED, Vec::new())));
        payloads.extend(ppk.map(ppk_identity));
        payloads.extend(announce(&connection.remote_auth.announced()));
        payloads.extend(self.ask_for_inner(cx, connection));
        if let Some(Ok(Proven { proof: Some(second), .. })) = second {
            payloads.push(notify(NotifyType::NO_PPK_AUTH, second.data));
        }
        let child = match connection.childless {
            Childless::Force if !self.peer_support.is_childless => {
                return cx.remove("it does not make an IKE SA without a child SA (RFC 6023)");
            }
            Childless::Force => None,
            Childless::Prefer if self.peer_support.is_childless => None,
            Childless::Allow | Childless::Prefer | Childless::Never => {
                self.offer_child(cx, connection, &mut payloads)
            }
        };
        let request = AuthRequest { first, child, mixed, eap };
        self.request(cx, ExchangeType::IKE_AUTH, &payloads, Request::Auth(Box::new(request)));
    }

    /// Appends the offer of the first child that this end brings up.
    fn offer_child(
        &self,
        cx: &mut Context<'_>,
        connection: &Connection,
        payloads: &mut Vec<Payload>,
    ) -> Option<OfferedChild> {
        let state = self.connection.and_then(|number| cx.peers.get(&number));
        let number = state.and_then(|state| state.wanted.keys().next().copied()).unwrap_or_default();
        let child = connection.children.get(number)?;
        let spi = cx.offered_child_spi();
        let sides = self.sides(cx, child);
        payloads.extend([
            Payload::SecurityAssociation(offers(&proposals(child, Exchange::Auth), &spi.to_be_bytes())),
            Payload::SelectorsInitiator(sides.local),
            Payload::SelectorsResponder(sides.remote),
        ]);
        Some(OfferedChild { number, spi })
    }

    /// The responder's proof.
    pub(crate) fn handle_auth_response(
        &mut self,
        cx: &mut Context<'_>,
        mut request: AuthRequest,
        payloads: &[Payload],
    ) {
        if request.eap.is_some() {
            return self.handle_eap_response(cx, request, payloads);
        }
        let Some(connection) = self.connection.and_then(|number| cx.connections.get(number)) else { return };
        let Some(channel) = &self.channel else { return };
        let claim = Claim::of(payloads);
        let errors = Payloads(payloads);
        if claim.proof.is_none() {
            return cx.remove(no_proof(errors));
        }
        let remote = &connection.remote_auth;
        let Some(identity) = claim.responder.or_else(|| remote.identity.exact()) else {
            return cx.remove("it says no identity");
        };
        let mixed = request.mixed.take().filter(|_| errors.notify(NotifyType::PPK_IDENTITY).is_some());
        if mixed.is_none() && connection.ppk.as_ref().is_some_and(|ppk| ppk.is_required) {
            return self.give_up(cx, "it does not use the PPK, which is required".to_owned());
        }
        let keys = mixed.as_ref().unwrap_or(&channel.keys);
        let octets = SignedOctets {
            message: &request.first.peer,
            received: self.transcript.received(&request.first.own),
            peer_nonce: &request.first.nonces[0],
            proof_key: &keys.responder_proof,
            identity,
            intermediate: &self.transcript.octets(),
        };
        if let Err(reason) = remote.verify(channel.suite.prf, &claim, &octets, cx.shared.wall()) {
            let found = identity_text(identity);
            return self.give_up(cx, format!("its proof or its identity ({found}) is wrong: {reason}"));
        }
        self.mix(mixed);
        self.responder_proved(cx, request, identity.clone(), payloads);
    }

    /// The responder has proved its identity: the IKE SA is there, and its first child SA is in the response.
    pub(crate) fn responder_proved(
        &mut self,
        cx: &mut Context<'_>,
        request: AuthRequest,
        identity: Identification,
        payloads: &[Payload],
    ) {
        let Some(connection) = self.connection.and_then(|number| cx.connections.get(number)) else { return };
        if cx.shared.blocked.has(connection, Some(&identity)) {
            return self.give_up(cx, format!("{} is blocked", identity_text(&identity)));
        }
        self.peer_identity = Some(identity);
        self.mobike.is_initiator = true;
        self.mobike.agree(connection.mobike, Payloads(payloads));
        self.establish(cx, false);
        self.limit_authentication(cx, payloads);
        let inner = self.take_inner(cx, connection, payloads);
        let Some(OfferedChild { number, spi }) = request.child else { return };
        if let Err(reason) = inner {
            return self.first_child_failed(cx, number, &reason);
        }
        let [initiator, responder] = &request.first.nonces;
        let nonces = Nonces { initiator, responder };
        let offer = Offer { number, own_spi: spi, is_initiator: true, secrets: Secrets::default(), nonces };
        let own = self.child(cx, number).map(|child| proposals(child, Exchange::Auth)).unwrap_or_default();
        match self.accept_child(cx, &own, &offer, payloads) {
            Ok(child) => self.install_child(cx, child, true),
            Err(reason) => self.first_child_failed(cx, number, &reason),
        }
    }

    /// The responder has not proved its identity. It has an IKE SA, which is deleted (RFC 7296 section 2.21.2).
    pub(super) fn give_up(&mut self, cx: &mut Context<'_>, reason: String) {
        cx.effects.push(Effect::Down(Ending { kind: EndKind::DeadPeer, reason }));
        self.begin_delete(cx);
    }

    /// The peer refuses the child SA of `IKE_AUTH`. The IKE SA stays if this end asks for further child SAs.
    fn first_child_failed(&mut self, cx: &mut Context<'_>, number: usize, reason: &str) {
        self.log(cx, Severity::Error, &format!("there is no child SA: {reason}"));
        let connection = self.connection.and_then(|number| cx.connections.get(number));
        connection.into_iter().for_each(|connection| cx.shared.failed(connection, reason));
        let retry = self.retry_at(cx);
        let state = self.connection.and_then(|number| cx.peers.get_mut(&number));
        let now = cx.shared.now;
        let has_others = state.is_some_and(|state| {
            state.refused(number, retry);
            state.due_child(now).is_some()
        });
        if !has_others {
            self.close(cx, EndKind::DeadPeer, "there is no child SA");
        }
    }

    /// The initiator's proof at a responder.
    pub(crate) fn handle_auth_request(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        let phase = std::mem::replace(&mut self.phase, Phase::Connecting);
        let Phase::HalfOpen(half_open) = phase else { return };
        let Some(half_open) = self.run_eap(cx, path, half_open, payloads) else { return };
        let claim = Claim::of(payloads);
        let is_initial_contact = Payloads(payloads).notify(NotifyType::INITIAL_CONTACT).is_some();
        let judged = self.judge_initiator(cx, &half_open, &claim, is_initial_contact);
        let judged = judged.and_then(|judged| {
            Ok((cx.peer_of(judged.number, &judged.identity, path, Payloads(payloads))?, judged))
        });
        let (number, Judged { connection, identity, mixed, .. }) = match judged {
            Ok(judged) => judged,
            Err(reason) => return self.refuse_initiator(cx, path, &claim, &reason),
        };
        let uses_ppk = mixed.is_some();
        self.mix(mixed);
        self.connection = Some(number);
        self.peer_identity = Some(identity);
        let answer = match self.prove_responder(connection, &half_open, &claim) {
            Ok(mut answer) => {
                answer.extend(uses_ppk.then(|| notify(NotifyType::PPK_IDENTITY, Vec::new())));
                answer
            }
            Err(reason) => {
                self.connection = None;
                let reason = format!("this end cannot prove its identity: {reason}");
                return self.refuse_initiator(cx, path, &claim, &reason);
            }
        };
        self.initiator_proved(cx, path, Proved { half_open: &half_open, connection, answer, payloads });
    }

    /// The initiator has proved its identity: answers with this end's proof and with the first child SA.
    pub(crate) fn initiator_proved(&mut self, cx: &mut Context<'_>, path: Path, proved: Proved<'_>) {
        let Proved { half_open, connection, mut answer, payloads } = proved;
        let is_initial_contact = Payloads(payloads).notify(NotifyType::INITIAL_CONTACT).is_some();
        self.mobike.agree(connection.mobike, Payloads(payloads));
        answer.extend(self.mobike.is_supported.then(|| notify(NotifyType::MOBIKE_SUPPORTED, Vec::new())));
        answer.extend(connection.times.reauthentication.map(|time| {
            let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
            notify(NotifyType::AUTH_LIFETIME, seconds.to_be_bytes().to_vec())
        }));
        self.establish(cx, is_initial_contact);
        let inner = self.give_inner(cx, connection, Payloads(payloads));
        if connection.childless != Childless::Never && Payloads(payloads).proposals().is_none() {
            answer.extend(inner.ok().flatten());
            return self.respond(cx, path, ExchangeType::IKE_AUTH, &answer);
        }
        let nonces = Nonces { initiator: &half_open.nonces[0], responder: &half_open.nonces[1] };
        let choice = inner.and_then(|inner| {
            answer.extend(inner);
            self.choose_child(cx, Payloads(payloads), Exchange::Auth, None)
        });
        match choice.and_then(|choice| self.make_child(cx, choice, None, &nonces)) {
            Ok((child, parts)) => {
                answer.extend(parts);
                self.respond(cx, path, ExchangeType::IKE_AUTH, &answer);
                // The peer authenticates anew: until it has the response, it opens packets of its older IKE SA alone.
                let is_anew = !is_initial_contact && self.has_session_of(cx, child.number);
                self.install_child(cx, child, !is_anew);
            }
            // The IKE SA stays, without a child SA (RFC 7296 section 1.2).
            Err(error) => {
                self.log(cx, Severity::Error, &format!("there is no child SA: {}", ChildSa::refusal(&error)));
                answer.push(error);
                self.respond(cx, path, ExchangeType::IKE_AUTH, &answer);
            }
        }
    }

    /// The connection of an initiator that proves its identity.
    ///
    /// # Errors
    /// The reason for the log.
    fn judge_initiator<'c>(
        &self,
        cx: &mut Context<'c>,
        half_open: &HalfOpen,
        claim: &Claim<'_>,
        is_initial_contact: bool,
    ) -> Result<Judged<'c>, String> {
        let channel = self.channel.as_ref().ok_or("there are no keys")?;
        let found = self.find_connection(cx.connections, claim, &half_open.proposal);
        let no_identity = Identification { kind: crate::wire::IdType::NULL, data: Vec::new() };
        let identity = claim.initiator.unwrap_or(&no_identity);
        let octets = SignedOctets {
            message: &half_open.peer_message,
            received: self.transcript.received(&half_open.own_message),
            peer_nonce: &half_open.nonces[1],
            proof_key: &channel.keys.initiator_proof,
            identity,
            intermediate: &self.transcript.octets(),
        };
        let Some((number, connection)) = found else {
            // An unknown identity takes as long as a wrong key.
            claim.is_proven_by_key(channel.suite.prf, &[], &octets);
            return Err(no_connection(claim));
        };
        let prf = channel.suite.prf;
        let mixed = claim.ppk(connection)?.map(|ppk| channel.keys.with_ppk(prf, &ppk.key.0));
        match &mixed {
            Some(mixed) => {
                let octets = SignedOctets { proof_key: &mixed.initiator_proof, ..octets };
                self.verify_initiator(cx, connection, claim, &octets, prf)?;
            }
            None => {
                let second = claim.proof_without_ppk();
                let claim = Claim { proof: second.as_ref().or(claim.proof), ..claim.clone() };
                self.verify_initiator(cx, connection, &claim, &octets, prf)?;
            }
        }
        self.check_transcript(connection)?;
        refuse_second(cx, number, connection, identity, is_initial_contact)?;
        Ok(Judged { number, connection, identity: identity.clone(), mixed })
    }

    /// Judges the proof of an initiator. Wrong pre-shared keys are bounded by the source and by the identity; at an address where the
    /// connection has its peer, by that identity at that address, so that others cannot keep the peer out.
    ///
    /// # Errors
    /// The reason for the log.
    fn verify_initiator(
        &self,
        cx: &mut Context<'_>,
        connection: &Connection,
        claim: &Claim<'_>,
        octets: &SignedOctets<'_>,
        prf: adit_core::Digest,
    ) -> Result<(), String> {
        let is_by_key = matches!(connection.remote_auth.proof, RemoteProof::SharedKey(_));
        let source = self.path.remote().ip();
        let place = if connection.is_at(source) { source.to_string() } else { String::new() };
        let name = format!("{} {place}", identity_text(octets.identity));
        let guesser = Guesser { name: &name, source };
        if is_by_key && !cx.shared.guesses.permits(cx.shared.now, guesser) {
            // It takes as long as a wrong key.
            claim.is_proven_by_key(prf, &[], octets);
            return Err(
                "too many wrong keys of this identity or from this address: wait for a minute".to_owned()
            );
        }
        let wall = cx.shared.wall();
        let verdict = connection.remote_auth.verify(prf, claim, octets, wall);
        if is_by_key && verdict.is_err() {
            cx.shared.count_guess(guesser);
        }
        verdict
    }

    pub(crate) fn refuse_initiator(
        &mut self,
        cx: &mut Context<'_>,
        path: Path,
        claim: &Claim<'_>,
        reason: &str,
    ) {
        let claimed = claim.initiator.map_or_else(|| "no identity".to_owned(), identity_text);
        self.log(cx, Severity::Warning, &format!("{claimed} did not prove its identity: {reason}"));
        self.phase = Phase::Failed;
        let failed = notify(NotifyType::AUTHENTICATION_FAILED, Vec::new());
        self.respond(cx, path, ExchangeType::IKE_AUTH, &[failed]);
    }

    /// The responder's identity, certificates and proof.
    pub(crate) fn prove_responder(
        &self,
        connection: &Connection,
        half_open: &HalfOpen,
        claim: &Claim<'_>,
    ) -> Result<Vec<Payload>, String> {
        let channel = self.channel.as_ref().ok_or("there are no keys")?;
        let local = &connection.local_auth;
        let octets = SignedOctets {
            message: &half_open.own_message,
            received: self.transcript.received(&half_open.peer_message),
            peer_nonce: &half_open.nonces[0],
            proof_key: &channel.keys.responder_proof,
            identity: &local.identity,
            intermediate: &self.transcript.octets(),
        };
        let announced = claim.announced.map(AnnouncedMethods::decode).unwrap_or_default();
        let support = PeerSupport { asks: claim.asks, announced, ..self.peer_support.clone() };
        let proven = local.proof.prove(channel.suite.prf, &octets, &support)?;
        let mut payloads = vec![Payload::IdResponder(local.identity.clone())];
        payloads.extend(proven.certificates);
        let proof = proven.proof.ok_or("by EAP an initiator alone proves its identity")?;
        payloads.push(Payload::Authentication(proof));
        Ok(payloads)
    }

    /// The connection for both identities. It must allow the chosen proposal, which was chosen before the identities were known. Of
    /// several connections, one that names the identity comes first, then one with the method of the proof, then one with the
    /// address of the peer.
    pub(crate) fn find_connection<'c>(
        &self,
        connections: &'c Connections,
        claim: &Claim<'_>,
        proposal: &Proposal,
    ) -> Option<(usize, &'c Connection)> {
        let identity = claim.initiator?;
        let address = self.path.remote().ip();
        let method = claim.proof.map(|proof| proof.method);
        let rank = |connection: &Connection| {
            let names = connection.remote_auth.identity.precision();
            let has_method = match connection.remote_auth.proof {
                RemoteProof::SharedKey(_) => method == Some(AuthMethod::SHARED_KEY),
                RemoteProof::Certificate(_) => method.is_some_and(|method| method != AuthMethod::SHARED_KEY),
                RemoteProof::Eap(_) => {
                    method.is_none() && (claim.takes_eap_only || !connection.is_eap_only())
                }
            };
            (names, has_method, connection.is_at(address))
        };
        let allows = |connection: &Connection| {
            connection.remote_auth.identity.accepts(identity)
                && claim.responder.is_none_or(|identity| connection.local_auth.is(identity))
                && (connection.is_at(address) || connection.may_come_from(address))
                && choose(&connection.ike, std::slice::from_ref(proposal), Preference::Own).is_some()
        };
        let mut best: Option<(usize, &Connection)> = None;
        for (number, connection) in connections.named(identity).filter(|(_, connection)| allows(connection)) {
            if best.is_none_or(|(_, before)| rank(before) < rank(connection)) {
                best = Some((number, connection));
            }
        }
        best
    }
}

/// The reason why no connection fits an initiator, with the identities that it says, as a file writes them.
fn no_connection(claim: &Claim<'_>) -> String {
    let written = |end, identity| format!("`{end} {{ id = {} }}`", name_in_file(identity));
    let ends = claim.responder.map(|own| written("local", own)).into_iter();
    let ends = ends.chain(claim.initiator.map(|peer| written("remote", peer))).collect::<Vec<_>>();
    let text = "there is no connection with these identities and this IKE proposal";
    if ends.is_empty() {
        text.to_owned()
    } else {
        format!("{text}: it needs one with {}", ends.join(" and "))
    }
}

/// The reason why a response without proof is of no use.
pub(crate) fn no_proof(payloads: Payloads<'_>) -> String {
    let error = payloads.error().map_or_else(|| "no proof".to_owned(), |error| error.kind.to_string());
    format!("it answers the authentication with {error}")
}

/// Refuses a peer that is blocked, and one whose connection has an IKE SA with another identity, or with [`Unique::Keep`] any.
///
/// # Errors
/// The reason for the log.
pub(crate) fn refuse_second(
    cx: &Context<'_>,
    number: usize,
    connection: &Connection,
    identity: &Identification,
    is_initial_contact: bool,
) -> Result<(), String> {
    if cx.shared.blocked.has(connection, Some(identity)) {
        return Err("the peer is blocked".to_owned());
    }
    let current = cx.peers.get(&number).and_then(|state| state.current_identity.as_ref());
    let is_taken = current.is_some_and(|current| {
        connection.unique == Unique::Keep && !is_initial_contact || current != identity
    });
    if is_taken {
        return Err(format!("the connection {} has an IKE SA with a peer", connection.name));
    }
    Ok(())
}

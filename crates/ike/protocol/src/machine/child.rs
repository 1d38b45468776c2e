//! Child SAs: their proposals and selectors, and their sessions in the data plane.

use adit_core::{
    Cipher, Install, Instant, OnFirstOpened, Path, PeerConfig, PeerId, PeerInfo, PeerOrder, SessionId,
};

use super::context::{Context, Payloads, PeerState, notify};
use super::narrow::{is_within, narrow, routes, session_selectors};
use super::params::{Codec, Connection, PeerDetail};
use super::sa::{IkeSa, Phase, REPLACED_FOR};
use super::shared::DataEvent;
use crate::crypto::{ChildKeys, Nonces, Secret};
use crate::suite::{Algorithms, ChildSuite, Chosen, accept};
use crate::wire::{KeyExchange, NotifyType, Payload, TrafficSelector};

/// The phase of a child SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildPhase {
    /// The child SA is in use, or is going to be.
    Active,
    /// Another child SA takes its place, and the peer deletes it.
    Replaced,
    /// This end deletes it.
    Deleting,
}

/// A child SA.
pub(crate) struct Child {
    /// The SPI of received packets.
    pub(crate) own_spi: u32,
    /// The SPI of sent packets.
    pub(crate) peer_spi: u32,
    pub(crate) phase: ChildPhase,
    /// Whether this end seals with it, or waits until the peer does (RFC 7296 section 2.8).
    pub(crate) is_sealing: bool,
    pub(crate) rekey_at: Option<Instant>,
    /// The time when this end deletes it if the peer has not.
    pub(crate) ends_at: Option<Instant>,
    cipher: Cipher,
    codec: Option<Codec>,
    remote: Vec<TrafficSelector>,
}

impl Child {
    /// The time when it is to be rekeyed. `None` while this end does not seal with it: the peer may not know it yet.
    pub(crate) fn rekey_at(&self) -> Option<Instant> {
        self.rekey_at.filter(|_| self.phase == ChildPhase::Active && self.is_sealing)
    }

    pub(crate) fn is_rekey_due(&self, now: Instant) -> bool {
        self.rekey_at().is_some_and(|at| at <= now)
    }

    /// The peer's rekey takes its place; the peer deletes it.
    pub(crate) fn replace(&mut self, now: Instant) {
        self.phase = ChildPhase::Replaced;
        self.ends_at = Some(now + REPLACED_FOR);
    }

    /// The name of the error in a refusal, for the log.
    pub(crate) fn refusal(error: &Payload) -> String {
        match error {
            Payload::Notify(notify) => notify.kind.to_string(),
            _ => "an error".to_owned(),
        }
    }
}

/// This end's SPI and role, and the secrets that the keys of a child SA are derived from.
pub(crate) struct Offer<'a> {
    pub(crate) own_spi: u32,
    pub(crate) is_initiator: bool,
    pub(crate) secret: Secret,
    pub(crate) nonces: Nonces<'a>,
}

/// The parameters of a child SA that both ends agreed on.
struct Agreed {
    suite: ChildSuite,
    peer_spi: u32,
    local: Vec<TrafficSelector>,
    remote: Vec<TrafficSelector>,
}

/// The SPI of a child SA.
pub(crate) fn child_spi(bytes: &[u8]) -> Option<u32> {
    let spi: [u8; 4] = bytes.try_into().ok()?;
    Some(u32::from_be_bytes(spi)).filter(|spi| *spi != 0)
}

/// The answer to the peer's key exchange, and the shared secret. `None`: there is no key exchange.
pub(crate) type Exchanged = Option<(KeyExchange, Secret)>;

impl IkeSa {
    /// Checks the answer to an offer of a child SA.
    pub(crate) fn accept_child(
        &self,
        cx: &mut Context<'_>,
        own: &[Algorithms],
        offer: &Offer<'_>,
        payloads: &[Payload],
    ) -> Result<Child, String> {
        let connection =
            self.connection.and_then(|index| cx.connections.get(index)).ok_or("no connection")?;
        let payloads = Payloads(payloads);
        let (Some(answer), Some([initiator, responder])) = (payloads.proposals(), payloads.selectors())
        else {
            let error = payloads.error().map(|error| format!("the peer answers {}", error.kind));
            return Err(error.unwrap_or_else(|| "the answer has no SA or no selectors".to_owned()));
        };
        let chosen = accept(own, answer).map_err(|error| error.to_string())?;
        let suite = chosen.child_suite().ok_or("the answer lacks an algorithm")?;
        let peer_spi = child_spi(&chosen.spi).ok_or("the answer has no SPI of four bytes")?;
        if !is_within(initiator, &connection.local) || !is_within(responder, &connection.remote_traffic) {
            return Err("the answer has selectors beyond those that were offered".to_owned());
        }
        let agreed = Agreed { suite, peer_spi, local: initiator.to_vec(), remote: responder.to_vec() };
        self.derive_child(cx, agreed, offer).ok_or_else(|| "there are no keys".to_owned())
    }

    /// Answers an offer of a child SA: the child SA, and the payloads of the answer. The mode is tunnel, whatever the offer
    /// asks for (RFC 7296 section 1.3.1).
    ///
    /// # Errors
    /// The error that refuses the offer.
    pub(crate) fn make_child(
        &self,
        cx: &mut Context<'_>,
        chosen: Option<Chosen>,
        payloads: &[Payload],
        exchanged: Exchanged,
        nonces: &Nonces<'_>,
    ) -> Result<(Child, Vec<Payload>), Payload> {
        let refuse = |kind| notify(kind, Vec::new());
        let connection = self.connection.and_then(|index| cx.connections.get(index));
        let connection = connection.ok_or_else(|| refuse(NotifyType::NO_PROPOSAL_CHOSEN))?;
        let chosen = chosen.ok_or_else(|| refuse(NotifyType::NO_PROPOSAL_CHOSEN))?;
        let suite = chosen.child_suite().ok_or_else(|| refuse(NotifyType::NO_PROPOSAL_CHOSEN))?;
        let peer_spi = child_spi(&chosen.spi).ok_or_else(|| refuse(NotifyType::INVALID_SYNTAX))?;
        let [initiator, responder] =
            Payloads(payloads).selectors().ok_or_else(|| refuse(NotifyType::INVALID_SYNTAX))?;
        let remote = narrow(&connection.remote_traffic, initiator);
        let local = narrow(&connection.local, responder);
        if local.is_empty() || remote.is_empty() {
            return Err(refuse(NotifyType::TS_UNACCEPTABLE));
        }
        let (exchange, secret) =
            exchanged.map_or((None, Secret::default()), |(ke, secret)| (Some(ke), secret));
        let own_spi = cx.shared.child_spi();
        let offer = Offer { own_spi, is_initiator: false, secret, nonces: *nonces };
        let mut parts = vec![Payload::SecurityAssociation(vec![chosen.to_wire(&own_spi.to_be_bytes())])];
        parts.extend(exchange.map(Payload::KeyExchange));
        parts.push(Payload::SelectorsInitiator(remote.clone()));
        parts.push(Payload::SelectorsResponder(local.clone()));
        let agreed = Agreed { suite, peer_spi, local, remote };
        let child =
            self.derive_child(cx, agreed, &offer).ok_or_else(|| refuse(NotifyType::NO_PROPOSAL_CHOSEN))?;
        Ok((child, parts))
    }

    fn derive_child(&self, cx: &mut Context<'_>, agreed: Agreed, offer: &Offer<'_>) -> Option<Child> {
        let connection = cx.connections.get(self.connection?)?;
        let channel = self.channel.as_ref()?;
        let Agreed { suite, peer_spi, local, remote } = agreed;
        let derivation = &channel.keys.derivation;
        let keys = ChildKeys::derive(&suite, channel.suite.prf, derivation, &offer.secret, &offer.nonces);
        let (seal, open) = if offer.is_initiator {
            (keys.initiator, keys.responder)
        } else {
            (keys.responder, keys.initiator)
        };
        let codec = Codec {
            outbound_spi: peer_spi,
            cipher: suite.cipher,
            integrity: suite.integrity,
            has_extended_sequence_numbers: suite.has_extended_sequence_numbers,
            seal,
            open,
            selectors: session_selectors(&local, &remote),
            is_encapsulated: self.is_encapsulated,
        };
        let after = cx.shared.jittered(connection.times.child_rekey);
        Some(Child {
            own_spi: offer.own_spi,
            peer_spi,
            phase: ChildPhase::Active,
            is_sealing: false,
            rekey_at: Some(cx.now() + after),
            ends_at: None,
            cipher: suite.cipher,
            codec: Some(codec),
            remote,
        })
    }

    /// The peer in the data plane. Its connection is known.
    pub(crate) fn peer(&self) -> Option<PeerId> {
        self.connection.map(|index| PeerId(index as u32))
    }

    /// Gives a child SA to the data plane.
    pub(crate) fn install_child(&mut self, cx: &mut Context<'_>, mut child: Child, is_sealing: bool) {
        let (Some(peer), Some(codec)) = (self.peer(), child.codec.take()) else { return };
        let Some(state) = self.connection.and_then(|index| cx.peers.get_mut(index)) else { return };
        state.cipher = Some(child.cipher);
        state.last_handshake = cx.shared.now;
        if !state.is_up || self.children.is_empty() {
            cx.shared.order(DataEvent::Peer(PeerOrder::Add(PeerConfig {
                peer,
                path: Some(self.path),
                routes: routes(&child.remote),
                selectors: Default::default(),
                max_mss: None,
                roams: self.nat.is_remote && !self.nat.is_local,
                staging: false,
                device: Default::default(),
                by_path: false,
            })));
        }
        let (spi, session) = (child.own_spi, SessionId(u64::from(child.own_spi)));
        // This end seals with the child SA once the peer has sealed with it (RFC 7296 section 2.8).
        let on_first_opened = if is_sealing { OnFirstOpened::Nothing } else { OnFirstOpened::Activate };
        cx.shared.order(DataEvent::Install(Box::new(Install {
            on_first_opened,
            ..Install::new(peer, session, codec)
        })));
        self.children.insert(spi, child);
        if is_sealing {
            self.activate_child(cx, spi);
        }
    }

    /// Makes the data plane seal packets with that child SA from now on.
    pub(crate) fn activate_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        let Some(peer) = self.peer().filter(|_| self.children.contains_key(&spi)) else { return };
        self.children.values_mut().for_each(|child| child.is_sealing = child.own_spi == spi);
        cx.shared.order(DataEvent::Activate { peer, session: SessionId(u64::from(spi)) });
    }

    /// Activates a child SA that this end does not seal with yet, if this end seals with no other child SA.
    fn activate_waiting(&mut self, cx: &mut Context<'_>) {
        let sealing = |child: &Child| child.phase != ChildPhase::Deleting && child.is_sealing;
        if self.children.values().any(sealing) {
            return;
        }
        let waiting = |child: &&Child| child.phase == ChildPhase::Active && !child.is_sealing;
        if let Some(spi) = self.children.values().find(waiting).map(|child| child.own_spi) {
            self.activate_child(cx, spi);
        }
    }

    /// Activates the child SA in use once more, after another session of the peer was activated.
    pub(crate) fn activate_again(&mut self, cx: &mut Context<'_>) {
        let sealing = |child: &&Child| child.phase == ChildPhase::Active && child.is_sealing;
        if let Some(spi) = self.children.values().rfind(sealing).map(|child| child.own_spi) {
            self.activate_child(cx, spi);
        }
    }

    /// The peer has sealed a packet with a child SA, so that it has the keys (RFC 7296 section 2.8), and the data plane seals with
    /// that child SA from then on. If that child SA is replaced or deleted, the child SA in use is activated again.
    pub(crate) fn opened_first(&mut self, cx: &mut Context<'_>, spi: u32) {
        match self.children.get(&spi) {
            Some(child) if child.phase == ChildPhase::Active => self.activate_child(cx, spi),
            _ => self.activate_again(cx),
        }
    }

    /// Rekeys a child SA as soon as no other request is pending.
    pub(crate) fn rekey_child_now(&mut self, cx: &mut Context<'_>, spi: u32) {
        if let Some(child) = self.children.get_mut(&spi) {
            child.rekey_at = Some(cx.shared.now);
        }
        self.next_task(cx);
    }

    /// Rekeys all child SAs.
    pub(crate) fn rekey_children(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        self.children.values_mut().for_each(|child| child.rekey_at = Some(now));
        self.next_task(cx);
    }

    /// Removes a child SA from the data plane, after another child SA is activated, if there is one.
    pub(crate) fn remove_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        if let Some(child) = self.children.get_mut(&spi) {
            child.phase = ChildPhase::Deleting;
        }
        self.activate_waiting(cx);
        self.retire(cx, spi);
    }

    fn retire(&mut self, cx: &mut Context<'_>, spi: u32) {
        if let (Some(_), Some(peer)) = (self.children.remove(&spi), self.peer()) {
            cx.shared.order(DataEvent::Retire { peer, session: SessionId(u64::from(spi)) });
        }
    }

    pub(crate) fn remove_children(&mut self, cx: &mut Context<'_>) {
        let all: Vec<u32> = self.children.keys().copied().collect();
        all.into_iter().for_each(|spi| self.retire(cx, spi));
    }

    /// This end deletes a child SA with the next request.
    pub(crate) fn delete_child(&mut self, spi: u32) {
        let Some(child) = self.children.get_mut(&spi) else { return };
        child.phase = ChildPhase::Deleting;
        child.ends_at = None;
        self.to_delete.push_back(spi);
    }

    /// Deletes a child SA that the peer replaced and has not deleted.
    pub(crate) fn delete_late_child(&mut self, cx: &mut Context<'_>, spi: u32) {
        self.delete_child(spi);
        self.activate_waiting(cx);
    }

    /// The peer is reached by another path from now on.
    pub(crate) fn move_to(&mut self, cx: &mut Context<'_>, path: Path) {
        self.path = path;
        if let Some(peer) = self.peer().filter(|_| matches!(self.phase, Phase::Established)) {
            cx.shared.order(DataEvent::Peer(PeerOrder::Move { peer, path }));
        }
    }

    /// An authentic packet came by another path. Only a peer behind a NAT, to an end that is behind none, is followed to that path.
    pub(crate) fn moved(&mut self, cx: &mut Context<'_>, path: Path) {
        let may_follow = self.nat.is_remote && !self.nat.is_local;
        let path = if may_follow { path } else { self.path };
        self.move_to(cx, path);
    }

    /// The peer's entry in a status. `None`: the peer is not known yet, or there is no child SA.
    pub(crate) fn info(
        &self,
        connections: &[Connection],
        peers: &[PeerState],
    ) -> Option<PeerInfo<PeerDetail>> {
        let index = self.connection?;
        let (connection, state) = (connections.get(index)?, peers.get(index)?);
        let child = self.children.values().next_back()?;
        let routes = routes(&child.remote);
        let hosts = routes.iter().filter(|route| route.prefix_len() == route.max_prefix_len());
        Some(PeerInfo {
            name: connection.name.clone(),
            path: self.path,
            addresses: hosts.map(|route| route.addr()).collect(),
            cipher: state.cipher?,
            rekeys: state.rekeys,
            last_handshake: state.last_handshake,
            since: state.since,
            heard: self.heard,
            routes: routes
                .iter()
                .filter(|route| route.prefix_len() < route.max_prefix_len())
                .copied()
                .collect(),
            detail: PeerDetail {
                is_initiator: self.is_initiator,
                own_spi: self.own_spi,
                peer_spi: self.peer_spi,
            },
        })
    }
}

//! Deletions and signs of life (`INFORMATIONAL`, RFC 7296 sections 1.4 and 2.4).

use adit_core::{Path, PeerId};

use super::child::child_spi;
use super::child_sa::ChildPhase;
use super::context::{Context, Effect};
use super::peer::EndKind;
use super::requests::Purpose;
use super::sa::{IkeSa, Phase, Request};
use crate::wire::{Delete, ExchangeType, Payload, ProtocolId};

/// Most SPIs that a request for a child SA keeps of child SAs that are not there and which the peer has deleted.
const MOST_DELETED: usize = 16;

impl IkeSa {
    /// Asks the peer to delete a child SA; `None`: this IKE SA.
    pub(crate) fn request_delete(&mut self, cx: &mut Context<'_>, child: Option<u32>) {
        let (delete, request) = match child {
            Some(spi) => {
                let spis = vec![spi.to_be_bytes().to_vec()];
                (Delete { protocol: ProtocolId::ESP, spis }, Request::DeleteChild(spi))
            }
            None => (Delete { protocol: ProtocolId::IKE, spis: Vec::new() }, Request::DeleteIke),
        };
        self.request(cx, ExchangeType::INFORMATIONAL, &[Payload::Delete(delete)], request);
    }

    pub(crate) fn handle_informational(&mut self, cx: &mut Context<'_>, path: Path, payloads: &[Payload]) {
        let deletes = payloads.iter().filter_map(|payload| match payload {
            Payload::Delete(delete) => Some(delete),
            _ => None,
        });
        let mut deleted = Vec::new();
        let mut is_deleted = false;
        let before = self.children.len();
        for delete in deletes {
            match delete.protocol {
                ProtocolId::IKE => is_deleted = true,
                ProtocolId::ESP => {
                    let spis = delete.spis.iter().filter_map(|spi| child_spi(spi));
                    deleted.extend(spis.filter_map(|spi| self.deleted_by_peer(cx, spi)));
                }
                _ => {}
            }
        }
        if is_deleted {
            self.respond(cx, path, ExchangeType::INFORMATIONAL, &[]);
            return self.ended_by_peer(cx);
        }
        self.limit_authentication(cx, payloads);
        let spis: Vec<Vec<u8>> = deleted.iter().map(|spi: &u32| spi.to_be_bytes().to_vec()).collect();
        let mut answer = self.answer_address_update(cx, path, payloads).unwrap_or_else(|error| vec![error]);
        answer.extend(
            (!spis.is_empty()).then_some(Payload::Delete(Delete { protocol: ProtocolId::ESP, spis })),
        );
        self.respond(cx, path, ExchangeType::INFORMATIONAL, &answer);
        let is_rekeying =
            matches!(self.pending.as_ref().map(|pending| &pending.request), Some(Request::Child(_)));
        if self.children.len() < before {
            self.lose_children(cx, EndKind::ByPeer);
            if !is_rekeying {
                self.close_without_child(cx);
            }
        }
    }

    /// Takes the actions of children that have no child SA any more.
    pub(crate) fn lose_children(&mut self, cx: &mut Context<'_>, kind: EndKind) {
        let again = cx.now();
        let Some(number) = self.connection else { return };
        let (Some(connection), Some(state)) = (cx.connections.get(number), cx.peers.get_mut(&number)) else {
            return;
        };
        let peer = PeerId(number as u32);
        let is_left = |number: &usize| state.installed.values().any(|installed| installed.number == *number);
        let lost: Vec<usize> = state.up.iter().copied().filter(|number| !is_left(number)).collect();
        for number in lost {
            state.up.remove(&number);
            if let Some(child) = connection.children.get(number) {
                cx.shared.tell_down(peer, child);
                state.lost(number, child, kind, again);
            }
        }
        self.order_entry(cx);
    }

    /// Ends an IKE SA that has no child SA any more, and is to get none.
    pub(crate) fn close_without_child(&mut self, cx: &mut Context<'_>) {
        let has_child = self.children.values().any(|child| child.phase == ChildPhase::Active);
        let state = self.connection.and_then(|number| cx.peers.get(&number));
        let gets_child = state.is_some_and(|state| !state.wanted.is_empty());
        if !has_child && !gets_child && matches!(self.phase, Phase::Established) {
            self.close(cx, EndKind::ByPeer, "there is no child SA any more");
        }
    }

    /// The peer deleted the child SA with this SPI of its own. Gives the SPI of this end for the answer, which is left out if both
    /// delete it at once (RFC 7296 section 1.4.1).
    fn deleted_by_peer(&mut self, cx: &mut Context<'_>, peer_spi: u32) -> Option<u32> {
        let Some(child) = self.children.values().find(|child| child.peer_spi == peer_spi) else {
            self.note_deleted(peer_spi);
            return None;
        };
        let (own_spi, phase) = (child.own_spi, child.phase);
        let requested = self.pending.as_ref().map(|pending| &pending.request);
        let is_crossing = matches!(requested, Some(Request::DeleteChild(spi)) if *spi == own_spi);
        self.remove_child(cx, own_spi);
        (!is_crossing || phase != ChildPhase::Deleting).then_some(own_spi)
    }

    /// The peer deleted a child SA that this end does not have. It may be the one that this end has asked for.
    fn note_deleted(&mut self, peer_spi: u32) {
        let request = match self.pending.as_mut().map(|pending| &mut pending.request) {
            Some(Request::Child(request)) => request,
            Some(Request::FollowUp(request)) => match &mut request.purpose {
                Purpose::Child(request) => request,
                Purpose::Ike(_) => return,
            },
            _ => return,
        };
        if request.deleted.len() < MOST_DELETED {
            request.deleted.push(peer_spi);
        }
    }

    fn ended_by_peer(&mut self, cx: &mut Context<'_>) {
        if let Some(successor) = self.peers_rekey() {
            cx.effects.push(Effect::MoveChildren(successor));
        }
        cx.remove_as(EndKind::ByPeer, "the peer deleted the IKE SA");
    }
}

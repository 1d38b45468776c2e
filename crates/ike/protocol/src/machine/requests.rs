//! The requests of an IKE SA that wait for their responses, each with the values that the response needs.

use std::collections::VecDeque;

use adit_core::Instant;

use super::child_sa::Agreed;
use super::eap_runs::{Initiating, Responding};
use super::params::Child;
use super::transcript::FirstMessages;
use crate::crypto::{IkeKeys, KeyShare, Secrets};
use crate::suite::{Algorithms, Chosen, Group};
use crate::wire::{NotifyType, Payload, Proposal, Spi};

/// An initiator's first request, which waits for its response.
pub(crate) struct InitRequest {
    pub(crate) nonce: Vec<u8>,
    pub(crate) share: KeyShare,
    pub(crate) cookie: Option<Vec<u8>>,
    /// The request as it was sent last.
    pub(crate) message: Vec<u8>,
    pub(crate) restarts: u8,
    /// Whether the request says that this end proves both first messages.
    pub(crate) offers_full_transcript: bool,
    /// The last error that came. It is not authentic, so that it does not end the request (RFC 7296 section 2.21.1).
    pub(crate) refusal: Option<NotifyType>,
}

impl InitRequest {
    /// The reason why there is no IKE SA.
    pub(crate) fn no_answer(&self) -> String {
        match self.refusal {
            Some(kind) => format!("it answers {kind}"),
            None => "it does not answer".to_owned(),
        }
    }
}

/// An initiator's proof, which waits for the responder's.
pub(crate) struct AuthRequest {
    pub(crate) first: FirstMessages,
    pub(crate) child: Option<OfferedChild>,
    /// The keys with the PPK that this end has.
    pub(crate) mixed: Option<IkeKeys>,
    /// The run of EAP, if this end proves its identity so.
    pub(crate) eap: Option<Box<Initiating>>,
}

/// The child SA that `IKE_AUTH` offers.
#[derive(Clone, Copy)]
pub(crate) struct OfferedChild {
    pub(crate) number: usize,
    pub(crate) spi: u32,
}

/// The values that a responder keeps until the initiator proves its identity.
pub(crate) struct HalfOpen {
    /// The proposal that was chosen.
    pub(crate) proposal: Proposal,
    pub(crate) peer_message: Vec<u8>,
    pub(crate) own_message: Vec<u8>,
    pub(crate) nonces: [Vec<u8>; 2],
    /// Whether the answer to the last additional key exchange announces the methods of authentication (RFC 9593).
    pub(crate) announces_later: bool,
    /// The run of EAP, once it has begun.
    pub(crate) eap: Option<Box<Responding>>,
}

/// The child SA that this end asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The number of its child.
    pub(crate) number: usize,
    /// This end's SPI of the child SA that it replaces. `None`: it is a further one.
    pub(crate) old: Option<u32>,
    /// The group that the peer demanded in place of the first one.
    pub(crate) group: Option<Group>,
    /// The form of its proposals.
    pub(crate) form: Form,
    /// Whether the peer has refused the other form.
    pub(crate) is_second: bool,
}

/// The form of the proposals for a child SA. Some peers take rekeys without a key exchange alone, and others with one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As configured.
    Configured,
    /// Without key exchanges.
    WithoutExchange,
}

impl Wanted {
    /// A child SA of that child, in place of `old` if there is one, by the proposals that are configured.
    pub(crate) const fn new(number: usize, old: Option<u32>) -> Self {
        Wanted { number, old, group: None, form: Form::Configured, is_second: false }
    }

    /// The proposals of the request.
    pub(crate) fn proposals(self, child: &Child) -> Vec<Algorithms> {
        match self.form {
            Form::Configured => child.esp.clone(),
            Form::WithoutExchange => child.esp.iter().map(Algorithms::without_key_exchange).collect(),
        }
    }

    /// The request with the other form of proposals. `None`: that was tried, or there is no other form.
    pub(crate) fn other_form(self, child: &Child) -> Option<Self> {
        let has_other = !self.is_second && child.esp.iter().any(|esp| esp.groups().next().is_some());
        let form = match self.form {
            Form::Configured => Form::WithoutExchange,
            Form::WithoutExchange => Form::Configured,
        };
        has_other.then_some(Wanted { form, is_second: true, group: None, ..self })
    }
}

/// A request for a child SA that waits for its response.
pub(crate) struct ChildRequest {
    pub(crate) wanted: Wanted,
    pub(crate) own_spi: u32,
    pub(crate) nonce: Vec<u8>,
    pub(crate) share: Option<KeyShare>,
    /// Whether the peer may not have had the child SA that this one replaces when this request was sent first.
    pub(crate) is_old_unknown: bool,
    /// The peer's request for the same, which was answered meanwhile: a rekey of the same child SA, or a further child SA of the same
    /// child.
    pub(crate) peers: Option<PeersChild>,
    /// The SPIs of child SAs that the peer has deleted meanwhile, and which this end does not have: one may be that of the response,
    /// which comes late.
    pub(crate) deleted: Vec<u32>,
}

/// A child SA that the peer asked for.
pub(crate) struct PeersChild {
    /// The SPI of the child SA that it made, as this end chose it.
    pub(crate) spi: u32,
    pub(crate) lowest: Vec<u8>,
}

/// A rekey of an IKE SA that waits for its response.
pub(crate) struct IkeRekeyRequest {
    pub(crate) own_spi: Spi,
    pub(crate) nonce: Vec<u8>,
    pub(crate) share: KeyShare,
    /// The peer's rekey of this IKE SA, which this end answered while its own request was pending.
    pub(crate) peers: Option<PeersIkeRekey>,
    pub(crate) is_second: bool,
}

/// A rekey that the peer initiated.
pub(crate) struct PeersIkeRekey {
    /// This end's SPI of the IKE SA that the rekey made.
    pub(crate) spi: Spi,
    pub(crate) lowest: Vec<u8>,
}

/// The SA that additional key exchanges are for, at their initiator.
pub(crate) enum Purpose {
    Child(Box<ChildRequest>),
    Ike(Box<IkeRekeyRequest>),
}

/// An additional key exchange after `CREATE_CHILD_SA` that waits for its response.
pub(crate) struct FollowUpRequest {
    pub(crate) purpose: Purpose,
    /// The response of `CREATE_CHILD_SA`.
    pub(crate) response: Vec<Payload>,
    pub(crate) secrets: Secrets,
    pub(crate) share: KeyShare,
    /// The methods of the exchanges after this one.
    pub(crate) left: VecDeque<Group>,
}

/// The SA that additional key exchanges are for, at their responder.
pub(crate) enum Answered {
    Child {
        number: usize,
        own_spi: u32,
        /// This end's SPI of the child SA that is rekeyed.
        old: Option<u32>,
        agreed: Agreed,
    },
    Ike {
        chosen: Chosen,
        own_spi: Spi,
    },
}

/// The values that a responder keeps until the next additional key exchange comes.
pub(crate) struct FollowUpAnswer {
    /// The link that the next exchange must have.
    pub(crate) link: Vec<u8>,
    pub(crate) secrets: Secrets,
    /// The methods of the exchanges that are to come.
    pub(crate) left: VecDeque<Group>,
    /// The initiator's and the responder's.
    pub(crate) nonces: [Vec<u8>; 2],
    pub(crate) answered: Answered,
    /// The time when it is forgotten.
    pub(crate) ends_at: Instant,
}

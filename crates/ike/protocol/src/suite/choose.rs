//! The choice of a proposal (RFC 7296 section 3.3).

use std::collections::BTreeSet;

use thiserror::Error;

use super::{ADDITIONAL, Algorithm, Algorithms, ChildSuite, IkeSuite, NONE, to_wire};
use crate::wire::{self, ProtocolId, TransformType};

/// The end whose order of preference decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The end that chooses.
    Own,
    /// The end that proposes.
    Peer,
}

/// A proposal with one algorithm of each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The number of the proposal that it was chosen from.
    pub number: u8,
    /// The SPI of the end that sent it.
    pub spi: Vec<u8>,
    protocol: ProtocolId,
    all: Vec<Algorithm>,
}

impl Chosen {
    /// The choice as it is sent, with the SPI of the end that chose.
    pub fn to_wire(&self, spi: &[u8]) -> wire::Proposal {
        to_wire(self.number, self.protocol, spi, &self.all)
    }

    /// The algorithms of an IKE SA. `None`: it is no complete choice for one.
    pub fn ike_suite(&self) -> Option<IkeSuite> {
        (self.protocol == ProtocolId::IKE).then(|| IkeSuite::of(&self.all)).flatten()
    }

    /// The algorithms of a child SA. `None`: it is no complete choice for one.
    pub fn child_suite(&self) -> Option<ChildSuite> {
        (self.protocol == ProtocolId::ESP).then(|| ChildSuite::of(&self.all)).flatten()
    }
}

/// Chooses one of the offered proposals that one of the own proposals allows. `None`: there is none.
///
/// A proposal for a child SA that has no key exchange matches own proposals with one, as many peers offer none at a rekey. An
/// answer without the key exchange that was offered is refused by [`accept`].
pub fn choose(own: &[Algorithms], offered: &[wire::Proposal], preference: Preference) -> Option<Chosen> {
    let pairs: Vec<(&Algorithms, &wire::Proposal)> = match preference {
        Preference::Own => own.iter().flat_map(|own| offered.iter().map(move |offer| (own, offer))).collect(),
        Preference::Peer => {
            offered.iter().flat_map(|offer| own.iter().map(move |own| (own, offer))).collect()
        }
    };
    pairs.into_iter().find_map(|(own, offer)| {
        let all = match_proposal(own, offer, preference)?;
        let protocol = offer.protocol;
        Some(Chosen { number: offer.number, spi: offer.spi.clone(), protocol, all })
    })
}

/// The reason why the answer to proposals is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadAnswer {
    /// There is not exactly one proposal.
    #[error("the answer has {0} proposals, allowed is 1")]
    Count(usize),
    /// The number is that of no proposal that was sent.
    #[error("the answer chooses proposal {0}, which was not sent")]
    Number(u8),
    /// The answer has two algorithms of one kind.
    #[error("the answer has more than one transform {0}")]
    Several(TransformType),
    /// The answer has an algorithm that was not offered, or lacks one.
    #[error("the answer has other algorithms than proposal {0} offered")]
    Algorithms(u8),
}

/// Checks the answer to proposals: `own` were sent with the numbers from 1 on.
///
/// # Errors
/// The reason why the answer is not one of the own proposals, reduced to one algorithm of each kind.
pub fn accept(own: &[Algorithms], answer: &[wire::Proposal]) -> Result<Chosen, BadAnswer> {
    let [answer] = answer else { return Err(BadAnswer::Count(answer.len())) };
    let number = answer.number;
    let sent = usize::from(number).checked_sub(1).and_then(|index| own.get(index));
    let sent = sent.ok_or(BadAnswer::Number(number))?;
    let mut kinds = BTreeSet::new();
    if let Some(twice) = answer.transforms.iter().find(|transform| !kinds.insert(transform.kind)) {
        return Err(BadAnswer::Several(twice.kind));
    }
    let offers_exchange = sent.of_kind(TransformType::KEY_EXCHANGE).next().is_some();
    let all = match_proposal(sent, answer, Preference::Own);
    let all = all.filter(|_| !offers_exchange || kinds.contains(&TransformType::KEY_EXCHANGE));
    let all = all.ok_or(BadAnswer::Algorithms(number))?;
    Ok(Chosen { number, spi: answer.spi.clone(), protocol: answer.protocol, all })
}

fn match_proposal(
    own: &Algorithms,
    offer: &wire::Proposal,
    preference: Preference,
) -> Option<Vec<Algorithm>> {
    if own.protocol != offer.protocol {
        return None;
    }
    let own_kinds = own.all.iter().map(|algorithm| algorithm.kind);
    let kinds: BTreeSet<TransformType> =
        own_kinds.chain(offer.transforms.iter().map(|offer| offer.kind)).collect();
    let mut chosen: Vec<Algorithm> = Vec::new();
    for kind in kinds {
        let own_of_kind: Vec<Algorithm> = own.of_kind(kind).collect();
        let of_kind = offer.transforms.iter().filter(|offer| offer.kind == kind);
        let is_offered = of_kind.clone().next().is_some();
        let offered: Vec<Algorithm> = of_kind.filter_map(Algorithm::of).collect();
        let none = Algorithm::new(kind, NONE);
        if !is_offered {
            let may_be_left_out = own_of_kind.contains(&none) && ADDITIONAL.contains(&kind)
                || kind == TransformType::KEY_EXCHANGE && own.protocol == ProtocolId::ESP;
            if may_be_left_out { continue } else { return None }
        }
        if own_of_kind.is_empty() {
            if !may_be_none(kind) || !offered.contains(&none) {
                return None;
            }
            chosen.push(none);
            continue;
        }
        // No method of key exchange is used twice (RFC 9370 section 2.2.2).
        let is_new = |algorithm: &Algorithm| {
            !is_exchange(kind)
                || algorithm.id == NONE
                || !chosen.iter().any(|other| is_exchange(other.kind) && other.id == algorithm.id)
        };
        let (first, second) = match preference {
            Preference::Own => (&own_of_kind, &offered),
            Preference::Peer => (&offered, &own_of_kind),
        };
        let algorithm =
            first.iter().find(|algorithm| second.contains(algorithm) && is_new(algorithm)).copied()?;
        chosen.push(algorithm);
    }
    Some(chosen)
}

fn is_exchange(kind: TransformType) -> bool {
    kind == TransformType::KEY_EXCHANGE || ADDITIONAL.contains(&kind)
}

/// Whether the number 0 of a kind stands for no algorithm.
fn may_be_none(kind: TransformType) -> bool {
    kind == TransformType::INTEGRITY || is_exchange(kind)
}

#[cfg(test)]
mod tests {
    use adit_core::{Cipher, Digest};

    use super::*;
    use crate::suite::{Group, esp_proposals, ike_proposals};

    fn offer(own: &[Algorithms]) -> Vec<wire::Proposal> {
        own.iter().zip(1..).map(|(own, number)| own.to_wire(number, b"spi.")).collect()
    }

    #[test]
    fn either_order_of_preference_decides() {
        let own = ike_proposals("aes128gcm16-prfsha256-ecp256,aes256gcm16-prfsha384-x25519-ecp384").unwrap();
        let offered = offer(
            &ike_proposals("aes256gcm16-prfsha384-ecp384-x25519,aes128gcm16-prfsha256-ecp256").unwrap(),
        );
        let mine = choose(&own, &offered, Preference::Own).unwrap();
        let suite = mine.ike_suite().unwrap();
        assert_eq!((mine.number, suite.cipher, suite.group), (2, Cipher::Aes128Gcm, Group::P256));
        let theirs = choose(&own, &offered, Preference::Peer).unwrap();
        let suite = theirs.ike_suite().unwrap();
        assert_eq!((theirs.number, suite.cipher, suite.group), (1, Cipher::Aes256Gcm, Group::P384));
        assert_eq!((suite.prf, suite.integrity, theirs.spi), (Digest::Sha384, None, b"spi.".to_vec()));
        let suite = choose(&own[1..], &offered, Preference::Own).unwrap().ike_suite().unwrap();
        assert_eq!(suite.group, Group::X25519);
    }

    #[test]
    fn each_kind_of_the_offer_must_be_known_and_each_own_kind_offered() {
        let own = ike_proposals("aes256-sha256-ecp256").unwrap();
        let whole = offer(&own).remove(0);
        assert!(choose(&own, std::slice::from_ref(&whole), Preference::Own).is_some());
        for index in 0..whole.transforms.len() {
            let mut less = whole.clone();
            less.transforms.remove(index);
            assert_eq!(choose(&own, &[less], Preference::Own), None, "without number {index}");
        }
        let mut more = whole.clone();
        more.transforms.push(wire::Transform::new(TransformType(99), 0, None));
        assert_eq!(choose(&own, &[more], Preference::Own), None);
        let mut with_attribute = whole.clone();
        let attribute = wire::Attribute { kind: 77, value: wire::AttributeValue::Short(1) };
        with_attribute.transforms[0].attributes.push(attribute);
        assert_eq!(choose(&own, &[with_attribute], Preference::Own), None);
        let mut other_protocol = whole;
        other_protocol.protocol = ProtocolId::ESP;
        assert_eq!(choose(&own, &[other_protocol], Preference::Own), None);
    }

    #[test]
    fn a_key_length_belongs_to_aes_alone() {
        let own = esp_proposals("aes256gcm16,chacha20poly1305").unwrap();
        let mut offered = offer(&own);
        offered[0].transforms[0].attributes.clear();
        offered[1].transforms[0] = wire::Transform::new(TransformType::ENCRYPTION, 28, Some(256));
        assert_eq!(choose(&own, &offered, Preference::Own), None);
    }

    #[test]
    fn beside_an_aead_the_integrity_algorithm_is_none() {
        let own = ike_proposals("aes256gcm16-prfsha256-ecp256").unwrap();
        let mut offered = offer(&own);
        offered[0].transforms.push(wire::Transform::new(TransformType::INTEGRITY, 0, None));
        let chosen = choose(&own, &offered, Preference::Own).unwrap();
        assert_eq!(
            chosen.to_wire(b"").transforms.len(),
            4,
            "an answer has one transform of each kind that was offered"
        );
        assert!(chosen.ike_suite().is_some());
        offered[0].transforms[3].id = 12;
        assert_eq!(choose(&own, &offered, Preference::Own), None);
    }

    #[test]
    fn a_child_may_be_offered_without_key_exchange() {
        let own = esp_proposals("aes256gcm16-x25519").unwrap();
        let with_exchange = choose(&own, &offer(&own), Preference::Own).unwrap();
        assert_eq!(with_exchange.child_suite().unwrap().group, Some(Group::X25519));
        let without = offer(&[own[0].without_key_exchange()]);
        let chosen = choose(&own, &without, Preference::Own).unwrap();
        assert_eq!(chosen.child_suite().unwrap().group, None);
        assert_eq!(accept(&own, &[chosen.to_wire(b"abcd")]), Err(BadAnswer::Algorithms(1)));
        let own = [own[0].without_key_exchange()];
        assert_eq!(
            choose(&own, &offer(&esp_proposals("aes256gcm16-x25519").unwrap()), Preference::Own),
            None
        );
    }

    #[test]
    fn additional_key_exchanges_differ_from_each_other() {
        let own =
            ike_proposals("aes256gcm16-prfsha256-ecp256-ke1_mlkem768-ke2_mlkem768-ke2_mlkem1024").unwrap();
        let suite = choose(&own, &offer(&own), Preference::Own).unwrap().ike_suite().unwrap();
        assert_eq!(suite.additional, [Group::MlKem768, Group::MlKem1024]);
        let optional = ike_proposals("aes256gcm16-prfsha256-ecp256-ke1_mlkem768-ke1_none").unwrap();
        let plain = offer(&ike_proposals("aes256gcm16-prfsha256-ecp256").unwrap());
        let suite = choose(&optional, &plain, Preference::Own).unwrap().ike_suite().unwrap();
        assert!(suite.additional.is_empty());
        assert_eq!(choose(&own, &plain, Preference::Own), None, "one that is demanded is not left out");
    }

    #[test]
    fn an_answer_has_one_of_each_kind_that_was_offered() {
        let own = ike_proposals("aes256gcm16-aes128gcm16-prfsha256-ecp256,aes256-sha256-ecp384").unwrap();
        let offered = offer(&own);
        let answer = choose(&own, &offered, Preference::Own).unwrap().to_wire(b"");
        assert_eq!(
            accept(&own, std::slice::from_ref(&answer)).unwrap().ike_suite().unwrap().cipher,
            Cipher::Aes256Gcm
        );
        assert_eq!(accept(&own, &offered), Err(BadAnswer::Count(2)));
        assert_eq!(accept(&own, &offered[..1]), Err(BadAnswer::Several(TransformType::ENCRYPTION)));
        for number in [0, 3] {
            let answer = wire::Proposal { number, ..answer.clone() };
            assert_eq!(accept(&own, &[answer]), Err(BadAnswer::Number(number)));
        }
        let other = wire::Proposal { number: 2, ..answer.clone() };
        assert_eq!(accept(&own, &[other]), Err(BadAnswer::Algorithms(2)));
        let mut less = answer;
        less.transforms.pop();
        assert_eq!(accept(&own, &[less]), Err(BadAnswer::Algorithms(1)));
    }
}

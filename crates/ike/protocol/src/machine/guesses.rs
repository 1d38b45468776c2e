//! The limit on wrong passwords and pre-shared keys, by the source of the peer and by its name.

use std::net::IpAddr;
use std::time::Duration;

use adit_core::{AnswerLimit, Digest, Instant, Permit, Rate};

use crate::crypto::{Secret, prf};
use crate::eap::Fill;

/// The most wrong passwords or keys of a name within the time.
const OF_NAME: Rate = Rate { count: 10, period: Duration::from_secs(60) };
/// The most wrong passwords and keys from an IPv4 address or an IPv6 /64 within the time.
const OF_SOURCE: Rate = Rate { count: 20, period: Duration::from_secs(60) };

/// The wrong passwords and keys of the last time. It has no memory before the first one.
#[derive(Default)]
pub(crate) struct Guesses(Option<Counts>);

struct Counts {
    key: Secret,
    names: AnswerLimit,
    sources: AnswerLimit,
}

/// A peer that says a name.
#[derive(Clone, Copy)]
pub(crate) struct Guesser<'a> {
    pub(crate) name: &'a str,
    pub(crate) source: IpAddr,
}

impl Counts {
    fn places(&self, what: &[u8]) -> [usize; 2] {
        let hash = prf(Digest::Sha256, &self.key, &[what]);
        let mut numbers = hash.as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes) as usize);
        [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
    }

    fn places_of(&self, guesser: Guesser<'_>) -> [[usize; 2]; 2] {
        let source = match guesser.source.to_canonical() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets()[..8].to_vec(),
        };
        let name = guesser.name.to_ascii_lowercase();
        [self.places(&[b"name ", name.as_bytes()].concat()), self.places(&[b"source ", &*source].concat())]
    }
}

impl Guesses {
    /// Whether a password or key of the peer is taken.
    pub(crate) fn permits(&mut self, now: Instant, guesser: Guesser<'_>) -> bool {
        let Some(counts) = &mut self.0 else { return true };
        let [name, source] = counts.places_of(guesser);
        let is_granted = |permit| permit == Permit::Granted;
        is_granted(counts.names.foresee(now, name)) && is_granted(counts.sources.foresee(now, source))
    }

    /// The peer said a wrong password, or proved its identity by a wrong key.
    pub(crate) fn count(&mut self, now: Instant, guesser: Guesser<'_>, fill: Fill<'_>) {
        let counts = self.0.get_or_insert_with(|| {
            let mut key = Secret::from(vec![0; 32]);
            fill(&mut key);
            Counts { key, names: AnswerLimit::new(OF_NAME), sources: AnswerLimit::new(OF_SOURCE) }
        });
        let [name, source] = counts.places_of(guesser);
        counts.names.ask(now, name);
        counts.sources.ask(now, source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_are_bounded_by_name_and_by_source_for_a_while() {
        let mut guesses = Guesses::default();
        let now = Instant::ORIGIN + Duration::from_secs(1000);
        let from = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut fill = |bytes: &mut [u8]| bytes.fill(7);
        for number in 0..10 {
            let guesser = Guesser { name: "alice", source: from(number) };
            assert!(guesses.permits(now, guesser), "{number}");
            guesses.count(now, guesser, &mut fill);
        }
        assert!(
            !guesses.permits(now, Guesser { name: "ALICE", source: from(99) }),
            "the name is at its limit"
        );
        assert!(guesses.permits(now, Guesser { name: "bob", source: from(99) }));
        for number in 0..20 {
            let name = format!("name {number}");
            let guesser = Guesser { name: &name, source: from(100) };
            assert!(guesses.permits(now, guesser), "{number}");
            guesses.count(now, guesser, &mut fill);
        }
        assert!(
            !guesses.permits(now, Guesser { name: "bob", source: from(100) }),
            "the source is at its limit"
        );
        let later = now + Duration::from_secs(61);
        assert!(guesses.permits(later, Guesser { name: "alice", source: from(100) }));
    }
}

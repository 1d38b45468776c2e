//! Messages (`INFO_PRE`) and challenges (`CR_TEXT`) that a server sends while keys are renegotiated, and the answers:
//! with faults too, each arrives, once, and those of one renegotiation in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adit_core::Instant;
use adit_openvpn::request::ScriptId;
use base64ct::{Base64, Encoding as _};

use crate::openvpn::model::Tunnel;
use crate::violation::Violation;

/// The first word of a message and of a challenge; a number follows.
pub(crate) const MESSAGE: &str = "words ";
pub(crate) const CHALLENGE: &str = "question ";
/// Over a clean net, a challenge arrives within this time. A challenge that was lost before is sent again every 8 s at
/// least.
pub(crate) const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

/// When a tunnel came up at the client and at the server, which tells it from others.
pub(crate) type Times = (Instant, Instant);

pub(crate) fn times(tunnel: &Tunnel) -> Option<Times> {
    Some((tunnel.client.as_ref()?.0, tunnel.server.as_ref()?.0))
}

/// A message or a challenge that was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) client: usize,
    /// A message, which asks for no answer.
    pub(crate) message: bool,
    /// The server's process and the run of the script that sent it: all of one run go over one key exchange.
    pub(crate) by: (u32, ScriptId),
    /// The tunnel over which it goes.
    pub(crate) tunnel: Times,
    /// When it must have arrived, if that tunnel is up until then.
    pub(crate) due: Instant,
    pub(crate) arrived: bool,
}

/// All messages and challenges, each by its number.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    sent: Vec<Sent>,
    /// How often the server verified the answer to each challenge.
    verified: BTreeMap<usize, u32>,
    /// The newest connection of each client, by the number under which the server runs scripts for it.
    pub(crate) newest: BTreeMap<usize, u64>,
    /// Scripts whose result the server does not use any more.
    pub(crate) dropped: BTreeSet<ScriptId>,
}

impl Challenges {
    /// The connections end with the server.
    pub(crate) fn forget_connections(&mut self) {
        self.newest.clear();
        self.dropped.clear();
    }

    /// The server does not use the result of that script any more.
    pub(crate) fn drop_script(&mut self, script: ScriptId) {
        self.dropped.insert(script);
    }

    pub(crate) fn note_connection(&mut self, client: usize, owner: u64) {
        let newest = self.newest.entry(client).or_default();
        *newest = owner.max(*newest);
    }

    /// The text of the message or challenge that is sent next.
    pub(crate) fn push(&mut self, sent: Sent) -> String {
        let kind = if sent.message { MESSAGE } else { CHALLENGE };
        self.sent.push(sent);
        format!("{kind}{}", self.sent.len() - 1)
    }

    /// A client shows a message or a challenge to its user.
    pub(crate) fn arrive(&mut self, client: usize, text: &str) -> Result<(), Violation> {
        let number = text.strip_prefix(MESSAGE).or(text.strip_prefix(CHALLENGE));
        let number = number.and_then(|number| number.parse::<usize>().ok());
        let wrong = |what: &str| Violation::new(format!("client {client} shows \"{text}\", {what}"));
        let Some(sent) = number.and_then(|number| self.sent.get_mut(number)) else {
            return Err(wrong("which the server did not send"));
        };
        if sent.client != client {
            return Err(wrong("which was sent to another"));
        }
        if std::mem::replace(&mut sent.arrived, true) {
            return Err(wrong("which it showed before"));
        }
        let by = sent.by;
        let mut later = self.sent.iter().skip(number.unwrap_or_default() + 1);
        if later.any(|later| later.by == by && later.client == client && later.arrived) {
            return Err(wrong("after a later one"));
        }
        Ok(())
    }

    /// The server has an answer verified.
    pub(crate) fn verify(&mut self, content: &[u8]) -> Result<(), Violation> {
        let text = std::str::from_utf8(content).ok().and_then(|text| Base64::decode_vec(text).ok());
        let text = text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
        let number = text.strip_prefix("answer to question ").and_then(|number| number.parse().ok());
        let arrived = |number: &usize| self.sent.get(*number).is_some_and(|sent| sent.arrived);
        let Some(number) = number.filter(arrived) else {
            return Err(Violation::new(format!(
                "the server verifies \"{text}\", which answers no challenge"
            )));
        };
        let times = self.verified.entry(number).or_default();
        *times += 1;
        match *times {
            1 => Ok(()),
            _ => Err(Violation::new(format!("the server verifies \"{text}\" for the second time"))),
        }
    }

    /// Checks that each challenge that was due has arrived, where the tunnel is still up.
    pub(crate) fn check(&self, now: Instant, tunnels: &[Tunnel]) -> Result<(), Violation> {
        let lost = |(_, sent): &(usize, &Sent)| {
            let same_tunnel = tunnels.get(sent.client - 1).and_then(times) == Some(sent.tunnel);
            !sent.arrived && same_tunnel && sent.due <= now
        };
        match self.sent.iter().enumerate().find(lost) {
            Some((number, sent)) => Err(Violation::new(format!(
                "message {number} did not arrive, though the tunnel is up: {sent:?}"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openvpn::world::START;

    fn challenges() -> Challenges {
        let mut challenges = Challenges::default();
        for client in [1, 1, 2] {
            let by = (1, ScriptId { owner: client as u64, number: 0 });
            let sent =
                Sent { client, message: false, by, tunnel: (START, START), due: START, arrived: false };
            challenges.push(sent);
        }
        challenges
    }

    fn up(at: Instant) -> Tunnel {
        Tunnel { client: Some((at, Vec::new())), server: Some((at, Vec::new())), ..Tunnel::default() }
    }

    #[test]
    fn a_challenge_arrives_once_and_in_order() {
        let mut challenges = challenges();
        assert!(challenges.arrive(1, "question 2").is_err(), "another's");
        assert!(challenges.arrive(1, "question 3").is_err(), "never sent");
        assert_eq!(challenges.arrive(1, "question 0"), Ok(()));
        assert!(challenges.arrive(1, "question 0").is_err(), "twice");
        let mut challenges = self::challenges();
        assert_eq!(challenges.arrive(1, "question 1"), Ok(()));
        assert!(challenges.arrive(1, "question 0").is_err(), "out of order");
    }

    #[test]
    fn an_answer_is_verified_once() {
        let mut challenges = challenges();
        let answer = Base64::encode_string(b"answer to question 0").into_bytes();
        assert!(challenges.verify(&answer).is_err(), "not sent yet");
        challenges.arrive(1, "question 0").unwrap();
        assert_eq!(challenges.verify(&answer), Ok(()));
        assert!(challenges.verify(&answer).is_err(), "twice");
        assert!(challenges.verify(b"-").is_err());
    }

    #[test]
    fn a_challenge_is_missed_where_its_tunnel_is_up() {
        let mut challenges = challenges();
        let later = START + ARRIVES_WITHIN;
        assert_eq!(challenges.check(START, &[up(later), up(later)]), Ok(()), "other tunnels");
        assert!(challenges.check(START, &[up(later), up(START)]).is_err());
        challenges.arrive(2, "question 2").unwrap();
        assert_eq!(challenges.check(START, &[up(later), up(START)]), Ok(()));
    }
}

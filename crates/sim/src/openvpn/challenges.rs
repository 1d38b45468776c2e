//! Messages (`INFO_PRE`) and challenges (`CR_TEXT`) that a server sends while keys are renegotiated, and the answers:
//! with faults too, each arrives, once, and those of one renegotiation in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adit_core::Instant;
use adit_openvpn::request::{Script, ScriptId, ScriptOutcome};
use base64ct::{Base64, Encoding as _};

use crate::openvpn::end::PendingRequest;
use crate::openvpn::identity::client_name;
use crate::openvpn::model::Tunnel;
use crate::openvpn::settings::{CLIENT_CRRESPONSE, LEARN_ADDRESS, VERIFY_PASSWORD};
use crate::openvpn::world::World;
use crate::violation::Violation;

/// The exit code of a script that defers its answer.
const DEFERRED: i32 = 2;
/// The first word of a message and of a challenge; a number follows.
const MESSAGE: &str = "words ";
const CHALLENGE: &str = "question ";
/// The beginning of a client's report of a message from the server.
const REPORTED: &str = "the server says: ";
/// Over a clean net, a challenge arrives within this time. A challenge that was lost before is sent again every 8 s at
/// least.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

/// When a tunnel came up at the client and at the server, which tells it from others.
type Times = (Instant, Instant);

fn times(tunnel: &Tunnel) -> Option<Times> {
    Some((tunnel.client.as_ref()?.0, tunnel.server.as_ref()?.0))
}

/// A message or a challenge that was sent.
#[derive(Debug)]
struct Sent {
    client: usize,
    /// A message, which asks for no answer.
    message: bool,
    /// The server's process and the run of the script that sent it: all of one run go over one key exchange.
    by: (u32, ScriptId),
    /// The tunnel over which it goes.
    tunnel: Times,
    /// When it must have arrived, if that tunnel is up until then.
    due: Instant,
    arrived: bool,
}

/// All messages and challenges, each by its number.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    sent: Vec<Sent>,
    /// How often the server verified the answer to each challenge.
    verified: BTreeMap<usize, u32>,
    /// The newest connection of each client, by the number under which the server runs scripts for it.
    newest: BTreeMap<usize, u64>,
    /// Scripts whose result the server does not use any more.
    dropped: BTreeSet<ScriptId>,
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

    fn note_connection(&mut self, client: usize, owner: u64) {
        let newest = self.newest.entry(client).or_default();
        *newest = owner.max(*newest);
    }

    /// The text of the message or challenge that is sent next.
    fn push(&mut self, sent: Sent) -> String {
        let kind = if sent.message { MESSAGE } else { CHALLENGE };
        self.sent.push(sent);
        format!("{kind}{}", self.sent.len() - 1)
    }

    /// A client shows a message or a challenge to its user.
    fn arrive(&mut self, client: usize, text: &str) -> Result<(), Violation> {
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
    fn verify(&mut self, content: &[u8]) -> Result<(), Violation> {
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
    fn check(&self, now: Instant, tunnels: &[Tunnel]) -> Result<(), Violation> {
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

impl World {
    /// Checks a request before it is answered.
    pub(crate) fn check_request(&mut self, number: usize, request: &PendingRequest) -> Result<(), Violation> {
        match request {
            PendingRequest::Challenge(challenge) if challenge.text.starts_with(CHALLENGE) => {
                self.checks.challenges.arrive(number, &challenge.text)
            }
            PendingRequest::Script(script, _) => {
                if let Some(client) = self.subject(script) {
                    self.checks.challenges.note_connection(client, script.id.owner);
                }
                match script.argv.first().map(String::as_str) {
                    Some(LEARN_ADDRESS) => self.checks.learned.record(&script.argv),
                    Some(CLIENT_CRRESPONSE) => {
                        let content = script.files.first().map(|file| file.content.clone());
                        self.checks.challenges.verify(content.as_deref().map_or(&[][..], Vec::as_slice))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Checks a client's report of a message.
    pub(crate) fn read_report(&mut self, number: usize, text: &str) -> Result<(), Violation> {
        match text.strip_prefix(REPORTED).filter(|message| message.starts_with(MESSAGE)) {
            Some(message) => self.checks.challenges.arrive(number, message),
            None => Ok(()),
        }
    }

    /// The client that a script is about.
    fn subject(&self, script: &Script) -> Option<usize> {
        let (_, name) = script.env.iter().find(|(variable, _)| variable == "common_name")?;
        (1..=self.scenario.clients).find(|number| client_name(*number) == *name)
    }

    /// At random, the script that verifies a password defers its answer and sends the client a message or a challenge
    /// first: only while the tunnel is up.
    pub(crate) fn challenge_first(&mut self, script: &Script) -> Option<ScriptOutcome> {
        let verifies = script.argv.first().is_some_and(|name| name == VERIFY_PASSWORD);
        let in_use = !self.checks.challenges.dropped.contains(&script.id);
        if !self.scenario.auth.challenges || !verifies || !in_use || !self.rng.faults.chance(600) {
            return None;
        }
        let client = self.subject(script)?;
        // A connection that is older than the client's newest will not come up.
        let newest = self.checks.challenges.newest.get(&client) == Some(&script.id.owner);
        let tunnel = times(self.model.tunnels.get(client - 1)?).filter(|_| newest)?;
        let by = (self.hosts[crate::openvpn::model::SERVER].generation, script.id);
        // With faults, once the net was clean for a while.
        let clean = if self.net.faulty { self.calm_at_end().0 } else { self.now };
        let due = clean + ARRIVES_WITHIN;
        let message = self.rng.faults.chance(500);
        let text = self.checks.challenges.push(Sent { client, message, by, tunnel, due, arrived: false });
        self.log(format_args!("client {client} is sent {text}"));
        let kind = if message { "" } else { "CR_TEXT:R:" };
        let pending = format!("120\ncrtext\n{kind}{text}\n").into_bytes();
        Some(ScriptOutcome { exit: Ok(DEFERRED), files: vec![Vec::new(), pending], settings: None })
    }

    /// Challenges arrive while the tunnel is up.
    pub(crate) fn check_challenges(&self) -> Result<(), Violation> {
        self.checks.challenges.check(self.now, &self.model.tunnels)
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

//! What a server has to say while keys are renegotiated, words (`INFO_PRE`) and questions (`CR_TEXT`), and what it is
//! answered: over a bad net too, each arrives, once, and those of one renegotiation in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adit_core::Instant;
use adit_openvpn::request::{Script, ScriptId, ScriptOutcome};
use base64ct::{Base64, Encoding as _};

use crate::end::Question;
use crate::identity::client_name;
use crate::model::{Tunnel, Violation};
use crate::settings::{CODE, JUDGE, LEARN};
use crate::world::World;

/// The exit code by which a script puts off its answer.
const DEFERRED: i32 = 2;
/// What words begin with, and questions; then comes a number.
const WORDS: &str = "words ";
const QUESTION: &str = "question ";
/// What a client says in front of words that the server has for it.
const SAYS: &str = "the server says: ";
/// Over a clean net, a question arrives within this time. What was lost before is sent again every 8 s at least.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

/// When a tunnel came up at the client and at the server, which tells it from others.
type Times = (Instant, Instant);

fn times(tunnel: &Tunnel) -> Option<Times> {
    Some((tunnel.client.as_ref()?.0, tunnel.server.as_ref()?.0))
}

/// Words or a question that were sent.
#[derive(Debug)]
struct Put {
    client: usize,
    /// Nothing but words.
    words: bool,
    /// The run of the script that asks, and the life of the server: its questions go over one key exchange.
    by: (u32, ScriptId),
    /// The tunnel over which it goes.
    tunnel: Times,
    /// When it must have arrived, if that tunnel stands until then.
    due: Instant,
    arrived: bool,
}

/// All questions, each by its number.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    put: Vec<Put>,
    /// How often the server looked at the answer to each question.
    judged: BTreeMap<usize, u32>,
    /// The newest connection of each client, by the number under which the server runs scripts for it.
    newest: BTreeMap<usize, u64>,
    /// Scripts to which nobody listens any more.
    dropped: BTreeSet<ScriptId>,
}

impl Questions {
    /// The connections end with the server.
    pub(crate) fn forget_connections(&mut self) {
        self.newest.clear();
        self.dropped.clear();
    }

    /// Nobody waits for that script any more.
    pub(crate) fn drop_script(&mut self, script: ScriptId) {
        self.dropped.insert(script);
    }

    fn see(&mut self, client: usize, owner: u64) {
        let newest = self.newest.entry(client).or_default();
        *newest = owner.max(*newest);
    }

    /// The text of what is sent next.
    fn put(&mut self, put: Put) -> String {
        let kind = if put.words { WORDS } else { QUESTION };
        self.put.push(put);
        format!("{kind}{}", self.put.len() - 1)
    }

    /// A client shows somebody words or a question.
    fn arrive(&mut self, client: usize, text: &str) -> Result<(), Violation> {
        let number = text.strip_prefix(WORDS).or(text.strip_prefix(QUESTION));
        let number = number.and_then(|number| number.parse::<usize>().ok());
        let wrong = |what: &str| Violation::new(format!("client {client} shows \"{text}\", {what}"));
        let Some(put) = number.and_then(|number| self.put.get_mut(number)) else {
            return Err(wrong("which nobody put"));
        };
        if put.client != client {
            return Err(wrong("which was put to another"));
        }
        if std::mem::replace(&mut put.arrived, true) {
            return Err(wrong("which it showed before"));
        }
        let by = put.by;
        let mut later = self.put.iter().skip(number.unwrap_or_default() + 1);
        if later.any(|later| later.by == by && later.client == client && later.arrived) {
            return Err(wrong("after a later one"));
        }
        Ok(())
    }

    /// The server has an answer judged.
    fn judge(&mut self, content: &[u8]) -> Result<(), Violation> {
        let text = std::str::from_utf8(content).ok().and_then(|text| Base64::decode_vec(text).ok());
        let text = text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
        let number = text.strip_prefix("answer to question ").and_then(|number| number.parse().ok());
        let arrived = |number: &usize| self.put.get(*number).is_some_and(|put| put.arrived);
        let Some(number) = number.filter(arrived) else {
            return Err(Violation::new(format!("the server judges \"{text}\", which nobody answered")));
        };
        let times = self.judged.entry(number).or_default();
        *times += 1;
        match *times {
            1 => Ok(()),
            _ => Err(Violation::new(format!("the server judges \"{text}\" for the second time"))),
        }
    }

    /// What was due has arrived, where the tunnel still stands.
    fn check(&self, now: Instant, tunnels: &[Tunnel]) -> Result<(), Violation> {
        let lost = |(_, put): &(usize, &Put)| {
            let stands = tunnels.get(put.client - 1).and_then(times) == Some(put.tunnel);
            !put.arrived && stands && put.due <= now
        };
        match self.put.iter().enumerate().find(lost) {
            Some((number, put)) => Err(Violation::new(format!(
                "message {number} did not arrive, though the tunnel stands: {put:?}"
            ))),
            None => Ok(()),
        }
    }
}

impl World {
    /// What the model makes of a question, before somebody answers it.
    pub(crate) fn heed(&mut self, number: usize, question: &Question) -> Result<(), Violation> {
        match question {
            Question::Challenge(challenge) if challenge.text.starts_with(QUESTION) => {
                self.questions.arrive(number, &challenge.text)
            }
            Question::Script(script, _) => {
                if let Some(client) = self.subject(script) {
                    self.questions.see(client, script.id.owner);
                }
                match script.argv.first().map(String::as_str) {
                    Some(LEARN) => self.learned.told(&script.argv),
                    Some(CODE) => {
                        let content = script.files.first().map(|file| file.content.clone());
                        self.questions.judge(content.as_deref().map_or(&[][..], Vec::as_slice))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// What the model makes of a client's report.
    pub(crate) fn read_report(&mut self, number: usize, text: &str) -> Result<(), Violation> {
        match text.strip_prefix(SAYS).filter(|words| words.starts_with(WORDS)) {
            Some(words) => self.questions.arrive(number, words),
            None => Ok(()),
        }
    }

    /// The client that a script is about.
    fn subject(&self, script: &Script) -> Option<usize> {
        let (_, name) = script.env.iter().find(|(variable, _)| variable == "common_name")?;
        (1..=self.scenario.clients).find(|number| client_name(*number) == *name)
    }

    /// The script that judges a password says nothing yet, but has the client asked something: perhaps, and only in
    /// the middle of a tunnel's life.
    pub(crate) fn asks_first(&mut self, script: &Script) -> Option<ScriptOutcome> {
        let judges = script.argv.first().is_some_and(|name| name == JUDGE);
        let heard = !self.questions.dropped.contains(&script.id);
        if !self.scenario.asks || !judges || !heard || !self.more.chance(600) {
            return None;
        }
        let client = self.subject(script)?;
        // A connection that is older than the client's newest will not come up.
        let newest = self.questions.newest.get(&client) == Some(&script.id.owner);
        let tunnel = times(self.model.tunnels.get(client - 1)?).filter(|_| newest)?;
        let by = (self.lives[crate::model::SERVER], script.id);
        // On a bad net, as soon as it was clean for a while.
        let clean = if self.net.faulty { self.calm_at_end().0 } else { self.now };
        let due = clean + ARRIVES_WITHIN;
        let words = self.more.chance(500);
        let text = self.questions.put(Put { client, words, by, tunnel, due, arrived: false });
        self.log(format_args!("client {client} is to hear {text}"));
        let kind = if words { "" } else { "CR_TEXT:R:" };
        let pending = format!("120\ncrtext\n{kind}{text}\n").into_bytes();
        Some(ScriptOutcome { exit: Ok(DEFERRED), files: vec![Vec::new(), pending], settings: None })
    }

    /// Questions arrive where the tunnel stands.
    pub(crate) fn check_questions(&self) -> Result<(), Violation> {
        self.questions.check(self.now, &self.model.tunnels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::START;

    fn questions() -> Questions {
        let mut questions = Questions::default();
        for client in [1, 1, 2] {
            let by = (1, ScriptId { owner: client as u64, number: 0 });
            let put = Put { client, words: false, by, tunnel: (START, START), due: START, arrived: false };
            questions.put(put);
        }
        questions
    }

    fn up(at: Instant) -> Tunnel {
        Tunnel { client: Some((at, Vec::new())), server: Some((at, Vec::new())), ..Tunnel::default() }
    }

    #[test]
    fn a_question_arrives_once_and_in_order() {
        let mut questions = questions();
        assert!(questions.arrive(1, "question 2").is_err(), "another's");
        assert!(questions.arrive(1, "question 3").is_err(), "nobody's");
        assert_eq!(questions.arrive(1, "question 0"), Ok(()));
        assert!(questions.arrive(1, "question 0").is_err(), "twice");
        let mut questions = self::questions();
        assert_eq!(questions.arrive(1, "question 1"), Ok(()));
        assert!(questions.arrive(1, "question 0").is_err(), "out of order");
    }

    #[test]
    fn an_answer_is_judged_once() {
        let mut questions = questions();
        let answer = Base64::encode_string(b"answer to question 0").into_bytes();
        assert!(questions.judge(&answer).is_err(), "nobody was asked yet");
        questions.arrive(1, "question 0").unwrap();
        assert_eq!(questions.judge(&answer), Ok(()));
        assert!(questions.judge(&answer).is_err(), "twice");
        assert!(questions.judge(b"-").is_err());
    }

    #[test]
    fn a_question_is_missed_where_its_tunnel_stands() {
        let mut questions = questions();
        let later = START + ARRIVES_WITHIN;
        assert_eq!(questions.check(START, &[up(later), up(later)]), Ok(()), "other tunnels");
        assert!(questions.check(START, &[up(later), up(START)]).is_err());
        questions.arrive(2, "question 2").unwrap();
        assert_eq!(questions.check(START, &[up(later), up(START)]), Ok(()));
    }
}

//! A program that judges clients (`management-client-auth`), in place of the scripts or beside them: what it is told
//! must be true, and nobody is in without its yes, nor stays after its no.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adit_core::Protocol as _;
use adit_openvpn::request::{ClientDecision, ClientEvent, ClientStep, PeerInfo, Reply};

use crate::dice::Dice;
use crate::end::{Machine, Question};
use crate::identity::client_name;
use crate::model::{SERVER, Violation};
use crate::world::World;

/// How long a client may take for what the program wants of it.
const WAIT: Duration = Duration::from_secs(60);

/// A client as the program knows it.
#[derive(Debug, Default)]
struct Known {
    /// The number of its latest keys.
    key: u32,
    /// The program said yes to any of its keys.
    accepted: bool,
    /// The program said no to its latest keys.
    denied: bool,
    /// The program was told that it is in.
    entered: bool,
}

/// The program, and whom it knows.
#[derive(Debug)]
pub(crate) struct Program {
    dice: Dice,
    clients: BTreeMap<u64, Known>,
    /// The numbers of those that left, which are nobody else's.
    gone: BTreeSet<u64>,
}

impl Program {
    pub(crate) fn new(dice: Dice) -> Self {
        Program { dice, clients: BTreeMap::new(), gone: BTreeSet::new() }
    }

    /// The server is another, and begins to count anew.
    pub(crate) fn forget(&mut self) {
        self.clients.clear();
        self.gone.clear();
    }

    /// It is told something.
    fn hear(&mut self, news: &ClientEvent) -> Result<(), Violation> {
        let wrong = |why: &str| Err(Violation::new(format!("the program is told {news:?}, but {why}")));
        if let ClientStep::AuthRequest { key, again, .. } = news.step {
            if self.gone.contains(&news.client) {
                return wrong("that client is gone");
            }
            let known = self.clients.entry(news.client).or_default();
            if key != known.key + 1 || (again && !known.accepted) {
                return wrong(&format!("knows {known:?}"));
            }
            (known.key, known.denied) = (key, false);
            return Ok(());
        }
        let Some(known) = self.clients.get_mut(&news.client) else {
            return wrong("knows no such client");
        };
        let holds = match &news.step {
            ClientStep::AuthRequest { .. } => true,
            ClientStep::ChallengeResponse { key, .. } => known.key == *key,
            ClientStep::Established { networks } => {
                let first = !std::mem::replace(&mut known.entered, true);
                first && known.accepted && !known.denied && networks.iter().any(|(_, own)| *own)
            }
            ClientStep::Disconnected => {
                self.clients.remove(&news.client);
                self.gone.insert(news.client)
            }
        };
        if holds { Ok(()) } else { wrong(&format!("knows {:?}", self.clients.get(&news.client))) }
    }

    /// It says this of a client with these keys.
    fn say(&mut self, client: u64, key: u32, ruling: &ClientDecision) {
        let Some(known) = self.clients.get_mut(&client).filter(|known| known.key == key) else { return };
        match ruling {
            ClientDecision::Accept(_) => known.accepted = true,
            ClientDecision::Deny { .. } => known.denied = true,
            ClientDecision::Pending { .. } => {}
        }
    }

    /// Who is up was let in.
    fn check_up(&self, up: &[(u64, String)], half_open: usize) -> Result<(), Violation> {
        let is_in = |known: &Known| known.accepted && !known.denied && known.entered;
        for (number, name) in up {
            let known = self.clients.get(number);
            if !known.is_some_and(is_in) {
                return Err(Violation::new(format!("{name} is up, of whom the program knows {known:?}")));
            }
        }
        if self.clients.len() > up.len() + half_open {
            let known = &self.clients;
            return Err(Violation::new(format!(
                "the program still knows of clients who are gone: {known:?}"
            )));
        }
        Ok(())
    }
}

impl World {
    /// The program hears what happens to a client, and will answer if it is asked.
    pub(crate) fn tell_program(&mut self, number: usize, news: &ClientEvent) -> Result<(), Violation> {
        self.log(format_args!("end {number} tells the program: {news:?}"));
        self.program.hear(news)?;
        match &news.step {
            ClientStep::AuthRequest { key, .. } => {
                let question = Question::Ruling { client: news.client, key: *key, waited: false };
                self.schedule_answer(number, question);
                Ok(())
            }
            ClientStep::Established { networks } => {
                self.check_told(news, networks.iter().filter(|(_, own)| *own))
            }
            ClientStep::ChallengeResponse { .. } | ClientStep::Disconnected => Ok(()),
        }
    }

    /// The addresses that the program hears of are those that the client has.
    fn check_told<'a>(
        &self,
        news: &ClientEvent,
        own: impl Iterator<Item = &'a (adit_core::IpNet, bool)>,
    ) -> Result<(), Violation> {
        let told: Vec<_> = own.map(|(network, _)| network.addr()).collect();
        let name = news.env.iter().find(|(name, _)| name == "common_name").map(|(_, value)| value);
        let client = (1..=self.scenario.clients).find(|number| Some(&client_name(*number)) == name);
        let tunnel = client.and_then(|client| self.model.tunnels.get(client - 1)?.server.as_ref());
        match tunnel {
            Some((_, addresses)) if *addresses == told => Ok(()),
            _ => Err(Violation::new(format!("the program is told of {told:?} for {name:?}: {tunnel:?}"))),
        }
    }

    /// The program says yes, or that the client has to do something first; over a bad net also no, perhaps after a
    /// yes, or nothing at all.
    pub(crate) fn program_rules(
        &mut self,
        number: usize,
        (client, key): (u64, u32),
        waited: bool,
    ) -> Result<(), Violation> {
        let bad = self.net.faulty;
        let ruling = match self.program.dice.below(20) {
            0 if bad => ClientDecision::Deny { reason: "not today".to_owned(), told: String::new() },
            1 if bad && !waited => return Ok(()),
            2..=6 if !waited => {
                let text = "WEB_AUTH::https://login.example/".to_owned();
                ClientDecision::Pending { text, timeout: WAIT }
            }
            _ => ClientDecision::Accept(None),
        };
        let says_more = match ruling {
            ClientDecision::Pending { .. } => true,
            _ => bad && !waited && self.program.dice.chance(100),
        };
        if says_more {
            self.schedule_answer(number, Question::Ruling { client, key, waited: true });
        }
        self.log(format_args!("the program says of client {client} with keys {key}: {ruling:?}"));
        self.program.say(client, key, &ruling);
        self.reply(number, Reply::ClientDecision { client, key, decision: ruling })
    }

    /// Those who are up were let in, and who is gone was told of.
    pub(crate) fn check_program(&self) -> Result<(), Violation> {
        let Some(Machine::Server(server)) = self.ends[SERVER].as_ref().map(|end| &end.machine) else {
            return Ok(());
        };
        if !self.scenario.program {
            return Ok(());
        }
        let whom = |(_, info): (_, PeerInfo)| (info.detail.number, info.name);
        let up: Vec<_> = server.peers().into_iter().map(whom).collect();
        self.program.check_up(&up, server.half_open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program::new(Dice::new(1, 1))
    }

    fn news(client: u64, step: ClientStep) -> ClientEvent {
        ClientEvent { client, step, env: Vec::new() }
    }

    fn asks(client: u64, key: u32, again: bool) -> ClientEvent {
        news(client, ClientStep::AuthRequest { key, again, password: String::new().into() })
    }

    fn enters(client: u64) -> ClientEvent {
        news(client, ClientStep::Established { networks: vec![("10.8.0.2/32".parse().unwrap(), true)] })
    }

    fn deny() -> ClientDecision {
        ClientDecision::Deny { reason: String::new(), told: String::new() }
    }

    #[test]
    fn a_client_enters_after_a_yes_and_leaves_once() {
        let mut program = program();
        program.hear(&asks(4, 1, false)).unwrap();
        program.say(4, 1, &ClientDecision::Accept(None));
        assert_eq!(program.hear(&enters(4)), Ok(()));
        assert_eq!(program.check_up(&[(4, "ann".to_owned())], 0), Ok(()));
        assert!(program.check_up(&[], 0).is_err(), "it is gone, and nobody said so");
        assert!(program.hear(&enters(4)).is_err(), "twice");
        assert_eq!(program.hear(&asks(4, 2, true)), Ok(()));
        assert_eq!(program.hear(&news(4, ClientStep::Disconnected)), Ok(()));
        assert!(program.hear(&news(4, ClientStep::Disconnected)).is_err(), "twice");
        assert!(program.hear(&asks(4, 1, false)).is_err(), "a number comes back");
        assert!(program.hear(&enters(5)).is_err(), "nobody asked");
    }

    #[test]
    fn nobody_enters_without_a_yes() {
        for (key, ruling) in [(1, None), (1, Some(deny())), (2, Some(ClientDecision::Accept(None)))] {
            let mut program = program();
            program.hear(&asks(4, 1, false)).unwrap();
            if let Some(ruling) = ruling {
                program.say(4, key, &ruling);
            }
            assert!(program.hear(&enters(4)).is_err());
            assert!(program.check_up(&[(4, "ann".to_owned())], 0).is_err());
        }
    }

    #[test]
    fn nobody_stays_after_a_no() {
        let mut program = program();
        program.hear(&asks(4, 1, false)).unwrap();
        program.say(4, 1, &ClientDecision::Accept(None));
        program.hear(&enters(4)).unwrap();
        program.say(4, 1, &deny());
        assert!(program.check_up(&[(4, "ann".to_owned())], 0).is_err());
    }

    #[test]
    fn keys_are_numbered() {
        let mut program = program();
        assert!(program.hear(&asks(4, 2, false)).is_err());
        let mut program = self::program();
        program.hear(&asks(4, 1, false)).unwrap();
        assert!(program.hear(&asks(4, 2, true)).is_err(), "it is not in");
        let response = ClientStep::ChallengeResponse { key: 7, response: String::new().into() };
        assert!(program.hear(&news(4, response)).is_err());
    }
}

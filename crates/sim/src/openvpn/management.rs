//! A management client that authenticates clients (`management-client-auth`), in place of the scripts or beside them:
//! the events that it gets must be true, no client is up without its consent, and none stays up after its refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use adit_core::Protocol as _;
use adit_openvpn::request::{ClientDecision, ClientEvent, ClientStep, PeerInfo, Reply};

use crate::openvpn::end::{Machine, PendingRequest};
use crate::openvpn::identity::client_name;
use crate::openvpn::model::SERVER;
use crate::openvpn::world::World;
use crate::rng::Rng;
use crate::violation::Violation;

/// How long a client may take for a step that the management client asks of it.
const WAIT: Duration = Duration::from_secs(60);

/// A client, as the management client knows it.
#[derive(Debug, Default)]
struct ClientState {
    /// The number of its latest keys.
    key: u32,
    /// Any of its keys was accepted.
    accepted: bool,
    /// Its latest keys were refused.
    denied: bool,
    /// The management client got the event that it is established.
    established: bool,
}

/// The management client, and the clients that it knows.
#[derive(Debug)]
pub(crate) struct Management {
    rng: Rng,
    clients: BTreeMap<u64, ClientState>,
    /// The numbers of those that left: no other client may get them.
    gone: BTreeSet<u64>,
}

impl Management {
    pub(crate) fn new(rng: Rng) -> Self {
        Management { rng, clients: BTreeMap::new(), gone: BTreeSet::new() }
    }

    /// The server is another process, whose numbers begin again.
    pub(crate) fn forget(&mut self) {
        self.clients.clear();
        self.gone.clear();
    }

    /// Checks an event of a client against the state that is known of it.
    fn handle_event(&mut self, event: &ClientEvent) -> Result<(), Violation> {
        let wrong =
            |why: &str| Err(Violation::new(format!("the management client gets {event:?}, but {why}")));
        if let ClientStep::AuthRequest { key, again, .. } = event.step {
            if self.gone.contains(&event.client) {
                return wrong("that client is gone");
            }
            let known = self.clients.entry(event.client).or_default();
            if key != known.key + 1 || (again && !known.accepted) {
                return wrong(&format!("knows {known:?}"));
            }
            (known.key, known.denied) = (key, false);
            return Ok(());
        }
        let Some(known) = self.clients.get_mut(&event.client) else {
            return wrong("knows no such client");
        };
        let holds = match &event.step {
            ClientStep::AuthRequest { .. } => true,
            ClientStep::ChallengeResponse { key, .. } => known.key == *key,
            ClientStep::Established { networks } => {
                let first = !std::mem::replace(&mut known.established, true);
                first && known.accepted && !known.denied && networks.iter().any(|(_, own)| *own)
            }
            ClientStep::Addressed { .. } => known.established && !known.denied,
            ClientStep::Disconnected => {
                self.clients.remove(&event.client);
                self.gone.insert(event.client)
            }
        };
        if holds { Ok(()) } else { wrong(&format!("knows {:?}", self.clients.get(&event.client))) }
    }

    /// Notes its decision about a client with these keys.
    fn decide(&mut self, client: u64, key: u32, decision: &ClientDecision) {
        let Some(known) = self.clients.get_mut(&client).filter(|known| known.key == key) else { return };
        match decision {
            ClientDecision::Accept(_) => known.accepted = true,
            ClientDecision::Deny { .. } => known.denied = true,
            ClientDecision::Pending { .. } => {}
        }
    }

    /// Each client that is up was accepted, and each that is gone was reported.
    fn check_up(&self, up: &[(u64, String)], half_open: usize) -> Result<(), Violation> {
        let is_established = |known: &ClientState| known.accepted && !known.denied && known.established;
        for (number, name) in up {
            let known = self.clients.get(number);
            if !known.is_some_and(is_established) {
                return Err(Violation::new(format!(
                    "{name} is up, of which the management client knows {known:?}"
                )));
            }
        }
        if self.clients.len() > up.len() + half_open {
            let known = &self.clients;
            return Err(Violation::new(format!(
                "the management client still knows clients that are gone: {known:?}"
            )));
        }
        Ok(())
    }
}

impl World {
    /// The management client gets an event of a client, and will answer if it is a request.
    pub(crate) fn notify_management(&mut self, number: usize, event: &ClientEvent) -> Result<(), Violation> {
        self.log(format_args!("end {number} notifies the management client: {event:?}"));
        self.checks.management.handle_event(event)?;
        match &event.step {
            ClientStep::AuthRequest { key, .. } => {
                let request =
                    PendingRequest::ManagementAuth { client: event.client, key: *key, again: false };
                self.schedule_answer(number, request);
                Ok(())
            }
            ClientStep::Established { networks } => {
                self.check_addresses(event, networks.iter().filter(|(_, own)| *own))
            }
            ClientStep::Addressed { .. }
            | ClientStep::ChallengeResponse { .. }
            | ClientStep::Disconnected => Ok(()),
        }
    }

    /// The addresses in the event are those that the client has.
    fn check_addresses<'a>(
        &self,
        event: &ClientEvent,
        own: impl Iterator<Item = &'a (adit_core::IpNet, bool)>,
    ) -> Result<(), Violation> {
        let reported: Vec<_> = own.map(|(network, _)| network.addr()).collect();
        let name = event.env.iter().find(|(name, _)| name == "common_name").map(|(_, value)| value);
        let client = (1..=self.scenario.clients).find(|number| Some(&client_name(*number)) == name);
        let tunnel = client.and_then(|client| self.model.tunnels.get(client - 1)?.server.as_ref());
        match tunnel {
            Some((_, addresses)) if *addresses == reported => Ok(()),
            _ => Err(Violation::new(format!(
                "the management client gets {reported:?} for {name:?}: {tunnel:?}"
            ))),
        }
    }

    /// The management client accepts a client, or asks it for a step first; with faults it may also refuse, even after
    /// it accepted, or not answer.
    pub(crate) fn management_decides(
        &mut self,
        number: usize,
        (client, key): (u64, u32),
        again: bool,
    ) -> Result<(), Violation> {
        let bad = self.net.faulty;
        let decision = match self.checks.management.rng.below(20) {
            0 if bad => ClientDecision::Deny { reason: "not today".to_owned(), told: String::new() },
            1 if bad && !again => return Ok(()),
            2..=6 if !again => {
                let text = "WEB_AUTH::https://login.example/".to_owned();
                ClientDecision::Pending { text, timeout: WAIT }
            }
            _ => ClientDecision::Accept(None),
        };
        let decides_again = match decision {
            ClientDecision::Pending { .. } => true,
            _ => bad && !again && self.checks.management.rng.chance(100),
        };
        if decides_again {
            self.schedule_answer(number, PendingRequest::ManagementAuth { client, key, again: true });
        }
        self.log(format_args!(
            "the management client decides about client {client} with keys {key}: {decision:?}"
        ));
        self.checks.management.decide(client, key, &decision);
        self.reply(number, Reply::ClientDecision { client, key, decision })
    }

    /// Checks the clients that are up and half-open against the management client's.
    pub(crate) fn check_management(&self) -> Result<(), Violation> {
        let Some(Machine::Server(server)) = self.hosts[SERVER].end.as_ref().map(|end| &end.machine) else {
            return Ok(());
        };
        if !self.scenario.auth.management {
            return Ok(());
        }
        let identity = |(_, info): (_, PeerInfo)| (info.detail.number, info.name);
        let up: Vec<_> = server.peers().into_iter().map(identity).collect();
        self.checks.management.check_up(&up, server.half_open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn management() -> Management {
        Management::new(Rng::new(1, 1))
    }

    fn event(client: u64, step: ClientStep) -> ClientEvent {
        ClientEvent { client, step, env: Vec::new() }
    }

    fn asks(client: u64, key: u32, again: bool) -> ClientEvent {
        event(client, ClientStep::AuthRequest { key, again, password: String::new().into() })
    }

    fn enters(client: u64) -> ClientEvent {
        event(client, ClientStep::Established { networks: vec![("10.8.0.2/32".parse().unwrap(), true)] })
    }

    fn deny() -> ClientDecision {
        ClientDecision::Deny { reason: String::new(), told: String::new() }
    }

    #[test]
    fn a_client_is_established_once_accepted_and_leaves_once() {
        let mut management = management();
        management.handle_event(&asks(4, 1, false)).unwrap();
        management.decide(4, 1, &ClientDecision::Accept(None));
        assert_eq!(management.handle_event(&enters(4)), Ok(()));
        assert_eq!(management.check_up(&[(4, "ann".to_owned())], 0), Ok(()));
        assert!(management.check_up(&[], 0).is_err(), "it is gone, and was not reported");
        assert!(management.handle_event(&enters(4)).is_err(), "twice");
        assert_eq!(management.handle_event(&asks(4, 2, true)), Ok(()));
        assert_eq!(management.handle_event(&event(4, ClientStep::Disconnected)), Ok(()));
        assert!(management.handle_event(&event(4, ClientStep::Disconnected)).is_err(), "twice");
        assert!(management.handle_event(&asks(4, 1, false)).is_err(), "a number comes back");
        assert!(management.handle_event(&enters(5)).is_err(), "no request before");
    }

    #[test]
    fn no_client_is_established_before_it_is_accepted() {
        for (key, decision) in [(1, None), (1, Some(deny())), (2, Some(ClientDecision::Accept(None)))] {
            let mut management = management();
            management.handle_event(&asks(4, 1, false)).unwrap();
            if let Some(decision) = decision {
                management.decide(4, key, &decision);
            }
            assert!(management.handle_event(&enters(4)).is_err());
            assert!(management.check_up(&[(4, "ann".to_owned())], 0).is_err());
        }
    }

    #[test]
    fn no_client_stays_up_after_a_refusal() {
        let mut management = management();
        management.handle_event(&asks(4, 1, false)).unwrap();
        management.decide(4, 1, &ClientDecision::Accept(None));
        management.handle_event(&enters(4)).unwrap();
        management.decide(4, 1, &deny());
        assert!(management.check_up(&[(4, "ann".to_owned())], 0).is_err());
    }

    #[test]
    fn keys_are_numbered() {
        let mut management = management();
        assert!(management.handle_event(&asks(4, 2, false)).is_err());
        let mut management = self::management();
        management.handle_event(&asks(4, 1, false)).unwrap();
        assert!(management.handle_event(&asks(4, 2, true)).is_err(), "it is not established");
        let response = ClientStep::ChallengeResponse { key: 7, response: String::new().into() };
        assert!(management.handle_event(&event(4, response)).is_err());
    }
}

//! A management client that authenticates clients (`management-client-auth`), in place of the scripts or beside them:
//! the events that it gets must be true, no client is up without its consent, and none stays up after its refusal.

use std::collections::{BTreeMap, BTreeSet};

use adit_openvpn::request::{ClientDecision, ClientEvent, ClientStep};

use crate::rng::Rng;
use crate::violation::Violation;

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
    pub(crate) rng: Rng,
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
    pub(crate) fn handle_event(&mut self, event: &ClientEvent) -> Result<(), Violation> {
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
    pub(crate) fn decide(&mut self, client: u64, key: u32, decision: &ClientDecision) {
        let Some(known) = self.clients.get_mut(&client).filter(|known| known.key == key) else { return };
        match decision {
            ClientDecision::Accept(_) => known.accepted = true,
            ClientDecision::Deny { .. } => known.denied = true,
            ClientDecision::Pending { .. } => {}
        }
    }

    /// Each client that is up was accepted, and each that is gone was reported.
    pub(crate) fn check_up(&self, up: &[(u64, String)], half_open: usize) -> Result<(), Violation> {
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

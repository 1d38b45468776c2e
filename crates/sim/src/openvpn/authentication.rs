//! How the server's clients are authenticated: by scripts, with messages and challenges to the clients, and by the management
//! client.

use std::time::Duration;

use adit_openvpn::request::{ClientDecision, ClientEvent, ClientStep, Reply, Script, ScriptOutcome};

use crate::openvpn::challenges::{ARRIVES_WITHIN, CHALLENGE, MESSAGE, Sent, times};
use crate::openvpn::end::PendingRequest;
use crate::openvpn::identity::client_name;
use crate::openvpn::model::SERVER;
use crate::openvpn::settings::{CLIENT_CRRESPONSE, LEARN_ADDRESS, VERIFY_PASSWORD};
use crate::openvpn::world::World;
use crate::violation::Violation;

/// The exit code of a script that defers its answer.
const DEFERRED: i32 = 2;
/// The beginning of a client's report of a message from the server.
const REPORTED: &str = "the server says: ";
/// How long a client may take for a step that the management client asks of it.
const WAIT: Duration = Duration::from_secs(60);

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
        let by = (self.hosts[SERVER].generation, script.id);
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
}

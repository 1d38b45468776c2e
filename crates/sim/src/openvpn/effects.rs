//! Applies the effects of ends to the network, the model and the checks, and answers their requests.

use adit_core::{Ended, PeerId, Transport};
use adit_openvpn::request::{ChallengeResponse, PeerInfo, Reply, Script, ScriptOutcome, UserPassword};

use crate::openvpn::end::{Effect, PendingRequest};
use crate::openvpn::event::{Event, Order};
use crate::openvpn::identity::client_name;
use crate::openvpn::limits::CLIENT;
use crate::openvpn::model::SERVER;
use crate::openvpn::scenario::RESTART_AFTER;
use crate::openvpn::settings::{self, LEARN_ADDRESS};
use crate::openvpn::world::{START, World};
use crate::violation::Violation;

/// The exit code of a script that defers its answer.
const DEFERRED: i32 = 2;
/// The reasons in a server's log for clients that it drops because their time is over.
const BY_LIMITS: [&str; 2] = ["(session-timeout)", "(inactive)"];

impl World {
    /// Applies the effects of an end.
    pub(crate) fn settle(&mut self, number: usize) -> Result<(), Violation> {
        let Some(end) = self.hosts[number].end.as_mut() else { return Ok(()) };
        for effect in end.take_effects() {
            self.apply_effect(number, effect)?;
        }
        self.schedule_inputs(number);
        Ok(())
    }

    fn apply_effect(&mut self, number: usize, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Control { path, datagram } => {
                // A third-party client chooses its wrapping and its packets' size by itself.
                let ours = self.scenario.implementation(number).is_none();
                if ours {
                    self.model.wrapped(number, &datagram)?;
                }
                if ours && path.transport() == Transport::Udp {
                    self.model.check_size(number, &datagram)?;
                }
                let text = format_args!(
                    "end {number} control {} bytes to {path}: {}",
                    datagram.len(),
                    Head(&datagram)
                );
                self.trace.note(self.now, &datagram, text);
                self.send(number, path, &datagram);
            }
            Effect::Sealed { path, datagram } => {
                self.model.sealed(self.now, number, &datagram)?;
                let text =
                    format_args!("end {number} data {} bytes to {path}: {}", datagram.len(), Head(&datagram));
                // The tag stands for all that follows it.
                self.trace.note(self.now, datagram.get(..24).unwrap_or(&datagram), text);
                self.send(number, path, &datagram);
            }
            Effect::Packet(packet) => {
                let id = crate::packet::number(&packet).unwrap_or(u64::MAX);
                let text = format_args!("end {number} delivers packet {id}");
                self.trace.note(self.now, &id.to_le_bytes(), text);
                let sender = self.model.deliver(self.now, number, &packet)?;
                match (sender, number) {
                    (SERVER, SERVER) => {}
                    (client, SERVER) => self.checks.limits.record_packet(self.now, client, SERVER),
                    (_, client) => self.checks.limits.record_packet(self.now, client, CLIENT),
                }
            }
            Effect::Installed(install) => {
                self.log(format_args!("end {number} installs {:?} of {:?}", install.session, install.peer));
                self.model.install(self.now, number, &install)?;
            }
            Effect::Egress(order, install) => self.schedule_order(number, 0, Order::Egress(order, install)),
            Effect::Ingress(order) => self.schedule_order(number, 1, Order::Ingress(order)),
            Effect::Open { remote } => self.open(number, remote),
            Effect::Close { path } => {
                let transits = self.net.close(self.now, number, path);
                self.schedule_transits(transits);
            }
            Effect::Request(request) => {
                self.check_request(number, &request)?;
                self.schedule_request(number, request);
            }
            // The script still runs to its end: its late result must have no effect.
            Effect::DropScript(id) => self.checks.challenges.drop_script(id),
            Effect::Management(event) => self.notify_management(number, &event)?,
            Effect::Leased(entry) => drop(self.leases.insert(entry.name.clone(), entry)),
            Effect::Report(report) => {
                self.log(format_args!("end {number} says: {report}"));
                self.read_report(number, &report.text)?;
            }
            Effect::Ended(ended) => self.ended(number, &ended)?,
            effect => self.apply_tunnel_effect(number, effect)?,
        }
        Ok(())
    }

    /// A tunnel or a peer came up or went down.
    fn apply_tunnel_effect(&mut self, number: usize, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Up(settings) => {
                let addresses = settings.addresses.iter().map(adit_core::IpNet::addr).collect();
                self.log(format_args!("end {number} is up: {addresses:?}"));
                if number == SERVER {
                    self.model.server_addresses = addresses;
                } else {
                    self.stats.handshakes += 1;
                    self.checks.limits.begin(self.now, number, CLIENT);
                    self.model.tunnels[number - 1].client = Some((self.now, addresses));
                    self.note_recovery();
                }
            }
            Effect::Down => self.log(format_args!("end {number} is down")),
            Effect::PeerUp(peer, info) if number == SERVER => self.peer_up(peer, &info)?,
            Effect::PeerDown(peer, reason) => self.peer_down(number, peer, &reason)?,
            _ => {}
        }
        Ok(())
    }

    fn peer_up(&mut self, peer: PeerId, info: &PeerInfo) -> Result<(), Violation> {
        self.log(format_args!("end 0: {} is up as {peer:?}: {:?}", info.name, info.addresses));
        let found = (1..=self.scenario.clients).find(|number| client_name(*number) == info.name);
        let Some(client) = found else {
            return Err(Violation::new(format!("the server admitted \"{}\"", info.name)));
        };
        for (index, other) in self.model.tunnels.iter().enumerate() {
            let shared = other.server.as_ref().is_some_and(|(_, addresses)| {
                addresses.iter().any(|address| info.addresses.contains(address))
            });
            if shared && index + 1 != client {
                return Err(Violation::new(format!("two clients have addresses of {:?}", info.addresses)));
            }
        }
        // The server knows one address of a point-to-point tunnel's other end.
        let addresses = match self.scenario.point_to_point {
            Some(_) => settings::point_to_point_addresses(client).to_vec(),
            None => info.addresses.clone(),
        };
        if !addresses.starts_with(&info.addresses) {
            return Err(Violation::new(format!("the other end has {:?}", info.addresses)));
        }
        self.model.check_address(client, &addresses)?;
        self.checks.limits.begin(self.now, client, SERVER);
        let tunnel = &mut self.model.tunnels[client - 1];
        if let Some(other) = tunnel.peer {
            return Err(Violation::new(format!("{} is up as {peer:?} and as {other:?}", info.name)));
        }
        tunnel.server = Some((self.now, addresses));
        tunnel.peer = Some(peer);
        self.note_recovery();
        Ok(())
    }

    fn peer_down(&mut self, number: usize, peer: PeerId, reason: &str) -> Result<(), Violation> {
        self.log(format_args!("end {number}: {peer:?} is down: {reason}"));
        let client = if number == SERVER { self.model.client_of(peer) } else { Some(number) };
        let Some(client) = client else {
            return Err(Violation::new(format!("end {number} lost {peer:?}, which it never had")));
        };
        if BY_LIMITS.iter().any(|limit| reason.contains(limit)) {
            self.checks.limits.end(self.now, client, SERVER, self.model.awake[number])?;
        }
        let excused = self.checks.limits.is_excused(self.now, client, &self.model.tunnels[client - 1]);
        if self.is_calm() && !excused {
            return Err(Violation::new(format!("end {number} lost {peer:?} on a clean net: {reason}")));
        }
        let tunnel = &mut self.model.tunnels[client - 1];
        if number == SERVER {
            tunnel.leave(self.now)
        } else {
            tunnel.client = None
        }
        Ok(())
    }

    /// Logs a request and schedules its reply.
    fn schedule_request(&mut self, number: usize, request: PendingRequest) {
        self.log(format_args!("end {number} requests: {request:?}"));
        self.schedule_answer(number, request);
    }

    pub(crate) fn schedule_answer(&mut self, number: usize, request: PendingRequest) {
        let time =
            if self.net.faulty { self.rng.faults.millis(0, 5000) } else { self.rng.faults.millis(0, 200) };
        let generation = self.hosts[number].generation;
        self.schedule(self.now + time, Event::Reply { end: number, generation, request });
    }

    pub(crate) fn answer_request(
        &mut self,
        number: usize,
        generation: u32,
        request: PendingRequest,
    ) -> Result<(), Violation> {
        if self.hosts[number].generation != generation {
            return Ok(());
        }
        let reply = match request {
            PendingRequest::Script(script, later) => return self.script_ends(number, script, later),
            PendingRequest::ManagementAuth { client, key, again } => {
                return self.management_decides(number, (client, key), again);
            }
            PendingRequest::Settings(peer, name) => {
                let client = (1..=self.scenario.clients).find(|number| client_name(*number) == name);
                let settings = settings::of_client(&self.scenario, client.unwrap_or_default());
                Reply::PeerSettings { peer, name, settings: Ok(Box::new(settings)) }
            }
            PendingRequest::Credentials => Reply::Credentials(Ok(UserPassword {
                username: client_name(number),
                password: "correct horse".to_owned().into(),
            })),
            PendingRequest::Challenge(challenge) => {
                let answer = Ok(format!("answer to {}", challenge.text).into());
                Reply::ChallengeResponse(ChallengeResponse { id: challenge.id, answer })
            }
        };
        self.reply(number, reply)
    }

    /// A script accepts or defers its answer; with faults it also refuses or is killed.
    fn script_ends(&mut self, number: usize, script: Box<Script>, later: bool) -> Result<(), Violation> {
        if let Some(outcome) = self.challenge_first(&script) {
            let id = script.id;
            self.schedule_answer(number, PendingRequest::Script(script, true));
            return self.reply(number, Reply::ScriptDone { id, outcome });
        }
        let bad = self.net.faulty;
        let learns = script.argv.first().is_some_and(|name| name == LEARN_ADDRESS);
        let exit = match self.rng.faults.below(20) {
            // `learn-address` always accepts: a client would not have an address that it refuses.
            _ if learns => Ok(0),
            0 if bad => Ok(1),
            1 if bad => Err("killed".to_owned()),
            2..=7 if script.defers => Ok(DEFERRED),
            _ => Ok(0),
        };
        let exit = if later { Ok(DEFERRED) } else { exit };
        let verdict = match (later, bad && self.rng.faults.chance(100)) {
            (false, _) => "",
            (true, true) => "0",
            (true, false) => "1",
        };
        self.log(format_args!("end {number}'s script {} ends: {exit:?} {verdict}", script.argv.concat()));
        let deferred = exit == Ok(DEFERRED) && !later;
        let settings = (script.settings.is_some() && !deferred).then(|| Ok(Box::default()));
        let outcome = ScriptOutcome { exit, files: vec![verdict.as_bytes().to_vec()], settings };
        let id = script.id;
        if deferred {
            self.schedule_answer(number, PendingRequest::Script(script, true));
        }
        self.reply(number, Reply::ScriptDone { id, outcome })
    }

    /// A client came up at one end: notes how long after the faults.
    fn note_recovery(&mut self) {
        let phases = &self.scenario.phases;
        self.stats.recovery = self.now - (START + phases.start + phases.faults);
    }

    fn ended(&mut self, number: usize, ended: &Ended) -> Result<(), Violation> {
        self.log(format_args!("end {number} ended: {ended:?}"));
        self.check_end(number, ended)?;
        if let Ended::Failed(reason) = ended {
            self.stats.failures += 1;
            // Without wrapping, damage can look like the peer's own refusal.
            let refused = self.scenario.has_authenticator() && reason.contains("AUTH_FAILED");
            if !self.scenario.forgeable() && !refused {
                return Err(Violation::new(format!("end {number} gave up for good: {reason}")));
            }
        }
        self.crash(number);
        self.schedule(self.now + RESTART_AFTER, Event::Start(number));
        Ok(())
    }

    fn open(&mut self, number: usize, remote: usize) {
        let transport = self.scenario.remotes[remote.min(self.scenario.remotes.len() - 1)];
        let time = if self.net.faulty {
            self.rng.workload.millis(1, 3000)
        } else {
            self.rng.workload.millis(1, 100)
        };
        let generation = self.hosts[number].generation;
        self.schedule(
            self.now + time,
            Event::OpenCompleted { client: number, generation, transport, remote },
        );
    }
}

/// The first bytes of a datagram, in hexadecimal.
struct Head<'a>(&'a [u8]);

impl std::fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.0.first().copied().unwrap_or_default();
        write!(f, "op {} key {} ", code >> 3, code & 7)?;
        self.0.iter().skip(1).take(24).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

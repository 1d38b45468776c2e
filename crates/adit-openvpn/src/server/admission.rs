//! How strangers become peers: what they have shown so far, and whether there is room for one more.

use adit_core::{Event, Path, PeerId, Rejected, ScriptId, Severity, Transport};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::door::{Knock, Newcomer};
use super::gate::Gate;
use super::peer::Peer;
use super::prospect::{Prospect, prospect};
use super::{Server, peek_sid};

/// Clients in the middle of their first handshake, all together. Those who wait for a person are counted apart: whoever
/// judges them knows them, and of these there may be as many as clients (`max-clients`), all at one address.
const MAX_HALF_OPEN: usize = 1024;
/// Of these, from one IPv4 address or IPv6 /64.
const MAX_HALF_OPEN_OF_ONE: usize = 128;
/// Of these, without a proof of their address: tls-crypt-v2 clients before OpenVPN 2.6.
const MAX_UNPROVEN: usize = 64;

impl Server {
    /// A control packet that belongs to no session. `None`: it was answered, and that is all for now.
    pub(super) fn admit(&mut self, path: Path, datagram: &[u8]) -> Result<Option<PeerId>, Rejected> {
        if self.goodbye_until.is_some() {
            return Err(Rejected::Limited("the server is shutting down"));
        }
        if !self.may_be_at(path) {
            return Err(Rejected::Unexpected("not from the address that `remote` names (without `float`)"));
        }
        if self.up > 0 && self.params.point.as_ref().is_some_and(|point| point.single) {
            return Err(Rejected::Limited("one peer, which is here (single-session)"));
        }
        if let Some(sid) = peek_sid(datagram) {
            self.key_judge.lets_knock(self.now, path, sid)?;
        }
        match prospect(&self.params, path, datagram)? {
            Prospect::Answer { larger } => {
                self.door.check_answers(self.now, &self.params, path, larger, &mut self.events)?;
            }
            Prospect::Session => self.check_room(path, false)?,
            Prospect::Open => {}
        }
        let newcomer = match self.door.knock(self.now, &self.params, path, datagram, &mut self.events)? {
            Knock::Answered => return Ok(None),
            Knock::Enter(newcomer) => newcomer,
        };
        let judge = self.params.access.key_verify.clone().filter(|_| newcomer.metadata.is_some());
        let Some(argv) = judge else { return self.enter(path, newcomer).map(Some) };
        self.admitted += 1;
        let id = ScriptId { owner: self.admitted, number: 0 };
        let ask = (id, argv, self.params.control.hand_window);
        let event = self.key_judge.ask(self.now, (path, datagram), newcomer, ask)?;
        self.events.push_back(event);
        Ok(None)
    }

    /// A newcomer gets a session.
    fn enter(&mut self, path: Path, newcomer: Newcomer) -> Result<PeerId, Rejected> {
        self.check_room(path, newcomer.cookie.is_some() || path.transport() == Transport::Tcp)?;
        let id = self.free_peer_id().ok_or(Rejected::Limited("peer ids"))?;
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let sid = newcomer.sid;
        let mut session = [0; 12];
        if self.params.access.tokens.is_some() {
            self.rng.fill_bytes(&mut session);
        }
        self.admitted += 1;
        let gate = Gate::new(self.params.clone(), self.admitted, session);
        let peer =
            Peer::new(self.now, id, path, newcomer, gate, self.control.clone(), ChaCha20Rng::from_seed(seed))
                .map_err(|_| Rejected::Limited("TLS cannot start a session"))?;
        self.peers.insert(id, peer);
        self.half_open.insert(id);
        self.by_sid.insert((path, sid), id);
        self.silent.remove(&path);
        Ok(id)
    }

    /// Whether one more client may begin its handshake.
    fn check_room(&self, path: Path, proven: bool) -> Result<(), Rejected> {
        let here = path.subscriber();
        let (mut put_off, mut all, mut neighbours, mut unproven) = (0, 0, 0, 0);
        for peer in self.half_open.iter().filter_map(|id| self.peers.get(id)) {
            if peer.is_put_off() {
                put_off += 1;
                continue;
            }
            all += 1;
            neighbours += usize::from(peer.path().subscriber() == here);
            unproven += usize::from(!peer.is_proven());
        }
        if all >= MAX_HALF_OPEN {
            return Err(Rejected::Limited("clients in the middle of their handshake"));
        }
        if neighbours >= MAX_HALF_OPEN_OF_ONE {
            return Err(Rejected::Limited("clients of one address in the middle of their handshake"));
        }
        if put_off >= self.params.max_clients {
            return Err(Rejected::Limited("clients that were told to do something first"));
        }
        if !proven && unproven >= MAX_UNPROVEN {
            return Err(Rejected::Limited("clients that cannot prove their address"));
        }
        Ok(())
    }

    /// Ids go round, so that one just given up is not taken at once.
    fn free_peer_id(&mut self) -> Option<PeerId> {
        // 0xFFFFFF means "no peer id" on the wire; a slot for each client and half-open client is enough.
        let clients = self.params.max_clients.saturating_mul(2);
        let slots = u32::try_from(clients.saturating_add(MAX_HALF_OPEN)).unwrap_or(u32::MAX).min(0xFF_FFFF);
        (0..slots)
            .map(|step| PeerId((self.next_peer.wrapping_add(step)) % slots))
            .find(|id| !self.peers.contains_key(id))
            .inspect(|id| self.next_peer = (id.0 + 1) % slots)
    }

    /// A newcomer's key is good.
    pub(super) fn let_through(&mut self, path: Path, newcomer: Newcomer, datagram: &[u8]) {
        if self.goodbye_until.is_some() {
            return;
        }
        match self.enter(path, newcomer) {
            Ok(id) => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    // What is wrong with it is as if it had not come; the client sends it again.
                    let _ = peer.handle_datagram(self.now, datagram);
                }
                self.settle(id);
            }
            Err(why) => self.report(Severity::Warning, Some(path), format!("a client is not let in: {why}")),
        }
    }

    /// A newcomer's key is not good.
    pub(super) fn turn_away(&mut self, path: Path, reason: &str) {
        self.report(Severity::Warning, Some(path), format!("a client is not let in: {reason}"));
        if self.silent.remove(&path).is_some() {
            self.events.push_back(Event::Close { path });
        }
    }
}

//! How strangers become peers: what they have shown so far, and whether there is room for one more.

use adit_core::{Path, PeerId, Rejected, ScriptId, Severity, Transport};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::Server;
use super::door::{Knock, Newcomer};
use super::gate::Gate;
use super::key_judge::Inquiry;
use super::limits::HANDSHAKES;
use super::peer::Peer;
use super::prospect::{Prospect, prospect};
use crate::wire::Sid;

impl Server {
    /// A control packet that belongs to no session. `None`: it was answered, and that is all for now.
    pub(super) fn admit(
        &mut self,
        (path, sid): (Path, Sid),
        datagram: &[u8],
    ) -> Result<Option<PeerId>, Rejected> {
        if self.goodbye_until.is_some() {
            return Err(Rejected::Limited("the server is shutting down"));
        }
        if !self.may_be_at(path) {
            return Err(Rejected::Unexpected("not from the address that `remote` names (without `float`)"));
        }
        if self.up > 0 && self.params.point.as_ref().is_some_and(|point| point.single) {
            return Err(Rejected::Limited("one peer, which is here (single-session)"));
        }
        if self.key_judge.keep((path, sid), datagram) {
            return Ok(None);
        }
        self.key_judge.check(self.now, datagram)?;
        match prospect(&self.params, path, datagram)? {
            Prospect::Answer { larger } => {
                self.door.check_answers(self.now, &self.params, path, larger, &mut self.events)?;
            }
            Prospect::Session => self.half_open.check_room(path, false)?,
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
        let patience = self.params.control.hand_window;
        let inquiry = Inquiry { id, argv, patience };
        let evicted = self.key_judge.ask(self.now, (path, datagram), newcomer, inquiry, &mut self.events)?;
        self.silent.heard(path, self.now + patience.saturating_mul(2));
        if let Some(evicted) = evicted {
            self.report_full("clients whose keys are being judged");
            self.close_unused(evicted);
        }
        Ok(None)
    }

    /// A newcomer gets a session.
    fn enter(&mut self, path: Path, newcomer: Newcomer) -> Result<PeerId, Rejected> {
        let proven = newcomer.cookie.is_some() || path.transport() == Transport::Tcp;
        self.half_open.check_room(path, proven)?;
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
        self.by_sid.insert((path, sid), id);
        self.silent.remove(path);
        if let Some(evicted) = self.half_open.insert(path, id, proven) {
            self.evict(evicted);
        }
        Ok(id)
    }

    /// Ids go round, so that one just given up is not taken at once.
    fn free_peer_id(&mut self) -> Option<PeerId> {
        // 0xFFFFFF means "no peer id" on the wire; a slot for each client and half-open client is enough.
        let clients = self.params.max_clients.saturating_mul(2);
        let slots =
            u32::try_from(clients.saturating_add(HANDSHAKES.total + 1)).unwrap_or(u32::MAX).min(0xFF_FFFF);
        (0..slots)
            .map(|step| PeerId((self.next_peer.wrapping_add(step)) % slots))
            .find(|id| !self.peers.contains_key(id))
            .inspect(|id| self.next_peer = (id.0 + 1) % slots)
    }

    /// A newcomer's key is good.
    pub(super) fn let_through(&mut self, path: Path, newcomer: Newcomer, datagrams: &[Vec<u8>]) {
        if self.goodbye_until.is_some() {
            return;
        }
        match self.enter(path, newcomer) {
            Ok(id) => {
                for datagram in datagrams {
                    let Some(peer) = self.peers.get_mut(&id) else { break };
                    // One that is refused counts as lost; the client sends it again.
                    let _ = peer.handle_datagram(self.now, datagram);
                    self.settle(id);
                }
            }
            Err(why) => {
                let text = format!("a client is not let in: {why}");
                self.report_unauthenticated(Severity::Warning, path, text);
            }
        }
    }

    /// The key that these clients brought is not good.
    pub(super) fn turn_away(&mut self, paths: &[Path], reason: &str) {
        if let Some(path) = paths.first() {
            let text = format!("a client is not let in: {reason}");
            self.report_unauthenticated(Severity::Warning, *path, text);
        }
        paths.iter().for_each(|path| self.close_unused(*path));
    }
}

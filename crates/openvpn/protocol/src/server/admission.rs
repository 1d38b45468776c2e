//! How unauthenticated clients become peers: the proofs that they have given so far, and whether there is room for one
//! more.

use adit_core::{AnswerLimit, Path, PeerId, Rejected, Severity, Transport};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::Server;
use super::authentication::Authentication;
use super::limits::HANDSHAKES;
use super::peer::Peer;
use super::pre_auth::{PendingClient, PreAuthOutcome};
use super::pre_check::{PreCheck, pre_check};
use super::tls_crypt_v2_verify::KeyQuery;
use crate::request::ScriptId;
use crate::wire::Sid;

impl Server {
    /// A control packet that belongs to no control channel. `None`: it was answered, and that is all for now.
    pub(super) fn admit(
        &mut self,
        (path, sid): (Path, Sid),
        datagram: &[u8],
    ) -> Result<Option<PeerId>, Rejected> {
        if self.exit_until.is_some() {
            return Err(Rejected::Limited("the server is shutting down"));
        }
        if !self.may_be_at(path) {
            return Err(Rejected::Unexpected("not from the address that `remote` names (without `float`)"));
        }
        if self.up > 0 && self.params.point_to_point.as_ref().is_some_and(|point| point.single) {
            return Err(Rejected::Limited("one peer, which is here (single-session)"));
        }
        if self.tls_crypt_v2_verify.keep((path, sid), datagram) {
            return Ok(None);
        }
        self.tls_crypt_v2_verify.check(self.now, datagram)?;
        match pre_check(&self.params, path, datagram)? {
            PreCheck::Answer { larger } => {
                let (now, foresee) = (self.now, AnswerLimit::foresee);
                self.pre_auth.check_copies(now, &self.params, datagram, foresee)?;
                self.pre_auth.check_answer(now, &self.params, path, larger, foresee, &mut self.events)?;
            }
            PreCheck::ControlChannel => self.half_open.check_room(path, false)?,
            PreCheck::Open => {}
        }
        let pending = match self.pre_auth.handle_initial_packet(
            self.now,
            &self.params,
            path,
            datagram,
            &mut self.events,
        )? {
            PreAuthOutcome::Answered => return Ok(None),
            PreAuthOutcome::Enter(pending) => pending,
        };
        let judge = self.params.access.key_verify.clone().filter(|_| pending.metadata.is_some());
        let Some(argv) = judge else { return self.enter(path, pending).map(Some) };
        self.admitted += 1;
        let id = ScriptId { owner: self.admitted, number: 0 };
        let timeout = self.params.control.rekey.handshake;
        let query = KeyQuery { id, argv, timeout };
        let evicted =
            self.tls_crypt_v2_verify.ask(self.now, (path, datagram), pending, query, &mut self.events)?;
        self.silent.heard(path, self.now + timeout.saturating_mul(2));
        if let Some(evicted) = evicted {
            self.report_full("clients whose keys are being judged");
            self.close_unused(evicted);
        }
        Ok(None)
    }

    /// Gives a pending client a control channel.
    fn enter(&mut self, path: Path, pending: PendingClient) -> Result<PeerId, Rejected> {
        let proven = pending.cookie.is_some() || path.transport() == Transport::Tcp;
        self.half_open.check_room(path, proven)?;
        let id = self.free_peer_id().ok_or(Rejected::Limited("peer ids"))?;
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let sid = pending.sid;
        let mut login_id = [0; 12];
        if self.params.access.tokens.is_some() {
            self.rng.fill_bytes(&mut login_id);
        }
        self.admitted += 1;
        let authentication = Authentication::new(self.params.clone(), self.admitted, login_id);
        let peer = Peer::new(
            self.now,
            id,
            path,
            pending,
            authentication,
            self.control.clone(),
            ChaCha20Rng::from_seed(seed),
        )
        .map_err(|_| Rejected::Limited("TLS cannot start"))?;
        self.peers.insert(id, peer);
        self.by_sid.insert((path, sid), id);
        self.silent.remove(path);
        if let Some(evicted) = self.half_open.insert(path, id, proven) {
            self.evict(evicted);
        }
        Ok(id)
    }

    /// Gives out ids in a circle, so that an id that was just given up is not taken at once.
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

    /// The key of a pending client was accepted.
    pub(super) fn let_through(&mut self, path: Path, pending: PendingClient, datagrams: &[Vec<u8>]) {
        if self.exit_until.is_some() {
            return;
        }
        match self.enter(path, pending) {
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

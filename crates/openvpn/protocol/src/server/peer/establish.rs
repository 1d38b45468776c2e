//! The server let a client in: the agreement of both, and the options that it is pushed.

use std::time::Duration;

use adit_core::{Instant, PeerOrder, Severity};

use super::{LaterAddresses, Peer, Up, Verdict};
use crate::codec::{DataHeader, Payloads};
use crate::control_message::encode_push_reply;
use crate::data_keys::Agreement;
use crate::lease::ClientLease;
use crate::lifetime::Lifetime;
use crate::liveness::Liveness;
use crate::negotiate::{choose_cipher, doubtful_fragments, iv_proto};
use crate::outbox::Outbox;
use crate::request::{DataEvent, Event, PeerSettings};
use crate::server::settings::{PushOf, push_options};

/// A push reply that was just sent is not sent again.
const PUSH_AGAIN_AFTER: Duration = Duration::from_secs(4);

impl Peer {
    /// The server admitted us with these addresses: agree on the data channel and push.
    pub(in crate::server) fn establish(
        &mut self,
        now: Instant,
        lease: ClientLease,
        settings: &PeerSettings,
        events: &mut Outbox,
    ) {
        if self.params.point_to_point.is_some() {
            return self.establish_without_push(now, lease, events);
        }
        let Some(agreement) = self.agree() else {
            self.refuse_cipher(now, events);
            return;
        };
        let peer_id = match agreement.header {
            DataHeader::V1 => None,
            DataHeader::V2 { peer_id } => Some(peer_id),
        };
        let max_mss = self.max_mss_of(&agreement);
        events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Add(self.peer_config(&lease, max_mss)))));
        let of =
            PushOf { lease: &lease, settings, agreement: &agreement, peer_id, abilities: &self.abilities };
        let mut options = push_options(&self.params, &of);
        if let Some(token) = self.authentication.token(now) {
            options.push(format!("auth-token {}", *token));
            options.extend(self.authentication.token_username());
        }
        let push_messages = match encode_push_reply(&options) {
            Ok(messages) => messages,
            Err(error) => {
                self.verdict = Some(Verdict::Remove { reason: error.to_string(), severity: Severity::Error });
                return;
            }
        };
        let learning = LaterAddresses::default();
        self.up = Some(Up { lease, since: now, push_messages, pushed_at: None, cc_exit: false, learning });
        self.lifetime = Lifetime::new(now, self.params.limits.merged(settings.limits));
        self.enter(now, agreement, self.abilities.wraps_dynamically(), events);
        if self.abilities.has(iv_proto::REQUEST_PUSH) || self.asked_early {
            self.push(now);
        }
    }

    /// The client's session has that username from now on (`override-username`).
    ///
    /// # Errors
    /// Why it cannot have it, for the log.
    pub(in crate::server) fn override_username(
        &mut self,
        name: &str,
        events: &mut Outbox,
    ) -> Result<(), String> {
        let Some(before) = self.authentication.override_username(name)?.map(str::to_owned) else {
            return Ok(());
        };
        let text =
            format!("{}: its username is {name} from now on, not {before} (override-username)", self.name());
        self.tell(Severity::Info, text, events);
        Ok(())
    }

    /// The keys go to the data plane, and the host, scripts and programs learn that the client is up.
    pub(super) fn enter(&mut self, now: Instant, agreement: Agreement, dynamic: bool, events: &mut Outbox) {
        self.liveness = Liveness::new(now, self.params.keepalive);
        let outcome = self
            .channel
            .agreed(now, dynamic)
            .and_then(|()| self.data_keys.agree(agreement, &self.channel, events));
        if let Err(error) = outcome {
            self.verdict = Some(Verdict::Remove { reason: error.to_string(), severity: Severity::Warning });
            return;
        }
        self.authenticated = true;
        let doubt = doubtful_fragments(agreement.fragment.is_some(), self.channel.peer_options());
        if let Some(doubt) = doubt {
            self.tell(Severity::Warning, format!("{}: {doubt}", self.name()), events);
        }
        if let Some(info) = self.info() {
            events.push_back(Event::PeerUp { peer: self.id, info: Box::new(info) });
        }
    }

    fn agree(&self) -> Option<Agreement> {
        let data = &self.params.data;
        let cipher =
            choose_cipher(&data.ciphers, data.fallback, &self.abilities, self.occ_cipher.as_deref())?;
        let header = match self.abilities.has(iv_proto::DATA_V2) {
            true => DataHeader::V2 { peer_id: self.id.0 },
            false => DataHeader::V1,
        };
        let agreement = Agreement {
            cipher,
            digest: data.digest,
            header,
            compression: if self.migrates { self.abilities.migrated() } else { data.compression },
            exporter: self.abilities.has(iv_proto::TLS_KEY_EXPORT),
            epoch: self.abilities.takes_epochs(cipher),
            replay_window: data.replay_window,
            fragment: data.fragment_over(self.path.transport()),
            payloads: Payloads::default(),
        };
        Some(agreement.with_payloads(self.path, data.tun_mtu, data.decompress))
    }

    /// No cipher in common.
    fn refuse_cipher(&mut self, now: Instant, events: &mut Outbox) {
        let ours: Vec<&str> = self.params.data.ciphers.iter().map(|cipher| cipher.name()).collect();
        let theirs = match (self.abilities.ciphers.as_slice(), &self.occ_cipher) {
            ([], Some(cipher)) => cipher.clone(),
            ([], None) => "none".to_owned(),
            (list, _) => list.join(":"),
        };
        let reason = format!(
            "no data cipher in common; it offers {theirs}, data-ciphers here allows {}",
            ours.join(":")
        );
        self.refuse(now, "Data channel cipher negotiation failed (no shared cipher)", &reason, events);
    }

    pub(super) fn push(&mut self, now: Instant) {
        let Some(up) = &mut self.up else {
            self.asked_early = true;
            return;
        };
        if up.pushed_at.is_some_and(|at| now < at + PUSH_AGAIN_AFTER) {
            return;
        }
        up.pushed_at = Some(now);
        for message in &up.push_messages {
            self.channel.send_message(now, message);
        }
    }
}

//! A point-to-point tunnel: the key method 2 messages of both ends take the place of a push.

use adit_core::Instant;

use super::{Connection, Outcome, Terms};
use crate::data_keys::Agreement;
use crate::key_state::KeyStateError;
use crate::negotiate::{PeerAbilities, iv_proto, point_to_point_terms};
use crate::outbox::Outbox;
use crate::pushed::Pushed;
use crate::wire::TlsRole;

impl Connection {
    /// Both ends' key method 2 are there: the tunnel can come up.
    pub(super) fn establish_without_push(
        &mut self,
        now: Instant,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        let mut theirs = PeerAbilities::parse(self.channel.peer_info().unwrap_or_default());
        if !self.channel.may_export() {
            theirs.proto &= !iv_proto::EXPORTS;
        }
        let terms = match point_to_point_terms(TlsRole::Client, &self.params.data, &theirs) {
            Ok(terms) => terms,
            Err(reason) => {
                self.verdict = Some(Outcome::Fatal(reason));
                return Ok(());
            }
        };
        let agreement = Agreement::of_point_to_point(&terms, &self.params.data, &self.channel, self.path)?;
        let data = &self.params.data;
        // Nothing was pushed.
        let pushed = Pushed::default();
        let server = self.path.remote().ip();
        let settings = pushed.settings(&self.params.local, false, data.tun_mtu, server);
        let scripts = self.params.local.scripts.as_ref();
        let facts = scripts.map(|scripts| pushed.facts(scripts, (&self.params.local, &settings), false));
        let terms = Terms {
            agreement,
            dynamic: terms.wraps_dynamically(),
            keepalive: self.params.keepalive,
            limits: self.params.limits,
            cc_exit: terms.has(iv_proto::CC_EXIT) && self.remote.exit_notify,
            exit_notify: self.remote.exit_notify,
            settings,
            facts: facts.map(Box::new),
            pushed,
        };
        self.enter(now, terms, events)
    }
}

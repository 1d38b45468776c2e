//! The sessions under the static key: when one begins, and the keys that it seals with.

use adit_core::{Ended, Instant, OnFirstOpened, PeerId, SessionId};

use super::StaticTunnel;
use crate::codec::{Codec, Framing, StaticFraming, session_id};
use crate::keys::static_directions;
use crate::negotiate::{Shape, payloads};
use crate::request::{DataEvent, Install};
use crate::wrap::KeyDirection;

/// The one session.
pub(super) const SESSION: SessionId = session_id(PeerId::SERVER, 0);

impl StaticTunnel {
    /// A session begins, later than all before it. That must not come about more than once a second, least of all by
    /// packets of unauthenticated peers: sessions would run ahead of the clock, and the peer would not accept ours
    /// after our next start.
    pub(super) fn begin(&mut self) {
        let passed = (self.now - Instant::ORIGIN).as_secs();
        let wall = self.params.wall_at_origin.0.saturating_add(passed);
        let began = u32::try_from(wall).ok().zip(self.began.checked_add(1));
        let Some((wall, least)) = began else {
            let text = "the system's clock is beyond the year 2106, and a static key's packet ids end there";
            return self.end(Ended::Failed(text.to_owned()));
        };
        self.began = wall.max(least);
        let params = &self.params;
        let (cipher, digest) = (params.cipher, params.digest);
        let (seal, open) = static_directions(&params.key, params.direction, cipher, digest, &self.iv_key);
        let framing =
            Framing::StaticKey(StaticFraming { began: self.began, compression: params.compression });
        // The session stays when the path becomes one of the other address family.
        let payloads = payloads(None, params.tun_mtu, &Shape::from(params), params.decompress);
        let codec = Codec { framing, cipher, seal, open, replay_window: params.replay_window, payloads };
        let on_first_opened = match self.comes_from_anywhere() {
            true => OnFirstOpened::Activate,
            false => OnFirstOpened::Nothing,
        };
        let install = Install { on_first_opened, ..Install::new(PeerId::SERVER, SESSION, codec) };
        self.data(DataEvent::Install(Box::new(install)));
    }

    pub(super) fn activate(&mut self) {
        self.data(DataEvent::Activate { peer: PeerId::SERVER, session: SESSION });
    }

    /// Nothing was heard. With one key for both directions, an attacker may have replayed to us datagrams that we sent
    /// in an earlier run, and these are later than all datagrams of the peer: the counters that were taken must be
    /// forgotten, as OpenVPN does. With keys for each direction that cannot be, and nothing is taken twice.
    pub(super) fn forgive(&mut self) {
        if self.params.direction == KeyDirection::Bidirectional {
            self.data(DataEvent::Retire { peer: PeerId::SERVER, session: SESSION });
            self.begin();
            if self.seals {
                self.activate();
            }
        }
    }
}

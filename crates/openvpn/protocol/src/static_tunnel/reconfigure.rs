//! Other settings for a tunnel with a static key that runs.

use adit_core::PeerId;

use super::StaticTunnel;
use super::path::NOWHERE;
use super::session::SESSION;
use crate::params::StaticParams;
use crate::request::{DataEvent, Event};

/// Whether keys, and how they are used, are the same.
fn seal_alike(one: &StaticParams, other: &StaticParams) -> bool {
    let of = |params: &StaticParams| {
        (params.direction, params.cipher, params.digest, params.compression, params.replay_window)
    };
    let payloads = |params: &StaticParams| {
        // Buffers are as long as packets can be.
        let has_buffers = params.decompress || params.fragment.is_some();
        (params.decompress, params.fragment, has_buffers.then_some(params.tun_mtu))
    };
    one.key == other.key && of(one) == of(other) && payloads(one) == payloads(other)
}

impl StaticTunnel {
    /// Takes other settings. How long the peer may be silent, how long the session may last, `mssfix` and how often to
    /// try hold at once. The rest waits until the peer is looked or waited for anew, by [`adit_core::Command::Restart`] or
    /// because it was lost: both ends must change keys at the same time, and our addresses are those of the device.
    ///
    /// Whether it waits or connects, [`StaticParams::only_from`] and [`StaticParams::wall_at_origin`] stay.
    pub fn reconfigure(&mut self, params: StaticParams) {
        let now = &mut self.params;
        (now.keepalive, now.limits, now.mssfix) = (params.keepalive, params.limits, params.mssfix);
        (now.retry, now.retry_max, now.resolve_timeout) =
            (params.retry, params.retry_max, params.resolve_timeout);
        now.exit_notify = params.exit_notify;
        self.liveness.set_keepalive(params.keepalive);
        self.lifetime.set_limits(params.limits);
        self.next = Some(Box::new(params));
        self.reach(self.path.unwrap_or(NOWHERE));
    }

    /// The peer is looked or waited for anew: settings that waited for that hold now.
    pub(super) fn take_next(&mut self) {
        let Some(next) = self.next.take() else { return };
        let next = StaticParams {
            only_from: self.params.only_from.clone(),
            wall_at_origin: self.params.wall_at_origin,
            ..*next
        };
        let settings = self.settings(None);
        let old = std::mem::replace(&mut self.params, next);
        if self.params.remotes != old.remotes {
            self.remote = 0;
        }
        self.reach(NOWHERE);
        if !seal_alike(&self.params, &old) {
            self.data(DataEvent::Retire { peer: PeerId::SERVER, session: SESSION });
            self.begin();
            if self.seals {
                self.activate();
            }
        }
        let changed = self.settings(None);
        if self.params.waits() && changed != settings {
            self.events.extend(self.facts(&changed));
            self.events.push_back(Event::Up(changed));
        }
    }
}

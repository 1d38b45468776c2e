//! The reactions of both ends of a tunnel to the data plane's notices, where they are alike.

use adit_core::{Instant, Notice, Path};

use crate::control_channel::ControlChannel;
use crate::data_keys::DataKeys;
use crate::data_message::{self, DataMessage};
use crate::lifetime::Lifetime;
use crate::liveness::Liveness;
use crate::usage::{Traffic, UseLimits};

/// The parts of either end that take notices of its data plane.
pub(crate) struct Hearing<'a> {
    pub(crate) channel: &'a mut ControlChannel,
    pub(crate) data_keys: &'a mut DataKeys,
    pub(crate) liveness: &'a mut Liveness,
    pub(crate) lifetime: &'a mut Lifetime,
    /// When data keys are renewed by use.
    pub(crate) limits: UseLimits,
}

/// The event on which the end itself has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// The peer sent the exit notice.
    ExitNotice,
    /// The peer is somewhere else.
    Moved(Path),
}

impl Hearing<'_> {
    pub(crate) fn hear(self, now: Instant, notice: &Notice) -> Heard {
        match notice {
            Notice::Traffic {
                received, sent, received_bytes, sent_bytes, message_bytes, activity, ..
            } => {
                self.liveness.traffic(activity);
                let bytes = received_bytes.saturating_add(*sent_bytes).saturating_sub(*message_bytes);
                self.lifetime.traffic(activity.last_data().unwrap_or(now), bytes);
                let received = Traffic { packets: *received, bytes: *received_bytes };
                let sent = Traffic { packets: *sent, bytes: *sent_bytes };
                if self.data_keys.traffic(received, sent, self.limits) {
                    self.channel.rekey(now);
                }
            }
            Notice::FirstOpened { session, .. } => self.channel.confirm(now, (session.0 & 7) as u8),
            Notice::LimitNear { .. } => {
                self.channel.rekey(now);
            }
            Notice::Message { payload, .. } if data_message::classify(payload) == DataMessage::OccExit => {
                return Heard::ExitNotice;
            }
            Notice::Message { .. } | Notice::Wanted { .. } => {}
            Notice::Moved { path, .. } => return Heard::Moved(*path),
        }
        Heard::Nothing
    }
}
